//! PCI functions whose configuration space is wrong.

use std::cell::RefCell;
use std::collections::HashMap;
use std::vec::Vec;

use proptest::prelude::*;

use crate::pci::{self, Config, Decoded, Place, Resource, Window};

const PLACE: Place = Place { bus: 0, device: 3, function: 0 };

/// One function's 256 bytes; BARs answer with their size where all ones are written.
struct Space {
    words: RefCell<[u32; 64]>,
    /// Of each BAR: the bits that can be written.
    masks: [u32; 6],
    reads: RefCell<u32>,
}

impl Config for Space {
    fn read(&self, place: Place, at: u8) -> u32 {
        *self.reads.borrow_mut() += 1;
        assert!(*self.reads.borrow() < 100_000, "a walk without end");
        if place == PLACE { self.words.borrow()[usize::from(at / 4)] } else { u32::MAX }
    }

    fn write(&self, place: Place, at: u8, value: u32) {
        assert_eq!(place, PLACE);
        let n = usize::from(at / 4);
        let old = self.words.borrow()[n];
        self.words.borrow_mut()[n] = match n.checked_sub(4).and_then(|bar| self.masks.get(bar)) {
            Some(&u32::MAX) => value,
            Some(mask) => value & mask | old & 0xf,
            None => value,
        };
    }
}

impl Space {
    /// A virtio function as QEMU makes it: registers in BAR 4 (64 bits, 16 KiB), the table of MSI-X in BAR 1.
    fn honest() -> Space {
        let mut words = [0; 64];
        words[0] = 0x1044_1af4;
        words[1] = 1 << 20;
        words[5] = 0xfebd_1000;
        words[8] = 0xe000_0004;
        words[9] = 0x8;
        words[13] = 0x40;
        let kinds = [(1, 0, 0x38), (3, 0x1000, 4), (4, 0x2000, 0x100), (2, 0x3000, 0x1000)];
        let mut at = 0x40u32;
        for (kind, offset, len) in kinds {
            let next = at + 20;
            let n = at as usize / 4;
            words[n] = 0x09 | next << 8 | 20 << 16 | kind << 24;
            words[n + 1] = 4;
            words[n + 2] = offset;
            words[n + 3] = len;
            words[n + 4] = 4;
            at = next;
        }
        let n = at as usize / 4;
        words[n] = 0x11 | 2 << 16;
        words[n + 1] = 1;
        let masks = [0, 0xffff_f000, 0, 0, 0xffff_c000, u32::MAX];
        Space { words: RefCell::new(words), masks, reads: RefCell::default() }
    }

    fn set(self, at: usize, value: u32) -> Space {
        self.words.borrow_mut()[at / 4] = value;
        self
    }

    fn found(&self) -> Option<pci::Layout> {
        pci::layout(self, PLACE)
    }
}

#[test]
fn the_layout_of_an_honest_function_is_found() {
    let space = Space::honest();
    let layout = space.found().unwrap();
    assert_eq!(layout.common, Window { address: 0x8_e000_0000, len: 0x38 });
    assert_eq!(layout.notify, Window { address: 0x8_e000_3000, len: 0x1000 });
    assert_eq!(layout.notify_multiplier, 4);
    assert_eq!(layout.msi_x.table, Window { address: 0xfebd_1000, len: 48 });
    assert_eq!(layout.msi_x.vectors, 3);
    // BARs are as they were; memory and mastering are on, lines off.
    assert_eq!(space.words.borrow()[8..10], [0xe000_0004, 8]);
    assert_eq!(space.words.borrow()[1] & 0x406, 0x406);
    assert_eq!(pci::virtio_kind(&space, PLACE, 0x1af4, 0x1044), Some(4));
}

#[test]
fn a_list_of_capabilities_that_loops_ends() {
    // The first leads to itself; the last back to the first; into the header; to what is not aligned.
    assert_eq!(Space::honest().set(0x40, 0x0114_4009).found(), None);
    assert!(Space::honest().set(0x90, 0x0002_4011).found().is_some());
    assert_eq!(Space::honest().set(0x40, 0x0114_0409).found(), None);
    assert_eq!(Space::honest().set(0x34, 0).found(), None);
    assert_eq!(Space::honest().set(0x34, 0xfc).found(), None);
}

#[test]
fn a_window_outside_its_bar_is_none() {
    // Offset and length of the common configuration; then which BAR.
    for (offset, len) in
        [(0x3fff, 0x38), (0x4000, 0x38), (u32::MAX, 0x38), (0, 0x4001), (0, 0), (0, 16), (8, u32::MAX)]
    {
        assert_eq!(Space::honest().set(0x48, offset).set(0x4c, len).found(), None, "{offset:#x} {len:#x}");
    }
    for bar in [0, 2, 3, 5, 6, 7, 255] {
        assert_eq!(Space::honest().set(0x44, bar).found(), None, "{bar}");
    }
    // A table of 2048 entries does not lie in a page.
    assert_eq!(Space::honest().set(0x90, 0x07ff_0011).found(), None);
    assert_eq!(Space::honest().set(0x94, 0xff9).found(), None);
}

#[test]
fn a_bar_that_is_no_memory_is_none() {
    // Ports, two reserved types, no address, an address inside its own size.
    for low in [0xe001, 0xe000_0002, 0xe000_0006, 0x0000_0004, 0xe000_1004] {
        let space = Space::honest().set(0x20, low).set(0x24, 0);
        assert_eq!(space.found(), None, "{low:#x}");
    }
}

/// Buses that lead to each other, functions everywhere.
struct Maze {
    buses: HashMap<u8, u8>,
    reads: RefCell<u32>,
}

impl Config for Maze {
    fn read(&self, place: Place, at: u8) -> u32 {
        *self.reads.borrow_mut() += 1;
        match (at, place.device) {
            (0, _) => 0x1044_1af4,
            (0x0c, 0) => 0x0081_0000,
            (0x0c, _) => 0x0080_0000,
            (0x18, _) => u32::from(*self.buses.get(&place.bus).unwrap_or(&place.bus)) << 8,
            _ => 0,
        }
    }

    fn write(&self, _: Place, _: u8, _: u32) {}
}

#[test]
fn buses_that_lead_in_a_circle_are_looked_at_once() {
    let maze = Maze { buses: [(0, 7), (7, 200), (200, 0)].into(), reads: RefCell::default() };
    let mut seen = Vec::new();
    pci::each_function(&maze, &mut |place, _, _| seen.push(place));
    // 31 devices of 8 functions on each, and as many functions of the bridge.
    assert_eq!(seen.iter().filter(|place| place.bus == 200).count(), 32 * 8);
    assert_eq!(seen.len(), 3 * 32 * 8);
    let all = Maze { buses: (0..=254).map(|n| (n, n + 1)).collect(), reads: RefCell::default() };
    pci::each_function(&all, &mut |_, _, _| {});
    assert!(*all.reads.borrow() < 256 * 32 * 8 * 4);
}

#[test]
fn what_a_function_decodes_is_measured() {
    // Writing zeros into the status leaves it as it is in hardware, and not here.
    let mut space = Space::honest().set(0x04, 7).set(0x14, 0xc001).set(0x18, 0xfeb0_000c).set(0x1c, 1);
    space.masks = [0, 0xffff_ffe1, 0xffff_c00c, u32::MAX, 0xffff_f000, 0];
    let before: Vec<u32> = (0..16).map(|n| space.read(PLACE, n * 4)).collect();
    let found = pci::resources(&space, PLACE);
    assert_eq!(found[0], None);
    assert_eq!(found[1], Some(Resource { decoded: Decoded::Ports, address: 0xc000, len: 32 }));
    let wide = Decoded::Memory { wide: true, prefetchable: true };
    assert_eq!(found[2], Some(Resource { decoded: wide, address: 0x1_feb0_0000, len: 0x4000 }));
    assert_eq!(found[3], None);
    assert_eq!(found[6], Some(Resource { decoded: Decoded::Rom, address: 0, len: 2048 }));
    let after: Vec<u32> = (0..16).map(|n| space.read(PLACE, n * 4)).collect();
    assert_eq!(before, after);
}

proptest! {
    #[test]
    fn any_resource_is_a_power_of_two(
        masks in prop::array::uniform6(any::<u32>()),
        bars in prop::array::uniform6(any::<u32>()),
    ) {
        let mut space = Space::honest();
        space.masks = masks;
        for (n, bar) in bars.into_iter().enumerate() {
            space = space.set(0x10 + n * 4, bar);
        }
        for resource in pci::resources(&space, PLACE).into_iter().flatten() {
            prop_assert!(resource.len.is_power_of_two());
        }
    }

    #[test]
    fn any_configuration_space_gives_windows_inside_bars_or_none(
        changes in prop::collection::vec((0..64usize, any::<u32>()), 0..12),
        masks in prop::array::uniform6(prop_oneof![Just(0u32), Just(0xffff_f000), Just(u32::MAX), any::<u32>()]),
    ) {
        let mut space = Space::honest();
        space.masks = masks;
        for (at, value) in changes {
            space = space.set(at * 4, value);
        }
        if let Some(layout) = space.found() {
            for window in [layout.common, layout.notify, layout.isr, layout.msi_x.table] {
                prop_assert!(window.len > 0);
                prop_assert!(window.address.checked_add(window.len).is_some());
            }
        }
    }
}
