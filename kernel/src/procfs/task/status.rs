//! stat, statm and status of a process or thread.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use linux_raw_sys::general::{RLIMIT_RSS, RLIMIT_SIGPENDING, SIGCHLD};
use sync::TryVec;

use crate::account;
use crate::errno::{ENOMEM, Result};
use crate::fs::caller;
use crate::process::access::{self, By};
use crate::process::capabilities::Sets;
use crate::process::credentials::Ids;
use crate::process::wait::UsageSum;
use crate::process::{Credentials, Process, Thread};
use crate::procfs::entry::MakeOf;
use crate::procfs::task;
use crate::procfs::task::process::comm;
use crate::procfs::text::Text;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(sync::heap::Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

const TICK: u64 = 10_000_000;

/// What stands in the directory of a thread in place of `file` in that of its process.
pub fn of_thread(file: MakeOf) -> MakeOf {
    if core::ptr::fn_addr_eq(file, stat as MakeOf) {
        stat_of_thread
    } else if core::ptr::fn_addr_eq(file, task::io as MakeOf) {
        task::io_of_thread
    } else {
        file
    }
}

pub fn stat(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    put_stat(process, thread, &process.usage(), out)
}

/// The same with what the thread alone has used.
fn stat_of_thread(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    put_stat(process, thread, &used_by(thread), out)
}

/// What a status shows of a thread's credentials.
struct Rights {
    ids: Ids,
    sets: Sets,
    groups: Groups,
}

/// Few, copied, or the whole credentials, counted.
enum Groups {
    Few([u32; Groups::FEW], usize),
    Many(Arc<Credentials>),
}

impl Groups {
    const FEW: usize = 32;

    fn all(&self) -> &[u32] {
        match self {
            Groups::Few(groups, len) => groups.get(..*len).unwrap_or(&[]),
            Groups::Many(credentials) => &credentials.groups,
        }
    }
}

impl Rights {
    fn of(thread: &Thread) -> Option<Rights> {
        let few = |credentials: &Credentials| {
            let mut groups = [0; Groups::FEW];
            let len = credentials.groups.len();
            groups.get_mut(..len)?.copy_from_slice(&credentials.groups);
            Some(Rights::with(credentials, Groups::Few(groups, len)))
        };
        if let Some(rights) = thread.look_at_credentials(few)? {
            return Some(rights);
        }
        let credentials = thread.credentials_of()?;
        Some(Rights::with(&credentials, Groups::Many(credentials.clone())))
    }

    fn with(credentials: &Credentials, groups: Groups) -> Rights {
        let Credentials { ids, sets, .. } = *credentials;
        Rights { ids, sets, groups }
    }
}

fn used_by(thread: &Thread) -> UsageSum {
    let mut usage = UsageSum::default();
    usage.add_thread(thread);
    usage
}

#[expect(clippy::arithmetic_side_effects, reason = "nice is between -20 and 19")]
fn put_stat(process: &Arc<Process>, thread: &Arc<Thread>, usage: &UsageSum, out: &mut Vec<u8>) -> Result {
    let memory = process.look_at_space(|space| space.usage()).unwrap_or_default();
    let children = process.children_usage();
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
    let (schedule, (priority, shown_nice), cpu) =
        thread.look_at_task(|t| (t.schedule(), t.shown_priority(), t.cpu())).unwrap_or_default();
    let nice = schedule.nice;
    let shown = if priority == 0 { 20 + shown_nice } else { -1 - priority.cast_signed() };
    put!(out, "{shown} {nice} {} 0 {} ", process.thread_count(), process.started / TICK);
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
    let (ignored, caught) = process.signals.action_masks();
    put!(out, "{} {} ", process.signals.pending() & 0x7fff_ffff, blocked & 0x7fff_ffff);
    put!(out, "{} {} 0 0 0 {SIGCHLD} ", ignored & 0x7fff_ffff, caught & 0x7fff_ffff);
    put!(out, "{cpu} {} {} 0 0 0 {} {} {brk} ", schedule.priority, schedule.policy as u32, data.0, data.1);
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
    } else if core::ptr::fn_addr_eq(file, task::io as MakeOf) {
        return task::io_of_zombie(process, out);
    } else if core::ptr::fn_addr_eq(file, task::syscall as MakeOf) {
        return task::syscall_of_zombie(process, out);
    }
    Ok(())
}

fn letter(process: &Process, thread: &Thread) -> u8 {
    if thread.has_stopped_for_tracer() {
        return b't';
    }
    if process.is_zombie() || process.is_stopped() {
        return process.state_letter();
    }
    thread.look_at_task(|task| task.state_letter()).unwrap_or_else(|| process.state_letter())
}

#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
pub fn statm(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let memory = process.look_at_space(|space| space.usage()).unwrap_or_default();
    let (total, resident) = (memory.virtual_pages, memory.resident_pages);
    put!(out, "{total} {resident} {} {} 0 {} 0\n", memory.file, memory.exec, memory.data + memory.stack);
    Ok(())
}

/// Bytes that a status has at most, as a rule.
const STATUS: usize = 1536;

pub fn status(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    out.try_reserve(STATUS).map_err(|_| ENOMEM)?;
    let (name, len) = thread.comm();
    out.try_extend_from_slice(b"Name:\t")?;
    out.try_extend_from_slice(name.get(..len).unwrap_or(&[]))?;
    let mut text = Text(out);
    text.put("\nUmask:\t")?;
    text.octal(thread.look_at_fs(|context| context.umask()).unwrap_or(0).into(), 4, "\nState:\t")?;
    text.put(match letter(process, thread) {
        b'R' => "R (running)",
        b'D' => "D (disk sleep)",
        b'T' => "T (stopped)",
        b't' => "t (tracing stop)",
        b'Z' => "Z (zombie)",
        _ => "S (sleeping)",
    })?;
    text.put("\nTgid:\t")?;
    text.number(process.pid().into(), "\nNgid:\t0\nPid:\t")?;
    text.number(thread.tid().into(), "\nPPid:\t")?;
    text.number(process.parent_pid().into(), "\nTracerPid:\t")?;
    text.number(thread.tracer_tid().into(), "\n")?;
    let rights = Rights::of(thread);
    if let Some(rights) = &rights {
        let c = &rights.ids;
        for (name, ids) in
            [("Uid:", [c.uid, c.euid, c.suid, c.fsuid]), ("\nGid:", [c.gid, c.egid, c.sgid, c.fsgid])]
        {
            text.put(name)?;
            for id in ids {
                text.put("\t")?;
                text.number(id.into(), "")?;
            }
        }
        text.put("\nFDSize:\t")?;
        text.number(thread.look_at_files(|files| files.size()).unwrap_or(0) as u64, "\nGroups:\t")?;
        for group in rights.groups.all() {
            text.number((*group).into(), " ")?;
        }
        text.put("\n")?;
    }
    if let Some(usage) = process.look_at_space(|space| space.usage()) {
        let code = process.memory.lock().code;
        memory(&usage, code.1.saturating_sub(code.0), &mut text)?;
    }
    text.put("Threads:\t")?;
    text.number(process.thread_count() as u64, "\nSigQ:\t")?;
    text.number(account::used(process.uid_at_exit(), account::Kind::Signals), "/")?;
    text.number(process.limits.soft(RLIMIT_SIGPENDING), "\n")?;
    let (ignored, caught) = process.signals.action_masks();
    let pending = (thread.pending_signals(), process.signals.pending());
    masks(
        &[
            ("SigPnd:\t", pending.0),
            ("ShdPnd:\t", pending.1),
            ("SigBlk:\t", thread.blocked.get()),
            ("SigIgn:\t", ignored),
            ("SigCgt:\t", caught),
        ],
        &mut text,
    )?;
    if let Some(rights) = &rights {
        let sets = &rights.sets;
        masks(
            &[
                ("CapInh:\t", sets.inheritable.bits()),
                ("CapPrm:\t", sets.permitted.bits()),
                ("CapEff:\t", sets.effective.bits()),
                ("CapBnd:\t", sets.bounding.bits()),
                ("CapAmb:\t", sets.ambient.bits()),
            ],
            &mut text,
        )?;
        let (mode, filters) = thread.filters.show();
        text.put("NoNewPrivs:\t")?;
        text.number(thread.has_no_new_privileges().into(), "\nSeccomp:\t")?;
        text.number(mode.into(), "\nSeccomp_filters:\t")?;
        text.number(filters as u64, "\n")?;
    }
    cpus(thread, &mut text)?;
    nodes(&mut text)?;
    let usage = used_by(thread);
    text.put("voluntary_ctxt_switches:\t")?;
    text.number(usage.voluntary, "\nnonvoluntary_ctxt_switches:\t")?;
    text.number(usage.involuntary, "\n")
}

/// A row for each size in memory; `code`: bytes of the program.
#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
fn memory(memory: &vm::Usage, code: usize, text: &mut Text<'_>) -> Result {
    let kib = |pages: usize| pages * 4;
    let rows = [
        ("VmPeak:\t", kib(memory.virtual_pages)),
        ("VmSize:\t", kib(memory.virtual_pages)),
        ("VmLck:\t", kib(memory.locked)),
        ("VmPin:\t", 0),
        ("VmHWM:\t", kib(memory.resident_pages)),
        ("VmRSS:\t", kib(memory.resident_pages)),
        ("RssAnon:\t", kib(memory.anon)),
        ("RssFile:\t", kib(memory.file)),
        ("RssShmem:\t", 0),
        ("VmData:\t", kib(memory.data)),
        ("VmStk:\t", kib(memory.stack)),
        ("VmExe:\t", code / 1024),
        ("VmLib:\t", 0),
        ("VmPTE:\t", kib(memory.tables)),
        ("VmSwap:\t", kib(memory.swapped)),
    ];
    for (name, value) in rows {
        text.put(name)?;
        text.padded(value as u64, 8, " kB\n")?;
    }
    Ok(())
}

fn masks(rows: &[(&str, u64)], text: &mut Text<'_>) -> Result {
    for (name, mask) in rows {
        text.put(name)?;
        text.hex(*mask, 16, "\n")?;
    }
    Ok(())
}

#[expect(clippy::arithmetic_side_effects, reason = "numbers of CPUs")]
fn cpus(thread: &Thread, text: &mut Text<'_>) -> Result {
    let Some(words) = thread.look_at_task(|task| task.affinity().words()) else { return Ok(()) };
    let present = sync::cpus() as usize;
    text.put("Cpus_allowed:\t")?;
    let groups = present.div_ceil(32);
    for group in (0..groups).rev() {
        let word = words.get(group / 2).copied().unwrap_or(0) >> (group % 2 * 32);
        let bits = (present - group * 32).min(32);
        let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        let shown = word as u32 & mask;
        text.hex(shown.into(), bits.div_ceil(4), if group > 0 { "," } else { "\nCpus_allowed_list:\t" })?;
    }
    let allows = |cpu: usize| cpu < present && words.get(cpu / 64).is_some_and(|w| w >> (cpu % 64) & 1 != 0);
    text.ranges(present, allows)?;
    text.put("\n")
}

/// The nodes that there are: no task is kept from any. As on Linux, of 1,024.
fn nodes(text: &mut Text<'_>) -> Result {
    let nodes = vm::policy::with_memory();
    text.put("Mems_allowed:\t")?;
    for _ in 1..1024 / 32 {
        text.put("00000000,")?;
    }
    text.hex(nodes.into(), 8, "\nMems_allowed_list:\t")?;
    text.ranges(vm::frame::MAX_NUMA_NODES, |node| nodes >> node & 1 != 0)?;
    text.put("\n")
}
