//! Clocks of processor time (clock_gettime(2), clock_getcpuclockid(3)).
//!
//! Their ids pack a number, whether it names a thread, and what is counted: `~number << 3 | thread << 2 | kind`.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::process::wait::UsageSum;
use crate::process::{self, Pid, Process, Thread, ids};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// What of the time counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// In user mode alone (CPUCLOCK_VIRT, ITIMER_VIRTUAL).
    User,
    /// All of it.
    Whole,
}

impl Kind {
    /// What of `usage` counts, ns.
    #[expect(clippy::arithmetic_side_effects, reason = "nanoseconds of five hundred years")]
    pub fn of(self, usage: &UsageSum) -> u64 {
        match self {
            Kind::User => usage.user_ns,
            Kind::Whole => usage.user_ns + usage.system_ns,
        }
    }
}

/// A clock that counts what a process or one thread uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CpuClock {
    /// Number of the process or thread.
    target: Pid,
    thread: bool,
    kind: Kind,
}

impl CpuClock {
    /// Nobody's.
    pub const NONE: Self = Self { target: 0, thread: false, kind: Kind::Whole };

    /// What `id` names, seen by the running thread; None: no clock of this kind.
    pub fn from_id(id: i32) -> Option<Self> {
        let me = process::current();
        let whole = |target, thread| Self { target, thread, kind: Kind::Whole };
        if let Ok(id) = u32::try_from(id) {
            return match id {
                abi::CLOCK_PROCESS_CPUTIME_ID => Some(whole(me.process.pid(), false)),
                abi::CLOCK_THREAD_CPUTIME_ID => Some(whole(me.tid(), true)),
                _ => None,
            };
        }
        let kind = match id & 3 {
            0 | 2 => Kind::Whole,
            1 => Kind::User,
            // A clock behind a descriptor.
            _ => return None,
        };
        let thread = id & 4 != 0;
        let target = match !(id >> 3) as u32 {
            0 if thread => me.tid(),
            0 => me.process.pid(),
            number => number,
        };
        Some(Self { target, thread, kind })
    }

    /// The clock of a whole process.
    pub fn of_process(process: &Process, kind: Kind) -> Self {
        Self { target: process.pid(), thread: false, kind }
    }

    /// The clock of one thread.
    pub fn of_thread(thread: &Thread, kind: Kind) -> Self {
        Self { target: thread.tid(), thread: true, kind }
    }

    /// What `f` says of its thread, if that is one of the running process. `f` does not sleep.
    fn look_at_thread<R>(&self, f: impl FnOnce(&Thread) -> R) -> Option<R> {
        let me = process::current();
        if self.target == me.tid() {
            return Some(f(&me));
        }
        ids::look_at_thread(self.target, |thread| {
            Arc::ptr_eq(&thread.process, &me.process).then(|| f(thread))
        })
        .flatten()
    }

    /// Does the clock count the running process, or a thread of it?
    pub fn is_own(&self) -> bool {
        if self.thread {
            self.look_at_thread(|_| ()).is_some()
        } else {
            self.target == process::current_pid()
        }
    }

    /// Nanoseconds used. Gives way: no spinning lock is held. Of threads, those of the running process alone can be asked.
    ///
    /// # Errors
    /// EINVAL: there is nobody of that number.
    pub fn read(&self) -> Result<u64> {
        self.read_of(Process::usage)
    }

    /// As `read`, for callers that may not rest (`Process::known_usage`).
    ///
    /// # Errors
    /// As `read`.
    pub fn read_known(&self) -> Result<u64> {
        self.read_of(Process::known_usage)
    }

    fn read_of(&self, usage: fn(&Process) -> UsageSum) -> Result<u64> {
        if self.thread {
            let times = self.look_at_thread(|t| t.look_at_task(|task| task.times())).flatten();
            let times = times.ok_or(Errno::EINVAL)?;
            let usage = UsageSum { user_ns: times.user_ns, system_ns: times.system_ns, ..Default::default() };
            return Ok(self.kind.of(&usage));
        }
        let me = process::current();
        if self.target == me.process.pid() {
            return Ok(self.kind.of(&usage(&me.process)));
        }
        // It may rest between threads.
        let process = ids::find_process(self.target).ok_or(Errno::EINVAL)?;
        Ok(self.kind.of(&usage(&process)))
    }
}
