//! Virtio devices: the kernel's half of the crate `virtio`, which knows registers, PCI and queues.
//!
//! * `bus`     all of them by numbers, for who lists them
//! * `find`    which devices there are, and how they are brought up
//! * `line`    a queue with its lock and the CPU that takes its interrupts
//! * `request` what is asked of a device: memory that it may reach, and somebody who waits
//! * `entropy`, `disk`, `share`, `balloon`, `console`: kinds of devices
//!
//! **A queue for each CPU** where the device has so many and takes messages (MSI-X): a CPU asks through its own queue, under a lock that others do not take, and
//! the interrupt comes back to that CPU. A device with fewer queues shares each among CPUs; one with a line has one queue, and interrupts the boot CPU. So do
//! devices whose queues have a purpose each (`balloon`, `console`), and all of them where their configuration changes.
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

pub mod balloon;
pub mod bus;
pub mod console;
pub mod disk;
pub mod entropy;
#[cfg(test)]
mod fake;
mod find;
mod line;
mod request;
pub mod share;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use ::virtio::Transport;
use vm::OnceBox;

use crate::arch::{self, Registers};
use crate::sched::{Deadline, Sleep, Woken};
pub use find::functions as find_functions;
use line::Line;
pub use request::{Call, Memory};

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

/// Some device's configuration has changed. Written seldom.
static HAS_CHANGED: AtomicBool = AtomicBool::new(false);

/// Some device's configuration has changed. Interrupt handler.
pub fn note_change() {
    HAS_CHANGED.store(true, Ordering::Release);
}

/// Takes what devices have done whose interrupts come to this CPU: the handler of `Pending::Device`.
pub fn look() {
    let cpu = arch::cpu_id();
    // Changes are told to the boot CPU.
    if cpu == 0 && HAS_CHANGED.load(Ordering::Relaxed) && HAS_CHANGED.swap(false, Ordering::AcqRel) {
        devices().for_each(|device| device.tell(Event::Changed));
    }
    for device in devices() {
        device.lines.iter().filter(|line| line.cpu == cpu).for_each(|line| line.look(device));
    }
}

/// Lets the lines of devices fall that have asked by one. Interrupt handler.
pub fn acknowledge() {
    for device in devices() {
        if device.transport.acknowledge() {
            note_change();
        }
    }
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

/// What a driver is told of its device. With interrupts on and no lock held, where nobody may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The configuration may have changed: of this device or another.
    Changed,
    /// It has failed, and is used no more. Whoever waits for it is told otherwise.
    Failed,
}

/// A device in use.
pub struct Device {
    /// What it is called in the log.
    name: &'static str,
    /// What Linux calls its driver.
    driver: &'static str,
    /// Those that were taken.
    features: u64,
    transport: Transport<Registers>,
    lines: Vec<Line>,
    event: fn(&'static Device, Event),
    has_failed: AtomicBool,
    /// It has failed, and does not even reset: what it was told of it may reach for ever.
    is_lost: AtomicBool,
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

    /// As [`Self::ask`], by line `n`, of a device whose queues have a purpose each.
    fn ask_by(
        &'static self,
        n: usize,
        memory: Memory,
        how: Sleep,
        deadline: Option<Deadline>,
    ) -> Result<(Memory, u32), Failure> {
        self.lines.get(n).ok_or(Failure::Broken)?.ask(self, memory, how, deadline)
    }

    /// Asks by line `n`, and does not wait: `call` is called when the device is done, unless it fails. Never sleeps; called with no lock held.
    ///
    /// # Errors
    /// The memory comes back: there is no room, or the device has failed.
    fn put(&'static self, n: usize, memory: Memory, call: Call) -> Result<(), Memory> {
        match self.lines.get(n) {
            Some(line) => line.put(self, n, memory, call),
            None => Err(memory),
        }
    }

    fn tell(&'static self, event: Event) {
        (self.event)(self, event);
    }

    /// It has failed, and may still reach what it was told of.
    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// The most parts that a request may have.
    fn most_parts(&self) -> u16 {
        self.lines.iter().map(Line::size).min().unwrap_or(0)
    }

    /// Requests that it has not done yet.
    fn in_flight(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.in_flight())).sum()
    }

    /// The device has shown that it lies, or does not answer. It is reset; what it was asked fails.
    fn fail(&'static self, why: impl core::fmt::Debug) {
        if self.has_failed.swap(true, Ordering::AcqRel) {
            return;
        }
        error!("{}: broken device ({why:?}); it is used no more", self.name);
        let is_reset = self.transport.stop();
        self.is_lost.store(!is_reset, Ordering::Release);
        self.lines.iter().for_each(|line| line.end(is_reset));
        self.tell(Event::Failed);
    }
}
