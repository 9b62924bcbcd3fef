//! The kernel's page tables: direct map, image with W^X, device registers, and single pages for stacks.
//!
//! SDM vol. 3, chapter 5 (paging), 5.6 (access rights). All kernel entries are global; none is ever user-accessible.
//! Lock: after boot, changes to tables below the top level are made under the caller's lock (kernel stacks have one).

use super::super::boot::{PhysRange, boot_info};
use super::super::cpu::{BootCell, features, reg};
use super::{DEVICES, DIRECT_MAP, FRAME_TABLE, IMAGE, STACKS, direct_map, early};
pub use crate::arch::entry::ADDRESS;
use crate::arch::entry::{ACCESSED, DIRTY, LARGE, NO_EXECUTE, PRESENT, WRITABLE};

const WRITE_THROUGH: u64 = 1 << 3;
const UNCACHED: u64 = 1 << 4;
const GLOBAL: u64 = 1 << 8;

/// Kernel data: accessed and dirty are set beforehand, so that the processor never has to write the entry.
const DATA: u64 = PRESENT | WRITABLE | GLOBAL | NO_EXECUTE | ACCESSED | DIRTY;
const READ_ONLY: u64 = PRESENT | GLOBAL | NO_EXECUTE | ACCESSED;
const TEXT: u64 = PRESENT | GLOBAL | ACCESSED;
const DEVICE: u64 = DATA | UNCACHED | WRITE_THROUGH;

pub const SIZE_4K: u64 = 1 << 12;
pub const SIZE_2M: u64 = 1 << 21;
const SIZE_1G: u64 = 1 << 30;
/// Until the final tables are loaded, tables must lie where the first ones reach.
const BOOT_REACH: u64 = 1 << 32;

/// The root used by kernel threads and as the pattern for every space's kernel half.
#[repr(C, align(4096))]
struct Root([u64; 512]);
static ROOT: BootCell<Root> = BootCell::new(Root([0; 512]));
static NEXT_DEVICE: BootCell<usize> = BootCell::new(DEVICES);

/// Physical address of the kernel's own root.
pub fn kernel_root() -> u64 {
    super::physical_of_image(ROOT.get() as *const Root as usize)
}

/// The top-level entries of the kernel half, by index.
pub fn kernel_half() -> &'static [u64] {
    &ROOT.get().0[256..]
}

/// A source of page-table pages, cleared.
pub trait TableSource {
    fn table(&mut self) -> Option<u64>;
}

/// Tables for boot, from early memory.
pub struct EarlyTables(());

impl EarlyTables {
    /// # Safety
    /// Used on the boot CPU only, alone, while early memory lasts.
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl TableSource for EarlyTables {
    fn table(&mut self) -> Option<u64> {
        // SAFETY: as who made this has promised.
        Some(unsafe { early::allocate(SIZE_4K, SIZE_4K, 0, BOOT_REACH) })
    }
}

/// Page-table pages from the frame allocator; they stay in the kernel's tables for good.
pub struct FrameTables;

impl TableSource for FrameTables {
    fn table(&mut self) -> Option<u64> {
        let frame = vm::frame::alloc_zeroed()?;
        frame.set_kind(vm::frame::FrameKind::Table);
        Some(frame.into_frame().addr().0)
    }
}

/// Index of `address` in the table whose entries cover `size` bytes.
fn index(address: usize, size: u64) -> usize {
    (address as u64 / size) as usize & 511
}

/// The entry for `address` at the level whose entries cover `size` bytes; missing tables on the way are made.
///
/// # Safety
/// The caller alone changes this part of the kernel's tables.
unsafe fn entry(address: usize, size: u64, source: &mut impl TableSource) -> Option<*mut u64> {
    let mut table = ROOT.get().0.as_ptr().cast_mut();
    let mut span = SIZE_1G * 512;
    loop {
        // SAFETY: `table` is a page-table page of 512 entries, seen through the image or the direct map.
        let entry = unsafe { table.add(index(address, span)) };
        if span == size {
            return Some(entry);
        }
        // SAFETY: as above; the caller alone changes it.
        let mut value = unsafe { entry.read_volatile() };
        if value & PRESENT == 0 {
            value = source.table()? | PRESENT | WRITABLE | ACCESSED;
            // SAFETY: as above.
            unsafe { entry.write_volatile(value) };
        }
        assert!(value & LARGE == 0, "a large page is in the way of a kernel mapping");
        table = direct_map(value & ADDRESS).cast();
        span /= 512;
    }
}

/// Maps one page of `size` bytes.
///
/// # Safety
/// As [`entry`]; the mapping grants nothing that the kernel does not own.
pub unsafe fn map_page(
    address: usize,
    physical: u64,
    size: u64,
    bits: u64,
    source: &mut impl TableSource,
) -> bool {
    // SAFETY: as the caller says.
    let Some(entry) = (unsafe { entry(address, size, source) }) else { return false };
    let large = if size == SIZE_4K { 0 } else { LARGE };
    // SAFETY: `entry` points into a table that the caller alone changes.
    unsafe { entry.write_volatile(physical | bits | large) };
    true
}

/// Maps one 4 KiB page of kernel data.
///
/// # Safety
/// As [`map_page`].
pub unsafe fn map_data_page(address: usize, physical: u64, source: &mut impl TableSource) -> bool {
    // SAFETY: as the caller says.
    unsafe { map_page(address, physical, SIZE_4K, DATA, source) }
}

/// Takes a 4 KiB kernel page away and returns its physical address, if it was mapped; stale translations remain until the
/// caller has flushed them everywhere.
///
/// # Safety
/// As [`map_page`]; the page is no longer used.
pub unsafe fn unmap_page(address: usize) -> Option<u64> {
    struct Nothing;
    impl TableSource for Nothing {
        fn table(&mut self) -> Option<u64> {
            None
        }
    }
    // SAFETY: as the caller says.
    let entry = unsafe { entry(address, SIZE_4K, &mut Nothing) }?;
    // SAFETY: as above.
    let value = unsafe { entry.read_volatile() };
    // SAFETY: as above.
    unsafe { entry.write_volatile(0) };
    (value & PRESENT != 0).then_some(value & ADDRESS)
}

/// Maps a range with the largest pages that fit.
///
/// # Safety
/// As [`map_page`], on the boot CPU, alone, while early memory lasts.
unsafe fn map_range(address: usize, range: PhysRange, bits: u64, largest: u64) {
    let mut at = range.start;
    while at < range.end {
        let size = [SIZE_1G, SIZE_2M, SIZE_4K]
            .into_iter()
            .find(|&s| s <= largest && at.is_multiple_of(s) && range.end - at >= s)
            .unwrap_or(SIZE_4K);
        // SAFETY: as the caller says.
        unsafe { map_page(address + (at - range.start) as usize, at, size, bits, &mut EarlyTables::new()) };
        at += size;
    }
}

/// Builds the final tables and loads them; the identity mapping is gone afterwards.
///
/// # Safety
/// Once, on the boot CPU, alone, on the first page tables, with early memory ready.
pub unsafe fn init() {
    unsafe extern "C" {
        static __text_start: u8;
        static __rodata_start: u8;
        static __data_start: u8;
        static __data_end: u8;
    }
    let text = &raw const __text_start as usize;
    let rodata = &raw const __rodata_start as usize;
    let data = &raw const __data_start as usize;
    let data_end = (&raw const __data_end as usize).next_multiple_of(SIZE_2M as usize);
    // Every top-level entry that the kernel will ever use.
    for region in [DIRECT_MAP, FRAME_TABLE, STACKS, DEVICES, IMAGE] {
        // SAFETY: boot CPU, alone.
        unsafe { entry(region, SIZE_1G, &mut EarlyTables::new()) };
    }
    for (start, end, bits) in [(text, rodata, TEXT), (rodata, data, READ_ONLY), (data, data_end, DATA)] {
        let range = PhysRange { start: (start - IMAGE) as u64, end: (end - IMAGE) as u64 };
        // SAFETY: boot CPU, alone.
        unsafe { map_range(start, range, bits, SIZE_2M) };
    }
    // Direct map: 1 GiB pages if offered, except for the first GiB, where the image's text and constants stay
    // read-only, and with the loader's reserved ranges below 4 GiB included (ACPI tables).
    let largest = if features::get().giant_pages { SIZE_1G } else { SIZE_2M };
    let text_end = (data - IMAGE) as u64;
    let text_start = (text - IMAGE) as u64;
    // SAFETY: boot CPU, alone, in these blocks.
    unsafe {
        map_range(DIRECT_MAP, PhysRange { start: 0, end: text_start }, DATA, SIZE_2M);
        map_range(
            DIRECT_MAP + text_start as usize,
            PhysRange { start: text_start, end: text_end },
            READ_ONLY,
            SIZE_2M,
        );
        map_range(DIRECT_MAP + text_end as usize, PhysRange { start: text_end, end: SIZE_1G }, DATA, SIZE_2M);
    }
    let mut mapped = SIZE_1G;
    for range in boot_info().usable() {
        let PhysRange { start, end } = gigabytes(range);
        let start = start.max(mapped);
        if start < end {
            // SAFETY: boot CPU, alone.
            unsafe { map_range(DIRECT_MAP + start as usize, PhysRange { start, end }, DATA, largest) };
            mapped = mapped.max(end);
        }
    }
    // SAFETY: the new tables map image, stack and direct map as they were.
    unsafe { reg::set_cr3(kernel_root()) };
}

/// What the direct map shows for a range of memory: whole gigabytes. What lies between (device windows) is never touched through it.
fn gigabytes(range: &PhysRange) -> PhysRange {
    PhysRange { start: range.start & !(SIZE_1G - 1), end: range.end.next_multiple_of(SIZE_1G) }
}

/// Is all of that in the direct map?
pub fn is_in_direct_map(address: u64, length: usize) -> bool {
    let Some(end) = address.checked_add(length as u64) else { return false };
    let is_within = |range: PhysRange| range.start <= address && end <= range.end;
    end <= SIZE_1G || boot_info().usable().iter().any(|range| is_within(gigabytes(range)))
}

/// Maps `size` bytes of memory for the frame table at `address` (both multiples of 2 MiB).
///
/// # Safety
/// Boot CPU, alone, while early memory lasts; `physical` was taken from it for this.
pub unsafe fn map_frame_table(address: usize, physical: u64, size: u64) {
    // SAFETY: as the caller says.
    unsafe { map_range(address, PhysRange { start: physical, end: physical + size }, DATA, SIZE_2M) };
}

/// Maps device registers, uncached (with the PAT as at reset, PCD and PWT mean UC; SDM vol. 3, 13.12).
///
/// # Safety
/// Boot CPU, alone, while early memory lasts; `physical` is a device's, and stays so.
pub unsafe fn map_device(physical: u64, size: u64) -> *mut u8 {
    // SAFETY: boot CPU, alone.
    let mapped = unsafe { map_device_from(physical, size, &mut EarlyTables::new()) };
    // Early memory ends the machine rather than give nothing.
    mapped.unwrap_or(core::ptr::null_mut())
}

/// As [`map_device`], with tables from `source`; `None` if that has none.
///
/// # Safety
/// The caller alone changes the tables of devices; `physical` is a device's, and stays so.
pub unsafe fn map_device_from(physical: u64, size: u64, source: &mut impl TableSource) -> Option<*mut u8> {
    // SAFETY: as the caller says.
    let next = unsafe { NEXT_DEVICE.get_mut() };
    let start = physical & !(SIZE_4K - 1);
    let end = (physical + size).next_multiple_of(SIZE_4K);
    let address = *next;
    *next += (end - start) as usize;
    for at in (start..end).step_by(SIZE_4K as usize) {
        let page = address + (at - start) as usize;
        // SAFETY: as the caller says; no page was here before.
        if !unsafe { map_page(page, at, SIZE_4K, DEVICE, source) } {
            return None;
        }
    }
    Some((address + (physical - start) as usize) as *mut u8)
}
