//! Sessions and process groups (setsid(2), setpgid(2)).
//!
//! A process holds the numbers of its group and session. A group has no object: its members are the processes with its
//! number. A session made by setsid has one, in a short table, which holds the controlling terminal. The number of a dead leader is
//! not used again while its group or session has members.
//!
//! LockOrder: `SESSIONS` and `RETAINED` are innermost.
#![forbid(unsafe_code)]

use super::ids::{self, Id};
use super::{Pid, Process, signal};
use crate::errno::{Errno, Result};
use crate::fs::tty::Tty;
use crate::lock_order as level;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use sync::{SpinLock, TryVec, lock_class, try_arc};

lock_class! {
    static SESSION: LockClass = ("session", level::Session);
    static TABLE: LockClass = ("session table", level::SessionTable);
}

/// A session that was made by setsid.
pub struct Session {
    pub id: Pid,
    /// The controlling terminal.
    pub tty: SpinLock<Option<Arc<Tty>>, level::Session>,
}

static SESSIONS: SpinLock<Vec<Arc<Session>>, level::SessionTable> = SpinLock::new(Vec::new(), &TABLE);
/// Numbers of reaped leaders whose group or session still has members.
static RETAINED: SpinLock<Vec<Id>, level::SessionTable> = SpinLock::new(Vec::new(), &TABLE);

/// The session with this number.
pub fn find(id: Pid) -> Option<Arc<Session>> {
    SESSIONS.lock().iter().find(|s| s.id == id).cloned()
}

/// Is there a process for which `test` holds?
fn any_process(test: impl Fn(&Process) -> bool) -> bool {
    let mut found = false;
    ids::for_each_process(|p| {
        found = test(p);
        !found
    });
    found
}

/// setsid(2): the caller leads a new session and a new group.
///
/// # Errors
/// EPERM: it leads a group already, or another group has its number.
pub fn create() -> Result<Pid> {
    let process = super::current_process();
    let pid = process.pid();
    if process.group() == pid || any_process(|p| p.group() == pid) {
        return Err(Errno::EPERM);
    }
    let session = try_arc(Session { id: pid, tty: SpinLock::new(None, &SESSION) })?;
    {
        let mut sessions = SESSIONS.lock();
        sessions.retain(|s| s.id != pid);
        sessions.try_push(session)?;
    }
    process.session.store(pid, Ordering::Relaxed);
    process.group.store(pid, Ordering::Relaxed);
    Ok(pid)
}

/// The first process's session.
pub fn create_first(process: &Process) -> Result {
    let session = try_arc(Session { id: process.pid(), tty: SpinLock::new(None, &SESSION) })?;
    SESSIONS.lock().try_push(session)?;
    Ok(())
}

/// setpgid(2).
///
/// # Errors
/// ESRCH, EPERM, EACCES, EINVAL as the manual says.
pub fn set_group(pid: Pid, group: Pid) -> Result {
    let caller = super::current_process();
    let target = if pid == 0 || pid == caller.pid() {
        caller.clone()
    } else {
        let target = ids::find_process(pid).filter(|p| p.parent_pid() == caller.pid()).ok_or(Errno::ESRCH)?;
        if target.session_id() != caller.session_id() {
            return Err(Errno::EPERM);
        }
        if target.executed.load(Ordering::Relaxed) {
            return Err(Errno::EACCES);
        }
        target
    };
    let group = if group == 0 { target.pid() } else { group };
    if target.session_id() == target.pid() {
        return Err(Errno::EPERM);
    }
    if group != target.pid()
        && !any_process(|p| p.group() == group && p.session_id() == caller.session_id() && !p.is_zombie())
    {
        return Err(Errno::EPERM);
    }
    target.group.store(group, Ordering::Relaxed);
    Ok(())
}

/// Has `group` no member whose parent is in the same session but another group? Then nobody could continue it.
pub fn is_orphaned(group: Pid) -> bool {
    !any_process(|p| {
        p.group() == group
            && !p.is_zombie()
            && ids::find_process(p.parent_pid())
                .is_some_and(|parent| parent.group() != group && parent.session_id() == p.session_id())
    })
}

/// `process` exits. A session leader gives up the terminal; groups that are orphaned while stopped are told.
pub fn leave(process: &Arc<Process>) {
    if process.session_id() == process.pid() {
        if let Some(session) = find(process.pid()) {
            let tty = session.tty.lock().take();
            if let Some(tty) = tty {
                let foreground = tty.disassociate();
                if foreground != 0 {
                    signal::send::to_group(foreground, signal::Info::kernel(abi::SIGHUP));
                    signal::send::to_group(foreground, signal::Info::kernel(abi::SIGCONT));
                }
            }
        }
        SESSIONS.lock().retain(|s| s.id != process.pid());
    }
    if signal::any_stopped() {
        tell_orphaned(process);
    }
}

/// Sends SIGHUP and SIGCONT to a stopped group that nobody can continue now that `process` exits.
fn tell_orphaned(process: &Arc<Process>) {
    // `process` can continue a group if it is the parent of a member, or a member whose parent is, in the same session but outside
    // the group.
    let outside = |parent: &Process, child: &Process| {
        parent.group() != child.group() && parent.session_id() == child.session_id()
    };
    let own = ids::find_process(process.parent_pid()).is_some_and(|parent| outside(&parent, process));
    let mut group = 0;
    ids::for_each_process(|p| {
        let child = p.parent_pid() == process.pid() && outside(process, p);
        let affected = child || (own && p.group() == process.group());
        if affected && p.is_stopped() && is_orphaned(p.group()) {
            group = p.group();
        }
        group == 0
    });
    if group != 0 {
        signal::send::to_group(group, signal::Info::kernel(abi::SIGHUP));
        signal::send::to_group(group, signal::Info::kernel(abi::SIGCONT));
    }
}

/// `process` is being reaped: retains its number while others are in its group or session.
pub fn retain_number(process: &Process) {
    let pid = process.pid();
    if process.group() != pid && process.session_id() != pid {
        return;
    }
    let in_use = |pid: Pid| any_process(|p| p.pid() != pid && (p.group() == pid || p.session_id() == pid));
    if in_use(pid) {
        // Without memory for the list the number could be used again; nothing worse.
        let _ = RETAINED.lock().try_push(process.id.share());
    }
    let retained = core::mem::take(&mut *RETAINED.lock());
    for id in retained {
        if in_use(id.number()) {
            let _ = RETAINED.lock().try_push(id);
        }
    }
}
