//! The I/O APICs (82093AA data sheet): ISA lines, and those of devices that are told of, are routed to the boot CPU. Everything else stays masked.
//!
//! Set up by the boot CPU; `route` runs at boot alone.

use super::super::acpi::{IoApic, MachineTables};
use super::super::boot::topology;
use super::super::cpu::BootCell;
use super::super::irq::{DEVICE_LINE, ISA_BASE};
use super::super::memory::tables;

const MAX_IO_APICS: usize = 8;
const MASKED: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;
const ACTIVE_LOW: u32 = 1 << 13;

#[derive(Clone, Copy)]
struct Mapped {
    registers: usize,
    first: u32,
    count: u32,
}

struct IoApics {
    list: [Mapped; MAX_IO_APICS],
    count: usize,
    isa: [(u32, bool, bool); 16],
}

static IO_APICS: BootCell<IoApics> = BootCell::new(IoApics {
    list: [Mapped { registers: 0, first: 0, count: 0 }; MAX_IO_APICS],
    count: 0,
    isa: [(0, false, false); 16],
});

impl Mapped {
    fn select(&self, register: u32) -> *mut u32 {
        let base = self.registers as *mut u32;
        // SAFETY: mapped registers: IOREGSEL at 0, IOWIN at 0x10.
        unsafe {
            base.write_volatile(register);
            base.add(4)
        }
    }

    fn read(&self, register: u32) -> u32 {
        // SAFETY: as `select`.
        unsafe { self.select(register).read_volatile() }
    }

    fn write(&self, register: u32, value: u32) {
        // SAFETY: as `select`.
        unsafe { self.select(register).write_volatile(value) };
    }
}

/// Reads what must be known from the tables, while they are in reach.
///
/// # Safety
/// Once, on the boot CPU, alone, on the final page tables.
pub unsafe fn init(machine: &MachineTables) {
    // SAFETY: boot CPU, alone.
    let io = unsafe { IO_APICS.get_mut() };
    for (line, slot) in (0u8..).zip(io.isa.iter_mut()) {
        let route = machine.isa_route(line);
        *slot = (route.interrupt, route.active_low, route.level);
    }
    for IoApic { address, first_interrupt } in machine.io_apics().take(MAX_IO_APICS) {
        // SAFETY: the MADT says that an I/O APIC is there.
        let registers = unsafe { tables::map_device(address, 32) } as usize;
        let mut mapped = Mapped { registers, first: first_interrupt, count: 0 };
        mapped.count = (mapped.read(1) >> 16 & 0xff) + 1;
        for pin in 0..mapped.count {
            mapped.write(0x10 + pin * 2, MASKED);
        }
        io.list[io.count] = mapped;
        io.count += 1;
    }
}

/// Routes ISA line `line` to the boot CPU at vector `ISA_BASE + line`. False if no I/O APIC serves it.
pub fn route(line: u8) -> bool {
    let io = IO_APICS.get();
    let Some(&(interrupt, low, level)) = io.isa.get(usize::from(line)) else { return false };
    let flags = if level { LEVEL } else { 0 } | if low { ACTIVE_LOW } else { 0 };
    io.set(interrupt, u32::from(ISA_BASE + line) | flags)
}

/// Routes the line of global number `interrupt` to the boot CPU at vector `DEVICE_LINE`. False if no I/O APIC serves it, or it is an ISA line's. Active high
/// and by its edge: a device that never lets its line fall then interrupts once, and none is missed, since who serves the device acknowledges first and
/// looks afterwards.
pub fn route_device(interrupt: u32) -> bool {
    let io = IO_APICS.get();
    let is_isa = io.isa.iter().any(|&(of_isa, ..)| of_isa == interrupt);
    !is_isa && io.set(interrupt, u32::from(DEVICE_LINE))
}

impl IoApics {
    fn set(&self, interrupt: u32, low: u32) -> bool {
        let serves = |m: &&Mapped| interrupt >= m.first && interrupt - m.first < m.count;
        let Some(apic) = self.list[..self.count].iter().find(serves) else { return false };
        let register = 0x10 + (interrupt - apic.first) * 2;
        apic.write(register + 1, topology::apic_id(0) << 24);
        apic.write(register, low);
        true
    }
}
