//! POSIX timers (timer_create(2)).
//!
//! A timer of a wall or monotonic clock is a `sched::Timer` of the CPU that set it; one of processor time is compared with its
//! clock at ticks (`check`). Timers of processor time lie in a tree in the order of their times, so a tick looks only at what is due on the
//! clocks that run.
//!
//! When a timer expires its signal is queued. A periodic timer is set anew only when that signal is delivered (`delivered`): however
//! short its period, a program that does not take the signals costs nothing. Periods that passed meanwhile are its overrun.
//!
//! A timer is found by its number under RCU (`number`), so threads that ask of timers of their own share no line.
//!
//! LockOrder: a timer's state → `signals` → `threads`; `tree` and the timer queue are innermost. The lock of `numbers` is held with none of these.
// Not forbidden: the macro that makes the tree's adapter has code of its own that it vouches for.
#![deny(unsafe_code)]

use super::clock::{CpuClock, Kind};
use super::number::Numbers;
use crate::account::Charge;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::process::signal::{self, Info, send};
use crate::process::{self, Pid, Process, ids};
use crate::sched::{ClockBase, Deadline, Expire, TimeClock, Timer, TimerSetting, forward, give_way};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};
use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use linux_raw_sys::general as abi;
use sync::level::Held;
use sync::rcu::RcuHead;
use sync::{SpinLock, lock_class, try_arc};

lock_class! {
    static TIMER: LockClass = ("POSIX timer", level::PosixTimer);
    static CPU_TIMERS: LockClass = ("timers of processor time", level::CpuTimers);
}

/// A timer's state is locked: what may be locked next.
type Order<'a> = Held<'a, level::PosixTimer>;

/// Most timers of one clock that expire at one tick; the others do at the next (Linux collects 20).
const BATCH: usize = 16;

/// The clock that a timer runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    Time(TimeClock),
    Cpu(CpuClock),
}

/// What happens when a timer expires.
#[derive(Clone, Copy, Debug)]
pub enum Notify {
    Nothing,
    /// A signal with this value, to one thread if it is named.
    Signal {
        signal: u32,
        value: Option<u64>,
        thread: Option<Pid>,
    },
}

/// What a timer was asked for with, as /proc/PID/timers shows it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// `sigev_notify`, `sigev_signo` and `sigev_value`.
    pub way: i32,
    pub signal: i32,
    pub value: u64,
    /// The id of the clock.
    pub clock: i32,
}

struct State {
    timer: Option<Arc<Timer>>,
    /// It will expire at `next`.
    active: bool,
    /// It is off its process's numbers. Who found it there before may still come to set it.
    gone: bool,
    /// On `base` or the clock of processor time, ns.
    next: u64,
    /// The clock that a timer that is not of processor time goes by since it was set.
    base: ClockBase,
    interval: u64,
    /// Periods that passed since the last signal.
    overrun: u64,
    /// What the last signal that was delivered said.
    last_overrun: u64,
    /// A signal of this timer may wait to be delivered.
    signalled: bool,
    /// Rises with each setting and each signal, so that a signal of an earlier setting is recognized.
    sequence: u32,
    /// The one signal that it may have waiting, until it is gone.
    charge: Option<Charge>,
}

impl State {
    fn deadline(&self) -> Deadline {
        Deadline::from(self.next).on(self.base)
    }
}

/// One timer.
pub struct PosixTimer {
    pub id: i32,
    process: Pid,
    clock: Clock,
    notify: Notify,
    pub asked: Asked,
    state: SpinLock<State, level::PosixTimer>,
    link: RBTreeAtomicLink,
    /// Its time in the tree of timers of processor time. Written while it is not in the tree.
    due: AtomicU64,
    rcu: RcuHead,
}

sync::rcu_object!(PosixTimer);

/// The tree's key: a clock, a time on it, and the timer's number.
type TreeKey = (CpuClock, u64, i32);

intrusive_adapter!(ByTime = Arc<PosixTimer>: PosixTimer { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByTime {
    type Key = TreeKey;
    fn get_key(&self, timer: &'a PosixTimer) -> TreeKey {
        timer.tree_key()
    }
}

/// The timers of one process.
pub struct Timers {
    numbers: Numbers<PosixTimer>,
    /// Those of processor time that are set.
    tree: SpinLock<RBTree<ByTime>, level::CpuTimers>,
}

impl Default for Timers {
    fn default() -> Self {
        Self::new()
    }
}

impl Timers {
    pub const fn new() -> Self {
        Self { numbers: Numbers::new(), tree: SpinLock::new(RBTree::new(ByTime::NEW), &CPU_TIMERS) }
    }

    /// A number for a new timer. One that is not made in the end has used up its number, as on Linux.
    pub fn next_id(&self) -> i32 {
        self.numbers.take()
    }

    /// Makes timer `id` of process `of`, whose timers these are. It is not set.
    ///
    /// # Errors
    /// EAGAIN: its user has as many timers and signals that wait as RLIMIT_SIGPENDING allows, or the number is in use. ENOMEM.
    pub fn create(&self, of: &Process, id: i32, clock: Clock, notify: Notify, asked: Asked) -> Result {
        let charge = signal::Allowance::of(of).charge()?;
        let state = State {
            timer: None,
            active: false,
            gone: false,
            next: 0,
            base: ClockBase::Monotonic,
            interval: 0,
            overrun: 0,
            last_overrun: 0,
            signalled: false,
            sequence: 0,
            charge: Some(charge),
        };
        let made = try_arc(PosixTimer {
            id,
            process: of.pid(),
            clock,
            notify,
            asked,
            state: SpinLock::new(state, &TIMER),
            link: RBTreeAtomicLink::new(),
            due: AtomicU64::new(0),
            rcu: RcuHead::new(),
        })?;
        let owner: Weak<dyn Expire> = Arc::downgrade(&made) as _;
        made.state.lock().timer = Some(try_arc(Timer::of(owner))?);
        self.numbers.insert(id, made)
    }

    /// The timer with the highest number below `before`, or of all.
    pub fn last_before(&self, before: Option<i32>) -> Option<Arc<PosixTimer>> {
        self.numbers.last_before(before)
    }

    /// # Errors
    /// EINVAL: there is none of that number.
    pub fn find(&self, id: i32) -> Result<Arc<PosixTimer>> {
        self.numbers.find(id).ok_or(Errno::EINVAL)
    }

    /// timer_delete(2).
    ///
    /// # Errors
    /// EINVAL: there is none of that number.
    pub fn delete(&self, id: i32) -> Result {
        self.numbers.remove(id).map(|gone| self.stop(&gone)).ok_or(Errno::EINVAL)
    }

    /// exec and exit: all of them go. Gives way.
    pub fn clear(&self) {
        self.numbers.clear(|timer| {
            self.stop(timer);
            // All go, whatever signal has come.
            let _ = give_way();
        });
    }

    /// Expires the timers of processor time that are due, on the clocks of the running process and thread; other clocks stood still.
    /// True if more are set.
    pub fn check(&self, process: &Process) -> bool {
        let me = process::current();
        let clocks = [
            CpuClock::of_process(process, Kind::User),
            CpuClock::of_process(process, Kind::Whole),
            CpuClock::of_thread(&me, Kind::User),
            CpuClock::of_thread(&me, Kind::Whole),
        ];
        for clock in clocks {
            if !self
                .tree
                .lock()
                .lower_bound(Bound::Included(&(clock, 0, 0)))
                .get()
                .is_some_and(|t| t.is_on(clock))
            {
                continue;
            }
            let Ok(now) = clock.read() else { continue };
            for _ in 0..BATCH {
                let due = {
                    let mut tree = self.tree.lock();
                    let mut first = tree.lower_bound_mut(Bound::Included(&(clock, 0, 0)));
                    match first.get() {
                        Some(timer) if timer.is_on(clock) && timer.tree_key().1 <= now => first.remove(),
                        _ => None,
                    }
                };
                let Some(timer) = due else { break };
                let mut state = timer.state.lock();
                let (state, order) = state.split();
                if state.active && now >= state.next && timer.expire(state, now) {
                    self.enqueue(&timer, state, order);
                }
            }
        }
        !self.tree.lock().is_empty()
    }

    /// Puts `timer`, which is on a clock of processor time, into the tree: it expires at `state.next`.
    fn enqueue(&self, timer: &Arc<PosixTimer>, state: &State, order: &mut Order<'_>) {
        self.dequeue(timer, order);
        timer.due.store(state.next, Ordering::Relaxed);
        self.tree.lock_in(order).insert(timer.clone());
    }

    /// Takes `timer` out of the tree of timers of processor time, if it is there.
    fn dequeue(&self, timer: &PosixTimer, order: &mut Order<'_>) {
        if timer.link.is_linked() {
            self.tree.lock_in(order).find_mut(&timer.tree_key()).remove();
        }
    }

    fn stop(&self, timer: &PosixTimer) {
        let charge = {
            let mut state = timer.state.lock();
            let (state, order) = state.split();
            state.gone = true;
            state.active = false;
            state.interval = 0;
            state.sequence = state.sequence.wrapping_add(1);
            self.dequeue(timer, order);
            if let Some(timer) = &state.timer {
                timer.cancel();
            }
            state.charge.take()
        };
        // The memory of the timer waits for those that have found it, but its user may make another at once.
        drop(charge);
    }
}

impl PosixTimer {
    /// The thread that gets its signal; None: the process.
    pub fn target(&self) -> Option<Pid> {
        match self.notify {
            Notify::Signal { thread, .. } => thread,
            Notify::Nothing => None,
        }
    }

    /// Now, on the clock of processor time or the monotonic one. A clock whose thread is gone stands still. Gives way: no spinning lock is held.
    fn now(&self) -> u64 {
        match self.clock {
            Clock::Cpu(clock) => clock.read().unwrap_or(0),
            _ => arch::time::now(),
        }
    }

    /// As `now`, for callers that may not rest: of the processor time of many threads when it was read last.
    fn known_now(&self) -> u64 {
        match self.clock {
            Clock::Cpu(clock) => clock.read_known().unwrap_or(0),
            _ => arch::time::now(),
        }
    }

    /// Its key in the tree of timers of processor time. (Those of other clocks are not there.)
    fn tree_key(&self) -> TreeKey {
        let clock = match self.clock {
            Clock::Cpu(clock) => clock,
            Clock::Time(_) => CpuClock::NONE,
        };
        (clock, self.due.load(Ordering::Relaxed), self.id)
    }

    fn is_on(&self, clock: CpuClock) -> bool {
        self.clock == Clock::Cpu(clock)
    }

    /// Makes it expire at `state.next`. One of processor time is the running process's.
    fn arm(self: &Arc<Self>, state: &State, order: &mut Order<'_>) {
        match (&self.clock, &self.notify, &state.timer) {
            (_, Notify::Nothing, _) | (_, _, None) => {}
            (Clock::Cpu(_), ..) => {
                let process = &process::current().process;
                process.timers.enqueue(self, state, order);
                process.itimers.watch_cpu();
            }
            (.., Some(timer)) => timer.arm(state.deadline()),
        }
    }

    fn setting(&self, state: &mut State, now: u64) -> TimerSetting {
        let silent = matches!(self.notify, Notify::Nothing);
        if !state.active && state.interval == 0 {
            return TimerSetting::default();
        }
        if state.interval != 0 && state.next <= now {
            // Its signal is pending, or it sends none: its periods go on.
            state.overrun = state.overrun.saturating_add(forward(state.interval, now, &mut state.next));
        }
        let left = state.next.saturating_sub(now);
        let value = if left == 0 && !silent { 1 } else { left };
        TimerSetting { interval: state.interval, value }
    }

    /// timer_gettime(2).
    pub fn get(&self) -> TimerSetting {
        let now = self.now();
        let mut state = self.state.lock();
        let now = state.base.at(now);
        self.setting(&mut state, now)
    }

    /// timer_settime(2); returns what it was set to.
    ///
    /// # Errors
    /// EINVAL: another thread has deleted it meanwhile.
    pub fn set(self: &Arc<Self>, to: TimerSetting, absolute: bool) -> Result<TimerSetting> {
        let now = self.now();
        let mut state = self.state.lock();
        let (state, order) = state.split();
        if state.gone {
            return Err(Errno::EINVAL);
        }
        let before = self.setting(state, state.base.at(now));
        process::current().process.timers.dequeue(self, order);
        state.active = false;
        state.interval = 0;
        state.base = ClockBase::Monotonic;
        state.overrun = 0;
        state.last_overrun = 0;
        state.sequence = state.sequence.wrapping_add(1);
        if to.value == 0 {
            if let Some(timer) = &state.timer {
                timer.cancel();
            }
            return Ok(before);
        }
        state.active = true;
        state.interval = to.interval;
        let mut moment = to.value;
        if let Clock::Time(clock) = self.clock {
            state.base = clock.base(absolute);
            moment = clock.moment(moment);
        }
        state.next = if absolute { moment } else { state.base.at(now).saturating_add(to.value) };
        // One of processor time is due at once if it is past, as on Linux: the next tick may find its clock standing still.
        if !matches!(self.clock, Clock::Cpu(_)) || now < state.next || self.expire(state, now) {
            self.arm(state, order);
        }
        Ok(before)
    }

    /// timer_getoverrun(2).
    pub fn overrun(&self) -> u64 {
        self.state.lock().last_overrun.min(i32::MAX as u64)
    }

    /// It expires. True: it is periodic and goes on at once; the caller arms it anew.
    fn expire(&self, state: &mut State, now: u64) -> bool {
        let Notify::Signal { signal, value, thread } = self.notify else { return false };
        let Some(process) = ids::find_process(self.process) else { return false };
        state.sequence = state.sequence.wrapping_add(1);
        let info = Info {
            signal,
            errno: 0,
            code: abi::SI_TIMER,
            rest: [u64::from(self.id as u32), value.unwrap_or(self.id as u64), 0, 0],
            timer: Some(signal::TimerSignal {
                id: self.id,
                sequence: state.sequence,
                again: state.signalled,
            }),
        };
        let thread = match thread {
            Some(tid) => match process.thread(tid) {
                Some(thread) => Some(thread),
                None => {
                    state.active = false;
                    return false;
                }
            },
            None => None,
        };
        let waits = send::queue(&process, thread.as_ref(), info, true).unwrap_or(false);
        state.signalled |= waits;
        if state.interval == 0 || waits {
            // A periodic timer is set anew when the signal is delivered; until then it must not be found due.
            state.active = false;
            return false;
        }
        // The signal is ignored, or was not queued: the timer goes on.
        state.overrun = state.overrun.saturating_add(forward(state.interval, now, &mut state.next));
        true
    }

    /// The signal with `sequence` is being delivered: how many periods it stands for, beyond the first.
    fn delivered(self: &Arc<Self>, sequence: u32) -> u64 {
        let mut state = self.state.lock();
        let (state, order) = state.split();
        state.signalled = false;
        if state.sequence != sequence || state.interval == 0 {
            return state.last_overrun;
        }
        let now = state.base.at(self.known_now());
        let passed = forward(state.interval, now, &mut state.next);
        state.last_overrun = state.overrun.saturating_add(passed).saturating_sub(1);
        state.overrun = 0;
        state.sequence = state.sequence.wrapping_add(1);
        state.active = true;
        self.arm(state, order);
        state.last_overrun.min(i32::MAX as u64)
    }
}

impl Expire for PosixTimer {
    fn expired(&self) {
        let mut state = self.state.lock();
        if !state.active {
            return;
        }
        let now = state.base.now();
        let again = if now < state.next {
            // It was set later meanwhile, or the wall clock back.
            state.base == ClockBase::Wall
        } else {
            self.expire(&mut state, now)
        };
        if again && let Some(timer) = &state.timer {
            timer.arm(state.deadline());
        }
    }
}

/// A signal of a timer of the running process has been taken from its queue: sets the timer anew and fills in the overrun.
pub fn delivered(info: &mut Info) {
    let Some(of) = info.timer.take() else { return };
    if let Ok(timer) = process::current().process.timers.find(of.id) {
        let overrun = timer.delivered(of.sequence);
        info.add_overrun(overrun);
    }
}

/// What the kernel knows a signal number by; None: it is none.
pub fn valid_signal(number: u32) -> Option<u32> {
    (1..=signal::COUNT).contains(&number).then_some(number)
}
