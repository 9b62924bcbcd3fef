//! What a thread asks for itself by prctl(2), and (but for one thing) hands to the threads and processes that it makes.
#![forbid(unsafe_code)]

use core::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

bitflags::bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// It has said when it wants to know of lost memory (PR_MCE_KILL): early or late.
        const FAILURE_CHOSEN = 1;
        const FAILURE_EARLY = 2;
        /// Its memory is not reclaimed by I/O that it may itself have to do (PR_SET_IO_FLUSHER).
        const IO_FLUSHER = 4;
    }
}

/// How late a sleep of the first thread may end, in nanoseconds, as on Linux.
const FIRST_SLACK: u64 = 50_000;

/// No user.
pub const NOBODY: u32 = u32::MAX;

/// Logins that there were.
static LOGINS: AtomicU32 = AtomicU32::new(0);

/// Written by the thread itself alone, where nothing else is said. A thread fits into twelve cache lines by little.
pub struct Attributes {
    slack: AtomicU64,
    /// What the thread began with.
    first_slack: AtomicU64,
    flags: AtomicU8,
    /// Class and level of its I/O (ioprio_set), by whoever may. 0: as its nice value says.
    io_priority: AtomicU32,
    /// PR_SET_PDEATHSIG. Not handed on.
    death_signal: AtomicU8,
    /// Who logged in (/proc/PID/loginuid), and the number of that login; `NOBODY`: nobody did.
    login: AtomicU32,
    login_session: AtomicU32,
}

impl Attributes {
    /// The first thread's.
    pub const fn new() -> Self {
        Self {
            slack: AtomicU64::new(FIRST_SLACK),
            first_slack: AtomicU64::new(FIRST_SLACK),
            flags: AtomicU8::new(0),
            io_priority: AtomicU32::new(0),
            death_signal: AtomicU8::new(0),
            login: AtomicU32::new(NOBODY),
            login_session: AtomicU32::new(NOBODY),
        }
    }

    /// A child's.
    pub fn inherit(&self) -> Self {
        let slack = self.slack.load(Relaxed);
        Self {
            slack: AtomicU64::new(slack),
            first_slack: AtomicU64::new(slack),
            flags: AtomicU8::new(self.flags.load(Relaxed)),
            io_priority: AtomicU32::new(self.io_priority()),
            death_signal: AtomicU8::new(0),
            login: AtomicU32::new(self.login.load(Relaxed)),
            login_session: AtomicU32::new(self.login_session.load(Relaxed)),
        }
    }

    /// PR_GET_TIMERSLACK, in nanoseconds: how late a sleep may end so that others end with it (`sched::Deadline`).
    pub fn slack(&self) -> u64 {
        self.slack.load(Relaxed)
    }

    /// PR_SET_TIMERSLACK; 0: what the thread began with.
    pub fn set_slack(&self, slack: u64) {
        let slack = if slack == 0 { self.first_slack.load(Relaxed) } else { slack };
        self.slack.store(slack, Relaxed);
    }

    pub fn io_priority(&self) -> u32 {
        self.io_priority.load(Relaxed)
    }

    pub fn set_io_priority(&self, to: u32) {
        self.io_priority.store(to, Relaxed);
    }

    /// What tells apart who has something of his own said of his I/O; None: nothing is said.
    pub fn io_context(&self) -> Option<usize> {
        (self.io_priority() != 0).then(|| core::ptr::from_ref(self).addr())
    }

    /// The signal for the end of the thread that made its process; 0: none.
    pub fn death_signal(&self) -> u32 {
        self.death_signal.load(Relaxed).into()
    }

    pub fn set_death_signal(&self, signal: u32) {
        self.death_signal.store(signal as u8, SeqCst);
    }

    /// Who logged in, and the number of that login; [`NOBODY`] twice: nobody did.
    pub fn login(&self) -> (u32, u32) {
        (self.login.load(Relaxed), self.login_session.load(Relaxed))
    }

    /// `user` logs in, who becomes the thread; [`NOBODY`]: nobody has.
    pub fn set_login(&self, user: u32) {
        let session = if user == NOBODY { NOBODY } else { LOGINS.fetch_add(1, Relaxed).wrapping_add(1) };
        self.login.store(user, Relaxed);
        self.login_session.store(session, Relaxed);
    }

    pub fn flags(&self) -> Flags {
        Flags::from_bits_retain(self.flags.load(Relaxed))
    }

    pub fn set_flags(&self, which: Flags, on: bool) {
        let mut flags = self.flags();
        flags.set(which, on);
        self.flags.store(flags.bits(), Relaxed);
    }
}
