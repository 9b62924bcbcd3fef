//! What the loader hands over: the `hvm_start_info` of the PVH boot ABI (Xen's public/arch-x86/hvm/start_info.h).
//!
//! Everything is copied out of loader memory here, except the initramfs, which stays where it is and is kept out of
//! the free memory. Runs once, on the first page tables, which map the low 4 GiB at the direct map's base; the loader
//! puts its structures there.

use super::super::cpu::BootCell;
use super::super::memory::direct_map;

const MAGIC: u32 = 0x336e_c578;
const MEMORY_USABLE: u32 = 1;
/// The largest part of the command line that is kept (Linux's COMMAND_LINE_SIZE).
const COMMAND_LINE: usize = 2048;
/// Entries of the memory map that are kept; QEMU gives fewer than ten.
const MAX_RANGES: usize = 64;
/// What the first page tables reach.
const REACH: u64 = 1 << 32;

#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
struct Module {
    address: u64,
    size: u64,
    command_line: u64,
    reserved: u64,
}

#[repr(C)]
struct MapEntry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// A range of physical memory, `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhysRange {
    pub start: u64,
    pub end: u64,
}

/// The loader's facts, in the kernel's own memory.
pub struct BootInfo {
    command_line: [u8; COMMAND_LINE],
    command_line_len: usize,
    ranges: [PhysRange; MAX_RANGES],
    range_count: usize,
    pub initramfs: Option<PhysRange>,
    pub rsdp: Option<u64>,
}

impl BootInfo {
    /// The kernel command line.
    pub fn command_line(&self) -> &str {
        self.command_line
            .get(..self.command_line_len)
            .and_then(|s| core::str::from_utf8(s).ok())
            .unwrap_or("")
    }

    /// Usable memory, as the loader listed it.
    pub fn usable(&self) -> &[PhysRange] {
        self.ranges.get(..self.range_count).unwrap_or(&[])
    }
}

static BOOT_INFO: BootCell<BootInfo> = BootCell::new(BootInfo {
    command_line: [0; COMMAND_LINE],
    command_line_len: 0,
    ranges: [PhysRange { start: 0, end: 0 }; MAX_RANGES],
    range_count: 0,
    initramfs: None,
    rsdp: None,
});

/// What the loader said.
pub fn boot_info() -> &'static BootInfo {
    BOOT_INFO.get()
}

/// A loader structure in reach of the first page tables.
fn at<T>(address: u64) -> Option<&'static T> {
    if address == 0
        || !address.is_multiple_of(align_of::<T>() as u64)
        || address + size_of::<T>() as u64 > REACH
    {
        return None;
    }
    // SAFETY: in reach and aligned; loader structures are plain integers, and nobody writes them.
    Some(unsafe { &*direct_map(address).cast::<T>() })
}

/// Reads the loader's structures.
///
/// # Safety
/// Once, on the boot CPU, before anything calls [`boot_info`].
pub unsafe fn read(start_info: usize) {
    // SAFETY: the caller says that nothing else uses the cell yet.
    let boot = unsafe { BOOT_INFO.get_mut() };
    let Some(info) = at::<StartInfo>(start_info as u64).filter(|i| i.magic == MAGIC) else {
        panic!("no hvm_start_info: not started through PVH");
    };
    for (place, offset) in boot.command_line.iter_mut().zip(0..) {
        let Some(&byte) = at::<u8>(info.command_line).and(at::<u8>(info.command_line + offset)) else {
            break;
        };
        if byte == 0 {
            break;
        }
        *place = byte;
        boot.command_line_len += 1;
    }
    if info.modules > 0
        && let Some(module) = at::<Module>(info.module_list)
    {
        boot.initramfs = Some(PhysRange { start: module.address, end: module.address + module.size });
    }
    boot.rsdp = (info.rsdp != 0).then_some(info.rsdp);
    if info.version == 0 {
        panic!("the loader gave no memory map");
    }
    for i in 0..u64::from(info.memory_map_entries) {
        let Some(entry) = at::<MapEntry>(info.memory_map + i * size_of::<MapEntry>() as u64) else { break };
        if entry.kind == MEMORY_USABLE
            && let Some(place) = boot.ranges.get_mut(boot.range_count)
        {
            *place = PhysRange { start: entry.address, end: entry.address.saturating_add(entry.size) };
            boot.range_count += 1;
        }
    }
}
