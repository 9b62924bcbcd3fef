//! What the scheduler tells: /proc/schedstat (version 16, Linux 6.12's), /proc/PID/schedstat, /proc/PID/sched, and /proc/darter/sched.
//!
//! Linux's figures that have no meaning here are 0 (calls and choices that it counts when sched_schedstats is set), or have no line (domains, averages of
//! load by entity, NUMA faults).
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::TryVec;
use sync::heap::Text;

use crate::arch;
use crate::errno::{EAGAIN, EINVAL, ENOMEM, EPERM, ESRCH, Result};
use crate::fs::caller;
use crate::process::{self, Capability, Process, Thread};
use crate::sched;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

const NS_PER_JIFFY: u64 = 4_000_000;
/// Linux's clock of jiffies starts five minutes before it wraps at 32 bits.
const FIRST_JIFFY: u64 = (1 << 32) - 300 * 250;

/// Of each CPU: how long it ran tasks, how long tasks waited for it, and how often it took one.
#[expect(clippy::arithmetic_side_effects, reason = "nanoseconds of five hundred years")]
pub fn schedstat(out: &mut Vec<u8>) -> Result {
    put!(out, "version 16\ntimestamp {}\n", FIRST_JIFFY + arch::time::now() / NS_PER_JIFFY);
    for cpu in 0..sync::cpus() {
        let (times, taken) = (sched::times_of(cpu), sched::taken_of(cpu));
        let ran = times.user + times.nice + times.system;
        put!(out, "cpu{cpu} 0 0 0 0 0 0 {ran} {} {}\n", taken.waited_ns, taken.times);
    }
    Ok(())
}

/// Of a thread: how long it ran, how long it waited for a CPU, and how often it got one.
#[expect(clippy::arithmetic_side_effects, reason = "nanoseconds of five hundred years")]
pub fn schedstat_of(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let (times, report) = thread.look_at_task(|task| (task.times(), task.report())).ok_or(ESRCH)?;
    put!(out, "{} {} {}\n", times.user_ns + times.system_ns, report.waited_ns, report.taken);
    Ok(())
}

/// The same and more, a line each.
#[expect(clippy::arithmetic_side_effects, reason = "nanoseconds of five hundred years")]
pub fn sched(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let (times, report) = thread.look_at_task(|task| (task.times(), task.report())).ok_or(ESRCH)?;
    let (name, len) = thread.comm();
    out.try_extend_from_slice(name.get(..len).unwrap_or(&[]))?;
    put!(out, " ({}, #threads: {})\n{:-<67}\n", thread.tid(), process.thread_count(), "");
    for (name, ns) in [
        ("se.exec_start", report.counted_at),
        ("se.vruntime", report.vruntime),
        ("se.sum_exec_runtime", times.user_ns + times.system_ns),
    ] {
        put!(out, "{name:<45}:{:>14}.{:06}\n", ns / 1_000_000, ns % 1_000_000);
    }
    for (name, n) in [
        ("se.nr_migrations", report.migrations),
        ("nr_switches", times.voluntary + times.involuntary),
        ("nr_voluntary_switches", times.voluntary),
        ("nr_involuntary_switches", times.involuntary),
        // Linux's weights are of 64 bits, and printed so.
        ("se.load.weight", report.weight << 10),
        ("policy", report.policy),
    ] {
        put!(out, "{name:<45}:{n:>21}\n");
    }
    put!(out, "{:<45}:{:>21}\n", "prio", report.priority);
    if let Some((left, at)) = report.deadline {
        put!(out, "{:<45}:{left:>21}\n{:<45}:{at:>21}\n", "dl.runtime", "dl.deadline");
    }
    Ok(())
}

/// The group of a process's session: its number and nice value (sched(7)). Nothing for one of the first session, which is in no group.
pub fn autogroup(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let Some(session) = process.session() else { return Ok(()) };
    if let Some(group) = session.sched() {
        put!(out, "/autogroup-{} nice {}\n", session.id(), group.nice());
    }
    Ok(())
}

/// When somebody without CAP_SYS_ADMIN may set a nice value again, ns.
static NEXT_CHANGE: AtomicU64 = AtomicU64::new(0);
/// Ten changes in a second.
const BETWEEN: u64 = 100_000_000;

/// Sets the nice value of that group.
///
/// # Errors
/// EINVAL: there is no such value, or no group; EPERM: it is better than the caller may give; EAGAIN: others have changed one just now.
pub fn set_autogroup(process: &Arc<Process>, nice: i32) -> Result {
    if !(-20..=19).contains(&nice) {
        return Err(EINVAL);
    }
    if nice < 0 && !may_have(nice) {
        return Err(EPERM);
    }
    let now = arch::time::now();
    if !caller::capable(Capability::SYS_ADMIN) && now < NEXT_CHANGE.load(Relaxed) {
        return Err(EAGAIN);
    }
    NEXT_CHANGE.store(now.saturating_add(BETWEEN), Relaxed);
    let session = process.session().ok_or(EINVAL)?;
    session.sched().ok_or(EINVAL)?.set_nice(nice);
    Ok(())
}

/// May the caller have this nice value (RLIMIT_NICE)?
fn may_have(nice: i32) -> bool {
    let rank = u64::from(20i32.saturating_sub(nice).max(0).unsigned_abs());
    rank <= process::limit_now(linux_raw_sys::general::RLIMIT_NICE) || caller::capable(Capability::SYS_NICE)
}

/// What each CPU has to do now. The first line says the version of the format, the second names the columns. Takes each queue's lock for a moment.
pub fn queues(out: &mut Vec<u8>) -> Result {
    put!(out, "version 1\ncpu running waiting weight virtual-ns shown-weight gives-away switches\n");
    for cpu in 0..sync::cpus() {
        let queue = sched::look_at_queue(cpu);
        put!(out, "{cpu} {} {} {} ", queue.running.unwrap_or(0), queue.waiting, queue.weight);
        put!(out, "{} {} ", queue.time.unwrap_or(0), queue.shown_weight);
        put!(out, "{} {}\n", u8::from(queue.gives_away), sched::switches_of(cpu));
    }
    Ok(())
}

/// Why tasks went from one CPU to another, counted on the CPU that moved them. As `queues`, but takes no lock.
pub fn moves(out: &mut Vec<u8>) -> Result {
    put!(out, "version 1\ncpu woken partners idle owed left between-nodes\n");
    for cpu in 0..sync::cpus() {
        let ([woken, partners, idle, owed, left], between) = sched::moves_of(cpu);
        put!(out, "{cpu} {woken} {partners} {idle} {owed} {left} {between}\n");
    }
    Ok(())
}
