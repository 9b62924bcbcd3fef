//! Hands physical memory to `vm::frame`: maps the frame table, each part on the node whose frames it describes, then the
//! free ranges.

use vm::addr::PhysAddr;
use vm::frame;

use super::{FRAME_TABLE, early, tables};

/// One page of 2 MiB of the table describes this much memory (64 bytes for each 4 KiB).
const DESCRIBED: u64 = tables::SIZE_2M / 64 * 4096;

/// Maps the frame table and starts the frame allocator.
///
/// # Safety
/// Once, on the boot CPU, alone, on the final page tables; early memory ends here.
pub unsafe fn init() {
    // The table's own pages come out of the ranges that it describes: list those first, by address.
    let (mut ranges, count) = early::snapshot();
    let ranges = &mut ranges[..count];
    ranges.sort_unstable_by_key(|r| r.range.start);
    let mut mapped: u64 = 0;
    for r in ranges.iter() {
        let (first, last) = (r.range.start / DESCRIBED, (r.range.end - 1) / DESCRIBED);
        for part in first.max(mapped)..=last {
            let address = FRAME_TABLE + (part * tables::SIZE_2M) as usize;
            // SAFETY: boot CPU, alone; the memory is taken for this.
            unsafe {
                let physical = early::allocate(tables::SIZE_2M, tables::SIZE_2M, r.node, u64::MAX);
                tables::map_frame_table(address, physical, tables::SIZE_2M);
            }
            mapped = part + 1;
        }
    }
    let (ranges, count) = early::snapshot();
    for r in &ranges[..count] {
        // SAFETY: free memory, in the direct map, with its part of the table mapped and cleared; early memory ends here.
        unsafe { frame::add_region(PhysAddr(r.range.start), PhysAddr(r.range.end), r.node) };
    }
    if !frame::finish_init() {
        panic!("no memory left after boot");
    }
}
