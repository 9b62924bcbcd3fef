//! The number of mappings that a space keeps near the limit is that of the lines of /proc/PID/maps, whatever is done to it.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use proptest::prelude::*;
use soft::requests::{RW, alone, anon, at, space};
use soft::{Soft, switch_to};
use vm::*;

const BASE: usize = 0x10_0000_0000;
const PAGE: usize = 4096;
/// Pages that are used: on either side of a border between two leaves.
const PAGES: usize = 24;
const START: usize = BASE + (512 - PAGES / 2) * PAGE;

#[derive(Clone, Debug)]
enum Op {
    Map(usize, usize, bool),
    MapSomewhere(usize),
    Unmap(usize, usize),
    Protect(usize, usize, bool),
    Flags(usize, usize, bool),
    Lock(usize, usize, bool),
    Move(usize, usize, usize),
    Brk(usize),
    Fork,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let range = || (0..PAGES, 1..8usize);
    let op = prop_oneof![
        3 => (range(), any::<bool>()).prop_map(|((a, n), w)| Op::Map(a, n, w)),
        1 => (1..3usize).prop_map(Op::MapSomewhere),
        2 => range().prop_map(|(a, n)| Op::Unmap(a, n)),
        3 => (range(), any::<bool>()).prop_map(|((a, n), w)| Op::Protect(a, n, w)),
        1 => (range(), any::<bool>()).prop_map(|((a, n), w)| Op::Flags(a, n, w)),
        1 => (range(), any::<bool>()).prop_map(|((a, n), w)| Op::Lock(a, n, w)),
        1 => (range(), 1..8usize).prop_map(|((a, n), m)| Op::Move(a, n, m)),
        1 => (0..6usize).prop_map(Op::Brk),
        1 => Just(Op::Fork),
    ];
    prop::collection::vec(op, 1..60)
}

fn lines(space: &Space<Soft>) -> usize {
    let mut lines = 0;
    space.for_each_mapping(&mut |_| lines += 1);
    lines
}

fn apply(s: &Space<Soft>, op: &Op) -> Result<(), VmError> {
    let place = |page: usize| VirtAddr(START + page * PAGE);
    let prot = |w| if w { RW } else { Prot::READ };
    match *op {
        Op::Map(a, n, w) => s.map(&at(place(a).0, n * PAGE, prot(w))).map(drop),
        Op::MapSomewhere(n) => s.map(&anon(n * PAGE)).map(drop),
        Op::Unmap(a, n) => s.unmap(place(a), n * PAGE),
        Op::Protect(a, n, w) => s.protect(place(a), n * PAGE, prot(w)),
        Op::Flags(a, n, true) => s.advise(place(a), n * PAGE, Advice::WipeOnFork),
        Op::Flags(a, n, false) => s.advise(place(a), n * PAGE, Advice::KeepOnFork),
        Op::Lock(a, n, on) => s.set_lock(place(a), n * PAGE, on.then_some(Lock::OnFault)),
        Op::Move(a, n, m) => {
            s.remap(place(a), n * PAGE, m * PAGE, MremapFlags::MAYMOVE, VirtAddr(0)).map(drop)
        }
        Op::Brk(n) => {
            s.brk(VirtAddr(BASE / 2 + n * PAGE));
            Ok(())
        }
        Op::Fork => s.fork().map(drop),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn the_number_that_is_kept_is_that_of_the_lines(ops in ops(), multithreaded in any::<bool>(), limit in 8..40usize) {
        let _g = alone();
        // Near the limit from the beginning.
        set_max_mappings(1);
        let s = space();
        s.set_brk(VirtAddr(BASE / 2));
        if multithreaded {
            s.set_multithreaded();
        }
        switch_to(&s);
        let _ = apply(&s, &Op::Map(0, 1, true));
        set_max_mappings(limit);
        for op in &ops {
            let before = lines(&s);
            let result = apply(&s, op);
            if let Some(kept) = s.counted_mappings() {
                prop_assert_eq!(kept, lines(&s), "after {:?}: {:?}, {} before", op, result, before);
            }
            prop_assert!(lines(&s) <= limit.max(before) + 1, "{} lines after {:?}", lines(&s), op);
            if result == Err(VmError::TooMany) {
                prop_assert_eq!(lines(&s), before);
            }
        }
        set_max_mappings(65_530);
    }
}

#[test]
fn far_from_the_limit_nothing_is_counted_and_a_lower_one_holds_at_once() {
    let _g = alone();
    let s = space();
    switch_to(&s);
    let map = |n: usize| s.map(&at(BASE + 2 * n * PAGE, PAGE, RW));
    assert!((0..100).all(|n| map(n).is_ok()));
    assert_eq!(s.counted_mappings(), None);
    set_max_mappings(100);
    s.recount();
    assert_eq!(map(100).map(|a| a.0), Ok(BASE + 200 * PAGE));
    assert_eq!(s.counted_mappings(), Some(101));
    assert_eq!(map(101), Err(VmError::TooMany));
    assert_eq!(s.unmap(VirtAddr(BASE), PAGE), Ok(()));
    assert_eq!(map(0).map(|a| a.0), Ok(BASE));
    set_max_mappings(1000);
    assert!(map(101).is_ok());
    assert_eq!(s.counted_mappings(), None);
    set_max_mappings(65_530);
}
