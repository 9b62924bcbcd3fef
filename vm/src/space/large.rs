//! Which memory of a space may come in large pages, and the end of a large page (node/large.rs).
//!
//! A space with large pages has views (space/view.rs), be it that of a single thread: nothing but a view's link shows a block.
//!
//! Lock order: none taken; the leaf is locked by the caller.
#![forbid(unsafe_code)]

use super::Space;
use crate::addr::{ENTRIES, LEAF_SPAN, VirtAddr};
use crate::large::{LargePages, large_pages};
use crate::machine::Machine;
use crate::node::flush::Gather;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::node::{Locked, WalkPath};
use crate::request::Prot;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sync::rcu;

/// What a space's programs said of large pages.
pub(crate) struct Wish {
    /// Some mapping asked for them, now or before.
    asked: AtomicBool,
    /// The program wants none (PR_SET_THP_DISABLE).
    refused: AtomicBool,
}

impl Wish {
    pub const fn new() -> Self {
        Self { asked: AtomicBool::new(false), refused: AtomicBool::new(false) }
    }

    /// A child's.
    pub fn inherit(&self, parent: &Self) {
        self.asked.store(parent.asked.load(Relaxed), Relaxed);
        self.refused.store(parent.refused.load(Relaxed), Relaxed);
    }
}

impl<M: Machine> Space<M> {
    /// Says whether the program wants no large pages. Those that are there stay as they are.
    pub fn refuse_large(&self, refuse: bool) {
        if self.refuses_large() != refuse {
            self.large.refused.store(refuse, Relaxed);
        }
    }

    /// Does it want none?
    pub fn refuses_large(&self) -> bool {
        self.large.refused.load(Relaxed)
    }

    /// A mapping asks for large pages.
    pub(crate) fn note_large_asked(&self) {
        if !self.large.asked.load(Relaxed) {
            self.large.asked.store(true, Relaxed);
        }
    }

    /// May any memory come in large pages? Most often the answer is no, and that is all that a fault asks.
    #[inline]
    pub(crate) fn may_want_large(&self) -> bool {
        match large_pages() {
            LargePages::Never => false,
            LargePages::Asked => self.large.asked.load(Relaxed),
            LargePages::Always => true,
        }
    }

    /// Do what the machine, the program and the mapping say allow large pages in a mapping with these attributes?
    pub(crate) fn wants_large(&self, attrs: &MappingAttrs) -> bool {
        let wanted = match large_pages() {
            LargePages::Never => false,
            LargePages::Asked => attrs.flags.contains(SegFlags::LARGE),
            LargePages::Always => true,
        };
        wanted
            && attrs.object.is_none()
            && !attrs.flags.intersects(SegFlags::NO_LARGE | SegFlags::QUARANTINE)
            && !self.refuses_large()
    }

    /// The attributes of a leaf that a write may fill with a large page, when it has no entries any more: it has none but of the page of zeros, and one mapping,
    /// which allows that, has all of it.
    pub(crate) fn large_candidate<'l>(&self, leaf: &'l Locked<'_>) -> Option<&'l MappingAttrs> {
        let [only] = leaf.segments.as_slice() else { return None };
        let is_whole = only.start == 0 && usize::from(only.end) == ENTRIES;
        let may = is_whole && leaf.private() == 0 && only.attrs.prot.contains(Prot::WRITE);
        (may && self.wants_large(&only.attrs)).then_some(&only.attrs)
    }

    /// Would `range`, a mapping with these attributes, get a large page somewhere?
    pub(crate) fn is_eligible_for_large(&self, range: Range<usize>, attrs: &MappingAttrs) -> bool {
        let first = range.start.checked_next_multiple_of(LEAF_SPAN);
        let fits = first.and_then(|first| first.checked_add(LEAF_SPAN)).is_some_and(|end| end <= range.end);
        fits && self.wants_large(attrs)
    }

    /// A locked leaf of the space's own is about to change in parts: if it is large, it is so no more. Its viewers flush what is changed.
    #[inline]
    pub(crate) fn split(&self, leaf: &mut Locked<'_>) {
        if leaf.is_large() {
            self.split_large(leaf);
        }
    }

    #[cold]
    fn split_large(&self, leaf: &mut Locked<'_>) {
        let _viewers = self.unlink(leaf);
        leaf.end_large();
    }

    /// Takes all pages of a large leaf, which is locked and the space's own, into `gather`, which has room for a block.
    #[cold]
    pub(crate) fn clear_large(&self, leaf: &mut Locked<'_>, gather: &mut Gather<'_>) {
        let _viewers = self.unlink(leaf);
        gather.touched(leaf, 0..ENTRIES as u16);
        if let Some(block) = leaf.take_block::<M>() {
            gather.add_block(block);
        }
    }

    /// Pages of 4 KiB in `range` that are parts of large pages. Gives way between leaves; a fatal signal ends it. May sleep.
    pub fn large_pages_in(&self, range: Range<usize>) -> usize {
        let mut pages = 0usize;
        let mut at = range.start.next_multiple_of(LEAF_SPAN);
        while at.saturating_add(LEAF_SPAN) <= range.end.min(M::USER_END) {
            {
                let rcu = rcu::read();
                let node = WalkPath::walk::<M>(self.root(), VirtAddr(at).0, &rcu).node();
                let is_large = node.is_leaf() && node.counts().is_large();
                pages = pages.saturating_add(if is_large { ENTRIES } else { 0 });
                let span = if node.is_leaf() { LEAF_SPAN } else { node.span() };
                at = at.saturating_add(1).checked_next_multiple_of(span).unwrap_or(usize::MAX);
            }
            if sync::machine::give_way() {
                break;
            }
        }
        pages
    }
}
