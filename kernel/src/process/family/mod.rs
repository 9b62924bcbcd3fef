//! Parents and children.
//!
//! A child's birth, death and stopping are published under its parent's `children` lock. When a parent exits, its children get a
//! new parent, the reaper. A child first names the reaper as its parent and is then put on the reaper's list. A child that dies in
//! between tells the reaper, which is woken again once the child is on its list.
//!
//! LockOrder: `children` → `parent` of a child, the signals of the process. Never two `children` locks at once.
#![forbid(unsafe_code)]

pub mod wait;

use super::{Pid, Process, ids, session, signal};
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

/// A process's parent and children.
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
    session::retain_number(child);
    child.id.withdraw_process();
    child.family.set_parent(None, &mut Held::clean());
}

/// A list of children is locked: what may be locked next.
pub type Order<'a> = Held<'a, level::ProcessChildren>;

/// Calls `f` with the parent of `child` and the parent's list, locked.
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

/// Gives the children of `process`, which exits, to a reaper: the nearest ancestor that is a subreaper, or process 1.
pub fn reparent_children(process: &Arc<Process>) {
    if process.family.children().is_empty() {
        return;
    }
    let Some(reaper) = find_reaper(process) else { return };
    let orphans = core::mem::take(&mut *{
        let mut children = process.family.children();
        let (list, order) = children.split();
        for child in list.iter() {
            child.family.set_parent(Some(reaper.clone()), order);
        }
        children
    });
    for orphan in orphans {
        let signal = orphan.death_signal.load(Ordering::Relaxed);
        if signal != 0 {
            signal::send::to_process(&orphan, signal::Info::user(signal, 0));
        }
        orphan.exit_signal.store(linux_raw_sys::general::SIGCHLD, Ordering::Relaxed);
        let child = orphan.clone();
        if reaper.family.add(orphan).is_err() {
            // No memory for the list: the orphan runs on, and nobody waits for it when it dies.
            child.exit_signal.store(0, Ordering::Relaxed);
        }
        if child.is_zombie() {
            signal::send::child_event(&reaper, &child, wait::exit_event(&child));
        }
    }
    reaper.family.events.wake_all();
}

fn find_reaper(process: &Arc<Process>) -> Option<Arc<Process>> {
    let mut ancestor = process.family.parent();
    while let Some(candidate) = ancestor {
        if candidate.pid() == 1 || (candidate.subreaper.load(Ordering::Relaxed) && !candidate.is_zombie()) {
            return Some(candidate);
        }
        ancestor = candidate.family.parent();
    }
    ids::find_process(1)
}
