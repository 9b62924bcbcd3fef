//! Virtio devices: the kernel's half of the crate `virtio`, which knows registers, PCI and queues.
//!
//! * `find`    which devices there are, and how they are brought up
//! * `line`    a queue with its lock and the CPU that takes its interrupts
//! * `request` what is asked of a device: memory that it may reach, and somebody who waits
//! * `entropy`, `disk`, `share`: kinds of devices
//!
//! **A queue for each CPU** where the device has so many and takes messages (MSI-X): a CPU asks through its own queue, under a lock that others do not take, and
//! the interrupt comes back to that CPU. A device with fewer queues shares each among CPUs; one with a line has one queue, and interrupts the boot CPU.
//!
//! **The memory of a request belongs to the queue while the device may reach it** ([`request::Memory`] moves in and out). So who waits may be killed, and
//! the memory is freed when the device is done with it.
//!
//! **A device that lies** (see the crate) is reset and used no more: what it was asked fails, as does whatever it is asked later, and the log says so
//! once. Only after the reset its memory is freed; if it does not even reset, never. What no check finds is a device that writes where it was not
//! told to: no unit of the machine translates its addresses.
//!
//! Interrupt handlers raise `Pending::Device`; [`look`] does the rest with interrupts on. Lock order: a line → a request → who is woken.
#![forbid(unsafe_code)]

pub mod disk;
pub mod entropy;
mod find;
mod line;
mod request;
pub mod share;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use ::virtio::{Transport, queue};
use vm::OnceBox;

use crate::arch::{self, Registers};
use crate::sched::{Deadline, Sleep, Woken};
pub use find::functions as find_functions;
use line::Line;
pub use request::Memory;

/// Devices that are driven at most.
const MOST: usize = 32;

static DEVICES: [OnceBox<Device>; MOST] = [const { OnceBox::new() }; MOST];

/// All devices in use.
fn devices() -> impl Iterator<Item = &'static Device> {
    DEVICES.iter().map_while(OnceBox::get)
}

/// Brings up what `find_functions` has found, and what the command line names. Once, in a thread, before anybody opens one. May sleep.
pub fn init(command_line: &str) {
    find::all(command_line);
}

/// Puts a device that is up among the others. Only while devices are looked for, by one thread.
fn keep(device: Box<Device>) -> Option<&'static Device> {
    let free = DEVICES.iter().find(|place| place.get().is_none())?;
    free.get_or_try(|| Ok::<_, ()>(device)).ok()
}

/// Takes what devices have done whose interrupts come to this CPU: the handler of `Pending::Device`.
pub fn look() {
    let cpu = arch::cpu_id();
    for device in devices() {
        device.lines.iter().filter(|line| line.cpu == cpu).for_each(|line| line.look(device));
    }
}

/// Lets the lines of devices fall that have asked by one. Interrupt handler.
pub fn acknowledge() {
    devices().for_each(|device| device.transport.acknowledge());
}

/// Why a request has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The device is broken.
    Broken,
    /// Who waited was woken before it was done.
    Woken(Woken),
    NoMemory,
}

impl From<sync::AllocError> for Failure {
    fn from(_: sync::AllocError) -> Self {
        Failure::NoMemory
    }
}

/// A device in use.
pub struct Device {
    /// What it is called in the log.
    name: &'static str,
    transport: Transport<Registers>,
    lines: Vec<Line>,
    has_failed: AtomicBool,
}

impl Device {
    /// Asks the device, and waits until it is done: the memory, and how many bytes it says that it wrote. May sleep; no spinning lock is held.
    ///
    /// # Errors
    /// Broken; NoMemory; Woken by a signal or at `deadline`: the device goes on, and the memory is freed when it is done.
    pub fn ask(
        &'static self,
        memory: Memory,
        how: Sleep,
        deadline: Option<Deadline>,
    ) -> Result<(Memory, u32), Failure> {
        // Whoever moves to another CPU meanwhile takes a lock that is not its CPU's: no harm.
        let cpu = arch::cpu_id() as usize;
        let line = cpu.checked_rem(self.lines.len()).and_then(|n| self.lines.get(n));
        line.ok_or(Failure::Broken)?.ask(self, memory, how, deadline)
    }

    /// The most parts that a request may have.
    fn most_parts(&self) -> u16 {
        self.lines.iter().map(Line::size).min().unwrap_or(0)
    }

    /// Requests that it has not done yet.
    fn in_flight(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.in_flight())).sum()
    }

    /// The device has shown that it lies. It is reset; what it was asked fails.
    fn fail(&self, why: queue::Broken) {
        if self.has_failed.swap(true, Ordering::AcqRel) {
            return;
        }
        error!("{}: broken device ({why:?}); it is used no more", self.name);
        let is_reset = self.transport.stop();
        self.lines.iter().for_each(|line| line.end(is_reset));
    }
}
