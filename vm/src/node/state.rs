//! What a node's lock guards.
//!
//! Outside of `node` this is looked at, and segments are changed. What the end of a page depends on is private to `node`: who uses the leaf, on
//! which lists it is, who may have translations, which entries are there. So no operation can take a CPU off the leaf's viewers, or a leaf
//! off an object's list while it maps pages of the object:
//!
//! ```compile_fail,E0616
//! fn forget_viewers(leaf: &mut vm::node::Locked<'_>) {
//!     leaf.viewers = vm::CpuSet::EMPTY;
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn forget_sharers(leaf: &mut vm::node::Locked<'_>) {
//!     leaf.sharers = Default::default();
//! }
//! ```
#![forbid(unsafe_code)]

use super::segment::{Segment, SegmentList};
use super::{PoolShare, Registration, Sharer};
use crate::addr::ENTRIES;
use crate::machine::CpuSet;
use crate::object::{ObjectRef, Pages};
use crate::protocol::evict;
use crate::small::SmallList;
use alloc::sync::Arc;
use core::ops::Range;

/// What a node's lock guards.
pub struct NodeState {
    /// Interior nodes: the space is gone. (Leaves: see `WalkPath::enter`.)
    pub(super) stray: bool,
    /// Entries that are not absent.
    pub(super) present: u16,
    /// Of these, private memory: entries that own a reference to their frame, or are pooled.
    private: u16,
    /// Bit `g`: among the entries `8 * g..8 * g + 8`, one line, some may be other than absent.
    pub(super) groups: u64,
    pub segments: SegmentList,
    /// Spaces that use the leaf; one, unless fork shared it. Unused in interior nodes.
    pub(super) sharers: SmallList<Sharer, 2>,
    /// Objects on whose lists the leaf is, and for which pages (RegisterBeforeMap): all that its segments name.
    pub(super) registrations: SmallList<Registration, 2>,
    /// CPUs whose views (space/view.rs) link to the leaf, or did so: all CPUs with a view that may hold translations through it.
    pub(super) viewers: CpuSet,
    /// Has the references to the frames of pooled entries (PooledByFamily).
    pub(super) pool: Option<Arc<PoolShare>>,
    /// Frames that this leaf and others own, as its last copy found them; 0 if no other CPU counted any of them.
    pub(super) foreign: u16,
}

impl NodeState {
    pub(super) const fn new() -> Self {
        Self {
            stray: false,
            present: 0,
            private: 0,
            groups: 0,
            segments: SegmentList::new(),
            sharers: SmallList::new(),
            registrations: SmallList::new(),
            viewers: CpuSet::EMPTY,
            pool: None,
            foreign: 0,
        }
    }

    /// Interior nodes: is the space gone?
    pub fn is_stray(&self) -> bool {
        self.stray
    }

    /// CPUs whose views link to the leaf, or did so: all CPUs with a view that may hold translations through it.
    #[inline]
    pub fn viewers(&self) -> CpuSet {
        self.viewers
    }

    pub fn present(&self) -> u16 {
        self.present
    }

    pub fn private(&self) -> u16 {
        self.private
    }

    /// Entries that may be other than absent, lines of absent ones left out.
    #[inline]
    pub fn used(&self) -> Used {
        self.used_in(&(0..ENTRIES as u16))
    }

    /// Is the leaf on `object`'s list, for those pages?
    pub fn is_registered(&self, object: &ObjectRef, pages: Pages) -> bool {
        self.registration(object).is_some_and(|r| r.pages().hold(pages))
    }

    pub(super) fn registration(&self, object: &ObjectRef) -> Option<&Registration> {
        self.registrations.as_slice().iter().find(|r| r.is_of(object))
    }

    /// Where the leaf is on `object`'s list, taken out, if no segment names the object any more.
    pub(super) fn take_unnamed(&mut self, object: &ObjectRef) -> Option<Registration> {
        let names = |s: &Segment| s.attrs.object.as_ref().is_some_and(|o| ObjectRef::ptr_eq(o, object));
        if !evict::may_leave(self.segments.as_slice().iter().any(names)) {
            return None;
        }
        let place = self.registrations.as_slice().iter().position(|r| r.is_of(object))?;
        self.registrations.swap_remove(place)
    }

    /// Entries of `range` that may be other than absent.
    #[inline]
    pub fn used_in(&self, range: &Range<u16>) -> Used {
        let mut used = Used { groups: self.groups, at: range.start, end: range.end };
        used.settle();
        used
    }

    /// Is the leaf used by more than one space?
    pub fn is_shared(&self) -> bool {
        self.sharers.len() > 1
    }

    #[inline]
    pub(super) fn count_in(&mut self, index: u16, private: bool) {
        self.groups |= 1 << ((index >> 3) & 63);
        self.present += 1;
        self.private += u16::from(private);
    }

    #[inline]
    pub(super) fn count_out(&mut self, private: bool) {
        self.present -= 1;
        self.private -= u16::from(private);
        if self.present == 0 {
            self.groups = 0;
        }
    }
}

/// Indices of entries that may be other than absent, in order.
#[derive(Clone)]
pub struct Used {
    groups: u64,
    /// The next: in a group that may have some, or not before `end`.
    at: u16,
    end: u16,
}

impl Used {
    /// `at` has come to a group: if that has none, goes on to the next that may have some.
    #[inline]
    fn settle(&mut self) {
        let rest = self.groups.checked_shr(u32::from(self.at >> 3)).unwrap_or(0);
        if rest & 1 == 0 {
            let skip = rest.checked_ilog2().map(|_| rest.trailing_zeros() as u16);
            self.at = skip.map_or(self.end, |skip| ((self.at >> 3) + skip) << 3);
        }
    }
}

impl Iterator for Used {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.at >= self.end {
            return None;
        }
        let index = self.at;
        self.at += 1;
        if self.at.is_multiple_of(8) {
            self.settle();
        }
        Some(index)
    }
}

impl DoubleEndedIterator for Used {
    #[inline]
    fn next_back(&mut self) -> Option<u16> {
        if self.at >= self.end {
            return None;
        }
        let group = (self.end - 1) >> 3;
        let rest = self.groups << (63 - (group & 63));
        if rest >> 63 == 0 {
            let Some(top) = rest.checked_ilog2() else {
                self.end = self.at;
                return None;
            };
            // The group of the highest bit set: its last entry.
            let found = group - (63 - top as u16);
            self.end = ((found + 1) << 3).min(self.end);
            if self.end <= self.at {
                self.end = self.at;
                return None;
            }
        }
        self.end -= 1;
        Some(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn entries_are_gone_through_from_both_ends_as_their_lines_say() {
        for groups in [0, 1, 1 << 63, 0b1011 << 7, u64::MAX, 0x8000_4000_0000_0081] {
            for range in [0..512, 3..512, 0..8, 8..9, 60..61, 57..200, 0..509, 64..64, 512..512] {
                let state = NodeState { groups, ..NodeState::new() };
                let expected: Vec<u16> = range.clone().filter(|i| groups >> (i / 8) & 1 != 0).collect();
                let mut backwards: Vec<u16> = state.used_in(&range).rev().collect();
                backwards.reverse();
                assert_eq!(state.used_in(&range).collect::<Vec<_>>(), expected, "{groups:#x}, {range:?}");
                assert_eq!(backwards, expected, "{groups:#x}, {range:?}, backwards");
            }
        }
    }
}
