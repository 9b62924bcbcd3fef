//! Files about the machine as a whole: its memory and devices, System V IPC, the log.
#![forbid(unsafe_code)]

pub mod devices;
pub mod general;
pub mod ipc;
pub mod kmsg;
pub mod memory;
