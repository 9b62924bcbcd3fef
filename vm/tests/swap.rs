//! Private pages in swap, on the software machine, with a device in memory.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, anon, at, object, space};
use soft::swap::{alone, area, remove};
use soft::{Soft, add, free_frames, read, switch_to, write};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use sync::heap::hosted::fail_after;
use sync::machine::hosted::as_cpu;
use vm::large::{LargePages, set_large_pages};
use vm::swap::SwapArea;
use vm::*;

const AT: usize = 0x4000_0000;

fn page(n: usize) -> usize {
    AT + n * PAGE_SIZE
}

fn out(s: &Space<Soft>, pages: std::ops::Range<usize>) -> usize {
    s.page_out(page(pages.start)..page(pages.end))
}

/// A space with `n` pages at `AT` that hold their numbers, from 1 on.
fn filled(n: usize) -> Arc<Space<Soft>> {
    let s = space();
    s.map(&at(AT, n * PAGE_SIZE, RW)).unwrap();
    (0..n).for_each(|i| write(&s, page(i), i as u64 + 1).unwrap());
    s
}

fn holds(s: &Space<Soft>, pages: std::ops::Range<usize>) {
    for i in pages {
        assert_eq!(read(s, page(i)), Ok(i as u64 + 1), "page {i}");
    }
}

#[test]
fn without_an_area_nothing_goes_out() {
    let _g = alone();
    let s = filled(4);
    assert_eq!(out(&s, 0..4), 0);
    holds(&s, 0..4);
}

#[test]
fn pages_go_out_and_come_back_as_they_were() {
    let _g = alone();
    let (swap, memory) = area(1000, 0);
    let s = filled(700);
    let free = free_frames();
    assert_eq!(out(&s, 0..700), 700);
    assert!(free_frames() >= free + 690, "what is written is not in memory");
    assert_eq!((swap.used(), swap.counted(), swap.cached()), (700, 700, 0));
    assert_eq!((s.usage().swapped, s.usage().anon, s.usage().resident_pages), (700, 0, 0));
    assert!(memory.writes.load(Relaxed) <= 60, "neighbours are written together");
    holds(&s, 0..350);
    assert!(memory.reads.load(Relaxed) < 100, "neighbours are read together");
    assert_eq!((s.usage().swapped, s.usage().anon), (350, 350));
    // Written, which makes others of them.
    (350..700).for_each(|i| write(&s, page(i), 5).unwrap());
    holds(&s, 0..350);
    (350..700).for_each(|i| assert_eq!(read(&s, page(i)), Ok(5)));
    assert_eq!((swap.used(), swap.cached()), (0, 0));
    drop(s);
    remove(swap);
}

#[test]
fn a_page_goes_out_and_in_again_and_again() {
    let _g = alone();
    let (swap, _) = area(40, 0);
    let s = filled(30);
    for round in 0..50 {
        assert_eq!(out(&s, 0..30), 30);
        (0..30).for_each(|i| assert_eq!(read(&s, page(i)), Ok(i as u64 + 1 + round)));
        (0..30).for_each(|i| write(&s, page(i), i as u64 + 2 + round).unwrap());
    }
    drop(s);
    remove(swap);
}

#[test]
fn what_is_unmapped_or_dropped_gives_its_slot_back() {
    let _g = alone();
    let (swap, _) = area(1000, 0);
    let s = filled(64);
    assert_eq!(out(&s, 0..64), 64);
    s.unmap(VirtAddr(page(0)), 8 * PAGE_SIZE).unwrap();
    assert_eq!(swap.used(), 56);
    s.advise(VirtAddr(page(8)), 8 * PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!(swap.used(), 48);
    s.map(&at(page(16), 8 * PAGE_SIZE, RW)).unwrap();
    assert_eq!(swap.used(), 40);
    (8..24).for_each(|i| assert_eq!(read(&s, page(i)), Ok(0)));
    holds(&s, 24..64);
    assert_eq!(out(&s, 24..64), 40);
    drop(s);
    remove(swap);
}

#[test]
fn rights_are_those_of_the_mapping_when_it_comes_back() {
    let _g = alone();
    let (swap, _) = area(1000, 0);
    let s = filled(8);
    assert_eq!(out(&s, 0..8), 8);
    s.protect(VirtAddr(page(0)), 4 * PAGE_SIZE, Prot::empty()).unwrap();
    s.protect(VirtAddr(page(4)), 2 * PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(read(&s, page(0)), Err(FaultError::Denied));
    assert_eq!(write(&s, page(4), 1), Err(FaultError::Denied));
    holds(&s, 4..8);
    assert_eq!(write(&s, page(4), 1), Err(FaultError::Denied));
    s.protect(VirtAddr(page(0)), 4 * PAGE_SIZE, RW).unwrap();
    holds(&s, 0..8);
    // One that nobody may access goes out too.
    s.protect(VirtAddr(page(0)), PAGE_SIZE, Prot::empty()).unwrap();
    assert_eq!(out(&s, 0..1), 1);
    assert_eq!(read(&s, page(0)), Err(FaultError::Denied));
    let mut bytes = [0; PAGE_SIZE];
    assert!(s.copy_mapped_page(page(0), &mut bytes), "a core dump has it");
    assert_eq!(bytes[..8], 1u64.to_le_bytes());
    assert_eq!(s.next_private_page(AT, page(8)), Some(AT));
    drop(s);
    remove(swap);
}

#[test]
fn what_is_locked_or_another_has_stays() {
    let _g = alone();
    let (swap, _) = area(1000, 0);
    let s = filled(8);
    s.set_lock(VirtAddr(page(0)), 4 * PAGE_SIZE, Some(Lock::Now)).unwrap();
    assert_eq!(out(&s, 0..8), 4);
    assert_eq!(s.advise(VirtAddr(page(0)), 4 * PAGE_SIZE, Advice::PageOut), Err(VmError::Invalid));
    s.set_lock(VirtAddr(page(4)), 4 * PAGE_SIZE, Some(Lock::Now)).unwrap();
    s.populate_locked(page(4), page(8), true).unwrap();
    assert_eq!(swap.used(), 0, "what is locked is brought in");
    s.set_lock(VirtAddr(page(0)), 8 * PAGE_SIZE, None).unwrap();
    let child = s.fork().unwrap();
    switch_to(&child);
    // The copy of the leaf has each page too, but for one.
    write(&child, page(3), 100).unwrap();
    assert_eq!(out(&child, 0..8), 1);
    assert_eq!(read(&child, page(3)), Ok(100));
    switch_to(&s);
    holds(&s, 0..8);
    drop((s, child));
    remove(swap);
}

#[test]
fn a_shared_leaf_goes_out_for_all_who_have_it() {
    let _g = alone();
    let (swap, memory) = area(1000, 0);
    let s = filled(100);
    let children: Vec<_> = (0..3).map(|_| s.fork().unwrap()).collect();
    // Translations of the pages lie on several CPUs, of several spaces.
    for (cpu, child) in (10..).zip(&children) {
        as_cpu(cpu, || {
            switch_to(child);
            holds(child, 0..100);
        });
    }
    assert_eq!(out(&s, 0..100), 100);
    assert_eq!((swap.used(), swap.counted()), (100, 100));
    as_cpu(10, || holds(&children[0], 0..50));
    assert_eq!(swap.used(), 50, "they came back to all");
    let reads = memory.reads.load(Relaxed);
    holds(&s, 0..50);
    assert_eq!(memory.reads.load(Relaxed), reads);
    as_cpu(11, || {
        write(&children[1], page(0), 77).unwrap();
        write(&children[1], page(60), 78).unwrap();
        assert_eq!((read(&children[1], page(0)), read(&children[1], page(60))), (Ok(77), Ok(78)));
    });
    // Its leaf is a copy, which counts each slot once more.
    assert_eq!((swap.used(), swap.counted()), (50, 99));
    holds(&s, 0..100);
    as_cpu(12, || {
        write(&children[2], page(99), 79).unwrap();
        holds(&children[2], 0..99);
        assert_eq!(read(&children[2], page(99)), Ok(79));
    });
    as_cpu(11, || {
        holds(&children[1], 50..60);
        holds(&children[1], 61..100);
    });
    assert_eq!(swap.used(), 0);
    assert!(memory.reads.load(Relaxed) < 60, "a slot is read once for both");
    drop((s, children));
    (10..13).for_each(|cpu| as_cpu(cpu, sync::rcu::drain));
    remove(swap);
}

#[test]
fn a_child_gets_pages_in_swap_and_each_its_own() {
    let _g = alone();
    let (swap, _) = area(1000, 0);
    let s = filled(20);
    assert_eq!(out(&s, 0..20), 20);
    let child = s.fork().unwrap();
    switch_to(&child);
    write(&child, page(0), 100).unwrap();
    assert_eq!((swap.used(), swap.counted()), (19, 38));
    drop(child);
    sync::rcu::drain();
    assert_eq!((swap.used(), swap.counted()), (19, 19));
    switch_to(&s);
    holds(&s, 0..20);
    assert_eq!(out(&s, 0..20), 20);
    // What is not for children, or comes to them empty, has no count there.
    s.advise(VirtAddr(page(0)), 4 * PAGE_SIZE, Advice::DontFork).unwrap();
    s.advise(VirtAddr(page(4)), 4 * PAGE_SIZE, Advice::WipeOnFork).unwrap();
    let child = s.fork().unwrap();
    assert_eq!(swap.counted(), 32);
    switch_to(&child);
    assert_eq!(read(&child, page(0)), Err(FaultError::NotMapped));
    assert_eq!(read(&child, page(4)), Ok(0));
    holds(&child, 8..20);
    drop((s, child));
    remove(swap);
}

#[test]
fn a_mapping_moves_with_what_is_in_swap() {
    let _g = alone();
    let (swap, memory) = area(2000, 0);
    for threads in [false, true] {
        let s = filled(600);
        if threads {
            s.set_multithreaded();
        }
        assert_eq!(out(&s, 0..600), 600);
        let (reads, used) = (memory.reads.load(Relaxed), swap.used());
        let to = VirtAddr(AT + (1 << 30) + 7 * PAGE_SIZE);
        let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
        assert_eq!(s.remap(VirtAddr(AT), 600 * PAGE_SIZE, 600 * PAGE_SIZE, flags, to), Ok(to));
        assert_eq!((memory.reads.load(Relaxed), swap.used()), (reads, used), "nothing is read");
        assert_eq!(read(&s, page(0)), Err(FaultError::NotMapped));
        assert_eq!((s.usage().swapped, s.usage().anon), (600, 0));
        (0..600).for_each(|i| assert_eq!(read(&s, to.0 + i * PAGE_SIZE), Ok(i as u64 + 1)));
        drop(s);
    }
    remove(swap);
}

#[test]
fn copies_beyond_the_end_of_a_file_go_from_swap_too() {
    let _g = alone();
    let (swap, _) = area(100, 0);
    let file = object(8 * PAGE_SIZE as u64);
    let s = space();
    s.map(&MapRequest {
        backing: Backing::Object { object: file.clone(), offset: 0 },
        ..at(AT, 8 * PAGE_SIZE, RW)
    })
    .unwrap();
    (0..8).for_each(|i| write(&s, page(i), i as u64 + 1).unwrap());
    assert_eq!(out(&s, 0..8), 8);
    file.set_size(4 * PAGE_SIZE as u64).unwrap();
    assert_eq!(swap.used(), 4);
    holds(&s, 0..4);
    assert_eq!(read(&s, page(4)), Err(FaultError::Bus));
    file.set_size(8 * PAGE_SIZE as u64).unwrap();
    assert_eq!(read(&s, page(4)), Ok(0));
    drop((s, file));
    remove(swap);
}

#[test]
fn a_page_that_cannot_be_read_is_there_the_next_time() {
    let _g = alone();
    let (swap, memory) = area(100, 0);
    let s = filled(4);
    assert_eq!(out(&s, 0..4), 4);
    memory.fails_reads.store(true, Relaxed);
    assert_eq!(read(&s, page(1)), Err(FaultError::Bus));
    assert_eq!(write(&s, page(1), 9), Err(FaultError::Bus));
    assert_eq!(s.leave_swap(swap.number()), Err(FaultError::Bus));
    assert_eq!((swap.used(), swap.counted()), (4, 4));
    memory.fails_reads.store(false, Relaxed);
    holds(&s, 0..4);
    drop(s);
    remove(swap);
}

#[test]
fn a_page_that_cannot_be_written_stays_in_memory() {
    let _g = alone();
    let (swap, memory) = area(100, 0);
    let s = filled(4);
    memory.fails_writes.store(true, Relaxed);
    assert_eq!(out(&s, 0..4), 4);
    assert_eq!((swap.used(), swap.cached()), (4, 4));
    assert_eq!(swap.shed(100), 0, "nobody else has them");
    assert_eq!(swap.shed(100), 0);
    memory.fails_reads.store(true, Relaxed);
    holds(&s, 0..4);
    assert_eq!((swap.used(), swap.cached()), (0, 0));
    drop(s);
    remove(swap);
}

#[test]
fn a_page_is_taken_from_the_cache_while_it_is_written() {
    let _g = alone();
    let (swap, memory) = area(100, 0);
    let s = filled(4);
    let other = s.clone();
    memory.on_next_write(move || {
        as_cpu(10, || {
            switch_to(&other);
            write(&other, page(1), 50).unwrap();
            other.unmap(VirtAddr(page(2)), PAGE_SIZE).unwrap();
            drop(other);
            sync::rcu::drain();
        });
    });
    assert_eq!(out(&s, 0..4), 4);
    assert_eq!(memory.reads.load(Relaxed), 0);
    assert_eq!(swap.used(), 2);
    assert_eq!(read(&s, page(1)), Ok(50));
    holds(&s, 3..4);
    holds(&s, 0..1);
    drop(s);
    remove(swap);
}

/// A read that was slow puts nothing in that was given up meanwhile, though its slot has been used anew.
#[test]
fn a_late_read_leaves_no_stale_page() {
    let _g = alone();
    let (swap, memory) = area(8, 0);
    let s = filled(4);
    assert_eq!(out(&s, 0..4), 4);
    let other = s.clone();
    memory.on_next_read(move || {
        as_cpu(10, || {
            switch_to(&other);
            // All slots are freed and used anew.
            (0..4).for_each(|i| assert_eq!(read(&other, page(i)), Ok(i as u64 + 1)));
            (0..4).for_each(|i| write(&other, page(i), i as u64 + 100).unwrap());
            for _ in 0..3 {
                assert_eq!(other.page_out(page(0)..page(4)), 4);
                (0..4).for_each(|i| assert_eq!(read(&other, page(i)), Ok(i as u64 + 100)));
            }
            assert_eq!(other.page_out(page(0)..page(4)), 4);
            drop(other);
            sync::rcu::drain();
        });
    });
    assert_eq!(read(&s, page(0)), Ok(100));
    (0..4).for_each(|i| assert_eq!(read(&s, page(i)), Ok(i as u64 + 100)));
    drop(s);
    remove(swap);
}

#[test]
fn what_comes_while_entries_are_busy_is_not_lost() {
    let _g = alone();
    let (swap, _) = area(100, 0);
    let s = filled(6);
    s.set_multithreaded();
    for cpu in [11, 12] {
        as_cpu(cpu, || {
            switch_to(&s);
            (0..6).for_each(|i| write(&s, page(i), i as u64 + 1).unwrap());
        });
    }
    let other = s.clone();
    soft::on_flush(Box::new(move || {
        // Unmapped, mapped anew, made inaccessible.
        other.unmap(VirtAddr(page(0)), PAGE_SIZE).unwrap();
        other.map(&at(page(1), PAGE_SIZE, RW)).unwrap();
        other.protect(VirtAddr(page(2)), PAGE_SIZE, Prot::empty()).unwrap();
    }));
    as_cpu(11, || assert_eq!(out(&s, 0..6), 4));
    soft::on_flush(Box::new(|| ()));
    assert_eq!(swap.used(), 4);
    as_cpu(12, || {
        assert_eq!(read(&s, page(0)), Err(FaultError::NotMapped));
        assert_eq!(read(&s, page(1)), Ok(0));
        assert_eq!(read(&s, page(2)), Err(FaultError::Denied));
        holds(&s, 3..6);
    });
    drop(s);
    [11, 12].into_iter().for_each(|cpu| as_cpu(cpu, sync::rcu::drain));
    remove(swap);
}

#[test]
fn an_area_that_goes_gives_all_back() {
    let _g = alone();
    let (first, _) = area(50, 5);
    let (second, _) = area(100, 1);
    let s = filled(80);
    assert_eq!(out(&s, 0..80), 80);
    assert_eq!((first.used(), second.used()), (49, 31), "the one of higher priority is filled first");
    let child = s.fork().unwrap();
    first.close();
    assert_eq!(first.remove(), Err(VmError::Busy));
    while first.used() > 0 {
        for space in [&s, &child] {
            space.leave_swap(first.number()).unwrap();
        }
    }
    first.remove().unwrap();
    assert_eq!(SwapArea::all().count(), 1);
    holds(&s, 0..80);
    switch_to(&child);
    holds(&child, 0..80);
    assert_eq!(out(&child, 0..80), 80, "the leaf is of both");
    drop((s, child, first));
    sync::rcu::drain();
    remove(second);
}

#[test]
fn a_full_area_takes_no_more_and_then_some_again() {
    let _g = alone();
    let (swap, _) = area(21, 0);
    let s = filled(40);
    assert_eq!(out(&s, 0..40), 20);
    assert_eq!(out(&s, 20..40), 0);
    holds(&s, 0..10);
    assert_eq!(out(&s, 20..40), 10);
    holds(&s, 0..40);
    assert_eq!(swap.slots(), 20);
    drop(s);
    remove(swap);
}

#[test]
fn who_asks_what_is_in_memory_is_told() {
    let _g = alone();
    let (swap, _) = area(100, 0);
    let s = filled(8);
    assert_eq!(out(&s, 0..8), 8);
    let incore = || {
        let mut found = Vec::new();
        s.incore(VirtAddr(AT), 8 * PAGE_SIZE, &mut |is_in| found.push(is_in)).unwrap();
        found
    };
    assert_eq!(incore(), [false; 8]);
    s.advise(VirtAddr(page(1)), PAGE_SIZE, Advice::WillNeed).unwrap();
    assert!(incore()[1], "it was read ahead");
    assert_eq!(s.usage().swapped, 8);
    assert_eq!(s.resident_pages(), 0);
    let child = s.fork().unwrap();
    let mut mappers = Vec::new();
    s.for_each_swapped(page(1)..page(4), &mut |spaces| mappers.push(spaces));
    assert_eq!(mappers, [2; 3], "the leaf is of both");
    drop(child);
    mappers.clear();
    s.for_each_swapped(0..usize::MAX, &mut |spaces| mappers.push(spaces));
    assert_eq!(mappers, [1; 8]);
    let mut shown = 0;
    s.for_each_page(AT..page(8), &mut |_| shown += 1);
    assert_eq!(shown, 0);
    holds(&s, 0..8);
    drop(s);
    remove(swap);
}

#[test]
fn what_was_read_ahead_is_given_back() {
    let _g = alone();
    let (swap, _) = area(100, 0);
    let s = filled(32);
    assert_eq!(out(&s, 0..32), 32);
    s.advise(VirtAddr(AT), 32 * PAGE_SIZE, Advice::WillNeed).unwrap();
    assert_eq!(swap.cached(), 32);
    assert_eq!(swap.shed(100), 0, "just read");
    assert_eq!((swap.shed(100), swap.cached()), (32, 0));
    holds(&s, 0..32);
    drop(s);
    remove(swap);
}

#[test]
fn large_pages_are_split_and_gathered() {
    let _g = alone();
    sync::machine::hosted::set_cpus(24);
    set_large_pages(LargePages::Always);
    let (swap, _) = area(2000, 0);
    let s = filled(512);
    assert_eq!(s.large_pages_in(AT..AT + LEAF_SPAN), 512);
    assert_eq!(out(&s, 3..20), 17);
    assert_eq!(s.large_pages_in(AT..AT + LEAF_SPAN), 0);
    assert_eq!(out(&s, 0..512), 495);
    holds(&s, 0..100);
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Done);
    assert_eq!((s.large_pages_in(AT..AT + LEAF_SPAN), swap.used()), (512, 0));
    holds(&s, 0..512);
    set_large_pages(LargePages::Asked);
    drop(s);
    remove(swap);
}

/// Each step with its first, second, third … allocation failing.
#[test]
fn nothing_is_lost_where_memory_runs_out() {
    let _g = alone();
    let (swap, _) = area(1000, 0);
    for n in 0..40 {
        let s = filled(40);
        let gone = fail_after(n, || out(&s, 0..40));
        assert_eq!(gone, 40, "pages go out when there is no memory left");
        let child = fail_after(n, || s.fork());
        let wrote = fail_after(n, || write(&s, page(3), 4));
        assert!(matches!(wrote, Ok(()) | Err(FaultError::NoMemory)));
        (0..40).for_each(|i| _ = fail_after(n, || read(&s, page(i))));
        holds(&s, 0..40);
        if let Ok(child) = child {
            switch_to(&child);
            holds(&child, 0..40);
        }
        switch_to(&s);
        drop(s);
        sync::rcu::drain();
        assert_eq!((swap.used(), swap.counted()), (0, 0));
    }
    remove(swap);
}

#[test]
fn memory_that_was_never_written_is_not_in_swap() {
    let _g = alone();
    let (swap, _) = area(100, 0);
    let s = space();
    let a = s.map(&anon(64 * PAGE_SIZE)).unwrap().0;
    (0..64).for_each(|i| assert_eq!(read(&s, a + i * PAGE_SIZE), Ok(0)));
    assert_eq!(s.page_out(a..a + 64 * PAGE_SIZE), 0);
    drop(s);
    remove(swap);
}

#[test]
fn pages_that_nobody_uses_go_out_and_others_stay() {
    let _g = alone();
    let s = filled(600);
    assert_eq!(
        s.age(0, usize::MAX, policy::Nodes::MAX),
        Aged { next: Some(0), ..Aged::default() },
        "there is no area"
    );
    let (swap, _) = area(1000, 0);
    let all = |looked, gone| Aged { next: None, looked, gone };
    assert_eq!(s.age(0, usize::MAX, 0b10), all(0, 0), "none is on that node");
    assert_eq!(s.age(0, usize::MAX, 0b1), all(600, 0), "all were used");
    let use_some = |cpu| {
        as_cpu(cpu, || {
            switch_to(&s);
            holds(&s, 100..150);
            write(&s, page(550), 551).unwrap();
        });
    };
    use_some(10);
    assert_eq!(s.age(0, usize::MAX, policy::Nodes::MAX), all(600, 549));
    assert_eq!(s.usage().anon, 51);
    // In parts.
    use_some(11);
    let (mut from, mut looked, mut parts) = (0, 0, 0);
    loop {
        let part = s.age(from, 10, policy::Nodes::MAX);
        assert_eq!(part.gone, 0);
        looked += part.looked;
        parts += 1;
        match part.next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(looked, 51);
    assert!(parts >= 2);
    assert_eq!(s.age(0, usize::MAX, policy::Nodes::MAX), all(51, 51));
    holds(&s, 0..600);
    drop(s);
    [10, 11].into_iter().for_each(|cpu| as_cpu(cpu, sync::rcu::drain));
    remove(swap);
}

/// Threads count in pages while others take the pages out, fork, and move and unmap what is beside them. No count is lost, and each child finds a moment of it.
#[test]
fn threads_lose_nothing_while_pages_go_out() {
    const PAGES: usize = 96;
    const ROUNDS: usize = 150;
    let _g = alone();
    let (swap, memory) = area(600, 0);
    memory.fails_each_write.store(5, Relaxed);
    let s = Space::<Soft>::try_new().unwrap();
    s.set_multithreaded();
    switch_to(&s);
    s.map(&at(AT, PAGES * PAGE_SIZE, RW)).unwrap();
    let is_over = AtomicBool::new(false);
    let counting = AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for me in 0..3 {
            let (s, counting, is_over) = (&s, &counting, &is_over);
            scope.spawn(move || {
                switch_to(s);
                for round in 0..ROUNDS * 3 {
                    add(s, page((round * 37 + me) % PAGES) + 8 * me, 1).unwrap();
                }
                is_over.fetch_or(counting.fetch_sub(1, SeqCst) == 1, SeqCst);
                sync::rcu::drain();
            });
        }
        for _ in 0..2 {
            let (s, is_over) = (&s, &is_over);
            scope.spawn(move || {
                switch_to(s);
                while !is_over.load(SeqCst) {
                    s.page_out(AT..page(PAGES));
                }
                sync::rcu::drain();
            });
        }
        let (s, is_over) = (&s, &is_over);
        scope.spawn(move || {
            switch_to(s);
            while !is_over.load(SeqCst) {
                let child = s.fork().unwrap();
                switch_to(&child);
                let first: Vec<_> = (0..PAGES).map(|i| read(&child, page(i)).unwrap()).collect();
                child.page_out(AT..page(PAGES));
                write(&child, page(5), u64::MAX).unwrap();
                let second: Vec<_> = (0..PAGES).map(|i| read(&child, page(i)).unwrap()).collect();
                let same = (0..PAGES).all(|i| i == 5 || first[i] == second[i]);
                assert!(same, "a child's memory changes");
                switch_to(s);
                drop(child);
                sync::rcu::drain();
            }
        });
        scope.spawn(move || {
            switch_to(s);
            let beside = AT + (1 << 30);
            while !is_over.load(SeqCst) {
                s.map(&at(beside, 8 * PAGE_SIZE, RW)).unwrap();
                (0..8).for_each(|i| write(s, beside + i * PAGE_SIZE, i as u64).unwrap());
                s.page_out(beside..beside + 8 * PAGE_SIZE);
                let to = VirtAddr(beside + (1 << 22));
                let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
                s.remap(VirtAddr(beside), 8 * PAGE_SIZE, 8 * PAGE_SIZE, flags, to).unwrap();
                (0..4).for_each(|i| assert_eq!(read(s, to.0 + i * PAGE_SIZE), Ok(i as u64)));
                s.unmap(to, 8 * PAGE_SIZE).unwrap();
            }
            sync::rcu::drain();
        });
    });
    let words = (0..PAGES).flat_map(|i| [0, 1, 2].map(|me| read(&s, page(i) + 8 * me).unwrap()));
    assert_eq!(words.sum::<u64>(), 3 * 3 * ROUNDS as u64);
    drop(s);
    remove(swap);
}
