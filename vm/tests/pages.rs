//! What is told of the pages that a program has mapped: which they are, what they are, and how many spaces have them.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, anon, at, space};
use soft::{Soft, switch_to};
use vm::*;

const PAGE: usize = 4096;
const START: usize = 0x10_0000_0000;

/// Page of the range, kind, spaces that have it.
fn pages(space: &Space<Soft>, start: usize, count: usize) -> Vec<(usize, PageKind, u32)> {
    let mut seen = Vec::new();
    assert!(space.for_each_page(start..start + count * PAGE, &mut |page| {
        seen.push(((page.addr - start) / PAGE, page.kind, page.mappers));
    }));
    seen
}

fn touch(space: &Space<Soft>, page: usize, access: Access) {
    space.fault(VirtAddr(START + page * PAGE), access).unwrap();
}

#[test]
fn private_pages_are_told_with_who_else_has_them() {
    let _alone = alone();
    let parent = space();
    switch_to(&parent);
    parent.map(&at(START, 1200 * PAGE, RW)).unwrap();
    assert_eq!(pages(&parent, START, 1200), []);
    // In three leaves.
    for page in [0, 40, 600, 1199] {
        touch(&parent, page, Access::WRITE);
    }
    let own = |of: u32| [0, 40, 600, 1199].map(|page| (page, PageKind::Private, of));
    assert_eq!(pages(&parent, START, 1200), own(1));
    assert_eq!(pages(&parent, START, 600), own(1)[..2]);
    let child = parent.fork().unwrap();
    assert_eq!(pages(&parent, START, 1200), own(2));
    assert_eq!(pages(&child, START, 1200), own(2));
    // The child's copy of the first leaf: the page that it has written is its own.
    switch_to(&child);
    touch(&child, 0, Access::WRITE);
    assert_eq!(pages(&child, START, 2), [(0, PageKind::Private, 1)]);
    assert_eq!(pages(&child, START + PAGE, 100), [(39, PageKind::Private, 2)]);
    drop(child);
}

#[test]
fn the_page_of_zeros_is_nobodys() {
    let _alone = alone();
    let s = space();
    switch_to(&s);
    s.map(&at(START, 4 * PAGE, RW)).unwrap();
    touch(&s, 2, Access::READ);
    assert_eq!(pages(&s, START, 4), [(2, PageKind::Zero, 1)]);
}

#[test]
fn pages_of_an_object_are_told_with_all_spaces_that_have_them() {
    let _alone = alone();
    let (one, two) = (space(), space());
    let object = Object::try_new(0).unwrap();
    object.set_size(64 * PAGE as u64).unwrap();
    let mapping = |offset: u64| MapRequest {
        backing: Backing::Object { object: object.clone(), offset },
        flags: MapFlags::FIXED | MapFlags::SHARED,
        ..at(START, 8 * PAGE, RW)
    };
    let kind = PageKind::Object { paged: false };
    switch_to(&one);
    one.map(&mapping(0)).unwrap();
    for page in [1, 4, 6] {
        touch(&one, page, Access::WRITE);
    }
    assert_eq!(pages(&one, START, 8), [1, 4, 6].map(|page| (page, kind, 1)));
    switch_to(&two);
    // Two pages further on: its page 2 is the other's page 4.
    two.map(&mapping(2 * PAGE as u64)).unwrap();
    touch(&two, 2, Access::WRITE);
    let seen = pages(&two, START, 8);
    assert!(seen.contains(&(2, kind, 2)), "{seen:?}");
    let seen = pages(&one, START, 8);
    assert!(seen.contains(&(4, kind, 2)) && seen.contains(&(1, kind, 1)), "{seen:?}");
    let _ = anon(PAGE);
}
