//! What a driver needs of PCI (PCI Local Bus 3.0, chapter 6): functions, capabilities, memory windows (BARs), MSI-X.
//!
//! Configuration space is written by devices and firmware: lists may loop, windows may be said to lie anywhere. Each walk has a bound, and a window
//! is taken only where its whole length lies in the memory that the function decodes.
//!
//! Not from the crate pci_types (0.10): its walk over capabilities follows a loop forever, and it panics at a BAR of a reserved type.

mod resources;

use crate::registers::{Registers, Width};
pub use resources::{Decoded, RESOURCES, Resource, resources};

/// A function's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub bus: u8,
    /// 0 to 31.
    pub device: u8,
    /// 0 to 7.
    pub function: u8,
}

/// Access to configuration space, in words of 32 bits; `at` is a multiple of four below 256. What is not there reads as ones.
pub trait Config {
    fn read(&self, place: Place, at: u8) -> u32;
    fn write(&self, place: Place, at: u8, value: u32);
}

pub const VENDOR_VIRTIO: u16 = 0x1af4;
/// Modern devices have this and their kind's number.
const MODERN: u16 = 0x1040;
/// Devices that can be driven as before 1.0, too.
const TRANSITIONAL: core::ops::Range<u16> = 0x1000..0x1040;

const COMMAND: u8 = 0x04;
const HEADER: u8 = 0x0c;
const FIRST_BAR: u8 = 0x10;
const BUSES: u8 = 0x18;
const SUBSYSTEM: u8 = 0x2c;
const CAPABILITIES: u8 = 0x34;
const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;
const STATUS_CAPABILITIES: u32 = 1 << 20;
const VENDOR_SPECIFIC: u8 = 0x09;
const MSI_X: u8 = 0x11;
/// More capabilities than fit behind the header.
const MOST_CAPABILITIES: usize = 48;

/// The functions of the buses that are reached from bus 0, each once, bridges before what lies behind them.
pub fn each_function(config: &impl Config, found: &mut impl FnMut(Place, u16, u16)) {
    let mut wanted = [0u64; 4];
    let mut seen = [0u64; 4];
    set(&mut wanted, 0);
    // A bus is looked at once, so this ends after 256.
    while let Some(bus) = (0..=u8::MAX).find(|&bus| has(&wanted, bus) && !has(&seen, bus)) {
        set(&mut seen, bus);
        for device in 0..32 {
            each_of_device(config, bus, device, &mut wanted, found);
        }
    }
}

fn each_of_device(
    config: &impl Config,
    bus: u8,
    device: u8,
    wanted: &mut [u64; 4],
    found: &mut impl FnMut(Place, u16, u16),
) {
    let mut functions = 1;
    let mut function = 0;
    while function < functions {
        let place = Place { bus, device, function };
        function = function.saturating_add(1);
        let id = config.read(place, 0);
        if id as u16 == 0xffff {
            continue;
        }
        let header = config.read(place, HEADER) >> 16 & 0xff;
        if place.function == 0 && header & 0x80 != 0 {
            functions = 8;
        }
        match header & 0x7f {
            0 => found(place, id as u16, (id >> 16) as u16),
            // A bridge: the bus behind it.
            1 => {
                set(wanted, (config.read(place, BUSES) >> 8) as u8);
                found(place, id as u16, (id >> 16) as u16);
            }
            _ => {}
        }
    }
}

fn has(set: &[u64; 4], bus: u8) -> bool {
    set.get(usize::from(bus >> 6)).is_some_and(|word| word & 1 << (bus & 63) != 0)
}

fn set(set: &mut [u64; 4], bus: u8) {
    if let Some(word) = set.get_mut(usize::from(bus >> 6)) {
        *word |= 1 << (bus & 63);
    }
}

/// The kind of virtio device that a function is (Virtio 1.2, 5): 4 is a source of entropy.
pub fn virtio_kind(config: &impl Config, place: Place, vendor: u16, device: u16) -> Option<u32> {
    if vendor != VENDOR_VIRTIO {
        return None;
    }
    if TRANSITIONAL.contains(&device) {
        return Some(config.read(place, SUBSYSTEM) >> 16);
    }
    device.checked_sub(MODERN).filter(|&kind| kind < 64).map(u32::from)
}

/// Where capabilities lie: (id, offset). Bounded, whatever the list says.
fn capabilities(config: &impl Config, place: Place) -> impl Iterator<Item = (u8, u8)> {
    let has_list = config.read(place, COMMAND) & STATUS_CAPABILITIES != 0;
    let first = if has_list { config.read(place, CAPABILITIES) as u8 } else { 0 };
    let next = move |at: u8| {
        let at = at & !3;
        // Nothing lies in the header.
        (at >= 0x40).then(|| (at, config.read(place, at)))
    };
    core::iter::successors(next(first), move |&(_, word)| next((word >> 8) as u8))
        .take(MOST_CAPABILITIES)
        .map(|(at, word)| (word as u8, at))
}

/// A piece of physical memory that a function decodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub address: u64,
    pub len: u64,
}

impl Window {
    /// A part of it; `None` if it does not lie inside whole, or is empty.
    fn part(self, offset: u64, len: u64) -> Option<Window> {
        let end = offset.checked_add(len)?;
        (len > 0 && end <= self.len).then_some(())?;
        Some(Window { address: self.address.checked_add(offset)?, len })
    }
}

/// The memory of a function's BARs, each measured once: that changes the machine's map of memory.
struct Bars<'a, C> {
    config: &'a C,
    place: Place,
    seen: [Option<Option<Window>>; 6],
}

impl<C: Config> Bars<'_, C> {
    fn window(&mut self, n: u8) -> Option<Window> {
        let seen = self.seen.get_mut(usize::from(n))?;
        *seen.get_or_insert_with(|| bar(self.config, self.place, n))
    }
}

/// The memory of BAR `n`. Decoding is turned off while it is measured, so nobody uses the function.
fn bar(config: &impl Config, place: Place, n: u8) -> Option<Window> {
    let at = FIRST_BAR.checked_add(n.checked_mul(4)?)?;
    (n < 6).then_some(())?;
    let low = config.read(place, at);
    // Ports, or one of the reserved types, are none of ours.
    let wide = match low & 7 {
        0 => false,
        4 if n < 5 => true,
        _ => return None,
    };
    let high_at = at.checked_add(4)?;
    let high = if wide { config.read(place, high_at) } else { 0 };
    let command = config.read(place, COMMAND) & 0xffff;
    config.write(place, COMMAND, command & !COMMAND_MEMORY);
    config.write(place, at, u32::MAX);
    let mut mask = u64::from(config.read(place, at) & !0xf);
    config.write(place, at, low);
    if wide {
        config.write(place, high_at, u32::MAX);
        mask |= u64::from(config.read(place, high_at)) << 32;
        config.write(place, high_at, high);
    } else if mask != 0 {
        mask |= 0xffff_ffff_0000_0000;
    }
    config.write(place, COMMAND, command);
    let address = u64::from(low & !0xf) | u64::from(high) << 32;
    let len = (!mask).wrapping_add(1);
    // A power of two, at an address that firmware has given it.
    (len.is_power_of_two() && address != 0 && address & !mask == 0 && address.checked_add(len).is_some())
        .then_some(Window { address, len })
}

/// What a virtio function's capabilities say (Virtio 1.2, 4.1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pub common: Window,
    pub notify: Window,
    /// Bytes between the notification addresses of two numbers.
    pub notify_multiplier: u32,
    pub isr: Window,
    /// Of the device's kind.
    pub device: Option<Window>,
    pub msi_x: MsiX,
}

/// MSI-X (6.8.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiX {
    pub table: Window,
    pub vectors: u16,
    /// Where its capability lies.
    at: u8,
}

const MSI_X_ENTRY: u64 = 16;
const MSI_X_ENABLE: u32 = 1 << 31;
const MSI_X_MASK_ALL: u32 = 1 << 30;

/// Common configuration up to the last register that is used.
const COMMON_LEN: u64 = 56;

/// Where a virtio function's registers lie; `None` where one is missing or does not lie in the function's memory, or there is no MSI-X. Turns on
/// memory and bus mastering, and line interrupts off.
pub fn layout(config: &impl Config, place: Place) -> Option<Layout> {
    let (mut common, mut notify, mut isr, mut device, mut msi_x) = (None, None, None, None, None);
    let mut bars = Bars { config, place, seen: [None; 6] };
    for (id, at) in capabilities(config, place) {
        let word = |n: u8| at.checked_add(n).map(|at| config.read(place, at));
        match id {
            VENDOR_SPECIFIC => {
                let (Some(first), Some(second), Some(offset), Some(len)) =
                    (word(0), word(4), word(8), word(12))
                else {
                    continue;
                };
                let mut window = || bars.window(second as u8)?.part(u64::from(offset), u64::from(len));
                // The first of a kind that can be used counts.
                match first >> 24 {
                    1 if common.is_none() => common = window().filter(|window| window.len >= COMMON_LEN),
                    2 if notify.is_none() => {
                        notify = window().zip(word(16));
                    }
                    3 if isr.is_none() => isr = window(),
                    4 if device.is_none() => device = window(),
                    _ => {}
                }
            }
            MSI_X if msi_x.is_none() => {
                let (Some(control), Some(table)) = (word(0), word(4)) else { continue };
                let vectors = (control >> 16 & 0x7ff).saturating_add(1) as u16;
                let len = u64::from(vectors).saturating_mul(MSI_X_ENTRY);
                msi_x = bars
                    .window((table & 7) as u8)
                    .and_then(|window| window.part(u64::from(table & !7), len))
                    .map(|table| MsiX { table, vectors, at });
            }
            _ => {}
        }
    }
    let (notify, notify_multiplier) = notify?;
    let layout = Layout { common: common?, notify, notify_multiplier, isr: isr?, device, msi_x: msi_x? };
    let command = config.read(place, COMMAND) & 0xffff;
    config.write(place, COMMAND, command | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTX);
    Some(layout)
}

/// What a message interrupt writes, and where: the machine's to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    pub address: u64,
    pub data: u32,
}

impl MsiX {
    /// Lets vector `n` send `message`. `table` is the window of the table.
    pub fn set(&self, table: &impl Registers, n: u16, message: Message) -> bool {
        if n >= self.vectors {
            return false;
        }
        let at = usize::from(n).saturating_mul(MSI_X_ENTRY as usize);
        let [low, high] = crate::registers::halves(message.address);
        // Masked, until it is whole.
        table.write_word(at.saturating_add(12), 1);
        table.write_word(at, low);
        table.write_word(at.saturating_add(4), high);
        table.write_word(at.saturating_add(8), message.data);
        table.write_word(at.saturating_add(12), 0);
        table.read(at.saturating_add(12), Width::Word) == 0
    }

    /// Turns message interrupts on.
    pub fn enable(&self, config: &impl Config, place: Place) {
        let control = config.read(place, self.at);
        config.write(place, self.at, (control | MSI_X_ENABLE) & !MSI_X_MASK_ALL);
    }

    #[cfg(test)]
    pub fn for_test(table: Window, vectors: u16) -> Self {
        Self { table, vectors, at: 0x40 }
    }
}
