//! One list of the reverse map: leaves, each with the pages of the object that it may show, found by these pages.
//!
//! ```text
//! a leaf comes   -> onto the chain                                         a few words are written
//! a visit comes  -> whom the tree has within its pages are visited, then
//!                   each leaf of the chain is put into the tree            once for each leaf, not for each visit
//! a leaf goes    -> off the chain, or out of the tree
//! its pages grow -> out of the tree, onto the chain again
//! ```
//!
//! So who maps and unmaps does not pay for the order that a visit needs, where nobody cuts the file. The tree is a treap in the order of first
//! pages; each node knows how far the pages reach that are below it. Its shape comes from numbers that are drawn for the leaves.
//!
//! Invariant: a leaf whose pages overlap those of a visit, and that is on the list from the visit's begin to its end, is visited, though the visit
//! stops on its way and others come, go and grow meanwhile. A leaf stays at its place in the tree, and what leaves that place goes to the chain, to which
//! the visit comes last; only a visit puts leaves into the tree, and there is one at a time (the object's `change` is held).
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use sync::{AllocError, TryVec};

/// No place.
const NONE: u32 = u32::MAX;

/// A run of an object's pages, not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pages {
    pub start: u64,
    /// Exclusive.
    pub end: u64,
}

impl Pages {
    #[inline]
    pub fn new(start: u64, end: u64) -> Self {
        debug_assert!(start < end);
        Self { start, end }
    }

    #[inline]
    pub fn overlap(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    #[inline]
    pub fn hold(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The least run that holds both.
    #[inline]
    pub fn joined(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A place. In the tree `left` and `right` are below it and `up` above; on the chain they are the one before and the one after it; where
/// the place is free, `right` is the next free one.
struct Place<T> {
    leaf: Option<T>,
    pages: Pages,
    /// In the tree: where the last pages end that are at this place and below. 0 elsewhere.
    reach: u64,
    left: u32,
    right: u32,
    up: u32,
    /// In the tree a place is above those that have drawn less.
    draw: u32,
}

impl<T> Place<T> {
    const fn is_in_tree(&self) -> bool {
        self.reach != 0
    }
}

/// The leaves. A place is one leaf's while others come and go.
pub struct List<T> {
    places: Vec<Place<T>>,
    /// First free place.
    free: u32,
    /// The place that came onto the chain last.
    chain: u32,
    root: u32,
    used: u32,
}

/// How far a visit has come on one list. The tree's order is that of first pages, then of places.
#[derive(Clone, Copy, Default)]
pub struct Reached {
    /// The last one visited in the tree.
    last: Option<(u64, u32)>,
    /// The tree is done.
    chain: bool,
}

/// From where a walk through the tree has come to a place.
#[derive(Clone, Copy)]
enum From {
    Above,
    Left,
    /// Or it was the one visited last, and its left is done.
    Itself,
    Right,
}

impl<T> List<T> {
    pub const fn new() -> Self {
        Self { places: Vec::new(), free: NONE, chain: NONE, root: NONE, used: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Puts a leaf that may show `pages` onto the list; says where it is. `draw`: a number that no program chooses.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of leaves in memory")]
    pub fn add(&mut self, leaf: T, pages: Pages, draw: u32) -> Result<u32, AllocError> {
        let next = self.chain;
        let new = Place { leaf: Some(leaf), pages, reach: 0, left: NONE, right: next, up: NONE, draw };
        let index = match self.places.get_mut(self.free as usize) {
            Some(place) => {
                let index = self.free;
                self.free = place.right;
                *place = new;
                index
            }
            None => {
                self.places.try_push(new)?;
                self.places.len() as u32 - 1
            }
        };
        self.set(next, |place| place.left = index);
        self.chain = index;
        self.used += 1;
        Ok(index)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "each leaf that leaves was counted")]
    pub fn remove(&mut self, index: u32) {
        self.take_out(index);
        let free = self.free;
        self.set(index, |place| (place.leaf, place.right) = (None, free));
        self.free = index;
        self.used -= 1;
        if self.used == 0 && self.places.len() > 64 {
            *self = Self::new();
        }
    }

    /// The leaf may show `pages` too.
    pub fn widen(&mut self, index: u32, pages: Pages) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        if place.pages.hold(pages) {
            return;
        }
        if !place.is_in_tree() {
            place.pages = place.pages.joined(pages);
            return;
        }
        self.take_out(index);
        if let Some(place) = self.places.get_mut(index as usize) {
            place.pages = place.pages.joined(pages);
        }
        self.chain_in(index);
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.leaf.as_ref()
    }

    /// The next leaf that a visit of `pages` comes to. None: it has come to all.
    pub fn next(&mut self, pages: Pages, reached: &mut Reached) -> Option<Step<'_, T>> {
        if !reached.chain {
            let found = match reached.last {
                // Others may have come, and this one may have left.
                Some((_, at)) if self.key(at) == reached.last => {
                    self.find(at, From::Itself, pages, reached.last)
                }
                last => self.find(self.root, From::Above, pages, last),
            };
            if let Some(index) = found {
                reached.last = self.key(index);
                return Some(Step { leaf: self.get(index) });
            }
            reached.chain = true;
        }
        let index = self.chain;
        let overlap = self.places.get(index as usize)?.pages.overlap(pages);
        self.chain_out(index);
        self.tree_in(index);
        Some(Step { leaf: self.get(index).filter(|_| overlap) })
    }

    /// Where a leaf stands in the tree's order. None: it is not there.
    fn key(&self, index: u32) -> Option<(u64, u32)> {
        let place = self.places.get(index as usize)?;
        place.is_in_tree().then_some((place.pages.start, index))
    }

    /// The first leaf after `last`, going on from `at`, whose pages overlap `pages`.
    fn find(&self, mut at: u32, mut from: From, pages: Pages, last: Option<(u64, u32)>) -> Option<u32> {
        loop {
            let place = self.places.get(at as usize)?;
            let is_new = Some((place.pages.start, at)) > last;
            from = match from {
                From::Above if place.reach <= pages.start => From::Right,
                From::Above if is_new && place.left != NONE => {
                    at = place.left;
                    From::Above
                }
                From::Above | From::Left => {
                    if place.pages.start >= pages.end {
                        return None;
                    }
                    if is_new && place.pages.end > pages.start {
                        return Some(at);
                    }
                    From::Itself
                }
                From::Itself if place.right != NONE => {
                    at = place.right;
                    From::Above
                }
                From::Itself | From::Right => {
                    let below = at;
                    at = place.up;
                    let above = self.places.get(at as usize)?;
                    if above.left == below { From::Left } else { From::Right }
                }
            };
        }
    }

    /// Off the chain, or out of the tree.
    #[inline]
    fn take_out(&mut self, index: u32) {
        match self.places.get(index as usize) {
            Some(place) if place.is_in_tree() => self.tree_out(index),
            Some(_) => self.chain_out(index),
            None => {}
        }
    }

    #[inline]
    fn set(&mut self, index: u32, change: impl FnOnce(&mut Place<T>)) {
        if let Some(place) = self.places.get_mut(index as usize) {
            change(place);
        }
    }

    fn chain_in(&mut self, index: u32) {
        let next = core::mem::replace(&mut self.chain, index);
        self.set(next, |place| place.left = index);
        self.set(index, |place| {
            (place.left, place.right, place.reach) = (NONE, next, 0);
        });
    }

    #[inline]
    fn chain_out(&mut self, index: u32) {
        let Some(&Place { left, right, .. }) = self.places.get(index as usize) else { return };
        self.set(right, |place| place.left = left);
        if left == NONE {
            self.chain = right;
        } else {
            self.set(left, |place| place.right = right);
        }
    }

    /// Puts a leaf that is nowhere into the tree.
    fn tree_in(&mut self, index: u32) {
        let Some(&Place { pages, draw, .. }) = self.places.get(index as usize) else { return };
        let (mut up, mut at, mut is_left) = (NONE, self.root, false);
        while let Some(place) = self.places.get_mut(at as usize) {
            place.reach = place.reach.max(pages.end);
            is_left = (pages.start, index) < (place.pages.start, at);
            up = at;
            at = if is_left { place.left } else { place.right };
        }
        self.set(index, |place| {
            (place.left, place.right, place.up, place.reach) = (NONE, NONE, up, pages.end);
        });
        match up {
            NONE => self.root = index,
            _ if is_left => self.set(up, |place| place.left = index),
            _ => self.set(up, |place| place.right = index),
        }
        while let Some(above) = self.places.get(up as usize) {
            if above.draw >= draw {
                break;
            }
            up = above.up;
            self.rotate_up(index);
        }
    }

    fn tree_out(&mut self, index: u32) {
        loop {
            let Some(&Place { left, right, up, .. }) = self.places.get(index as usize) else { return };
            let draws = |at: u32| self.places.get(at as usize).map(|place| place.draw);
            let child = match (draws(left), draws(right)) {
                (Some(one), Some(other)) => {
                    self.rotate_up(if one > other { left } else { right });
                    continue;
                }
                (Some(_), None) => left,
                _ => right,
            };
            self.replace(index, child, up);
            self.set(index, |place| place.reach = 0);
            let mut at = up;
            while self.refresh(at) {
                at = self.places.get(at as usize).map_or(NONE, |place| place.up);
            }
            return;
        }
    }

    /// Puts `other`, or nothing, where `index` is below `up`.
    fn replace(&mut self, index: u32, other: u32, up: u32) {
        match self.places.get_mut(up as usize) {
            None => self.root = other,
            Some(above) if above.left == index => above.left = other,
            Some(above) => above.right = other,
        }
        self.set(other, |place| place.up = up);
    }

    /// Exchanges a place in the tree and the one above it.
    fn rotate_up(&mut self, index: u32) {
        let Some(&Place { left, right, up, .. }) = self.places.get(index as usize) else { return };
        let Some(&Place { left: sibling, up: top, .. }) = self.places.get(up as usize) else { return };
        let is_left = sibling == index;
        self.replace(up, index, top);
        let moved = if is_left { right } else { left };
        self.set(up, |place| {
            *(if is_left { &mut place.left } else { &mut place.right }) = moved;
            place.up = index;
        });
        self.set(moved, |place| place.up = up);
        self.set(index, |place| *(if is_left { &mut place.right } else { &mut place.left }) = up);
        self.refresh(up);
        self.refresh(index);
    }

    /// Says anew how far the pages below `index` reach. False: as it said, or there is no such place.
    fn refresh(&mut self, index: u32) -> bool {
        let Some(&Place { left, right, pages, reach, .. }) = self.places.get(index as usize) else {
            return false;
        };
        let below = |at: u32| self.places.get(at as usize).map_or(0, |place| place.reach);
        let now = pages.end.max(below(left)).max(below(right));
        self.set(index, |place| place.reach = now);
        now != reach
    }
}

/// One step of a visit.
pub struct Step<'l, T> {
    /// None: what the visit came to does not show its pages.
    pub leaf: Option<&'l T>,
}

#[cfg(test)]
mod tests;
