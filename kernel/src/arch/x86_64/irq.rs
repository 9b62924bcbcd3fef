//! Interrupt vectors and what happens at each. Handlers run with interrupts off, allocate nothing and take only locks
//! that disable interrupts.

use super::{apic, ipi, upcall};
use crate::arch::interrupts::{
    CALL_INTERRUPTS, DEVICE_INTERRUPTS, FLUSH_INTERRUPTS, Interrupted, RESCHEDULE_INTERRUPTS,
    SPURIOUS_INTERRUPTS, TIMER_INTERRUPTS,
};

/// ISA line `n` arrives at `ISA_BASE + n`.
pub const ISA_BASE: u8 = 0x20;
/// Messages of devices (MSI-X).
pub const DEVICE_MESSAGE: u8 = 0x40;
/// Lines of devices behind an I/O APIC that are no ISA lines.
pub const DEVICE_LINE: u8 = 0x41;
/// Messages of devices whose configuration has changed.
pub const DEVICE_CHANGED: u8 = 0x42;
pub const TIMER: u8 = 0xec;
pub const RESCHEDULE: u8 = 0xf0;
pub const FLUSH: u8 = 0xf1;
pub const CALL: u8 = 0xf2;
pub const ERROR: u8 = 0xfe;
pub const SPURIOUS: u8 = 0xff;

/// An interrupt, on this CPU, with interrupts off, and what it interrupted.
pub fn interrupt(vector: u8, interrupted: Interrupted) {
    match vector {
        TIMER => {
            TIMER_INTERRUPTS.add(1);
            apic::end_of_interrupt();
            upcall::timer_interrupt(interrupted);
        }
        RESCHEDULE => {
            RESCHEDULE_INTERRUPTS.add(1);
            apic::end_of_interrupt();
            upcall::reschedule_interrupt();
        }
        FLUSH => {
            FLUSH_INTERRUPTS.add(1);
            apic::end_of_interrupt();
            ipi::serve();
        }
        CALL => {
            CALL_INTERRUPTS.add(1);
            apic::end_of_interrupt();
            ipi::serve();
        }
        // A spurious interrupt wants no acknowledgement (SDM vol. 3, 12.9).
        SPURIOUS => SPURIOUS_INTERRUPTS.add(1),
        ERROR => {
            apic::clear_error();
            apic::end_of_interrupt();
        }
        ISA_BASE..0x30 => {
            DEVICE_INTERRUPTS.add(1);
            super::upcall::isa_interrupt(vector - ISA_BASE);
            // After the device, so that a level-triggered line does not come again at once.
            apic::end_of_interrupt();
        }
        DEVICE_MESSAGE => {
            DEVICE_INTERRUPTS.add(1);
            apic::end_of_interrupt();
            super::upcall::device_message();
        }
        DEVICE_CHANGED => {
            DEVICE_INTERRUPTS.add(1);
            apic::end_of_interrupt();
            super::upcall::device_changed();
        }
        DEVICE_LINE => {
            DEVICE_INTERRUPTS.add(1);
            super::upcall::device_line();
            // After the devices, as for an ISA line.
            apic::end_of_interrupt();
        }
        _ => {
            SPURIOUS_INTERRUPTS.add(1);
            apic::end_of_interrupt();
        }
    }
}
