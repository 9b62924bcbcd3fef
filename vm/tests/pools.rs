//! Pages that processes on several CPUs have from one ancestor: forking must not count them one by one (node/pool.rs), and whatever
//! happens to one of them afterwards, the others keep what they had.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::{Soft, add, frame_at, free_frames, read, start, switch_to, write};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use sync::machine::hosted::as_cpu;
use vm::frame::FrameKind;
use vm::frame::hosted::on_next_copy;
use vm::*;

static ONE: Mutex<()> = Mutex::new(());
const RW: Prot = Prot::READ.union(Prot::WRITE);
const PAGES: usize = 40;
/// Page 0 is written by everybody all the time.
const CPUS: std::ops::Range<u32> = 40..44;

type Process = Arc<Space<Soft>>;

fn alone() -> MutexGuard<'static, ()> {
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    start(4);
    guard
}

fn drain() -> u64 {
    for cpu in CPUS {
        as_cpu(cpu, sync::rcu::drain);
    }
    free_frames()
}

/// An ancestor with `PAGES` pages at the address returned, and a child of it on each CPU that has forked a few times.
fn family(backing: Backing) -> (Process, Vec<Process>, usize) {
    as_cpu(CPUS.start, || {
        let ancestor = Space::<Soft>::try_new().unwrap();
        switch_to(&ancestor);
        let len = PAGES * PAGE_SIZE;
        let hint = VirtAddr((1 << 30) + 7 * PAGE_SIZE);
        let request = MapRequest { hint, len, prot: RW, flags: MapFlags::FIXED, backing };
        let start = ancestor.map(&request).unwrap().0;
        for page in 0..PAGES {
            write(&ancestor, start + page * PAGE_SIZE, 100 + page as u64).unwrap();
        }
        let children: Vec<Process> = CPUS.map(|_| ancestor.fork().unwrap()).collect();
        for round in 0..4 {
            for (cpu, child) in CPUS.zip(&children) {
                as_cpu(cpu, || fork_once(child, start, round));
            }
        }
        (ancestor, children, start)
    })
}

/// As a program that forks and waits: both write their stack.
fn fork_once(parent: &Process, start: usize, value: u64) {
    let child = parent.fork().unwrap();
    switch_to(parent);
    write(parent, start, value).unwrap();
    switch_to(&child);
    write(&child, start, value + 1).unwrap();
    switch_to(parent);
    drop(child);
}

/// The whole family has the pages 1.. as the ancestor wrote them, and nothing is left when it goes.
fn end(ancestor: Process, children: Vec<Process>, start: usize, before: u64) {
    as_cpu(CPUS.start, || {
        for space in children.iter().chain([&ancestor]) {
            check(space, start, 1..PAGES);
        }
    });
    all_go((ancestor, children), before);
}

/// Drops what is left; all frames have to be back.
fn all_go<T>(left: T, before: u64) {
    as_cpu(CPUS.start, || drop(left));
    assert_eq!(drain(), before, "frames are missing");
}

fn check(space: &Process, start: usize, pages: std::ops::Range<usize>) {
    switch_to(space);
    for page in pages {
        assert_eq!(read(space, start + page * PAGE_SIZE), Ok(100 + page as u64), "page {page}");
    }
}

#[test]
fn forking_on_several_cpus_counts_inherited_pages_no_more() {
    let _g = alone();
    let before = drain();
    let (ancestor, children, start) = family(Backing::Anonymous);
    let counts = |space: &Process| -> Vec<u32> {
        switch_to(space);
        (1..PAGES).map(|page| frame_at(space, start + page * PAGE_SIZE).refs()).collect()
    };
    let settled = as_cpu(CPUS.start, || counts(&children[0]));
    for (cpu, child) in CPUS.zip(&children) {
        as_cpu(cpu, || {
            let grandchild = child.fork().unwrap();
            switch_to(child);
            write(child, start, 7).unwrap();
            assert_eq!(counts(child), settled, "a copy of the leaf counts its frames");
            check(&grandchild, start, 1..PAGES);
            switch_to(child);
            drop(grandchild);
            assert_eq!(counts(child), settled);
        });
    }
    end(ancestor, children, start, before);
}

#[test]
fn a_held_page_stays_with_the_others_when_one_writes_moves_or_unmaps_it() {
    let _g = alone();
    let before = drain();
    let (ancestor, children, start) = family(Backing::Anonymous);
    let at = |page: usize| start + page * PAGE_SIZE;
    as_cpu(CPUS.start, || {
        let [writer, mover, closer, dropper] = &children[..] else { panic!("four children") };
        switch_to(writer);
        for page in 1..PAGES {
            write(writer, at(page), 5).unwrap();
        }
        switch_to(mover);
        let target = VirtAddr(3 << 30);
        let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
        mover.remap(VirtAddr(start), PAGES * PAGE_SIZE, PAGES * PAGE_SIZE, flags, target).unwrap();
        check(mover, target.0, 1..PAGES);
        write(mover, target.0 + PAGE_SIZE, 6).unwrap();
        switch_to(closer);
        closer.protect(VirtAddr(start), PAGES * PAGE_SIZE, Prot::empty()).unwrap();
        assert_eq!(read(closer, at(1)), Err(FaultError::Denied));
        closer.protect(VirtAddr(start), PAGES * PAGE_SIZE, RW).unwrap();
        check(closer, start, 1..PAGES);
        write(closer, at(2), 8).unwrap();
        switch_to(dropper);
        dropper.advise(VirtAddr(start), 20 * PAGE_SIZE, Advice::DontNeed).unwrap();
        assert_eq!(read(dropper, at(3)), Ok(0));
        dropper.unmap(VirtAddr(at(20)), 10 * PAGE_SIZE).unwrap();
        check(dropper, start, 30..PAGES);
        check(&ancestor, start, 1..PAGES);
        check(closer, start, 3..PAGES);
    });
    all_go((ancestor, children), before);
}

#[test]
fn a_moved_page_lives_when_all_that_held_it_are_gone() {
    let _g = alone();
    let before = drain();
    let (ancestor, mut children, start) = family(Backing::Anonymous);
    let left = as_cpu(CPUS.start, || {
        let mover = children.remove(0);
        switch_to(&mover);
        let target = VirtAddr(3 << 30);
        let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
        mover.remap(VirtAddr(start), PAGES * PAGE_SIZE, PAGES * PAGE_SIZE, flags, target).unwrap();
        // The leaf they came from goes too.
        mover.unmap(VirtAddr(1 << 30), LEAF_SPAN).unwrap();
        drop((ancestor, children));
        drain();
        // What was freed is used anew.
        let other = Space::<Soft>::try_new().unwrap();
        switch_to(&other);
        let len = 4 * PAGES * PAGE_SIZE;
        let request = MapRequest {
            hint: VirtAddr(0),
            len,
            prot: RW,
            flags: MapFlags::empty(),
            backing: Backing::Anonymous,
        };
        let filler = other.map(&request).unwrap().0;
        for page in 0..4 * PAGES {
            write(&other, filler + page * PAGE_SIZE, 9).unwrap();
        }
        check(&mover, target.0, 1..PAGES);
        (mover, other)
    });
    all_go(left, before);
}

#[test]
fn a_held_page_stays_when_it_is_protected_while_a_write_waits_for_a_flush() {
    let _g = alone();
    let before = drain();
    let (ancestor, children, start) = family(Backing::Anonymous);
    let page = start + 5 * PAGE_SIZE;
    let space = children[1].clone();
    space.set_multithreaded();
    for cpu in [CPUS.start + 2, CPUS.start + 1] {
        as_cpu(cpu, || {
            switch_to(&space);
            // The leaf is the space's own, and both CPUs may have translations of the page.
            write(&space, start, 1).unwrap();
            assert_eq!(read(&space, page), Ok(105));
        });
    }
    let (other, done) = (space.clone(), std::sync::atomic::AtomicBool::new(false));
    soft::on_flush(Box::new(move || {
        if !done.swap(true, std::sync::atomic::Ordering::Relaxed) {
            other.protect(VirtAddr(page), PAGE_SIZE, Prot::READ).unwrap();
        }
    }));
    as_cpu(CPUS.start + 1, || assert_eq!(write(&space, page, 6), Err(FaultError::Denied)));
    soft::on_flush(Box::new(|| ()));
    as_cpu(CPUS.start + 1, || check(&space, start, 1..PAGES));
    all_go((ancestor, children, space), before);
}

/// A process on CPU 41 and two children: their three leaves have the one list on which the pages 4.. are pooled, and the next copy of the
/// parent's leaf makes a new one.
fn with_one_list() -> (Process, [Process; 2], usize) {
    let (ancestor, mut children, start) = family(Backing::Anonymous);
    let parent = children.swap_remove(1);
    as_cpu(CPUS.start, || drop((ancestor, children)));
    let own = || {
        switch_to(&parent);
        for page in 1..4 {
            write(&parent, start + page * PAGE_SIZE, 100 + page as u64).unwrap();
        }
    };
    as_cpu(CPUS.start + 1, own);
    // Its own pages are counted by two CPUs.
    let heirs = [2, 3].map(|cpu| {
        as_cpu(CPUS.start + cpu, || {
            let child = parent.fork().unwrap();
            switch_to(&parent);
            write(&parent, start, 1).unwrap();
            child
        })
    });
    drain();
    assert_eq!(as_cpu(CPUS.start + 1, || frame_at(&parent, start + 4 * PAGE_SIZE).refs()), 1);
    (parent, heirs, start)
}

/// The parent when it is alone with that list, loaded on CPU 42 too.
fn last_with_list() -> (Process, usize) {
    let (parent, heirs, start) = with_one_list();
    as_cpu(CPUS.start, || drop(heirs));
    drain();
    parent.set_multithreaded();
    for cpu in [1, 2] {
        as_cpu(CPUS.start + cpu, || {
            switch_to(&parent);
            check(&parent, start, 1..PAGES);
        });
    }
    (parent, start)
}

/// Writes 7 to `page` of `space` as CPU 41, and does `f` as CPU 42 while the page is being copied, which is then a frame that only
/// FreeAfterFlush keeps: nobody has a reference to it any more but a list that waits for a grace period. Returns what the write did.
fn write_while<R: Send + 'static>(
    space: &Process,
    page: usize,
    f: impl FnOnce(&Process) -> R + Send + 'static,
) -> (Result<(), FaultError>, R) {
    let source = as_cpu(CPUS.start + 1, || frame_at(space, page));
    let (other, (tell, told)) = (space.clone(), channel());
    let meanwhile = move || {
        as_cpu(CPUS.start + 2, || {
            switch_to(&other);
            tell.send(f(&other)).unwrap();
            sync::rcu::poll();
        });
        drop(other);
    };
    // A read section is under way on the CPU that copies, so another thread is the other CPU.
    on_next_copy(|| thread::spawn(meanwhile).join().unwrap());
    let written = as_cpu(CPUS.start + 1, || write(space, page, 7));
    // If nothing was copied, nothing is to happen in a later copy.
    on_next_copy(|| ());
    let result = told.try_recv().expect("the page was not copied");
    drain();
    assert_eq!(source.kind(), FrameKind::Free, "no list went while the page was copied");
    (written, result)
}

#[test]
fn a_page_of_a_file_that_goes_with_its_mapping_stays_while_it_is_copied() {
    let _g = alone();
    let before = drain();
    let (space, start) = as_cpu(CPUS.start, || {
        let space = Space::<Soft>::try_new().unwrap();
        space.set_multithreaded();
        let object = Object::try_new(0).unwrap();
        object.set_size(LEAF_SPAN as u64).unwrap();
        // A whole leaf, which goes with its mapping and has the last reference to the object.
        let request = MapRequest {
            hint: VirtAddr(1 << 30),
            len: LEAF_SPAN,
            prot: RW,
            flags: MapFlags::FIXED,
            backing: Backing::Object { object, offset: 0 },
        };
        let start = space.map(&request).unwrap().0;
        (space, start)
    });
    // Now the mapping has the only reference to the object.
    drain();
    as_cpu(CPUS.start + 1, || switch_to(&space));
    let (written, unmapped) =
        write_while(&space, start, move |space| space.unmap(VirtAddr(start), LEAF_SPAN));
    assert_eq!((written, unmapped), (Err(FaultError::NotMapped), Ok(())));
    all_go(space, before);
}

#[test]
fn a_page_to_which_one_list_has_the_only_reference_is_not_written() {
    let _g = alone();
    let before = drain();
    let (parent, heirs, start) = with_one_list();
    as_cpu(CPUS.start, || {
        for (page, writer) in [(20, &parent), (21, &heirs[0]), (22, &heirs[1])] {
            switch_to(writer);
            write(writer, start + page * PAGE_SIZE, 5).unwrap();
            for other in
                [&parent, &heirs[0], &heirs[1]].into_iter().filter(|other| !Arc::ptr_eq(other, writer))
            {
                check(other, start, page..page + 1);
            }
        }
    });
    all_go((parent, heirs), before);
}

#[test]
fn a_held_page_that_is_being_copied_outlives_the_list_that_its_leaf_had() {
    let _g = alone();
    let before = drain();
    let (space, start) = last_with_list();
    let page = start + 20 * PAGE_SIZE;
    let (written, child) = write_while(&space, page, move |space| {
        // The page leaves the leaf, so that the list of the leaf's next copy is without it.
        write(space, page, 6).unwrap();
        let child = space.fork().unwrap();
        // Takes no frame once the leaf is copied: one that is free then is still free when the copy ends.
        space.advise(VirtAddr(start), PAGE_SIZE, Advice::DontNeed).unwrap();
        child
    });
    written.unwrap();
    as_cpu(CPUS.start, || {
        for (process, value) in [(&space, 7), (&child, 6)] {
            check(process, start, 1..20);
            assert_eq!(read(process, page), Ok(value));
            check(process, start, 21..PAGES);
        }
    });
    all_go((space, child), before);
}

#[test]
fn a_held_page_that_is_being_copied_outlives_its_leaf() {
    let _g = alone();
    let before = drain();
    let (space, start) = last_with_list();
    let (written, ()) = write_while(&space, start + 20 * PAGE_SIZE, |space| {
        space.unmap(VirtAddr(1 << 30), LEAF_SPAN).unwrap();
    });
    assert_eq!(written, Err(FaultError::NotMapped));
    all_go(space, before);
}

#[test]
fn held_copies_of_file_pages_go_when_the_file_is_cut() {
    let _g = alone();
    let before = drain();
    let object = Object::try_new(1).unwrap();
    object.set_size((PAGES * PAGE_SIZE) as u64).unwrap();
    let (ancestor, children, start) = family(Backing::Object { object: object.clone(), offset: 0 });
    as_cpu(CPUS.start, || {
        object.set_size((10 * PAGE_SIZE) as u64).unwrap();
        for space in children.iter().chain([&ancestor]) {
            check(space, start, 1..10);
            assert_eq!(read(space, start + 10 * PAGE_SIZE), Err(FaultError::Bus));
        }
        object.set_size((PAGES * PAGE_SIZE) as u64).unwrap();
        switch_to(&children[0]);
        assert_eq!(read(&children[0], start + 10 * PAGE_SIZE), Ok(0));
    });
    all_go((ancestor, children, object), before);
}

#[test]
fn a_family_that_moves_to_another_cpu_and_inherits_anew_loses_nothing() {
    let _g = alone();
    let before = drain();
    let (ancestor, mut children, start) = family(Backing::Anonymous);
    // Each generation writes some pages of its own, which the next inherits on another CPU.
    for generation in 0..8u32 {
        let cpu = CPUS.start + generation % 4;
        let page = 1 + generation as usize;
        as_cpu(cpu, || {
            let parent = children.last().unwrap().clone();
            switch_to(&parent);
            write(&parent, start + page * PAGE_SIZE, 100 + page as u64).unwrap();
            let next: Vec<Process> = (0..3).map(|_| parent.fork().unwrap()).collect();
            for (other, child) in CPUS.zip(&next) {
                as_cpu(other, || {
                    for round in 0..3 {
                        fork_once(child, start, round);
                    }
                });
            }
            children.extend(next);
        });
    }
    end(ancestor, children, start, before);
}

#[test]
fn threads_write_held_pages_while_others_fork_and_nothing_is_lost() {
    const ROUNDS: u64 = 150;
    let _g = alone();
    let before = drain();
    let (ancestor, children, start) = family(Backing::Anonymous);
    for space in &children[..2] {
        space.set_multithreaded();
    }
    // Two processes of three threads each: all count in all pages, and one of them forks meanwhile.
    thread::scope(|scope| {
        for thread in 0..6usize {
            let space = &children[thread % 2];
            scope.spawn(move || {
                switch_to(space);
                for round in 0..ROUNDS {
                    for page in (1..PAGES).skip(thread).step_by(3) {
                        add(space, start + page * PAGE_SIZE, 1).unwrap();
                    }
                    if thread < 2 && round % 5 == 0 {
                        let child = space.fork().unwrap();
                        switch_to(&child);
                        let then = read(&child, start + PAGE_SIZE).unwrap();
                        write(&child, start + 2 * PAGE_SIZE, round).unwrap();
                        assert_eq!(read(&child, start + PAGE_SIZE), Ok(then), "a child's page changes");
                        switch_to(space);
                    }
                }
                sync::rcu::drain();
            });
        }
    });
    as_cpu(CPUS.start, || {
        for (i, space) in children.iter().enumerate() {
            switch_to(space);
            for page in 1..PAGES {
                let counted =
                    (0..6).filter(|t| t % 2 == i && page > *t && (page - 1 - t) % 3 == 0).count() as u64;
                let expected = 100 + page as u64 + counted * ROUNDS;
                assert_eq!(read(space, start + page * PAGE_SIZE), Ok(expected), "page {page} of {i}");
            }
        }
        check(&ancestor, start, 1..PAGES);
    });
    all_go((ancestor, children), before);
}
