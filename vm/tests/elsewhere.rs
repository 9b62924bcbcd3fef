//! A CPU that is in another space, or runs no program, is not interrupted when a space flushes, and has forgotten what it held when it comes back.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, anon, space};
use soft::{REMOTE_FLUSHES, Soft, read, switch_to, write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm::*;

const PAGE: usize = 4096;
const LEAF: usize = 512 * PAGE;

/// `f` on another CPU.
fn elsewhere<R>(f: impl FnOnce() -> R) -> R {
    sync::machine::hosted::as_cpu(9, f)
}

/// Interrupts that `f` sends.
fn interrupts(f: impl FnOnce()) -> u64 {
    let before = REMOTE_FLUSHES.load(Ordering::Relaxed);
    f();
    REMOTE_FLUSHES.load(Ordering::Relaxed) - before
}

/// A space of one thread or several, with a leaf in which both CPUs have touched four pages.
fn used_by_both(multithreaded: bool) -> (Arc<Space<Soft>>, usize) {
    let s = space();
    if multithreaded {
        s.set_multithreaded();
    }
    let a = s.map(&anon(4 * LEAF)).unwrap().0.next_multiple_of(LEAF);
    for cpu in [true, false] {
        let touch = || {
            switch_to(&s);
            (0..4).for_each(|page| write(&s, a + page * PAGE, 7).unwrap());
        };
        if cpu { elsewhere(touch) } else { touch() }
    }
    (s, a)
}

/// Whatever takes pages or rights away in a leaf that stays.
fn change(s: &Space<Soft>, a: usize) {
    s.unmap(VirtAddr(a), PAGE).unwrap();
    s.advise(VirtAddr(a + PAGE), PAGE, Advice::DontNeed).unwrap();
    s.protect(VirtAddr(a + 2 * PAGE), PAGE, Prot::READ).unwrap();
}

fn assert_seen(s: &Space<Soft>, a: usize) {
    assert_eq!(read(s, a), Err(FaultError::NotMapped));
    assert_eq!(read(s, a + PAGE), Ok(0));
    assert_eq!(write(s, a + 2 * PAGE, 1), Err(FaultError::Denied));
    assert_eq!(read(s, a + 3 * PAGE), Ok(7));
}

#[test]
fn a_cpu_that_went_to_another_space_is_not_interrupted_and_sees_the_change_when_it_comes_back() {
    let _g = alone();
    for multithreaded in [false, true] {
        let (s, a) = used_by_both(multithreaded);
        let other = Space::<Soft>::try_new().unwrap();
        elsewhere(|| switch_to(&other));
        assert_eq!(interrupts(|| change(&s, a)), 0);
        elsewhere(|| {
            switch_to(&s);
            assert_seen(&s, a);
        });
        // It is there again.
        assert_eq!(interrupts(|| s.unmap(VirtAddr(a + 3 * PAGE), PAGE).unwrap()), 1);
        elsewhere(|| assert_eq!(read(&s, a + 3 * PAGE), Err(FaultError::NotMapped)));
        drop((s, other));
        elsewhere(sync::rcu::drain);
    }
}

#[test]
fn a_cpu_that_runs_no_program_is_not_interrupted_but_for_tables() {
    let _g = alone();
    for multithreaded in [false, true] {
        let (s, a) = used_by_both(multithreaded);
        elsewhere(vm::tlb::rest);
        assert_eq!(interrupts(|| change(&s, a)), 0);
        elsewhere(|| {
            switch_to(&s);
            assert_seen(&s, a);
            vm::tlb::rest();
        });
        // The leaf goes, and with it a page-table page. The CPU leaves the space, and is not interrupted again.
        assert_eq!(interrupts(|| s.unmap(VirtAddr(a), LEAF).unwrap()), 1);
        let b = s.map(&anon(4 * LEAF)).unwrap().0.next_multiple_of(LEAF);
        write(&s, b, 1).unwrap();
        assert_eq!(interrupts(|| s.unmap(VirtAddr(b), LEAF).unwrap()), 0);
        elsewhere(|| {
            switch_to(&s);
            assert_eq!(read(&s, b), Err(FaultError::NotMapped));
        });
        drop(s);
        elsewhere(sync::rcu::drain);
    }
}

#[test]
fn one_call_over_many_pages_interrupts_another_cpu_once() {
    let _g = alone();
    let (s, a) = used_by_both(true);
    // Three leaves, of which both have touched the first.
    let fill = || (0..1000).for_each(|page| write(&s, a + page * PAGE, 1).unwrap());
    fill();
    elsewhere(|| assert_eq!(read(&s, a + 600 * PAGE), Ok(1)));
    assert_eq!(interrupts(|| s.advise(VirtAddr(a), 1000 * PAGE, Advice::DontNeed).unwrap()), 1);
    elsewhere(|| assert_eq!([0, 600].map(|page| read(&s, a + page * PAGE)), [Ok(0); 2]));
    fill();
    assert_eq!(interrupts(|| s.unmap(VirtAddr(a + PAGE), 1000 * PAGE).unwrap()), 1);
    elsewhere(|| assert_eq!(read(&s, a + 600 * PAGE), Err(FaultError::NotMapped)));
    drop(s);
    elsewhere(sync::rcu::drain);
}

#[test]
fn a_cpu_that_rests_and_comes_back_keeps_what_nobody_changed() {
    let _g = alone();
    let (s, a) = used_by_both(true);
    elsewhere(|| {
        vm::tlb::rest();
        switch_to(&s);
        assert_eq!(read(&s, a), Ok(7));
    });
    // Whoever has come back is interrupted.
    assert_eq!(interrupts(|| s.protect(VirtAddr(a), PAGE, Prot::READ).unwrap()), 1);
    elsewhere(|| assert_eq!(write(&s, a, 8), Err(FaultError::Denied)));
    s.protect(VirtAddr(a), PAGE, RW).unwrap();
    elsewhere(|| write(&s, a, 8).unwrap());
    assert_eq!(read(&s, a), Ok(8));
    drop(s);
    elsewhere(sync::rcu::drain);
}

#[test]
fn a_space_that_ends_interrupts_only_who_has_it_loaded() {
    let _g = alone();
    for (stays, sent) in [(false, 0), (true, 1)] {
        let (s, _) = used_by_both(true);
        let other = Space::<Soft>::try_new().unwrap();
        elsewhere(|| if stays { vm::tlb::rest() } else { switch_to(&other) });
        assert_eq!(interrupts(|| drop(s)), sent);
        drop(other);
        elsewhere(sync::rcu::drain);
    }
}

#[test]
fn a_process_of_one_thread_that_moves_between_cpus_interrupts_nobody() {
    let _g = alone();
    let (s, a) = used_by_both(false);
    let sent = interrupts(|| {
        for round in 0..6 {
            // Between two programs a CPU is idle.
            let work = || {
                switch_to(&s);
                (0..4).for_each(|page| write(&s, a + page * PAGE, round).unwrap());
                s.protect(VirtAddr(a), PAGE, Prot::READ).unwrap();
                s.protect(VirtAddr(a), PAGE, RW).unwrap();
                s.advise(VirtAddr(a + PAGE), PAGE, Advice::DontNeed).unwrap();
                assert_eq!([0, 1, 2].map(|page| read(&s, a + page * PAGE)), [Ok(round), Ok(0), Ok(round)]);
                let child = s.fork().unwrap();
                write(&s, a, 100).unwrap();
                drop(child);
                vm::tlb::rest();
            };
            vm::tlb::rest();
            if round % 2 == 0 { elsewhere(work) } else { work() }
        }
    });
    // A leaf's table goes when it is copied after the fork: a CPU that rests there leaves.
    assert!(sent <= 6, "{sent}");
    switch_to(&s);
    drop(s);
    elsewhere(sync::rcu::drain);
}
