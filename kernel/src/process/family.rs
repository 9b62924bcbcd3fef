//! Parents and children.
//!
//! A child's birth, death and stopping are made known under its parent's `children` lock. When a parent exits it hands its
//! children over: they name the new parent first and appear on its list after, so a child that dies in between tells the
//! new parent, which is woken again once the child is on its list.
//!
//! LockOrder: `children` → `parent` of a child, the signals of the process. Never two `children` locks at once.
#![forbid(unsafe_code)]

use super::{Pid, Process, ids};
use crate::errno::Result;
use crate::lock_order as level;
use crate::sched::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use sync::level::{Before, Held};
use sync::{SpinGuard, SpinLock, TryVec, lock_class};

lock_class! {
    static CHILDREN: LockClass = ("process children", level::ProcessChildren);
    static PARENT: LockClass = ("process parent", level::ProcessParent);
}

/// A process's place among its kin.
pub struct Family {
    parent_pid: AtomicU32,
    parent: SpinLock<Option<Arc<Process>>, level::ProcessParent>,
    children: SpinLock<Vec<Arc<Process>>, level::ProcessChildren>,
    /// Threads that wait for a child to change.
    pub events: WaitQueue,
}

impl Family {
    pub fn new(parent: Option<Arc<Process>>) -> Self {
        Self {
            parent_pid: AtomicU32::new(parent.as_ref().map_or(0, |p| p.pid())),
            parent: SpinLock::new(parent, &PARENT),
            children: SpinLock::new(Vec::new(), &CHILDREN),
            events: WaitQueue::new(),
        }
    }

    pub fn parent_pid(&self) -> Pid {
        self.parent_pid.load(Ordering::Relaxed)
    }

    pub fn parent(&self) -> Option<Arc<Process>> {
        self.parent.lock().clone()
    }

    fn set_parent(
        &self,
        parent: Option<Arc<Process>>,
        order: &mut Held<'_, impl Before<level::ProcessParent>>,
    ) {
        self.parent_pid.store(parent.as_ref().map_or(0, |p| p.pid()), Ordering::Relaxed);
        let old = core::mem::replace(&mut *self.parent.lock_in(order), parent);
        drop(old);
    }

    pub fn children(&self) -> SpinGuard<'_, Vec<Arc<Process>>, level::ProcessChildren> {
        self.children.lock()
    }

    /// Adds a child.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn add(&self, child: Arc<Process>) -> Result {
        Ok(self.children.lock().try_push(child)?)
    }
}

/// Takes `child`, which is off its parent's list, out of the table of numbers.
pub fn forget(child: &Arc<Process>) {
    super::session::keep_number(child);
    child.id.withdraw_process();
    child.family.set_parent(None, &mut Held::clean());
}

/// A list of children is locked: what may be locked next.
pub type Order<'a> = Held<'a, level::ProcessChildren>;

/// The parent of `child`, with its list locked and checked to be the parent still; `f` says what has happened.
pub fn with_parent<R>(
    child: &Process,
    f: impl FnOnce(&Arc<Process>, &mut Vec<Arc<Process>>, &mut Order<'_>) -> R,
) -> Option<R> {
    loop {
        let parent = child.family.parent()?;
        let mut children = parent.family.children();
        if child.family.parent_pid() == parent.pid() {
            let (children, order) = children.split();
            return Some(f(&parent, children, order));
        }
    }
}

/// Gives the children of `process`, which exits, to the nearest ancestor that reaps orphans, or to the first process.
pub fn hand_over(process: &Arc<Process>) {
    if process.family.children().is_empty() {
        return;
    }
    let Some(heir) = heir_of(process) else { return };
    let orphans = core::mem::take(&mut *{
        let mut children = process.family.children();
        let (list, order) = children.split();
        for child in list.iter() {
            child.family.set_parent(Some(heir.clone()), order);
        }
        children
    });
    for orphan in orphans {
        let signal = orphan.death_signal.load(Ordering::Relaxed);
        if signal != 0 {
            super::signal::send::to_process(&orphan, super::signal::Info::user(signal, 0));
        }
        orphan.exit_signal.store(linux_raw_sys::general::SIGCHLD, Ordering::Relaxed);
        let kept = orphan.clone();
        if heir.family.add(orphan).is_err() {
            // No memory for the list: the orphan runs on and is released by itself when it dies.
            kept.exit_signal.store(0, Ordering::Relaxed);
        }
        if kept.is_zombie() {
            super::signal::send::child_event(&heir, &kept, super::wait::exit_event(&kept));
        }
    }
    heir.family.events.wake_all();
}

fn heir_of(process: &Arc<Process>) -> Option<Arc<Process>> {
    let mut ancestor = process.family.parent();
    while let Some(candidate) = ancestor {
        if candidate.pid() == 1 || (candidate.subreaper.load(Ordering::Relaxed) && !candidate.is_zombie()) {
            return Some(candidate);
        }
        ancestor = candidate.family.parent();
    }
    ids::find_process(1)
}
