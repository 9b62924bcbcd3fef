//! All frames that the allocator was given, for the audit of memory (`crate::audit`).
//!
//! Written while one CPU boots alone; no locks.

use super::{__darter_direct_map_base, __darter_frame_table, Frame, PhysAddr};
use crate::addr::{PAGE_SHIFT, PAGE_SIZE};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// As many regions as a machine's memory map has, and many more.
const MOST: usize = 64;

struct Region {
    first: AtomicU32,
    /// Exclusive.
    last: AtomicU32,
}

static REGIONS: [Region; MOST] =
    [const { Region { first: AtomicU32::new(0), last: AtomicU32::new(0) } }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(super) fn add(first: u32, last: u32) {
    let n = COUNT.fetch_add(1, Relaxed);
    assert!(n < MOST, "more regions of memory than the audit can look at");
    REGIONS[n].first.store(first, Relaxed);
    REGIONS[n].last.store(last, Relaxed);
}

fn regions() -> impl Iterator<Item = (u32, u32)> {
    REGIONS
        .iter()
        .take(COUNT.load(Relaxed))
        .map(|region| (region.first.load(Relaxed), region.last.load(Relaxed)))
}

/// All frames, region by region.
pub(crate) fn every() -> impl Iterator<Item = &'static Frame> {
    regions().flat_map(|(first, last)| first..last).map(Frame::by_number)
}

/// One more than the highest number of a frame.
pub(crate) fn end_of_numbers() -> u32 {
    regions().map(|(_, last)| last).max().unwrap_or(0)
}

fn by_number(number: usize) -> Option<&'static Frame> {
    let number = u32::try_from(number).ok()?;
    regions().any(|(first, last)| (first..last).contains(&number)).then(|| Frame::by_number(number))
}

/// The frame of the page at a physical address, if the allocator has it.
pub(crate) fn known(address: PhysAddr) -> Option<&'static Frame> {
    by_number((address.0 >> PAGE_SHIFT) as usize)
}

/// The frame whose metadata begin at an address.
pub(crate) fn with_metadata_at(address: usize) -> Option<&'static Frame> {
    let offset = address.checked_sub(__darter_frame_table())?;
    offset.is_multiple_of(size_of::<Frame>()).then_some(offset / size_of::<Frame>()).and_then(by_number)
}

/// The frame whose page the direct map shows at an address.
pub(crate) fn with_page_at(address: usize) -> Option<&'static Frame> {
    address.checked_sub(__darter_direct_map_base()).and_then(|offset| by_number(offset / PAGE_SIZE))
}
