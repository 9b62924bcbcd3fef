//! How fast the clock runs: adjtimex(2), clock_adjtime(2).
#![forbid(unsafe_code)]

use super::{Timeval, abi};
use crate::errno::{EINVAL, EOPNOTSUPP, Result};
use crate::memory::user::UserPtr;
use crate::process::timekeeping::{self, Adjustment};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// struct timex. What stands for a pulse-per-second signal is 0: there is none.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Timex {
    modes: u32,
    gap: u32,
    offset: i64,
    frequency: i64,
    max_error: i64,
    estimated_error: i64,
    status: u32,
    second_gap: u32,
    constant: i64,
    precision: i64,
    tolerance: i64,
    time: Timeval,
    tick: i64,
    /// ppsfreq, jitter, shift, stabil; jitcnt, calcnt, errcnt, stbcnt.
    frequency_of_signal: i64,
    jitter: i64,
    shift: i32,
    third_gap: u32,
    stability: i64,
    counts: [i64; 4],
    tai: i32,
    reserved: [u32; 11],
}

/// Reads what is asked for, carries it out, and writes how the clock stands. An error leaves the structure as it is.
fn adjust(at: UserPtr<Timex>, mut timex: Timex) -> Result<usize> {
    let mut asked = Adjustment {
        modes: timex.modes,
        offset: timex.offset,
        frequency: timex.frequency,
        max_error: timex.max_error,
        estimated_error: timex.estimated_error,
        status: timex.status,
        constant: timex.constant,
        time: (timex.time.seconds, timex.time.microseconds),
        tick: timex.tick,
        ..Adjustment::default()
    };
    let state = timekeeping::adjust(&mut asked)?;
    timex.offset = asked.offset;
    timex.frequency = asked.frequency;
    timex.max_error = asked.max_error;
    timex.estimated_error = asked.estimated_error;
    timex.status = asked.status;
    timex.constant = asked.constant;
    timex.precision = 1;
    timex.tolerance = asked.tolerance;
    timex.time = Timeval { seconds: asked.time.0, microseconds: asked.time.1 };
    timex.tick = asked.tick;
    timex.tai = asked.tai as i32;
    (timex.frequency_of_signal, timex.jitter, timex.shift, timex.stability) = (0, 0, 0, 0);
    timex.counts = [0; 4];
    at.write(&timex)?;
    Ok(state)
}

/// adjtimex(2): by whom may set the clock, but for questions.
pub fn sys_adjtimex(to: usize) -> Result<usize> {
    let at = UserPtr::<Timex>::new(to);
    adjust(at, at.read()?)
}

/// clock_adjtime(2): adjtimex on CLOCK_REALTIME, the only clock that can be corrected.
pub fn sys_clock_adjtime(clock: i32, to: usize) -> Result<usize> {
    let at = UserPtr::<Timex>::new(to);
    let timex = at.read()?;
    match u32::try_from(clock) {
        Ok(abi::CLOCK_REALTIME) => adjust(at, timex),
        Ok(
            abi::CLOCK_MONOTONIC
            | abi::CLOCK_PROCESS_CPUTIME_ID
            | abi::CLOCK_THREAD_CPUTIME_ID
            | abi::CLOCK_MONOTONIC_RAW
            | abi::CLOCK_REALTIME_COARSE
            | abi::CLOCK_MONOTONIC_COARSE
            | abi::CLOCK_BOOTTIME
            | abi::CLOCK_REALTIME_ALARM
            | abi::CLOCK_BOOTTIME_ALARM
            | abi::CLOCK_TAI,
        ) => Err(EOPNOTSUPP),
        // A clock of a device (the lowest bits are 3) is that of no file here; one of processor time is not corrected.
        Err(_) if clock & 7 != 3 => Err(EOPNOTSUPP),
        _ => Err(EINVAL),
    }
}
