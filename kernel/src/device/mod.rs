//! Devices.

pub mod serial;

/// An ISA interrupt line asks for attention; interrupts are off.
pub fn interrupt(_line: u8) {}
