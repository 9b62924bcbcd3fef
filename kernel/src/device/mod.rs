//! Devices.
//!
//! * `pci`    the functions of PCI that there are
//! * `serial` the serial ports
//! * `virtio` virtio devices: sources of entropy, disks, servers of files, the balloon, consoles

pub mod pci;
pub mod serial;
pub mod virtio;

use crate::sched::{self, Pending};

/// An ISA interrupt line asks for attention; interrupts are off.
pub fn interrupt(line: u8) {
    if serial::interrupt(line) {
        sched::pending::raise(Pending::Serial);
    }
}

/// A device that sends its messages to this CPU has done something; interrupts are off.
pub fn message() {
    sched::pending::raise(Pending::Device);
}

/// A device says by a message that its configuration has changed; interrupts are off. Boot CPU.
pub fn changed() {
    virtio::note_change();
    sched::pending::raise(Pending::Device);
}

/// A device with a line of its own has done something; interrupts are off. Boot CPU.
pub fn line() {
    virtio::acknowledge();
    sched::pending::raise(Pending::Device);
}

/// Lets others run while a device is busy.
fn give_way() {
    sched::yield_now();
}
