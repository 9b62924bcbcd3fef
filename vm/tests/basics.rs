//! Each operation once, on the software machine.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, anon, at, space};
use soft::{Soft, free_frames, read, switch_to, write};
use vm::*;

#[test]
fn anonymous_memory_is_zero_and_keeps_what_is_written() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(8 << 20)).unwrap().0;
    assert_eq!(read(&s, a + 4096), Ok(0));
    for page in 0..2048 {
        write(&s, a + page * 4096, page as u64 + 1).unwrap();
    }
    for page in 0..2048 {
        assert_eq!(read(&s, a + page * 4096), Ok(page as u64 + 1));
    }
    assert_eq!(s.usage().anon, 2048);
    assert_eq!(s.usage().virtual_pages, 2048);
    s.unmap(VirtAddr(a), 8 << 20).unwrap();
    assert_eq!(read(&s, a), Err(FaultError::NotMapped));
    assert_eq!(s.usage().anon, 0);
}

#[test]
fn memory_that_may_only_be_written_can_be_read_too() {
    let _g = alone();
    let s = space();
    let a = s.map(&MapRequest { prot: Prot::WRITE, ..anon(2 * 4096) }).unwrap().0;
    assert_eq!(read(&s, a), Ok(0));
    write(&s, a, 7).unwrap();
    assert_eq!(read(&s, a), Ok(7));
    write(&s, a + 4096, 8).unwrap();
    assert_eq!(read(&s, a + 4096), Ok(8));
}

#[test]
fn a_hole_in_the_middle_of_a_mapping_faults() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(64 * 4096)).unwrap().0;
    write(&s, a + 10 * 4096, 7).unwrap();
    s.unmap(VirtAddr(a + 10 * 4096), 4096).unwrap();
    assert_eq!(read(&s, a + 10 * 4096), Err(FaultError::NotMapped));
    write(&s, a + 11 * 4096, 8).unwrap();
    let mut lines = Vec::new();
    s.for_each_mapping(&mut |m| lines.push((m.start - a, m.end - a)));
    assert_eq!(lines, [(0, 10 * 4096), (11 * 4096, 64 * 4096)]);
}

#[test]
fn protection_is_obeyed_and_can_be_given_back() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(4 << 20)).unwrap().0;
    write(&s, a, 1).unwrap();
    s.protect(VirtAddr(a), 4 << 20, Prot::READ).unwrap();
    assert_eq!(write(&s, a, 2), Err(FaultError::Denied));
    assert_eq!(read(&s, a), Ok(1));
    s.protect(VirtAddr(a), 4096, Prot::empty()).unwrap();
    assert_eq!(read(&s, a), Err(FaultError::Denied));
    s.protect(VirtAddr(a), 4 << 20, RW).unwrap();
    write(&s, a, 3).unwrap();
    assert_eq!(read(&s, a), Ok(3));
}

#[test]
fn a_child_sees_the_parents_memory_as_it_was_and_writes_stay_apart() {
    let _g = alone();
    let parent = space();
    let a = parent.map(&anon(6 << 20)).unwrap().0;
    for page in 0..1024 {
        write(&parent, a + page * 4096, page as u64).unwrap();
    }
    let child = parent.fork().unwrap();
    write(&parent, a, 100).unwrap();
    switch_to(&child);
    assert_eq!(read(&child, a), Ok(0));
    write(&child, a + 4096, 200).unwrap();
    write(&child, a + (5 << 20), 201).unwrap();
    let grandchild = child.fork().unwrap();
    write(&child, a + 4096, 300).unwrap();
    switch_to(&grandchild);
    assert_eq!(read(&grandchild, a + 4096), Ok(200));
    switch_to(&parent);
    assert_eq!(read(&parent, a + 4096), Ok(1));
    assert_eq!(read(&parent, a + (5 << 20)), Ok(0));
    drop(child);
    write(&parent, a + 8192, 9).unwrap();
    switch_to(&grandchild);
    assert_eq!(read(&grandchild, a + 8192), Ok(2));
    drop(grandchild);
    switch_to(&parent);
    for page in 3..1024 {
        write(&parent, a + page * 4096, 5).unwrap();
    }
}

#[test]
fn forking_again_and_again_leaks_nothing_and_shares_untouched_leaves() {
    let _g = alone();
    let parent = space();
    let a = parent.map(&anon(32 << 20)).unwrap().0;
    for page in 0..8192 {
        write(&parent, a + page * 4096, 1).unwrap();
    }
    let before = free_frames();
    for round in 0..50 {
        let child = parent.fork().unwrap();
        // Root, two or three interior nodes, no leaf.
        assert!(before - free_frames() <= 4, "fork took {} frames", before - free_frames());
        switch_to(&child);
        write(&child, a, round).unwrap();
        switch_to(&parent);
        drop(child);
        write(&parent, a, round).unwrap();
        assert_eq!(free_frames(), before);
    }
}

#[test]
fn a_child_does_not_get_what_is_not_for_children() {
    let _g = alone();
    let s = space();
    // The border of the part lies inside a leaf, and inside the part lie whole leaves, touched and untouched.
    let a = s.map(&anon(16 << 20)).unwrap().0.next_multiple_of(2 << 20);
    for page in 0..2 * 512 {
        write(&s, a + page * 4096, page as u64 + 1).unwrap();
    }
    let (secret, wiped) = (a + 300 * 4096, a + 100 * 4096);
    s.advise(VirtAddr(secret), 6 << 20, Advice::DontFork).unwrap();
    s.advise(VirtAddr(wiped), 100 * 4096, Advice::WipeOnFork).unwrap();
    let child = s.fork().unwrap();
    switch_to(&child);
    assert_eq!(read(&child, a), Ok(1));
    assert_eq!(read(&child, wiped), Ok(0));
    assert_eq!(read(&child, secret - 4096), Ok(300));
    for page in [0, 1, 212, 600, 6 * 256 - 1] {
        assert_eq!(read(&child, secret + page * 4096), Err(FaultError::NotMapped), "page {page}");
    }
    assert_eq!(read(&child, secret + (6 << 20)), Ok(0));
    write(&child, a, 70).unwrap();
    switch_to(&s);
    assert_eq!(read(&s, a), Ok(1));
    write(&s, secret - 4096, 71).unwrap();
    assert_eq!(read(&s, wiped), Ok(101));
    assert_eq!(read(&s, secret), Ok(301));
    s.advise(VirtAddr(secret), 6 << 20, Advice::DoFork).unwrap();
    s.advise(VirtAddr(wiped), 100 * 4096, Advice::KeepOnFork).unwrap();
    let second = s.fork().unwrap();
    switch_to(&second);
    assert_eq!(read(&second, secret), Ok(301));
    assert_eq!(read(&second, wiped), Ok(101));
    switch_to(&child);
    assert_eq!(read(&child, secret - 4096), Ok(300));
    switch_to(&s);
}

#[test]
fn only_who_may_maps_the_lowest_addresses() {
    let _g = alone();
    let s = space();
    assert_eq!(s.map(&at(0, 4096, RW)), Err(VmError::Permission));
    let low = MapRequest { flags: MapFlags::FIXED | MapFlags::LOW, ..at(0, 8192, RW) };
    assert_eq!(s.map(&low), Ok(VirtAddr(0)));
    write(&s, 8, 3).unwrap();
    assert_eq!(read(&s, 8), Ok(3));
    let a = s.map(&anon(4096)).unwrap();
    let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
    assert_eq!(s.remap(a, 4096, 4096, flags, VirtAddr(0x8000)), Err(VmError::Permission));
    assert_eq!(s.remap(a, 4096, 4096, flags | MremapFlags::LOW, VirtAddr(0x8000)), Ok(VirtAddr(0x8000)));
    s.unmap(VirtAddr(0), 8192).unwrap();
    assert_eq!(read(&s, 8), Err(FaultError::NotMapped));
}

#[test]
fn the_heap_grows_and_shrinks() {
    let _g = alone();
    let s = space();
    s.set_brk(VirtAddr(0x60_0123));
    assert_eq!(s.brk(VirtAddr(0)).0, 0x60_0123);
    assert_eq!(s.brk(VirtAddr(0x70_0000)).0, 0x70_0000);
    write(&s, 0x6f_f000, 1).unwrap();
    assert_eq!(s.brk(VirtAddr(0x60_2000)).0, 0x60_2000);
    assert_eq!(read(&s, 0x6f_f000), Err(FaultError::NotMapped));
    s.map(&at(0x80_0000, 4096, RW)).unwrap();
    assert_eq!(s.brk(VirtAddr(0x90_0000)).0, 0x60_2000, "not over a mapping");
}

#[test]
fn a_stack_grows_down_to_its_limit() {
    let _g = alone();
    let s = space();
    let top = 0x7ff0_0000_0000;
    let flags = MapFlags::FIXED | MapFlags::GROWSDOWN;
    s.map(&MapRequest { flags, ..at(top - 8192, 8192, RW) }).unwrap();
    s.set_limits(1 << 20, usize::MAX);
    write(&s, top - 500_000, 1).unwrap();
    write(&s, top - (1 << 20), 1).unwrap();
    assert_eq!(write(&s, top - (1 << 20) - 4096, 1), Err(FaultError::NotMapped));
    let mut lines = Vec::new();
    s.for_each_mapping(&mut |m| lines.push((top - m.start, top - m.end)));
    assert_eq!(lines, [(1 << 20, 0)]);
}

#[test]
fn a_guard_that_would_reach_below_address_0_ends_there() {
    let _g = alone();
    let s = space();
    s.map(&MapRequest { flags: MapFlags::FIXED | MapFlags::GROWSDOWN, ..at(0x4_0000, 0x1_0000, RW) })
        .unwrap();
    let hint = MapRequest { flags: MapFlags::empty(), ..at(0x2_0000, 4096, RW) };
    assert_ne!(s.map(&hint).unwrap(), VirtAddr(0x2_0000), "the hint lies in the guard");
    // So much that the search from the top comes down to the mapping.
    let all = Soft::USER_END - 0x5_0000;
    assert!(s.map(&anon(all)).is_err());
}

#[test]
fn addresses_are_dense_from_the_top_and_used_again() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(4096)).unwrap().0;
    let b = s.map(&anon(8192)).unwrap().0;
    assert_eq!(b + 8192, a);
    let c = s.map(&anon(4096)).unwrap().0;
    assert_eq!(c + 4096, b);
    s.unmap(VirtAddr(b), 8192).unwrap();
    assert_eq!(s.map(&anon(4096)).unwrap().0, b + 4096);
    assert_eq!(s.map(&anon(8192)).unwrap().0, c - 8192);
    assert_eq!(s.map(&anon(4096)).unwrap().0, b);
    let fixed = MapRequest { flags: MapFlags::FIXED | MapFlags::NOREPLACE, ..at(b, 4096, RW) };
    assert_eq!(s.map(&fixed), Err(VmError::Exists));
}

#[test]
fn remote_access_faults_pages_in() {
    let _g = alone();
    let s = Space::<Soft>::try_new().unwrap();
    s.map(&at(0x40_0000, 16384, RW)).unwrap();
    s.write_remote(VirtAddr(0x40_0ffe), b"across a page border").unwrap();
    let mut back = [0; 20];
    s.read_remote(VirtAddr(0x40_0ffe), &mut back).unwrap();
    assert_eq!(&back, b"across a page border");
    assert_eq!(s.write_remote(VirtAddr(0x40_3ffe), b"four"), Err(FaultError::NotMapped));
    switch_to(&s);
    assert_eq!(read(&s, 0x40_1000).unwrap() & 0xff, u64::from(b"across"[2]));
}

#[test]
fn another_process_reads_what_may_be_read_and_grows_no_stack() {
    let _g = alone();
    let s = Space::<Soft>::try_new().unwrap();
    for (n, prot) in [Prot::WRITE, Prot::EXEC, Prot::READ, RW, Prot::empty()].into_iter().enumerate() {
        s.map(&at(0x40_0000 + n * 4096, 4096, prot)).unwrap();
    }
    let mut byte = [7];
    let mut reads = |n: usize| s.read_for_other(VirtAddr(0x40_0000 + n * 4096), &mut byte).map(|()| byte[0]);
    let denied = Err(FaultError::Denied);
    // Before there is a page, and afterwards.
    for _ in 0..2 {
        assert_eq!([0, 1, 2, 3, 4].map(&mut reads), [denied, denied, Ok(0), Ok(0), denied]);
    }
    let writes = |n: usize| s.write_for_other(VirtAddr(0x40_0000 + n * 4096), b"x");
    assert_eq!([1, 2, 4].map(writes), [Err(FaultError::Denied); 3]);
    assert_eq!([0, 3].map(writes), [Ok(()); 2]);
    assert_eq!([0, 3].map(&mut reads), [denied, Ok(b'x')]);
    let mut seen = 0;
    s.show_to_other(VirtAddr(0x40_3000), 3, &mut |bytes| seen = bytes.len()).unwrap();
    s.lend_to_other(VirtAddr(0x40_3ffe), 2, &mut |bytes| seen += bytes.len()).unwrap();
    assert_eq!(seen, 5);
    s.map(&MapRequest { flags: MapFlags::FIXED | MapFlags::GROWSDOWN, ..at(0x80_0000, 4096, RW) }).unwrap();
    assert_eq!(s.write_for_other(VirtAddr(0x7f_f000), b"x"), Err(FaultError::NotMapped));
    assert_eq!(s.write_remote(VirtAddr(0x7f_f000), b"x"), Ok(()));
    assert_eq!(s.write_for_other(VirtAddr(0x7f_f000), b"y"), Ok(()));
}

#[test]
fn a_write_for_another_process_leaves_the_child_as_it_was() {
    let _g = alone();
    let parent = Space::<Soft>::try_new().unwrap();
    parent.map(&at(0x40_0000, 4096, RW)).unwrap();
    parent.write_remote(VirtAddr(0x40_0000), b"old").unwrap();
    let child = parent.fork().unwrap();
    child.write_for_other(VirtAddr(0x40_0000), b"new").unwrap();
    let mut bytes = [0; 3];
    parent.read_for_other(VirtAddr(0x40_0000), &mut bytes).unwrap();
    assert_eq!(&bytes, b"old");
    child.read_for_other(VirtAddr(0x40_0000), &mut bytes).unwrap();
    assert_eq!(&bytes, b"new");
}

#[test]
fn a_terabyte_is_mapped_in_a_few_words() {
    let _g = alone();
    let s = space();
    let before = free_frames();
    let a = s.map(&anon(1 << 40)).unwrap().0;
    // Tables for the two ends.
    assert!(before - free_frames() <= 7);
    write(&s, a + (1 << 39), 1).unwrap();
    s.unmap(VirtAddr(a), 1 << 40).unwrap();
    assert_eq!(read(&s, a + (1 << 39)), Err(FaultError::NotMapped));
}

#[test]
fn another_cpu_forgets_what_this_one_unmaps() {
    let _g = alone();
    let s = space();
    s.set_multithreaded();
    let a = s.map(&anon(4096)).unwrap().0;
    write(&s, a, 1).unwrap();
    sync::machine::hosted::as_cpu(9, || {
        switch_to(&s);
        assert_eq!(read(&s, a), Ok(1));
    });
    s.unmap(VirtAddr(a), 4096).unwrap();
    sync::machine::hosted::as_cpu(9, || assert_eq!(read(&s, a), Err(FaultError::NotMapped)));
    s.map(&at(a, 4096, RW)).unwrap();
    assert_eq!(read(&s, a), Ok(0));
}

/// `f` on another CPU.
fn elsewhere<R>(f: impl FnOnce() -> R) -> R {
    sync::machine::hosted::as_cpu(9, f)
}

#[test]
fn a_thread_interrupts_only_who_touched_what_it_unmaps() {
    let _g = alone();
    let s = space();
    s.set_multithreaded();
    let a = s.map(&anon(8 << 20)).unwrap().0.next_multiple_of(2 << 20);
    let (mine, common) = (a, a + (2 << 20));
    elsewhere(|| {
        switch_to(&s);
        write(&s, common, 1).unwrap();
    });
    for page in 0..512 {
        write(&s, mine + page * 4096, 1).unwrap();
    }
    write(&s, common + 4096, 1).unwrap();
    let flushes = || soft::REMOTE_FLUSHES.load(std::sync::atomic::Ordering::Relaxed);
    let start = flushes();
    s.advise(VirtAddr(mine), 2 << 20, Advice::DontNeed).unwrap();
    assert_eq!(read(&s, mine), Ok(0));
    s.protect(VirtAddr(mine), 4096, Prot::READ).unwrap();
    s.unmap(VirtAddr(mine), 1 << 20).unwrap();
    assert_eq!(flushes(), start, "nobody else touched these pages");
    // The other CPU reads a page that this one had mapped, and must forget it.
    elsewhere(|| assert_eq!(read(&s, common + 4096), Ok(1)));
    s.unmap(VirtAddr(common), 2 << 20).unwrap();
    assert_eq!(flushes(), start + 1);
    elsewhere(|| assert_eq!(read(&s, common + 4096), Err(FaultError::NotMapped)));
    // A fork takes the right to write from the other CPU too.
    let last = common + (2 << 20);
    elsewhere(|| write(&s, last, 7).unwrap());
    let child = s.fork().unwrap();
    elsewhere(|| write(&s, last, 8).unwrap());
    switch_to(&child);
    assert_eq!(read(&child, last), Ok(7));
    switch_to(&s);
    assert_eq!(read(&s, last), Ok(8));
    drop((s, child));
    elsewhere(sync::rcu::drain);
}

#[test]
fn mappings_come_and_go_in_leaves_that_no_other_cpu_looks_at() {
    let _g = alone();
    let s = space();
    s.set_multithreaded();
    // This CPU makes a stack for a thread on another, as pthread_create does.
    let stack = s.map(&anon(4 * 4096)).unwrap().0;
    elsewhere(|| {
        switch_to(&s);
        write(&s, stack, 1).unwrap();
    });
    let round = || {
        let a = s.map(&anon(4 * 4096)).unwrap().0;
        write(&s, a, 1).unwrap();
        s.unmap(VirtAddr(a), 4 * 4096).unwrap();
        a
    };
    let first = round();
    let flushes = || soft::REMOTE_FLUSHES.load(std::sync::atomic::Ordering::Relaxed);
    let start = flushes();
    let second = round();
    assert_eq!(round(), second, "addresses are used again");
    assert_eq!(flushes(), start, "nobody is interrupted for them");
    assert!(first.abs_diff(second) < 4 << 20);
}

#[test]
fn a_mapping_moves_with_its_pages() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(3 << 20)).unwrap().0;
    let b = s.map(&anon(4096)).unwrap().0;
    assert_eq!(b + 4096, a);
    s.map(&at(a + (3 << 20), 4096, RW)).unwrap();
    for page in 0..768 {
        write(&s, a + page * 4096, page as u64).unwrap();
    }
    let grown = s.remap(VirtAddr(b), 4096, 8192, MremapFlags::empty(), VirtAddr(0));
    assert_eq!(grown, Err(VmError::NoSpace));
    let child = s.fork().unwrap();
    let moved = s.remap(VirtAddr(a), 3 << 20, 8 << 20, MremapFlags::MAYMOVE, VirtAddr(0)).unwrap().0;
    assert_ne!(moved, a);
    assert_eq!(read(&s, a), Err(FaultError::NotMapped));
    for page in 0..768 {
        assert_eq!(read(&s, moved + page * 4096), Ok(page as u64));
        write(&s, moved + page * 4096, 1).unwrap();
    }
    assert_eq!(read(&s, moved + (7 << 20)), Ok(0));
    let shrunk = s.remap(VirtAddr(moved), 8 << 20, 4096, MremapFlags::empty(), VirtAddr(0));
    assert_eq!(shrunk, Ok(VirtAddr(moved)));
    assert_eq!(read(&s, moved + 4096), Err(FaultError::NotMapped));
    let grown = s.remap(VirtAddr(moved), 4096, 1 << 20, MremapFlags::empty(), VirtAddr(0));
    assert_eq!(grown, Ok(VirtAddr(moved)));
    assert_eq!(read(&s, moved + 4096), Ok(0));
    let to = VirtAddr(0x1000_0000);
    let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
    assert_eq!(s.remap(VirtAddr(moved), 1 << 20, 1 << 20, flags, to), Ok(to));
    assert_eq!(read(&s, to.0), Ok(1));
    switch_to(&child);
    assert_eq!(read(&child, a + 5 * 4096), Ok(5));
}

#[test]
fn sizes_that_are_remembered_for_a_leaf_are_those_of_its_segments_now() {
    let _g = alone();
    let s = space();
    let a = s.map(&anon(8 << 20)).unwrap().0;
    write(&s, a + 4096, 1).unwrap();
    // Asked for twice, so that the second answer is what the first one left behind.
    let sizes = || {
        let (first, second) = (s.usage(), s.usage());
        assert_eq!(first, second);
        (second.virtual_pages, second.data, second.locked, second.exec)
    };
    assert_eq!(sizes(), (2048, 2048, 0, 0));
    s.protect(VirtAddr(a), 16 << 12, Prot::READ).unwrap();
    assert_eq!(sizes(), (2048, 2032, 0, 0));
    s.protect(VirtAddr(a), 8 << 12, Prot::READ | Prot::EXEC).unwrap();
    assert_eq!(sizes(), (2048, 2032, 0, 8));
    s.set_lock(VirtAddr(a), 4 << 12, Some(Lock::Now)).unwrap();
    assert_eq!(sizes(), (2048, 2032, 4, 8));
    s.unmap(VirtAddr(a), 2 << 12).unwrap();
    assert_eq!(sizes(), (2046, 2032, 2, 6));
    let child = s.fork().unwrap();
    assert_eq!((child.usage().virtual_pages, child.usage().locked), (2046, 0));
    s.unmap(VirtAddr(a), 8 << 20).unwrap();
    assert_eq!(sizes(), (0, 0, 0, 0));
}
