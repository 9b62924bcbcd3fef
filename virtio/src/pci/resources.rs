//! What a function of PCI decodes: ports and memory by its BARs, and its ROM (PCI Local Bus 3.0, 6.2.5).

use super::{COMMAND, COMMAND_MEMORY, Config, FIRST_BAR, HEADER, Place};

const COMMAND_PORTS: u32 = 1 << 0;
const ROM: u8 = 0x30;
const ROM_OF_BRIDGE: u8 = 0x38;

/// What lies in a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded {
    Ports,
    Memory {
        /// Of 64 bits: it takes two BARs.
        wide: bool,
        prefetchable: bool,
    },
    Rom,
}

/// A range that a function decodes, or would if it had an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resource {
    pub decoded: Decoded,
    pub address: u64,
    /// A power of two.
    pub len: u64,
}

/// BARs and the ROM: the last.
pub const RESOURCES: usize = 7;

/// The ranges of a function by the numbers of their BARs, and the ROM's. Nobody may use the function meanwhile: what it decodes is turned off while it is
/// measured.
pub fn resources(config: &impl Config, place: Place) -> [Option<Resource>; RESOURCES] {
    let is_bridge = config.read(place, HEADER) >> 16 & 0x7f == 1;
    let (bars, rom) = if is_bridge { (2u8, ROM_OF_BRIDGE) } else { (6, ROM) };
    let command = config.read(place, COMMAND) & 0xffff;
    config.write(place, COMMAND, command & !(COMMAND_MEMORY | COMMAND_PORTS));
    let mut found = [None; RESOURCES];
    let mut n = 0u8;
    while n < bars {
        let at = FIRST_BAR.saturating_add(n.saturating_mul(4));
        let has_next = n.saturating_add(1) < bars;
        let is_wide = has_next && config.read(place, at) & 7 == 4;
        let resource = measure(config, place, at, has_next);
        if let Some(slot) = found.get_mut(usize::from(n)) {
            *slot = resource;
        }
        n = n.saturating_add(if is_wide { 2 } else { 1 });
    }
    if let Some(slot) = found.last_mut() {
        *slot = measure_rom(config, place, rom);
    }
    config.write(place, COMMAND, command);
    found
}

/// The bits of a register that can be set. It is afterwards as it was.
fn settable(config: &impl Config, place: Place, at: u8, ones: u32) -> u32 {
    let was = config.read(place, at);
    config.write(place, at, ones);
    let set = config.read(place, at);
    config.write(place, at, was);
    set
}

/// The length that a mask of settable address bits says, `None` where no bit is, or they have gaps.
fn len_of(mask: u64) -> Option<u64> {
    let len = (!mask).wrapping_add(1);
    (mask != 0 && len.is_power_of_two()).then_some(len)
}

fn measure(config: &impl Config, place: Place, at: u8, has_next: bool) -> Option<Resource> {
    const HIGH: u64 = 0xffff_ffff_0000_0000;
    let low = config.read(place, at);
    if low & 1 != 0 {
        let mask = u64::from(settable(config, place, at, u32::MAX) & !3);
        // The upper half of a port's number may not be there.
        let len = len_of(mask | HIGH | 0xffff_0000)?;
        return Some(Resource { decoded: Decoded::Ports, address: u64::from(low & !3), len });
    }
    let wide = match low >> 1 & 3 {
        0 => false,
        2 if has_next => true,
        _ => return None,
    };
    let own = u64::from(settable(config, place, at, u32::MAX) & !0xf);
    let next = at.saturating_add(4);
    let (address, mask) = if wide {
        let high = u64::from(settable(config, place, next, u32::MAX)) << 32;
        (u64::from(config.read(place, next)) << 32, own | high)
    } else {
        (0, if own == 0 { 0 } else { own | HIGH })
    };
    let address = address | u64::from(low & !0xf);
    let decoded = Decoded::Memory { wide, prefetchable: low & 8 != 0 };
    Some(Resource { decoded, address, len: len_of(mask)? })
}

fn measure_rom(config: &impl Config, place: Place, at: u8) -> Option<Resource> {
    const ADDRESS: u32 = !0x7ff;
    let address = u64::from(config.read(place, at) & ADDRESS);
    // Without its lowest bit, which turns it on.
    let mask = settable(config, place, at, ADDRESS) & ADDRESS;
    let len = if mask == 0 { None } else { len_of(u64::from(mask) | 0xffff_ffff_0000_0000) };
    Some(Resource { decoded: Decoded::Rom, address, len: len? })
}
