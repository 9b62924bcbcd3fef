//! The local APIC (SDM vol. 3, chapter 12): x2APIC where offered, else xAPIC registers in memory. Interprocessor
//! interrupts and the one-shot timer.

pub mod io;

use core::sync::atomic::{AtomicU32, Ordering};

use super::boot::topology;
use super::cpu::reg::{self, IA32_APIC_BASE, IA32_TSC_DEADLINE};
use super::cpu::{BootCell, features};
use super::memory::tables;
use super::{irq, kvm};
use virtio::pci::Message;

// Register offsets (table 12-1); the x2APIC MSR is 0x800 + offset / 16.
const TASK_PRIORITY: u32 = 0x80;
const EOI: u32 = 0xb0;
const SPURIOUS_VECTOR: u32 = 0xf0;
const ERROR_STATUS: u32 = 0x280;
const COMMAND_LOW: u32 = 0x300;
const COMMAND_HIGH: u32 = 0x310;
const LVT_TIMER: u32 = 0x320;
const LVT_LINT0: u32 = 0x350;
const LVT_LINT1: u32 = 0x360;
const LVT_ERROR: u32 = 0x370;
const INITIAL_COUNT: u32 = 0x380;
const CURRENT_COUNT: u32 = 0x390;
const DIVIDE: u32 = 0x3e0;

const MASKED: u32 = 1 << 16;
const TIMER_DEADLINE: u32 = 2 << 17;
/// LVT and command delivery modes.
const DELIVER_NMI: u32 = 4 << 8;
const DELIVER_INIT: u32 = 5 << 8;
const DELIVER_STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
const PENDING: u32 = 1 << 12;
const ALL_BUT_SELF: u32 = 3 << 18;

struct Mode {
    x2: bool,
    deadline: bool,
    registers: usize,
}

static MODE: BootCell<Mode> = BootCell::new(Mode { x2: false, deadline: false, registers: 0 });
static NMIS: AtomicU32 = AtomicU32::new(0);

/// Finds the APIC and maps it.
///
/// # Safety
/// Once, on the boot CPU, alone, on the final page tables.
pub unsafe fn init() {
    // SAFETY: boot CPU, alone; the register exists on every processor with an APIC.
    unsafe {
        let mode = MODE.get_mut();
        // With `-icount` the emulator cannot bear an APIC timer that is reached through an MSR ("Bad icount read", QEMU 10.0), and MSRs are no faster there
        // than memory.
        mode.x2 = features::get().x2apic && (topology::cpus() > 254 || !features::is_emulated());
        mode.deadline = features::get().tsc_deadline;
        if !mode.x2 {
            let base = reg::rdmsr(IA32_APIC_BASE) & tables::ADDRESS;
            mode.registers = tables::map_device(base, 4096) as usize;
        }
    }
}

fn ready() -> bool {
    MODE.get().x2 || MODE.get().registers != 0
}

fn read(register: u32) -> u32 {
    let mode = MODE.get();
    if mode.x2 {
        // SAFETY: an x2APIC register, and x2APIC is on.
        unsafe { reg::rdmsr(0x800 + register / 16) as u32 }
    } else {
        // SAFETY: `init` mapped the registers.
        unsafe { ((mode.registers + register as usize) as *const u32).read_volatile() }
    }
}

fn write(register: u32, value: u32) {
    let mode = MODE.get();
    if mode.x2 {
        // SAFETY: as in `read`.
        unsafe { reg::wrmsr(0x800 + register / 16, u64::from(value)) };
    } else {
        // SAFETY: as in `read`.
        unsafe { ((mode.registers + register as usize) as *mut u32).write_volatile(value) };
    }
}

/// Turns this CPU's APIC on.
///
/// # Safety
/// Each CPU once, after [`init`], with the IDT loaded.
pub unsafe fn init_cpu() {
    // SAFETY: enabling x2APIC from xAPIC or from reset is a permitted transition (figure 12-27).
    unsafe {
        let base = reg::rdmsr(IA32_APIC_BASE) | 1 << 11;
        reg::wrmsr(IA32_APIC_BASE, if MODE.get().x2 { base | 1 << 10 } else { base });
    }
    write(TASK_PRIORITY, 0);
    write(LVT_LINT0, MASKED);
    write(LVT_LINT1, DELIVER_NMI);
    write(LVT_ERROR, u32::from(irq::ERROR));
    write(SPURIOUS_VECTOR, 1 << 8 | u32::from(irq::SPURIOUS));
    write(DIVIDE, 0b1011); // by 1
    let timer = u32::from(irq::TIMER);
    write(LVT_TIMER, if MODE.get().deadline { timer | TIMER_DEADLINE } else { timer });
    if MODE.get().deadline {
        // The mode must be set before the first deadline is (SDM vol. 3, 12.5.4.1).
        // SAFETY: a fence.
        unsafe { core::arch::asm!("mfence", options(nostack, preserves_flags)) };
    }
    write(EOI, 0);
}

/// Interrupts are off.
#[inline]
pub fn end_of_interrupt() {
    if !kvm::end_of_interrupt() {
        write(EOI, 0);
    }
}

/// Clears the error status (12.5.3): write, then it is latched anew.
pub fn clear_error() {
    write(ERROR_STATUS, 0);
}

pub fn count_nmi() {
    NMIS.fetch_add(1, Ordering::Relaxed);
}

/// Sends an interrupt command. In x2APIC mode the write is one MSR and not serializing, so stores before it are fenced.
fn command(destination: u32, low: u32) {
    if MODE.get().x2 {
        // SAFETY: the command register, and x2APIC is on.
        unsafe {
            reg::mfence();
            reg::wrmsr(0x800 + COMMAND_LOW / 16, u64::from(destination) << 32 | u64::from(low));
        }
    } else {
        // Two registers: an interrupt handler must not come between (it might send as well).
        let was = super::disable_interrupts();
        while read(COMMAND_LOW) & PENDING != 0 {
            core::hint::spin_loop();
        }
        write(COMMAND_HIGH, destination << 24);
        write(COMMAND_LOW, low);
        if was {
            super::enable_interrupts();
        }
    }
}

/// Sends interrupt `vector` to `cpu`. Does nothing before the APIC is on: no other CPU runs then.
pub fn send(cpu: u32, vector: u8) {
    send_to(topology::apic_id(cpu), vector);
}

/// As [`send`], by APIC id.
pub fn send_to(id: u32, vector: u8) {
    if !ready() {
        return;
    }
    command(id, ASSERT | u32::from(vector));
}

/// The message by which a device interrupts `cpu` at `vector`: fixed delivery, edge-triggered (SDM vol. 3, 12.11). Its destination has eight bits.
pub fn message(cpu: u32, vector: u8) -> Option<Message> {
    let id = topology::apic_id(cpu);
    let address = 0xfee0_0000 | u64::from(id) << 12;
    (id < 256).then_some(Message { address, data: u32::from(vector) })
}

/// Sends a non-maskable interrupt to `cpu`.
pub fn send_nmi(cpu: u32) {
    command(topology::apic_id(cpu), ASSERT | DELIVER_NMI);
}

/// Sends a non-maskable interrupt to all other CPUs.
pub fn send_nmi_to_others() {
    command(0, ASSERT | ALL_BUT_SELF | DELIVER_NMI);
}

/// Starts all other processors at physical page `page` (12.4.4): INIT, then two STARTUPs. No delays: virtual processors
/// keep the order, and a second STARTUP is ignored by one that runs.
///
/// # Safety
/// The start-up code is in place.
pub unsafe fn start_others(page: u8) {
    command(0, ASSERT | ALL_BUT_SELF | DELIVER_INIT);
    for _ in 0..2 {
        command(0, ASSERT | ALL_BUT_SELF | DELIVER_STARTUP | u32::from(page));
    }
}

/// Sends STARTUP alone, for a processor that missed it.
///
/// # Safety
/// As [`start_others`].
pub unsafe fn start_others_again(page: u8) {
    command(0, ASSERT | ALL_BUT_SELF | DELIVER_STARTUP | u32::from(page));
}

/// True if the timer takes time-stamp values.
pub fn has_deadline() -> bool {
    MODE.get().deadline
}

/// Arms the timer for time-stamp `tsc`; 0 disarms. Only where [`has_deadline`].
#[inline]
pub fn set_deadline(tsc: u64) {
    // SAFETY: the register exists where the timer has that mode.
    unsafe { reg::wrmsr(IA32_TSC_DEADLINE, tsc) };
}

/// Arms the timer for `count` ticks; 0 disarms.
#[inline]
pub fn set_count(count: u32) {
    write(INITIAL_COUNT, count);
}

/// The ticks left.
pub fn count() -> u32 {
    read(CURRENT_COUNT)
}

/// Lets the timer count in silence, for calibration.
pub fn mask_timer(masked: bool) {
    let vector = u32::from(irq::TIMER);
    let mode = if MODE.get().deadline && !masked { TIMER_DEADLINE } else { 0 };
    write(LVT_TIMER, vector | mode | if masked { MASKED } else { 0 });
}
