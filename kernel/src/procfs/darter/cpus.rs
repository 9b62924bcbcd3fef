//! /proc/darter/cpus: what each CPU has done since boot. The first line says the version of the format, the second names the columns; then a line for each CPU.
//! All figures are counts that grow, so who reads twice has what was done between.
//!
//! | columns | what |
//! |---|---|
//! | cpu, at | its number; the monotonic time when its line was made, ns |
//! | user, nice, system, idle, stolen | what its time went to, ns (what the running task has run since its last tick is missing) |
//! | switches | from one task to another |
//! | timer, device, reschedule, flush, call, spurious | interrupts received |
//! | sent-reschedule, sent-flush, spared | reschedule interrupts sent to others; CPUs interrupted to flush, and those that had not to be |
//! | flush:CAUSE | of sent-flush those of each cause (/proc/darter/tlb) |
//! | zero-fill, zero-read, copy, reuse, object, around, fill, raced, refused | faults by kind (`vm`'s `FaultCounts`); around: pages of objects mapped, those beside a fault included |
//! | forks, execs, exits | processes that began, executed and ended |
//! | near, far | batches of frames taken from its own NUMA node and from others |
//! | spins, spun, sleeps, slept | waits for locks, and the time, ns: spinning, and asleep |
//! | holder, caller, class | the last lock waited for: the CPU that held it (`-`: nobody knows), where it was taken, its class (to the end of the line; `-`: none yet) |
//!
//! There is no column for time in interrupts: handlers do almost nothing here (they raise a bit), and what they do counts to whom they interrupt.
//!
//! Reads what CPUs write, and writes nothing of theirs.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;
use sync::lock::contention;
use vm::FlushCause;
use vm::tlb::TLB_COUNTS;

use crate::arch::{self, interrupts};
use crate::errno::{EINTR, ENOMEM, Result};
use crate::{sched, trace};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// Nanoseconds of so many cycles.
pub(in crate::procfs) fn ns_of(cycles: u64) -> u64 {
    let per_ns = u128::from(arch::time::clock().cycles_per_ns);
    (u128::from(cycles) << 32).checked_div(per_ns).and_then(|ns| ns.try_into().ok()).unwrap_or(u64::MAX)
}

pub fn text(out: &mut Vec<u8>) -> Result {
    put!(out, "version 1\ncpu at user nice system idle stolen switches ");
    put!(out, "timer device reschedule flush call spurious sent-reschedule sent-flush spared ");
    for (_, name) in FlushCause::ALL {
        put!(out, "flush:{name} ");
    }
    put!(out, "zero-fill zero-read copy reuse object around fill raced refused forks execs exits near far ");
    put!(out, "spins spun sleeps slept holder caller class\n");
    for cpu in 0..sync::cpus() {
        line(cpu, out)?;
        if sync::machine::give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

fn line(cpu: sync::CpuId, out: &mut Vec<u8>) -> Result {
    let times = sched::times_of(cpu);
    put!(out, "{cpu} {} {} {} {} ", arch::time::now(), times.user, times.nice, times.system);
    put!(out, "{} {} {} ", times.idle, times.stolen, sched::switches_of(cpu));
    for count in [
        &interrupts::TIMER_INTERRUPTS,
        &interrupts::DEVICE_INTERRUPTS,
        &interrupts::RESCHEDULE_INTERRUPTS,
        &interrupts::FLUSH_INTERRUPTS,
        &interrupts::CALL_INTERRUPTS,
        &interrupts::SPURIOUS_INTERRUPTS,
        &interrupts::RESCHEDULES_SENT,
    ] {
        put!(out, "{} ", count.of(cpu).get());
    }
    let causes = &TLB_COUNTS.of(cpu).causes;
    let sum = |part: fn(&vm::tlb::CauseCounts) -> u64| causes.iter().map(part).fold(0, u64::wrapping_add);
    put!(out, "{} {} ", sum(|cause| cause.asked.get()), sum(|cause| cause.spared.get()));
    for cause in causes {
        put!(out, "{} ", cause.asked.get());
    }
    let faults = vm::FAULTS.of(cpu);
    let events = trace::EVENTS.of(cpu);
    for count in [
        &faults.zero_fill,
        &faults.zero_read,
        &faults.copy,
        &faults.reuse,
        &faults.object,
        &faults.object_pages,
        &faults.fill,
        &faults.spurious,
        &faults.refused,
        &events.forks,
        &events.execs,
        &events.exits,
    ] {
        put!(out, "{} ", count.get());
    }
    let frames = vm::frame::counts_of(cpu);
    put!(out, "{} {} ", frames.refills, frames.refills_far);
    let lost = contention::lost_by(cpu);
    put!(out, "{} {} {} {} ", lost.spins, ns_of(lost.spun), lost.sleeps, ns_of(lost.slept));
    match lost.last {
        None => put!(out, "- - -\n"),
        Some(last) => {
            match last.holder {
                Some(holder) => put!(out, "{holder} "),
                None => put!(out, "- "),
            }
            let place = last.caller;
            put!(out, "{}:{}:{} {}\n", place.file(), place.line(), place.column(), last.class);
        }
    }
    Ok(())
}
