//! mbind: from which NUMA nodes new pages of mappings come. What is mapped already stays where it is (op/migrate.rs moves it).
//!
//! Invariants: LeafOwns. A policy is a property of a segment: it splits, joins, moves and is inherited with it. That of an object's pages is the object's too, and
//! holds for all who share it (object/policy.rs).
//! Lock order: one node at a time; then, without it, an object's policies.
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::Locked;
use crate::node::flush::Gather;
use crate::node::segment::MappingAttrs;
use crate::order;
use crate::policy::{self, Mode, Policy};
use crate::space::Space;
use crate::space::pieces::{Found, between_pieces};
use crate::space::range::RangeOp;
use core::ops::Range;

struct PolicyOp(Policy);

impl<M: Machine> RangeOp<M> for PolicyOp {
    const CAUSE: FlushCause = FlushCause::Protect;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_ENTRIES: bool = false;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, _gather: &mut Gather<'_>) {
        node.update_mapped(range, |m| m.policy = self.0);
    }
}

/// What a run that holes may interrupt is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    Nothing,
    Holes,
    Whole,
}

impl<M: Machine> Space<M> {
    /// How much of `range`, whole pages, is mapped. Gives way.
    pub fn coverage(&self, range: Range<usize>) -> Coverage {
        let order = &mut order::begin();
        if self.is_mapped(range.start, range.end, order) {
            return Coverage::Whole;
        }
        match self.find_piece(range.start, range.end, &|attrs| !attrs.is_quarantine(), order) {
            Some(_) => Coverage::Holes,
            None => Coverage::Nothing,
        }
    }

    /// Sets the policy of what is mapped in `range`, whole pages. May sleep. Where it fails, a part of an object may have it already.
    ///
    /// # Errors
    /// `TooMany`, `NoMemory`.
    pub fn set_policy(&self, range: Range<usize>, policy: Policy) -> Result<(), VmError> {
        if !policy.is_none() {
            policy::note_use();
        }
        self.set_policy_of_objects(range.clone(), policy)?;
        let differs = |attrs: &MappingAttrs| attrs.policy != policy && !attrs.is_quarantine();
        if self.find_piece(range.start, range.end, &differs, &mut order::begin()).is_none() {
            return Ok(());
        }
        let refused = |count, limit| self.is_change_refused(count, limit, &range);
        self.counted(2, refused, |tally| {
            tally.of(self, range.clone(), || {
                self.apply(range.start, range.end, &mut PolicyOp(policy), &mut order::begin())
            })
        })
    }

    fn set_policy_of_objects(&self, range: Range<usize>, policy: Policy) -> Result<(), VmError> {
        let mut at = range.start;
        while let Some(piece) = self.next_piece_in(at, range.end, &mut order::begin()) {
            let end = piece.end.min(range.end);
            // As on Linux, a mapping that has the policy already says nothing to the object.
            if let Some(object) = piece.attrs.object.as_ref().filter(|_| piece.attrs.policy != policy) {
                let (first, len) = (piece.attrs.offset, end.saturating_sub(piece.start) >> PAGE_SHIFT);
                object.set_policy(first..first.saturating_add(len as u64), policy)?;
            }
            at = end;
            between_pieces();
        }
        Ok(())
    }

    /// The policy of the mapping at `addr`, or of the object's page there. None: nothing is mapped. May sleep.
    pub fn policy_at(&self, addr: VirtAddr) -> Option<Policy> {
        let page = addr.page_start().0;
        let look = |(range, attrs, pages): Found<'_>| {
            let is_there = range.start <= page && !attrs.is_quarantine();
            is_there.then(|| (attrs.policy, attrs.object.clone(), attrs.offset.saturating_add(pages)))
        };
        let limit = page.saturating_add(PAGE_SIZE);
        let (policy, object, offset) = self.look_at_next(page, limit, &mut order::begin(), look).flatten()?;
        Some(object.filter(|object| !object.is_paged()).map_or(policy, |object| object.policy(offset)))
    }

    /// Gives the policies of what is mapped in `range`, whole pages, a home node. Says whether any has one now; with `Invalid` it stops at the first that cannot have one,
    /// since it names no set of nodes. May sleep.
    ///
    /// # Errors
    /// `Invalid`, `TooMany`, `NoMemory`.
    pub fn set_home_node(&self, range: Range<usize>, node: u32) -> Result<bool, VmError> {
        let (mut at, mut any) = (range.start, false);
        while let Some(piece) = self.next_piece_in(at, range.end, &mut order::begin()) {
            let end = piece.end.min(range.end);
            let policy = piece.attrs.policy;
            match policy.mode() {
                None => {}
                Some(Mode::Bind | Mode::PreferredMany) => {
                    drop(piece.attrs.object);
                    self.set_policy(piece.start..end, policy.with_home(node))?;
                    any = true;
                }
                Some(_) => return Err(VmError::Invalid),
            }
            at = end;
            between_pieces();
        }
        Ok(any)
    }
}
