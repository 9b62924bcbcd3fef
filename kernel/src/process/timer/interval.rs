//! Interval timers of a process: setitimer(2), alarm(2).
//!
//! ITIMER_REAL is a `sched::Timer` of the CPU that armed it; when it expires, in thread context, the process is looked up by
//! its number, so a process that is gone is simply not found. The timers of processor time (ITIMER_VIRTUAL, ITIMER_PROF) are compared
//! with what the process has used at every tick that finds it running, as are POSIX timers of such clocks; `watched` says whether
//! there is anything to compare.
//!
//! What a timer is set to is changed under a lock and read without it (`sync::protocol::sequence`), so threads that ask write nothing.
//!
//! LockOrder: the timer's state → `signals` → `threads`; the timer queue is innermost.
#![forbid(unsafe_code)]

use super::clock::Kind;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::process::{Process, ids, signal};
use crate::sched::{Timer, TimerSetting, forward};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::general as abi;
use sync::protocol::sequence::{Sequence, Word};
use sync::{SpinLock, lock_class};

lock_class! { static ITIMER: LockClass = ("interval timer", level::IntervalTimer); }

/// One of the three interval timers of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Itimer {
    Real,
    /// Processor time in user mode: SIGVTALRM.
    Virtual,
    /// All processor time: SIGPROF.
    Profiling,
}

impl Itimer {
    /// # Errors
    /// EINVAL: there is no such timer.
    pub fn from_number(which: i32) -> Result<Self> {
        match which as u32 {
            abi::ITIMER_REAL => Ok(Self::Real),
            abi::ITIMER_VIRTUAL => Ok(Self::Virtual),
            abi::ITIMER_PROF => Ok(Self::Profiling),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// What a timer is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    /// When it goes off next, on its clock; 0: it is not set.
    next: u64,
    interval: u64,
}

impl Set {
    /// As a program sees it at `now` of its clock.
    fn setting(self, now: u64) -> TimerSetting {
        let value = if self.next == 0 { 0 } else { self.next.saturating_sub(now).max(1) };
        TimerSetting { interval: self.interval, value }
    }

    /// Is it due at `now`? Then it is set anew, or not at all. Expiries that were missed are not made up for.
    fn take_due(&mut self, now: u64) -> bool {
        let due = self.next != 0 && now >= self.next;
        if due && self.interval != 0 {
            forward(self.interval, now, &mut self.next);
        } else if due {
            self.next = 0;
        }
        due
    }
}

/// The same where it may be read without the lock under which it is changed.
struct Shown {
    next: Word,
    interval: Word,
}

impl Shown {
    const fn new() -> Self {
        Shown { next: Word::new(), interval: Word::new() }
    }

    fn get(&self) -> Set {
        Set { next: self.next.load(), interval: self.interval.load() }
    }
}

/// The two timers of processor time: what each counts and what it sends.
const CPU: [(Itimer, Kind, u32); 2] =
    [(Itimer::Virtual, Kind::User, abi::SIGVTALRM), (Itimer::Profiling, Kind::Whole, abi::SIGPROF)];
/// A reader that comes upon so many changes takes the lock.
const TRIES: usize = 8;

/// The interval timers of one process.
pub struct Itimers {
    /// All are changed under it. What makes ITIMER_REAL expire.
    real: SpinLock<Option<Arc<Timer>>, level::IntervalTimer>,
    sequence: Sequence,
    /// By [`Itimer`].
    shown: [Shown; 3],
    /// A timer of processor time may be set, here or among the POSIX timers. Set after the timer is; cleared before timers are looked at.
    watched: AtomicBool,
}

impl Default for Itimers {
    fn default() -> Self {
        Self::new()
    }
}

impl Itimers {
    pub const fn new() -> Self {
        Self {
            real: SpinLock::new(None, &ITIMER),
            sequence: Sequence::new(),
            shown: [const { Shown::new() }; 3],
            watched: AtomicBool::new(false),
        }
    }

    /// For who has the lock.
    fn known(&self, which: Itimer) -> Set {
        self.shown[which as usize].get()
    }

    /// For who has the lock.
    fn change(&self, which: Itimer, to: Set) {
        let shown = &self.shown[which as usize];
        self.sequence.write(|| {
            shown.next.store(to.next);
            shown.interval.store(to.interval);
        });
    }

    /// What it is set to, without the lock.
    fn look(&self, which: Itimer) -> Set {
        let found = (0..TRIES).find_map(|_| self.sequence.read(|| self.known(which)));
        found.unwrap_or_else(|| {
            let _writer = self.real.lock();
            self.known(which)
        })
    }

    /// What a timer of `process`, whose timers these are, is set to now.
    pub fn get(&self, process: &Process, which: Itimer) -> TimerSetting {
        let place = match which {
            Itimer::Real => return self.real(),
            Itimer::Virtual => 0,
            Itimer::Profiling => 1,
        };
        let timer = self.look(which);
        // Of a timer that is not set the clock is not asked; and it is asked without the lock, since it gives way.
        let used = if timer.next == 0 { 0 } else { CPU[place].1.of(&process.usage()) };
        timer.setting(used)
    }

    /// Sets a timer of `process`, whose timers these are; returns what it was set to.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn set(&self, process: &Process, which: Itimer, to: TimerSetting) -> Result<TimerSetting> {
        let place = match which {
            Itimer::Real => return self.set_real(process.pid(), to),
            Itimer::Virtual => 0,
            Itimer::Profiling => 1,
        };
        let used = CPU[place].1.of(&process.usage());
        let next = if to.value == 0 { 0 } else { used.saturating_add(to.value) };
        let before = {
            let _writer = self.real.lock();
            let before = self.known(which);
            self.change(which, Set { next, interval: to.interval });
            before.setting(used)
        };
        if next != 0 {
            self.watch_cpu();
        }
        Ok(before)
    }

    /// A timer of processor time has been set.
    pub fn watch_cpu(&self) {
        self.watched.store(true, Ordering::SeqCst);
    }

    /// Expires the running process's timers of processor time that are due. Called at ticks.
    #[inline]
    pub fn check_cpu(&self, process: &Arc<Process>) {
        if self.watched.load(Ordering::Relaxed) {
            self.check_set(process);
        }
    }

    #[cold]
    fn check_set(&self, process: &Arc<Process>) {
        self.watched.store(false, Ordering::SeqCst);
        let usage = process.usage();
        let mut more = false;
        for (which, kind, signal) in CPU {
            let used = kind.of(&usage);
            let due = {
                let _writer = self.real.lock();
                let mut timer = self.known(which);
                let due = timer.take_due(used);
                if due {
                    self.change(which, timer);
                }
                more |= timer.next != 0;
                due
            };
            if due {
                signal::send_kernel(process, signal);
            }
        }
        if process.timers.check(process) || more {
            self.watch_cpu();
        }
    }

    /// What ITIMER_REAL is set to now.
    fn real(&self) -> TimerSetting {
        let set = self.look(Itimer::Real);
        // Of a timer that is not set the clock is not asked.
        let now = if set.next == 0 { 0 } else { arch::time::now() };
        set.setting(now)
    }

    fn set_real(&self, pid: u32, to: TimerSetting) -> Result<TimerSetting> {
        let spare =
            if to.value != 0 { Some(sync::try_arc(Timer::new(expired, pid as usize))?) } else { None };
        let mut timer = self.real.lock();
        if let Some(timer) = &*timer {
            timer.cancel();
        }
        let before = self.known(Itimer::Real);
        let now = arch::time::now();
        let next = if to.value == 0 { 0 } else { now.saturating_add(to.value) };
        self.change(Itimer::Real, Set { next, interval: to.interval });
        if next != 0 {
            if timer.is_none() {
                *timer = spare;
            }
            if let Some(timer) = &*timer {
                timer.arm(next);
            }
        }
        Ok(before.setting(now))
    }

    /// The process ends: no timer expires any more.
    pub fn cancel(&self) {
        let mut timer = self.real.lock();
        self.change(Itimer::Real, Set { next: 0, ..self.known(Itimer::Real) });
        if let Some(timer) = timer.take() {
            timer.cancel();
        }
    }

    /// Is ITIMER_REAL due? Then it is set anew, or not at all. A timer that was set later meanwhile is not.
    fn take_due(&self) -> bool {
        let timer = self.real.lock();
        let mut set = self.known(Itimer::Real);
        if !set.take_due(arch::time::now()) {
            return false;
        }
        self.change(Itimer::Real, set);
        if set.next != 0
            && let Some(timer) = &*timer
        {
            timer.arm(set.next);
        }
        true
    }
}

fn expired(pid: usize) {
    let Some(process) = ids::find_process(pid as u32) else { return };
    if process.itimers.take_due() {
        signal::send_kernel(&process, abi::SIGALRM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use crate::testing::in_process;

    #[test]
    fn who_asks_takes_no_lock_and_sees_what_was_set_last() {
        in_process(|| {
            let process = process::current_process();
            let itimers = &process.itimers;
            let hour = TimerSetting { interval: 7, value: 3_600_000_000_000 };
            let never = TimerSetting { interval: 8, value: 0 };
            assert_eq!(itimers.set(&process, Itimer::Real, hour), Ok(TimerSetting::default()));
            assert_eq!(itimers.set(&process, Itimer::Profiling, never), Ok(TimerSetting::default()));
            {
                // Who asked for these would wait for ever.
                let _held = itimers.real.lock();
                let now = itimers.get(&process, Itimer::Real);
                assert!(
                    now.interval == 7 && now.value > 3_000_000_000_000 && now.value <= hour.value,
                    "{now:?}"
                );
                assert_eq!(itimers.get(&process, Itimer::Profiling), never);
            }
            itimers.cancel();
            assert_eq!(itimers.get(&process, Itimer::Real).value, 0);
        });
    }
}
