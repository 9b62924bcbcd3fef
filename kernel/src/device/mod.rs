//! Devices.

pub mod serial;

/// An ISA interrupt line asks for attention; interrupts are off.
pub fn interrupt(line: u8) {
    if serial::interrupt(line) {
        crate::arch::upcall::serial_received();
    }
}

/// Lets others run while a device is busy.
fn give_way() {
    crate::sched::yield_now();
}
