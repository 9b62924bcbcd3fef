//! The pages that a program has in its page table, one after the other: for /proc/PID/smaps, numa_maps and pagemap.
//!
//! They are looked at in parts of a leaf: a part is gathered under the leaf's lock; after that, with nothing locked, who else has the pages of an object
//! is counted (`object/rmap/count.rs`), and the caller is told. What changes meanwhile may be seen before or after. Between two parts others may
//! run.
//!
//! How many have a private page is known from its references and from the sharers of its leaf. Those of a pooled page are the pool's (node/pool.rs), which does
//! not know how many leaves of its family still have the page: two are told, unless the leaf has more sharers.
//!
//! Lock order: a leaf; then, without it, an object's lists and the leaves on them, one at a time.
#![forbid(unsafe_code)]

use crate::addr::PAGE_SIZE;
use crate::frame::{self, Frame};
use crate::machine::Machine;
use crate::node::{Locked, WalkPath};
use crate::object::ObjectRef;
use crate::order;
use crate::space::Space;
use arrayvec::ArrayVec;
use core::ops::Range;
use sync::machine::give_way;
use sync::rcu;

/// Pages of a part.
const PART: usize = 32;

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// The program's own memory: without an object, or a copy of an object's page.
    Private,
    /// An object's. `paged`: the object's pages come from elsewhere, and can be thrown away.
    Object { paged: bool },
    /// The one page of zeros, which belongs to nobody.
    Zero,
}

/// A page that is mapped.
#[derive(Clone, Copy)]
pub struct MappedPage {
    pub addr: usize,
    pub frame: &'static Frame,
    pub kind: PageKind,
    /// Spaces that have it in their tables, this one among them; at most some dozens of one that an object has.
    pub mappers: u32,
}

impl MappedPage {
    /// Has no other space the page?
    pub fn is_exclusive(&self) -> bool {
        self.mappers == 1
    }
}

/// Pages of one leaf, whose object, if they have one, is the same.
struct Part {
    pages: ArrayVec<MappedPage, PART>,
    object: Option<ObjectRef>,
    /// Page of the object, and how many have it.
    counts: ArrayVec<(u64, u32), PART>,
}

impl Part {
    /// Counts who has the pages of the object.
    fn count(&mut self) {
        let Some(object) = self.object.take() else { return };
        object.count_mappers(&mut self.counts, &mut order::begin());
        let of_object = self.pages.iter_mut().filter(|page| matches!(page.kind, PageKind::Object { .. }));
        for (page, (_, count)) in of_object.zip(&self.counts) {
            page.mappers = page.mappers.max(*count);
        }
    }

    /// Gathers what `indices` of the locked leaf lead to. Returns the index from which on the next part is.
    fn gather<M: Machine>(&mut self, leaf: &Locked<'_>, indices: Range<u16>) -> u16 {
        let end = indices.end;
        let sharers = leaf.sharer_count();
        for index in leaf.used_in(&indices) {
            let entry = leaf.look(index);
            let Some(frame) = entry.frame::<M>() else { continue };
            let addr = leaf.node().address(index);
            let zero = core::ptr::eq(frame, frame::zero_frame());
            let (kind, mappers) = if entry.is_private() {
                let leaves = if entry.is_pooled() { 2 } else { frame.refs().max(1) };
                (PageKind::Private, sharers.max(leaves))
            } else if zero {
                (PageKind::Zero, 1)
            } else {
                let Some((object, page)) = leaf.segments.find(index).and_then(|s| s.object_page(index))
                else {
                    continue;
                };
                match &self.object {
                    Some(own) if !ObjectRef::ptr_eq(own, object) => return index,
                    Some(_) => {}
                    None => self.object = Some(object.clone()),
                }
                self.counts.push((page, 0));
                (PageKind::Object { paged: object.is_paged() }, sharers)
            };
            self.pages.push(MappedPage { addr, frame, kind, mappers });
            if self.pages.is_full() {
                return index.saturating_add(1);
            }
        }
        end
    }
}

impl<M: Machine> Space<M> {
    /// Calls `f` with each page of `range`, whole pages, that is mapped, in order. Nothing is locked meanwhile; `f` may sleep, as this does. A fatal signal ends
    /// it: false.
    pub fn for_each_page(&self, range: Range<usize>, f: &mut dyn FnMut(&MappedPage)) -> bool {
        let mut at = range.start;
        let end = range.end.min(M::USER_END);
        while at < end {
            let mut part = Part { pages: ArrayVec::new_const(), object: None, counts: ArrayVec::new_const() };
            at = self.gather(at, end, &mut part);
            part.count();
            part.pages.iter().for_each(&mut *f);
            if give_way() {
                return false;
            }
        }
        true
    }

    /// Gathers the first part of `at..end`. Returns where the next one begins.
    fn gather(&self, at: usize, end: usize, part: &mut Part) -> usize {
        let rcu = rcu::read();
        let path = WalkPath::walk::<M>(self.root(), at, &rcu);
        let node = path.node();
        let order = &mut order::begin();
        let Some(locked) = path.enter::<M>(order) else { return at };
        let index = node.index(at);
        if node.is_leaf() {
            let last = if end >= node.end() { 512 } else { node.index(end) };
            let next = part.gather::<M>(&locked, index..last);
            return if next >= 512 { node.end() } else { node.address(next) };
        }
        if !locked.entry(index).is_absent() {
            return at;
        }
        let child = locked.upper_used_from(index).find(|i| !locked.entry(*i).is_absent());
        child.map_or(node.end(), |child| node.address(child)).max(at.saturating_add(PAGE_SIZE))
    }
}
