//! Signals that are sent and not yet delivered: the sets and queues of a process and of its threads, and how many may wait.
//!
//! A process's set is under its signals' lock; a thread's has a lock of its own, taken under that or alone.
#![forbid(unsafe_code)]

use super::{Info, SYNCHRONOUS, bit};
use crate::account::{Charge, Kind};
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::process::Process;
use alloc::collections::VecDeque;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use sync::level::{Before, Held};
use sync::quota::UNLIMITED;
use sync::{SpinGuard, SpinLock, lock_class};

lock_class! { static PENDING: LockClass = ("pending signals", level::PendingSignals); }

/// Signals that are pending: sent and not yet delivered.
#[derive(Default)]
pub struct PendingSet {
    pub set: u64,
    /// None until the first comes: most threads and processes end without one.
    infos: Option<VecDeque<Queued>>,
}

/// A signal with what it carries.
struct Queued {
    info: Info,
    /// A timer's signal is counted with the timer.
    _charge: Option<Charge>,
}

/// Signals that go with their process or thread as they are.
const FEW: usize = 64;

/// Signals that waited for a process or thread that ends. None if they are few.
#[must_use]
pub struct ManySignals(Option<VecDeque<Queued>>);

impl ManySignals {
    /// Gives way.
    pub fn drop_in_turns(self) {
        let Some(signals) = self.0 else { return };
        for (n, signal) in signals.into_iter().enumerate() {
            drop(signal);
            if n.is_multiple_of(FEW) {
                let _ = crate::sched::give_way();
            }
        }
    }
}

/// For whom a process's signals are counted, and how many there may be (RLIMIT_SIGPENDING).
#[derive(Clone, Copy)]
pub struct Allowance {
    uid: u32,
    limit: u64,
}

impl Allowance {
    #[cfg(test)]
    pub const fn new(uid: u32, limit: u64) -> Self {
        Self { uid, limit }
    }

    pub fn of(process: &Process) -> Self {
        let limit = process.limits.soft(abi::RLIMIT_SIGPENDING).min(UNLIMITED);
        Self { uid: process.uid.load(Ordering::Relaxed), limit }
    }

    /// Counts one more.
    ///
    /// # Errors
    /// EAGAIN: there are as many as may be, or no memory.
    pub fn charge(&self) -> Result<Charge> {
        Charge::try_new(self.uid, Kind::Signals, 1, self.limit).map_err(|_| Errno::EAGAIN)
    }
}

impl PendingSet {
    pub(super) const fn new() -> Self {
        Self { set: 0, infos: None }
    }

    /// Queues a signal. A standard signal that waits already is dropped; without memory only its bit is set. The kernel's own standard signals, and
    /// those of kill, are counted but not limited, as on Linux.
    ///
    /// # Errors
    /// EAGAIN: too many of a real-time signal that the sender wants queued.
    pub(super) fn put(&mut self, info: &Info, must_queue: bool, of: Allowance) -> Result {
        const FIRST_REALTIME: u32 = 32;
        if let Some(of) = info.timer {
            // A timer has one signal waiting at a time, whatever else waits under that number. Looked for only where there may be
            // one: thousands of timers may go off together.
            let mut infos = self.infos.iter_mut().flatten().take(if of.again { usize::MAX } else { 0 });
            if let Some(waiting) = infos.find(|q| q.info.timer.is_some_and(|t| t.id == of.id)) {
                waiting.info.timer = info.timer;
                waiting.info.add_overrun(1);
                return Ok(());
            }
        } else if info.signal < FIRST_REALTIME && self.set & bit(info.signal) != 0 {
            return Ok(());
        }
        let unlimited = info.signal < FIRST_REALTIME && info.code >= 0;
        let of = if unlimited { Allowance { limit: UNLIMITED, ..of } } else { of };
        let charge = if info.timer.is_some() { Ok(None) } else { of.charge().map(Some) };
        let infos = self.infos.get_or_insert_default();
        let queued = match charge {
            Ok(charge) if infos.try_reserve(1).is_ok() => {
                infos.push_back(Queued { info: *info, _charge: charge });
                true
            }
            _ => false,
        };
        if !queued && must_queue && (info.signal >= FIRST_REALTIME || info.timer.is_some()) {
            return Err(Errno::EAGAIN);
        }
        self.set |= bit(info.signal);
        Ok(())
    }

    /// Takes the next signal that is not in `blocked`: synchronous ones first, then the lowest number.
    #[expect(clippy::arithmetic_side_effects, reason = "at most 64")]
    pub(super) fn take(&mut self, blocked: u64) -> Option<Info> {
        let ready = self.set & !blocked;
        let first = if ready & SYNCHRONOUS != 0 { ready & SYNCHRONOUS } else { ready };
        if first == 0 {
            return None;
        }
        let signal = first.trailing_zeros() + 1;
        let queued = self.infos.as_mut().and_then(|infos| {
            let at = infos.iter().position(|q| q.info.signal == signal)?;
            infos.remove(at)
        });
        let info = queued.map_or(Info { code: 0, ..Info::kernel(signal) }, |q| q.info);
        if !self.infos.iter().flatten().any(|q| q.info.signal == signal) {
            self.set &= !bit(signal);
        }
        Some(info)
    }

    /// Takes out what is too much to drop where nobody may sleep, once nobody takes signals from here any more.
    pub(super) fn take_many(&mut self) -> ManySignals {
        ManySignals(self.infos.take_if(|infos| infos.len() > FEW))
    }

    pub(super) fn discard(&mut self, signals: u64) {
        if self.set & signals != 0 {
            self.set &= !signals;
            if let Some(infos) = &mut self.infos {
                infos.retain(|q| bit(q.info.signal) & signals == 0);
            }
        }
    }
}

/// A thread's own queue. Its lock is taken under the process's.
pub struct Queue(SpinLock<PendingSet, level::PendingSignals>);

impl Queue {
    pub fn new() -> Self {
        Self(SpinLock::new(PendingSet::new(), &PENDING))
    }

    /// Under the process's signals, or under no lock.
    pub fn lock<'a>(
        &'a self,
        held: &'a mut Held<'_, impl Before<level::PendingSignals>>,
    ) -> SpinGuard<'a, PendingSet, level::PendingSignals> {
        self.0.lock_in(held)
    }

    /// The thread ends.
    pub fn end(&self) -> ManySignals {
        self.lock(&mut Held::clean()).take_many()
    }

    /// The signals that wait in it.
    pub fn set(&self) -> u64 {
        self.lock(&mut Held::clean()).set
    }
}
