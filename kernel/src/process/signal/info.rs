//! What a signal carries, and siginfo_t as programs see it (sigaction(2)).
#![forbid(unsafe_code)]

use super::{COUNT, bit};
use linux_raw_sys::general as abi;

/// What siginfo_t holds, by its code and signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Payload {
    /// Process and user id.
    Sender,
    /// The same and a value.
    Value,
    Timer,
    Child,
    /// An address.
    Fault,
    /// Events of a file, and its descriptor.
    Poll,
    /// Where a system call was made, and which.
    Call,
}

/// What a signal carries: the parts of siginfo_t that are used.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    pub signal: u32,
    pub errno: i32,
    pub code: i32,
    /// siginfo_t from byte 16 on.
    pub rest: [u64; 4],
    /// The POSIX timer that sent it.
    pub timer: Option<TimerSignal>,
}

/// A signal's timer.
#[derive(Clone, Copy, Debug)]
pub struct TimerSignal {
    pub id: i32,
    /// The timer's sequence number when the signal was sent.
    pub sequence: u32,
    /// Another signal of this timer may wait already.
    pub again: bool,
}

impl Info {
    /// Sent by the kernel for no particular reason (SI_KERNEL).
    pub const fn kernel(signal: u32) -> Self {
        Self { signal, errno: 0, code: abi::SI_KERNEL as i32, rest: [0; 4], timer: None }
    }

    /// Caused by an instruction that touched `address`.
    pub const fn fault(signal: u32, code: i32, address: usize) -> Self {
        Self { signal, errno: 0, code, rest: [address as u64, 0, 0, 0], timer: None }
    }

    /// A filter of system calls has refused this one, for `reason` (SYS_SECCOMP).
    pub const fn refused_call(pc: u64, number: i32, machine: u32, reason: u32) -> Self {
        let call = number as u32 as u64 | (machine as u64) << 32;
        Self {
            signal: abi::SIGSYS,
            errno: reason as i32,
            code: abi::SYS_SECCOMP as i32,
            rest: [pc, call, 0, 0],
            timer: None,
        }
    }

    /// Sent by the running process: kill (SI_USER) or tkill (SI_TKILL).
    pub fn user(signal: u32, code: i32) -> Self {
        let pid = super::super::current_pid();
        let uid = super::super::current().ids().uid;
        let rest = [u64::from(pid) | u64::from(uid) << 32, 0, 0, 0];
        Self { signal, errno: 0, code, rest, timer: None }
    }

    /// Of what thread `tid`, the running one, has done: for its tracer.
    pub fn user_of_thread(tid: u32, code: i32) -> Self {
        let uid = super::super::current().ids().uid;
        Self {
            signal: 0,
            errno: 0,
            code,
            rest: [u64::from(tid) | u64::from(uid) << 32, 0, 0, 0],
            timer: None,
        }
    }

    /// A child has changed: CLD_EXITED and so on; times in clock ticks.
    pub const fn child(code: u32, pid: u32, uid: u32, status: i32, user: u64, system: u64) -> Self {
        let who = pid as u64 | (uid as u64) << 32;
        Self {
            signal: abi::SIGCHLD,
            errno: 0,
            code: code as i32,
            rest: [who, status as u32 as u64, user, system],
            timer: None,
        }
    }

    /// The signal of a timer stands for `more` further expiries (si_overrun, which ends at the largest `int`).
    pub fn add_overrun(&mut self, more: u64) {
        let sum = (self.rest[0] >> 32).saturating_add(more).min(i32::MAX as u64);
        self.rest[0] = self.rest[0] & u64::from(u32::MAX) | sum << 32;
    }

    /// What the bytes from 16 on are.
    fn payload(&self) -> Payload {
        const FAULTS: u64 =
            bit(abi::SIGSEGV) | bit(abi::SIGBUS) | bit(abi::SIGILL) | bit(abi::SIGTRAP) | bit(abi::SIGFPE);
        /// POLL_HUP: codes up to here are of files, where a signal has none of its own.
        const LAST_POLL: i32 = 6;
        /// SYS_USER_DISPATCH.
        const LAST_CALL: i32 = 2;
        match self.code {
            abi::SI_TIMER => Payload::Timer,
            abi::SI_SIGIO => Payload::Poll,
            code if code < 0 && code != abi::SI_TKILL => Payload::Value,
            code if code <= 0 || code == abi::SI_KERNEL as i32 => Payload::Sender,
            _ if self.signal == abi::SIGCHLD => Payload::Child,
            _ if (1..=COUNT).contains(&self.signal) && bit(self.signal) & FAULTS != 0 => Payload::Fault,
            1..=LAST_CALL if self.signal == abi::SIGSYS => Payload::Call,
            1..=LAST_POLL => Payload::Poll,
            _ => Payload::Sender,
        }
    }

    /// siginfo_t as a program sees it.
    pub fn to_bytes(self) -> [u8; 128] {
        let mut bytes = [0; 128];
        let words = [self.signal as i32, self.errno, self.code];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        for (to, word) in bytes[16..].chunks_exact_mut(8).zip(self.rest) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// struct signalfd_siginfo: what a read of a signal file gives (signalfd(2)).
    #[expect(clippy::arithmetic_side_effects, reason = "offsets in a table above")]
    pub fn to_signalfd(self) -> [u8; 128] {
        let bytes = self.to_bytes();
        let mut out = [0; 128];
        // Offset in siginfo_t, offset and length here, by what the code says the signal carries.
        const HEAD: [(usize, usize, usize); 3] = [(0, 0, 4), (4, 4, 4), (8, 8, 4)];
        const SENDER: [(usize, usize, usize); 2] = [(16, 12, 4), (20, 16, 4)];
        const VALUE: [(usize, usize, usize); 2] = [(24, 44, 4), (24, 48, 8)];
        const TIMER: [(usize, usize, usize); 4] = [(16, 24, 4), (20, 32, 4), (24, 44, 4), (24, 48, 8)];
        const CHILD: [(usize, usize, usize); 5] =
            [(16, 12, 4), (20, 16, 4), (24, 40, 4), (32, 56, 8), (40, 64, 8)];
        const POLL: [(usize, usize, usize); 2] = [(16, 28, 4), (24, 20, 4)];
        const FAULT: [(usize, usize, usize); 1] = [(16, 72, 8)];
        const CALL: [(usize, usize, usize); 3] = [(16, 88, 8), (24, 84, 4), (28, 96, 4)];
        let mut copy = |fields: &[(usize, usize, usize)]| {
            for &(from, to, len) in fields {
                if let (Some(to), Some(from)) = (out.get_mut(to..to + len), bytes.get(from..from + len)) {
                    to.copy_from_slice(from);
                }
            }
        };
        copy(&HEAD);
        match self.payload() {
            Payload::Sender => copy(&SENDER),
            Payload::Value => {
                copy(&SENDER);
                copy(&VALUE);
            }
            Payload::Timer => copy(&TIMER),
            Payload::Child => copy(&CHILD),
            Payload::Fault => copy(&FAULT),
            Payload::Poll => copy(&POLL),
            Payload::Call => copy(&CALL),
        }
        out
    }

    /// What rt_sigqueueinfo was given.
    #[expect(clippy::arithmetic_side_effects, reason = "offsets in an array")]
    pub fn from_bytes(bytes: &[u8; 128]) -> Self {
        let word = |n: usize| i32::from_ne_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]]);
        let long = |n: usize| u64::from(word(n) as u32) | u64::from(word(n + 4) as u32) << 32;
        Self {
            signal: word(0) as u32,
            errno: word(4),
            code: word(8),
            rest: [long(16), long(24), long(32), long(40)],
            timer: None,
        }
    }
}
