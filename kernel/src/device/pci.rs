//! The functions of PCI that there are, for those who list them: where they lie, what they decode and what their configuration says.
//!
//! They are looked for once, on the boot CPU; the registers are those of the moment when all drivers were up. No locks.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use ::virtio::pci::{self, Config, Place, RESOURCES, Resource};
use sync::{TryVec, try_box};
use vm::OnceBox;

use crate::arch::pci::Pci;

/// Functions that are listed at most.
const MOST: usize = 64;
/// Configuration space, in words of 32 bits.
const WORDS: usize = 64;

/// Registers, by their first byte (PCI Local Bus 3.0, 6.1).
pub mod register {
    pub const ID: u8 = 0x00;
    pub const CLASS: u8 = 0x08;
    pub const HEADER: u8 = 0x0c;
    pub const SUBSYSTEM: u8 = 0x2c;
    pub const INTERRUPT: u8 = 0x3c;
}

pub struct Function {
    pub place: Place,
    /// By BARs, and the ROM: the last.
    pub resources: [Option<Resource>; RESOURCES],
    /// The bridge before it, by its number, which is lower than this one's. None: it lies on a bus that none leads to.
    pub bridge: Option<usize>,
    words: [u32; WORDS],
}

static FUNCTIONS: OnceBox<Vec<Function>> = OnceBox::new();
/// Their registers, later: see [`note_registers`].
static REGISTERS: OnceBox<Vec<[u32; WORDS]>> = OnceBox::new();

/// By bus, device and function, as the buses were found.
pub fn functions() -> &'static [Function] {
    FUNCTIONS.get().map_or(&[], Vec::as_slice)
}

/// Which one is at a place.
pub fn number_of(place: Place) -> Option<usize> {
    functions().iter().position(|function| function.place == place)
}

impl Function {
    /// A register, as it was when all drivers were up. `at` is a multiple of four.
    pub fn register(&self, at: u8) -> u32 {
        let own = number_of(self.place).and_then(|n| REGISTERS.get()?.get(n));
        own.unwrap_or(&self.words).get(usize::from(at / 4)).copied().unwrap_or(u32::MAX)
    }

    pub fn is_bridge(&self) -> bool {
        self.register(register::HEADER) >> 16 & 0x7f == 1
    }

    /// Its configuration space.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        (0..WORDS).flat_map(|n| self.register((n * 4) as u8).to_le_bytes())
    }
}

fn words(config: &Pci, place: Place) -> [u32; WORDS] {
    core::array::from_fn(|n| config.read(place, (n * 4) as u8))
}

/// Looks for them, and measures what they decode. On the boot CPU, before there are others and before drivers use any: as `virtio::find_functions`.
pub fn find() {
    let config = Pci::new();
    let mut found: Vec<Function> = Vec::new();
    pci::each_function(&config, &mut |place, _, _| {
        if found.len() >= MOST {
            return;
        }
        let bridge = found.iter().position(|other| {
            let leads = (other.words[usize::from(0x18u8 / 4)] >> 8) as u8 == place.bus;
            other.words[3] >> 16 & 0x7f == 1 && leads && place.bus != 0
        });
        let words = words(&config, place);
        let resources = pci::resources(&config, place);
        // Without memory it is not listed.
        let _ = found.try_push(Function { place, resources, bridge, words });
    });
    let _ = FUNCTIONS.get_or_try(|| try_box(found));
}

/// Notes their registers again, now that drivers have written some. Once, in a thread.
pub fn note_registers() {
    let config = Pci::new();
    let mut registers = Vec::new();
    for function in functions() {
        if registers.try_push(words(&config, function.place)).is_err() {
            return;
        }
    }
    let _ = REGISTERS.get_or_try(|| try_box(registers));
}
