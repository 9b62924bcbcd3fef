//! Sessions and process groups (setsid(2), setpgid(2)).
//!
//! A session has the controlling terminal. Its members are those of its groups, each of which keeps it, so it ends with the last of them. Group and session
//! keep their numbers from being used again. A process's group is in the table of numbers (`ids`); `group` has its members.
#![forbid(unsafe_code)]

pub mod group;

pub use group::Group;

use super::ids::{self, Id};
use super::{Pid, Process, signal};
use crate::errno::{Errno, Result};
use crate::fs::tty::Tty;
use crate::lock_order as level;
use crate::sched;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::general as abi;
use sync::{SpinLock, lock_class, try_arc};

lock_class! {
    static SESSION: LockClass = ("session", level::Session);
}

/// A session.
pub struct Session {
    id: Id,
    tty: SpinLock<Option<Arc<Tty>>, level::Session>,
    /// There is a `tty`. Who asks a session without one takes no lock.
    has_tty: AtomicBool,
    /// Its share of the CPUs. The first session has none of its own.
    sched: sched::Group,
}

impl Drop for Session {
    /// A group of processes ends when its last member has left, and keeps the session for a grace period more.
    fn drop(&mut self) {
        sched::group::end(&self.sched);
    }
}

impl Session {
    fn try_new(leader: &Process) -> Result<Arc<Self>> {
        Ok(try_arc(Session {
            id: leader.id.share(),
            tty: SpinLock::new(None, &SESSION),
            has_tty: AtomicBool::new(false),
            sched: sched::Group::new(),
        })?)
    }

    /// The controlling terminal.
    pub fn tty(&self) -> Option<Arc<Tty>> {
        if self.has_tty.load(Ordering::Acquire) { self.tty.lock().clone() } else { None }
    }

    /// It has that controlling terminal from now on. Gives the one that it had, to be dropped.
    pub fn set_tty(&self, to: Option<Arc<Tty>>) -> Option<Arc<Tty>> {
        let mut tty = self.tty.lock();
        self.has_tty.store(to.is_some(), Ordering::Release);
        core::mem::replace(&mut *tty, to)
    }

    pub fn id(&self) -> Pid {
        self.id.number()
    }

    /// Its share of the CPUs; None: it is the first session, whose processes are in no group.
    pub fn sched(&self) -> Option<&sched::Group> {
        (self.id() != FIRST).then_some(&self.sched)
    }
}

/// The first process's session.
const FIRST: Pid = 1;

impl Session {
    /// `process`, which has become the leader and whose `children` the caller has locked, has the session's share of the CPUs from now on. Its running thread
    /// takes that up at once.
    fn take_over(&self, process: &Process) {
        super::own::share_with(process, self);
        process.sched.take_up();
    }
}

/// What `f` says of the session of a process, which is not counted. `f` does not sleep.
pub fn with<R>(process: &Process, f: impl FnOnce(&Session) -> R) -> Option<R> {
    ids::look_at_group(process.group(), |group| f(&group.session))
}

/// The session of a process.
pub fn of(process: &Process) -> Option<Arc<Session>> {
    ids::look_at_group(process.group(), |group| group.session.clone())
}

/// The session with this number, while its leader lives. After that it has no terminal.
pub fn find(id: Pid) -> Option<Arc<Session>> {
    ids::find_process(id).filter(|leader| leader.session_id() == id).and_then(|leader| of(&leader))
}

/// setsid(2): the caller leads a new session and a new group.
///
/// # Errors
/// EPERM: it leads a group already, or another group has its number.
pub fn create() -> Result<Pid> {
    let process = super::current_process();
    let pid = process.pid();
    // Memory first.
    let group = Group::try_new(&process, Session::try_new(&process)?)?;
    // Its other threads leave the share of the old session later.
    let others = if process.thread_count() > 1 { of(&process) } else { None };
    let still = process.family.children();
    if process.session_id() == pid || group::find(pid).is_some() {
        return Err(Errno::EPERM);
    }
    // The old group is its members', so it is not counted.
    ids::look_at_group(process.group(), |old| found(&group, old, &process)).ok_or(Errno::EPERM)??;
    process.without_tty.store(false, Ordering::Relaxed);
    group.session.take_over(&process);
    drop(still);
    if others.is_some() {
        // A thread that begins just now may still begin in the old one.
        process.sched.settle(|| {
            process.visit_threads(|thread| {
                thread.look_at_task(|task| process.sched.take_up_for(task));
            });
        });
    }
    Ok(pid)
}

/// The first process's session.
pub fn create_first(process: &Process) -> Result {
    let group = Group::try_new(process, Session::try_new(process)?)?;
    process.id.publish_group(group.clone());
    group.add_first(process);
    Ok(())
}

/// setpgid(2).
///
/// # Errors
/// ESRCH, EPERM, EACCES, EINVAL as the manual says.
pub fn set_group(pid: Pid, group: Pid) -> Result {
    // Shells call for each child twice, in it and in itself: one of the calls finds everything as it is to be.
    let me = super::current();
    let is_there = |target: &Process| {
        let number = if group == 0 { target.pid() } else { group };
        // The group comes first: it is stored after the session.
        (target.group.load(Ordering::Acquire) == number).then(|| may_move(&me.process, target))
    };
    let found = match pid {
        0 => is_there(&me.process),
        pid => ids::look_at(pid, is_there).flatten(),
    };
    found.unwrap_or_else(|| move_to_group(pid, group))
}

/// May `caller` put `target` into another group?
///
/// # Errors
/// ESRCH, EPERM, EACCES.
fn may_move(caller: &Process, target: &Process) -> Result {
    if !core::ptr::eq(target, caller) {
        if target.parent_pid() != caller.pid() {
            return Err(Errno::ESRCH);
        }
        if target.session_id() != caller.session_id() {
            return Err(Errno::EPERM);
        }
        if target.executed.load(Ordering::Relaxed) {
            return Err(Errno::EACCES);
        }
    }
    if target.session_id() == target.pid() { Err(Errno::EPERM) } else { Ok(()) }
}

fn move_to_group(pid: Pid, group: Pid) -> Result {
    let caller = super::current_process();
    let target = if pid == 0 || pid == caller.pid() {
        caller.clone()
    } else {
        match ids::find_process(pid) {
            Some(process) => process,
            None if ids::find_thread(pid).is_some() => return Err(Errno::EINVAL),
            None => return Err(Errno::ESRCH),
        }
    };
    let number = if group == 0 { target.pid() } else { group };
    // Memory first.
    let spare = if number == target.pid() { Some(spare_group(&target)?) } else { None };
    // It forks, changes groups and is reaped under this lock.
    let _still = target.family.children();
    may_move(&caller, &target)?;
    // The target stays in its group meanwhile, and the group in the table.
    let old = target.group();
    let leave = |f: &dyn Fn(&Group) -> Result| ids::look_at_group(old, f).unwrap_or(Err(Errno::ESRCH));
    loop {
        return match (group::find(number), &spare) {
            (Some(new), _) if new.session.id() != caller.session_id() => Err(Errno::EPERM),
            (Some(new), _) if new.number() == old => Ok(()),
            (Some(new), _) => match leave(&|old| new.take_from(old, &target)) {
                // It has ended in between: its last member has left. It is not found again.
                Err(Errno::EPERM) => continue,
                result => result,
            },
            (None, Some(new)) => leave(&|old| found(new, old, &target)),
            (None, None) => Err(Errno::EPERM),
        };
    }
}

/// A group that `process` may lead, which nobody finds yet.
fn spare_group(process: &Process) -> Result<Arc<Group>> {
    Group::try_new(process, of(process).ok_or(Errno::ESRCH)?)
}

/// `process`, whose `children` the caller has locked, leaves `old` for `new`, which it leads and nobody knew.
fn found(new: &Arc<Group>, old: &Group, process: &Process) -> Result {
    process.id.publish_group(new.clone());
    new.take_from(old, process).inspect_err(|_| process.id.withdraw_group())
}

/// Calls `f` for every member of a group, zombies too, as `Group::look_at_members` does. None: there is no such group. False: some are left out.
pub fn look_at_members(group: Pid, f: impl FnMut(&Process)) -> Option<bool> {
    ids::look_at_group(group, |group| group.look_at_members(f))
}

/// Calls `f` for every member of a group, zombies too, under a lock of the group, until it answers false. Gives way at times: no spinning lock is held.
/// False: there is no such group.
pub fn for_each_member(group: Pid, mut f: impl FnMut(&Arc<Process>) -> bool) -> bool {
    let mut any = false;
    if let Some(group) = ids::find_group(group) {
        group.visit(true, |process| {
            any = true;
            f(process)
        });
    }
    any
}

/// The session of a group that has members.
pub fn of_group(group: Pid) -> Option<Pid> {
    group::find(group).map(|group| group.session.id())
}

/// Has `group` no member whose parent is in the same session but another group? Then nobody could continue it. `leaving` does not count.
/// May sleep.
pub fn is_orphaned(group: Pid, leaving: Option<&Process>) -> bool {
    let Some(group) = ids::find_group(group) else { return true };
    group.visit(true, |p| {
        let leaves = leaving.is_some_and(|leaving| core::ptr::eq(leaving, &**p));
        // The first process continues nobody.
        let parent = p.parent_pid();
        let continued = !leaves
            && !p.is_zombie()
            && parent > 1
            && ids::look_at(parent, |parent| {
                parent.group() != group.number() && parent.session_id() == p.session_id()
            }) == Some(true);
        !continued
    })
}

/// `process` exits. A session leader gives up the terminal.
pub fn leave(process: &Arc<Process>) {
    if process.session_id() != process.pid() {
        return;
    }
    let Some(session) = of(process) else { return };
    let tty = session.set_tty(None);
    if let Some(tty) = tty {
        hang_up(tty.disassociate());
    }
}

fn hang_up(group: Pid) {
    for signal in [abi::SIGHUP, abi::SIGCONT] {
        signal::send::to_group(group, signal::Info::kernel(signal));
    }
}

/// `process`, which exits or has got another parent, could be continued from another group of its session by its parent, which was `parent`. Tells its
/// group if it is stopped and nobody can continue it any more. May sleep.
pub fn tell_orphaned(process: &Process, parent: &Process, leaving: Option<&Process>) {
    let group = process.group();
    if parent.group() == group || parent.session_id() != process.session_id() {
        return;
    }
    if !is_orphaned(group, leaving) {
        return;
    }
    let mut stopped = false;
    for_each_member(group, |member| {
        stopped = member.is_stopped();
        !stopped
    });
    if stopped {
        hang_up(group);
    }
}
