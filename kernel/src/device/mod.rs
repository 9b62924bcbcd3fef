//! Devices.

pub mod serial;
