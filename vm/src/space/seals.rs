//! Sealed mappings (mseal) beside changes of mappings by other threads. What is sealed is not unmapped, replaced, moved or protected otherwise: a
//! change of a range that has a seal is refused before it begins, and nothing is sealed while such a change is half way.
//!
//! Who changes mappings writes nothing for that, unless the space has seals or the change stops half way for another thread to run.
//!
//! ```text
//!   a change, in each RCU read section           who seals
//!   looks whether the space has seals            says that the space has seals, and that somebody seals
//!   no: changes what it can                      waits for a grace period
//!       stops half way? counts itself first      waits until no change is counted
//!   yes, and nothing changed yet: begins anew    looks whether all is mapped, seals it
//!       as below                                 says that nobody seals
//!
//!   a change where there are seals
//!   in a read section: somebody seals? waits for that. No: counts itself
//!   looks for seals in its range, and changes it or is refused; is counted no more
//! ```
//!
//! - A change that saw no seals has ended its read section before the grace period did. By then it is made whole, or counted and waited for. So it comes before the seal, as a
//!   whole, and who seals sees what it did.
//! - A change that is counted began while nobody sealed, and who seals waits for it: the seals that it looked for stay as they are until it has ended.
//! - Moves (mremap) and forks do not count themselves: who seals stops both as a fork stops moves (moving.rs). Counting is `sync::protocol::readers`.
//! - A space of one thread has nobody to wait for.
//!
//! Lock order: `exact` → moving → `sealing` → layout → node. A counted change takes neither of the first two.
#![forbid(unsafe_code)]

use super::Space;
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::order::{self, Seals as SealsLevel};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::protocol::readers;
use sync::rcu::{self, RcuRead};
use sync::{Mutex, MutexGuard, lock_class};

lock_class! { static SEALING: LockClass = ("mappings to be sealed", SealsLevel); }

/// Of a space.
pub(crate) struct Seals {
    /// It has some, or is about to. That stays said, and children of fork inherit it.
    any: AtomicBool,
    /// A thread seals. Changes that have not begun wait.
    is_on: AtomicBool,
    /// Held by who seals.
    sealing: Mutex<(), SealsLevel>,
    /// Changes that could not be counted with their CPU, since there was no memory for that.
    elsewhere: AtomicU32,
}

impl Seals {
    pub const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            sealing: Mutex::new((), &SEALING),
            elsewhere: AtomicU32::new(0),
        }
    }

    /// Has the space seals? False: certainly not, and until the read section ends that is open there are none.
    #[inline(always)]
    pub fn are_there(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// For the space of a child of fork, which nobody knows yet.
    pub fn inherit(&self, parent: &Seals) {
        self.any.store(parent.are_there(), Ordering::Relaxed);
    }
}

/// A change of mappings that is counted: while it is there nothing is sealed.
pub(crate) struct Changing<'a, M: Machine> {
    space: &'a Space<M>,
    /// With a CPU.
    by_cpu: bool,
}

impl<M: Machine> Drop for Changing<'_, M> {
    fn drop(&mut self) {
        match self.space.spans.changes_here().filter(|_| self.by_cpu) {
            Some(count) => count.close(),
            None => _ = self.space.seals.elsewhere.fetch_sub(1, Ordering::Release),
        }
    }
}

/// While it is there, changes wait and the holder may seal.
pub(crate) struct Sealing<'a> {
    seals: &'a Seals,
    _sealing: MutexGuard<'a, (), SealsLevel>,
}

impl Drop for Sealing<'_> {
    fn drop(&mut self) {
        self.seals.is_on.store(false, Ordering::Release);
    }
}

/// Is it sealed?
pub(crate) fn is_sealed(attrs: &MappingAttrs) -> bool {
    attrs.flags.contains(SegFlags::SEALED)
}

impl<M: Machine> Space<M> {
    /// Makes a `change` of what is mapped in `range` that seals refuse, unless one does: `refuses` says of which mappings. `change` is told whether it has to heed seals
    /// ([`super::range::RangeOp::heeds_seals`]); it may be called a second time, if it ended with `Sealed` the first time. May sleep.
    ///
    /// # Errors
    /// `Sealed`: nothing has changed. Those of `change`.
    #[inline]
    pub(crate) fn unless_sealed<R>(
        &self,
        range: &Range<usize>,
        refuses: &dyn Fn(&MappingAttrs) -> bool,
        mut change: impl FnMut(bool) -> Result<R, VmError>,
    ) -> Result<R, VmError> {
        let mut changing = None;
        let mut heeds = true;
        if self.seals.are_there() {
            changing = self.look_for_seals(range, refuses)?;
            heeds = false;
        }
        loop {
            match change(heeds) {
                Err(VmError::Sealed) if heeds => {
                    changing = self.look_for_seals(range, refuses)?;
                    heeds = false;
                }
                result => {
                    drop(changing);
                    return result;
                }
            }
        }
    }

    /// Starts a change that nothing in `range` refuses.
    #[cold]
    #[inline(never)]
    fn look_for_seals(
        &self,
        range: &Range<usize>,
        refuses: &dyn Fn(&MappingAttrs) -> bool,
    ) -> Result<Option<Changing<'_, M>>, VmError> {
        let changing = self.start_changing();
        match self.find_piece(range.start, range.end, refuses, &mut order::begin()) {
            Some(_) => Err(VmError::Sealed),
            None => Ok(changing),
        }
    }

    /// While the result is there nobody seals anything. No lock from `sealing` on is held. May sleep.
    pub(crate) fn start_changing(&self) -> Option<Changing<'_, M>> {
        if !self.multithreaded.load(Ordering::Relaxed) {
            return None;
        }
        self.spans.prepare();
        loop {
            let read = rcu::read();
            if !self.seals.is_on.load(Ordering::Acquire) {
                return Some(self.count_change(&read));
            }
            drop(read);
            drop(self.seals.sealing.lock());
        }
    }

    /// The same of a change that is half way, and has seen no seals in the open read section.
    #[cold]
    pub(crate) fn keep_changing(&self, read: &RcuRead) -> Option<Changing<'_, M>> {
        self.multithreaded.load(Ordering::Relaxed).then(|| self.count_change(read))
    }

    fn count_change(&self, _read: &RcuRead) -> Changing<'_, M> {
        let count = self.spans.changes_here();
        match count {
            Some(count) => count.open(),
            None => _ = self.seals.elsewhere.fetch_add(1, Ordering::Relaxed),
        }
        Changing { space: self, by_cpu: count.is_some() }
    }

    /// While the result is there the caller may seal: no change that seals refuse is under way. May sleep.
    pub(crate) fn start_sealing(&self) -> Sealing<'_> {
        let seals = &self.seals;
        let sealing = Sealing { seals, _sealing: seals.sealing.lock() };
        let several = self.multithreaded.load(Ordering::Relaxed);
        seals.is_on.store(several, Ordering::SeqCst);
        seals.any.store(true, Ordering::SeqCst);
        if several {
            rcu::synchronize();
            while self.has_changes() {
                // Not giving way alone: who changes something may be of lower priority.
                rcu::sleep_a_period();
            }
        }
        sealing
    }

    fn has_changes(&self) -> bool {
        self.seals.elsewhere.load(Ordering::Acquire) != 0 || readers::open(|| self.spans.each_changes()) != 0
    }
}
