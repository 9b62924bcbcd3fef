//! The heap over the hosted arena.

extern crate std;

use super::*;
use core::alloc::{GlobalAlloc, Layout};
use std::vec::Vec;

fn layouts() -> Vec<Layout> {
    [1, 8, 16, 17, 48, 100, 129, 200, 512, 700, 1025, 2048, 2049, 4096, 5000, 65_536]
        .iter()
        .flat_map(|size| [8, 16, 64, 256].map(|align| Layout::from_size_align(*size, align).unwrap()))
        .collect()
}

#[test]
fn objects_are_aligned_disjoint_and_keep_what_is_written() {
    let _one = crate::frame::tests::arena();
    let mut held = Vec::new();
    for round in 0..40u8 {
        for (n, layout) in layouts().into_iter().enumerate() {
            // SAFETY: no layout has size zero.
            let object = unsafe { KernelHeap.alloc(layout) };
            assert!(!object.is_null());
            assert_eq!(object as usize % layout.align(), 0, "{layout:?}");
            let mark = round.wrapping_mul(31).wrapping_add(n as u8);
            // SAFETY: `alloc` gave this many bytes.
            unsafe { object.write_bytes(mark, layout.size()) };
            held.push((object, layout, mark));
        }
        if round % 2 == 1 {
            let half = held.len() / 2;
            held.drain(..half).for_each(check_and_free);
        }
    }
    held.into_iter().for_each(check_and_free);
}

fn check_and_free((object, layout, mark): (*mut u8, Layout, u8)) {
    // SAFETY: allocated with this layout and written whole.
    let bytes = unsafe { core::slice::from_raw_parts(object, layout.size()) };
    assert!(bytes.iter().all(|b| *b == mark), "another object overlaps {layout:?}");
    // SAFETY: allocated with this layout, freed once.
    unsafe { KernelHeap.dealloc(object, layout) };
}

#[test]
fn a_block_beyond_what_there_can_be_is_null() {
    let _one = crate::frame::tests::arena();
    let layout = Layout::from_size_align(64 << 20, 8).unwrap();
    // SAFETY: the size is not zero.
    assert!(unsafe { KernelHeap.alloc(layout) }.is_null());
}

#[test]
fn objects_freed_by_other_threads_are_used_again() {
    let _one = crate::frame::tests::arena();
    let layout = Layout::from_size_align(192, 8).unwrap();
    let pages = || {
        let mut pages = 0;
        for_each_cache(&mut |c| pages += if c.size == 192 { c.pages } else { 0 });
        pages
    };
    let mut most = 0;
    for _ in 0..50 {
        // SAFETY: the size is not zero.
        let objects: Vec<usize> = (0..500).map(|_| unsafe { KernelHeap.alloc(layout) } as usize).collect();
        most = most.max(pages());
        std::thread::spawn(move || {
            for object in objects {
                // SAFETY: allocated above with this layout, freed once.
                unsafe { KernelHeap.dealloc(object as *mut u8, layout) };
            }
        })
        .join()
        .unwrap();
    }
    assert!(most < 120, "{most} pages for 500 objects of 192 bytes");
}
