//! Interval timers of a process: setitimer(2), alarm(2).
//!
//! ITIMER_REAL is a `sched::Timer` of the CPU that armed it; when it expires, in thread context, the process is looked up by
//! its number, so a process that is gone is simply not found. The timers of processor time (ITIMER_VIRTUAL, ITIMER_PROF) are compared
//! with what the process has used at every tick that finds it running, as are POSIX timers of such clocks; `watched` says whether
//! there is anything to compare.
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

struct Real {
    timer: Option<Arc<Timer>>,
    interval: u64,
    /// When it goes off next; 0: it is not set.
    next: u64,
}

/// A timer of processor time, on the process's clock.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// 0: not set.
    next: u64,
    interval: u64,
}

impl Cpu {
    /// What it is set to while its process has used so much.
    fn setting(self, used: u64) -> TimerSetting {
        let value = if self.next == 0 { 0 } else { self.next.saturating_sub(used).max(1) };
        TimerSetting { interval: self.interval, value }
    }
}

/// The two timers of processor time: what each counts and what it sends.
const CPU: [(Kind, u32); 2] = [(Kind::User, abi::SIGVTALRM), (Kind::Whole, abi::SIGPROF)];

/// The interval timers of one process.
pub struct Itimers {
    real: SpinLock<Real, level::IntervalTimer>,
    cpu: SpinLock<[Cpu; 2], level::IntervalTimer>,
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
            real: SpinLock::new(Real { timer: None, interval: 0, next: 0 }, &ITIMER),
            cpu: SpinLock::new([Cpu { next: 0, interval: 0 }; 2], &ITIMER),
            watched: AtomicBool::new(false),
        }
    }

    /// What a timer of `process`, whose timers these are, is set to now.
    pub fn get(&self, process: &Process, which: Itimer) -> TimerSetting {
        let place = match which {
            Itimer::Real => return self.real(),
            Itimer::Virtual => 0,
            Itimer::Profiling => 1,
        };
        let timer = self.cpu.lock()[place];
        // Of a timer that is not set the clock is not asked; and it is asked without the lock, since it gives way.
        let used = if timer.next == 0 { 0 } else { CPU[place].0.of(&process.usage()) };
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
        let used = CPU[place].0.of(&process.usage());
        let next = if to.value == 0 { 0 } else { used.saturating_add(to.value) };
        let before = {
            let timer = &mut self.cpu.lock()[place];
            core::mem::replace(timer, Cpu { next, interval: to.interval }).setting(used)
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
        for (place, (kind, signal)) in CPU.into_iter().enumerate() {
            let used = kind.of(&usage);
            let due = {
                let timer = &mut self.cpu.lock()[place];
                let due = timer.next != 0 && used >= timer.next;
                if due && timer.interval != 0 {
                    forward(timer.interval, used, &mut timer.next);
                } else if due {
                    timer.next = 0;
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
        let real = self.real.lock();
        let value = match real.next {
            0 => 0,
            next => next.saturating_sub(arch::time::now()).max(1),
        };
        TimerSetting { interval: real.interval, value }
    }

    fn set_real(&self, pid: u32, to: TimerSetting) -> Result<TimerSetting> {
        let before = self.real();
        let spare =
            if to.value != 0 { Some(sync::try_arc(Timer::new(expired, pid as usize))?) } else { None };
        let mut real = self.real.lock();
        if let Some(timer) = &real.timer {
            timer.cancel();
        }
        real.interval = to.interval;
        real.next = 0;
        if to.value != 0 {
            real.next = arch::time::now().saturating_add(to.value);
            let next = real.next;
            if real.timer.is_none() {
                real.timer = spare;
            }
            if let Some(timer) = &real.timer {
                timer.arm(next);
            }
        }
        Ok(before)
    }

    /// The process ends: no timer expires any more.
    pub fn cancel(&self) {
        let mut real = self.real.lock();
        real.next = 0;
        if let Some(timer) = real.timer.take() {
            timer.cancel();
        }
    }

    /// Is ITIMER_REAL due? Then it is set anew, or not at all. A timer that was set later meanwhile is not.
    fn take_due(&self) -> bool {
        let mut real = self.real.lock();
        let now = arch::time::now();
        if real.next == 0 || now < real.next {
            return false;
        }
        if real.interval == 0 {
            real.next = 0;
            return true;
        }
        // Expiries that were missed are not made up for.
        let mut next = real.next;
        forward(real.interval, now, &mut next);
        real.next = next;
        if let Some(timer) = &real.timer {
            timer.arm(next);
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
