//! Several CPUs at once, as threads, on the software machine.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, anon, at};
use soft::{Soft, add, read, switch_to, write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use vm::*;

fn space() -> Arc<Space<Soft>> {
    let s = Space::<Soft>::try_new().unwrap();
    s.set_multithreaded();
    s
}

/// Runs `f` on `n` threads with the space loaded and drops everything; all frames have to be back.
fn on_threads(n: usize, space: Arc<Space<Soft>>, f: impl Fn(usize, &Space<Soft>) + Sync) {
    thread::scope(|scope| {
        for i in 0..n {
            let (f, space) = (&f, &space);
            scope.spawn(move || {
                switch_to(space);
                f(i, space);
                sync::rcu::drain();
            });
        }
    });
}

#[test]
fn threads_that_map_and_unmap_do_not_meet() {
    let _g = alone();
    let s = space();
    let used = Mutex::new(std::collections::HashMap::new());
    on_threads(4, s.clone(), |me, s| {
        for round in 0..60 {
            let len = [4096, 3 * 4096, 2 << 20, 5 << 20][round % 4];
            let a = s.map(&anon(len)).unwrap().0;
            for page in (0..len).step_by(4096 * 7) {
                assert_eq!(read(s, a + page), Ok(0), "another thread's page");
                write(s, a + page, me as u64 + 1).unwrap();
            }
            for page in (0..len).step_by(4096 * 7) {
                assert_eq!(read(s, a + page), Ok(me as u64 + 1));
            }
            // A thread that begins when another has ended may be the same CPU.
            let cpu = sync::cpu_id();
            let owner = *used.lock().unwrap().entry(a / LEAF_SPAN).or_insert(cpu);
            assert_eq!(owner, cpu, "two CPUs map in one leaf");
            s.unmap(VirtAddr(a), len).unwrap();
        }
    });
}

#[test]
fn threads_fault_in_one_leaf_and_lose_nothing() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(1 << 20)).unwrap().0;
    on_threads(4, s.clone(), |_, s| {
        for round in 0..2000 {
            add(s, a + (round * 37 % 256) * 4096, 1).unwrap();
        }
    });
    switch_to(&s);
    let sum: u64 = (0..256).map(|p| read(&s, a + p * 4096).unwrap()).sum();
    assert_eq!(sum, 8000);
}

/// A thread counts in one word and then in another, in different leaves; whatever the moment of the fork, the child has never
/// seen the second count without the first, and what the parent counts later is not lost.
#[test]
fn a_fork_among_threads_is_one_moment() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(16 << 20)).unwrap().0;
    let (first, second) = (a, a + (8 << 20));
    let done = AtomicUsize::new(0);
    on_threads(3, s.clone(), |me, s| {
        if me > 0 {
            for i in 0..3000 {
                let word = me * 8;
                assert_eq!(add(s, first + word, 1), Ok(i), "a write was lost");
                assert_eq!(add(s, second + word, 1), Ok(i), "a write was lost");
            }
            done.fetch_add(1, Ordering::SeqCst);
            return;
        }
        while done.load(Ordering::SeqCst) < 2 {
            let child = s.fork().unwrap();
            switch_to(&child);
            let seen: Vec<_> =
                (1..3).map(|w| (read(&child, first + w * 8), read(&child, second + w * 8))).collect();
            for (one, two) in seen {
                assert!(one.unwrap() >= two.unwrap(), "{one:?} {two:?}");
            }
            write(&child, first, 1).unwrap();
            switch_to(s);
        }
    });
}

/// A thread maps where there is room, and another asks for just the addresses that come next in the first one's span: in one leaf, across two, and over
/// whole ones. Both get theirs only if they do not overlap.
#[test]
fn two_threads_never_get_the_same_addresses() {
    const ROUNDS: usize = 500;
    let _g = alone();
    for len in [4096, 3 * 4096, 3 << 20, 5 << 20] {
        let s = space();
        let (place, other, both) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let barrier = std::sync::Barrier::new(2);
        // Nobody sleeps between this and the race.
        let arrived = AtomicUsize::new(0);
        on_threads(2, s.clone(), |me, s| {
            for round in 0..ROUNDS {
                if me == 0 {
                    // The next mapping comes where this one was.
                    let a = s.map(&anon(len)).unwrap().0;
                    s.unmap(VirtAddr(a), len).unwrap();
                    place.store(a, Ordering::SeqCst);
                }
                barrier.wait();
                let wanted = place.load(Ordering::SeqCst);
                let flags = MapFlags::FIXED | MapFlags::NOREPLACE;
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 2 * (round + 1) {
                    std::hint::spin_loop();
                }
                // Now the one comes first, now the other.
                let delay = if me == 0 { round % 32 * 8 } else { round / 32 % 32 * 4 };
                (0..delay).for_each(|_| std::hint::spin_loop());
                let got = match me {
                    0 => s.map(&anon(len)),
                    _ => s.map(&MapRequest { flags, ..at(wanted, len, RW) }),
                };
                let got = got.map_or(0, |addr| addr.0);
                if me == 1 {
                    other.store(got, Ordering::SeqCst);
                }
                barrier.wait();
                let theirs = other.load(Ordering::SeqCst);
                if me == 0 && theirs != 0 && got < theirs + len && theirs < got + len {
                    both.fetch_add(1, Ordering::SeqCst);
                }
                barrier.wait();
                if got != 0 {
                    s.unmap(VirtAddr(got), len).unwrap();
                }
                barrier.wait();
            }
        });
        assert_eq!(both.into_inner(), 0, "rounds in which both have the same addresses, {len} bytes");
    }
}

/// Says that a thread is done, or has failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Another thread's mremap moves pages to and fro: a child finds all of them at one place. Another's munmap leaves nothing taken in a child.
#[test]
fn a_child_gets_all_that_mremap_moves_and_nothing_that_munmap_has_in_quarantine() {
    const PAGES: usize = 600;
    let _g = alone();
    let s = space();
    let places = [s.map(&anon(8 << 20)).unwrap().0, s.map(&anon(8 << 20)).unwrap().0];
    let gone = s.map(&anon(4 << 20)).unwrap().0;
    s.unmap(VirtAddr(places[1]), 8 << 20).unwrap();
    s.unmap(VirtAddr(places[0] + PAGES * 4096), (8 << 20) - PAGES * 4096).unwrap();
    switch_to(&s);
    (0..PAGES).for_each(|page| write(&s, places[0] + page * 4096, page as u64 + 1).unwrap());
    let done = AtomicBool::new(false);
    on_threads(3, s.clone(), |me, s| match me {
        0 => {
            let _ends = Ends(&done);
            for _ in 0..60 {
                let child = s.fork().unwrap();
                switch_to(&child);
                let whole = |place: usize| {
                    (0..PAGES).all(|page| read(&child, place + page * 4096) == Ok(page as u64 + 1))
                };
                assert!(places.into_iter().any(whole), "a page that moved is not in the child");
                let mut found = Vec::new();
                child.for_each_mapping(&mut |m| found.push(m.start..m.end));
                if found.iter().all(|m| m.end <= gone || m.start >= gone + (4 << 20)) {
                    let hint = VirtAddr(gone);
                    let at = child.map(&MapRequest { hint, ..anon(4 << 20) }).unwrap();
                    assert_eq!(at, hint, "addresses that nobody has are taken in the child");
                }
                switch_to(s);
            }
        }
        1 => {
            let (flags, mut from) = (MremapFlags::MAYMOVE | MremapFlags::FIXED, 0);
            while !done.load(Ordering::SeqCst) {
                let (old, new) = (VirtAddr(places[from]), VirtAddr(places[1 - from]));
                s.remap(old, PAGES * 4096, PAGES * 4096, flags, new).unwrap();
                from = 1 - from;
            }
        }
        _ => {
            while !done.load(Ordering::SeqCst) {
                s.map(&at(gone, 4 << 20, RW)).unwrap();
                write(s, gone, 1).unwrap();
                s.unmap(VirtAddr(gone), 4 << 20).unwrap();
            }
        }
    });
}

#[test]
fn truncation_among_faulting_threads_frees_only_what_nobody_uses() {
    let _g = alone();
    let object = Object::try_new(0).unwrap();
    object.set_size(64 * 4096).unwrap();
    let s = space();
    let shared = MapRequest {
        flags: MapFlags::SHARED,
        backing: Backing::Object { object: object.clone(), offset: 0 },
        ..anon(64 * 4096)
    };
    let private = MapRequest { flags: MapFlags::empty(), ..shared.clone() };
    let a = s.map(&shared).unwrap().0;
    let b = s.map(&private).unwrap().0;
    drop((shared, private));
    let stop = AtomicBool::new(false);
    on_threads(3, s.clone(), |me, s| {
        if me == 0 {
            for round in 0..300 {
                object.set_size(if round % 2 == 0 { 3 * 4096 } else { 64 * 4096 }).unwrap();
            }
            stop.store(true, Ordering::SeqCst);
            return;
        }
        let mut i = 0;
        while !stop.load(Ordering::SeqCst) {
            i += 1;
            let page = (i * 13 % 64) * 4096;
            let result = match i % 4 {
                0 => add(s, a + page, 1).map(drop),
                1 => add(s, b + page, 1).map(drop),
                2 => read(s, b + page).map(drop),
                _ => read(s, a + page).map(drop),
            };
            assert!(matches!(result, Ok(()) | Err(FaultError::Bus)), "{result:?}");
            if i % 100 == me * 50 {
                s.advise(VirtAddr(b), 64 * 4096, Advice::DontNeed).unwrap();
            }
        }
    });
}

/// Writers in parent and child of one leaf, leaving and coming: each process sees its own counts alone.
#[test]
fn sharers_of_a_leaf_copy_and_take_over_without_mixing() {
    let _g = alone();
    let root = space();
    let a = root.map(&anon(2 << 20)).unwrap().0;
    switch_to(&root);
    for page in 0..64 {
        write(&root, a + page * 4096, 1000).unwrap();
    }
    on_threads(4, root.clone(), |me, root| {
        for round in 0..80 {
            let child = root.fork().unwrap();
            switch_to(&child);
            for page in 0..16 {
                let addr = a + ((page * 5 + me + round) % 64) * 4096;
                assert_eq!(add(&child, addr, 1 + me as u64), Ok(1000));
            }
            let grandchild = child.fork().unwrap();
            for page in 0..16 {
                let addr = a + ((page * 5 + me + round) % 64) * 4096;
                assert_eq!(add(&child, addr, 1), Ok(1001 + me as u64));
            }
            switch_to(&grandchild);
            drop(child);
            for page in 0..16 {
                let addr = a + ((page * 5 + me + round) % 64) * 4096;
                assert_eq!(add(&grandchild, addr, 1), Ok(1001 + me as u64));
            }
            switch_to(root);
        }
    });
    switch_to(&root);
    assert_eq!(read(&root, a), Ok(1000));
}
