//! Where the firmware keeps its description of the machine (SMBIOS 3.7, 5.2): an entry point in the last 64 KiB below 1 MiB, and the structures that it points to.
//!
//! What is broken, or is where no memory is, is left out. Nothing writes there once the firmware has ended.

use super::super::cpu::BootCell;
use super::super::memory::{direct_map, tables};

/// Where entry points are, each on a multiple of 16 bytes.
const SEGMENT: core::ops::Range<u64> = 0xf_0000..0x10_0000;
const STEP: usize = 16;
/// Bytes of structures that are shown at most.
const MOST: usize = 1 << 20;

/// The firmware's description of the machine, as it lies in memory.
#[derive(Clone, Copy)]
pub struct FirmwareTables {
    pub entry: &'static [u8],
    pub structures: &'static [u8],
    /// How many structures there are. None: they end with one that says so.
    pub count: Option<u16>,
}

static FOUND: BootCell<Option<FirmwareTables>> = BootCell::new(None);

/// None: there is no such description.
pub fn firmware_tables() -> Option<FirmwareTables> {
    *FOUND.get()
}

/// Looks for the description.
///
/// # Safety
/// Once, on the boot CPU, alone, on the final page tables.
pub unsafe fn find() {
    let Some(segment) = bytes(SEGMENT.start, (SEGMENT.end - SEGMENT.start) as usize) else { return };
    let places = || (0..segment.len()).step_by(STEP).filter_map(|at| segment.get(at..));
    let found = places().find_map(wide).or_else(|| places().find_map(narrow));
    // SAFETY: as the caller says.
    unsafe { *FOUND.get_mut() = found };
}

/// Memory that the direct map shows.
fn bytes(address: u64, length: usize) -> Option<&'static [u8]> {
    if address == 0 || !tables::is_in_direct_map(address, length) {
        return None;
    }
    // SAFETY: mapped, and nobody writes what belongs to the firmware.
    Some(unsafe { core::slice::from_raw_parts(direct_map(address), length) })
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The entry point of SMBIOS 3 (5.2.2), whose structures end where one says so.
fn wide(at: &'static [u8]) -> Option<FirmwareTables> {
    let entry = at.strip_prefix(b"_SM3_").and(at.get(..usize::from(*at.get(6)?)))?;
    if entry.len() < 24 || !is_whole(entry) {
        return None;
    }
    let address = u64::from(u32_at(entry, 16)?) | u64::from(u32_at(entry, 20)?) << 32;
    let structures = bytes(address, (u32_at(entry, 12)? as usize).min(MOST))?;
    Some(FirmwareTables { entry, structures, count: None })
}

/// The entry point of SMBIOS 2.1 (5.2.1), in which one of DMI lies.
fn narrow(at: &'static [u8]) -> Option<FirmwareTables> {
    let entry = at.strip_prefix(b"_SM_").and(at.get(..usize::from(*at.get(5)?)))?;
    let inner = entry.get(16..31).filter(|inner| inner.starts_with(b"_DMI_"))?;
    if !is_whole(entry) || !is_whole(inner) {
        return None;
    }
    let structures = bytes(u64::from(u32_at(entry, 24)?), usize::from(u16_at(entry, 22)?))?;
    Some(FirmwareTables { entry, structures, count: Some(u16_at(entry, 28)?) })
}
