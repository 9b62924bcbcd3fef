//! Segments: the mapping attributes of each run of entries of a node.
//!
//! A segment sits at the highest node whose entries it covers whole. In an interior node it speaks for those of its entries
//! that are absent; where an entry leads to a child, the child is authoritative. Segments are equal for all spaces that share
//! a leaf, so nothing in them names a space.
//!
//! Invariants: LeafOwns (the list is inside the node's lock). A list changes only after room for the change has been made,
//! outside the lock: every operation here needs at most [`SegmentList::ROOM`] more places.
#![forbid(unsafe_code)]

use crate::addr::{ENTRIES, PAGE_SHIFT};
use crate::object::{ObjectRef, Pages};
use crate::policy::{Place, Policy};
use crate::request::Prot;
use crate::small::SmallList;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use bitflags::bitflags;
use core::ops::Range;
use sync::AllocError;

bitflags! {
    /// Properties of a segment.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SegFlags: u16 {
        /// Writes go to the object.
        const SHARED = 1;
        /// Grows downwards when touched below.
        const GROWSDOWN = 2;
        /// Unmapped, but other CPUs may still hold translations: nothing is accessible, and the addresses are not given away.
        const QUARANTINE = 4;
        /// Never to be made writable: a shared mapping of a file that is not open for writing.
        const NO_WRITE = 8;
        /// A child of fork does not get it.
        const NO_FORK = 16;
        /// A child of fork gets it empty.
        const WIPE_ON_FORK = 32;
        /// Its pages are in memory and stay there (mlock); a child of fork gets it without this.
        const LOCKED = 64;
        /// With LOCKED: only pages that were touched.
        const LOCKED_ON_FAULT = 128;
        /// Never to be made executable: a file of a mount from which nothing is executed.
        const NO_EXEC = 256;
        /// A core dump does not have it.
        const NO_DUMP = 512;
        /// Of what is SHARED: its pages' contents are elsewhere, so one is dirty before it may be written.
        const TRACKED = 1024;
        /// Asks for large pages; refuses them.
        const LARGE = 2048;
        const NO_LARGE = 4096;
        /// Stays as it is until the space ends (mseal).
        const SEALED = 8192;
        /// What a child of fork does not inherit with the mapping.
        const OF_PARENT = Self::LOCKED.bits() | Self::LOCKED_ON_FAULT.bits();
        /// Flags by which a child's mapping differs from its parent's.
        const PARTS = Self::NO_FORK.bits() | Self::WIPE_ON_FORK.bits() | Self::OF_PARENT.bits();
    }
}

/// The attributes of a mapping: what a run of entries stands for, apart from where it lies.
#[derive(Clone)]
pub struct MappingAttrs {
    pub prot: Prot,
    pub flags: SegFlags,
    /// Where new pages come from (mbind).
    pub policy: Policy,
    /// None: private anonymous memory.
    pub object: Option<ObjectRef>,
    /// Page of the object at the run's first entry; without an object 0, or the number of a claim (op/fresh.rs).
    pub offset: u64,
}

impl MappingAttrs {
    /// Inaccessible, private, no object.
    pub const fn nothing() -> Self {
        Self { prot: Prot::empty(), flags: SegFlags::empty(), policy: Policy::NONE, object: None, offset: 0 }
    }

    /// The same, `pages` further on.
    #[inline]
    pub fn advanced(&self, pages: u64) -> Self {
        let offset = self.offset + if self.object.is_some() { pages } else { 0 };
        Self { prot: self.prot, flags: self.flags, policy: self.policy, object: self.object.clone(), offset }
    }

    /// Is `next`, `pages` further on, a continuation of this?
    pub fn continued_by(&self, next: &MappingAttrs, pages: u64) -> bool {
        self.continued_within(next, 0, pages)
    }

    /// Is what lies `skipped` pages after the start of `next`, `pages` further on, a continuation of this?
    pub fn continued_within(&self, next: &MappingAttrs, skipped: u64, pages: u64) -> bool {
        self.prot == next.prot
            && self.flags == next.flags
            && self.policy == next.policy
            && match (&self.object, &next.object) {
                (None, None) => self.offset == next.offset,
                (Some(a), Some(b)) => ObjectRef::ptr_eq(a, b) && self.offset + pages == next.offset + skipped,
                _ => false,
            }
    }

    pub fn is_shared(&self) -> bool {
        self.flags.contains(SegFlags::SHARED)
    }

    /// Is a page to be dirty before it is written?
    #[inline]
    pub fn is_tracked(&self) -> bool {
        self.flags.contains(SegFlags::TRACKED)
    }

    /// The rights with which pages of an object are mapped: others than the first write gets them.
    #[inline]
    pub fn object_rights(&self) -> Prot {
        let at_once = self.flags.intersection(SegFlags::SHARED.union(SegFlags::TRACKED)) == SegFlags::SHARED;
        if at_once { self.prot } else { self.prot.without_write() }
    }

    pub fn is_quarantine(&self) -> bool {
        self.flags.contains(SegFlags::QUARANTINE)
    }

    /// Does a child of fork not get it?
    pub fn is_left_out_of_child(&self) -> bool {
        self.flags.intersects(SegFlags::NO_FORK | SegFlags::QUARANTINE)
    }

    /// Is it not, or not with its pages, what a child of fork gets?
    pub fn differs_in_child(&self) -> bool {
        self.flags.intersects(SegFlags::PARTS.union(SegFlags::QUARANTINE))
    }
}

/// A run of a node's entries with one set of attributes.
#[derive(Clone)]
pub struct Segment {
    pub start: u16,
    /// Exclusive.
    pub end: u16,
    pub attrs: MappingAttrs,
}

const _: () = assert!(size_of::<Segment>() <= 32, "four lie in each node");

impl Segment {
    /// The object that a leaf's segment shows, and which pages of it.
    #[inline]
    pub fn object_pages(&self) -> Option<(&ObjectRef, Pages)> {
        let (first, len) = (self.attrs.offset, u64::from(self.end - self.start));
        Some((self.attrs.object.as_ref()?, Pages { start: first, end: first.wrapping_add(len) }))
    }

    /// Object and page behind entry `index` of a leaf. No reference is taken: that would write a line of the object.
    #[inline]
    pub fn object_page(&self, index: u16) -> Option<(&ObjectRef, u64)> {
        let object = self.attrs.object.as_ref()?;
        Some((object, self.attrs.offset + u64::from(index - self.start)))
    }

    /// Where a page for entry `index` of a leaf comes from; `address` is the entry's.
    #[inline]
    pub(crate) fn place(&self, index: u16, address: usize) -> Place {
        let page = match &self.attrs.object {
            Some(_) => self.attrs.offset + u64::from(index - self.start),
            None => (address >> PAGE_SHIFT) as u64,
        };
        Place { policy: self.attrs.policy, page }
    }

    /// Does entry `index` of a leaf show what `mapping` shows `pages` after its start, whatever rights there are by now?
    pub fn shows(&self, index: u16, mapping: &MappingAttrs, pages: u64) -> bool {
        let same = match (self.object_page(index), &mapping.object) {
            (None, None) => true,
            (Some((a, page)), Some(b)) => ObjectRef::ptr_eq(a, b) && page == mapping.offset + pages,
            _ => false,
        };
        same && !self.attrs.is_quarantine() && self.attrs.is_shared() == mapping.is_shared()
    }

    fn is_same(&self, other: &Segment) -> bool {
        self.start == other.start && self.end == other.end && self.attrs.continued_by(&other.attrs, 0)
    }

    /// Is this what `inherit_from` makes of `other`?
    fn is_heir_of(&self, other: &Segment) -> bool {
        let (mine, theirs) = (&self.attrs, &other.attrs);
        self.start == other.start
            && self.end == other.end
            && mine.prot == theirs.prot
            && mine.flags == theirs.flags.difference(SegFlags::OF_PARENT)
            && mine.policy == theirs.policy
            && mine.offset == theirs.offset
            && match (&mine.object, &theirs.object) {
                (None, None) => true,
                (Some(a), Some(b)) => ObjectRef::ptr_eq(a, b),
                _ => false,
            }
    }

    /// MappingAttrs of entry `index`, in a node whose entries span `1 << shift` pages.
    #[inline]
    pub fn at(&self, index: u16, shift: u32) -> MappingAttrs {
        self.attrs.advanced(u64::from(index - self.start) << shift)
    }
}

/// Segments of one node, sorted, not overlapping, neighbours joined. A few lie in the node itself.
pub struct SegmentList(SmallList<Segment, 4>);

impl SegmentList {
    /// Places that one change needs at most: two for what its borders cut, one for the border between two parts of it.
    pub const ROOM: usize = 3;

    pub const fn new() -> Self {
        Self(SmallList::new())
    }

    #[inline]
    pub fn as_slice(&self) -> &[Segment] {
        self.0.as_slice()
    }

    /// The number of the first segment of `all` that ends behind `index`.
    #[inline]
    fn first_beyond(all: &[Segment], index: u16) -> usize {
        all.partition_point(|s| s.end <= index)
    }

    /// The segment that covers `index`.
    #[inline]
    pub fn find(&self, index: u16) -> Option<&Segment> {
        self.find_quickly(index)
    }

    /// As [`Self::find`], in place.
    #[inline(always)]
    pub fn find_quickly(&self, index: u16) -> Option<&Segment> {
        let all = self.as_slice();
        if all.len() <= 8 {
            return all.iter().find(|s| s.start <= index && index < s.end);
        }
        let i = Self::first_beyond(all, index);
        all.get(i).filter(|s| s.start <= index)
    }

    /// The first segment that covers anything of `range`.
    #[inline]
    pub fn first_in(&self, range: &Range<u16>) -> Option<&Segment> {
        let all = self.as_slice();
        all.get(Self::first_beyond(all, range.start)).filter(|s| s.start < range.end)
    }

    /// The last segment that covers anything of `range`.
    #[inline]
    pub fn last_in(&self, range: &Range<u16>) -> Option<&Segment> {
        let all = self.as_slice();
        let behind = all.partition_point(|s| s.start < range.end);
        all.get(..behind)?.last().filter(|s| s.end > range.start)
    }

    /// Does a segment cover anything of `range`?
    #[inline]
    pub fn any_in(&self, range: &Range<u16>) -> bool {
        self.first_in(range).is_some()
    }

    /// Is there room for a change of `range`, which is made at once or in parts from its start on? `inserts`: it puts a segment in.
    #[inline]
    pub fn has_capacity(&self, range: &Range<u16>, inserts: bool) -> bool {
        // One more for the border between two parts.
        self.0.has_capacity(Self::ROOM)
            || self
                .0
                .has_capacity((self.cuts(range.start) + self.cuts(range.end)).max(usize::from(inserts)) + 1)
    }

    /// Is there room for a further part of such a change?
    pub fn has_capacity_for_more(&self) -> bool {
        self.0.has_capacity(1)
    }

    /// How many segments a border at `at` cuts.
    fn cuts(&self, at: u16) -> usize {
        let all = self.as_slice();
        usize::from(all.get(Self::first_beyond(all, at)).is_some_and(|s| s.start < at))
    }

    /// How far into `range` a change can go if no more than `objects` references to objects can be taken out.
    #[inline]
    pub fn reach(&self, range: &Range<u16>, objects: usize) -> u16 {
        let all = self.as_slice();
        if all.len() <= objects {
            return range.end;
        }
        let within =
            all.iter().skip(Self::first_beyond(all, range.start)).take_while(|s| s.start < range.end);
        let mut named = within.filter(|s| s.attrs.object.is_some()).skip(objects);
        named.next().map_or(range.end, |s| s.start.max(range.start))
    }

    /// A store for [`Self::adopt`], for a list of `len` segments. Made outside the lock.
    pub fn bigger(len: usize) -> Result<Vec<Segment>, AllocError> {
        crate::order::assert_no_node_locked();
        SmallList::<Segment, 4>::bigger(len)
    }

    /// Moves the list into `bigger` if that is larger. What is given back is dropped outside the lock.
    #[must_use]
    pub fn adopt(&mut self, bigger: Vec<Segment>) -> Vec<Segment> {
        self.0.adopt(bigger)
    }

    /// Puts a copy of `segments` into this list, which is empty and has the room.
    pub fn copy_from(&mut self, segments: &[Segment]) {
        for segment in segments {
            self.0.push(segment.clone());
        }
    }

    /// As `copy_from`, for a child of fork; `parts`: some may not be for children.
    #[inline]
    pub fn inherit_from(&mut self, segments: &[Segment], parts: bool) {
        for segment in segments {
            if !parts {
                self.0.push(segment.clone());
            } else if !segment.attrs.is_left_out_of_child() {
                let mut given = segment.clone();
                given.attrs.flags.remove(SegFlags::OF_PARENT);
                self.0.push(given);
            }
        }
    }

    /// Makes a segment border at `index`, in a node whose entries span `1 << shift` pages; the list is then no longer joined
    /// there. Returns the number of the first segment that begins at or after `index`.
    fn split(&mut self, index: u16, shift: u32) -> usize {
        let i = Self::first_beyond(self.as_slice(), index);
        match self.as_slice().get(i) {
            Some(s) if s.start < index => {
                let tail = Segment { start: index, end: s.end, attrs: s.at(index, shift) };
                if let Some(s) = self.0.as_mut_slice().get_mut(i) {
                    s.end = index;
                }
                self.0.insert(i + 1, tail);
                i + 1
            }
            _ => i,
        }
    }

    fn join(&mut self, i: usize, shift: u32) {
        let Some([a, b]) = i.checked_sub(1).and_then(|p| self.as_slice().get(p..=i)) else { return };
        if a.end == b.start && a.attrs.continued_by(&b.attrs, u64::from(a.end - a.start) << shift) {
            let end = b.end;
            if let Some(a) = self.0.as_mut_slice().get_mut(i - 1) {
                a.end = end;
            }
            let mut same = Removed::new();
            self.0.drain(i..i + 1, |s| same.push(s));
        }
    }

    /// Cuts `range` out. The pieces land in `removed`, whose objects may be let go only outside the lock.
    pub fn remove(&mut self, range: Range<u16>, shift: u32, removed: &mut Removed) {
        if range.is_empty() {
            return;
        }
        let first = self.split(range.start, shift);
        let last = self.split(range.end, shift);
        self.0.drain(first..last, |s| removed.push(s));
    }

    /// Puts `attrs` over `range`, replacing what was there.
    pub fn insert(&mut self, range: Range<u16>, attrs: MappingAttrs, shift: u32, removed: &mut Removed) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone(), shift, removed);
        let i = Self::first_beyond(self.as_slice(), range.start);
        self.0.insert(i, Segment { start: range.start, end: range.end, attrs });
        self.join(i + 1, shift);
        self.join(i, shift);
    }

    /// Changes all segments in `range`, quarantine included.
    pub fn update(&mut self, range: Range<u16>, shift: u32, mut change: impl FnMut(&mut MappingAttrs)) {
        if range.is_empty() {
            return;
        }
        let first = self.split(range.start, shift);
        let last = self.split(range.end, shift);
        for segment in self.0.as_mut_slice().iter_mut().take(last).skip(first) {
            change(&mut segment.attrs);
        }
        for i in (first..=last).rev() {
            self.join(i, shift);
        }
    }

    /// Do both lists say the same?
    pub fn same_as(&self, other: &SegmentList) -> bool {
        let (a, b) = (self.as_slice(), other.as_slice());
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
    }

    /// Is this what `inherit_from` makes of `other`?
    pub fn inherited_from(&self, other: &SegmentList) -> bool {
        let given = other.as_slice().iter().filter(|s| !s.attrs.is_left_out_of_child());
        let mine = self.as_slice();
        given.clone().count() == mine.len() && mine.iter().zip(given).all(|(a, b)| a.is_heir_of(b))
    }

    /// Takes all segments out.
    pub fn clear(&mut self) -> SegmentList {
        Self(self.0.take())
    }
}

impl Default for SegmentList {
    fn default() -> Self {
        Self::new()
    }
}

/// Segments cut out of a list under its lock. Dropped outside, because letting an object go may be slow, and after the flush: nobody else may refer to
/// the object by then, and it owns the pages that were mapped.
#[derive(Default)]
pub struct Removed(ArrayVec<Segment, { Removed::MOST }>);

impl Removed {
    /// Objects' references that have a place.
    pub const MOST: usize = 4;

    pub const fn new() -> Self {
        Self(ArrayVec::new_const())
    }

    /// How many objects' references have a place yet.
    #[inline]
    pub fn capacity_left(&self) -> usize {
        self.0.remaining_capacity()
    }

    /// References that are there.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The objects that were cut out after the first `known`.
    pub fn objects_after(&self, known: usize) -> impl Iterator<Item = &ObjectRef> {
        self.0.iter().skip(known).filter_map(|segment| segment.attrs.object.as_ref())
    }

    /// Lets go what is there. No lock is held.
    #[inline]
    pub fn let_go(&mut self) {
        self.0.clear();
    }

    /// Keeps the object that `attrs` names until the lock is gone, before it is overwritten.
    pub fn take_object(&mut self, attrs: &mut MappingAttrs) {
        let Some(object) = attrs.object.take() else { return };
        let attrs = MappingAttrs { object: Some(object), ..MappingAttrs::nothing() };
        self.push(Segment { start: 0, end: 0, attrs });
    }

    fn push(&mut self, segment: Segment) {
        if segment.attrs.object.is_some() {
            let fits = self.0.try_push(segment);
            debug_assert!(fits.is_ok(), "more was cut out than there is room for");
        }
    }
}

const _: () = assert!(ENTRIES <= u16::MAX as usize);
