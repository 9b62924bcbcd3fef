//! Processes with so many threads that nobody who may not rest comes by all of them.
//!
//! What is thrown away of all threads' queues is only marked ([`Marks`]): each queue knows up to which mark it is settled, and throws away what came before
//! when it is locked next ([`Crowd::settle`]). Nothing comes to a queue that is not settled, so what is marked later than a queue is settled was put there
//! before the mark. A thread's signal to itself during the mark may go either way, as if it came just before or just after.
//!
//! The first threads of the list are asked at once; who comes after them is left to a thread of the kernel's ([`super::errand`]).
//!
//! A process has a [`Crowd`] from its [`MANY`]th thread on, until it ends.
//!
//! LockOrder: a queue of signals, or the members of a group → marks.
#![forbid(unsafe_code)]

use super::pending::PendingSet;
use super::{COUNT, Gone, Info, Signals, bit};
use crate::lock_order as level;
use crate::process::usage::Used;
use crate::process::{Process, Thread};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};
use intrusive_collections::LinkedListAtomicLink;
use once_cell::race::OnceBox;
use sync::level::{Before, Held};
use sync::{AllocError, SpinLock, lock_class, rcu, try_arc, try_box};

lock_class! { static MARKS: LockClass = ("signal marks", level::SignalMarks); }

/// Threads that are come by in one go.
pub(super) const MANY: usize = if cfg!(test) { 4 } else { 256 };

/// When something last happened to each signal, in numbers that rise.
pub struct Marks {
    last: AtomicU64,
    of: SpinLock<[u64; COUNT as usize], level::SignalMarks>,
}

impl Marks {
    const fn new() -> Self {
        Self { last: AtomicU64::new(0), of: SpinLock::new([0; COUNT as usize], &MARKS) }
    }

    pub fn now(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// It happens to `signals`.
    fn mark(&self, held: &mut Held<'_, impl Before<level::SignalMarks>>, signals: u64) {
        let mut of = self.of.lock_in(held);
        let now = self.last.load(Ordering::Relaxed).saturating_add(1);
        let marked = of.iter_mut().zip(1..=COUNT).filter(|(_, signal)| bit(*signal) & signals != 0);
        marked.for_each(|(at, _)| *at = now);
        self.last.store(now, Ordering::Release);
    }

    /// The signals to which it has happened since it was `then`.
    fn since(&self, held: &mut Held<'_, impl Before<level::SignalMarks>>, then: u64) -> u64 {
        let of = self.of.lock_in(held);
        let marked = of.iter().zip(1..=COUNT).filter(|(at, _)| **at > then);
        marked.fold(0, |set, (_, signal)| set | bit(signal))
    }
}

/// What a process of many threads has besides.
pub struct Crowd {
    pub(super) errand: LinkedListAtomicLink,
    pub(super) process: Weak<Process>,
    /// Signals of which threads are to be told.
    pub(super) to_tell: AtomicU64,
    /// When signals were thrown away of all its threads.
    thrown: Marks,
    /// When the process was sent a signal as one of its group.
    sent_to_group: Marks,
    pub used: Used,
}

impl Crowd {
    /// Throws away of a queue what was thrown away since it was settled last.
    pub(super) fn settle(
        &self,
        held: &mut Held<'_, impl Before<level::SignalMarks>>,
        queued: &mut PendingSet,
        settled: &mut u64,
    ) -> Gone {
        let mut gone = Gone::default();
        let now = self.thrown.now();
        if now != *settled && queued.set != 0 {
            queued.discard(self.thrown.since(held, *settled), &mut gone);
        }
        *settled = now;
        gone
    }

    /// What [`Crowd::sent_since`] takes at the end of a fork that begins now.
    pub fn sent_now(&self) -> u64 {
        self.sent_to_group.now()
    }

    /// The signals that the process was sent as one of its group since then.
    pub fn sent_since(&self, held: &mut Held<'_, impl Before<level::SignalMarks>>, then: u64) -> u64 {
        self.sent_to_group.since(held, then)
    }
}

/// A process's reference to its own.
pub(super) struct Own(Arc<Crowd>);

/// Where it lies.
pub(super) type Place = OnceBox<Own>;

impl Signals {
    /// None: the process has few threads.
    #[inline]
    pub fn crowd(&self) -> Option<&Arc<Crowd>> {
        self.crowd.get().map(|own| &own.0)
    }

    /// Throws signals of all threads of `process` away. Under the process's signals.
    pub(super) fn discard_of_threads(
        &self,
        process: &Process,
        held: &mut Held<'_, level::ProcessSignals>,
        signals: u64,
        gone: &mut Gone,
    ) {
        let Some(crowd) = self.crowd() else {
            // None is added under the process's signals, so none that has any is missed.
            let read = rcu::read();
            process.threads.iter(&read).for_each(|thread| thread.pending.discard(held, signals, gone));
            return;
        };
        let mut threads = process.threads.lock_in(held);
        let (threads, held) = threads.split();
        if process.thread_count() as usize > MANY {
            return crowd.thrown.mark(held, signals);
        }
        threads.visit(None, |thread| {
            thread.pending.discard(held, signals, gone);
            true
        });
    }
}

impl Process {
    /// Before one more thread is added.
    ///
    /// # Errors
    /// No memory.
    pub fn expect_thread(self: &Arc<Self>) -> core::result::Result<(), AllocError> {
        if self.thread_count() as usize >= MANY && self.signals.crowd().is_none() {
            let crowd = Crowd {
                errand: LinkedListAtomicLink::new(),
                process: Arc::downgrade(self),
                to_tell: AtomicU64::new(0),
                thrown: Marks::new(),
                sent_to_group: Marks::new(),
                used: Used::new(),
            };
            // Another thread may have made one meanwhile.
            let _ = self.signals.crowd.set(try_box(Own(try_arc(crowd)?))?);
        }
        Ok(())
    }

    /// Has it more threads than are come by in one go?
    pub(super) fn is_crowd(&self) -> bool {
        self.thread_count() as usize > MANY && self.signals.crowd().is_some()
    }

    /// The first thread for which `test` holds, of those that are come by in one go; and whether there are others.
    pub(super) fn find_of_first(&self, mut test: impl FnMut(&Thread) -> bool) -> (Option<Arc<Thread>>, bool) {
        let threads = self.threads.lock();
        let are_others = self.is_crowd();
        let mut found = None;
        let mut left = if are_others { MANY } else { usize::MAX };
        threads.visit(None, |thread| {
            if test(thread) {
                found = Some(thread.clone());
            }
            left = left.saturating_sub(1);
            found.is_none() && left != 0
        });
        (found, are_others)
    }

    /// It was sent `signal` as one of its group: a fork by one of its threads that is under way sends it to the child.
    pub(super) fn note_sent_to_group(&self, signal: u32) {
        let mut threads = self.threads.lock();
        let (threads, held) = threads.split();
        match self.signals.crowd() {
            Some(crowd) if self.thread_count() as usize > MANY => crowd.sent_to_group.mark(held, bit(signal)),
            _ => threads.visit(None, |thread| {
                thread.sent_to_group.fetch_or(bit(signal), Ordering::AcqRel);
                true
            }),
        }
    }
}

impl Thread {
    /// The signals that wait for it alone.
    pub fn pending_signals(&self) -> u64 {
        match (self.pending.set(), self.process.signals.crowd()) {
            (0, _) => 0,
            (set, None) => set,
            (_, Some(crowd)) => self.pending.settled_set(crowd),
        }
    }

    /// What the signal at place `at` carries, of those that wait for it alone or `shared` for its process.
    pub fn look_at_waiting(&self, shared: bool, at: usize) -> Option<Info> {
        let signals = &self.process.signals;
        if shared { signals.shared.look(None, at) } else { self.pending.look(signals.crowd(), at) }
    }
}

#[cfg(test)]
mod tests;
