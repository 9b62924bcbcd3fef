//! What is taken back when those who did it have ended (SEM_UNDO).
//!
//! Threads that share a list (CLONE_SYSVSEM) are, nearly always, all threads of a process: the process has it, and nothing is counted for that. A thread
//! that does not share it has one of its own, and a process that shares another's has the same list in its place; `sharers` counts the places.
//!
//! What a list has noted of a set (`Undo`) changes under the set's lock. An entry of a set that is gone is dropped when the list has doubled since the last look.
//!
//! Lock order: the list's lock is taken alone.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use sync::heap::try_box_slice;
use sync::{SpinLock, TryVec, lock_class, try_arc};

use super::Set;
use super::waiting::{self, Touched};
use crate::account::{Charge, Kind};
use crate::errno::{EIDRM, ENOMEM, Result};
use crate::fs::caller;
use crate::lock_order as level;

lock_class! {
    static LIST: LockClass = ("semaphores to undo", level::IpcUndo);
    static SLOT: LockClass = ("list of semaphores to undo", level::IpcUndo);
}

/// What somebody has to undo of one set.
pub struct Undo {
    set: Weak<Set>,
    /// For each semaphore what is to be added, and when it was noted (`values`).
    pub(super) noted: Box<[AtomicU64]>,
    _charge: Charge,
}

/// What those who share it have to undo.
pub struct List {
    entries: SpinLock<Entries, level::IpcUndo>,
    sharers: AtomicUsize,
}

#[derive(Default)]
struct Entries {
    /// In the order of the sets' numbers.
    all: Vec<(i32, Arc<Undo>)>,
    /// How long it may get before entries of sets that are gone are looked for.
    most: usize,
}

/// Where a process or a thread has its list.
pub struct Slot {
    /// It has or had one.
    used: AtomicBool,
    list: SpinLock<Option<Arc<List>>, level::IpcUndo>,
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    pub const fn new() -> Slot {
        Slot { used: AtomicBool::new(false), list: SpinLock::new(None, &SLOT) }
    }

    /// Where its list lies, which tells lists apart.
    pub fn place(&self) -> Option<usize> {
        if !self.used.load(Ordering::Relaxed) {
            return None;
        }
        self.list.lock().as_ref().map(|list| Arc::as_ptr(list).addr())
    }

    fn get_or_make(&self) -> Result<Arc<List>> {
        if let Some(list) = &*self.list.lock() {
            return Ok(list.clone());
        }
        let entries = SpinLock::new(Entries { all: Vec::new(), most: 8 }, &LIST);
        let new = try_arc(List { entries, sharers: AtomicUsize::new(1) })?;
        let mut list = self.list.lock();
        self.used.store(true, Ordering::Relaxed);
        Ok(list.get_or_insert(new).clone())
    }

    /// A place for somebody who shares this one's list (CLONE_SYSVSEM).
    ///
    /// # Errors
    /// ENOMEM.
    pub fn share(&self) -> Result<Slot> {
        let list = self.get_or_make()?;
        list.sharers.fetch_add(1, Ordering::Relaxed);
        Ok(Slot { used: AtomicBool::new(true), list: SpinLock::new(Some(list), &SLOT) })
    }

    /// Its owner ends or wants a new one: what nobody else shares is undone. No lock is held; may sleep.
    #[inline]
    pub fn end(&self) {
        if self.used.load(Ordering::Relaxed) {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&self) {
        let list = self.list.lock().take();
        if let Some(list) = list
            && list.sharers.fetch_sub(1, Ordering::AcqRel) == 1
        {
            list.undo();
        }
    }
}

impl Drop for Slot {
    /// One that was made for somebody who never came to be. What it shares others have, too.
    fn drop(&mut self) {
        if let Some(list) = self.list.get_mut().take() {
            list.sharers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl List {
    fn find(&self, set: &Arc<Set>) -> Option<Arc<Undo>> {
        let entries = self.entries.lock();
        let at = entries.all.binary_search_by_key(&set.id(), |(id, _)| *id).ok()?;
        let (_, undo) = entries.all.get(at)?;
        // Another set may have had the number.
        core::ptr::eq(undo.set.as_ptr(), Arc::as_ptr(set)).then(|| undo.clone())
    }

    fn find_or_make(&self, set: &Arc<Set>) -> Result<Arc<Undo>> {
        if let Some(undo) = self.find(set) {
            return Ok(undo);
        }
        let kib = 1u64.saturating_add(set.count as u64 / 128);
        let charge = Charge::try_new(caller::uid(), Kind::Ipc, kib, sync::quota::UNLIMITED);
        let undo = try_arc(Undo {
            set: Arc::downgrade(set),
            noted: try_box_slice(set.count, |_| AtomicU64::new(0))?,
            _charge: charge.map_err(|_| ENOMEM)?,
        })?;
        let mut entries = self.entries.lock();
        if entries.all.len() >= entries.most {
            entries.all.retain(|(_, undo)| undo.set.strong_count() > 0);
            entries.most = entries.all.len().saturating_mul(2).max(8);
        }
        match entries.all.binary_search_by_key(&set.id(), |(id, _)| *id) {
            Ok(at) => match entries.all.get_mut(at) {
                Some((_, other)) if core::ptr::eq(other.set.as_ptr(), Arc::as_ptr(set)) => Ok(other.clone()),
                Some((_, other)) => {
                    *other = undo.clone();
                    Ok(undo)
                }
                None => Ok(undo),
            },
            Err(at) => {
                entries.all.try_insert(at, (set.id(), undo.clone()))?;
                Ok(undo)
            }
        }
    }

    /// Takes all back. Gives way.
    fn undo(&self) {
        let all = core::mem::take(&mut self.entries.lock().all);
        let pid = caller::pid();
        for (_, undo) in all {
            if let Some(set) = undo.set.upgrade()
                && let Ok(mut state) = set.lock()
                && state.values.undo(&undo, pid)
            {
                waiting::settle(&set, state, Touched::All);
            }
            drop(undo);
            let _ = crate::sched::give_way();
        }
    }
}

/// What the running thread has to undo of `set`.
///
/// # Errors
/// ENOMEM. EIDRM: the set was removed meanwhile.
pub fn of_caller(set: &Arc<Set>) -> Result<Arc<Undo>> {
    let list = caller::current().undo().get_or_make()?;
    if set.state.lock().removed {
        return Err(EIDRM);
    }
    list.find_or_make(set)
}
