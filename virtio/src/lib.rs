//! Virtio devices as a driver meets them (Virtual I/O Device 1.2), without the kernel: it is the kernel's to map registers, to give memory that a
//! device may reach, to lock and to wait.
//!
//! * `registers` a device's registers, as somebody has mapped them
//! * `pci`       functions, capabilities, windows of memory (BARs) and MSI-X
//! * `transport` one device over PCI or over memory-mapped registers
//! * `queue`     a split virtqueue
//!
//! **A device is not trusted.** What it writes (rings, capabilities, configuration) is read once and checked before it is used; what fails a check makes an
//! error, after which the device is used no more. No loop is longer than what the driver itself has put in. `tests` plays devices that lie.
//!
//! Modern devices alone (VIRTIO_F_VERSION_1). No locks: who shares a [`Queue`] locks it.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used,
        clippy::disallowed_methods,
        clippy::disallowed_macros
    )
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod pci;
pub mod queue;
pub mod registers;
pub mod transport;

#[cfg(test)]
mod tests;

pub use queue::{Buffer, Queue, QueueMemory};
pub use registers::{Registers, Width};
pub use transport::{Error, Kind, Transport};
