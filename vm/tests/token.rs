//! One lock around the VM system (`vm::token`): who changes a space or faults waits for it, and all goes on as without it.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{alone, anon};
use soft::{Soft, read, switch_to, write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use vm::*;

const LEN: usize = 64 << 10;

/// A way into the VM system, by a space and where something is mapped in it.
type Way = fn(&Arc<Space<Soft>>, usize);

/// Each that has to wait.
const WAYS: [(&str, Way); 6] = [
    ("a fault", |s, a| write(s, a + 4096, 1).unwrap()),
    ("map", |s, _| assert!(s.map(&anon(LEN)).is_ok())),
    ("protect", |s, a| s.protect(VirtAddr(a), LEN, Prot::READ).unwrap()),
    ("advise", |s, a| s.advise(VirtAddr(a), LEN, Advice::DontNeed).unwrap()),
    ("fork", |s, _| Space::let_go(s.fork().unwrap())),
    ("unmap", |s, a| s.unmap(VirtAddr(a), LEN).unwrap()),
];

/// Whoever comes while it is held goes on when it is free, and not before.
#[test]
fn every_way_in_waits_for_the_token() {
    let _g = alone();
    token::switch_on();
    for (name, way) in WAYS {
        let s = Space::<Soft>::try_new().unwrap();
        s.set_multithreaded();
        switch_to(&s);
        let a = s.map(&anon(LEN)).unwrap().0;
        let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let held = token::hold();
            scope.spawn(|| {
                switch_to(&s);
                begun.store(true, Ordering::SeqCst);
                way(&s, a);
                done.store(true, Ordering::SeqCst);
            });
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(30));
            assert!(!done.load(Ordering::SeqCst), "{name} did not wait");
            drop(held);
        });
        assert!(done.load(Ordering::SeqCst), "{name}");
    }
}

#[test]
fn threads_that_map_write_fork_and_unmap_get_along_by_turns() {
    let _g = alone();
    token::switch_on();
    let s = Space::<Soft>::try_new().unwrap();
    s.set_multithreaded();
    let forks = AtomicUsize::new(0);
    thread::scope(|scope| {
        for me in 1..=4u64 {
            let (s, forks) = (&s, &forks);
            scope.spawn(move || {
                switch_to(s);
                for round in 0..40 {
                    let a = s.map(&anon(LEN)).unwrap().0;
                    for page in (0..LEN).step_by(4096) {
                        write(s, a + page, me).unwrap();
                    }
                    if round % 10 == 0 {
                        let child = s.fork().unwrap();
                        switch_to(&child);
                        assert_eq!(read(&child, a), Ok(me));
                        switch_to(s);
                        Space::let_go(child);
                        forks.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(read(s, a + LEN - 4096), Ok(me));
                    s.unmap(VirtAddr(a), LEN).unwrap();
                }
                sync::rcu::drain();
            });
        }
    });
    assert_eq!(forks.load(Ordering::Relaxed), 16);
}
