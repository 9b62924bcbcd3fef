//! The few ACPI tables that the kernel needs (ACPI 6.5, chapter 5): CPUs and interrupt controllers (MADT), nodes
//! (SRAT, SLIT), the power-management timer (FADT), PCI's configuration space (MCFG). A reader, not an interpreter: nothing here runs AML.
//!
//! Tables come from the firmware; a broken one is left out, never followed. Boot CPU only, on the first page tables,
//! whose reach (4 GiB) bounds every address.

use super::boot::PhysRange;
use super::memory::direct_map;

const REACH: u64 = 1 << 32;
pub const MAX_MEMORY_RANGES: usize = 128;
const HEADER: usize = 36;

/// A table's bytes.
#[derive(Clone, Copy)]
struct Table(&'static [u8]);

impl Table {
    /// The table at `address`, if its checksum is right.
    fn at(address: u64) -> Option<Table> {
        let header = bytes(address, HEADER)?;
        let length = u32::from_le_bytes(header.get(4..8)?.try_into().ok()?) as usize;
        let all = bytes(address, length.max(HEADER))?;
        let sum = all.iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
        (sum == 0).then_some(Table(all))
    }

    fn signature(&self) -> &[u8] {
        self.0.get(..4).unwrap_or(&[])
    }

    fn u8(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }

    /// The variable-length entries of a MADT or SRAT from `first` on: type byte, length byte, contents.
    fn entries(self, first: usize) -> impl Iterator<Item = Table> {
        let mut at = first;
        core::iter::from_fn(move || {
            let length = usize::from(self.u8(at + 1)?);
            let entry = self.0.get(at..at + length.max(2))?;
            at += length.max(2);
            Some(Table(entry))
        })
    }
}

/// Firmware memory in reach of the first page tables.
fn bytes(address: u64, length: usize) -> Option<&'static [u8]> {
    if address == 0 || address.checked_add(length as u64)? > REACH {
        return None;
    }
    // SAFETY: mapped by the first page tables, and nobody writes firmware tables.
    Some(unsafe { core::slice::from_raw_parts(direct_map(address), length) })
}

/// An I/O APIC: registers and the first interrupt it serves.
#[derive(Clone, Copy)]
pub struct IoApic {
    pub address: u64,
    pub first_interrupt: u32,
}

/// Where an ISA interrupt really arrives.
#[derive(Clone, Copy)]
pub struct IsaRoute {
    pub interrupt: u32,
    pub active_low: bool,
    pub level: bool,
}

/// The tables that were found.
#[derive(Default)]
pub struct MachineTables {
    madt: Option<Table>,
    srat: Option<Table>,
    slit: Option<Table>,
    fadt: Option<Table>,
    mcfg: Option<Table>,
}

/// Where PCI's configuration space appears in memory, 1 MiB for each of the buses up to `last_bus`.
#[derive(Clone, Copy)]
pub struct ConfigSpace {
    pub address: u64,
    pub last_bus: u8,
}

impl MachineTables {
    /// Finds the tables, from the loader's pointer or by the search that ACPI describes for PCs (5.2.5.1).
    pub fn find(rsdp: Option<u64>) -> MachineTables {
        let mut found = MachineTables::default();
        let search = || (0xe_0000..0x10_0000).step_by(16).find(|&a| is_rsdp(a));
        let Some(rsdp) = rsdp.filter(|&a| is_rsdp(a)).or_else(search) else { return found };
        let Some(pointer) = bytes(rsdp, 36).map(Table) else { return found };
        let xsdt = if pointer.u8(15).unwrap_or(0) >= 2 { pointer.u64(24).and_then(Table::at) } else { None };
        let (root, width) = match xsdt {
            Some(xsdt) => (xsdt, 8),
            None => match pointer.u32(16).and_then(|a| Table::at(u64::from(a))) {
                Some(rsdt) => (rsdt, 4),
                None => return found,
            },
        };
        for at in (HEADER..root.0.len()).step_by(width) {
            let address = if width == 8 { root.u64(at) } else { root.u32(at).map(u64::from) };
            let Some(table) = address.and_then(Table::at) else { continue };
            match table.signature() {
                b"APIC" => found.madt = Some(table),
                b"SRAT" => found.srat = Some(table),
                b"SLIT" => found.slit = Some(table),
                b"FACP" => found.fadt = Some(table),
                b"MCFG" => found.mcfg = Some(table),
                _ => {}
            }
        }
        found
    }

    fn madt(&self) -> impl Iterator<Item = Table> {
        self.madt.into_iter().flat_map(|t| t.entries(44))
    }

    fn srat(&self) -> impl Iterator<Item = Table> {
        self.srat.into_iter().flat_map(|t| t.entries(48))
    }

    /// The APIC ids of usable processors: local APIC (type 0) and local x2APIC (type 9) entries.
    pub fn apic_ids(&self) -> impl Iterator<Item = u32> {
        self.madt().filter_map(|e| match e.u8(0)? {
            0 if e.u32(4)? & 1 != 0 => e.u8(3).map(u32::from),
            9 if e.u32(8)? & 1 != 0 => e.u32(4),
            _ => None,
        })
    }

    pub fn io_apics(&self) -> impl Iterator<Item = IoApic> {
        self.madt().filter_map(|e| {
            (e.u8(0)? == 1).then_some(IoApic { address: u64::from(e.u32(4)?), first_interrupt: e.u32(8)? })
        })
    }

    /// Where ISA interrupt `line` arrives: as its number says unless an override (type 2) says otherwise.
    pub fn isa_route(&self, line: u8) -> IsaRoute {
        self.madt()
            .find_map(|e| {
                (e.u8(0)? == 2 && e.u8(3)? == line).then_some(())?;
                let flags = e.u16(8)?;
                Some(IsaRoute {
                    interrupt: e.u32(4)?,
                    active_low: flags & 3 == 3,
                    level: flags >> 2 & 3 == 3,
                })
            })
            .unwrap_or(IsaRoute { interrupt: u32::from(line), active_low: false, level: false })
    }

    /// (APIC id, proximity domain) of enabled processors.
    pub fn cpu_domains(&self) -> impl Iterator<Item = (u32, u32)> {
        self.srat().filter_map(|e| match e.u8(0)? {
            0 if e.u32(4)? & 1 != 0 => {
                let domain = u32::from(e.u8(2)?) | e.u32(8)? & 0xffff_ff00;
                Some((u32::from(e.u8(3)?), domain))
            }
            2 if e.u32(12)? & 1 != 0 => Some((e.u32(8)?, e.u32(4)?)),
            _ => None,
        })
    }

    /// (memory, proximity domain) of enabled ranges.
    pub fn memory_domains(&self) -> impl Iterator<Item = (PhysRange, u32)> {
        self.srat().filter_map(|e| {
            (e.u8(0)? == 1 && e.u32(28)? & 1 != 0).then_some(())?;
            let start = e.u64(8)?;
            Some((PhysRange { start, end: start.saturating_add(e.u64(16)?) }, e.u32(2)?))
        })
    }

    /// SLIT distance between two proximity domains.
    pub fn distance(&self, a: u32, b: u32) -> Option<u8> {
        let slit = self.slit?;
        let count = slit.u64(36)?;
        (u64::from(a) < count && u64::from(b) < count).then_some(())?;
        slit.u8(44 + (u64::from(a) * count + u64::from(b)) as usize)
    }

    /// The configuration space of PCI's first segment (PCI Firmware 3.0, 4.1.2), where it appears in memory from bus 0 on.
    pub fn config_space(&self) -> Option<ConfigSpace> {
        let mcfg = self.mcfg?;
        (44..mcfg.0.len()).step_by(16).find_map(|at| {
            let is_first = mcfg.u16(at + 8)? == 0 && mcfg.u8(at + 10)? == 0;
            let address = mcfg.u64(at)?;
            (is_first && address != 0 && address.is_multiple_of(1 << 20))
                .then_some(ConfigSpace { address, last_bus: mcfg.u8(at + 11)? })
        })
    }

    /// The I/O port of the power-management timer, where there is one (FADT PM_TMR_BLK; absent on microvm).
    pub fn pm_timer(&self) -> Option<u16> {
        let fadt = self.fadt?;
        (fadt.u8(91)? == 4).then_some(())?;
        u16::try_from(fadt.u32(76)?).ok().filter(|&p| p != 0)
    }

    /// The PM1a control port (FADT PM1a_CNT_BLK), where there is one.
    pub fn pm1a_control(&self) -> Option<u16> {
        u16::try_from(self.fadt?.u32(64)?).ok().filter(|&p| p != 0)
    }

    /// The address of the sleep control register of hardware-reduced ACPI (FADT SLEEP_CONTROL_REG, in memory).
    pub fn sleep_control(&self) -> Option<u64> {
        let fadt = self.fadt?;
        (fadt.u8(244)? == 0).then_some(())?;
        fadt.u64(248).filter(|&address| address != 0)
    }
}

fn is_rsdp(address: u64) -> bool {
    bytes(address, 20).is_some_and(|b| {
        b.starts_with(b"RSD PTR ") && b.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
    })
}
