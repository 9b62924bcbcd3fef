//! What the files of sysfs say, in Linux's formats: sets of CPUs and nodes as lists (0-3,8) or as masks (words of 32 bits, the highest first), and numbers.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text as Out;
use sync::machine;

use super::bus::{self, OfFunction, OfVirtio};
use super::disks::{self, OfDisk};
use super::firmware::{self, OfFirmware};
use super::{devices, memory};
use crate::arch;
use crate::arch::seat::{CacheKind, Seat};
use crate::errno::{EINVAL, ENOMEM, Result};
use vm::large::{self, LargePages};
use vm::policy;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Out($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// What every text says its size is: Linux's page.
const PAGE: u64 = 4096;

/// CPUs or nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Set {
    Cpus,
    Nodes,
    NodesWithCpus,
    OfNode(u32),
    /// Those that sit with a CPU.
    With(OfCpu, u32),
    /// Those that share the second's cache with the first.
    Sharing(u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfCpu {
    Core,
    Package,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfCache {
    Line,
    Id,
    Level,
    Sets,
    Partitions,
    Size,
    Kind,
    Ways,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfNode {
    Distances,
    /// How much it has and how much of it is free.
    Memory,
    FreePages,
    /// Whose CPUs took pages, and where.
    Taken,
}

/// A file's text, without the end of its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// No line at all; an empty one.
    Silent,
    Nothing,
    Zero,
    One,
    /// The highest number that a CPU could have.
    LastCpu,
    Word(&'static str),
    /// The number of what has none that is known.
    NoId,
    /// Have two CPUs one core?
    ThreadsShare,
    List(Set),
    Mask(Set),
    CoreId(u32),
    PackageId(u32),
    /// Of a cache of a CPU, by their numbers.
    Cache(OfCache, u32, u32),
    Node(OfNode, u32),
    Disk(OfDisk, u32),
    /// Pages in a row that a node gets (`vm::policy`). It can be written.
    Weight(u32),
    /// Which memory comes in large pages (`vm::large`). It can be written.
    LargePages,
    Function(OfFunction, u32),
    Virtio(OfVirtio, u32),
    Firmware(OfFirmware),
    /// What programs are told of a device of characters; its number.
    CharEvent(u32),
    CharNumber(u32),
    /// Terminals that /dev/console leads to.
    Consoles,
    /// Bytes of a block of memory, without 0x; the number of one, in hexadecimal.
    BlockBytes,
    BlockNumber(u32),
}

impl Set {
    /// As many as it could have.
    fn most(self) -> u32 {
        if matches!(self, Set::Nodes | Set::NodesWithCpus) { machine::nodes() } else { machine::cpus() }
    }

    fn has(self, n: u32) -> bool {
        let alike = |cpu: u32, what: fn(Seat) -> u32| what(arch::seat(cpu)) == what(arch::seat(n));
        match self {
            Set::Cpus | Set::Nodes => true,
            Set::NodesWithCpus => (0..machine::cpus()).any(|cpu| machine::node_of(cpu) == n),
            Set::OfNode(node) => machine::node_of(n) == node,
            Set::With(OfCpu::Core, cpu) => alike(cpu, |seat| seat.core),
            Set::With(OfCpu::Package, cpu) => alike(cpu, |seat| seat.package),
            Set::Sharing(cpu, cache) => {
                arch::cache(cache).is_some_and(|cache| cache.is_shared(arch::seat(cpu), arch::seat(n)))
            }
        }
    }

    fn list(self, out: &mut Vec<u8>) -> Result {
        let (most, mut n, mut between) = (self.most(), 0u32, "");
        while n < most {
            if !self.has(n) {
                n = n.saturating_add(1);
                continue;
            }
            let first = n;
            while n.saturating_add(1) < most && self.has(n.saturating_add(1)) {
                n = n.saturating_add(1);
            }
            if first == n {
                put!(out, "{between}{n}")
            } else {
                put!(out, "{between}{first}-{n}")
            }
            between = ",";
            n = n.saturating_add(1);
        }
        Ok(())
    }

    fn mask(self, out: &mut Vec<u8>) -> Result {
        let most = self.most();
        for word in (0..most.div_ceil(32)).rev() {
            let base = word.saturating_mul(32);
            let width = most.saturating_sub(base).min(32);
            let set = (0..width).filter(|bit| self.has(base.saturating_add(*bit)));
            let bits = set.fold(0u32, |bits, bit| bits | 1 << bit);
            put!(
                out,
                "{bits:0width$x}{}",
                if word == 0 { "" } else { "," },
                width = width.div_ceil(4) as usize
            );
        }
        Ok(())
    }
}

const LARGE_PAGES: [(&str, LargePages); 3] =
    [("always", LargePages::Always), ("madvise", LargePages::Asked), ("never", LargePages::Never)];

/// What Linux calls `name` in transparent_hugepage/enabled, and in `transparent_hugepage=` on the kernel's command line.
fn large_pages_named(name: &str) -> Option<LargePages> {
    LARGE_PAGES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
}

/// Takes `transparent_hugepage=` from the kernel's command line.
pub fn configure(command_line: &str) {
    let words = command_line.split_ascii_whitespace();
    let mut named =
        words.filter_map(|word| word.strip_prefix("transparent_hugepage=")).filter_map(large_pages_named);
    if let Some(mode) = named.next_back() {
        large::set_large_pages(mode);
    }
}

impl Text {
    /// May it be changed?
    pub fn is_setting(self) -> bool {
        matches!(self, Text::Weight(_) | Text::LargePages)
    }

    /// Takes `data` as what it says from now on.
    ///
    /// # Errors
    /// EINVAL: it means nothing there.
    pub fn set(self, data: &[u8]) -> Result {
        let text = core::str::from_utf8(data).map_err(|_| EINVAL)?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let node = match self {
            // As on Linux, nothing written changes nothing.
            Text::LargePages if data.is_empty() => return Ok(()),
            Text::LargePages => {
                large::set_large_pages(large_pages_named(text).ok_or(EINVAL)?);
                return Ok(());
            }
            Text::Weight(node) => node,
            _ => return Err(EINVAL),
        };
        // As Linux takes numbers: nothing and 0 are the default.
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(rest) => (rest, 16),
            None if text.len() > 1 && text.starts_with('0') => (text, 8),
            None => (text.strip_prefix('+').unwrap_or(text), 10),
        };
        let weight = match text {
            "" => 0,
            _ if digits.starts_with('+') => return Err(EINVAL),
            _ => u8::from_str_radix(digits, radix).map_err(|_| EINVAL)?,
        };
        policy::set_weight(node as usize, weight);
        Ok(())
    }

    /// May root alone read it?
    pub fn is_secret(self) -> bool {
        matches!(self, Text::Firmware(of) if of.is_secret())
    }

    /// Of registers and tables, which are no text, how long they are.
    fn bytes(self) -> Option<u64> {
        match self {
            Text::Function(OfFunction::Configuration, _) => Some(bus::CONFIGURATION),
            Text::Firmware(of) => of.bytes(),
            _ => None,
        }
    }

    /// Is it text, with an end of its line? Where a device has nothing to tell there is no line.
    pub fn is_lines(self) -> bool {
        self != Text::Silent && self.bytes().is_none()
    }

    /// What a file says its size is.
    pub fn size(self) -> u64 {
        self.bytes().unwrap_or(PAGE)
    }

    pub fn write(self, out: &mut Vec<u8>) -> Result {
        match self {
            Text::Silent | Text::Nothing => {}
            Text::Zero => put!(out, "0"),
            Text::One => put!(out, "1"),
            Text::Word(word) => put!(out, "{word}"),
            Text::NoId => put!(out, "65535"),
            Text::ThreadsShare => put!(out, "{}", u8::from(arch::has_threads())),
            Text::LastCpu => put!(out, "{}", machine::MAX_CPUS.saturating_sub(1)),
            Text::List(set) => set.list(out)?,
            Text::Mask(set) => set.mask(out)?,
            Text::CoreId(cpu) => put!(out, "{}", arch::seat(cpu).core_in_package),
            Text::PackageId(cpu) => put!(out, "{}", arch::seat(cpu).package),
            Text::Cache(of, cpu, n) => of_cache(of, cpu, n, out)?,
            Text::Disk(of, n) => disks::text(of, n, out)?,
            Text::Function(of, n) => bus::function_text(of, n, out)?,
            Text::Virtio(of, n) => bus::virtio_text(of, n, out)?,
            Text::Firmware(of) => firmware::text(of, out)?,
            Text::CharEvent(n) => devices::get(n).map_or(Ok(()), |device| device.uevent(out))?,
            Text::CharNumber(n) => {
                if let Some(device) = devices::get(n) {
                    put!(out, "{}:{}", device.major, device.minor)
                }
            }
            Text::Consoles => devices::consoles(out)?,
            Text::BlockBytes => put!(out, "{:x}", memory::block_bytes()),
            Text::BlockNumber(n) => put!(out, "{n:08x}"),
            Text::Node(of, node) => of_node(of, node, out)?,
            Text::LargePages => {
                for (n, (name, mode)) in (0..).zip(LARGE_PAGES) {
                    let gap = if n > 0 { " " } else { "" };
                    let (open, close) = if mode == large::large_pages() { ("[", "]") } else { ("", "") };
                    put!(out, "{gap}{open}{name}{close}");
                }
            }
            Text::Weight(node) => put!(out, "{}", policy::weight_of(node as usize)),
        }
        Ok(())
    }
}

fn of_node(of: OfNode, node: u32, out: &mut Vec<u8>) -> Result {
    // One without memory has none of it.
    let memory = vm::frame::numa_node(node).unwrap_or_default();
    let row = |out: &mut Vec<u8>, name: &str, pages: u64, end: &str| {
        write!(Out(out), "Node {node} {name:<15} {:>8} kB{end}", pages.saturating_mul(4)).map_err(|_| ENOMEM)
    };
    match of {
        OfNode::Distances => {
            for other in 0..machine::nodes() {
                put!(out, "{}{}", if other == 0 { "" } else { " " }, arch::distance(node, other));
            }
        }
        OfNode::Memory => {
            row(out, "MemTotal:", memory.total, "\n")?;
            row(out, "MemFree:", memory.free, "\n")?;
            row(out, "MemUsed:", memory.total.saturating_sub(memory.free), "\n")?;
            let large = vm::frame::large_pages(Some(node as usize)).saturating_mul(vm::ENTRIES as u64);
            row(out, "AnonHugePages:", large, "")?;
        }
        OfNode::Taken => {
            let hits = memory.local.saturating_add(memory.placed);
            let missed = memory.missed.saturating_add(memory.misplaced);
            let foreign = memory.foreign.saturating_add(memory.lacked);
            let near = memory.local.saturating_add(memory.placed_near);
            let other = hits.saturating_add(missed).saturating_sub(near);
            put!(out, "numa_hit {hits}\nnuma_miss {missed}\nnuma_foreign {foreign}\n");
            put!(out, "interleave_hit {}\nlocal_node {near}\nother_node {other}", memory.interleaved);
        }
        OfNode::FreePages => put!(out, "nr_free_pages {}", memory.free),
    }
    Ok(())
}

fn of_cache(of: OfCache, cpu: u32, n: u32, out: &mut Vec<u8>) -> Result {
    let Some(cache) = arch::cache(n) else { return Ok(()) };
    match of {
        OfCache::Line => put!(out, "{}", cache.line),
        OfCache::Id => put!(out, "{}", cache.id(arch::seat(cpu))),
        OfCache::Level => put!(out, "{}", cache.level),
        OfCache::Sets => put!(out, "{}", cache.sets),
        OfCache::Partitions => put!(out, "{}", cache.partitions),
        OfCache::Size => put!(out, "{}K", cache.size() / 1024),
        OfCache::Kind => put!(
            out,
            "{}",
            match cache.kind {
                CacheKind::Data => "Data",
                CacheKind::Instruction => "Instruction",
                CacheKind::Unified => "Unified",
            }
        ),
        OfCache::Ways => put!(out, "{}", cache.ways),
    }
    Ok(())
}
