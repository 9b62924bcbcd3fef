//! Parents and children.
//!
//! A child's birth, death and stopping are published under its parent's `children` lock. When a parent exits, its children get a
//! new parent, the reaper. A child first names the reaper as its parent and is then put on the reaper's list, as a child of one of its threads that
//! live. A child that dies in between stays a zombie, and whoever puts it on the list tells the reaper.
//!
//! `children` keeps those apart for which a parent can wait, and a child leaves without being looked for. Where all have to be looked at, that is done in
//! parts (`search`).
//!
//! LockOrder: `turns` → `children` → `parent` of a child, the signals of the process, `threads`. Never two `children` locks at once.
#![forbid(unsafe_code)]

mod children;
mod search;
mod threads;
pub mod wait;

#[cfg(test)]
mod tests;

pub use children::Children;
pub use threads::{children_of, leave_children, rename_thread};

use super::list::NOBODY;
use super::{Pid, Process, credentials, ids, session, signal};
use crate::lock_order as level;
use crate::sched::{self, WaitQueue};
use alloc::sync::Arc;
use children::{HasChildren, Sibling};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::level::{Before, Held};
use sync::{Mutex, SpinGuard, SpinLock, lock_class};

lock_class! {
    static CHILDREN: LockClass = ("process children", level::ProcessChildren);
    static TURNS: LockClass = ("search of children", level::ChildSearch);
    static PARENT: LockClass = ("process parent", level::ProcessParent);
}

/// Whether a process has children, and they: on one line, since who waits asks the one before the other.
#[repr(C, align(64))]
struct OwnChildren {
    any: HasChildren,
    children: SpinLock<Children, level::ProcessChildren>,
}

/// A process's parent and children.
pub struct Family {
    parent_pid: AtomicU32,
    /// The thread of its parent that it belongs to (`threads`).
    parent_thread: AtomicU32,
    /// A thread of it has asked for a signal when that thread ends.
    mourns: AtomicBool,
    parent: SpinLock<Option<Arc<Process>>, level::ProcessParent>,
    /// Its place among its parent's children.
    sibling: Sibling,
    own: OwnChildren,
    /// Who rests in a look along the children (`search`).
    turns: Mutex<(), level::ChildSearch>,
    /// Threads that wait for a child to change.
    pub events: WaitQueue,
}

impl Family {
    /// Of a child of `parent` that its thread `thread` has made.
    #[inline(always)]
    pub fn new(parent: Option<Arc<Process>>, thread: Pid) -> Self {
        Self {
            parent_thread: AtomicU32::new(thread),
            mourns: AtomicBool::new(false),
            parent_pid: AtomicU32::new(parent.as_ref().map_or(0, |p| p.pid())),
            parent: SpinLock::new(parent, &PARENT),
            sibling: Sibling::new(),
            own: OwnChildren { any: HasChildren::new(), children: SpinLock::new(Children::new(), &CHILDREN) },
            turns: Mutex::new((), &TURNS),
            events: WaitQueue::new(),
        }
    }

    pub fn parent_pid(&self) -> Pid {
        self.parent_pid.load(Ordering::Relaxed)
    }

    pub fn parent(&self) -> Option<Arc<Process>> {
        self.parent.lock().clone()
    }

    /// The new parent's thread is named once the child is on its list.
    fn set_parent(
        &self,
        parent: Option<Arc<Process>>,
        order: &mut Held<'_, impl Before<level::ProcessParent>>,
    ) {
        let pid = parent.as_ref().map_or(0, |p| p.pid());
        self.parent_pid.store(pid, Ordering::Relaxed);
        self.parent_thread.store(NOBODY, Ordering::Relaxed);
        let old = core::mem::replace(&mut *self.parent.lock_in(order), parent);
        drop(old);
    }

    pub fn children(&self) -> SpinGuard<'_, Children, level::ProcessChildren> {
        self.own.children.lock()
    }

    /// Whether there are any.
    pub fn has_children(&self) -> &HasChildren {
        &self.own.any
    }
}

/// `child`, which names its parent and is on no list, becomes its parent's child. If that has ended, its reaper's.
pub fn add(child: &Arc<Process>) {
    loop {
        match with_parent(child, |parent, children, order| join(child, parent, children, order)) {
            Some(None) => {}
            Some(Some(joined)) => return tell_early_end(child, joined),
            None => return,
        }
    }
}

/// `child`, which is on no list, becomes a child of the parent that `maker` has now (CLONE_PARENT), and of the same thread.
pub fn add_sibling(child: &Arc<Process>, maker: &Process) {
    let joined = with_parent(maker, |parent, children, order| {
        child.family.set_parent(Some(parent.clone()), order);
        child.family.parent_thread.store(maker.parent_thread(), Ordering::Relaxed);
        child.exit_signal.store(maker.exit_signal.load(Ordering::Relaxed), Ordering::Relaxed);
        join(child, parent, children, order)
    });
    match joined.flatten() {
        Some(joined) => tell_early_end(child, joined),
        None => add(child),
    }
}

/// The parent that a child has come to, and what became of the child if it had ended before.
type Joined = (Arc<Process>, Option<End>);

/// Puts `child` on the list of `parent`, whom it names. One that belongs to no thread yet goes to one that lives. None: `parent` ends, and the child
/// names the reaper instead.
fn join(
    child: &Process,
    parent: &Arc<Process>,
    children: &mut Children,
    order: &mut Order<'_>,
) -> Option<Joined> {
    let mut has_thread = child.parent_thread() != NOBODY;
    if !has_thread && let Some(heir) = threads::find_heir(parent) {
        child.family.parent_thread.store(heir, Ordering::Relaxed);
        has_thread = true;
    }
    // The first process has no reaper.
    if !(has_thread || parent.pid() == 1) || !children.add(child, parent.family.has_children()) {
        child.family.set_parent(find_reaper(parent), order);
        return None;
    }
    // One that died while it changed parents is found here.
    Some((parent.clone(), child.is_left_to_parent().then(|| end(parent, child, children))))
}

fn tell_early_end(child: &Arc<Process>, (parent, ended): Joined) {
    if let Some(end) = ended {
        tell_end(&parent, child, end);
    }
}

/// Tells `parent` that `child` has ended.
pub fn tell_end(parent: &Arc<Process>, child: &Arc<Process>, end: End) {
    signal::send::child_event(parent, child, wait::exit_event(child));
    parent.family.events.wake_all();
    child.watched.wake();
    if matches!(end, End::Reaped) {
        forget(child);
    }
}

/// Takes `child`, which is off its parent's list, out of the table of numbers.
pub fn forget(child: &Arc<Process>) {
    credentials::count::process_is_gone(child);
    session::group::leave(child);
    child.id.withdraw_process();
    session::group::leader_is_gone(child.pid());
    child.family.set_parent(None, &mut Held::clean());
    child.watched.wake();
}

/// A list of children is locked: what may be locked next.
pub type Order<'a> = Held<'a, level::ProcessChildren>;

/// Calls `f` with the parent of `child` and the parent's list, locked.
pub fn with_parent<R>(
    child: &Process,
    f: impl FnOnce(&Arc<Process>, &mut Children, &mut Order<'_>) -> R,
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

/// What became of a child whose parent is told.
#[derive(Clone, Copy)]
pub enum End {
    /// A zombie stays until it is waited for.
    Zombie,
    /// Nothing stays: the parent does not want to know. The caller forgets it.
    Reaped,
}

/// `child` is a zombie, or becomes one, and is on the list of its parent unless it changes parents just now.
pub fn end(parent: &Arc<Process>, child: &Process, children: &mut Children) -> End {
    child.zombie.store(true, Ordering::Release);
    // Who traced it wants to see its end.
    let reaps = !child.tracees.ended_traced()
        && child.signal_to(parent) == linux_raw_sys::general::SIGCHLD
        && parent
            .signals
            .action(linux_raw_sys::general::SIGCHLD)
            .is_some_and(|action| action.reaps_children());
    if reaps && children.reap(child, parent.family.has_children()) {
        return End::Reaped;
    }
    children.update(child);
    End::Zombie
}

/// Gives the children of `process`, which exits, to a reaper: the nearest ancestor that is a subreaper, or process 1.
pub fn reparent_children(process: &Arc<Process>) {
    {
        let mut children = process.family.children();
        if children.is_empty() {
            children.close();
            return;
        }
    }
    let Some(reaper) = find_reaper(process) else { return };
    loop {
        let orphan = {
            let mut children = process.family.children();
            let (children, order) = children.split();
            let Some(orphan) = children.pop(process.family.has_children()) else {
                children.close();
                break;
            };
            orphan.family.set_parent(Some(reaper.clone()), order);
            orphan.exit_signal.store(linux_raw_sys::general::SIGCHLD, Ordering::Relaxed);
            orphan
        };
        orphan.tell_death_of_parent();
        add(&orphan);
        if signal::any_stopped() {
            session::tell_orphaned(&orphan, process, None);
        }
        // The end of a process is not ended early.
        let _ = sched::give_way();
    }
    reaper.family.events.wake_all();
}

/// Some process is, or was, a subreaper.
static SUBREAPERS: AtomicBool = AtomicBool::new(false);

/// PR_SET_CHILD_SUBREAPER.
pub fn set_subreaper(process: &Process, to: bool) {
    if to && !SUBREAPERS.load(Ordering::Relaxed) {
        SUBREAPERS.store(true, Ordering::SeqCst);
    }
    super::set_flag(&process.subreaper, to);
}

fn find_reaper(process: &Arc<Process>) -> Option<Arc<Process>> {
    // While there was never a subreaper, nobody climbs up the ancestors, of which there may be thousands.
    if !SUBREAPERS.load(Ordering::SeqCst) {
        return ids::find_process(1);
    }
    let mut ancestor = process.family.parent();
    while let Some(candidate) = ancestor {
        let reaps = candidate.subreaper.load(Ordering::Relaxed) && threads::has_living(&candidate);
        if candidate.pid() == 1 || reaps {
            return Some(candidate);
        }
        ancestor = candidate.family.parent();
        if ancestor.is_none() && candidate.is_zombie() {
            // It was reaped while the climb came by. Its children have had another parent since before that: the climb begins again.
            ancestor = process.family.parent();
        }
    }
    ids::find_process(1)
}
