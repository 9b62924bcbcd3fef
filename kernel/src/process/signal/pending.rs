//! Signals that are sent and not yet delivered: the sets and queues of a process and of its threads, and how many may wait.
//!
//! The first [`FEW`] signals that wait lie in one short queue, in the order in which they came. Those that come while it is full, or while others of their
//! number lie there, go to a list of their number ([`Many`]). So of one number those in the short queue are the older ones, and neither sending nor taking
//! a signal takes longer the more there are. What is thrown away is only unlinked under the lock, and dropped by the caller ([`Gone`]).
//!
//! A process has a [`Queue`] of such a set, and each of its threads.
#![deny(unsafe_code)]

use super::{COUNT, Crowd, Info, SYNCHRONOUS, TimerSignal, bit};
use crate::account::{Charge, Kind};
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::process::Process;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use intrusive_collections::{LinkedList, LinkedListLink, intrusive_adapter};
use linux_raw_sys::general as abi;
use sync::level::{Before, Held};
use sync::protocol::mask::Waiting;
use sync::quota::UNLIMITED;
use sync::rcu::{InParts, Parts};
use sync::{AllocError, SpinLock, lock_class, try_box};

lock_class! { static PENDING: LockClass = ("pending signals", level::PendingSignals); }

/// Signals that are pending: sent and not yet delivered.
#[derive(Default)]
pub struct PendingSet {
    pub set: u64,
    /// None until the first comes: most threads and processes end without one.
    few: Option<VecDeque<Queued>>,
    many: Option<Box<Many>>,
}

/// A signal with what it carries.
struct Queued {
    info: Info,
    /// A timer's signal is counted with the timer.
    _charge: Option<Charge>,
}

/// One of many.
struct Node {
    link: LinkedListLink,
    queued: Queued,
}

intrusive_adapter!(ByNumber = Box<Node>: Node { link => LinkedListLink });

/// A list for each number.
struct Many {
    lists: [LinkedList<ByNumber>; COUNT as usize],
}

impl Many {
    fn try_new() -> core::result::Result<Box<Self>, AllocError> {
        try_box(Many { lists: [const { LinkedList::new(ByNumber::NEW) }; COUNT as usize] })
    }

    fn list(&mut self, signal: u32) -> Option<&mut LinkedList<ByNumber>> {
        self.lists.get_mut(signal.checked_sub(1)? as usize)
    }

    fn is_empty(&self) -> bool {
        self.lists.iter().all(LinkedList::is_empty)
    }
}

/// Signals that lie in one queue, whatever their numbers. Such a number goes with its process or thread as it is.
const FEW: usize = 64;

/// Signals that were thrown away, to be dropped once no spinning lock is held.
#[derive(Default)]
#[must_use]
pub struct Gone(LinkedList<ByNumber>);

impl Gone {
    /// Gives way.
    pub fn drop_in_turns(mut self) {
        while self.drop_some() {
            let _ = crate::sched::give_way();
        }
    }

    /// For who may not rest. Without memory they are dropped here.
    pub fn drop_soon(self) {
        if !self.0.is_empty()
            && let Ok(mut parts) = try_box(InParts::new(Gone::default()))
        {
            *parts.value() = self;
            InParts::drop_soon(parts);
        }
    }

    fn add(&mut self, other: &mut LinkedList<ByNumber>) {
        self.0.back_mut().splice_after(other.take());
    }

    /// False: none is left.
    fn drop_some(&mut self) -> bool {
        (0..FEW).all(|_| self.0.pop_front().is_some())
    }
}

impl Parts for Gone {
    fn drop_part(&mut self) -> bool {
        self.drop_some()
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
        Self { set: 0, few: None, many: None }
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
            if of.again && self.add_overrun(info.signal, of) {
                return Ok(());
            }
        } else if info.signal < FIRST_REALTIME && self.set & bit(info.signal) != 0 {
            return Ok(());
        }
        let unlimited = info.signal < FIRST_REALTIME && info.code >= 0;
        let of = if unlimited { Allowance { limit: UNLIMITED, ..of } } else { of };
        let charge = if info.timer.is_some() { Ok(None) } else { of.charge().map(Some) };
        let queued = charge.is_ok_and(|charge| self.push(Queued { info: *info, _charge: charge }).is_ok());
        if !queued && must_queue && (info.signal >= FIRST_REALTIME || info.timer.is_some()) {
            return Err(Errno::EAGAIN);
        }
        self.set |= bit(info.signal);
        Ok(())
    }

    /// Without memory it is dropped.
    fn push(&mut self, queued: Queued) -> core::result::Result<(), AllocError> {
        let few = self.few.get_or_insert_default();
        if self.many.is_none() && few.len() < FEW {
            few.try_reserve(1).map_err(|_| AllocError)?;
            few.push_back(queued);
            return Ok(());
        }
        self.push_to_many(queued)
    }

    #[cold]
    fn push_to_many(&mut self, queued: Queued) -> core::result::Result<(), AllocError> {
        let many = match &mut self.many {
            Some(many) => many,
            none => none.insert(Many::try_new()?),
        };
        let list = many.list(queued.info.signal).ok_or(AllocError)?;
        let few = self.few.get_or_insert_default();
        if list.is_empty() && few.len() < FEW {
            few.try_reserve(1).map_err(|_| AllocError)?;
            few.push_back(queued);
            return Ok(());
        }
        list.push_back(try_box(Node { link: LinkedListLink::new(), queued })?);
        Ok(())
    }

    /// The signal of `timer` waits, under number `signal`: it has expired once more. False: it does not wait.
    fn add_overrun(&mut self, signal: u32, timer: TimerSignal) -> bool {
        let is_it = |info: &Info| info.timer.is_some_and(|t| t.id == timer.id);
        let change = |info: &mut Info| {
            info.timer = Some(timer);
            info.add_overrun(1);
        };
        if let Some(waiting) = self.few.iter_mut().flatten().find(|q| is_it(&q.info)) {
            change(&mut waiting.info);
            return true;
        }
        let Some(list) = self.many.as_mut().and_then(|many| many.list(signal)) else { return false };
        let mut at = list.front_mut();
        while let Some(node) = at.get() {
            if is_it(&node.queued.info) {
                if let Some(mut node) = at.remove() {
                    change(&mut node.queued.info);
                    at.insert_before(node);
                }
                return true;
            }
            at.move_next();
        }
        false
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
        let queued = self.few.as_mut().and_then(|few| {
            let at = few.iter().position(|q| q.info.signal == signal)?;
            few.remove(at)
        });
        let queued = queued.or_else(|| self.take_of_many(signal));
        let info = queued.map_or(Info { code: 0, ..Info::kernel(signal) }, |q| q.info);
        if !self.few.iter().flatten().any(|q| q.info.signal == signal) && !self.any_of_many(signal) {
            self.set &= !bit(signal);
        }
        Some(info)
    }

    fn take_of_many(&mut self, signal: u32) -> Option<Queued> {
        let many = self.many.as_mut()?;
        let list = many.list(signal)?;
        let node = list.pop_front()?;
        if list.is_empty() && many.is_empty() {
            self.many = None;
        }
        Some(node.queued)
    }

    /// What the signal at place `at` carries, of those that carry anything: in the order in which they came, and behind the short queue by their numbers.
    fn look(&self, mut at: usize) -> Option<Info> {
        let few = self.few.iter().flatten();
        let many = self.many.iter().flat_map(|many| &many.lists);
        if let Some(queued) = few.clone().nth(at) {
            return Some(queued.info);
        }
        at = at.checked_sub(few.count())?;
        many.flat_map(LinkedList::iter).nth(at).map(|node| node.queued.info)
    }

    fn any_of_many(&mut self, signal: u32) -> bool {
        self.many.as_mut().and_then(|many| many.list(signal)).is_some_and(|list| !list.is_empty())
    }

    /// Takes out what is too much to drop where nobody may sleep, once nobody takes signals from here any more.
    pub(super) fn take_many(&mut self) -> Gone {
        let mut gone = Gone::default();
        if let Some(mut many) = self.many.take() {
            many.lists.iter_mut().for_each(|list| gone.add(list));
        }
        gone
    }

    /// Throws away those of `signals`: into `gone`.
    pub(super) fn discard(&mut self, signals: u64, gone: &mut Gone) {
        if self.set & signals == 0 {
            return;
        }
        self.set &= !signals;
        if let Some(few) = &mut self.few {
            few.retain(|q| bit(q.info.signal) & signals == 0);
        }
        let Some(many) = &mut self.many else { return };
        for signal in (1..=COUNT).filter(|signal| bit(*signal) & signals != 0) {
            if let Some(list) = many.list(signal) {
                gone.add(list);
            }
        }
        if many.is_empty() {
            self.many = None;
        }
    }
}

/// A queue of signals with a lock of its own, which is taken under the process's signals or alone. Which signals wait can be seen without it.
///
/// Where a process has a [`Crowd`], what was thrown away of all its threads is still there until a thread's queue is locked next, and shown with it.
pub struct Queue {
    queued: SpinLock<Settled, level::PendingSignals>,
    /// The set of `queued`.
    waiting: Waiting,
}

/// The signals of a queue, and up to which mark of its crowd it is settled.
struct Settled {
    signals: PendingSet,
    settled: u64,
}

impl Queue {
    pub fn new() -> Self {
        let queued = Settled { signals: PendingSet::new(), settled: 0 };
        Self { queued: SpinLock::new(queued, &PENDING), waiting: Waiting::new() }
    }

    fn change<R>(
        &self,
        held: &mut Held<'_, impl Before<level::PendingSignals>>,
        crowd: Option<&Arc<Crowd>>,
        f: impl FnOnce(&mut PendingSet) -> R,
    ) -> R {
        let mut queued = self.queued.lock_in(held);
        let (Settled { signals, settled }, order) = queued.split();
        let gone = crowd.map(|crowd| crowd.settle(order, signals, settled));
        let result = f(signals);
        self.waiting.store(signals.set);
        drop(queued);
        if let Some(gone) = gone {
            gone.drop_soon();
        }
        result
    }

    /// The signals that wait in a thread's queue, without those that were thrown away.
    pub(super) fn settled_set(&self, crowd: &Arc<Crowd>) -> u64 {
        self.change(&mut Held::clean(), Some(crowd), |queued| queued.set)
    }

    /// As [`PendingSet::put`].
    pub(super) fn put(
        &self,
        held: &mut Held<'_, impl Before<level::PendingSignals>>,
        crowd: Option<&Arc<Crowd>>,
        info: &Info,
        must_queue: bool,
        of: Allowance,
    ) -> Result {
        self.change(held, crowd, |queued| queued.put(info, must_queue, of))
    }

    /// As [`PendingSet::take`].
    pub(super) fn take(
        &self,
        held: &mut Held<'_, impl Before<level::PendingSignals>>,
        crowd: Option<&Arc<Crowd>>,
        blocked: u64,
    ) -> Option<Info> {
        self.change(held, crowd, |queued| queued.take(blocked))
    }

    /// As [`PendingSet::look`].
    pub(super) fn look(&self, crowd: Option<&Arc<Crowd>>, at: usize) -> Option<Info> {
        if self.set() == 0 {
            return None;
        }
        self.change(&mut Held::clean(), crowd, |queued| queued.look(at))
    }

    /// As [`PendingSet::discard`]. Under the process's signals, so that none of `signals` comes meanwhile but from a thread for itself.
    pub(super) fn discard(
        &self,
        held: &mut Held<'_, impl Before<level::PendingSignals>>,
        signals: u64,
        gone: &mut Gone,
    ) {
        if self.set() & signals != 0 {
            self.change(held, None, |queued| queued.discard(signals, gone));
        }
    }

    /// Nobody takes signals from it any more.
    pub fn end(&self) -> Gone {
        self.change(&mut Held::clean(), None, PendingSet::take_many)
    }

    /// The signals that wait in it, and those of a crowd's that were thrown away and are still there.
    #[inline]
    pub fn set(&self) -> u64 {
        self.waiting.set()
    }
}
