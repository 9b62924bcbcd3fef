//! Physical memory before the frame allocator: the usable ranges by node, from which boot takes what it needs for
//! good (page tables, frame table, per-CPU areas). What is left goes to `vm::frame`.
//!
//! Boot CPU only, alone.

use super::super::boot::{PhysRange, boot_info};
use super::super::cpu::BootCell;
use super::direct_map;

const MAX_RANGES: usize = 256;
const PAGE: u64 = 4096;
/// Memory below this stays out: firmware data, and the start-up code of the other CPUs.
const LOW_MEMORY: u64 = 0x10_0000;

/// Free memory on one node.
#[derive(Clone, Copy)]
pub struct NodeRange {
    pub range: PhysRange,
    pub node: u32,
}

pub struct EarlyMemory {
    ranges: [NodeRange; MAX_RANGES],
    count: usize,
}

static EARLY: BootCell<EarlyMemory> = BootCell::new(EarlyMemory {
    ranges: [NodeRange { range: PhysRange { start: 0, end: 0 }, node: 0 }; MAX_RANGES],
    count: 0,
});

impl EarlyMemory {
    fn add(&mut self, start: u64, end: u64, node: u32) {
        let start = start.next_multiple_of(PAGE);
        let end = end & !(PAGE - 1);
        if start >= end {
            return;
        }
        if let Some(place) = self.ranges.get_mut(self.count) {
            *place = NodeRange { range: PhysRange { start, end }, node };
            self.count += 1;
        }
    }

    /// Takes `hole` out of the free ranges.
    fn remove(&mut self, hole: PhysRange) {
        let hole = PhysRange { start: hole.start & !(PAGE - 1), end: hole.end.next_multiple_of(PAGE) };
        for i in 0..self.count {
            let NodeRange { range, node } = self.ranges[i];
            if hole.end <= range.start || hole.start >= range.end {
                continue;
            }
            self.ranges[i].range = PhysRange { start: range.start, end: hole.start.max(range.start) };
            self.add(hole.end, range.end, node);
        }
    }

    fn take(&mut self, size: u64, align: u64, node: Option<u32>, limit: u64) -> Option<u64> {
        // Lowest address first, so that what boot needs early is in reach of the first page tables.
        let mut best: Option<(u64, usize)> = None;
        for (i, entry) in self.ranges.iter().enumerate().take(self.count) {
            let start = entry.range.start.next_multiple_of(align);
            let fits = start + size <= entry.range.end.min(limit) && node.is_none_or(|n| n == entry.node);
            if fits && best.is_none_or(|(address, _)| start < address) {
                best = Some((start, i));
            }
        }
        let (start, i) = best?;
        let NodeRange { range, node } = self.ranges[i];
        self.ranges[i].range.start = start + size;
        self.add(range.start, start, node);
        Some(start)
    }
}

/// Builds the free ranges from the loader's map, cut at the node borders that `node_borders` gives for each range,
/// less the kernel image and the initramfs.
///
/// # Safety
/// Once, on the boot CPU, alone.
pub unsafe fn init(node_borders: impl Fn(PhysRange, &mut dyn FnMut(PhysRange, u32))) {
    unsafe extern "C" {
        static __boot_start: u8;
        static __data_end: u8;
    }
    // SAFETY: the caller says that nothing else uses the cell.
    let early = unsafe { EARLY.get_mut() };
    for &range in boot_info().usable() {
        let range = PhysRange { start: range.start.max(LOW_MEMORY), end: range.end };
        if range.start < range.end {
            node_borders(range, &mut |part, node| early.add(part.start, part.end, node));
        }
    }
    early.remove(PhysRange {
        start: &raw const __boot_start as u64,
        end: super::physical_of_image(&raw const __data_end as usize),
    });
    if let Some(initramfs) = boot_info().initramfs {
        early.remove(initramfs);
    }
}

/// Takes cleared memory for good: from `node` if it has some, otherwise from anywhere. `limit`: end of the addresses
/// wanted.
///
/// # Safety
/// On the boot CPU, alone, before the ranges went to the frame allocator. The memory must be in reach of the page
/// tables in use.
pub unsafe fn allocate(size: u64, align: u64, node: u32, limit: u64) -> u64 {
    // SAFETY: as the caller says.
    let early = unsafe { EARLY.get_mut() };
    let size = size.next_multiple_of(PAGE);
    let align = align.max(PAGE);
    let Some(address) =
        early.take(size, align, Some(node), limit).or_else(|| early.take(size, align, None, limit))
    else {
        panic!("not enough memory to boot: {size} bytes wanted");
    };
    // SAFETY: just taken, so nobody else's; mapped, as the caller says.
    unsafe { direct_map(address).write_bytes(0, size as usize) };
    address
}

/// The ranges still free, unsorted, and how many there are.
pub fn snapshot() -> ([NodeRange; MAX_RANGES], usize) {
    let mut ranges = EARLY.get().ranges;
    let mut count = 0;
    for i in 0..EARLY.get().count {
        if ranges[i].range.start < ranges[i].range.end {
            ranges[count] = ranges[i];
            count += 1;
        }
    }
    (ranges, count)
}
