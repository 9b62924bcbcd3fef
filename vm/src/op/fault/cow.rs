//! Copying a page for a write.
//!
//! Invariants: NothingSlowUnderLeaf — the source is pinned, the leaf unlocked, the page copied, the leaf locked again and looked at
//! anew. CopyBeforeWrite. FreeAfterFlush, and BusyWhileFlushed: where other CPUs may hold the old translation the entry is *busy* while
//! they flush, and faults on it wait (protocol/busy.rs).
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use super::{FAULTS, Spare, Step};
use crate::error::FaultError;
use crate::frame::{self, Frame, Pin, pin};
use crate::machine::{CpuSet, Entry, FlushCause, FlushRange, Machine};
use crate::node::flush::Flushed;
use crate::node::{Locked, Retired, WalkPath};
use crate::order::Order;
use crate::policy::Place;
use crate::protocol::{busy, evict};
use crate::request::Prot;
use crate::space::Space;
use core::sync::atomic::Ordering;
use sync::rcu::RcuRead;

/// A page to be copied.
pub(crate) struct CopyOf {
    pub index: u16,
    /// Its entry a moment ago, when the leaf was locked.
    pub old: Entry,
    pub source: &'static Frame,
    /// Keeps a private source from being freed, and from being taken for one with the only reference. A pooled page and an object's
    /// outlive the RCU section (FreeAfterFlush); a reference to it would be a line that all who copy it write.
    pub pinned: Option<Pin>,
    /// It is written though the program may not (`Access::forced`).
    pub forced: bool,
    pub place: Place,
}

impl<M: Machine> Space<M> {
    /// Gives a private page of the leaf at `path` a copy of what it shows or is to show.
    #[expect(clippy::arithmetic_side_effects, reason = "addresses in a leaf")]
    pub(crate) fn copy_page(
        &self,
        path: &WalkPath<'_>,
        page: CopyOf,
        spare: &mut Option<Spare>,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Result<Step, FaultError> {
        let leaf = path.node();
        let CopyOf { index, old, source, pinned, forced, place } = page;
        if core::ptr::eq(source, frame::zero_frame()) {
            Spare::want_zero(spare, place)?;
        } else {
            Spare::want_any(spare, place)?;
            if let Some(s) = spare {
                pin::copy(source, &mut s.frame, rcu);
                s.zero = false;
            }
        }
        let mut locked = leaf.lock(order);
        let unchanged = busy::is_unchanged::<M>(locked.entry(index), old);
        let Some(prot) = self.writable_prot(path, &locked, index, forced).filter(|_| unchanged) else {
            return Ok(Step::Again);
        };
        if old.is_absent() {
            // Nothing was mapped, so nothing is to be flushed; but the object may have given the page up meanwhile.
            let now = locked.segments.find(index).and_then(|s| {
                let (object, page) = s.object_page(index)?;
                object.frame_for(page, &locked)
            });
            if evict::is_still(now, source.addr())
                && let Some(s) = spare.take()
            {
                locked.fill_owned::<M>(index, s.frame, prot);
                FAULTS.this().copy.add(1);
                return Ok(Step::Done);
            }
            return Ok(Step::Again);
        }
        let start = leaf.address(index);
        let mut range = FlushRange::EMPTY;
        range.add(start, leaf.address(index + 1));
        let viewers = locked.viewers();
        if busy::at_once(self.runs_elsewhere(&viewers)) {
            let Some(s) = spare.take() else { return Ok(Step::Again) };
            let old = locked.replace::<M>(index, s.frame, prot);
            drop(locked);
            let proof = Flushed::by_flushing::<M>(&self.tlb, range, &viewers, false, FlushCause::CopyPage);
            Retired::entry::<M>(old, proof);
            drop(pinned);
            FAULTS.this().copy.add(1);
            return Ok(Step::Done);
        }
        let cpu = sync::cpu_id();
        let old = locked.make_busy::<M>(index, cpu);
        drop(locked);
        let proof = Flushed::by_flushing::<M>(&self.tlb, range, &viewers, false, FlushCause::CopyPage);
        let mut locked = leaf.lock(order);
        if busy::is_own(locked.entry(index), cpu) {
            let prot = self.writable_prot(path, &locked, index, forced);
            match (prot, spare.take()) {
                (Some(prot), Some(s)) => {
                    let _busy = locked.replace::<M>(index, s.frame, prot);
                    FAULTS.this().copy.add(1);
                }
                (_, unused) => {
                    *spare = unused;
                    // Shared by a fork, or protected meanwhile. A private page goes back; others are found again.
                    let mapped = locked.segments.find(index).map(|segment| segment.attrs.prot);
                    if let Some(prot) = mapped
                        && old.is_private()
                        && !locked.is_stray()
                    {
                        locked.put_back::<M>(index, old, prot);
                        return Ok(Step::Again);
                    }
                    let _busy = locked.take::<M>(index);
                }
            }
            drop(locked);
            Retired::entry::<M>(old, proof);
            drop(pinned);
            return Ok(Step::Again);
        }
        // Unmapped meanwhile.
        drop(locked);
        Retired::entry::<M>(old, proof);
        drop(pinned);
        Ok(Step::Again)
    }

    /// Might another CPU use the space through a leaf that `viewers` link to? Not where its only thread is the caller, though it may have left translations elsewhere:
    /// they are flushed before it runs there again.
    #[inline]
    fn runs_elsewhere(&self, viewers: &CpuSet) -> bool {
        let is_alone = !self.multithreaded.load(Ordering::Relaxed) && self.tlb.is_loaded();
        !is_alone && self.tlb.others(viewers)
    }

    /// The protection of `index`, if the leaf is still this space's own and the page is private and may be written, or is all the same if `forced`.
    fn writable_prot(
        &self,
        path: &WalkPath<'_>,
        leaf: &Locked<'_>,
        index: u16,
        forced: bool,
    ) -> Option<Prot> {
        if !path.is_current::<M>(leaf) || !path.is_writable::<M>() {
            return None;
        }
        let attrs = &leaf.segments.find(index)?.attrs;
        let usable = !attrs.is_shared() && !attrs.is_quarantine();
        (usable && (forced || attrs.prot.contains(Prot::WRITE))).then_some(attrs.prot)
    }
}
