//! The threads that those of one process trace, in a table. What is in it is let go by whoever takes it out, once.
#![forbid(unsafe_code)]

use super::Tracee;
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::process::Thread;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::{SpinLock, TryVec, lock_class};

lock_class! { static TRACEES: LockClass = ("traced by a process", level::Tracees); }

/// Tracees that a tracer which ends looks at before others may run.
pub(super) const PART: usize = 64;

/// A place in a table.
pub(super) enum Place {
    Used(Arc<Tracee>),
    /// And the next free one.
    Free(u32),
}

pub(super) const NO_PLACE: u32 = u32::MAX;

pub(super) struct Table {
    pub(super) places: Vec<Place>,
    free: u32,
    pub(super) used: u32,
}

/// The threads that the threads of one process trace.
pub struct Tracees {
    /// Are there any? For looks without the lock.
    pub(super) any: AtomicBool,
    /// The process has ended, and its tracer has not waited for that yet.
    pub(super) holds_end: AtomicBool,
    /// The process's leader was traced by its parent when it ended.
    pub(super) ended_traced: AtomicBool,
    /// Rises when a wait may find something else than before.
    changes: AtomicU32,
    pub(super) table: SpinLock<Table, level::Tracees>,
}

impl Tracees {
    pub const fn new() -> Self {
        let table = Table { places: Vec::new(), free: NO_PLACE, used: 0 };
        Self {
            any: AtomicBool::new(false),
            holds_end: AtomicBool::new(false),
            ended_traced: AtomicBool::new(false),
            changes: AtomicU32::new(0),
            table: SpinLock::new(table, &TRACEES),
        }
    }

    /// Are there any?
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Is the process's own end held back from its parent?
    pub fn holds_end(&self) -> bool {
        self.holds_end.load(Ordering::Acquire)
    }

    /// Did its parent trace the process's leader to the end?
    pub fn ended_traced(&self) -> bool {
        self.ended_traced.load(Ordering::Relaxed)
    }

    /// # Errors
    /// ENOMEM.
    pub(super) fn put(&self, tracee: &Arc<Tracee>) -> Result {
        let mut table = self.table.lock();
        let place = match table.free {
            NO_PLACE => {
                let place = table.places.len() as u32;
                table.places.try_push(Place::Used(tracee.clone()))?;
                place
            }
            free => {
                let at = table.places.get_mut(free as usize).ok_or(Errno::ENOMEM)?;
                if let Place::Free(next) = core::mem::replace(at, Place::Used(tracee.clone())) {
                    table.free = next;
                }
                free
            }
        };
        tracee.place.store(place, Ordering::Relaxed);
        table.used = table.used.wrapping_add(1);
        self.any.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Takes `tracee` out, which is let go then by the caller. False: it is not there.
    pub(super) fn take_out(&self, tracee: &Tracee) -> bool {
        let mut table = self.table.lock();
        let taken = table.take_out(tracee);
        if table.used == 0 {
            self.any.store(false, Ordering::Relaxed);
        }
        drop(table);
        taken.is_some()
    }

    /// The next tracee of `tracer` from place `from` on; `Some(None)`: none so far, and others follow.
    pub(super) fn next_of(&self, tracer: &Arc<Thread>, from: &mut usize) -> Option<Option<Arc<Tracee>>> {
        let table = self.table.lock();
        let rest = table.places.get(*from..).filter(|rest| !rest.is_empty())?;
        for place in rest.iter().take(PART) {
            *from = from.saturating_add(1);
            if let Place::Used(tracee) = place
                && Arc::ptr_eq(&tracee.tracer, tracer)
            {
                return Some(Some(tracee.clone()));
            }
        }
        Some(None)
    }

    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

impl Table {
    pub(super) fn take_out(&mut self, tracee: &Tracee) -> Option<Arc<Tracee>> {
        let n = tracee.place.load(Ordering::Relaxed);
        let place = self.places.get_mut(n as usize)?;
        if !matches!(place, Place::Used(this) if core::ptr::eq(&**this, tracee)) {
            return None;
        }
        let Place::Used(taken) = core::mem::replace(place, Place::Free(self.free)) else { return None };
        self.free = n;
        self.used = self.used.wrapping_sub(1);
        Some(taken)
    }
}
