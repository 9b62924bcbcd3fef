//! The pages of a leaf are gathered in one block, so that the leaf is large (madvise(2), MADV_COLLAPSE).
//!
//! A few pages at a time move into the block's frames, each to its place there; where there is none, a page of zeros comes. All these entries are busy meanwhile
//! (protocol/busy.rs), as where a page moves to another node (op/migrate.rs): nobody writes a page that is copied. When all lie in the block the leaf is looked at once
//! more and becomes large (`Locked::join_block`). Whatever else is done to the leaf meanwhile is not kept from it; then the pages that have moved stay where they are,
//! as single pages, and the rest of the block goes back.
//!
//! Invariants: NothingSlowUnderLeaf, CopyBeforeWrite, FreeAfterFlush, BusyWhileFlushed, LinkUnderLeaf.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use crate::addr::{ENTRIES, LEAF_SPAN, VirtAddr};
use crate::error::FaultError;
use crate::frame::{BlockFrames, Frame, OwnedFrame, pin};
use crate::large::LARGE_COUNTS;
use crate::machine::{FlushCause, FlushRange, Machine};
use crate::node::flush::Flushed;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::node::{Locked, Retired, Taken, WalkPath};
use crate::order::{self, Order};
use crate::policy::{Place, Policy};
use crate::protocol::busy;
use crate::request::{Access, Prot};
use crate::space::Space;
use crate::token;
use arrayvec::ArrayVec;
use sync::machine::give_way;
use sync::rcu::{self, RcuRead};

/// What became of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collapsed {
    /// It is one large page.
    Done,
    /// Nothing in it can be written without a fault: there is no page, or others have them all.
    NothingWritable,
    /// Not all of it is one mapping of private memory that may be written and does not refuse large pages.
    Refused,
    /// Others changed it meanwhile.
    Busy,
    /// There is no block.
    NoMemory,
    /// A fatal signal came.
    Interrupted,
}

/// Pages that move together, with the leaf locked once and one flush: 64 KiB.
const RUN: u16 = 16;
/// Times that a run is tried while others change it.
const TRIES: u32 = 8;

/// A page on its way into the block.
struct Moving {
    index: u16,
    /// What was there: a private page, the page of zeros, or nothing.
    old: Taken,
    /// The private page.
    source: Option<&'static Frame>,
    new: OwnedFrame,
}

/// What a look at the leaf came to.
enum Step {
    GoOn,
    Again,
    /// The page at this address is in swap.
    InSwap(usize),
    End(Collapsed),
}

impl<M: Machine> Space<M> {
    /// Makes one large page of the leaf at `base`. May sleep.
    pub fn collapse(&self, base: VirtAddr) -> Collapsed {
        let base = base.0;
        if !base.is_multiple_of(LEAF_SPAN) || base >= M::USER_END {
            return Collapsed::Refused;
        }
        match self.place_of_collapse(base) {
            Ok(place) => self.collapse_into(base, place),
            Err(known) => known,
        }
    }

    fn collapse_into(&self, base: usize, place: Place) -> Collapsed {
        let Some(block) = place.try_block() else {
            LARGE_COUNTS.this().gather_lacked.add(1);
            return Collapsed::NoMemory;
        };
        LARGE_COUNTS.this().gathered.add(1);
        let mut frames = BlockFrames::new(block);
        let mut first = 0;
        let mut tries = 0;
        while usize::from(first) < ENTRIES {
            let moved = {
                let _token = token::hold();
                let rcu = rcu::read();
                self.move_run(base, first, place.policy, &mut frames, &mut order::begin(), &rcu)
            };
            match moved {
                Step::GoOn => {
                    first = first.saturating_add(RUN);
                    tries = 0;
                }
                Step::Again if tries < TRIES => tries = tries.saturating_add(1),
                Step::Again => return Collapsed::Busy,
                Step::InSwap(addr) => {
                    match self.fault(VirtAddr(addr), Access { foreign: true, ..Access::READ }) {
                        Ok(()) => {}
                        Err(FaultError::NoMemory | FaultError::NoneBound) => return Collapsed::NoMemory,
                        Err(_) => return Collapsed::Busy,
                    }
                }
                Step::End(result) => return result,
            }
            if give_way() {
                return Collapsed::Interrupted;
            }
        }
        // A thread that goes on alone has none as yet.
        self.use_views();
        self.want_view();
        let _token = token::hold();
        let rcu = rcu::read();
        self.join(base, place.policy, &mut order::begin(), &rcu)
    }

    /// Where the block for the leaf at `base` comes from; an error: what is known without one.
    fn place_of_collapse(&self, base: usize) -> Result<Place, Collapsed> {
        let rcu = rcu::read();
        let order = &mut order::begin();
        loop {
            let path = WalkPath::walk::<M>(self.root(), base, &rcu);
            if !path.node().is_leaf() {
                return Err(Collapsed::NothingWritable);
            }
            let Some(locked) = path.enter::<M>(order) else { continue };
            if locked.is_large() {
                return Err(Collapsed::Done);
            }
            let Some(attrs) = self.may_collapse(&locked) else { return Err(Collapsed::Refused) };
            let is_writable = |index| M::is_writable(locked.entry(index)) && locked.entry(index).is_private();
            if !path.is_exclusive::<M>(&locked) || !locked.used().any(is_writable) {
                return Err(Collapsed::NothingWritable);
            }
            return Ok(Place { policy: attrs.policy, ..Place::of_anonymous(base) });
        }
    }

    /// The attributes of a leaf that may be made large, whatever the machine's mode.
    fn may_collapse<'l>(&self, leaf: &'l Locked<'_>) -> Option<&'l MappingAttrs> {
        let [only] = leaf.segments.as_slice() else { return None };
        let is_whole = only.start == 0 && usize::from(only.end) == ENTRIES;
        let attrs = &only.attrs;
        let refuses =
            attrs.flags.intersects(SegFlags::NO_LARGE | SegFlags::QUARANTINE) || self.refuses_large();
        (is_whole && !refuses && attrs.object.is_none() && attrs.prot.contains(Prot::WRITE)).then_some(attrs)
    }

    /// The leaf at `base`, locked, if it is as [`Self::place_of_collapse`] found it.
    fn enter_to_collapse<'a, 'g: 'a>(
        &self,
        path: &WalkPath<'g>,
        policy: Policy,
        order: &'a mut Order<'_>,
    ) -> Result<(Locked<'a>, Prot), Step> {
        if !path.node().is_leaf() {
            return Err(Step::End(Collapsed::NothingWritable));
        }
        let Some(locked) = path.enter::<M>(order) else { return Err(Step::Again) };
        if locked.is_large() {
            return Err(Step::End(Collapsed::Done));
        }
        match self.may_collapse(&locked).filter(|attrs| attrs.policy == policy).map(|attrs| attrs.prot) {
            None => Err(Step::End(Collapsed::Refused)),
            // By a fork.
            Some(_) if !path.is_exclusive::<M>(&locked) => Err(Step::End(Collapsed::Busy)),
            Some(prot) => Ok((locked, prot)),
        }
    }

    /// Moves the pages from entry `first` of the leaf on into their frames of the block.
    fn move_run(
        &self,
        base: usize,
        first: u16,
        policy: Policy,
        frames: &mut BlockFrames,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Step {
        let run = first..first.saturating_add(RUN).min(ENTRIES as u16);
        let path = WalkPath::walk::<M>(self.root(), base, rcu);
        let leaf = path.node();
        let mut moving: ArrayVec<Moving, { RUN as usize }> = ArrayVec::new_const();
        let cpu = sync::cpu_id();
        let viewers = match self.enter_to_collapse(&path, policy, order) {
            Err(step) => return step,
            Ok((mut locked, _)) => {
                if run.clone().any(|index| busy::must_wait(locked.entry(index))) {
                    drop(locked);
                    sync::machine::relax();
                    return Step::Again;
                }
                if let Some(index) = run.clone().find(|index| locked.entry(*index).swap_place().is_some()) {
                    return Step::InSwap(leaf.address(index));
                }
                for index in run.clone() {
                    // One that has moved at a try before.
                    let Some(new) = frames.take(index) else { continue };
                    let source = locked.look(index).frame::<M>().filter(|_| locked.entry(index).is_private());
                    moving.push(Moving { index, old: locked.make_busy::<M>(index, cpu), source, new });
                }
                locked.viewers()
            }
        };
        let mut range = FlushRange::EMPTY;
        range.add(leaf.address(run.start), leaf.address(run.end));
        let flush = || Flushed::by_flushing::<M>(&self.tlb, range, &viewers, false, FlushCause::Move);
        let proof = busy::copy_unwritten(flush, || {
            for page in &mut moving {
                match page.source {
                    Some(source) => pin::copy(source, &mut page.new, rcu),
                    None => pin::clear(&mut page.new),
                }
            }
        });
        let mut locked = leaf.lock(order);
        let wanted = self.may_collapse(&locked).map(|attrs| attrs.prot);
        let is_own = path.is_current::<M>(&locked) && path.is_writable::<M>();
        let mut result = Step::GoOn;
        let mut removed: ArrayVec<Taken, { RUN as usize }> = ArrayVec::new_const();
        let mut unused: ArrayVec<OwnedFrame, { RUN as usize }> = ArrayVec::new_const();
        for Moving { index, old, new, .. } in moving {
            if !busy::is_own(locked.entry(index), cpu) {
                // Unmapped meanwhile.
                removed.push(old);
                unused.push(new);
                result = Step::Again;
            } else if let (Some(prot), true) = (wanted, is_own) {
                let _busy = locked.replace::<M>(index, new, prot);
                removed.push(old);
            } else {
                unused.push(new);
                result = Step::Again;
                let prot = locked.segments.find(index).map(|segment| segment.attrs.prot);
                match prot {
                    Some(prot) if !old.is_absent() && !locked.is_stray() => {
                        locked.put_back::<M>(index, old, prot);
                    }
                    _ => {
                        let _busy = locked.take::<M>(index);
                        removed.push(old);
                    }
                }
            }
        }
        drop(locked);
        removed.into_iter().for_each(|old| Retired::entry::<M>(old, proof));
        unused.into_iter().for_each(|frame| frames.put_back(frame));
        result
    }

    /// Makes the leaf at `base`, whose pages have all moved, large.
    fn join(&self, base: usize, policy: Policy, order: &mut Order<'_>, rcu: &RcuRead) -> Collapsed {
        if self.widen_view(base, order, rcu).is_err() {
            return Collapsed::NoMemory;
        }
        let path = WalkPath::walk::<M>(self.root(), base, rcu);
        match self.enter_to_collapse(&path, policy, order) {
            Err(Step::End(result)) => result,
            Err(_) => Collapsed::Busy,
            Ok((mut locked, prot)) => {
                // They may have translations of single pages, of which each gets rid before it has the large one (protocol/view.rs).
                let _viewers = self.unlink(&locked);
                if !locked.join_block::<M>(prot) {
                    return Collapsed::Busy;
                }
                // Else the next access does it; so it does where another process asked.
                if self.tlb.is_loaded() {
                    let _linked = self.link(&path, &mut locked, rcu);
                }
                Collapsed::Done
            }
        }
    }
}
