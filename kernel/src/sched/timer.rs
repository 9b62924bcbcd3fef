//! Deadlines: per CPU, an ordered tree of timers and the tick.
//!
//! A program has at most one sleep a thread, but may have timers by the thousand: these are on a tree of their own, so that all that are
//! due at one moment keep no sleeper waiting.
//!
//! A timer goes off in a span of time ([`Deadline`]): the CPU's timer is set for the ends of the spans, and each interrupt lets go off
//! those whose span has begun. The span of a program's sleep is its timer slack; other timers have none.
//!
//! A timer belongs to the CPU that armed it. Callbacks run in thread context (`pending`), after the timer is off the tree and
//! with no lock held, so a callback may arm it again. A busy CPU ticks every 10 ms, for time slices, accounting and RCU; an
//! idle one does not tick (but see `idle`), and is woken for its next deadline or for RCU callbacks that wait on it.
//!
//! LockOrder: timer queue is innermost.

mod deadline;
mod idle;
#[cfg(test)]
mod tests;

pub use deadline::Deadline;

use super::task::current;
use super::work::Work;
use super::{latency, runqueue};
use crate::arch;
use crate::lock_order as level;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use idle::LastIdle;
use intrusive_collections::{KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use sync::{SpinLock, lock_class, machine, per_cpu};

lock_class! { static TIMERS: LockClass = ("timer queue", level::TimerQueue); }

/// How long the due timers of one tree may take at a tick, ns. What is left goes off after a pause as long as the tick took: the
/// thread that runs does this work on its way to user mode, whoever's the timers are, and keeps half of the CPU.
const SHARE: u64 = 500_000;

/// How long a CPU idles before it looks again whether its RCU callbacks are ripe.
const RCU_WAIT: u64 = 1_000_000;

/// What a timer is set to, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimerSetting {
    /// Time between expiries after the first; 0: only one.
    pub interval: u64,
    /// Time to the next expiry; 0: not set.
    pub value: u64,
}

/// What has a timer of its own.
pub trait Expire: Send + Sync {
    /// The timer went off: in thread context, with no lock held. A timer that was set anew meanwhile may still call for the
    /// deadline that it had before, so the owner compares.
    fn expired(&self);
}

/// What is done when a timer goes off.
enum Action {
    Call(fn(usize), AtomicUsize),
    /// An owner that is gone is not told.
    Tell(Weak<dyn Expire>),
}

/// A deadline with something to do.
pub struct Timer {
    link: RBTreeAtomicLink,
    /// From when on it may go off: [`Deadline`].
    soft: AtomicU64,
    /// When it goes off at the latest.
    hard: AtomicU64,
    /// Whose tree it is on, or was; [`NO_CPU`]: it was never set.
    cpu: AtomicU32,
    action: Action,
}

const NO_CPU: u32 = u32::MAX;

vm::slab_type!(Timer, "timer", Arc);
intrusive_adapter!(TimerAdapter = Arc<Timer>: Timer { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for TimerAdapter {
    type Key = u64;
    fn get_key(&self, timer: &'a Timer) -> u64 {
        timer.hard.load(Ordering::Relaxed)
    }
}

/// The armed timers of one CPU, by what they do.
struct Trees {
    /// Sleeps and the kernel's own: [`Action::Call`].
    calls: RBTree<TimerAdapter>,
    /// What programs made: [`Action::Tell`].
    owned: RBTree<TimerAdapter>,
}

impl Trees {
    fn of(&mut self, action: &Action) -> &mut RBTree<TimerAdapter> {
        match action {
            Action::Call(..) => &mut self.calls,
            Action::Tell(_) => &mut self.owned,
        }
    }
}

#[repr(align(64))]
struct CpuTimers {
    trees: SpinLock<Trees, level::TimerQueue>,
    /// What the CPU's timer is set to; `u64::MAX`: nothing. Written by the CPU itself.
    programmed: AtomicU64,
    /// When the next tick is due.
    next_tick: AtomicU64,
    idle: LastIdle,
}

per_cpu! {
    static QUEUE: CpuTimers = CpuTimers {
        trees: SpinLock::new(
            Trees { calls: RBTree::new(TimerAdapter::NEW), owned: RBTree::new(TimerAdapter::NEW) },
            &TIMERS,
        ),
        programmed: AtomicU64::new(u64::MAX),
        next_tick: AtomicU64::new(0),
        idle: LastIdle::new(),
    };
}

impl Timer {
    /// A timer that calls `callback(argument)` in thread context.
    pub fn new(callback: fn(usize), argument: usize) -> Self {
        Self::with(Action::Call(callback, AtomicUsize::new(argument)))
    }

    /// A timer that tells `owner`.
    pub fn of(owner: Weak<dyn Expire>) -> Self {
        Self::with(Action::Tell(owner))
    }

    fn with(action: Action) -> Self {
        Self {
            link: RBTreeAtomicLink::new(),
            soft: AtomicU64::new(0),
            hard: AtomicU64::new(0),
            cpu: AtomicU32::new(NO_CPU),
            action,
        }
    }

    /// For an owner that learns its own address only after it has made the timer.
    pub fn set_argument(&self, argument: usize) {
        if let Action::Call(_, place) = &self.action {
            place.store(argument, Ordering::Relaxed);
        }
    }

    /// Sets the timer off at `deadline` (ns, monotonic clock) on this CPU. Armed already: the new deadline counts.
    /// The owner arms and cancels one timer from one thread at a time.
    pub fn arm(self: &Arc<Self>, deadline: u64) {
        self.cancel();
        self.arm_idle(deadline.into());
    }

    /// As `arm`, for a timer that is not armed.
    pub(super) fn arm_idle(self: &Arc<Self>, deadline: Deadline) {
        self.set_moments(deadline);
        self.cpu.store(machine::cpu_id(), Ordering::Relaxed);
        let timers = QUEUE.this();
        timers.trees.lock().of(&self.action).insert(self.clone());
        program(timers, deadline.hard());
    }

    fn set_moments(&self, deadline: Deadline) {
        self.soft.store(deadline.soft(), Ordering::Relaxed);
        self.hard.store(deadline.hard(), Ordering::Relaxed);
    }

    /// Takes the timer back; false if it was not armed, or its callback has begun.
    pub fn cancel(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        if cpu == NO_CPU {
            return false;
        }
        let timers = QUEUE.of(cpu);
        let mut trees = timers.trees.lock();
        if !self.link.is_linked() {
            return false;
        }
        // SAFETY: linked, so on the tree for its action of `self.cpu`, whose lock is held: nobody but the owner moves it elsewhere.
        drop(unsafe { trees.of(&self.action).cursor_mut_from_ptr(self) }.remove());
        true
    }
}

/// Moves `next`, which is not after `now`, on by whole intervals until it lies after; how many those were.
pub fn forward(interval: u64, now: u64, next: &mut u64) -> u64 {
    if *next > now || interval == 0 {
        return 0;
    }
    let passed = (now - *next) / interval + 1;
    *next = next.saturating_add(interval.saturating_mul(passed));
    passed
}

/// Makes sure that this CPU's timer goes off by `deadline`.
fn program(timers: &CpuTimers, deadline: u64) {
    if deadline < timers.programmed.load(Ordering::Relaxed) {
        timers.programmed.store(deadline, Ordering::Relaxed);
        arch::time::set_deadline(deadline);
    }
}

/// The timer interrupt's work in thread context: due timers, the end of a time slice, RCU, the next deadline.
pub(super) fn tick() {
    let timers = QUEUE.this();
    timers.programmed.store(u64::MAX, Ordering::Relaxed);
    let began = arch::time::now();
    run_due(|trees| &mut trees.calls);
    run_due(|trees| &mut trees.owned);
    let now = arch::time::now();
    let mut next = timers.next_tick.load(Ordering::Relaxed);
    if now >= next {
        if runqueue::has_waiting() {
            current().work.set(Work::RESCHED);
        }
        next = now + latency::tick_ns();
        timers.next_tick.store(next, Ordering::Relaxed);
    }
    let first = first_deadline(timers).unwrap_or(u64::MAX);
    let first = if first <= now { now + (now - began) } else { first };
    program(timers, first.min(next));
}

/// The kernel was interrupted at a tick: without [`tick`] there would be no other until it gives way. In the interrupt handler.
pub(super) fn set_tick_in_kernel(at: u64) {
    // `programmed` stays as it is, past, until `tick` sets the timer for what is due then.
    arch::time::set_deadline(at);
}

fn first_deadline(timers: &CpuTimers) -> Option<u64> {
    let trees = timers.trees.lock();
    let first =
        |tree: &RBTree<TimerAdapter>| tree.front().get().map(|timer| timer.hard.load(Ordering::Relaxed));
    first(&trees.calls).into_iter().chain(first(&trees.owned)).min()
}

/// Takes a timer out that may go off by `now`. The tree is in the order of the last moments; one that may go off already, and that lies behind one
/// that may not, waits on, as on Linux: to find it, each change of the tree would cost more.
fn take_due(tree: &mut RBTree<TimerAdapter>, now: u64) -> Option<Arc<Timer>> {
    let mut first = tree.front_mut();
    match first.get() {
        Some(timer) if timer.soft.load(Ordering::Relaxed) <= now => first.remove(),
        _ => None,
    }
}

/// Calls back the timers of one tree of this CPU that are due, for a [`SHARE`] at most.
fn run_due(tree: fn(&mut Trees) -> &mut RBTree<TimerAdapter>) {
    let began = arch::time::now();
    let mut now = began;
    while now - began < SHARE {
        let Some(timer) = take_due(tree(&mut QUEUE.this().trees.lock()), now) else { return };
        match &timer.action {
            Action::Call(call, argument) => call(argument.load(Ordering::Relaxed)),
            Action::Tell(owner) => owner.upgrade().into_iter().for_each(|owner| owner.expired()),
        }
        now = arch::time::now();
    }
}

/// This CPU is about to idle: only deadlines, and RCU if callbacks wait here; no tick, but for one that may stay set (`idle`).
pub(super) fn prepare_idle() {
    let timers = QUEUE.this();
    let rcu = if sync::rcu::pending() { arch::time::now() + RCU_WAIT } else { u64::MAX };
    let deadline = first_deadline(timers).unwrap_or(u64::MAX).min(rcu);
    if let Some(deadline) = timers.idle.begin(timers.programmed.load(Ordering::Relaxed), deadline) {
        timers.programmed.store(deadline, Ordering::Relaxed);
        arch::time::set_deadline(deadline);
    }
}

/// This CPU is about to run tasks, for the first time or after it idled: it ticks from here on.
pub(super) fn start_tick() {
    let timers = QUEUE.this();
    let now = arch::time::now();
    timers.idle.end(now);
    let next = now + latency::tick_ns();
    timers.next_tick.store(next, Ordering::Relaxed);
    program(timers, next);
}
