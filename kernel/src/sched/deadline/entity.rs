//! What a task has left of its run time, and until when it is to have it: a constant bandwidth server.
//!
//! Budget, deadline and place change under the lock of the task's queue. The parameters change under the lock of `admission`; who takes half of a change
//! up has a budget of neither the one nor the other once.
#![forbid(unsafe_code)]

use super::parameters::{Parameters, UNIT};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering::Relaxed};
use intrusive_collections::RBTreeAtomicLink;
use sync::protocol::sequence::{HalfWord, Sequence, Word};

use super::super::task::Task;

/// In `flags`.
const RECLAIMS: u32 = 1;
const IS_TOLD: u32 = 2;

/// How often a reader of the parameters looks again.
const TRIES: u32 = 16;

/// See the head of the file.
pub struct Entity {
    /// On a tree of `Line`, while the task waits.
    pub(super) link: RBTreeAtomicLink,
    /// Its task's run reference, while it is on a tree.
    pub(super) task: AtomicPtr<Task>,
    sequence: Sequence,
    runtime: Word,
    relative: Word,
    period: Word,
    flags: HalfWord,
    /// What it has left of its run time, ns; it has run for longer than it might if this is below 0.
    left: AtomicI64,
    /// Its deadline, on the monotonic clock, ns.
    at: AtomicU64,
    /// While it is throttled: until when.
    until: AtomicU64,
    /// It waits for its next period, not for a CPU.
    is_throttled: AtomicBool,
    /// It may hold locks that others wait for, and so is not throttled: it has the next budget at once, and a later deadline with it.
    is_held: AtomicBool,
    /// It has given the rest of its run time up.
    has_yielded: AtomicBool,
    /// It has run for longer than it has said, and is to be told.
    has_overrun: AtomicBool,
    /// The bandwidth as which its CPU counts it (`reclaim`).
    pub(super) counted: AtomicU64,
    /// What it sleeps with (`reclaim`).
    pub(super) zero_lag: AtomicU64,
    /// The bandwidth that it was admitted with. Under the lock of `admission`.
    pub(super) admitted: AtomicU64,
}

/// What becomes of a task that asks for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    Ready,
    /// It has had its run time of this period, which ends then.
    Waits(u64),
}

impl Entity {
    pub(super) fn new() -> Self {
        Self {
            link: RBTreeAtomicLink::new(),
            task: AtomicPtr::new(core::ptr::null_mut()),
            sequence: Sequence::new(),
            runtime: Word::new(),
            relative: Word::new(),
            period: Word::new(),
            flags: HalfWord::new(),
            left: AtomicI64::new(0),
            at: AtomicU64::new(0),
            until: AtomicU64::new(0),
            is_throttled: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            has_yielded: AtomicBool::new(false),
            has_overrun: AtomicBool::new(false),
            counted: AtomicU64::new(0),
            zero_lag: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
        }
    }

    pub fn parameters(&self) -> Parameters {
        let read = || {
            let flags = self.flags.load();
            Parameters {
                runtime: self.runtime.load(),
                deadline: self.relative.load(),
                period: self.period.load(),
                reclaims: flags & RECLAIMS != 0,
                is_told: flags & IS_TOLD != 0,
            }
        };
        (0..TRIES).find_map(|_| self.sequence.read(read)).unwrap_or_else(read)
    }

    /// Counts from the next budget on. Under the lock of `admission`.
    pub fn set_parameters(&self, parameters: Parameters) {
        self.sequence.write(|| {
            self.runtime.store(parameters.runtime);
            self.relative.store(parameters.deadline);
            self.period.store(parameters.period);
            let reclaims = if parameters.reclaims { RECLAIMS } else { 0 };
            self.flags.store(reclaims | if parameters.is_told { IS_TOLD } else { 0 });
        });
    }

    /// What it has left of its run time, ns.
    pub fn left(&self) -> i64 {
        self.left.load(Relaxed)
    }

    /// Its deadline.
    pub fn at(&self) -> u64 {
        self.at.load(Relaxed)
    }

    /// While it is throttled: until when.
    pub fn until(&self) -> u64 {
        self.until.load(Relaxed)
    }

    pub fn set_until(&self, time: u64) {
        self.until.store(time, Relaxed);
    }

    pub fn is_throttled(&self) -> bool {
        self.is_throttled.load(Relaxed)
    }

    pub(super) fn set_throttled(&self, is_throttled: bool) {
        self.is_throttled.store(is_throttled, Relaxed);
    }

    /// It is in the kernel, perhaps with locks, until it says that it is not, or has slept. By its own CPU.
    pub fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Relaxed);
    }

    /// Has it to wait until `next`, where it has nothing left?
    fn has_to_wait(&self, now: u64, next: u64) -> bool {
        now < next && !self.is_held.load(Relaxed)
    }

    /// Has it had its run time?
    pub fn is_exhausted(&self) -> bool {
        self.left() <= 0
    }

    /// It has given the rest of its run time up. Its own CPU.
    pub fn yield_turn(&self) {
        self.has_yielded.store(true, Relaxed);
    }

    pub fn has_overrun(&self) -> bool {
        self.has_overrun.load(Relaxed)
    }

    /// It is to be told that it has run for longer than it has said; not again.
    pub fn take_overrun(&self) -> bool {
        self.has_overrun.load(Relaxed) && self.has_overrun.swap(false, Relaxed)
    }

    /// The end of its period.
    fn next_period(&self, p: Parameters) -> u64 {
        self.at().saturating_sub(p.deadline).saturating_add(p.period)
    }

    /// A new budget, with a deadline from now on.
    fn begin(&self, p: Parameters, now: u64) {
        self.at.store(now.saturating_add(p.deadline), Relaxed);
        self.set_left(p.runtime);
    }

    fn set_left(&self, ns: u64) {
        self.left.store(i64::try_from(ns).unwrap_or(i64::MAX), Relaxed);
    }

    /// Its period is over: as many budgets as it takes to have something left, each with a period.
    pub fn replenish(&self, now: u64) {
        let p = self.parameters();
        let owes = self.left().min(0).unsigned_abs();
        let periods = owes.checked_div(p.runtime).unwrap_or(0).saturating_add(1);
        let at = self.at().saturating_add(periods.saturating_mul(p.period));
        if at <= now {
            return self.begin(p, now);
        }
        self.at.store(at, Relaxed);
        self.set_left(periods.saturating_mul(p.runtime).saturating_sub(owes));
    }

    /// It asks for a CPU: it wakes, or has come into the class. Budget and deadline stay if that makes it no more of a load than it has said.
    pub fn arrive(&self, now: u64) -> Arrival {
        let p = self.parameters();
        let next = self.next_period(p);
        if self.at() == 0 {
            // It never had a budget.
            self.begin(p, now);
        }
        if self.is_exhausted() {
            if self.has_to_wait(now, next) {
                return self.wait_until(next);
            }
            self.replenish(now);
        }
        let at = self.at();
        if at <= now {
            // With a new budget it would have two in one period.
            if p.is_constrained() && self.has_to_wait(now, next) {
                self.left.store(0, Relaxed);
                return self.wait_until(next);
            }
            self.begin(p, now);
        } else if self.is_too_much(p, at.saturating_sub(now)) {
            if !p.is_constrained() {
                self.begin(p, now);
                return Arrival::Ready;
            }
            // What its density allows until the deadline (Abeni, Lipari and Lelli, "Constant Bandwidth Server Revisited", 2015).
            let part = u128::from(at.saturating_sub(now)) * u128::from(p.runtime);
            let left = part.checked_div(u128::from(p.deadline)).unwrap_or(0);
            self.set_left(u64::try_from(left).unwrap_or(u64::MAX));
            if self.is_exhausted() {
                return self.wait_until(next);
            }
        }
        Arrival::Ready
    }

    fn wait_until(&self, time: u64) -> Arrival {
        self.set_until(time);
        Arrival::Waits(time)
    }

    /// Would it run, with what it has left until its deadline in `ns`, for a larger part of the time than it has said?
    fn is_too_much(&self, p: Parameters, ns: u64) -> bool {
        let left = u128::from(self.left().max(0).unsigned_abs());
        left * u128::from(p.deadline) > u128::from(ns) * u128::from(p.runtime)
    }

    /// It has run for `ns`, and pays this part of that, in [`UNIT`]s.
    pub fn charge(&self, ns: u64, part: u64) {
        let paid = i64::try_from(u128::from(ns) * u128::from(part) / u128::from(UNIT)).unwrap_or(i64::MAX);
        self.left.store(self.left().saturating_sub(paid), Relaxed);
    }

    /// It has run up to now, and is counted. Has it to wait for its next period? Else it goes on, perhaps with a new budget and a later deadline.
    pub fn ends_turn(&self, now: u64) -> bool {
        let has_yielded = self.has_yielded.load(Relaxed);
        if !has_yielded && !self.is_exhausted() {
            return false;
        }
        let p = self.parameters();
        if self.is_exhausted() && p.is_told {
            self.has_overrun.store(true, Relaxed);
        }
        if has_yielded {
            self.has_yielded.store(false, Relaxed);
            self.left.store(self.left().min(0), Relaxed);
        }
        let next = self.next_period(p);
        if self.has_to_wait(now, next) {
            self.set_until(next);
            return true;
        }
        self.replenish(now);
        false
    }

    /// When a task that sleeps has used up what it has left, at the bandwidth that it has said: until then it counts as if it ran.
    pub fn zero_lag_time(&self) -> u64 {
        let p = self.parameters();
        let left = u128::from(self.left().max(0).unsigned_abs());
        let rest = (left * u128::from(p.period)).checked_div(u128::from(p.runtime)).unwrap_or(0);
        self.at().saturating_sub(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests;
