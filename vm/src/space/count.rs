//! How many mappings a space may have: vm.max_map_count, which keeps one process from filling the kernel's memory with them.
//!
//! A mapping here is a line of /proc/PID/maps: a run of addresses with the same attributes, however many segments in how many nodes say so. Nobody
//! counts them while they are few:
//!
//! ```text
//!   far from the limit   each change spends credit for as many mappings as it may add at the worst, and gets none back
//!   no credit            the mappings are counted, by a walk; where they are far from the limit that gives credit anew
//!   near it              the number is kept: a change counts those that begin in its range before and after, and adds the difference
//! ```
//!
//! So far from the limit a change costs a few instructions, and a walk once in some ten thousand; near it as much as looking at its own range.
//!
//! CountLocal: with several threads each CPU takes credit in batches, so threads that map write no line in common. Near the limit they take turns
//! (`exact`). A change that another thread has begun with credit while the walk runs may be missed: then as many more are allowed.
//!
//! Lock order: `exact` → all others of a space.
#![forbid(unsafe_code)]

use super::Space;
use super::pieces::{Piece, between_pieces};
use crate::addr::{PAGE_SHIFT, PAGE_SIZE};
use crate::error::VmError;
use crate::machine::Machine;
use crate::order;
use crate::token;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The limit of all spaces.
static LIMIT: AtomicUsize = AtomicUsize::new(65_530);
/// A CPU takes this part of what credit there is for each CPU present, at a time, but at least so much.
const PART: usize = 4;
const LEAST: usize = 64;

/// How many mappings a space may have (vm.max_map_count).
pub fn max_mappings() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Sets that. Spaces that have credit go by the old limit until [`Space::recount`].
pub fn set_max_mappings(most: usize) {
    LIMIT.store(most, Ordering::Relaxed);
}

/// Mappings that may be added to a space before they are counted, all CPUs' batches beside. On a line of its own: the others of a space are read
/// by each fault.
#[repr(align(64))]
pub(crate) struct Credit(pub(crate) AtomicUsize);

impl Credit {
    /// That of a space that is made.
    pub(super) fn first() -> Self {
        let limit = max_mappings();
        Self(AtomicUsize::new(limit.saturating_sub(limit / 4)))
    }
}

/// What a change has added, where that is counted.
pub(crate) struct Tally {
    exact: bool,
    added: isize,
}

impl Tally {
    /// Makes a change of `range`.
    pub fn of<M: Machine, R>(
        &mut self,
        space: &Space<M>,
        range: Range<usize>,
        change: impl FnOnce() -> R,
    ) -> R {
        let before = if self.exact { space.starts_in(&range) } else { 0 };
        let result = change();
        if self.exact {
            self.add(space.starts_in(&range), before);
        }
        result
    }

    /// `range` was free, and is mapped now.
    pub fn mapped<M: Machine>(&mut self, space: &Space<M>, range: Range<usize>) {
        if self.exact {
            let next = space.next_extent_in(range.end, range.end.saturating_add(1), &mut order::begin());
            let before = next.is_some_and(|p| p.start == range.end && !p.is_quarantine());
            self.add(space.starts_in(&range), usize::from(before));
        }
    }

    fn add(&mut self, after: usize, before: usize) {
        self.added = self.added.saturating_add_unsigned(after).saturating_sub_unsigned(before);
    }
}

impl<M: Machine> Space<M> {
    /// Makes a change that adds at most `most` mappings and tells the tally where. Where they are counted, `is_refused` judges by their number and the
    /// limit first. No lock is held, and the token is meanwhile, if it is on. May sleep.
    ///
    /// # Errors
    /// `TooMany`; those of `change`.
    #[inline]
    #[track_caller]
    pub(crate) fn counted<R>(
        &self,
        most: usize,
        is_refused: impl FnOnce(usize, usize) -> bool,
        change: impl FnOnce(&mut Tally) -> Result<R, VmError>,
    ) -> Result<R, VmError> {
        let _token = token::hold();
        if self.spend(most) {
            return change(&mut Tally { exact: false, added: 0 });
        }
        self.counted_exactly(most, is_refused, change)
    }

    #[cold]
    #[inline(never)]
    fn counted_exactly<R>(
        &self,
        most: usize,
        is_refused: impl FnOnce(usize, usize) -> bool,
        change: impl FnOnce(&mut Tally) -> Result<R, VmError>,
    ) -> Result<R, VmError> {
        let mut exact = self.exact.lock();
        let limit = max_mappings();
        let count = match *exact {
            Some(count) => count,
            None => {
                self.forget_credit();
                let mut count = 0usize;
                self.for_each_mapping(&mut |_| count = count.saturating_add(1));
                count
            }
        };
        // Far from the limit: more than a quarter of it is left.
        if let Some(left) = limit.checked_sub(count.saturating_add(limit / 4).saturating_add(most))
            && left > 0
        {
            *exact = None;
            self.credit.0.store(left, Ordering::Relaxed);
            drop(exact);
            return change(&mut Tally { exact: false, added: 0 });
        }
        *exact = Some(count);
        if is_refused(count, limit) {
            return Err(VmError::TooMany);
        }
        let mut tally = Tally { exact: true, added: 0 };
        let result = change(&mut tally);
        *exact = Some(count.saturating_add_signed(tally.added));
        result
    }

    /// Their number, where it is kept: near the limit.
    pub fn counted_mappings(&self) -> Option<usize> {
        *self.exact.lock()
    }

    /// The mappings are counted before the next change: the limit may be another.
    pub fn recount(&self) {
        self.forget_credit();
    }

    fn forget_credit(&self) {
        self.credit.0.store(0, Ordering::Relaxed);
        self.spans.forget_credit();
    }

    /// Spends credit for `most` mappings; where that is none, looks whether there is any.
    #[inline]
    fn spend(&self, most: usize) -> bool {
        if self.multithreaded.load(Ordering::Relaxed) {
            return self.spend_here(most);
        }
        let credit = self.credit.0.load(Ordering::Relaxed);
        let Some(left) = credit.checked_sub(most).filter(|_| credit > 0) else { return false };
        self.credit.0.store(left, Ordering::Relaxed);
        true
    }

    /// Spends this CPU's. False: there is none, here or for all.
    #[expect(clippy::arithmetic_side_effects, reason = "there is a CPU, and as many as MAX_CPUS at most")]
    fn spend_here(&self, most: usize) -> bool {
        let Some(here) = self.spans.credit() else { return false };
        let mut left = here.load(Ordering::Relaxed);
        if left < most.max(1) {
            let batch = |all: usize| (all / (PART * sync::machine::cpus() as usize)).max(LEAST).min(all);
            let take = |all: usize| all.checked_sub(batch(all)).filter(|_| all >= most.max(1));
            let Ok(all) = self.credit.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
                return false;
            };
            left = left.saturating_add(batch(all));
        }
        here.store(left.saturating_sub(most), Ordering::Relaxed);
        true
    }

    /// How many mappings begin in `range` or at its end.
    fn starts_in(&self, range: &Range<usize>) -> usize {
        let order = &mut order::begin();
        let last = range.end.saturating_add(1);
        let mut before = self
            .previous_piece_in(range.start, range.start.saturating_sub(PAGE_SIZE), order)
            .filter(|p| p.end == range.start);
        let (mut starts, mut at) = (0usize, range.start);
        while let Some(piece) = self.next_piece_in(at, last, order) {
            starts = starts.saturating_add(usize::from(begins(before.as_ref(), &piece)));
            at = piece.end;
            before = Some(piece);
            between_pieces();
        }
        starts
    }

    /// Is `at` within a mapping, so that a change that begins or ends there makes two of it?
    fn is_within(&self, at: usize) -> bool {
        let order = &mut order::begin();
        let before = self.previous_piece_in(at, at.saturating_sub(PAGE_SIZE), order);
        let after = self.next_piece_in(at, at.saturating_add(1), order);
        after
            .filter(|p| p.start == at && !p.attrs.is_quarantine())
            .is_some_and(|after| !begins(before.as_ref(), &after))
    }

    /// Does a space with `count` mappings get too many by a hole at `range`?
    pub(crate) fn is_hole_refused(&self, count: usize, limit: usize, range: &Range<usize>) -> bool {
        // A hole inside of one mapping.
        count >= limit
            && self.is_within(range.start)
            && self.is_within(range.end)
            && self.starts_in(range) == 0
    }

    /// By other attributes of `range`?
    pub(crate) fn is_change_refused(&self, count: usize, limit: usize, range: &Range<usize>) -> bool {
        let added =
            usize::from(self.is_within(range.start)).saturating_add(usize::from(self.is_within(range.end)));
        added > 0 && count.saturating_add(added) > limit
    }
}

/// Does a mapping begin with `piece`? `before` is the piece before it.
fn begins(before: Option<&Piece>, piece: &Piece) -> bool {
    if piece.attrs.is_quarantine() {
        return false;
    }
    !before.is_some_and(|before| {
        let pages = (before.end.saturating_sub(before.start) >> PAGE_SHIFT) as u64;
        before.end == piece.start && before.attrs.continued_by(&piece.attrs, pages)
    })
}
