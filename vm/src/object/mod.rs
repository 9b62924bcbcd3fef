//! Objects: what a file or a shared region holds. A radix array of slots and the lists of the leaves that map it.
//!
//! Invariants: ReadSlotUnderLeaf, RegisterBeforeMap, MatchBeforeClear; FreeAfterFlush — a frame leaves its slot only when no leaf
//! maps it and all CPUs have flushed, and is freed a grace period later, so that whoever reads a slot within an RCU section
//! may use the frame until the section ends.
//!
//! Lock order: `change` (a sleeping lock; truncation and growth) → reverse-map list → leaf.
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod allocate;
mod budget;
mod count;
mod dirty;
mod io;
mod list;
pub(crate) mod migrate;
pub mod pager;
mod policy;

pub mod rmap;
mod shed;
pub mod slots;
pub(crate) mod swap;
mod truncate;

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::error::{FaultError, VmError};
use crate::frame::{Frame, FrameKind};
use crate::node::{Locked, NodeRef};
use crate::order::Order;
use crate::order::{Object as ObjectLevel, ReverseMap as ReverseMapLevel};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use once_cell::race::OnceBox;

pub use budget::{Budget, BudgetKind, BudgetOwner, BudgetRef};
pub use count::ObjectPages;
pub use io::{Sink, Source};
pub use list::Pages;
use pager::Paging;
use rmap::{Leaves, Place, ReverseOps};
use shed::Gone;
use slots::{MAX_PAGES, Slots};
use sync::level::Held;
use sync::percpu_ref::{PerCpuArc, PerCpuOwner};
use sync::{AllocError, Mutex, lock_class};

lock_class! {
    static CHANGE: LockClass = ("vm object", ObjectLevel);
}

/// A reference to an object, counted on each CPU once several CPUs use it: all of them can map one file and write no common line.
pub type ObjectRef = PerCpuArc<Object>;

/// The object's owner, a file. An object without one has a shared count and lives as long as it is referred to.
pub type ObjectOwner = PerCpuOwner<Object>;

/// An object. Its pages are in memory or were never written: then they are zero; or they come from elsewhere (pager.rs).
pub struct Object {
    inode_number: usize,
    /// Bytes.
    size: AtomicU64,
    resident: AtomicU64,
    /// What its pages and tables are counted in.
    budget: Option<BudgetRef>,
    /// Tables that are counted there.
    tables: AtomicU64,
    slots: Slots,
    leaves: Leaves,
    /// Changes of the size.
    change: Mutex<(), ObjectLevel>,
    label: OnceBox<Label>,
    paging: Option<Box<Paging>>,
    policies: policy::Policies,
    /// Its pages are not moved (migrate.rs).
    stays: AtomicBool,
}

/// What those who make objects want to know of one again when they meet it in a mapping. Nothing here looks into it.
pub type Label = Arc<dyn Any + Send + Sync>;

crate::slab_type!(Object, "object", PerCpuArc);

impl Object {
    /// An object of size 0 and its owner. `inode_number` is 0 for memory without a file.
    pub fn try_owned(inode_number: usize) -> Result<ObjectOwner, VmError> {
        Self::try_owned_in(inode_number, None)
    }

    /// The same; its pages are counted in `budget`.
    #[inline]
    pub fn try_owned_in(inode_number: usize, budget: Option<BudgetRef>) -> Result<ObjectOwner, VmError> {
        Self::try_owned_with(inode_number, 0, budget, None)
    }

    #[inline(always)]
    fn try_owned_with(
        inode_number: usize,
        size: u64,
        budget: Option<BudgetRef>,
        paging: Option<Box<Paging>>,
    ) -> Result<ObjectOwner, VmError> {
        Ok(PerCpuOwner::try_slab(Self {
            inode_number,
            size: AtomicU64::new(size),
            resident: AtomicU64::new(0),
            budget,
            tables: AtomicU64::new(0),
            slots: Slots::new(),
            leaves: Leaves::new(),
            change: Mutex::new((), &CHANGE),
            label: OnceBox::new(),
            paging,
            policies: policy::Policies::new(),
            stays: AtomicBool::new(false),
        })?)
    }

    /// The same, but nobody owns it: it lives as long as it is referred to.
    pub fn try_new(inode_number: usize) -> Result<ObjectRef, VmError> {
        Ok(Self::try_owned(inode_number)?.share())
    }

    pub fn inode_number(&self) -> usize {
        self.inode_number
    }

    pub fn label(&self) -> Option<&Label> {
        self.label.get()
    }

    /// Sets the label, if there is none yet.
    pub fn set_label(&self, label: Box<Label>) {
        let _ = self.label.set(label);
    }

    /// What its pages are counted in.
    pub fn budget(&self) -> Option<&BudgetRef> {
        self.budget.as_ref()
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    /// Pages that the size reaches into.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.size.load(Ordering::SeqCst).div_ceil(PAGE_SIZE as u64)
    }

    /// Pages in memory.
    pub fn resident_pages(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// The frame of `page`, if it is resident, within an RCU section, which the frame outlives. To map it, see [`Self::resident`].
    #[inline]
    pub fn frame(&self, page: u64) -> Option<&'static Frame> {
        self.slots.get(page)?.frame()
    }

    /// Where the frame of `page` lies, if it is resident, for a leaf that is locked and shall have a copy of it.
    pub(crate) fn frame_for(&self, page: u64, leaf: &Locked<'_>) -> Option<PhysAddr> {
        self.slots.get(page)?.frame_for(leaf)
    }

    /// Puts the addresses of the resident ones of the pages from `first` on into `frames`, whose others stay as they are, for
    /// a leaf that is locked and shall map them, or does (ReadSlotUnderLeaf). Pages past the object's end are not resident.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    pub(crate) fn resident(&self, first: u64, frames: &mut [PhysAddr], leaf: &Locked<'_>) {
        let left =
            usize::try_from(self.pages().saturating_sub(first)).unwrap_or(usize::MAX).min(frames.len());
        let mut rest = frames.get_mut(..left).unwrap_or_default();
        let mut page = first;
        while !rest.is_empty() {
            let run = self.slots.run(page);
            // A place that was never made has nothing in it, up to the next last-level table.
            let len = run.map_or_else(|| slots::run_len(page), <[_]>::len).min(rest.len());
            let (now, later) = rest.split_at_mut(len);
            for (frame, slot) in now.iter_mut().zip(run.unwrap_or_default()) {
                if let Some(address) = slot.frame_for(leaf) {
                    *frame = address;
                }
            }
            rest = later;
            page += len as u64;
        }
    }

    /// The first of the pages `first..end` that is resident (`data`) or not. Goes by the tree: what has no place there is passed over whole. None
    /// as well where a fatal signal comes. May sleep.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    pub fn seek(&self, first: u64, end: u64, data: bool) -> Option<u64> {
        if self.is_paged() {
            return (data && first < end).then_some(first);
        }
        let mut page = first;
        while page < end {
            let found = match self.slots.run(page) {
                Some(run) => {
                    let at = run.iter().position(|slot| slot.holds() == data);
                    page += at.unwrap_or(run.len()) as u64;
                    at.is_some()
                }
                None if data => {
                    // At least one page on: another thread may have given this one a place just now.
                    page = self.slots.absent_until(page).max(page + 1);
                    false
                }
                None => true,
            };
            if found {
                return (page < end).then_some(page);
            }
            if sync::machine::give_way() {
                return None;
            }
        }
        None
    }

    /// Makes `page` resident, for a fault. May sleep.
    pub fn fill(&self, page: u64) -> Result<(), FaultError> {
        if page >= self.pages() {
            return Err(FaultError::Bus);
        }
        self.check_scarcity(page).and_then(|()| self.bring_in(page)).map_err(|e| match e {
            VmError::NoMemory => self.place(page).exhausted(),
            _ => FaultError::Bus,
        })?;
        if page >= self.pages() {
            // Truncation passed while the page was put in: either it saw the slot or this sees the size.
            let mut change = self.change.lock();
            self.evict_beyond(self.pages(), change.held());
            return Err(FaultError::Bus);
        }
        Ok(())
    }

    /// May `page` be added to what the object holds, at the cost of pages that can be read again if need be? May sleep. The pages of a file outlive the program that filled them, so files do not
    /// grow when memory is scarce; memory that only programs hold (`inode_number` 0) may take the last page, and so may what can be read again.
    fn check_scarcity(&self, page: u64) -> Result<(), VmError> {
        let stays = self.inode_number != 0 && !self.is_paged();
        let refused = stays && self.frame(page).is_none() && !pager::may_grow();
        if refused { Err(VmError::Full) } else { Ok(()) }
    }

    /// Makes `page` resident wherever the object ends. May sleep.
    fn bring_in(&self, page: u64) -> Result<(), VmError> {
        if page >= MAX_PAGES {
            return Err(VmError::Overflow);
        }
        let slot = self.slots.make(page, &|| self.charge_table())?;
        loop {
            if slot.frame().is_some() {
                return Ok(());
            }
            if slot.tagged().is_some() {
                // Who tagged it holds `change`.
                drop(self.change.lock());
                continue;
            }
            let asked = self.asked();
            if let Some(paging) = asked
                && self.page_in(paging, page)?
            {
                continue;
            }
            // A page past the end of an object that may become its own meanwhile: it is counted, or not, before and afterwards.
            let _change = asked.map(|_| self.change.lock());
            if asked.is_some() != self.is_paged() {
                continue;
            }
            if let Some(budget) = self.counted() {
                budget.charge(BudgetKind::Pages, 1)?;
            }
            let Some(new) = self.alloc_page(page) else {
                self.give_back_pages(1);
                return Err(VmError::NoMemory);
            };
            new.set_kind(FrameKind::Object);
            if slot.put(new).is_ok() {
                self.resident.fetch_add(1, Ordering::Relaxed);
                count::entered(asked.is_some(), 1);
                return Ok(());
            }
            self.give_back_pages(1);
        }
    }

    /// What its pages are counted in just now. That changes under `change`, and with it held nothing else does.
    #[inline]
    fn counted(&self) -> Option<&BudgetRef> {
        self.budget.as_ref().filter(|_| !self.is_paged())
    }

    fn give_back_pages(&self, n: u64) {
        if let Some(budget) = self.counted() {
            budget.give_back(BudgetKind::Pages, n);
        }
    }

    /// One more table, which stays as long as the object.
    fn charge_table(&self) -> Result<(), VmError> {
        if let Some(budget) = self.counted() {
            budget.charge(BudgetKind::Tables, 1)?;
            self.tables.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Keeps the size from shrinking while the result lives. May sleep.
    pub(crate) fn lock_size(&self) -> sync::MutexGuard<'_, (), ObjectLevel> {
        self.change.lock()
    }

    pub(crate) fn register(
        &self,
        node: NodeRef,
        pages: Pages,
        ops: &'static ReverseOps,
        order: &mut Order<'_>,
    ) -> Result<Place, AllocError> {
        self.leaves.register(node, pages, ops, order)
    }

    /// See [`Leaves::widen`].
    pub(crate) fn widen(
        &self,
        list: u32,
        order: &mut Order<'_>,
        find: impl FnOnce(&mut Held<'_, ReverseMapLevel>) -> Option<(u32, Pages)>,
    ) {
        self.leaves.widen(list, order, find);
    }

    pub(crate) fn unregister(&self, place: &Place, order: &mut Order<'_>) {
        self.leaves.unregister(place, order);
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // Nobody refers to the object, so no leaf names it in a segment and none maps it.
        let tables = *self.tables.get_mut();
        let is_paged = self.is_paged();
        let is_counted = self.counted().is_some();
        let budget = self.budget.take().filter(|_| is_counted).map(|budget| (budget, tables));
        self.slots.shed(Gone { budget, is_paged, was_mapped: self.leaves.were_used() });
    }
}

const _: () = assert!(1 << PAGE_SHIFT == PAGE_SIZE);
