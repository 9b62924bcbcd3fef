//! Sealed mappings: what is refused, what is not, and that a seal beside other threads comes before or after what they do.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, anon, at, file, object, space};
use soft::{Soft, read, switch_to, write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use sync::machine::hosted::pressed;
use vm::*;

const PAGE: usize = 4096;
const LEAF: usize = 512 * PAGE;

fn protections(s: &Space<Soft>) -> Vec<(usize, usize, Prot, bool)> {
    let mut all = Vec::new();
    s.for_each_mapping(&mut |m| all.push((m.start, m.end, m.prot, m.sealed)));
    all
}

/// All that must not happen to a sealed range, and leaves everything as it was.
fn assert_refused(s: &Space<Soft>, sealed: usize, len: usize) {
    let before = protections(s);
    let (start, end) = (VirtAddr(sealed), sealed + len);
    assert_eq!(s.unmap(start, len), Err(VmError::Sealed));
    assert_eq!(s.unmap(VirtAddr(sealed - PAGE), len + 2 * PAGE), Err(VmError::Sealed));
    assert_eq!(s.unmap(VirtAddr(end - PAGE), PAGE), Err(VmError::Sealed));
    assert_eq!(s.map(&at(sealed, PAGE, RW)), Err(VmError::Sealed));
    assert_eq!(s.map(&at(sealed - PAGE, len + 2 * PAGE, RW)), Err(VmError::Sealed));
    assert_eq!(s.protect(start, len, Prot::READ), Err(VmError::Sealed));
    assert_eq!(s.protect(start, len, RW), Err(VmError::Sealed));
    let moved = MremapFlags::MAYMOVE;
    let fixed = moved | MremapFlags::FIXED;
    let elsewhere = VirtAddr(0x7000_0000);
    assert_eq!(s.remap(start, len, len, MremapFlags::empty(), VirtAddr(0)), Err(VmError::Sealed));
    assert_eq!(s.remap(start, len, PAGE, MremapFlags::empty(), VirtAddr(0)), Err(VmError::Sealed));
    assert_eq!(s.remap(start, len, 2 * len, moved, VirtAddr(0)), Err(VmError::Sealed));
    assert_eq!(s.remap(start, len, len, fixed, elsewhere), Err(VmError::Sealed));
    assert_eq!(s.remap(start, len, PAGE, fixed, elsewhere), Err(VmError::Sealed));
    assert_eq!(s.remap(start, len, len, moved | MremapFlags::DONTUNMAP, VirtAddr(0)), Err(VmError::Sealed));
    assert_eq!(s.remap(VirtAddr(sealed - PAGE), PAGE, PAGE, fixed, start), Err(VmError::Sealed));
    assert_eq!(protections(s), before);
}

#[test]
fn what_is_sealed_stays() {
    let _g = alone();
    for multithreaded in [false, true] {
        for len in [3 * PAGE, 3 * LEAF] {
            let s = space();
            if multithreaded {
                s.set_multithreaded();
            }
            switch_to(&s);
            let base = 0x4000_0000 - 5 * PAGE;
            s.map(&at(base, len + 8 * PAGE, RW)).unwrap();
            write(&s, base + PAGE, 7).unwrap();
            s.seal(VirtAddr(base + PAGE), len).unwrap();
            assert_refused(&s, base + PAGE, len);
            assert_eq!(read(&s, base + PAGE), Ok(7));
            // Not refused: to write, to fault, to lock, pages of what may be written.
            write(&s, base + PAGE, 8).unwrap();
            s.set_lock(VirtAddr(base), len, Some(Lock::OnFault)).unwrap();
            s.set_lock(VirtAddr(base), len, None).unwrap();
            s.advise(VirtAddr(base), len, Advice::DontNeed).unwrap();
            assert_eq!(read(&s, base + PAGE), Ok(0));
            s.seal(VirtAddr(base + PAGE), len).unwrap();
            // Beside it all is as ever.
            s.unmap(VirtAddr(base), PAGE).unwrap();
            s.protect(VirtAddr(base + len + PAGE), PAGE, Prot::READ).unwrap();
            let child = s.fork().unwrap();
            switch_to(&child);
            assert_eq!(child.unmap(VirtAddr(base + PAGE), len), Err(VmError::Sealed));
            Space::let_go(child);
        }
    }
}

#[test]
fn a_seal_needs_the_whole_range() {
    let _g = alone();
    let s = space();
    let base = 0x4000_0000;
    s.map(&at(base, 2 * LEAF, RW)).unwrap();
    s.map(&at(base + 3 * LEAF, LEAF, RW)).unwrap();
    assert_eq!(s.seal(VirtAddr(base), 4 * LEAF), Err(VmError::NoSpace));
    assert_eq!(s.seal(VirtAddr(base - PAGE), LEAF), Err(VmError::NoSpace));
    assert_eq!(s.seal(VirtAddr(base + 1), LEAF), Err(VmError::Invalid));
    assert_eq!(s.seal(VirtAddr(base), usize::MAX), Err(VmError::Invalid));
    assert_eq!(s.seal(VirtAddr(base), 0), Ok(()));
    assert!(protections(&s).iter().all(|m| !m.3));
    s.unmap(VirtAddr(base), 4 * LEAF).unwrap();
}

#[test]
fn protection_changes_up_to_a_seal() {
    let _g = alone();
    let s = space();
    let base = 0x4000_0000;
    s.map(&at(base, 3 * LEAF, RW)).unwrap();
    s.seal(VirtAddr(base + 2 * LEAF), PAGE).unwrap();
    assert_eq!(s.protect(VirtAddr(base), 3 * LEAF, Prot::READ), Err(VmError::Sealed));
    let sealed = base + 2 * LEAF;
    assert_eq!(
        protections(&s),
        [
            (base, sealed, Prot::READ, false),
            (sealed, sealed + PAGE, RW, true),
            (sealed + PAGE, base + 3 * LEAF, RW, false)
        ]
    );
}

#[test]
fn pages_that_nobody_may_write_are_not_dropped() {
    let _g = alone();
    let s = space();
    let base = 0x4000_0000;
    s.map(&at(base, 4 * PAGE, RW)).unwrap();
    (0..4).for_each(|n| write(&s, base + n * PAGE, 5).unwrap());
    s.protect(VirtAddr(base + 2 * PAGE), PAGE, Prot::READ).unwrap();
    s.seal(VirtAddr(base + PAGE), 2 * PAGE).unwrap();
    for advice in
        [Advice::DontNeed, Advice::DontNeedLocked, Advice::Free, Advice::DontFork, Advice::WipeOnFork]
    {
        (0..2).for_each(|n| write(&s, base + n * PAGE, 5).unwrap());
        assert_eq!(s.advise(VirtAddr(base), 4 * PAGE, advice), Err(VmError::Sealed), "{advice:?}");
        let drops = !matches!(advice, Advice::DontFork | Advice::WipeOnFork);
        let now = [0, 1, 2, 3].map(|n| read(&s, base + n * PAGE).unwrap());
        assert_eq!(now, if drops { [0, 0, 5, 5] } else { [5; 4] }, "{advice:?}");
    }
    for advice in [Advice::Cold, Advice::DoFork, Advice::KeepOnFork, Advice::DontDump, Advice::DoDump] {
        assert_eq!(s.advise(VirtAddr(base), 4 * PAGE, advice), Ok(()), "{advice:?}");
    }
    // Of a file they come again.
    let object = object(PAGE as u64);
    let mapped = s.map(&MapRequest { prot: Prot::READ, ..file(&object, false, PAGE) }).unwrap();
    s.seal(mapped, PAGE).unwrap();
    assert_eq!(s.advise(mapped, PAGE, Advice::DontNeed), Ok(()));
}

#[test]
fn the_heap_does_not_shrink_over_a_seal() {
    let _g = alone();
    for multithreaded in [false, true] {
        let s = space();
        if multithreaded {
            s.set_multithreaded();
        }
        let base = 0x5000_0000;
        s.set_brk(VirtAddr(base));
        let end = VirtAddr(base + 3 * LEAF);
        assert_eq!(s.brk(end), end);
        s.seal(VirtAddr(base + LEAF), PAGE).unwrap();
        assert_eq!(s.brk(VirtAddr(base)), end);
        let lower = VirtAddr(base + LEAF + PAGE);
        assert_eq!(s.brk(lower), lower);
        assert_eq!(s.brk(end), end);
    }
}

/// A range of several leaves that one thread seals while another does `change`: either it was sealed and the change refused whole, or all of the change was
/// made and the seal refused, or came after it (`may_follow`). Returns how often the seal was first.
fn race(
    change: impl Fn(&Space<Soft>, VirtAddr, usize) -> Result<(), VmError> + Sync,
    may_follow: bool,
) -> usize {
    // Enough leaves that a change which gives way stops at some of them.
    const LEAVES: usize = 40;
    const ROUNDS: u32 = 90;
    let len = LEAVES * LEAF;
    let mut seals_first = 0;
    // How long the change took when it was last made whole: the seal begins at another part of that in each round.
    let mut lasts = Duration::from_micros(200);
    for round in 0..ROUNDS {
        let s = Space::<Soft>::try_new().unwrap();
        s.set_multithreaded();
        let base = 0x4000_0000;
        s.map(&at(base, len, RW)).unwrap();
        switch_to(&s);
        (0..LEAVES).for_each(|n| write(&s, base + n * LEAF, 1).unwrap());
        let before = protections(&s);
        // The seal is for the whole range, or for its end alone.
        let sealed = if round % 2 == 0 { base } else { base + (LEAVES - 1) * LEAF };
        let begin = Barrier::new(2);
        let delay = lasts * (round * 7 % ROUNDS) / ROUNDS;
        let (seal, changed, took) = thread::scope(|scope| {
            let seal = scope.spawn(|| {
                switch_to(&s);
                begin.wait();
                let now = Instant::now();
                while now.elapsed() < delay {
                    std::hint::spin_loop();
                }
                let seal = s.seal(VirtAddr(sealed), base + len - sealed);
                sync::rcu::drain();
                seal
            });
            switch_to(&s);
            begin.wait();
            let mut changed = Ok(());
            let now = Instant::now();
            // Gives way between leaves, with the range half changed.
            if round % 3 == 0 {
                changed = change(&s, VirtAddr(base), len);
            } else {
                pressed(|| changed = change(&s, VirtAddr(base), len));
            }
            let took = now.elapsed();
            sync::rcu::drain();
            (seal.join().unwrap(), changed, took)
        });
        if changed.is_ok() {
            lasts = took.min(Duration::from_millis(5));
        }
        let after = protections(&s);
        match (seal, changed) {
            (Ok(()), Err(VmError::Sealed)) => {
                seals_first += 1;
                let all = |all: &[(usize, usize, Prot, bool)]| {
                    all.first().map(|m| m.0).zip(all.last().map(|m| m.1))
                };
                assert_eq!(all(&after), all(&before));
                assert!(after.iter().all(|m| m.3 == (m.0 >= sealed)), "{after:x?}");
            }
            (Err(VmError::NoSpace), Ok(())) => assert!(after.iter().all(|m| !m.3), "{after:x?}"),
            (Ok(()), Ok(())) if may_follow => assert!(after.iter().any(|m| m.3), "{after:x?}"),
            other => panic!("{other:?}: {after:x?}"),
        }
    }
    seals_first
}

#[test]
fn a_seal_beside_an_unmap_comes_before_or_after_it() {
    let _g = alone();
    race(|s, start, len| s.unmap(start, len), false);
}

#[test]
fn a_seal_beside_a_mapping_in_its_place_comes_before_or_after_it() {
    let _g = alone();
    race(|s, start, len| s.map(&at(start.0, len, Prot::READ)).map(|_| ()), true);
}

#[test]
fn a_seal_beside_a_move_comes_before_or_after_it() {
    let _g = alone();
    let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
    race(|s, start, len| s.remap(start, len, len / 2, flags, VirtAddr(0x6000_0000)).map(|_| ()), false);
}

#[test]
fn threads_change_mappings_beside_seals() {
    let _g = alone();
    let s = Space::<Soft>::try_new().unwrap();
    s.set_multithreaded();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                switch_to(&s);
                while !over.load(Ordering::Relaxed) {
                    let a = s.map(&anon(3 * LEAF)).unwrap();
                    pressed(|| s.protect(a, 3 * LEAF, Prot::READ).unwrap());
                    pressed(|| s.unmap(a, 3 * LEAF).unwrap());
                }
                sync::rcu::drain();
            });
        }
        scope.spawn(|| {
            switch_to(&s);
            for _ in 0..50 {
                let a = s.map(&anon(3 * LEAF)).unwrap();
                s.seal(a, 3 * LEAF).unwrap();
                assert_eq!(s.unmap(a, 3 * LEAF), Err(VmError::Sealed));
                let child: Arc<Space<Soft>> = s.fork().unwrap();
                assert_eq!(child.unmap(a, PAGE), Err(VmError::Sealed));
                Space::let_go(child);
            }
            over.store(true, Ordering::Relaxed);
            sync::rcu::drain();
        });
    });
}
