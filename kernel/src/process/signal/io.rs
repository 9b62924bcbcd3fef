//! The owner of an open file, who is told of its input and output by a signal (fcntl(2), F_SETOWN and F_SETSIG).
#![forbid(unsafe_code)]

use super::super::session::Group;
use super::super::{Pid, Process, Thread, current, ids};
use super::Info;
use super::send;
use crate::errno::{Errno, Result};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;

/// What an owner's number names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnerKind {
    Thread,
    Process,
    Group,
}

/// What can be done with the file now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Band {
    Input,
    Output,
    /// No input or output: somebody wants the file's lease to end, or something happened in the directory (F_NOTIFY).
    Message,
}

impl Band {
    /// POLL_IN, POLL_OUT or POLL_MSG, and the events that it stands for.
    const fn code_and_events(self) -> (i32, u64) {
        match self {
            Band::Input => (1, 0x041),
            Band::Output => (2, 0x304),
            Band::Message => (3, 0x441),
        }
    }
}

/// Threads and processes are meant themselves: whoever has their number later is not told.
#[derive(Clone)]
enum Target {
    Nobody,
    Thread(Weak<Thread>),
    Process(Weak<Process>),
    Group(Weak<Group>),
}

/// An owner, with the ids of who named it: the signal is sent as if by that one.
#[derive(Clone)]
pub struct Owner {
    kind: OwnerKind,
    target: Target,
    pub uid: u32,
    pub euid: u32,
}

impl Owner {
    /// Of a file that has not been given one.
    pub const NOBODY: Self = Self { kind: OwnerKind::Thread, target: Target::Nobody, uid: 0, euid: 0 };

    /// Of one whose owner, a process, has been taken off.
    pub const NO_PROCESS: Self = Self { kind: OwnerKind::Process, ..Self::NOBODY };

    /// The one with this number; 0: nobody. The caller names it.
    ///
    /// # Errors
    /// ESRCH: the number is not used.
    pub fn find(kind: OwnerKind, number: Pid) -> Result<Self> {
        let ids = current().ids();
        let owner = |target| Self { kind, target, uid: ids.uid, euid: ids.euid };
        if number == 0 {
            return Ok(Self { kind, ..Self::NOBODY });
        }
        let target = match kind {
            OwnerKind::Group if let Some(group) = ids::find_group(number) => {
                Some(Target::Group(Arc::downgrade(&group)))
            }
            OwnerKind::Process if let Some(process) = ids::find_process(number) => {
                Some(Target::Process(Arc::downgrade(&process)))
            }
            OwnerKind::Group => ids::is_used(number).then_some(Target::Nobody),
            _ => match ids::find_thread(number) {
                Some(thread) => Some(Target::Thread(Arc::downgrade(&thread))),
                // A number that only a group or a session has is nobody's.
                None => ids::is_used(number).then_some(Target::Nobody),
            },
        };
        target.map(owner).ok_or(Errno::ESRCH)
    }

    pub fn is_somebody(&self) -> bool {
        !matches!(self.target, Target::Nobody)
    }

    /// Kind and number; the number is 0 if there is nobody of that kind any more.
    pub fn describe(&self) -> (OwnerKind, Pid) {
        let number = match &self.target {
            Target::Nobody => None,
            // As Linux has it, the number of a thread names no process, though its process is told.
            Target::Thread(_) if self.kind == OwnerKind::Process => None,
            // What has been waited for may still be in memory.
            Target::Thread(thread) => {
                thread.upgrade().map(|t| t.tid()).filter(|tid| ids::find_thread(*tid).is_some())
            }
            Target::Process(process) => {
                process.upgrade().map(|p| p.pid()).filter(|pid| ids::find_process(*pid).is_some())
            }
            Target::Group(group) => {
                group.upgrade().map(|g| g.number()).filter(|number| ids::find_group(*number).is_some())
            }
        };
        (self.kind, number.unwrap_or(0))
    }

    /// Sends `signal` (0: SIGIO without more) because of the file that was `fd` when it was asked for. Under any lock that a signal is sent under.
    pub fn send(&self, signal: u32, fd: i32, band: Band) {
        match &self.target {
            Target::Nobody => {}
            Target::Thread(thread) => {
                // One that ends is nobody, though it may be in memory yet, and its process lives.
                if let Some(thread) =
                    thread.upgrade().filter(|thread| !thread.exiting.load(Ordering::Relaxed))
                {
                    let alone = (self.kind == OwnerKind::Thread).then_some(&thread);
                    self.send_to(&thread.process, alone, signal, fd, band);
                }
            }
            Target::Process(process) => {
                if let Some(process) = process.upgrade() {
                    self.send_to(&process, None, signal, fd, band);
                }
            }
            Target::Group(group) => {
                if let Some(group) = group.upgrade() {
                    group.visit(false, |process| {
                        self.send_to(process, None, signal, fd, band);
                        true
                    });
                }
            }
        }
    }

    fn send_to(
        &self,
        process: &Arc<Process>,
        thread: Option<&Arc<Thread>>,
        signal: u32,
        fd: i32,
        band: Band,
    ) {
        let leader = process.leader();
        let target = thread.or(leader.as_ref()).and_then(|t| t.credentials_of());
        if !target.is_some_and(|ids| self.may_tell(ids.uid, ids.suid)) {
            return;
        }
        // What cannot be queued is told by a plain SIGIO.
        if signal == 0 || send::queue(process, thread, Info::io(signal, fd, band), true).is_err() {
            let _ = send::queue(process, thread, Info::kernel(abi::SIGIO), false);
        }
    }

    fn may_tell(&self, uid: u32, suid: u32) -> bool {
        self.euid == 0 || [uid, suid].iter().any(|id| *id == self.uid || *id == self.euid)
    }
}

impl Info {
    /// Of input or output on a file: siginfo_t has si_band and si_fd. A signal whose own codes mean something else says SI_SIGIO.
    pub(super) fn io(signal: u32, fd: i32, band: Band) -> Self {
        let (reason, events) = band.code_and_events();
        let ambiguous = super::SYNCHRONOUS | super::bit(abi::SIGCHLD);
        let code = if ambiguous & super::bit(signal) != 0 { abi::SI_SIGIO } else { reason };
        Self { signal, errno: 0, code, rest: [events, u64::from(fd.cast_unsigned()), 0, 0], timer: None }
    }
}
