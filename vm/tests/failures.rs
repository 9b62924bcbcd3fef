//! Memory that runs out: each operation, with its first, second, third … allocation failing. It succeeds, or the space is as it was
//! before; and nothing leaks.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::{Soft, free_frames, free_frames_again, read, start, switch_to, write};
use std::sync::{Arc, Mutex, PoisonError};
use sync::heap::hosted::fail_after;
use vm::*;

static ONE: Mutex<()> = Mutex::new(());
const RW: Prot = Prot::READ.union(Prot::WRITE);
const PAGE: usize = PAGE_SIZE;
const LEAF: usize = LEAF_SPAN;
/// The border of a gigabyte lies in the middle.
const BASE: usize = (1 << 30) - 4 * LEAF;
const HEAP: usize = 0x1000_0000;

/// Mappings of all kinds around `BASE`, a child that shares them, and what is in them.
struct World {
    object: ObjectRef,
    space: Arc<Space<Soft>>,
    child: Arc<Space<Soft>>,
}

fn request(start: usize, len: usize, prot: Prot, object: Option<(&ObjectRef, bool)>) -> MapRequest {
    let (backing, shared) = match object {
        None => (Backing::Anonymous, MapFlags::empty()),
        Some((object, shared)) => (
            Backing::Object { object: object.clone(), offset: ((start - BASE) % (8 * LEAF)) as u64 },
            if shared { MapFlags::SHARED } else { MapFlags::empty() },
        ),
    };
    MapRequest { hint: VirtAddr(start), len, prot, flags: MapFlags::FIXED | shared, backing }
}

impl World {
    fn new(threads: bool) -> Self {
        let object = Object::try_new(0).unwrap();
        object.set_size(8 * LEAF as u64).unwrap();
        let space = Space::<Soft>::try_new().unwrap();
        if threads {
            space.set_multithreaded();
        }
        switch_to(&space);
        let map = |start, len, prot, object| space.map(&request(start, len, prot, object)).unwrap();
        map(BASE, 3 * LEAF, RW, None);
        map(BASE + 3 * LEAF, 2 * LEAF + 5 * PAGE, RW, Some((&object, false)));
        map(BASE + 6 * LEAF, LEAF + 7 * PAGE, RW, Some((&object, true)));
        // Many segments in two leaves.
        for i in 0..12 {
            let (kind, prot) = ([None, Some((&object, false))][i % 2], [RW, Prot::READ][i / 2 % 2]);
            map(BASE + LEAF + (20 + 2 * i) * PAGE, PAGE, prot, kind);
            map(BASE + 4 * LEAF + (20 + 3 * i) * PAGE, PAGE, prot, Some((&object, i % 2 == 0)));
        }
        space.set_brk(VirtAddr(HEAP));
        for (i, page) in (0..8 * 512).step_by(37).enumerate() {
            let _ = write(&space, BASE + page * PAGE, i as u64 + 1);
        }
        let child = space.fork().unwrap();
        // Some leaves are this space's own again, others are shared.
        write(&space, BASE + 37 * PAGE, 1000).unwrap();
        write(&space, BASE + 4 * LEAF + 3 * PAGE, 1001).unwrap();
        Self { object, space, child }
    }
}

/// What a program sees: the mappings, and a word of every page (or how reading it fails).
fn snapshot(space: &Space<Soft>) -> (Vec<String>, Vec<String>) {
    let mut lines = Vec::new();
    let mut ranges = Vec::new();
    space.for_each_mapping(&mut |m| {
        lines.push(format!(
            "{:x}-{:x} {:?} {} {:x} {}",
            m.start,
            m.end,
            m.prot,
            m.shared,
            m.offset,
            m.object.is_some()
        ));
        ranges.push(m.start..m.end);
    });
    switch_to(space);
    let pages = ranges.into_iter().flat_map(|r| r.step_by(PAGE));
    let words = pages.map(|page| format!("{page:x} {:?}", read(space, page))).collect();
    (lines, words)
}

/// Runs `op` in a world of its own for each number of allocations that succeed, until it succeeds.
fn each_failure(name: &str, op: &dyn Fn(&World) -> Result<(), VmError>) {
    // One at a time, so that frames can be counted.
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    start(4);
    for threads in [false, true] {
        let expected = {
            let world = World::new(threads);
            op(&world).unwrap();
            (snapshot(&world.space), snapshot(&world.child))
        };
        let mut failures = 0;
        loop {
            let before = free_frames();
            let world = World::new(threads);
            let untouched = (snapshot(&world.space), snapshot(&world.child));
            switch_to(&world.space);
            let result = fail_after(failures, || op(&world));
            let found = (snapshot(&world.space), snapshot(&world.child));
            let wanted = if result.is_ok() { &expected } else { &untouched };
            for (found, wanted) in [(&found.0, &wanted.0), (&found.1, &wanted.1)] {
                let different =
                    found.0.iter().zip(&wanted.0).chain(found.1.iter().zip(&wanted.1)).find(|(a, b)| a != b);
                assert_eq!(
                    different, None,
                    "{name} with {failures} allocations, threads {threads}: {result:?}"
                );
                assert_eq!((found.0.len(), found.1.len()), (wanted.0.len(), wanted.1.len()), "{name}");
            }
            drop(world);
            assert_eq!(free_frames_again(before), before, "{name} with {failures} allocations leaks");
            match result {
                Ok(()) => break,
                Err(e) => assert_eq!(e, VmError::NoMemory, "{name}"),
            }
            failures += 1;
            assert!(failures < 1000, "{name} never succeeds");
        }
    }
}

fn touch(addr: usize, access: Access) -> impl Fn(&World) -> Result<(), VmError> {
    move |w| w.space.fault(VirtAddr(addr), access).map_err(VmError::from)
}

/// From inside one leaf to inside another, over leaves of all kinds and the border of a gigabyte.
const FROM: usize = BASE + LEAF + 25 * PAGE;
const LEN: usize = 5 * LEAF + 9 * PAGE;

#[test]
fn mapping_fails_whole() {
    each_failure("map", &|w| {
        let flags = MapFlags::empty();
        let request = MapRequest { hint: VirtAddr(0), flags, ..request(BASE, 5 << 20, RW, None) };
        w.space.map(&request).map(drop)
    });
    each_failure("map over", &|w| w.space.map(&request(FROM, LEN, RW, None)).map(drop));
    each_failure("map a file over", &|w| {
        w.space.map(&request(FROM, LEN, RW, Some((&w.object, false)))).map(drop)
    });
    each_failure("brk", &|w| {
        let end = VirtAddr(HEAP + (3 << 20));
        if w.space.brk(end) == end { Ok(()) } else { Err(VmError::NoMemory) }
    });
}

#[test]
fn unmapping_and_changing_fail_whole() {
    each_failure("unmap", &|w| w.space.unmap(VirtAddr(FROM), LEN));
    each_failure("unmap in a leaf", &|w| w.space.unmap(VirtAddr(BASE + 100 * PAGE), 9 * PAGE));
    each_failure("unmap many", &|w| w.space.unmap(VirtAddr(BASE + LEAF + 19 * PAGE), 20 * PAGE));
    each_failure("protect", &|w| w.space.protect(VirtAddr(BASE), 5 * LEAF, Prot::READ));
    each_failure("drop pages", &|w| w.space.advise(VirtAddr(BASE + PAGE), 3 * LEAF, Advice::DontNeed));
    each_failure("not for children", &|w| w.space.advise(VirtAddr(BASE + PAGE), 4 * LEAF, Advice::DontFork));
}

#[test]
fn moving_fails_whole() {
    let moving = |from: usize, len: usize, new_len: usize| {
        move |w: &World| {
            w.space.remap(VirtAddr(from), len, new_len, MremapFlags::MAYMOVE, VirtAddr(0)).map(drop)
        }
    };
    each_failure("move", &moving(BASE, LEAF + 10 * PAGE, 3 * LEAF));
    each_failure(
        "move private pages of a file",
        &moving(BASE + 4 * LEAF + 60 * PAGE, LEAF - 60 * PAGE, 2 * LEAF),
    );
    each_failure("grow", &moving(BASE + 6 * LEAF, LEAF + 7 * PAGE, 2 * LEAF));
}

#[test]
fn faults_fail_whole() {
    each_failure("first touch", &touch(BASE + 2 * LEAF + 5 * PAGE, Access::WRITE));
    each_failure("copy a page of a shared leaf", &touch(BASE + 4 * LEAF + 74 * PAGE, Access::WRITE));
    each_failure("copy a page of a file", &touch(BASE + 3 * LEAF + 7 * PAGE, Access::WRITE));
    each_failure("bring a page in", &touch(BASE + 6 * LEAF + 5 * PAGE, Access::WRITE));
}

#[test]
fn forking_fails_whole() {
    each_failure("fork", &|w| w.space.fork().map(drop));
    each_failure("fork a part", &|w| {
        // Both need memory; what is not for children stays so.
        w.space.advise(VirtAddr(BASE + 5 * PAGE), 4 * LEAF, Advice::DontFork)?;
        let forked = w.space.fork().map(drop);
        if forked.is_err() {
            w.space.advise(VirtAddr(BASE + 5 * PAGE), 4 * LEAF, Advice::DoFork)?;
        }
        forked
    });
}

#[test]
fn shrinking_a_file_needs_no_memory() {
    each_failure("truncate", &|w| w.object.set_size(PAGE as u64));
}
