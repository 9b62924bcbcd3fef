//! The page fault: making good an access that the page table refused.
//!
//! Writes: this CPU's magazine and counters, the new frame's metadata, the leaf's lock and metadata, the entry, the page.
//!
//! Invariants: LeafOwns, NothingSlowUnderLeaf (the frame is taken and cleared before the lock, or the lock is dropped and the walk
//! repeated), ReadSlotUnderLeaf, CopyBeforeWrite, CountLocal.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

mod cow;
mod first;
mod large;
mod stack;

use crate::addr::VirtAddr;
use crate::error::{FaultError, VmError};
use crate::frame::{self, OwnedFrame, pin};
use crate::machine::Machine;
use crate::node::{Locked, MapObject};
use crate::object::ObjectRef;
use crate::order::{self, Order};
use crate::policy::{Place, Policy};
use crate::protocol::share::Write;
use crate::request::{Access, Prot};
use crate::space::{Space, Stop};
use crate::swap::SlotRef;
use crate::token;
use cow::CopyOf;
use sync::rcu::{self, RcuRead};
use sync::{Count, per_cpu};

/// Faults of one CPU by kind.
pub struct FaultCounts {
    /// Private memory touched for the first time: written, read.
    pub zero_fill: Count,
    pub zero_read: Count,
    /// Pages copied for a write.
    pub copy: Count,
    /// Pages made writable in place: nobody else refers to them.
    pub reuse: Count,
    /// Pages of objects mapped, those around a fault included, and faults that did it.
    pub object_pages: Count,
    pub object: Count,
    /// Faults that had to wait for an object's page.
    pub fill: Count,
    /// Another CPU or an earlier fault had done it.
    pub spurious: Count,
    pub refused: Count,
}

per_cpu! {
    /// Faults by kind, for /proc.
    pub static FAULTS: FaultCounts = FaultCounts {
        zero_fill: Count::new(), zero_read: Count::new(), copy: Count::new(), reuse: Count::new(),
        object_pages: Count::new(), object: Count::new(), fill: Count::new(), spurious: Count::new(),
        refused: Count::new(),
    };
}

/// What an attempt came to.
pub(crate) enum Step {
    Done,
    /// Something changed meanwhile, or was prepared: walk again.
    Again,
    /// The object has no frame for this page yet.
    Fill(ObjectRef, u64),
    /// This page of the object is to be marked dirty first.
    Dirty(ObjectRef, u64),
    /// The page is in swap.
    InSwap(SlotRef),
    /// The leaf has no private pages, and may get a large one.
    Large,
    /// Wait until the fork of this space is over.
    Forking,
    /// Nothing is mapped there, as yet: a stack may grow.
    Unmapped,
}

/// A frame taken beforehand, and whether it is known to be zero.
pub(crate) struct Spare {
    pub frame: OwnedFrame,
    pub zero: bool,
    /// By which it came from where it does. One fault concerns one page, so its place is known.
    pub policy: Policy,
}

impl Spare {
    /// A frame of zeros for `place`.
    #[inline(always)]
    fn zeroed(place: Place) -> Result<Spare, FaultError> {
        let frame = place.alloc_zeroed().ok_or_else(|| place.exhausted())?;
        Ok(Spare { frame, zero: true, policy: place.policy })
    }

    /// Takes a frame of zeros for `place` into `spare`, or clears the one that is there, if that came by the same policy.
    #[cold]
    pub fn want_zero(spare: &mut Option<Spare>, place: Place) -> Result<(), FaultError> {
        match spare {
            Some(s) if s.policy != place.policy => *spare = None,
            Some(s) => {
                if !s.zero {
                    pin::clear(&mut s.frame);
                    s.zero = true;
                }
                return Ok(());
            }
            None => {}
        }
        *spare = Some(Self::zeroed(place)?);
        Ok(())
    }

    pub fn want_any(spare: &mut Option<Spare>, place: Place) -> Result<(), FaultError> {
        if spare.as_ref().is_none_or(|s| s.policy != place.policy) {
            *spare = None;
            let frame = place.alloc_dirty().ok_or_else(|| place.exhausted())?;
            *spare = Some(Spare { frame, zero: false, policy: place.policy });
        }
        Ok(())
    }
}

impl<M: Machine> Space<M> {
    /// Makes `access` to `addr` possible or says why it is not. May sleep.
    pub fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), FaultError> {
        let first = if access.write { self.fill_at_first_write(addr.0) } else { Err(None) };
        match first {
            Ok(()) => Ok(()),
            Err(zeroed) => self.fault_of_any_kind(addr, access, zeroed),
        }
    }

    /// With a page of zeros, if one was taken before.
    #[inline(never)]
    fn fault_of_any_kind(
        &self,
        addr: VirtAddr,
        access: Access,
        zeroed: Option<OwnedFrame>,
    ) -> Result<(), FaultError> {
        let mut spare = zeroed.map(|frame| Spare { frame, zero: true, policy: Policy::NONE });
        let result = self.fault_with(addr.0, access, &mut spare);
        if result.is_err() {
            FAULTS.this().refused.add(1);
        }
        result
    }

    fn fault_with(&self, addr: usize, access: Access, spare: &mut Option<Spare>) -> Result<(), FaultError> {
        if addr >= M::USER_END {
            return Err(FaultError::NotMapped);
        }
        if self.has_views() {
            self.want_view();
        }
        let mut order = order::begin();
        loop {
            let step = {
                let _token = token::hold();
                let rcu = rcu::read();
                self.try_fault(addr, access, spare, &mut order, &rcu)?
            };
            match step {
                Step::Done => return Ok(()),
                Step::Again => {}
                Step::Fill(object, page) => {
                    FAULTS.this().fill.add(1);
                    object.fill(page)?;
                }
                Step::Dirty(object, page) => object.make_dirty(page)?,
                Step::Large => {
                    let _token = token::hold();
                    if self.fault_large(addr, spare, &mut order)? {
                        return Ok(());
                    }
                }
                Step::InSwap(slot) => self.page_in(addr, slot, spare, &mut order)?,
                Step::Forking => self.wait_for_fork(),
                Step::Unmapped => self.grow_stack(addr, !access.foreign)?,
            }
        }
    }

    fn try_fault(
        &self,
        addr: usize,
        access: Access,
        spare: &mut Option<Spare>,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Result<Step, FaultError> {
        let Some(path) = self.reach(addr, false, order, rcu).map_err(no_memory)? else {
            return Ok(Step::Unmapped);
        };
        let leaf = path.node();
        let index = leaf.index(addr);
        if access.write && spare.is_none() && !leaf.maps_objects() && leaf.peek(index).is_absent() {
            if leaf.counts().private() == 0 && self.may_want_large() {
                return Ok(Step::Large);
            }
            // Most likely without a policy of its own.
            *spare = Some(Spare::zeroed(Place::of_anonymous(addr))?);
        }
        let Some(mut locked) = path.enter::<M>(order) else { return Ok(Step::Again) };
        if self.has_views() && !self.link(&path, &mut locked, rcu) {
            drop(locked);
            self.widen_view(addr, order, rcu).map_err(no_memory)?;
            return Ok(Step::Again);
        }
        let Some(segment) = locked.segments.find(index) else { return Ok(Step::Unmapped) };
        if segment.attrs.is_quarantine() {
            return Err(FaultError::NotMapped);
        }
        let prot = segment.attrs.prot;
        if !access.allowed(prot) && !access.is_forced_on(segment.attrs.is_shared()) {
            return Err(FaultError::Denied);
        }
        let entry = locked.entry(index);
        if entry.is_away() {
            return Ok(find_away(locked, index));
        }
        if !access.write {
            if !entry.is_absent() {
                FAULTS.this().spurious.add(1);
                return Ok(Step::Done);
            }
            if segment.attrs.object.is_none() {
                locked.fill_zero_page::<M>(index, prot);
                FAULTS.this().zero_read.add(1);
                return Ok(Step::Done);
            }
            return Ok(map_object::<M>(&mut locked, index));
        }
        if !path.is_writable::<M>() {
            drop(locked);
            return match self.unshare_leaf(&path, order) {
                Ok(()) => Ok(Step::Again),
                Err(Stop::Forking | Stop::GiveWay) => Ok(Step::Forking),
                Err(Stop::Failed(e)) => Err(no_memory(e)),
            };
        }
        let shared = segment.attrs.is_shared();
        if entry.is_absent() {
            if segment.attrs.object.is_none() {
                let policy = segment.attrs.policy;
                return fill_zero::<M>(locked, (index, addr), prot, policy, spare);
            }
            if shared {
                let is_tracked = segment.attrs.is_tracked();
                let step = map_object::<M>(&mut locked, index);
                // It is there, and cannot be written yet.
                return Ok(if is_tracked && matches!(step, Step::Done) { Step::Again } else { step });
            }
            let Some((object, page)) = segment.object_page(index) else { return Ok(Step::Again) };
            let source = if page < object.pages() { object.frame(page) } else { None };
            let Some(source) = source else { return Ok(Step::Fill(object.clone(), page)) };
            let place = segment.place(index, leaf.address(index));
            drop(locked);
            let page = CopyOf { index, old: entry, source, pinned: None, forced: access.forced, place };
            return self.copy_page(&path, page, spare, order, rcu);
        }
        let shown = locked.look(index);
        match shown.write::<M>(segment, &self.forking) {
            Write::There => {
                FAULTS.this().spurious.add(1);
                return Ok(Step::Done);
            }
            Write::InPlace => {
                FAULTS.this().reuse.add(1);
                return Ok(Step::Done);
            }
            Write::Wait => return Ok(Step::Forking),
            Write::Copy => {}
            Write::Dirty => {
                let Some((object, page)) = segment.object_page(index) else { return Ok(Step::Again) };
                return Ok(Step::Dirty(object.clone(), page));
            }
        }
        let Some(source) = shown.frame::<M>() else { return Ok(Step::Again) };
        if spare.is_none()
            && leaf.counts().private() == 0
            && core::ptr::eq(source, frame::zero_frame())
            && self.may_want_large()
        {
            return Ok(Step::Large);
        }
        let place = segment.place(index, leaf.address(index));
        let page =
            CopyOf { index, old: *shown, source, pinned: shown.pin::<M>(), forced: access.forced, place };
        drop(locked);
        self.copy_page(&path, page, spare, order, rcu)
    }
}

/// The page of entry `index` is busy, or in swap.
#[cold]
#[inline(never)]
fn find_away(leaf: Locked<'_>, index: u16) -> Step {
    let slot = leaf.look(index).hold_slot();
    drop(leaf);
    if slot.is_none() {
        sync::machine::relax();
    }
    slot.map_or(Step::Again, Step::InSwap)
}

/// Puts the prepared frame of zeros in, for private memory with that policy.
#[inline(always)]
fn fill_zero<M: Machine>(
    mut leaf: Locked<'_>,
    (index, addr): (u16, usize),
    prot: Prot,
    policy: Policy,
    spare: &mut Option<Spare>,
) -> Result<Step, FaultError> {
    match spare.take_if(|s| s.zero && s.policy == policy) {
        Some(s) => {
            leaf.fill_owned::<M>(index, s.frame, prot);
            FAULTS.this().zero_fill.add(1);
            Ok(Step::Done)
        }
        None => {
            drop(leaf);
            Spare::want_zero(spare, Place { policy, ..Place::of_anonymous(addr) })?;
            Ok(Step::Again)
        }
    }
}

/// Maps the page of the object at `index`, and its neighbours.
fn map_object<M: Machine>(leaf: &mut Locked<'_>, index: u16) -> Step {
    match leaf.map_object::<M>(index) {
        MapObject::Mapped(pages) => {
            let counts = FAULTS.this();
            counts.object.add(1);
            counts.object_pages.add(u64::from(pages));
            Step::Done
        }
        MapObject::NotResident(object, page) => Step::Fill(object, page),
        MapObject::Nothing => Step::Again,
    }
}

pub(crate) fn no_memory(e: VmError) -> FaultError {
    match e {
        VmError::NoMemory => FaultError::NoMemory,
        _ => FaultError::NotMapped,
    }
}
