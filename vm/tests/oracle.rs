//! Random sequences of operations on several spaces and CPUs, against a plain map from page to meaning and content.
//!
//! All accesses go through the software machine, whose TLBs forget only what they are told to. At the end of each sequence
//! every page of every space is compared, and all frames have to be back.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use soft::swap::{area, remove};
use soft::{Soft, free_frames, free_frames_again, read, start, switch_to, write};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use sync::machine::hosted::{self, as_cpu};
use vm::large::{LARGE_COUNTS, LargePages, set_large_pages};
use vm::swap::SWAP_COUNTS;
use vm::*;

/// A window that holds the border of a gigabyte and several of leaves, and begins and ends inside one.
const FIRST: usize = (1 << 30) - (3 << 20) - 5 * PAGE_SIZE;
const PAGES: usize = 2048 + 9;
const OBJECTS: usize = 2;
const OBJECT_PAGES: u64 = 700;
const SPACES: usize = 5;
const FIRST_CPU: u32 = 40;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Back {
    Anon,
    Private(usize, u64),
    Shared(usize, u64),
}

#[derive(Clone, Debug)]
struct Page {
    prot: Prot,
    back: Back,
    own: Option<u64>,
    /// Do children get it?
    fork: bool,
}

/// A space and what it should hold.
type Process = (Arc<Space<Soft>>, BTreeMap<usize, Page>);
/// An object and the words written to its pages.
type File = (ObjectRef, BTreeMap<u64, u64>);

struct World {
    spaces: Vec<Process>,
    objects: Vec<File>,
}

#[derive(Clone, Debug)]
enum Op {
    Map { space: usize, page: usize, len: usize, prot: u8, back: u8, offset: u64 },
    Unmap { space: usize, page: usize, len: usize },
    Protect { space: usize, page: usize, len: usize, prot: u8 },
    Drop { space: usize, page: usize, len: usize },
    Advise { space: usize, page: usize, len: usize, fork: bool },
    Move { space: usize, page: usize, len: usize, to: usize },
    Fork { space: usize },
    Exit { space: usize },
    Read { space: usize, page: usize, count: usize },
    Write { space: usize, page: usize, count: usize, value: u64 },
    Out { space: usize, page: usize, len: usize },
    Truncate { object: usize, pages: u64 },
    WriteFile { object: usize, page: u64, value: u64 },
}

fn addr(page: usize) -> usize {
    FIRST + page * PAGE_SIZE
}

fn prot_of(n: u8) -> Prot {
    match n % 8 {
        0 => Prot::empty(),
        1 | 2 => Prot::READ,
        3 => Prot::READ | Prot::EXEC,
        _ => Prot::READ | Prot::WRITE,
    }
}

impl World {
    fn new() -> Self {
        let objects = (0..OBJECTS).map(|i| {
            let object = Object::try_new(i).unwrap();
            object.set_size(OBJECT_PAGES / 2 * PAGE_SIZE as u64).unwrap();
            (object, BTreeMap::new())
        });
        let objects = objects.collect();
        Self { spaces: vec![(Space::try_new().unwrap(), BTreeMap::new())], objects }
    }

    fn content(&self, object: usize, page: u64) -> Option<u64> {
        let (o, words) = &self.objects[object];
        (page < o.size() / PAGE_SIZE as u64).then(|| words.get(&page).copied().unwrap_or(0))
    }

    fn expected_read(&self, space: usize, page: usize) -> Result<u64, FaultError> {
        let p = self.spaces[space].1.get(&page).ok_or(FaultError::NotMapped)?;
        if p.prot.is_empty() {
            return Err(FaultError::Denied);
        }
        match p.back {
            Back::Anon => Ok(p.own.unwrap_or(0)),
            Back::Private(o, n) => p.own.or(self.content(o, n)).ok_or(FaultError::Bus),
            Back::Shared(o, n) => self.content(o, n).ok_or(FaultError::Bus),
        }
    }

    fn model_write(&mut self, space: usize, page: usize, value: u64) -> Result<(), FaultError> {
        let p = self.spaces[space].1.get(&page).ok_or(FaultError::NotMapped)?;
        if !p.prot.contains(Prot::WRITE) {
            return Err(FaultError::Denied);
        }
        match p.back {
            Back::Private(o, n) if p.own.is_none() && self.content(o, n).is_none() => {
                return Err(FaultError::Bus);
            }
            Back::Shared(o, n) => {
                self.content(o, n).ok_or(FaultError::Bus)?;
                self.objects[o].1.insert(n, value);
            }
            _ => self.spaces[space].1.get_mut(&page).unwrap().own = Some(value),
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) {
        let pick = |n: usize, len: usize| n % len;
        let count = self.spaces.len();
        let clip = |page: usize, len: usize| {
            let page = page % PAGES;
            (page, len.clamp(1, PAGES - page))
        };
        match *op {
            Op::Map { space, page, len, prot, back, offset } => {
                let (s, (page, len)) = (pick(space, count), clip(page, len));
                let o = usize::from(back / 3) % OBJECTS;
                let object = self.objects[o].0.clone();
                let backing = Backing::Object { object, offset: offset * PAGE_SIZE as u64 };
                let (flags, backing) = match back % 3 {
                    0 => (MapFlags::empty(), Backing::Anonymous),
                    1 => (MapFlags::empty(), backing),
                    _ => (MapFlags::SHARED, backing),
                };
                let (space, pages) = &mut self.spaces[s];
                let request = MapRequest {
                    hint: VirtAddr(addr(page)),
                    len: len * PAGE_SIZE,
                    prot: prot_of(prot),
                    flags: flags | MapFlags::FIXED,
                    backing,
                };
                assert_eq!(space.map(&request), Ok(VirtAddr(addr(page))));
                for i in 0..len {
                    let back = match back % 3 {
                        0 => Back::Anon,
                        1 => Back::Private(o, offset + i as u64),
                        _ => Back::Shared(o, offset + i as u64),
                    };
                    pages.insert(page + i, Page { prot: prot_of(prot), back, own: None, fork: true });
                }
            }
            Op::Unmap { space, page, len } => {
                let (s, (page, len)) = (pick(space, count), clip(page, len));
                let (space, pages) = &mut self.spaces[s];
                space.unmap(VirtAddr(addr(page)), len * PAGE_SIZE).unwrap();
                pages.retain(|p, _| !(page..page + len).contains(p));
            }
            Op::Protect { space, page, len, prot } => {
                let (s, (page, len)) = (pick(space, count), clip(page, len));
                let (space, pages) = &mut self.spaces[s];
                let result = space.protect(VirtAddr(addr(page)), len * PAGE_SIZE, prot_of(prot));
                let mut expected = Ok(());
                for p in page..page + len {
                    match pages.get_mut(&p) {
                        Some(p) => p.prot = prot_of(prot),
                        None => {
                            expected = Err(VmError::NoSpace);
                            break;
                        }
                    }
                }
                assert_eq!(result, expected);
            }
            Op::Drop { space, page, len } => {
                let (s, (page, len)) = (pick(space, count), clip(page, len));
                let (space, pages) = &mut self.spaces[s];
                let result = space.advise(VirtAddr(addr(page)), len * PAGE_SIZE, Advice::DontNeed);
                assert_eq!(result.is_ok(), (page..page + len).all(|p| pages.contains_key(&p)));
                for (_, p) in pages.range_mut(page..page + len) {
                    p.own = None;
                }
            }
            Op::Move { space, page, len, to } => {
                let (s, (page, len), (to, room)) =
                    (pick(space, count), clip(page, len), clip(to, usize::MAX / 2));
                let len = len.min(room).min(page.abs_diff(to).max(1));
                let (space, pages) = &mut self.spaces[s];
                let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
                let bytes = len * PAGE_SIZE;
                let target = VirtAddr(addr(to));
                if space.remap(VirtAddr(addr(page)), bytes, bytes, flags, target).is_ok() {
                    let moved: Vec<Page> = (0..len).map(|i| pages.remove(&(page + i)).unwrap()).collect();
                    for (i, p) in moved.into_iter().enumerate() {
                        pages.insert(to + i, p);
                    }
                } else if page != to {
                    let same = |a: &Page, b: &Page| {
                        a.prot == b.prot
                            && a.fork == b.fork
                            && match (a.back, b.back) {
                                (Back::Anon, Back::Anon) => true,
                                (Back::Private(o, n), Back::Private(p, m)) => o == p && n + 1 == m,
                                (Back::Shared(o, n), Back::Shared(p, m)) => o == p && n + 1 == m,
                                _ => false,
                            }
                    };
                    let run: Option<Vec<&Page>> = (0..len).map(|i| pages.get(&(page + i))).collect();
                    let one = run.is_some_and(|r| r.windows(2).all(|w| same(w[0], w[1])));
                    assert!(!one, "one mapping can be moved");
                }
            }
            Op::Fork { space } if count < SPACES => {
                let (space, pages) = &self.spaces[pick(space, count)];
                let mut given = pages.clone();
                given.retain(|_, page| page.fork);
                self.spaces.push((space.fork().unwrap(), given));
            }
            Op::Exit { space } if count > 1 => {
                let (space, _) = self.spaces.swap_remove(pick(space, count));
                drop(space);
            }
            Op::Fork { .. } | Op::Exit { .. } => {}
            Op::Read { space, page, count: n } => {
                let (s, (page, n)) = (pick(space, count), clip(page, n));
                switch_to(&self.spaces[s].0);
                for p in page..page + n {
                    assert_eq!(read(&self.spaces[s].0, addr(p)), self.expected_read(s, p), "page {p}");
                }
            }
            Op::Write { space, page, count: n, value } => {
                let (s, (page, n)) = (pick(space, count), clip(page, n));
                switch_to(&self.spaces[s].0);
                for p in page..page + n {
                    let value = value + p as u64;
                    let result = write(&self.spaces[s].0, addr(p), value);
                    assert_eq!(result, self.model_write(s, p, value), "page {p}");
                }
            }
            Op::Out { space, page, len } => {
                let (s, (page, len)) = (pick(space, count), clip(page, len));
                self.spaces[s].0.page_out(addr(page)..addr(page + len));
            }
            Op::Truncate { object, pages } => {
                let (o, words) = &mut self.objects[pick(object, OBJECTS)];
                o.set_size(pages * PAGE_SIZE as u64).unwrap();
                words.retain(|p, _| *p < pages);
                for page in self.spaces.iter_mut().flat_map(|(_, all)| all.values_mut()) {
                    if matches!(page.back, Back::Private(o, n) if o == pick(object, OBJECTS) && n >= pages) {
                        page.own = None;
                    }
                }
            }
            Op::Advise { space, page, len, fork } => {
                let (s, (page, len)) = (pick(space, count), clip(page, len));
                let (space, pages) = &mut self.spaces[s];
                let advice = if fork { Advice::DoFork } else { Advice::DontFork };
                let result = space.advise(VirtAddr(addr(page)), len * PAGE_SIZE, advice);
                assert_eq!(result.is_ok(), (page..page + len).all(|p| pages.contains_key(&p)));
                for (_, p) in pages.range_mut(page..page + len) {
                    p.fork = fork;
                }
            }
            Op::WriteFile { object, page, value } => {
                let (o, words) = &mut self.objects[pick(object, OBJECTS)];
                let bytes = value.to_le_bytes();
                let written = o.write(page * PAGE_SIZE as u64, 8, |mut to| to.copy_from(bytes[..].into()));
                assert_eq!(written, Ok(8));
                // A size that ends inside a page reaches to its end here.
                o.set_size(o.size().next_multiple_of(PAGE_SIZE as u64)).unwrap();
                words.insert(page, value);
            }
        }
    }

    fn check_all(&mut self) {
        for s in 0..self.spaces.len() {
            switch_to(&self.spaces[s].0);
            for page in 0..PAGES {
                let found = read(&self.spaces[s].0, addr(page));
                assert_eq!(found, self.expected_read(s, page), "page {page} of space {s} at the end");
            }
            let mut mapped = 0;
            self.spaces[s].0.for_each_mapping(&mut |m| mapped += (m.end - m.start) / PAGE_SIZE);
            assert_eq!(mapped, self.spaces[s].1.len());
        }
    }
}

fn ops() -> impl Strategy<Value = Op> {
    let space = || 0..SPACES;
    // Whole leaves, borders and single pages.
    let page = || {
        let leaf = (0usize..3).prop_map(|l| l * 512 + 261);
        prop_oneof![0..PAGES, (0usize..5).prop_map(|l| (l * 512 + 5) % PAGES), leaf, 760usize..790]
    };
    let len = || prop_oneof![4 => 1usize..6, 2 => 1usize..700, 1 => Just(512), 1 => 1000usize..PAGES];
    prop_oneof![
        4 => (space(), page(), len(), any::<u8>(), any::<u8>(), 0..OBJECT_PAGES / 2)
            .prop_map(|(space, page, len, prot, back, offset)| Op::Map { space, page, len, prot, back, offset }),
        2 => (space(), page(), len()).prop_map(|(space, page, len)| Op::Unmap { space, page, len }),
        2 => (space(), page(), len(), any::<u8>())
            .prop_map(|(space, page, len, prot)| Op::Protect { space, page, len, prot }),
        1 => (space(), page(), len()).prop_map(|(space, page, len)| Op::Drop { space, page, len }),
        1 => (space(), page(), len(), any::<bool>())
            .prop_map(|(space, page, len, fork)| Op::Advise { space, page, len, fork }),
        1 => (space(), page(), len(), page()).prop_map(|(space, page, len, to)| Op::Move { space, page, len, to }),
        2 => space().prop_map(|space| Op::Fork { space }),
        1 => space().prop_map(|space| Op::Exit { space }),
        5 => (space(), page(), 1usize..40).prop_map(|(space, page, count)| Op::Read { space, page, count }),
        7 => (space(), page(), 1usize..40, any::<u32>())
            .prop_map(|(space, page, count, v)| Op::Write { space, page, count, value: u64::from(v) }),
        1 => (0..OBJECTS, 0..OBJECT_PAGES).prop_map(|(object, pages)| Op::Truncate { object, pages }),
        1 => (0..OBJECTS, 0..OBJECT_PAGES, any::<u64>())
            .prop_map(|(object, page, value)| Op::WriteFile { object, page, value }),
    ]
}

/// Where whole leaves are mapped and written more often than else.
fn ops_on_leaves() -> impl Strategy<Value = Op> {
    let leaf = || (0usize..3).prop_map(|l| l * 512 + 261);
    let space = || 0..SPACES;
    prop_oneof![
        5 => ops().boxed(),
        1 => (space(), leaf(), 1usize..4)
            .prop_map(|(space, page, leaves)| Op::Map { space, page, len: leaves * 512, prot: 7, back: 0, offset: 0 })
            .boxed(),
        3 => (space(), leaf(), 0usize..512, any::<u32>())
            .prop_map(|(space, leaf, n, v)| Op::Write { space, page: leaf + n, count: 3, value: v.into() })
            .boxed(),
        1 => (space(), leaf()).prop_map(|(space, page)| Op::Drop { space, page, len: 512 }).boxed(),
    ]
}

/// Where private pages go to swap.
fn ops_with_swap(ops: impl Strategy<Value = Op> + 'static) -> impl Strategy<Value = Op> {
    let len = || prop_oneof![1usize..40, 200usize..700];
    let all = (0..SPACES, 0..PAGES, len()).prop_map(|(space, page, len)| Op::Out { space, page, len });
    prop_oneof![5 => ops.boxed(), 2 => all.boxed()]
}

/// The tests of this file share memory, and its frames are counted.
static ONE: Mutex<()> = Mutex::new(());

/// `pressed`: each operation gives way wherever it may.
fn sequences(multithreaded: bool, pressed: bool, cases: u32) {
    // No CPU of these has a view.
    start(4);
    run(ops(), multithreaded, pressed, cases);
}

fn run(ops: impl Strategy<Value = Op>, multithreaded: bool, pressed: bool, cases: u32) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec((0u32..3, ops), 1..60);
    runner
        .run(&steps, |steps| {
            let before = free_frames();
            let mut world = World::new();
            if multithreaded {
                world.spaces[0].0.set_multithreaded();
            }
            for (cpu, op) in &steps {
                let mut apply = || world.apply(op);
                as_cpu(FIRST_CPU + cpu, || if pressed { _ = hosted::pressed(apply) } else { apply() });
            }
            as_cpu(FIRST_CPU + 1, || world.check_all());
            drop(world);
            for cpu in 0..3 {
                as_cpu(FIRST_CPU + cpu, sync::rcu::drain);
            }
            prop_assert_eq!(free_frames_again(before), before, "frames are missing");
            Ok(())
        })
        .unwrap();
}

#[test]
fn spaces_agree_with_the_oracle() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    sequences(false, false, 200);
    sequences(true, false, 120);
    sequences(false, true, 40);
    sequences(true, true, 30);
}

/// Where CPUs have views, and memory comes in large pages.
#[test]
fn large_pages_agree_with_the_oracle() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    start(FIRST_CPU + 8);
    set_large_pages(LargePages::Always);
    run(ops_on_leaves(), false, false, 150);
    run(ops_on_leaves(), true, false, 150);
    run(ops_on_leaves(), true, true, 30);
    set_large_pages(LargePages::Asked);
    let (made, split) =
        LARGE_COUNTS.iter().fold((0, 0), |(made, split), c| (made + c.made.get(), split + c.split.get()));
    assert!(made > 300 && split > 50, "{made} large pages were made, {split} split");
}

/// Where pages go to swap, of which some cannot be written, and to a second area when the first is full.
#[test]
fn pages_in_swap_agree_with_the_oracle() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    start(4);
    let ((first, memory), (second, _)) = (area(600, 2), area(20_000, 1));
    memory.fails_each_write.store(7, Relaxed);
    let totals = || {
        SWAP_COUNTS.iter().fold((0, 0, 0), |(out, came, failed), counts| {
            (out + counts.went_out.get(), came + counts.came_in.get(), failed + counts.failed.get())
        })
    };
    let before = totals();
    run(ops_with_swap(ops()), false, false, 30);
    run(ops_with_swap(ops()), true, false, 25);
    run(ops_with_swap(ops()), true, true, 6);
    set_large_pages(LargePages::Always);
    run(ops_with_swap(ops_on_leaves()), false, false, 15);
    run(ops_with_swap(ops_on_leaves()), true, false, 15);
    set_large_pages(LargePages::Asked);
    let after = totals();
    let (out, came, failed) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    assert!(out > 500 && came > 150 && failed > 30, "{out} went out, {came} came back, {failed} failed");
    remove(first);
    remove(second);
}
