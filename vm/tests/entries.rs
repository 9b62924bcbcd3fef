//! The encoding of page-table entries (`vm::entry`): what is put in comes out, each kind is told from the others, and what is reserved
//! stops who meets it.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use proptest::prelude::*;
use soft::Soft;
use std::panic::catch_unwind;
use vm::entry::{LeafEntry, SwapPlace, UpperEntry};
use vm::{Entry, Machine, PhysAddr, Prot};

/// Any page of 52 bits of physical memory.
fn frames() -> impl Strategy<Value = PhysAddr> {
    (0..1u64 << 40).prop_map(|number| PhysAddr(number << 12))
}

fn rights() -> impl Strategy<Value = Prot> {
    (0..8u8).prop_map(Prot::from_bits_truncate)
}

proptest! {
    #[test]
    fn a_page_comes_out_as_it_was_put_in(frame in frames(), prot in rights(), private: bool, pooled: bool) {
        let mut entry = Entry::page::<Soft>(frame, prot, private);
        if pooled {
            entry = entry.pooled();
        }
        let kind = if prot.is_empty() { LeafEntry::Closed(frame) } else { LeafEntry::Page(frame) };
        prop_assert_eq!(entry.in_leaf::<Soft>(), kind);
        prop_assert_eq!((entry.is_private(), entry.is_pooled()), (private, pooled));
        prop_assert_eq!(entry.owns_frame(), private && !pooled);
        prop_assert!(!entry.is_absent() && !entry.is_busy());
        prop_assert_eq!(Soft::is_writable(entry), prot.contains(Prot::WRITE));
        prop_assert_eq!(Soft::read_only(entry).in_leaf::<Soft>(), kind);
        prop_assert_eq!(entry.owning(), Entry::page::<Soft>(frame, prot, private));
        // As it is built for a run of pages.
        prop_assert_eq!(Entry::page::<Soft>(PhysAddr(0), prot, private).0 | frame.0, entry.owning().0);
    }

    #[test]
    fn other_rights_change_nothing_else(frame in frames(), old in rights(), new in rights(), private: bool, pooled: bool) {
        let page = |prot| {
            let entry = Entry::page::<Soft>(frame, prot, private);
            if pooled { entry.pooled() } else { entry }
        };
        prop_assert_eq!(page(old).with_prot::<Soft>(new), page(new));
    }

    #[test]
    fn a_busy_entry_names_its_cpu_and_no_page(cpu in 0..sync::MAX_CPUS as u32) {
        let entry = Entry::busy(cpu);
        prop_assert_eq!(entry.in_leaf::<Soft>(), LeafEntry::Busy(cpu));
        prop_assert!(entry.is_busy() && !entry.is_absent());
        prop_assert!(!entry.is_private() && !entry.is_pooled() && !Soft::is_writable(entry));
    }

    #[test]
    fn a_page_in_swap_names_its_slot_and_no_frame(area in 0..32u8, slot: u32, prot in rights()) {
        // Bits 9 to 11 and the two numbers.
        let entry = Entry(0b111 << 9 | u64::from(area) << 3 | u64::from(slot) << 12);
        prop_assert_eq!(entry.in_leaf::<Soft>(), LeafEntry::InSwap(SwapPlace { area, slot }));
        prop_assert_eq!(entry.swap_place(), Some(SwapPlace { area, slot }));
        prop_assert!(entry.is_away() && !entry.is_busy() && !entry.is_absent());
        prop_assert!(entry.is_private() && entry.owns() && !entry.owns_frame() && !entry.is_pooled());
        prop_assert!(!Soft::is_writable(entry) && entry.0 & Soft::PRESENT == 0);
        // And no other entry does.
        let page = Entry::page::<Soft>(PhysAddr(u64::from(slot) << 12), prot, true);
        for other in [page, page.pooled(), Entry::busy(area.into()), Entry::ABSENT] {
            prop_assert_eq!(other.swap_place(), None);
            prop_assert_eq!(other.is_away(), other.is_busy());
        }
    }

    #[test]
    fn a_large_page_comes_out_as_it_was_put_in(number in 0..1u64 << 31, prot in rights()) {
        let first = Entry::page::<Soft>(PhysAddr(number << 21), prot | Prot::READ, true);
        let entry = first.large_page::<Soft>();
        prop_assert_eq!(entry.in_upper::<Soft>(), UpperEntry::Large(PhysAddr(number << 21)));
        prop_assert_eq!(entry.large_block::<Soft>(), Some(PhysAddr(number << 21)));
        prop_assert_eq!(first.large_block::<Soft>(), None);
        prop_assert_eq!(Soft::is_writable(entry), prot.contains(Prot::WRITE));
    }

    #[test]
    fn a_table_comes_out_as_it_was_put_in(table in frames(), writable: bool) {
        let entry = Soft::table(table, writable);
        prop_assert_eq!(entry.in_upper::<Soft>(), UpperEntry::Table(table));
        prop_assert_eq!(entry.table::<Soft>(), Some(table));
        prop_assert_eq!(Soft::is_writable(entry), writable);
    }

    /// Whatever word lies in a leaf is of one kind, or stops who looks.
    #[test]
    fn every_word_is_of_one_kind_or_refused(word: u64) {
        let entry = Entry(word);
        let kind = catch_unwind(|| entry.in_leaf::<Soft>()).ok();
        let present = word & Soft::PRESENT != 0;
        let expected = match (word >> 11 & 1, word >> 9 & 1) {
            _ if present => Some(LeafEntry::Page(entry.address::<Soft>())),
            _ if word == 0 => Some(LeafEntry::Absent),
            (0, 1) => Some(LeafEntry::Busy((entry.address::<Soft>().0 >> 12) as u32)),
            (1, 0) => Some(LeafEntry::Closed(entry.address::<Soft>())),
            (1, 1) if word >> 8 & 1 == 0 => {
                let (area, slot) = ((word >> 3 & 31) as u8, (word >> 12) as u32);
                Some(LeafEntry::InSwap(SwapPlace { area, slot }))
            }
            _ => None,
        };
        prop_assert_eq!(kind, expected);
        prop_assert_eq!(catch_unwind(|| entry.in_upper::<Soft>()).is_ok(), present || word == 0);
        let is_table = present && word & Soft::LARGE == 0;
        // A release build takes whatever is there for a table.
        if cfg!(debug_assertions) {
            prop_assert_eq!(catch_unwind(|| entry.table::<Soft>()).is_ok(), is_table || word == 0);
        }
    }
}

#[test]
fn absent_is_zero_everywhere() {
    assert_eq!(Entry::ABSENT.in_leaf::<Soft>(), LeafEntry::Absent);
    assert_eq!(Entry::ABSENT.in_upper::<Soft>(), UpperEntry::Absent);
    assert_eq!(Entry::ABSENT.table::<Soft>(), None);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "an assertion of debug builds")]
fn a_walk_refuses_to_take_a_large_page_for_a_table() {
    let large = Entry(Soft::table(PhysAddr(0x20_0000), true).0 | Soft::LARGE);
    assert!(catch_unwind(|| large.table::<Soft>()).is_err());
    for what in [Entry::busy(3), Entry::page::<Soft>(PhysAddr(0x1000), Prot::empty(), true)] {
        assert!(catch_unwind(|| what.table::<Soft>()).is_err(), "{what:?}");
    }
}
