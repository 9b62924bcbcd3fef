//! Whom a file of /proc/PID is about, and who may look.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use crate::errno::{EACCES, ESRCH, Result};
use crate::fs::caller;
use crate::process::access::{self, By};
use crate::process::{Process, Thread, find_process, ids};

/// First of the numbers of processes' inodes; fixed ones lie below.
const PER_PROCESS: u64 = 1 << 32;
pub(in crate::procfs) const PER_NAME: u64 = 1 << 40;

/// Whom a file of /proc/PID is about: a process, and a thread of it or (`tid` 0) its first. A number is used again when its process is gone, so
/// when the process began belongs to its name: an open file never comes to show another process.
#[derive(Clone, Copy)]
pub(in crate::procfs) struct Who {
    pub(in crate::procfs) pid: u32,
    pub(in crate::procfs) tid: u32,
    pub(in crate::procfs) began: u64,
}

impl Who {
    pub(in crate::procfs) fn of(process: &Process, tid: u32) -> Who {
        Who { pid: process.pid(), tid, began: process.started }
    }

    /// The process, if it is there still. A zombie is.
    pub(in crate::procfs) fn process(self) -> Option<Arc<Process>> {
        find_process(self.pid).filter(|process| process.started == self.began)
    }

    /// What `f` says of the process, which is not counted for it. `f` does not sleep.
    pub(in crate::procfs) fn look_at<R>(self, f: impl FnOnce(&Process) -> R) -> Option<R> {
        ids::look_at(self.pid, |process| (process.started == self.began).then(|| f(process))).flatten()
    }

    pub(in crate::procfs) fn is_there(self) -> bool {
        self.look_at(|_| ()).is_some()
    }

    pub(in crate::procfs) fn is_caller(self) -> bool {
        let caller = &crate::process::current().process;
        caller.pid() == self.pid && caller.started == self.began
    }

    /// The process and the thread.
    pub(in crate::procfs) fn find(self) -> Result<(Arc<Process>, Arc<Thread>)> {
        let process = self.process().ok_or(ESRCH)?;
        let thread = self.thread_of(&process).ok_or(ESRCH)?;
        Ok((process, thread))
    }

    /// The thread of `process`, which is the one that is meant.
    pub(in crate::procfs) fn thread_of(self, process: &Process) -> Option<Arc<Thread>> {
        if self.tid == 0 { process.leader() } else { process.thread(self.tid) }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "numbers of processes and names are small")]
pub(in crate::procfs) fn number_of(pid: u32, tid: u32, name: u64) -> u64 {
    PER_PROCESS + u64::from(if tid == 0 { pid } else { tid }) + name * PER_NAME
}

/// May the caller look into the process (its memory, its files)?
///
/// # Errors
/// EACCES.
pub(in crate::procfs) fn check_access(process: &Process) -> Result {
    if access::may_inspect(&caller::current(), process, By::FsIds) { Ok(()) } else { Err(EACCES) }
}
