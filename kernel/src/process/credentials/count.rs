//! How many threads a real user has (RLIMIT_NPROC).
//!
//! A process keeps the count of its leading thread until it is waited for; any other thread keeps its own until it ends. The counts of a user are
//! per CPU (`account`), and user 0, who has no limit, is not counted: fork writes no common line.
#![forbid(unsafe_code)]

use super::Credentials;
use crate::account::{self, Charge, Denied, Kind};
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::process::{Capability, Current, Process, Thread, limits};
use core::sync::atomic::Ordering;
use linux_raw_sys::general::RLIMIT_NPROC;
use sync::quota::UNLIMITED;
use sync::{SpinLock, lock_class};

lock_class! { static COUNTED: LockClass = ("counted thread", level::ThreadState); }

/// What a thread counts for.
pub struct Counted(SpinLock<Option<Charge>, level::ThreadState>);

impl Counted {
    pub const fn nothing() -> Self {
        Self(SpinLock::new(None, &COUNTED))
    }

    pub fn as_one(charge: Option<Charge>) -> Self {
        Self(SpinLock::new(charge, &COUNTED))
    }

    fn set(&self, to: Option<Charge>) {
        let old = core::mem::replace(&mut *self.0.lock(), to);
        drop(old);
    }
}

/// Counts one more thread of the running thread's user.
///
/// # Errors
/// EAGAIN: there are as many as may be. ENOMEM.
pub fn one_more(maker: &Current) -> Result<Option<Charge>> {
    let ids = maker.ids();
    if ids.uid == 0 {
        return Ok(None);
    }
    let limit = maker.process.limits.soft(RLIMIT_NPROC);
    let free = limit >= limits::PROCESSES
        || maker.capable(Capability::SYS_RESOURCE)
        || maker.capable(Capability::SYS_ADMIN);
    count(ids.uid, if free { UNLIMITED } else { limit })
}

fn count(uid: u32, limit: u64) -> Result<Option<Charge>> {
    if uid == 0 {
        return Ok(None);
    }
    Charge::try_new(uid, Kind::Threads, 1, limit).map(Some).map_err(|denied| match denied {
        Denied::Full => Errno::EAGAIN,
        Denied::NoMemory => Errno::ENOMEM,
    })
}

/// Has the real user `uid` this many threads?
pub fn has_as_many(uid: u32, threads: u64) -> bool {
    uid != 0 && threads < limits::PROCESSES && account::used(uid, Kind::Threads) >= threads
}

/// The running thread gets `new` credentials: it counts for their user.
///
/// # Errors
/// ENOMEM.
pub(super) fn follow(thread: &Current, new: &Credentials) -> Result {
    if new.uid != thread.ids().uid {
        let charge = count(new.uid, UNLIMITED)?;
        let leads = thread.tid() == thread.process.pid();
        if leads { &thread.process.counted } else { &thread.counted }.set(charge);
    }
    Ok(())
}

/// `thread`, which is not its process's first or becomes so in place of another, counts no more.
pub fn thread_ends(thread: &Thread) {
    if thread.process.uid.load(Ordering::Relaxed) != 0 {
        thread.counted.set(None);
    }
}

/// `process` was waited for.
pub fn process_is_gone(process: &Process) {
    if process.uid.load(Ordering::Relaxed) != 0 {
        process.counted.set(None);
    }
}
