//! /proc/darter/samples: where CPUs are, so many times a second (`trace::sample`). Root alone reads it, and writes how many a second, 1 to 10,000, or `off`.
//!
//! Each reading from the start tells those samples that none has told before, and that are there yet. The first line says the version of the format, the second what is set and
//! how many samples were lost since boot, which nobody read in time; then a line for each sample:
//!
//!     CPU NS THREAD KERNEL PROGRAM NAME
//!
//! NS is the monotonic time; THREAD the thread's number, 0 for one of the kernel's own. KERNEL and PROGRAM are program counters, hexadecimal, the innermost
//! first, with commas between; `-`: none. NAME, to the end of the line, is the thread's; `-`: it has ended meanwhile.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::{Text, TryVec};
use sync::{Count, CpuId, per_cpu};

use crate::errno::{EINTR, EINVAL, ENOMEM, Result};
use crate::process::find_thread;
use crate::procfs::entry::Setting;
use crate::sched;
use crate::trace::sample::{self, FASTEST, Sample};

const NS: u64 = 1_000_000_000;
/// Samples that one reading tells.
const MOST: usize = 2048;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub static SAMPLES: Setting = Setting { read, write: Some(set) };

per_cpu! {
    /// The number of the CPU's next sample that is to be told, and how many were lost. Written by readers, of whom one at a time is meant to be there: two
    /// that read at once may tell a sample twice.
    static TOLD: Count = Count::new();
    static LOST: Count = Count::new();
}

fn read(out: &mut Vec<u8>) -> Result {
    let rate = sample::period().and_then(|period| NS.checked_div(period));
    match rate {
        Some(rate) => put!(out, "version 1\nsampled {rate} "),
        None => put!(out, "version 1\nsampled off "),
    }
    let lost: u64 = LOST.iter().map(Count::get).fold(0, u64::wrapping_add);
    put!(out, "{lost}\n");
    let mut left = MOST;
    for cpu in 0..sync::cpus() {
        tell(cpu, &mut left, out)?;
    }
    Ok(())
}

/// Tells the samples of one CPU.
fn tell(cpu: CpuId, left: &mut usize, out: &mut Vec<u8>) -> Result {
    let (told, lost) = (TOLD.of(cpu), LOST.of(cpu));
    while *left > 0 && told.get() < sample::taken(cpu) {
        let next = told.get().max(sample::oldest(cpu));
        lost.add(next.saturating_sub(told.get()));
        told.set(next.saturating_add(1));
        match sample::of(cpu, next) {
            Some(found) => line(cpu, &found, out)?,
            None => lost.add(1),
        }
        *left = left.saturating_sub(1);
        if sync::machine::give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

fn line(cpu: CpuId, sample: &Sample, out: &mut Vec<u8>) -> Result {
    put!(out, "{cpu} {} {} ", sample.ns, sample.thread);
    for frames in [sample.kernel(), sample.user()] {
        for (n, pc) in frames.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            put!(out, "{comma}{pc:x}");
        }
        put!(out, "{} ", if frames.is_empty() { "-" } else { "" });
    }
    match find_thread(sample.thread) {
        Some(thread) if sample.thread != 0 => {
            let (name, len) = thread.comm();
            for byte in name.get(..len).unwrap_or(&[]) {
                // A program chooses its name: a line stays a line.
                out.try_push(if byte.is_ascii_graphic() || *byte == b' ' { *byte } else { b'?' })?;
            }
        }
        _ => put!(out, "-"),
    }
    put!(out, "\n");
    Ok(())
}

/// # Errors
/// EINVAL: neither a rate nor `off`; ENOMEM.
fn set(data: &[u8]) -> Result {
    if data.trim_ascii() == b"off" {
        sample::switch_off();
        sched::latency::tick_for_samples(None);
        return Ok(());
    }
    let rate: u64 =
        core::str::from_utf8(data.trim_ascii()).ok().and_then(|text| text.parse().ok()).ok_or(EINVAL)?;
    if !(1..=FASTEST).contains(&rate) {
        return Err(EINVAL);
    }
    let period = NS.checked_div(rate).ok_or(EINVAL)?;
    sample::switch_on(period).map_err(|_| ENOMEM)?;
    sched::latency::tick_for_samples(Some(period));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in [&b""[..], b"0", b"10001", b"-1", b"on", b"99 99", b"\xff"] {
            assert_eq!(set(text).err(), Some(EINVAL));
        }
    }
}
