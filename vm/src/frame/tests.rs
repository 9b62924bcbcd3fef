//! The allocator over the hosted arena. One test at a time: they count free frames.

extern crate std;

use super::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;
use sync::machine::hosted::{as_cpu, set_nodes};

const PAGES: usize = 8192;

pub(crate) fn arena() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_nodes(2);
    hosted::start(PAGES, 2);
    guard
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
        let (node, frames) = as_cpu(cpu, || {
            let frames: Vec<_> = (0..200).filter_map(|_| alloc_dirty()).collect();
            (sync::machine::node_of(cpu) as usize, frames)
        });
        assert!(frames.iter().all(|f| f.frame().node() == node));
        // Freed on a CPU of the other node, they may wait there, but never enter its magazine.
        as_cpu(cpu ^ 1, || {
            drop(frames);
            let next = alloc_dirty().unwrap();
            assert_ne!(next.frame().node(), node);
        });
    }
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
