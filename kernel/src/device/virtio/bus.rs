//! Virtio devices by their numbers, driven or not, as Linux's bus of them has them.
//!
//! The list is made once, when devices are brought up. No locks.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::{TryVec, try_box};
use vm::OnceBox;

use super::Device;
use super::line::Line;

/// Where a device lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// It is a function of PCI: its number in `device::pci`.
    Function(u32),
    /// Registers that the command line names, the how-manieth.
    Mapped(u32),
}

/// A device on the bus.
pub struct Member {
    pub place: Where,
    /// What it is (Virtio 1.2, 5).
    pub kind: u32,
    pub vendor: u32,
    device: Option<&'static Device>,
}

static MEMBERS: OnceBox<Vec<Member>> = OnceBox::new();

/// All of them, in the order of their numbers.
pub fn members() -> &'static [Member] {
    MEMBERS.get().map_or(&[], Vec::as_slice)
}

impl Member {
    /// What Linux calls the driver, if one has it.
    pub fn driver(&self) -> Option<&'static str> {
        self.device.map(|device| device.driver)
    }

    /// Of each queue, in order: requests that the device has not done yet, and those that it was ever given.
    pub fn queues(&self) -> impl Iterator<Item = (u16, u64)> {
        self.device.into_iter().flat_map(|device| device.lines.iter().map(Line::counts))
    }

    /// The features that were taken.
    pub fn features(&self) -> u64 {
        self.device.map_or(0, |device| device.features)
    }

    /// The device's status (Virtio 1.2, 2.1): seen by nobody; up; given up.
    pub fn status(&self) -> u32 {
        match self.device {
            None => 1,
            Some(device) if device.has_failed() => 0x80,
            Some(_) => 0xf,
        }
    }
}

/// Which number a device has.
pub(super) fn number_of(device: &'static Device) -> Option<u32> {
    let place =
        members().iter().position(|member| member.device.is_some_and(|own| core::ptr::eq(own, device)))?;
    u32::try_from(place).ok()
}

/// The list while it is made.
pub(super) struct Members(Vec<Member>);

impl Members {
    pub(super) fn new() -> Self {
        Members(Vec::new())
    }

    pub(super) fn add(&mut self, place: Where, kind: u32, vendor: u32, device: Option<&'static Device>) {
        // Without memory it is not listed.
        let _ = self.0.try_push(Member { place, kind, vendor, device });
    }

    pub(super) fn done(self) {
        let _ = MEMBERS.get_or_try(|| try_box(self.0));
    }
}
