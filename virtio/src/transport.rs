//! One virtio device, over PCI (Virtio 1.2, 4.1) or over memory-mapped registers (4.2): the way it is brought up, its configuration, its queues.
//!
//! Queues are set up by one thread, before the device is in use: registers that select a queue are the device's one. After that only
//! [`notify`](Transport::notify), [`acknowledge`](Transport::acknowledge), [`stop`](Transport::stop) and configuration are used, by anybody.

use alloc::vec::Vec;

use sync::heap::TryVec;

use crate::pci::Layout;
use crate::registers::{Registers, Width, halves};

/// Kinds of devices (5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    Block = 2,
    Console = 3,
    Entropy = 4,
    Balloon = 5,
    /// A server of files (9P).
    Share = 9,
}

/// Status bits (2.1).
pub mod status {
    pub const ACKNOWLEDGE: u32 = 1;
    pub const DRIVER: u32 = 2;
    pub const DRIVER_OK: u32 = 4;
    pub const FEATURES_OK: u32 = 8;
    pub const FAILED: u32 = 128;
}

/// The only generation of devices that is driven.
pub const VERSION_1: u64 = 1 << 32;
/// No vector.
const NO_VECTOR: u16 = 0xffff;
/// Where a queue that is not used is notified.
const NO_PLACE: usize = usize::MAX;
/// Looks at a register that a device takes its time to change.
const LOOKS: u32 = 100_000;
/// Reads of configuration that changes meanwhile.
const TRIES: u32 = 8;

/// Why a device is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Its registers are not those of a modern device.
    NotModern,
    /// It does not reset.
    Reset,
    /// It does not take the features that it offered.
    Features,
    /// It has no such queue, none of a size that can be used, or one in use.
    Queue,
    /// It does not take an interrupt vector.
    Vector,
    /// Its configuration changes all the time, or does not reach so far.
    Configuration,
    Memory,
}

/// Registers of PCI's common configuration (4.1.4.3).
mod common {
    pub const FEATURE_SELECT: usize = 0;
    pub const FEATURE: usize = 4;
    pub const DRIVER_FEATURE_SELECT: usize = 8;
    pub const DRIVER_FEATURE: usize = 12;
    pub const CONFIG_VECTOR: usize = 16;
    pub const QUEUES: usize = 18;
    pub const STATUS: usize = 20;
    pub const GENERATION: usize = 21;
    pub const QUEUE_SELECT: usize = 22;
    pub const QUEUE_SIZE: usize = 24;
    pub const QUEUE_VECTOR: usize = 26;
    pub const QUEUE_ENABLE: usize = 28;
    pub const QUEUE_NOTIFY: usize = 30;
    /// Descriptors, available ring, used ring: 64 bits each.
    pub const QUEUE_TABLES: usize = 32;
}

/// Memory-mapped registers (4.2.2).
mod mmio {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const KIND: usize = 8;
    pub const VENDOR: usize = 12;
    pub const FEATURE: usize = 0x10;
    pub const FEATURE_SELECT: usize = 0x14;
    pub const DRIVER_FEATURE: usize = 0x20;
    pub const DRIVER_FEATURE_SELECT: usize = 0x24;
    pub const QUEUE_SELECT: usize = 0x30;
    pub const QUEUE_MOST: usize = 0x34;
    pub const QUEUE_SIZE: usize = 0x38;
    pub const QUEUE_READY: usize = 0x44;
    pub const NOTIFY: usize = 0x50;
    pub const INTERRUPTS: usize = 0x60;
    pub const ACKNOWLEDGE: usize = 0x64;
    /// Of the reasons for an interrupt: the configuration has changed.
    pub const CHANGED: u32 = 2;
    pub const STATUS: usize = 0x70;
    pub const QUEUE_TABLES: [usize; 3] = [0x80, 0x90, 0xa0];
    pub const GENERATION: usize = 0xfc;
    pub const CONFIGURATION: usize = 0x100;
}

const MAGIC: u32 = 0x7472_6976;

/// A device's registers.
pub struct Pci<R> {
    common: R,
    notify: R,
    device: Option<R>,
    multiplier: u32,
    /// Where each queue is notified, from `notify`; found when it is set up.
    places: Vec<usize>,
}

pub enum Transport<R> {
    Pci(Pci<R>),
    Mmio(R),
}

impl<R: Registers> Transport<R> {
    /// A PCI function whose windows are mapped.
    pub fn pci(layout: &Layout, common: R, notify: R, device: Option<R>) -> Self {
        let multiplier = layout.notify_multiplier;
        Transport::Pci(Pci { common, notify, device, multiplier, places: Vec::new() })
    }

    /// Memory-mapped registers, and the kind and the vendor of the device that is there; `None`: there is none.
    ///
    /// # Errors
    /// NotModern: it is not modern.
    pub fn mmio(registers: R) -> Result<Option<(Self, u32, u32)>, Error> {
        if registers.read_word(mmio::MAGIC) != MAGIC {
            return Err(Error::NotModern);
        }
        let kind = registers.read_word(mmio::KIND);
        if kind == 0 {
            return Ok(None);
        }
        if registers.read_word(mmio::VERSION) != 2 {
            return Err(Error::NotModern);
        }
        let vendor = registers.read_word(mmio::VENDOR);
        Ok(Some((Transport::Mmio(registers), kind, vendor)))
    }

    fn status(&self) -> u32 {
        match self {
            Transport::Pci(pci) => pci.common.read(common::STATUS, Width::Byte),
            Transport::Mmio(registers) => registers.read_word(mmio::STATUS),
        }
    }

    fn set_status(&self, status: u32) {
        match self {
            Transport::Pci(pci) => pci.common.write(common::STATUS, Width::Byte, status),
            Transport::Mmio(registers) => registers.write_word(mmio::STATUS, status),
        }
    }

    /// Resets the device: it lets go of all memory. False: it does not say that it has, so what it could reach is its own for good.
    pub fn stop(&self) -> bool {
        self.set_status(0);
        (0..LOOKS).any(|_| self.status() == 0)
    }

    /// Brings the device up as far as its features: resets it, and takes those of `wanted` that it offers, which are returned. Queues are set
    /// up next; then [`go`](Self::go).
    ///
    /// # Errors
    /// Reset, NotModern, Features. The device is left failed.
    pub fn begin(&self, wanted: u64) -> Result<u64, Error> {
        if !self.stop() {
            return Err(Error::Reset);
        }
        let negotiated = self.negotiate(wanted);
        if negotiated.is_err() {
            self.set_status(status::FAILED);
        }
        negotiated
    }

    fn negotiate(&self, wanted: u64) -> Result<u64, Error> {
        let up = status::ACKNOWLEDGE | status::DRIVER;
        self.set_status(status::ACKNOWLEDGE);
        self.set_status(up);
        let offered = self.offered();
        if offered & VERSION_1 == 0 {
            return Err(Error::NotModern);
        }
        let taken = offered & (wanted | VERSION_1);
        self.take_features(taken);
        self.set_status(up | status::FEATURES_OK);
        if self.status() & status::FEATURES_OK == 0 {
            return Err(Error::Features);
        }
        Ok(taken)
    }

    /// The features that the device offers. Selects registers: only while the device is brought up.
    pub fn offered(&self) -> u64 {
        let word = |n: u32| match self {
            Transport::Pci(pci) => {
                pci.common.write_word(common::FEATURE_SELECT, n);
                pci.common.read_word(common::FEATURE)
            }
            Transport::Mmio(registers) => {
                registers.write_word(mmio::FEATURE_SELECT, n);
                registers.read_word(mmio::FEATURE)
            }
        };
        u64::from(word(0)) | u64::from(word(1)) << 32
    }

    fn take_features(&self, taken: u64) {
        for (n, word) in (0u32..).zip(halves(taken)) {
            match self {
                Transport::Pci(pci) => {
                    pci.common.write_word(common::DRIVER_FEATURE_SELECT, n);
                    pci.common.write_word(common::DRIVER_FEATURE, word);
                }
                Transport::Mmio(registers) => {
                    registers.write_word(mmio::DRIVER_FEATURE_SELECT, n);
                    registers.write_word(mmio::DRIVER_FEATURE, word);
                }
            }
        }
    }

    /// The largest power of two of at most `most` that queue `n` may have as its size. Selects the queue.
    ///
    /// # Errors
    /// Queue: there is none, or it is in use.
    pub fn queue_size(&self, n: u16, most: u16) -> Result<u16, Error> {
        let (offered, used) = match self {
            Transport::Pci(pci) => {
                if n >= pci.common.read(common::QUEUES, Width::Half) as u16 {
                    return Err(Error::Queue);
                }
                pci.common.write(common::QUEUE_SELECT, Width::Half, u32::from(n));
                let size = pci.common.read(common::QUEUE_SIZE, Width::Half);
                (size, pci.common.read(common::QUEUE_ENABLE, Width::Half))
            }
            Transport::Mmio(registers) => {
                registers.write_word(mmio::QUEUE_SELECT, u32::from(n));
                (registers.read_word(mmio::QUEUE_MOST), registers.read_word(mmio::QUEUE_READY))
            }
        };
        let size = offered.min(u32::from(most)) as u16;
        match size.checked_ilog2() {
            Some(log) if used == 0 => Ok(1 << log),
            _ => Err(Error::Queue),
        }
    }

    /// Sets queue `n` up and lets the device use it. `addresses` are those of its three tables; `vector`, which PCI alone has, its entry of MSI-X. Queues are
    /// set up in order; some may be left out.
    ///
    /// # Errors
    /// Queue, Vector, Memory.
    pub fn set_queue(&mut self, n: u16, size: u16, addresses: [u64; 3], vector: u16) -> Result<(), Error> {
        self.queue_size(n, size)?;
        match self {
            Transport::Pci(pci) => {
                let common = &pci.common;
                common.write(common::QUEUE_SIZE, Width::Half, u32::from(size));
                common.write(common::QUEUE_VECTOR, Width::Half, u32::from(vector));
                if common.read(common::QUEUE_VECTOR, Width::Half) != u32::from(vector) {
                    return Err(Error::Vector);
                }
                let words = addresses.into_iter().flat_map(halves);
                for (word, at) in words.zip((common::QUEUE_TABLES..).step_by(4)) {
                    common.write_word(at, word);
                }
                let offset = common.read(common::QUEUE_NOTIFY, Width::Half);
                // Below 2^48.
                let place = (u64::from(offset).saturating_mul(u64::from(pci.multiplier))) as usize;
                if place.saturating_add(2) > pci.notify.len() || pci.places.len() > usize::from(n) {
                    return Err(Error::Queue);
                }
                while pci.places.len() < usize::from(n) {
                    pci.places.try_push(NO_PLACE).map_err(|_| Error::Memory)?;
                }
                pci.places.try_push(place).map_err(|_| Error::Memory)?;
                common.write(common::QUEUE_ENABLE, Width::Half, 1);
            }
            Transport::Mmio(registers) => {
                registers.write_word(mmio::QUEUE_SIZE, u32::from(size));
                for (address, at) in addresses.into_iter().zip(mmio::QUEUE_TABLES) {
                    let [low, high] = halves(address);
                    registers.write_word(at, low);
                    registers.write_word(at.saturating_add(4), high);
                }
                registers.write_word(mmio::QUEUE_READY, 1);
            }
        }
        Ok(())
    }

    /// The device is in use from here on.
    pub fn go(&self) {
        self.set_status(self.status() | status::DRIVER_OK);
    }

    /// Tells the device that queue `n` has something for it.
    pub fn notify(&self, n: u16) {
        match self {
            Transport::Pci(pci) => {
                if let Some(&place) = pci.places.get(usize::from(n)).filter(|place| **place != NO_PLACE) {
                    pci.notify.write(place, Width::Half, u32::from(n));
                }
            }
            Transport::Mmio(registers) => registers.write_word(mmio::NOTIFY, u32::from(n)),
        }
    }

    /// Takes an interrupt of a device that has no messages: its line falls. Memory-mapped devices alone. True: the configuration has changed.
    pub fn acknowledge(&self) -> bool {
        let Transport::Mmio(registers) = self else { return false };
        let asked = registers.read_word(mmio::INTERRUPTS) & 3;
        if asked != 0 {
            registers.write_word(mmio::ACKNOWLEDGE, asked);
        }
        asked & mmio::CHANGED != 0
    }

    /// Has the device send entry `vector` of MSI-X, or none, when its configuration changes. Before the queues are set up; nothing is to be done without PCI.
    ///
    /// # Errors
    /// Vector: it does not take it.
    pub fn set_configuration_vector(&self, vector: Option<u16>) -> Result<(), Error> {
        let Transport::Pci(pci) = self else { return Ok(()) };
        let vector = vector.unwrap_or(NO_VECTOR);
        pci.common.write(common::CONFIG_VECTOR, Width::Half, u32::from(vector));
        let taken = pci.common.read(common::CONFIG_VECTOR, Width::Half) == u32::from(vector);
        if taken { Ok(()) } else { Err(Error::Vector) }
    }

    fn generation(&self) -> u32 {
        match self {
            Transport::Pci(pci) => pci.common.read(common::GENERATION, Width::Byte),
            Transport::Mmio(registers) => registers.read_word(mmio::GENERATION),
        }
    }

    /// Fields of the configuration of the device's kind, all of one moment: each from its place, in its own width.
    ///
    /// # Errors
    /// Configuration: it does not reach so far, or does not stand still.
    pub fn configuration<const N: usize>(&self, fields: [(usize, Width); N]) -> Result<[u32; N], Error> {
        let (registers, base) = match self {
            Transport::Pci(pci) => (pci.device.as_ref().ok_or(Error::Configuration)?, 0),
            Transport::Mmio(registers) => (registers, mmio::CONFIGURATION),
        };
        let fits = |&(at, width): &(usize, Width)| {
            at.saturating_add(base).saturating_add(width as usize) <= registers.len()
        };
        if !fields.iter().all(fits) {
            return Err(Error::Configuration);
        }
        for _ in 0..TRIES {
            let before = self.generation();
            let values = fields.map(|(at, width)| registers.read(at.saturating_add(base), width));
            if self.generation() == before {
                return Ok(values);
            }
        }
        Err(Error::Configuration)
    }

    /// Writes a word of the configuration of the device's kind; nothing if it does not reach so far.
    pub fn set_configuration(&self, at: usize, value: u32) {
        match self {
            Transport::Pci(pci) => {
                if let Some(registers) = &pci.device {
                    registers.write_word(at, value);
                }
            }
            Transport::Mmio(registers) => {
                registers.write_word(at.saturating_add(mmio::CONFIGURATION), value);
            }
        }
    }

    pub fn is_pci(&self) -> bool {
        matches!(self, Transport::Pci(_))
    }
}
