//! The allocator over the hosted arena. One test at a time: they count free frames.

extern crate std;

use super::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;
use sync::machine::hosted::{as_cpu, set_nodes};

const PAGES: usize = if cfg!(miri) { 4096 } else { 32768 };

/// Until it goes, the arena is one test's.
pub(crate) struct Arena {
    _guard: MutexGuard<'static, ()>,
}

impl Drop for Arena {
    /// What this thread frees after a grace period is free before the next test counts.
    fn drop(&mut self) {
        sync::rcu::drain();
    }
}

pub(crate) fn arena() -> Arena {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_nodes(2);
    hosted::start(PAGES, 2);
    Arena { _guard: guard }
}

#[test]
fn every_page_can_be_taken_once_and_comes_back() {
    let _one = arena();
    let before = free_frames();
    assert!(before > 0);
    let mut taken = Vec::new();
    while let Some(frame) = alloc_dirty() {
        taken.push(frame);
    }
    // What is left lies in the magazines of other CPUs, which only they reach.
    let own = counts_of(sync::cpu_id()).cached;
    assert_eq!(own, 0);
    assert_eq!(taken.len() as u64 + free_frames(), before);
    let mut addresses: Vec<_> = taken.iter().map(|f| f.addr()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), taken.len(), "a page was handed out twice");
    drop(taken);
    assert_eq!(free_frames(), before);
}

#[test]
fn a_cleared_page_is_zero_although_it_was_dirtied() {
    let _one = arena();
    let mut frame = alloc_dirty().unwrap();
    frame.bytes().fill(0xa5);
    let addr = frame.addr();
    drop(frame);
    let mut again = alloc_zeroed().unwrap();
    assert_eq!(again.addr(), addr, "the magazine hands out the warm page first");
    assert!(again.bytes().iter().all(|b| *b == 0));
}

#[test]
fn blocks_are_aligned_disjoint_and_join_again() {
    let _one = arena();
    let before = free_frames();
    let blocks: Vec<_> = (0..=MAX_ORDER).map(|o| (alloc_contiguous(o, 0).unwrap(), o)).collect();
    for (start, order) in &blocks {
        assert_eq!(start.page_number() % (1 << order), 0);
    }
    let taken: u64 = blocks.iter().map(|(_, o)| 1 << o).sum();
    assert_eq!(free_frames(), before - taken);
    for (start, order) in blocks {
        // SAFETY: taken above, given back once.
        unsafe { free_contiguous(start, order) };
    }
    assert_eq!(free_frames(), before);
    assert!(alloc_contiguous(MAX_ORDER + 1, 0).is_none());
}

#[test]
fn single_pages_given_back_make_large_blocks_possible_again() {
    let _one = arena();
    let mut taken = Vec::new();
    while let Some(frame) = alloc_dirty() {
        taken.push(frame);
    }
    assert!(alloc_contiguous(MAX_ORDER, 0).is_none());
    drop(taken);
    let block = alloc_contiguous(MAX_ORDER, 0).expect("colour lists drain into the buddy");
    // SAFETY: taken above, given back once.
    unsafe { free_contiguous(block, MAX_ORDER) };
}

#[test]
fn a_page_comes_from_the_cpus_own_node_and_goes_back_there() {
    let _one = arena();
    for cpu in [60, 61] {
        let (numa_node, frames) = as_cpu(cpu, || {
            let frames: Vec<_> = (0..200).filter_map(|_| alloc_dirty()).collect();
            (sync::machine::node_of(cpu) as usize, frames)
        });
        assert!(frames.iter().all(|f| f.frame().numa_node() == numa_node));
        // Freed on a CPU of the other NUMA node, they may wait there, but never enter its magazine.
        as_cpu(cpu ^ 1, || {
            drop(frames);
            let next = alloc_dirty().unwrap();
            assert_ne!(next.frame().numa_node(), numa_node);
        });
    }
}

#[test]
fn a_cpu_takes_what_it_gave_back_last() {
    let _one = arena();
    as_cpu(87, || {
        let frames: Vec<_> = (0..180).map(|_| alloc_dirty().unwrap()).collect();
        let mut given: Vec<_> = frames.iter().map(|f| f.addr()).collect();
        // In this order, through magazine and depot.
        frames.into_iter().for_each(drop);
        assert!(depot::of(87).len() >= BATCH);
        let taken: Vec<_> = (0..150).map(|_| alloc_dirty().unwrap()).collect();
        given.reverse();
        assert!(taken.iter().map(|f| f.addr()).eq(given.into_iter().take(150)));
    });
}

#[test]
fn small_blocks_come_back_to_the_cpu_that_freed_them_and_the_buddy_is_asked_for_a_batch_at_a_time() {
    let _one = arena();
    // Tests before this one may have left so many single pages that a buddy has no whole batch.
    (0..MAX_NUMA_NODES).for_each(|n| colour::of_numa_node(n).drain());
    (0..sync::machine::cpus()).for_each(|cpu| depot::of(cpu as sync::CpuId).drain());
    let before = free_frames();
    as_cpu(88, || {
        let in_buddies = || (0..2).map(|n| buddy::of_numa_node(n).free()).sum::<u64>();
        for order in 1..=depot::SMALL_ORDER {
            let take = || -> Vec<_> { (0..96 >> order).filter_map(|_| alloc_contiguous(order, 0)).collect() };
            let at_first = in_buddies();
            let mut blocks = take();
            assert_eq!((at_first - in_buddies()) % BATCH as u64, 0);
            for _ in 0..3 {
                let left = in_buddies();
                // SAFETY: taken above, given back once.
                blocks.iter().for_each(|start| unsafe { free_contiguous(*start, order) });
                let mut again = take();
                assert_eq!(in_buddies(), left, "order {order}");
                blocks.sort();
                again.sort();
                assert_eq!(again, blocks, "order {order}");
            }
            // SAFETY: as above.
            blocks.iter().for_each(|start| unsafe { free_contiguous(*start, order) });
            depot::of(88).drain();
            assert_eq!(free_frames(), before);
        }
    });
}

#[test]
fn blocks_in_depots_are_pages_for_every_cpu_when_there_are_no_others() {
    let _one = arena();
    let before = free_frames();
    as_cpu(90, || {
        for order in 1..=depot::SMALL_ORDER {
            let blocks: Vec<_> = (0..32 >> order).filter_map(|_| alloc_contiguous(order, 0)).collect();
            // SAFETY: taken above, given back once.
            blocks.into_iter().for_each(|start| unsafe { free_contiguous(start, order) });
        }
        assert!(depot::of(90).len() >= 3 * 32);
    });
    let taken = as_cpu(91, take_all);
    assert_eq!(depot::of(90).len(), 0);
    assert_eq!(taken.len() as u64 + free_frames(), before);
    let mut addresses: Vec<_> = taken.iter().map(|f| f.addr()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), taken.len(), "a page was handed out twice");
    as_cpu(91, || drop(taken));
    assert_eq!(free_frames(), before);
}

/// All frames that this CPU can have.
fn take_all() -> Vec<OwnedFrame> {
    std::iter::from_fn(alloc_dirty).collect()
}

#[test]
fn what_lies_in_depots_every_cpu_has_at_once() {
    let _one = arena();
    let before = free_frames();
    for cpu in 76..80 {
        as_cpu(cpu, || drop((0..600).map(|_| alloc_dirty().unwrap()).collect::<Vec<_>>()));
        assert!(depot::of(cpu).len() >= BATCH, "the frames went elsewhere");
    }
    // Nobody follows a call meanwhile.
    let taken = as_cpu(81, take_all);
    (0..machine::cpus()).for_each(|cpu| assert_eq!(depot::of(cpu).len(), 0, "the depot of {cpu} is left"));
    assert!(!has_any());
    assert_eq!(taken.len() as u64 + free_frames(), before);
    as_cpu(81, || drop(taken));
    assert!(has_any());
    assert_eq!(free_frames(), before);
}

#[test]
fn a_cpu_that_is_called_keeps_nothing_to_itself() {
    let _one = arena();
    let before = free_frames();
    // Of both NUMA nodes, so that some wait to go home.
    let mixed: Vec<_> = [82, 83]
        .map(|cpu| as_cpu(cpu, || (0..50).map(|_| alloc_dirty().unwrap()).collect::<Vec<_>>()))
        .into();
    as_cpu(82, || drop(mixed));
    assert!(counts_of(82).cached > depot::of(82).len() as u64);
    call_back();
    assert!(!all_gave_back());
    as_cpu(82, give_back_if_called);
    assert_eq!(counts_of(82).cached, depot::of(82).len() as u64);
    assert_eq!(free_frames(), before);
}

#[test]
fn blocks_form_of_what_lies_in_depots_each_on_its_node() {
    let _one = arena();
    let before = free_frames();
    let far = |frame: &OwnedFrame| frame.frame().numa_node() == 1;
    as_cpu(84, || {
        // All of the own NUMA node, then the first of the other: the rest of its batch stays in the magazine, below what is given back.
        let mut taken: Vec<_> = Vec::new();
        while !taken.last().is_some_and(far) {
            taken.push(alloc_dirty().unwrap());
        }
        drop(taken);
    });
    depot::of(84).drain();
    (0..2).for_each(|n| assert_eq!(strangers_in_buddy(n), 0, "NUMA node {n} has pages of another"));
    let blocks: Vec<_> = std::iter::from_fn(|| alloc_contiguous(4, 0)).collect();
    assert!(blocks.len() > PAGES / 16 / 2);
    for start in blocks {
        // SAFETY: taken above, given back once.
        unsafe { free_contiguous(start, 4) };
    }
    assert_eq!(free_frames(), before);
}

/// How many pages of other NUMA nodes the buddy of `n` has.
fn strangers_in_buddy(n: usize) -> usize {
    let all: Vec<_> = std::iter::from_fn(|| buddy::of_numa_node(n).take(0)).collect();
    all.iter().for_each(|f| buddy::of_numa_node(f.numa_node()).give(f, 0));
    all.iter().filter(|f| f.numa_node() != n).count()
}

#[test]
fn the_last_of_several_references_frees_the_page() {
    let _one = arena();
    let frame = alloc_dirty().unwrap().into_frame();
    frame.get();
    assert_eq!(frame.refs(), 2);
    assert!(!frame.put());
    let before = free_frames();
    // SAFETY: the reference of `into_frame`.
    unsafe { release(frame) };
    assert_eq!(free_frames(), before + 1);
}

#[test]
fn threads_that_take_and_give_lose_nothing() {
    let _one = arena();
    let before = free_frames();
    std::thread::scope(|scope| {
        for seed in 0..4usize {
            scope.spawn(move || {
                let mut held = Vec::new();
                let mut random = seed + 1;
                for _ in 0..20_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if random >> 40 & 1 == 0 || held.len() > 600 {
                        held.pop();
                    } else if let Some(mut frame) = alloc_dirty() {
                        frame.bytes()[..8].copy_from_slice(&seed.to_le_bytes());
                        held.push(frame);
                    }
                    if let Some(frame) = held.last_mut() {
                        assert_eq!(frame.bytes()[..8], seed.to_le_bytes(), "two owners of one page");
                    }
                }
            });
        }
    });
    assert_eq!(free_frames(), before);
}

#[test]
fn bytes_of_a_page_are_copied_while_another_thread_writes_them() {
    let _one = arena();
    let frame = alloc_zeroed().unwrap();
    // SAFETY: the frame is owned, and outlives the bytes.
    let shared = || unsafe { frame.frame().shared_bytes() };
    let word = shared().get_mut(64..72).unwrap().as_mut_ptr() as usize;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: an aligned word of the page; everybody uses it atomically.
            let word = unsafe { &*(word as *const AtomicU64) };
            (0..if cfg!(miri) { 20 } else { 500u64 })
                .for_each(|n| word.store(n << 32 | n, Ordering::Relaxed));
        });
        #[repr(align(8))]
        struct Word([u8; 8]);
        let mut seen = Word([0; 8]);
        for _ in 0..if cfg!(miri) { 20 } else { 500 } {
            assert_eq!(shared().to_read().get(64..72).unwrap().copy_to(&mut seen.0), 8);
            let seen = u64::from_ne_bytes(seen.0);
            assert_eq!(seen >> 32, seen & 0xffff_ffff, "a word is torn");
        }
    });
    assert_eq!(shared().get_mut(1..12).unwrap().copy_from(b"hello"[..].into()), 5);
    let mut back = [0; 7];
    assert_eq!(shared().to_read().get(0..7).unwrap().copy_to(&mut back), 7);
    assert_eq!(&back, b"\0hello\0");
    assert!(shared().get_mut(PAGE_SIZE - 1..PAGE_SIZE + 1).is_none());
    assert_eq!(shared().clear(), PAGE_SIZE);
    assert_eq!(shared().to_read().get(0..7).unwrap().copy_to(&mut back), 7);
    assert_eq!(back, [0; 7]);
}

#[test]
fn evicted_frames_are_free_when_no_reader_can_be_left_and_pinned_ones_later() {
    let _one = arena();
    sync::rcu::drain();
    let frames: Vec<_> = (0..3).map(|_| alloc_dirty().unwrap().into_frame()).collect();
    // SAFETY: `into_frame` left one reference, which the eviction takes over below.
    let mut pin = unsafe { Pin::new(frames[1]) };
    let mut evicted = EvictedFrames::new();
    // SAFETY: the references of `into_frame`; no leaf ever mapped these.
    frames[..2].iter().for_each(|frame| evicted.add(unsafe { Evicted::new(frame) }));
    // SAFETY: as above.
    let alone = unsafe { Evicted::new(frames[2]) };
    assert_eq!(evicted.len(), 2);
    let (reading, polled) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _reader = sync::rcu::read();
            reading.wait();
            polled.wait();
        });
        reading.wait();
        drop(evicted);
        drop(alone);
        for _ in 0..100 {
            sync::rcu::poll();
        }
        assert!(frames.iter().all(|frame| frame.kind() == FrameKind::Page), "the reader may still look");
        polled.wait();
    });
    sync::rcu::drain();
    assert_eq!([0, 1, 2].map(|i| frames[i].kind() == FrameKind::Free), [true, false, true]);
    assert_eq!(pin.bytes_mut().clear(), PAGE_SIZE);
    drop(pin);
    assert_eq!(frames[1].kind(), FrameKind::Free);
}
