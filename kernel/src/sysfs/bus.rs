//! Functions of PCI and virtio devices: their files, in Linux's sysfs-bus-pci and as its bus of virtio devices has them.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text as Out;
use virtio::pci::{Decoded, Resource};

use super::folder::place_name;
use crate::device::pci::{self, Function, register};
use crate::device::virtio::bus::{self, Where};
use crate::errno::{ENOMEM, Result};
use crate::fs::caller::{self, Capability};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Out($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// Bytes of configuration space, and those that all may read.
pub const CONFIGURATION: u64 = 256;
const HEADER: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfFunction {
    Class,
    Device,
    Enabled,
    Event,
    Interrupt,
    Modalias,
    Resources,
    Revision,
    SubsystemDevice,
    SubsystemVendor,
    Vendor,
    /// Its configuration space, whose first 64 bytes all may read.
    Configuration,
}

pub const FUNCTION_FILES: &[(&str, OfFunction)] = &[
    ("class", OfFunction::Class),
    ("config", OfFunction::Configuration),
    ("device", OfFunction::Device),
    ("enable", OfFunction::Enabled),
    ("irq", OfFunction::Interrupt),
    ("modalias", OfFunction::Modalias),
    ("resource", OfFunction::Resources),
    ("revision", OfFunction::Revision),
    ("subsystem_device", OfFunction::SubsystemDevice),
    ("subsystem_vendor", OfFunction::SubsystemVendor),
    ("uevent", OfFunction::Event),
    ("vendor", OfFunction::Vendor),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfVirtio {
    Device,
    Event,
    Features,
    Modalias,
    Status,
    Vendor,
}

pub const VIRTIO_FILES: &[(&str, OfVirtio)] = &[
    ("device", OfVirtio::Device),
    ("features", OfVirtio::Features),
    ("modalias", OfVirtio::Modalias),
    ("status", OfVirtio::Status),
    ("uevent", OfVirtio::Event),
    ("vendor", OfVirtio::Vendor),
];

/// The virtio device that a function is.
pub fn virtio_of(function: u32) -> Option<u32> {
    let place = bus::members().iter().position(|member| member.place == Where::Function(function))?;
    u32::try_from(place).ok()
}

/// A file of a function.
pub fn function_text(of: OfFunction, n: u32, out: &mut Vec<u8>) -> Result {
    let Some(function) = pci::functions().get(n as usize) else { return Ok(()) };
    let (id, class) = (function.register(register::ID), function.register(register::CLASS));
    let subsystem = subsystem(function);
    match of {
        OfFunction::Vendor => put!(out, "0x{:04x}", id & 0xffff),
        OfFunction::Device => put!(out, "0x{:04x}", id >> 16),
        OfFunction::Class => put!(out, "0x{:06x}", class >> 8),
        OfFunction::Revision => put!(out, "0x{:02x}", class & 0xff),
        OfFunction::SubsystemVendor => put!(out, "0x{:04x}", subsystem & 0xffff),
        OfFunction::SubsystemDevice => put!(out, "0x{:04x}", subsystem >> 16),
        OfFunction::Interrupt => put!(out, "{}", function.register(register::INTERRUPT) & 0xff),
        OfFunction::Enabled => put!(out, "{}", u8::from(virtio_of(n).is_some())),
        OfFunction::Modalias => modalias(function, out)?,
        OfFunction::Resources => resources(function, out)?,
        OfFunction::Event => {
            if virtio_of(n).is_some() {
                put!(out, "DRIVER=virtio-pci\n");
            }
            put!(out, "PCI_CLASS={:X}\nPCI_ID={:04X}:{:04X}\n", class >> 8, id & 0xffff, id >> 16);
            put!(out, "PCI_SUBSYS_ID={:04X}:{:04X}\n", subsystem & 0xffff, subsystem >> 16);
            put!(out, "PCI_SLOT_NAME=");
            out.try_extend_from_slice(place_name(function.place).bytes())?;
            put!(out, "\nMODALIAS=");
            modalias(function, out)?;
        }
        OfFunction::Configuration => {
            let shown = if caller::capable(Capability::SYS_ADMIN) { CONFIGURATION } else { HEADER };
            for byte in function.bytes().take(shown as usize) {
                out.try_push(byte)?;
            }
        }
    }
    Ok(())
}

/// A bridge has none.
fn subsystem(function: &Function) -> u32 {
    if function.is_bridge() { 0 } else { function.register(register::SUBSYSTEM) }
}

fn modalias(function: &Function, out: &mut Vec<u8>) -> Result {
    let (id, class, subsystem) =
        (function.register(register::ID), function.register(register::CLASS), subsystem(function));
    put!(out, "pci:v{:08X}d{:08X}", id & 0xffff, id >> 16);
    put!(out, "sv{:08X}sd{:08X}", subsystem & 0xffff, subsystem >> 16);
    put!(out, "bc{:02X}sc{:02X}i{:02X}", class >> 24, class >> 16 & 0xff, class >> 8 & 0xff);
    Ok(())
}

/// Lines of first address, last address and what lies there, for BARs, the ROM and, without any, those of functions that are virtual.
fn resources(function: &Function, out: &mut Vec<u8>) -> Result {
    const LINES: usize = 13;
    let known = function.resources.iter().copied().chain(core::iter::repeat(None));
    for (n, resource) in known.take(LINES).enumerate() {
        let (first, last, flags) = match resource {
            Some(resource) => columns(resource),
            None => (0, 0, 0),
        };
        put!(out, "{}0x{first:016x} 0x{last:016x} 0x{flags:016x}", if n == 0 { "" } else { "\n" });
    }
    Ok(())
}

/// The last column has the bits by which Linux tells resources apart: ports, memory, that it may be read ahead, is aligned to its size, has 64 bits; the lowest
/// four are the BAR's.
fn columns(resource: Resource) -> (u64, u64, u64) {
    const PORTS: u64 = 0x100;
    const MEMORY: u64 = 0x200;
    const PREFETCH: u64 = 0x2000;
    const READ_ONLY: u64 = 0x4000;
    const SIZE_ALIGNED: u64 = 0x4_0000;
    const WIDE: u64 = 0x10_0000;
    let own = match resource.decoded {
        Decoded::Ports => PORTS | 1,
        Decoded::Memory { wide, prefetchable } => {
            let wide = if wide { WIDE | 4 } else { 0 };
            MEMORY | wide | if prefetchable { PREFETCH | 8 } else { 0 }
        }
        Decoded::Rom => MEMORY | PREFETCH | READ_ONLY,
    };
    let last = resource.address.saturating_add(resource.len).saturating_sub(1);
    (resource.address, last, own | SIZE_ALIGNED)
}

/// A file of a virtio device.
pub fn virtio_text(of: OfVirtio, n: u32, out: &mut Vec<u8>) -> Result {
    let Some(member) = bus::members().get(n as usize) else { return Ok(()) };
    let (kind, vendor) = (member.kind, member.vendor);
    match of {
        OfVirtio::Device => put!(out, "0x{kind:04x}"),
        OfVirtio::Vendor => put!(out, "0x{vendor:04x}"),
        OfVirtio::Status => put!(out, "0x{:08x}", member.status()),
        OfVirtio::Modalias => put!(out, "virtio:d{kind:08X}v{vendor:08X}"),
        OfVirtio::Features => {
            for bit in 0..64 {
                out.try_push(if member.features() >> bit & 1 != 0 { b'1' } else { b'0' })?;
            }
        }
        OfVirtio::Event => {
            if let Some(driver) = member.driver() {
                put!(out, "DRIVER={driver}\n");
            }
            put!(out, "MODALIAS=virtio:d{kind:08X}v{vendor:08X}");
        }
    }
    Ok(())
}
