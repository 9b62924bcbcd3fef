//! Deadlines: per CPU, an ordered tree of timers and the tick.
//!
//! A program has at most one sleep a thread, but may have timers by the thousand: these are on a tree of their own, so that all that are
//! due at one moment keep no sleeper waiting.
//!
//! A timer goes off in a span of time ([`Deadline`]): the CPU's timer is set for the ends of the spans, and each interrupt lets go off
//! those whose span has begun. The span of a program's sleep is its timer slack; other timers have none.
//!
//! A timer on the wall clock is on trees of its own (`armed`). Setting that clock tells the CPUs that have such ([`wall_clock_was_set`]), and these look anew
//! for what is due and when the next is. An offset is read under the lock of the trees, and the clock is set before the lock is taken to look whether
//! there is somebody to tell: so a timer that is armed meanwhile is either found, or armed with the new offset.
//!
//! A timer belongs to the CPU that armed it. Callbacks run in thread context (`pending`), after the timer is off the tree and
//! with no lock held, so a callback may arm it again. A busy CPU ticks every 10 ms, for time slices, accounting and RCU; an
//! idle one does not tick (but see `idle`), and is woken for its next deadline or for RCU callbacks that wait on it.
//!
//! LockOrder: timer queue is innermost.

mod armed;
mod deadline;
mod idle;
#[cfg(test)]
mod tests;

pub use deadline::{ClockBase, Deadline, TimeClock};

use super::task::current;
use super::work::Work;
use super::{latency, loadavg, runqueue};
use crate::arch;
use crate::lock_order as level;
use alloc::sync::{Arc, Weak};
use armed::{Armed, Kind, Turn};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use idle::LastIdle;
use intrusive_collections::{KeyAdapter, RBTreeAtomicLink, intrusive_adapter};
use sync::{SpinLock, lock_class, machine, per_cpu};

lock_class! { static TIMERS: LockClass = ("timer queue", level::TimerQueue); }

/// How long the due timers of one kind may take at a tick, ns. What is left goes off after a pause as long as the tick took: the
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
    /// On whose tree it is, or was, and [`ON_WALL`]; [`NOWHERE`]: it was never set.
    place: AtomicU32,
    action: Action,
}

/// In a timer's place: it is on the wall clock.
const ON_WALL: u32 = 1 << 31;
const NOWHERE: u32 = u32::MAX;

vm::slab_type!(Timer, "timer", Arc);
intrusive_adapter!(TimerAdapter = Arc<Timer>: Timer { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for TimerAdapter {
    type Key = u64;
    fn get_key(&self, timer: &'a Timer) -> u64 {
        timer.hard.load(Ordering::Relaxed)
    }
}

#[repr(align(64))]
struct CpuTimers {
    armed: SpinLock<Armed, level::TimerQueue>,
    /// What the CPU's timer is set to; `u64::MAX`: nothing. Written by the CPU itself.
    programmed: AtomicU64,
    /// When the next tick is due.
    next_tick: AtomicU64,
    /// When the turn of a running task is over that somebody waits for, or tasks with deadlines are to be looked at; `u64::MAX`: neither is.
    turn_end: AtomicU64,
    idle: LastIdle,
    /// The wall clock was set, or its rate, and the CPU has timers that it concerns.
    clock_was_set: AtomicBool,
}

per_cpu! {
    static QUEUE: CpuTimers = CpuTimers {
        armed: SpinLock::new(Armed::new(), &TIMERS),
        programmed: AtomicU64::new(u64::MAX),
        next_tick: AtomicU64::new(0),
        turn_end: AtomicU64::new(u64::MAX),
        idle: LastIdle::new(),
        clock_was_set: AtomicBool::new(false),
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
            place: AtomicU32::new(NOWHERE),
            action,
        }
    }

    /// For an owner that learns its own address only after it has made the timer.
    pub fn set_argument(&self, argument: usize) {
        if let Action::Call(_, place) = &self.action {
            place.store(argument, Ordering::Relaxed);
        }
    }

    /// Sets the timer off at `deadline` on this CPU. Armed already: the new deadline counts.
    /// The owner arms and cancels one timer from one thread at a time.
    pub fn arm(self: &Arc<Self>, deadline: impl Into<Deadline>) {
        let deadline = deadline.into();
        let here = machine::cpu_id();
        if deadline.base() == ClockBase::Wall || self.place.load(Ordering::Relaxed) != here {
            self.cancel();
            return self.arm_idle(deadline);
        }
        // It was set here before: the lock is taken once.
        let timers = QUEUE.this();
        {
            let mut armed = timers.armed.lock();
            // SAFETY: the lock of the CPU that its place says is held.
            let timer = unsafe { self.take_out(&mut armed, here) }.unwrap_or_else(|| self.clone());
            self.set_moments(deadline);
            armed.on_monotonic(Kind::of(&self.action)).insert(timer);
        }
        program(timers, deadline.hard());
    }

    /// As `arm`, for a timer that is not armed.
    pub(super) fn arm_idle(self: &Arc<Self>, deadline: Deadline) {
        self.set_moments(deadline);
        if deadline.base() == ClockBase::Wall {
            return self.arm_on_wall(deadline);
        }
        self.place.store(machine::cpu_id(), Ordering::Relaxed);
        let timers = QUEUE.this();
        timers.armed.lock().on_monotonic(Kind::of(&self.action)).insert(self.clone());
        program(timers, deadline.hard());
    }

    fn arm_on_wall(self: &Arc<Self>, deadline: Deadline) {
        self.place.store(machine::cpu_id() | ON_WALL, Ordering::Relaxed);
        let timers = QUEUE.this();
        let at = {
            let mut armed = timers.armed.lock();
            armed.enter_wall(Kind::of(&self.action)).insert(self.clone());
            // Under the lock: see the head.
            ClockBase::Wall.to_monotonic(deadline.hard())
        };
        program(timers, at);
    }

    fn set_moments(&self, deadline: Deadline) {
        self.soft.store(deadline.soft(), Ordering::Relaxed);
        self.hard.store(deadline.hard(), Ordering::Relaxed);
    }

    /// Takes the timer back; false if it was not armed, or its callback has begun.
    pub fn cancel(&self) -> bool {
        let place = self.place.load(Ordering::Relaxed);
        if place == NOWHERE {
            return false;
        }
        let mut armed = QUEUE.of(place & !ON_WALL).armed.lock();
        // SAFETY: the lock of the CPU that its place says is held.
        unsafe { self.take_out(&mut armed, place) }.is_some()
    }

    /// Takes the timer off the tree that it is on, if it is on one.
    ///
    /// # Safety
    /// `place` is its place, and `armed` are the timers of that CPU.
    unsafe fn take_out(&self, armed: &mut Armed, place: u32) -> Option<Arc<Self>> {
        if !self.link.is_linked() {
            return None;
        }
        let kind = Kind::of(&self.action);
        let tree = if place < ON_WALL { armed.on_monotonic(kind) } else { armed.leave_wall(kind) };
        // SAFETY: linked, so on the tree for its kind and clock of the CPU of its place, which the caller has locked: nobody but the owner moves it.
        unsafe { tree.cursor_mut_from_ptr(self) }.remove()
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
    let (now, first) = run_due(timers, began);
    let mut next = timers.next_tick.load(Ordering::Relaxed);
    if now >= next {
        loadavg::tick(now);
        let contended = runqueue::tick();
        if contended {
            current().work.set(Work::RESCHED);
        }
        next = now + if contended { latency::contended_tick_ns() } else { latency::tick_ns() };
        timers.next_tick.store(next, Ordering::Relaxed);
    }
    let first = if first <= now { now + (now - began) } else { first };
    program(timers, first.min(next).min(end_turn(timers, now)));
}

/// Lets others run if the turn of the running task is over, and looks at tasks with deadlines. When to look again.
fn end_turn(timers: &CpuTimers, now: u64) -> u64 {
    let end = timers.turn_end.load(Ordering::Relaxed);
    if now < end {
        return end;
    }
    // Another task may have got the CPU since, or nobody waits any more.
    let next = match runqueue::turn_left(now) {
        Some(0) => {
            current().work.set(Work::RESCHED);
            u64::MAX
        }
        Some(left) => now + left,
        None => u64::MAX,
    };
    let next = next.min(runqueue::look_at_deadlines()).min(runqueue::look_at_quota());
    timers.turn_end.store(next, Ordering::Relaxed);
    next
}

/// Somebody is to have this CPU when the turn of the running task is over, at `time`.
pub(super) fn look_at(time: u64) {
    let timers = QUEUE.this();
    if time < timers.turn_end.load(Ordering::Relaxed) {
        timers.turn_end.store(time, Ordering::Relaxed);
    }
    program(timers, time);
}

/// Somebody waits for this CPU now, which is not idle: the next tick is one of those.
pub(super) fn tick_sooner(now: u64) {
    let timers = QUEUE.this();
    let at = now + latency::contended_tick_ns();
    if at < timers.next_tick.load(Ordering::Relaxed) {
        timers.next_tick.store(at, Ordering::Relaxed);
        program(timers, at);
    }
}

/// The kernel was interrupted at a tick: without [`tick`] there would be no other until it gives way. In the interrupt handler.
pub(super) fn set_tick_in_kernel(at: u64) {
    // `programmed` stays as it is, past, until `tick` sets the timer for what is due then.
    arch::time::set_deadline(at);
}

/// The wall clock has been set: timers on it come earlier or later. CPUs that have such look at them at once.
pub fn wall_clock_was_set() {
    look_anew(Armed::any_on_wall);
}

/// The monotonic clock runs faster than it did, so what a CPU's timer is set to is too late. CPUs that have timers set theirs anew. One that ticks does so
/// by itself, but a tick later.
pub fn clock_runs_faster() {
    look_anew(|armed| armed.first() != u64::MAX);
}

/// Lets the CPUs whose timers `concern` look at them. This one is interrupted as the others are: the caller may be a timer's callback.
fn look_anew(concern: impl Fn(&Armed) -> bool) {
    for cpu in 0..machine::cpus() {
        let timers = QUEUE.of(cpu);
        if concern(&timers.armed.lock()) {
            timers.clock_was_set.store(true, Ordering::SeqCst);
            arch::send_reschedule(cpu);
        }
    }
}

/// Somebody has set the clock or its rate, and this CPU has timers. In the interrupt handler.
pub(super) fn take_clock_was_set() -> bool {
    let was_set = &QUEUE.this().clock_was_set;
    was_set.load(Ordering::Relaxed) && was_set.swap(false, Ordering::SeqCst)
}

/// Calls back the timers of this CPU that are due, those of each kind for a [`SHARE`] at most. Gives the time then, and when the next goes off.
fn run_due(timers: &CpuTimers, began: u64) -> (u64, u64) {
    let (mut now, mut turn, mut began) = (began, Turn::Calls, began);
    loop {
        let due = match timers.armed.lock().next(turn, now) {
            Ok(due) => due,
            Err(first) => return (now, first),
        };
        match &due.timer.action {
            Action::Call(call, argument) => call(argument.load(Ordering::Relaxed)),
            Action::Tell(owner) => owner.upgrade().into_iter().for_each(|owner| owner.expired()),
        }
        if due.kind == Kind::Owned && turn == Turn::Calls {
            (turn, began) = (Turn::Owned, now);
        }
        now = arch::time::now();
        if now - began >= SHARE {
            (turn, began) = (turn.next(), now);
        }
    }
}

/// This CPU is about to idle: only deadlines, and RCU if callbacks wait here; no tick, but for one that may stay set (`idle`).
pub(super) fn prepare_idle() {
    let timers = QUEUE.this();
    let rcu = if sync::rcu::pending() { arch::time::now() + RCU_WAIT } else { u64::MAX };
    let deadline = timers.armed.lock().first().min(rcu).min(runqueue::next_period());
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
