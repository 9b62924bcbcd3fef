//! Devices.

pub mod serial;

use crate::sched::{self, Pending};

/// An ISA interrupt line asks for attention; interrupts are off.
pub fn interrupt(line: u8) {
    if serial::interrupt(line) {
        sched::pending::raise(Pending::Serial);
    }
}

/// Lets others run while a device is busy.
fn give_way() {
    sched::yield_now();
}
