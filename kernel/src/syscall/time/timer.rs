//! Timers: interval timers of processes, POSIX timers, and timers that are files.
#![forbid(unsafe_code)]

use super::{NS_PER_SEC, Timespec, Timeval, time_clock};
use crate::errno::{Errno, Result};
use crate::fs::anon::timerfd::TimerFile;
use crate::fs::caller;
use crate::fs::file::OpenFlags;
use crate::memory::user::UserPtr;
use crate::process::timer::clock::CpuClock;
use crate::process::timer::interval::Itimer;
use crate::process::timer::posix::{Asked, Clock, Notify, valid_signal};
use crate::process::{self, Capability, current};
use crate::sched::TimerSetting;
use crate::syscall::file::{install, opened};
use linux_raw_sys::general as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// struct itimerval.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Itimerval {
    interval: Timeval,
    value: Timeval,
}

fn itimerval(setting: TimerSetting) -> Itimerval {
    // A timer that is set never reads as zero, which would say that it is not.
    let value = if setting.value == 0 { 0 } else { setting.value.max(1000) };
    Itimerval { interval: Timeval::from_ns(setting.interval), value: Timeval::from_ns(value) }
}

/// getitimer(2).
pub fn sys_getitimer(which: i32, to: usize) -> Result<usize> {
    let which = Itimer::from_number(which)?;
    let thread = current();
    let process = &thread.process;
    let setting = process.itimers.get(process, which);
    UserPtr::<Itimerval>::new(to).write(&itimerval(setting)).map(|()| 0)
}

/// setitimer(2).
pub fn sys_setitimer(which: i32, from: usize, old: usize) -> Result<usize> {
    let to = if from == 0 {
        TimerSetting::default()
    } else {
        let new = UserPtr::<Itimerval>::new(from).read()?;
        TimerSetting { interval: new.interval.to_ns()?, value: new.value.to_ns()? }
    };
    let which = Itimer::from_number(which)?;
    let thread = current();
    let process = &thread.process;
    let before = process.itimers.set(process, which, to)?;
    if old != 0 {
        UserPtr::<Itimerval>::new(old).write(&itimerval(before))?;
    }
    Ok(0)
}

/// alarm(2): seconds left of the alarm before, rounded to the nearest and at least 1.
pub fn sys_alarm(seconds: u32) -> Result<usize> {
    let thread = current();
    let process = &thread.process;
    let to = TimerSetting { interval: 0, value: u64::from(seconds) * NS_PER_SEC };
    let before = process.itimers.set(process, Itimer::Real, to)?.value;
    if before == 0 {
        return Ok(0);
    }
    Ok((before.saturating_add(NS_PER_SEC / 2) / NS_PER_SEC).max(1) as usize)
}

/// struct itimerspec.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Itimerspec {
    interval: Timespec,
    value: Timespec,
}

impl Itimerspec {
    fn read(address: usize) -> Result<Self> {
        UserPtr::<Self>::new(address).read()
    }

    fn setting(&self) -> Result<TimerSetting> {
        Ok(TimerSetting { interval: self.interval.to_ns()?, value: self.value.to_ns()? })
    }

    fn write(setting: TimerSetting, address: usize) -> Result {
        let (interval, value) = (Timespec::from_ns(setting.interval), Timespec::from_ns(setting.value));
        UserPtr::new(address).write(&Self { interval, value })
    }
}

/// Is it a clock whose timers would wake the machine?
fn wakes(clock: i32) -> bool {
    matches!(clock as u32, abi::CLOCK_REALTIME_ALARM | abi::CLOCK_BOOTTIME_ALARM)
}

/// The clock of a POSIX timer.
///
/// # Errors
/// EINVAL: no such clock. EOPNOTSUPP: not for timers.
fn timer_clock(clock: i32) -> Result<Clock> {
    if let Ok(found) = time_clock(clock as u32) {
        return Ok(Clock::Time(found));
    }
    match clock as u32 {
        abi::CLOCK_MONOTONIC_RAW | abi::CLOCK_REALTIME_COARSE | abi::CLOCK_MONOTONIC_COARSE => {
            return Err(Errno::EOPNOTSUPP);
        }
        _ => {}
    }
    if clock < 0 && !is_cpu_clock(clock) {
        // That of a device.
        return Err(Errno::EOPNOTSUPP);
    }
    // Timers on what other processes use are not there.
    CpuClock::from_id(clock).filter(CpuClock::is_own).map(Clock::Cpu).ok_or(Errno::EINVAL)
}

/// Does the number mean a clock of some process's or thread's processor time, be it there or not?
fn is_cpu_clock(clock: i32) -> bool {
    const OF_FILE: i32 = 3;
    clock < 0 && clock & 7 != OF_FILE
}

/// struct sigevent up to what is used.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Sigevent {
    value: u64,
    signal: i32,
    notify: i32,
    thread: i32,
    pad: [u32; 11],
}

impl Sigevent {
    /// # Errors
    /// EINVAL: nothing that could be done.
    fn notify(&self) -> Result<Notify> {
        let thread = match self.notify as u32 {
            abi::SIGEV_NONE => return Ok(Notify::Nothing),
            abi::SIGEV_SIGNAL | abi::SIGEV_THREAD => None,
            abi::SIGEV_THREAD_ID => {
                let tid = u32::try_from(self.thread).map_err(|_| Errno::EINVAL)?;
                Some(current().process.thread(tid).ok_or(Errno::EINVAL)?.tid())
            }
            _ => return Err(Errno::EINVAL),
        };
        let signal = valid_signal(self.signal as u32).ok_or(Errno::EINVAL)?;
        Ok(Notify::Signal { signal, value: Some(self.value), thread })
    }
}

/// The id by which a timer's clock is known once it is made: those of one's own processor time get the general form, of number 0.
fn clock_shown(clock: i32) -> i32 {
    const OWN_PROCESS: i32 = -6;
    const OWN_THREAD: i32 = -2;
    match clock.cast_unsigned() {
        abi::CLOCK_PROCESS_CPUTIME_ID => OWN_PROCESS,
        abi::CLOCK_THREAD_CPUTIME_ID => OWN_THREAD,
        _ => clock,
    }
}

/// timer_create(2).
pub fn sys_timer_create(clock: i32, event: usize, to: usize) -> Result<usize> {
    let event = UserPtr::<Sigevent>::new(event).non_null().map(UserPtr::read).transpose()?;
    let thread = current();
    let process = &thread.process;
    let (found, id) = match timer_clock(clock) {
        // A clock of processor time is looked for when all else is there.
        Err(Errno::EINVAL) if is_cpu_clock(clock) => (Err(Errno::EINVAL), process.timers.next_id()),
        found => (Ok(found?), process.timers.next_id()),
    };
    let notify = match event {
        Some(event) => event.notify()?,
        None => Notify::Signal { signal: abi::SIGALRM, value: None, thread: None },
    };
    let asked = Asked {
        way: event.map_or(0, |event| event.notify),
        signal: event.map_or(abi::SIGALRM.cast_signed(), |event| event.signal),
        value: event.map_or(u64::from(id.cast_unsigned()), |event| event.value),
        clock: clock_shown(clock),
    };
    let made = found.and_then(|clock| process.timers.create(process, id, clock, notify, asked));
    // That the caller may not wake the machine is told last.
    let written = UserPtr::<i32>::new(to).write(&id);
    made?;
    let may =
        if wakes(clock) && !caller::capable(Capability::WAKE_ALARM) { Err(Errno::EPERM) } else { Ok(()) };
    if let Err(errno) = written.and(may) {
        let _ = process.timers.delete(id);
        return Err(errno);
    }
    Ok(0)
}

/// timer_settime(2).
pub fn sys_timer_settime(id: i32, flags: i32, from: usize, old: usize) -> Result<usize> {
    if from == 0 {
        return Err(Errno::EINVAL);
    }
    let to = Itimerspec::read(from)?.setting()?;
    let timer = process::current().process.timers.find(id)?;
    let before = timer.set(to, flags & abi::TIMER_ABSTIME as i32 != 0)?;
    if old != 0 {
        Itimerspec::write(before, old)?;
    }
    Ok(0)
}

/// timer_gettime(2).
pub fn sys_timer_gettime(id: i32, to: usize) -> Result<usize> {
    let timer = process::current().process.timers.find(id)?;
    Itimerspec::write(timer.get(), to).map(|()| 0)
}

/// timer_getoverrun(2).
pub fn sys_timer_getoverrun(id: i32) -> Result<usize> {
    Ok(process::current().process.timers.find(id)?.overrun() as usize)
}

/// timer_delete(2).
pub fn sys_timer_delete(id: i32) -> Result<usize> {
    process::current().process.timers.delete(id).map(|()| 0)
}

/// timerfd_create(2).
#[expect(clippy::arithmetic_side_effects, reason = "flags without some of them")]
pub fn sys_timerfd_create(clock: i32, flags: u32) -> Result<usize> {
    let flags = OpenFlags::from_bits_retain(flags);
    let number = clock as u32;
    if number == abi::CLOCK_TAI {
        return Err(Errno::EINVAL);
    }
    let found = time_clock(number)?;
    if !(flags - OpenFlags::CLOEXEC - OpenFlags::NONBLOCK).is_empty() {
        return Err(Errno::EINVAL);
    }
    if wakes(clock) && !caller::capable(Capability::WAKE_ALARM) {
        return Err(Errno::EPERM);
    }
    let make = || TimerFile::try_new(clock, found, flags);
    install(make, flags.contains(OpenFlags::CLOEXEC))
}

/// timerfd_settime(2).
pub fn sys_timerfd_settime(fd: i32, flags: i32, from: usize, old: usize) -> Result<usize> {
    const ABSOLUTE: i32 = 1;
    const CANCEL_ON_SET: i32 = 2;
    let to = Itimerspec::read(from)?;
    if flags & !(ABSOLUTE | CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let to = to.setting()?;
    let file = opened(fd)?;
    let timer = file.downcast::<TimerFile>().ok_or(Errno::EINVAL)?;
    let before = timer.set(to, flags & ABSOLUTE != 0, flags & CANCEL_ON_SET != 0)?;
    if old != 0 {
        Itimerspec::write(before, old)?;
    }
    Ok(0)
}

/// timerfd_gettime(2).
pub fn sys_timerfd_gettime(fd: i32, to: usize) -> Result<usize> {
    let file = opened(fd)?;
    let timer = file.downcast::<TimerFile>().ok_or(Errno::EINVAL)?;
    Itimerspec::write(timer.get(), to).map(|()| 0)
}
