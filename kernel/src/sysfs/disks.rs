//! Disks: their files, in Linux's sysfs-block.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text as Out;

use crate::device::virtio::disk::{Disk, SECTOR, WINDOW};
use crate::errno::{ENOMEM, Result};
use crate::fs::block;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Out($out), $($arg)*).map_err(|_| ENOMEM)? };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfDisk {
    Zero,
    One,
    Number,
    Sectors,
    ReadOnly,
    Stat,
    Block,
    PhysicalBlock,
    /// KiB.
    RequestMost,
    DiscardUnit,
    DiscardMost,
    Cache,
    Scheduler,
    /// Minor numbers of its own; of those that it could have.
    Range,
    LongRange,
    Sequence,
    Event,
}

pub const FILES: &[(&str, OfDisk)] = &[
    ("alignment_offset", OfDisk::Zero),
    ("capability", OfDisk::Zero),
    ("dev", OfDisk::Number),
    ("discard_alignment", OfDisk::Zero),
    ("diskseq", OfDisk::Sequence),
    ("ext_range", OfDisk::LongRange),
    ("hidden", OfDisk::Zero),
    ("range", OfDisk::Range),
    ("removable", OfDisk::Zero),
    ("ro", OfDisk::ReadOnly),
    ("size", OfDisk::Sectors),
    ("stat", OfDisk::Stat),
    ("uevent", OfDisk::Event),
];

pub const QUEUE_FILES: &[(&str, OfDisk)] = &[
    ("discard_granularity", OfDisk::DiscardUnit),
    ("discard_max_bytes", OfDisk::DiscardMost),
    ("discard_zeroes_data", OfDisk::Zero),
    ("hw_sector_size", OfDisk::Block),
    ("logical_block_size", OfDisk::Block),
    ("max_hw_sectors_kb", OfDisk::RequestMost),
    ("max_sectors_kb", OfDisk::RequestMost),
    ("minimum_io_size", OfDisk::PhysicalBlock),
    ("optimal_io_size", OfDisk::Zero),
    ("physical_block_size", OfDisk::PhysicalBlock),
    ("rotational", OfDisk::One),
    ("scheduler", OfDisk::Scheduler),
    ("write_cache", OfDisk::Cache),
];

/// The disk in a place.
pub fn get(n: u32) -> Option<(usize, &'static Disk, &'static str)> {
    block::names().nth(n as usize)
}

/// The places of all.
pub fn all() -> impl Iterator<Item = u32> {
    block::names().zip(0..).map(|(_, n)| n)
}

pub fn name(n: u32) -> &'static str {
    get(n).map_or("", |(.., name)| name)
}

/// Which virtio device it is.
pub fn bus_number(n: u32) -> u32 {
    get(n).and_then(|(_, disk, _)| disk.bus_number()).unwrap_or(u32::MAX)
}

/// The disk that a virtio device is.
pub fn of_bus_number(number: u32) -> Option<u32> {
    all().find(|n| bus_number(*n) == number)
}

/// Its number, as the name of a link.
pub fn numbers(n: u32) -> (u64, u64) {
    (block::MAJOR, block::minor(n as usize))
}

pub fn text(of: OfDisk, n: u32, out: &mut Vec<u8>) -> Result {
    let Some((place, disk, name)) = get(n) else { return Ok(()) };
    let shape = &disk.shape;
    let (major, minor) = (block::MAJOR, block::minor(place));
    match of {
        OfDisk::Zero => put!(out, "0"),
        OfDisk::One => put!(out, "1"),
        OfDisk::Number => put!(out, "{major}:{minor}"),
        OfDisk::Sectors => put!(out, "{}", shape.sectors),
        OfDisk::ReadOnly => put!(out, "{}", u8::from(shape.read_only)),
        OfDisk::Stat => block::columns(disk, out)?,
        OfDisk::Block => put!(out, "{}", shape.block),
        OfDisk::PhysicalBlock => put!(out, "{}", shape.physical_block),
        OfDisk::RequestMost => put!(out, "{}", WINDOW / 1024),
        OfDisk::DiscardUnit => put!(out, "{}", if shape.discard_most == 0 { 0 } else { shape.block }),
        OfDisk::DiscardMost => put!(out, "{}", u64::from(shape.discard_most).saturating_mul(SECTOR)),
        OfDisk::Cache => put!(out, "write {}", if shape.has_cache { "back" } else { "through" }),
        OfDisk::Scheduler => put!(out, "[none]"),
        OfDisk::Range => put!(out, "{}", block::MINORS),
        OfDisk::LongRange => put!(out, "256"),
        OfDisk::Sequence => put!(out, "{}", n.saturating_add(1)),
        OfDisk::Event => put!(
            out,
            "MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE=disk\nDISKSEQ={}",
            n.saturating_add(1)
        ),
    }
    Ok(())
}
