//! stat, statm and status of a process or thread.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use linux_raw_sys::general::{RLIMIT_RSS, RLIMIT_SIGPENDING, SIGCHLD};
use sync::TryVec;
use sync::heap::Text;

use super::entry::MakeOf;
use super::process::comm;
use crate::account;
use crate::errno::{ENOMEM, Result};
use crate::fs::caller;
use crate::process::access::{self, By};
use crate::process::{Process, Thread};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

const TICK: u64 = 10_000_000;

#[expect(clippy::arithmetic_side_effects, reason = "nice is between -20 and 19")]
pub fn stat(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let space = process.space();
    let memory = space.as_ref().map(|s| s.usage()).unwrap_or_default();
    let (usage, children) = (process.usage(), process.children_usage());
    let session = process.session_id();
    let tty = caller::tty_of(process);
    let (name, len) = thread.comm();
    put!(out, "{} (", thread.tid());
    out.try_extend_from_slice(name.get(..len).unwrap_or(&[]))?;
    put!(out, ") {} ", char::from(letter(process, thread)));
    put!(out, "{} {} {session} ", process.parent_pid(), process.group());
    match &tty {
        Some(tty) => put!(out, "{} {} ", tty.number(), tty.foreground().cast_signed()),
        None => put!(out, "0 -1 "),
    }
    // Flags: a process with a program; 64: forked and no exec yet is not told apart.
    put!(out, "4194304 {} {} ", usage.minor_faults, children.minor_faults);
    put!(out, "{} {} ", usage.major_faults, children.major_faults);
    put!(out, "{} {} ", usage.user_ns / TICK, usage.system_ns / TICK);
    put!(out, "{} {} ", children.user_ns / TICK, children.system_ns / TICK);
    let nice = thread.task().map_or(0, |t| t.nice());
    put!(out, "{} {nice} {} 0 {} ", 20 + nice, process.thread_count(), process.started / TICK);
    put!(
        out,
        "{} {} {} ",
        memory.virtual_pages * 4096,
        memory.resident_pages,
        process.limits.soft(RLIMIT_RSS)
    );
    let layout = process.memory.lock();
    let (mut code, mut data, mut stack, mut brk) = (layout.code, layout.data, layout.stack, layout.brk);
    let (mut arguments, mut environment) = (layout.arguments, layout.environment);
    drop(layout);
    if !access::may_inspect(&caller::current(), process, By::FsIds) {
        // Linux says 1 where there is code, and 0 for all other addresses.
        (code, data, stack, brk) = ((1, 1), (0, 0), 0, 0);
        (arguments, environment) = ((0, 0), (0, 0));
    }
    put!(out, "{} {} {stack} 0 0 ", code.0, code.1);
    let blocked = thread.blocked.get();
    let (ignored, caught) = actions(process);
    put!(out, "{} {} ", process.signals.pending() & 0x7fff_ffff, blocked & 0x7fff_ffff);
    put!(out, "{} {} 0 0 0 {SIGCHLD} ", ignored & 0x7fff_ffff, caught & 0x7fff_ffff);
    let cpu = thread.task().map_or(0, |t| t.cpu());
    put!(out, "{cpu} 0 0 0 0 0 {} {} {brk} ", data.0, data.1);
    put!(out, "{} {} {} {} 0\n", arguments.0, arguments.1, environment.0, environment.1);
    Ok(())
}

/// What is left to say of a zombie, whose threads are gone.
pub fn zombie(file: MakeOf, process: &Arc<Process>, out: &mut Vec<u8>) -> Result {
    let name = process.name_at_exit();
    let name = name.split(|&b| b == 0).next().unwrap_or(&[]);
    if core::ptr::fn_addr_eq(file, stat as MakeOf) {
        let (usage, children) = (process.usage(), process.children_usage());
        put!(out, "{} (", process.pid());
        out.try_extend_from_slice(name)?;
        put!(out, ") Z {} {} {} 0 -1 4194308 ", process.parent_pid(), process.group(), process.session_id());
        put!(out, "{} {} ", usage.minor_faults, children.minor_faults);
        put!(out, "{} {} ", usage.major_faults, children.major_faults);
        put!(out, "{} {} ", usage.user_ns / TICK, usage.system_ns / TICK);
        put!(out, "{} {} ", children.user_ns / TICK, children.system_ns / TICK);
        put!(out, "20 0 1 0 {} 0 0 {}", process.started / TICK, process.limits.soft(RLIMIT_RSS));
        put!(out, " 0 0 0 0 0 0 0 0 0 0 0 0 {SIGCHLD} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    } else if core::ptr::fn_addr_eq(file, status as MakeOf) {
        put!(out, "Name:\t");
        out.try_extend_from_slice(name)?;
        put!(out, "\nState:\tZ (zombie)\nTgid:\t{}\nNgid:\t0\n", process.pid());
        put!(out, "Pid:\t{}\nPPid:\t{}\nTracerPid:\t0\nThreads:\t1\n", process.pid(), process.parent_pid());
    } else if core::ptr::fn_addr_eq(file, comm as MakeOf) {
        out.try_extend_from_slice(name)?;
        put!(out, "\n");
    } else if core::ptr::fn_addr_eq(file, statm as MakeOf) {
        put!(out, "0 0 0 0 0 0 0\n");
    }
    Ok(())
}

fn letter(process: &Process, thread: &Thread) -> u8 {
    if process.is_zombie() || process.is_stopped() {
        return process.state_letter();
    }
    thread.task().map_or(process.state_letter(), |t| t.state_letter())
}

/// Masks of ignored and caught signals.
#[expect(clippy::arithmetic_side_effects, reason = "signals are numbered from 1 to 64")]
fn actions(process: &Process) -> (u64, u64) {
    let (mut ignored, mut caught) = (0, 0);
    for signal in 1..=64 {
        match process.signals.action(signal) {
            Some(a) if a.is_ignore() => ignored |= 1 << (signal - 1),
            Some(a) if !a.is_default() => caught |= 1 << (signal - 1),
            _ => {}
        }
    }
    (ignored, caught)
}

#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
pub fn statm(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let memory = process.space().map(|s| s.usage()).unwrap_or_default();
    let (total, resident) = (memory.virtual_pages, memory.resident_pages);
    put!(out, "{total} {resident} {} {} 0 {} 0\n", memory.file, memory.exec, memory.data + memory.stack);
    Ok(())
}

#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
pub fn status(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let (name, len) = thread.comm();
    put!(out, "Name:\t");
    out.try_extend_from_slice(name.get(..len).unwrap_or(&[]))?;
    let context = thread.fs_of();
    put!(out, "\nUmask:\t{:04o}\n", context.map_or(0, |c| c.umask()));
    let letter = letter(process, thread);
    let word = match letter {
        b'R' => "running",
        b'D' => "disk sleep",
        b'T' => "stopped",
        b'Z' => "zombie",
        _ => "sleeping",
    };
    put!(out, "State:\t{} ({word})\nTgid:\t{}\nNgid:\t0\n", char::from(letter), process.pid());
    put!(out, "Pid:\t{}\nPPid:\t{}\nTracerPid:\t0\n", thread.tid(), process.parent_pid());
    if let Some(c) = thread.credentials_of() {
        put!(out, "Uid:\t{}\t{}\t{}\t{}\n", c.uid, c.euid, c.suid, c.fsuid);
        put!(out, "Gid:\t{}\t{}\t{}\t{}\n", c.gid, c.egid, c.sgid, c.fsgid);
        put!(out, "FDSize:\t{}\nGroups:\t", thread.with_files(|files| files.size()).unwrap_or(0));
        for group in &c.groups {
            put!(out, "{group} ");
        }
        put!(out, "\n");
    }
    if let Some(space) = process.space() {
        let memory = space.usage();
        let kib = |pages: usize| pages * 4;
        let code = process.memory.lock().code;
        let rows = [
            ("VmPeak", kib(memory.virtual_pages)),
            ("VmSize", kib(memory.virtual_pages)),
            ("VmLck", kib(memory.locked)),
            ("VmPin", 0),
            ("VmHWM", kib(memory.resident_pages)),
            ("VmRSS", kib(memory.resident_pages)),
            ("RssAnon", kib(memory.anon)),
            ("RssFile", kib(memory.file)),
            ("RssShmem", 0),
            ("VmData", kib(memory.data)),
            ("VmStk", kib(memory.stack)),
            ("VmExe", code.1.saturating_sub(code.0) / 1024),
            ("VmLib", 0),
            ("VmPTE", kib(memory.tables)),
            ("VmSwap", 0),
        ];
        for (name, value) in rows {
            put!(out, "{name}:\t{value:>8} kB\n");
        }
    }
    let signals = account::used(process.uid_at_exit(), account::Kind::Signals);
    let limit = process.limits.soft(RLIMIT_SIGPENDING);
    put!(out, "Threads:\t{}\nSigQ:\t{signals}/{limit}\n", process.thread_count());
    let (ignored, caught) = actions(process);
    let own = thread.pending_signals();
    put!(out, "SigPnd:\t{own:016x}\nShdPnd:\t{:016x}\n", process.signals.pending());
    put!(out, "SigBlk:\t{:016x}\n", thread.blocked.get());
    put!(out, "SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n");
    if let Some(credentials) = thread.credentials_of() {
        let sets = &credentials.sets;
        let rows = [
            ("Inh", sets.inheritable),
            ("Prm", sets.permitted),
            ("Eff", sets.effective),
            ("Bnd", sets.bounding),
            ("Amb", sets.ambient),
        ];
        for (name, set) in rows {
            put!(out, "Cap{name}:\t{:016x}\n", set.bits());
        }
        put!(out, "NoNewPrivs:\t{}\nSeccomp:\t0\n", u32::from(credentials.no_new_privileges));
    }
    cpus(thread, out)?;
    let usage = process.usage();
    put!(out, "voluntary_ctxt_switches:\t{}\n", usage.voluntary);
    put!(out, "nonvoluntary_ctxt_switches:\t{}\n", usage.involuntary);
    Ok(())
}

#[expect(clippy::arithmetic_side_effects, reason = "numbers of CPUs")]
fn cpus(thread: &Thread, out: &mut Vec<u8>) -> Result {
    let Some(task) = thread.task() else { return Ok(()) };
    let present = sync::cpus() as usize;
    let words = task.affinity().words();
    put!(out, "Cpus_allowed:\t");
    let groups = present.div_ceil(32);
    for group in (0..groups).rev() {
        let word = words.get(group / 2).copied().unwrap_or(0) >> (group % 2 * 32);
        let bits = (present - group * 32).min(32);
        let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        put!(out, "{:0width$x}", word as u32 & mask, width = bits.div_ceil(4));
        put!(out, "{}", if group > 0 { "," } else { "\n" });
    }
    put!(out, "Cpus_allowed_list:\t");
    let allows = |cpu: usize| cpu < present && words.get(cpu / 64).is_some_and(|w| w >> (cpu % 64) & 1 != 0);
    let (mut cpu, mut first) = (0, true);
    while cpu < present {
        if !allows(cpu) {
            cpu += 1;
            continue;
        }
        let start = cpu;
        while allows(cpu + 1) {
            cpu += 1;
        }
        put!(out, "{}{start}", if first { "" } else { "," });
        if cpu > start {
            put!(out, "-{cpu}");
        }
        first = false;
        cpu += 1;
    }
    put!(out, "\n");
    Ok(())
}
