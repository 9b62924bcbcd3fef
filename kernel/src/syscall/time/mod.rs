//! Clocks and sleeping.
//!
//! CLOCK_REALTIME is the monotonic clock plus an offset, which is read from the machine at boot and which
//! clock_settime moves. How fast both run says adjtimex (`adjust`).

mod adjust;
pub mod timer;

pub use adjust::{sys_adjtimex, sys_clock_adjtime};

use crate::arch;
use crate::errno::{ERESTARTNOHAND, Errno, Result};
use crate::memory::user::UserPtr;
use crate::process::timekeeping::{set_wall_clock, settable};
use crate::process::timer::clock::CpuClock;
use crate::process::{self, Capability};
use crate::sched::{self, Deadline, Sleep, TimeClock};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use linux_raw_sys::general as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const NS_PER_SEC: u64 = 1_000_000_000;

/// struct timespec.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// struct timeval.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timeval {
    pub seconds: i64,
    pub microseconds: i64,
}

impl Timespec {
    pub fn from_ns(ns: u64) -> Self {
        Self { seconds: (ns / NS_PER_SEC) as i64, nanoseconds: (ns % NS_PER_SEC) as i64 }
    }

    /// Nanoseconds; times beyond 584 years are as good as never.
    ///
    /// # Errors
    /// EINVAL: negative, or nanoseconds out of range.
    pub fn to_ns(self) -> Result<u64> {
        if self.seconds < 0 || !(0..NS_PER_SEC as i64).contains(&self.nanoseconds) {
            return Err(Errno::EINVAL);
        }
        Ok((self.seconds as u64).saturating_mul(NS_PER_SEC).saturating_add(self.nanoseconds as u64))
    }
}

impl Timeval {
    pub fn from_ns(ns: u64) -> Self {
        Self { seconds: (ns / NS_PER_SEC) as i64, microseconds: (ns % NS_PER_SEC / 1000) as i64 }
    }

    /// Nanoseconds.
    ///
    /// # Errors
    /// EINVAL: negative, or microseconds out of range.
    #[expect(clippy::arithmetic_side_effects, reason = "microseconds are below a million")]
    pub fn to_ns(self) -> Result<u64> {
        if self.seconds < 0 || !(0..1_000_000).contains(&self.microseconds) {
            return Err(Errno::EINVAL);
        }
        Ok((self.seconds as u64).saturating_mul(NS_PER_SEC).saturating_add(self.microseconds as u64 * 1000))
    }
}

/// Nanoseconds since 1970.
pub fn wall_clock() -> u64 {
    arch::time::now().saturating_add(arch::time::wall_offset())
}

/// Reads a timespec of a program.
///
/// # Errors
/// EFAULT; EINVAL as `Timespec::to_ns`.
pub fn read_timespec(address: usize) -> Result<u64> {
    UserPtr::<Timespec>::new(address).read()?.to_ns()
}

/// The clock of that number, for sleeps and timers.
///
/// # Errors
/// EINVAL: no such clock to wait on.
fn time_clock(clock: u32) -> Result<TimeClock> {
    match clock {
        abi::CLOCK_REALTIME => Ok(TimeClock::Realtime),
        abi::CLOCK_REALTIME_ALARM => Ok(TimeClock::RealtimeThroughout),
        abi::CLOCK_TAI => Ok(TimeClock::Tai),
        abi::CLOCK_MONOTONIC | abi::CLOCK_BOOTTIME | abi::CLOCK_BOOTTIME_ALARM => Ok(TimeClock::Monotonic),
        _ => Err(Errno::EINVAL),
    }
}

/// A sleep until `clock` shows `time`, or until that much has passed.
pub fn sleep_on_clock(clock: TimeClock, time: u64, relative: bool) -> Deadline {
    let base = clock.base(!relative);
    // Never "no deadline": the longest sleep ends too.
    let at = if relative { base.now().saturating_add(time) } else { clock.moment(time) };
    Deadline::of_sleep(at).on(base)
}

fn read_clock(clock: i32) -> Result<u64> {
    match u32::try_from(clock) {
        Ok(abi::CLOCK_REALTIME | abi::CLOCK_REALTIME_COARSE | abi::CLOCK_REALTIME_ALARM) => Ok(wall_clock()),
        Ok(abi::CLOCK_TAI) => Ok(arch::time::now().saturating_add(arch::time::tai_offset())),
        Ok(abi::CLOCK_MONOTONIC_RAW) => Ok(arch::time::raw()),
        Ok(
            abi::CLOCK_MONOTONIC
            | abi::CLOCK_MONOTONIC_COARSE
            | abi::CLOCK_BOOTTIME
            | abi::CLOCK_BOOTTIME_ALARM,
        ) => Ok(arch::time::now()),
        _ => CpuClock::from_id(clock).ok_or(Errno::EINVAL)?.read(),
    }
}

/// clock_gettime(2).
pub fn sys_clock_gettime(clock: i32, to: usize) -> Result<usize> {
    let now = read_clock(clock)?;
    UserPtr::<Timespec>::new(to).write(&Timespec::from_ns(now)).map(|()| 0)
}

/// clock_getres(2).
pub fn sys_clock_getres(clock: i32, to: usize) -> Result<usize> {
    read_clock(clock)?;
    let coarse = matches!(u32::try_from(clock), Ok(abi::CLOCK_REALTIME_COARSE | abi::CLOCK_MONOTONIC_COARSE));
    if to != 0 {
        let resolution = if coarse { 4_000_000 } else { 1 };
        UserPtr::<Timespec>::new(to).write(&Timespec::from_ns(resolution))?;
    }
    Ok(0)
}

/// clock_settime(2): CLOCK_REALTIME by root.
pub fn sys_clock_settime(clock: i32, from: usize) -> Result<usize> {
    if clock != abi::CLOCK_REALTIME as i32 {
        return Err(Errno::EINVAL);
    }
    let time = settable(read_timespec(from)?)?;
    check_may_set()?;
    set_wall_clock(time).map(|()| 0)
}

/// May the caller set the clock (CAP_SYS_TIME)?
fn check_may_set() -> Result {
    if process::current().capable(Capability::SYS_TIME) { Ok(()) } else { Err(Errno::EPERM) }
}

/// gettimeofday(2).
pub fn sys_gettimeofday(to: usize, zone: usize) -> Result<usize> {
    if to != 0 {
        UserPtr::<Timeval>::new(to).write(&Timeval::from_ns(wall_clock()))?;
    }
    if zone != 0 {
        let kept = ZONE.load(Ordering::Relaxed);
        UserPtr::<[i32; 2]>::new(zone).write(&[kept as i32, (kept >> 32) as i32])?;
    }
    Ok(0)
}

/// The time zone of settimeofday: minutes west of Greenwich, and in the upper half what kind of summer time there is. It is kept for
/// gettimeofday and has no other effect.
static ZONE: AtomicU64 = AtomicU64::new(0);
/// No zone has been set yet.
static FIRST_ZONE: AtomicBool = AtomicBool::new(true);

/// settimeofday(2), by root. A first zone that comes without a time says that the hardware's clock shows local time: the wall clock, which was
/// taken from it, is moved to UTC.
#[expect(clippy::arithmetic_side_effects, reason = "fifteen hours at most")]
pub fn sys_settimeofday(from: usize, zone: usize) -> Result<usize> {
    let time = if from == 0 { None } else { Some(UserPtr::<Timeval>::new(from).read()?) };
    if time.is_some_and(|time| !(0..=1_000_000).contains(&time.microseconds)) {
        return Err(Errno::EINVAL);
    }
    let zone = if zone == 0 { None } else { Some(UserPtr::<[i32; 2]>::new(zone).read()?) };
    let time = time.map(|time| settable(time.to_ns()?)).transpose()?;
    check_may_set()?;
    if let Some([west, summer]) = zone {
        const MOST: i32 = 15 * 60;
        if !(-MOST..=MOST).contains(&west) {
            return Err(Errno::EINVAL);
        }
        ZONE.store(u64::from(summer as u32) << 32 | u64::from(west as u32), Ordering::Relaxed);
        if FIRST_ZONE.swap(false, Ordering::Relaxed) && time.is_none() && west != 0 {
            let west = i64::from(west) * 60 * NS_PER_SEC as i64;
            set_wall_clock(wall_clock().saturating_add_signed(west))?;
        }
    }
    time.map_or(Ok(()), set_wall_clock).map(|()| 0)
}

/// time(2).
pub fn sys_time(to: usize) -> Result<usize> {
    let seconds = wall_clock() / NS_PER_SEC;
    if to != 0 {
        UserPtr::<i64>::new(to).write(&(seconds as i64))?;
    }
    Ok(seconds as usize)
}

/// nanosleep(2).
pub fn sys_nanosleep(request: usize, remain: usize) -> Result<usize> {
    let time = read_timespec(request)?;
    sleep(sleep_on_clock(TimeClock::Monotonic, time, true), Some(remain))
}

/// clock_nanosleep(2).
pub fn sys_clock_nanosleep(clock: i32, flags: i32, request: usize, remain: usize) -> Result<usize> {
    let own = match u32::try_from(clock) {
        Ok(
            abi::CLOCK_THREAD_CPUTIME_ID
            | abi::CLOCK_MONOTONIC_RAW
            | abi::CLOCK_REALTIME_COARSE
            | abi::CLOCK_MONOTONIC_COARSE,
        ) => return Err(Errno::EOPNOTSUPP),
        Ok(abi::CLOCK_PROCESS_CPUTIME_ID) | Err(_) => None,
        Ok(number) => Some(time_clock(number)?),
    };
    let time = read_timespec(request)?;
    let absolute = flags & abi::TIMER_ABSTIME as i32 != 0;
    let Some(own) = own else {
        let clock = CpuClock::from_id(clock).ok_or(Errno::EINVAL)?;
        return sleep_on(&clock, time, absolute, remain);
    };
    let is_alarm = matches!(clock as u32, abi::CLOCK_REALTIME_ALARM | abi::CLOCK_BOOTTIME_ALARM);
    if is_alarm {
        // These alone know their flags.
        if flags & !(abi::TIMER_ABSTIME as i32) != 0 {
            return Err(Errno::EINVAL);
        }
        if !process::current().capable(Capability::WAKE_ALARM) {
            return Err(Errno::EPERM);
        }
    }
    let deadline = sleep_on_clock(own, time, !absolute);
    let deadline = if is_alarm { deadline.without_slack() } else { deadline };
    sleep(deadline, (!absolute).then_some(remain))
}

/// Sleeps until a clock of processor time has come to `time`, or moved on by it. Nothing tells when: the sleeper looks again when it
/// could be so at the earliest.
#[expect(clippy::arithmetic_side_effects, reason = "there is a CPU")]
fn sleep_on(clock: &CpuClock, time: u64, absolute: bool, remain: usize) -> Result<usize> {
    const MILLISECOND: u64 = 1_000_000;
    let until = if absolute { time } else { clock.read()?.saturating_add(time) };
    loop {
        let left = until.saturating_sub(clock.read()?);
        if left == 0 {
            return Ok(0);
        }
        // All CPUs may run the process at once.
        let pause = (left / u64::from(sync::machine::cpus().max(1))).max(MILLISECOND);
        if sched::sleep_until(arch::time::now().saturating_add(pause), Sleep::Interruptible).is_err() {
            if absolute {
                return Err(ERESTARTNOHAND);
            }
            if remain != 0 {
                UserPtr::<Timespec>::new(remain).write(&Timespec::from_ns(left))?;
            }
            return Err(Errno::EINTR);
        }
    }
}

/// Sleeps until `deadline`. A relative sleep that is interrupted tells what was left, where `remain` says.
fn sleep(deadline: Deadline, remain: Option<usize>) -> Result<usize> {
    if sched::sleep_until(deadline, Sleep::Interruptible).is_ok() {
        return Ok(0);
    }
    let Some(remain) = remain else { return Err(ERESTARTNOHAND) };
    let left = deadline.left();
    if left == 0 {
        return Ok(0);
    }
    if remain != 0 {
        UserPtr::<Timespec>::new(remain).write(&Timespec::from_ns(left))?;
    }
    Err(process::restart_sleep(deadline, remain))
}

/// Goes on with a sleep that a stop or an unhandled signal interrupted.
pub fn resume_sleep(deadline: Deadline, remain: usize) -> Result<usize> {
    sleep(deadline, Some(remain))
}
