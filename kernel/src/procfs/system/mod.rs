//! Files about the machine's memory and devices.
#![forbid(unsafe_code)]

pub mod devices;
pub mod memory;
