//! The heap over the hosted arena.

extern crate std;

use super::*;
use core::alloc::{GlobalAlloc, Layout};
use std::vec::Vec;
use sync::machine::hosted::as_cpu;

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

/// Allocates `n` objects of a layout.
fn take(n: usize, layout: Layout) -> Vec<usize> {
    // SAFETY: the tests ask for no layout of size zero.
    (0..n).map(|_| unsafe { KernelHeap.alloc(layout) } as usize).collect()
}

fn give(objects: Vec<usize>, layout: Layout) {
    for object in objects {
        // SAFETY: from `take` with this layout, freed once.
        unsafe { KernelHeap.dealloc(object as *mut u8, layout) };
    }
}

/// Pages that the caches with objects of `size` bytes have.
fn pages(size: usize) -> usize {
    let mut pages = 0;
    for_each_cache(&mut |c| pages += if c.size == size { c.slabs * c.pages_per_slab } else { 0 });
    pages
}

#[test]
fn two_cpus_never_have_objects_on_one_line() {
    let _one = crate::frame::tests::arena();
    let layout = Layout::from_size_align(8, 8).unwrap();
    let lines = |objects: &[usize]| objects.iter().map(|o| o / 64).collect::<std::collections::HashSet<_>>();
    // One allocates, the other frees and allocates: what comes back to the first is not handed out by the second.
    let mut mine = as_cpu(70, || take(300, layout));
    for _ in 0..20 {
        let (kept, given) = (mine.split_off(150), mine);
        let theirs = as_cpu(71, || {
            give(given, layout);
            take(150, layout)
        });
        assert!(lines(&kept).is_disjoint(&lines(&theirs)), "two CPUs' objects share a line");
        mine = as_cpu(70, || {
            let mut mine = kept;
            mine.extend(take(150, layout));
            mine
        });
        assert!(lines(&mine).is_disjoint(&lines(&theirs)), "two CPUs' objects share a line");
        as_cpu(71, || give(theirs, layout));
    }
    as_cpu(70, || give(mine, layout));
}

#[test]
fn objects_freed_elsewhere_come_home_and_their_pages_back() {
    let _one = crate::frame::tests::arena();
    let layout = Layout::from_size_align(1536, 8).unwrap();
    let objects = as_cpu(72, || take(400, layout));
    let most = pages(1536);
    assert!(most >= 150);
    as_cpu(73, || give(objects, layout));
    as_cpu(73, give_back);
    as_cpu(72, give_back);
    assert!(pages(1536) + 150 <= most, "{} of {most} pages stay", pages(1536));
}

#[test]
fn a_cpu_keeps_few_free_slabs() {
    let _one = crate::frame::tests::arena();
    let layout = Layout::from_size_align(512, 8).unwrap();
    as_cpu(74, || {
        let before = pages(512);
        let objects = take(800, layout);
        assert!(pages(512) >= before + 90);
        give(objects, layout);
        // A magazine's worth lies in as many slabs at worst; the rest is free.
        assert!(pages(512) <= before + 64 + 4, "{} pages stay", pages(512) - before);
        give_back();
        assert!(pages(512) <= before);
    });
}

#[test]
fn what_is_reserved_can_be_had() {
    let _one = crate::frame::tests::arena();
    as_cpu(75, || {
        for layout in layouts() {
            assert!(KernelHeap::reserve(layout));
        }
        assert!(!KernelHeap::reserve(Layout::from_size_align(64 << 20, 8).unwrap()));
    });
}

#[repr(align(32))]
struct Wide(#[allow(dead_code)] [u8; 200]);
crate::slab_type!(Wide, "wide", Arc);

#[test]
fn values_of_a_type_with_a_cache_can_be_made() {
    assert!(sync::slab_arc(Wide([7; 200])).is_ok_and(|wide| wide.0[199] == 7));
}

#[test]
fn a_cache_of_a_type_says_what_it_holds() {
    static REGISTRATION: Registration = Registration::new();
    sync::per_cpu! { static OWN: OwnSlabs = OwnSlabs::new(320); }
    static CACHE: Cache = Cache::of_type(
        "wide",
        "vm::slab::tests::Wide",
        Container { value_offset: 32, layout: Layout::new::<(Wide, [u64; 8])>() },
        &OWN,
        &REGISTRATION,
    );
    let _one = crate::frame::tests::arena();
    let object = CACHE.alloc();
    let mut seen = None;
    for_each_cache(&mut |c| seen = seen.or((c.name == "wide").then_some(c)));
    let info = seen.expect("a cache is listed from its first slab on");
    assert_eq!((info.size, info.used, info.objects), (320, 1, 12));
    // What a reader of a memory image finds where `slab`'s head says.
    // SAFETY: the cache is a static of at least that size.
    let words = unsafe { &*core::ptr::from_ref(&CACHE).cast::<[usize; 6]>() };
    assert_eq!((words[0], words[1]), (info.name.as_ptr() as usize, 4));
    assert_eq!((words[2], words[3]), (info.type_name.as_ptr() as usize, 21));
    assert_eq!((words[4], words[5]), (320 | 32 << 32, 12 << 32));
    // SAFETY: allocated above, freed once.
    unsafe { Cache::free(object) };
    // The next allocation of the layout, whatever it thinks, is an object of the cache.
    let layout = Layout::new::<(Wide, [u64; 8])>();
    // SAFETY: the layout is that of the cache, and allocated at once.
    assert!(unsafe { KernelHeap::prepare(&CACHE, layout) });
    // SAFETY: not of size zero.
    let laid = unsafe { KernelHeap.alloc(layout) };
    assert_eq!(laid, object);
    // SAFETY: allocated above with this layout, freed once.
    unsafe { KernelHeap.dealloc(laid, layout) };
    assert_eq!(CACHE.alloc(), object, "it goes back to its own cache");
    // SAFETY: allocated above, freed once.
    unsafe { Cache::free(object) };
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
    let mut most = 0;
    for _ in 0..50 {
        let objects = take(500, layout);
        most = most.max(pages(192));
        std::thread::spawn(move || give(objects, layout)).join().unwrap();
    }
    assert!(most < 120, "{most} pages for 500 objects of 192 bytes");
}
