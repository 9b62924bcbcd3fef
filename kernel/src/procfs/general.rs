//! Files about the machine as a whole.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use crate::arch;
use crate::errno::{ENOMEM, Result};
use crate::fs::caller;
use crate::fs::vfs::superblock;
use crate::process::{utsname, walk_processes};
use crate::sched;

const NS: u64 = 1_000_000_000;
/// USER_HZ.
const TICKS: u64 = 100;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub fn cmdline(out: &mut Vec<u8>) -> Result {
    put!(out, "{}\n", arch::command_line());
    Ok(())
}

pub fn version(out: &mut Vec<u8>) -> Result {
    put!(out, "Linux version {} (darter) {}\n", utsname::RELEASE, utsname::VERSION);
    Ok(())
}

pub fn uptime(out: &mut Vec<u8>) -> Result {
    let now = arch::time::now();
    let idle: u64 = (0..sync::cpus()).map(sched::idle_ns).sum();
    let part = |ns: u64| (ns / NS, ns % NS / (NS / 100));
    let ((a, b), (c, d)) = (part(now), part(idle));
    put!(out, "{a}.{b:02} {c}.{d:02}\n");
    Ok(())
}

/// Averages are not kept: the number that run now stands for all three.
#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn loadavg(out: &mut Vec<u8>) -> Result {
    let (mut threads, mut last) = (0u64, 0);
    walk_processes(|p| {
        threads += u64::from(p.thread_count());
        last = last.max(p.pid());
        true
    });
    let running: u64 = (0..sync::cpus())
        .map(|cpu| {
            let load = sched::load_of(cpu);
            u64::from(load.waiting) + u64::from(!load.idle)
        })
        .sum();
    put!(out, "{running}.00 {running}.00 {running}.00 {running}/{threads} {last}\n");
    Ok(())
}

#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn meminfo(out: &mut Vec<u8>) -> Result {
    let kib = 4;
    let (total, free) = (vm::frame::total_frames() * kib, vm::frame::free_frames() * kib);
    let mut slab = 0;
    vm::slab::for_each_cache(&mut |cache| slab += (cache.slabs * cache.pages_per_slab) as u64 * kib);
    for (name, value) in [
        ("MemTotal:", total),
        ("MemFree:", free),
        ("MemAvailable:", free),
        ("Buffers:", 0),
        ("Cached:", 0),
        ("SwapCached:", 0),
        ("Active:", 0),
        ("Inactive:", 0),
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
        ("Dirty:", 0),
        ("Writeback:", 0),
        ("AnonPages:", 0),
        ("Mapped:", 0),
        ("Shmem:", 0),
        ("Slab:", slab),
        ("SReclaimable:", 0),
        ("SUnreclaim:", slab),
        ("CommitLimit:", total),
        ("Committed_AS:", total - free.min(total)),
        ("VmallocTotal:", 34_359_738_367),
        ("VmallocUsed:", 0),
    ] {
        put!(out, "{name:<16}{value:>8} kB\n");
    }
    Ok(())
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "sums of counts that the kernel keeps; idle is at most now, all at least 1"
)]
pub fn stat(out: &mut Vec<u8>) -> Result {
    let tick = NS / TICKS;
    let now = arch::time::now();
    let (mut processes, mut user, mut all, mut switches) = (0u64, 0u64, 1u64, 0u64);
    walk_processes(|p| {
        let usage = p.usage();
        processes += 1;
        user = user.saturating_add(usage.user_ns);
        all = all.saturating_add(usage.user_ns + usage.system_ns);
        switches += usage.voluntary + usage.involuntary;
        true
    });
    let mut total = [0u64; 4];
    let mut lines = Vec::new();
    for cpu in 0..sync::cpus() {
        // A CPU knows how long it idled, and its host how long it let it wait. What it was busy with is split as the living processes' time is.
        let idle = sched::idle_ns(cpu).min(now);
        let stolen = arch::stolen_ns(cpu).min(now - idle);
        let busy = now - idle - stolen;
        let in_user = (u128::from(busy) * u128::from(user) / u128::from(all)) as u64;
        let values = [in_user / tick, (busy - in_user) / tick, idle / tick, stolen / tick];
        for (sum, value) in total.iter_mut().zip(values) {
            *sum += value;
        }
        let [user, system, idle, stolen] = values;
        put!(&mut lines, "cpu{cpu} {user} 0 {system} {idle} 0 0 0 {stolen} 0 0\n");
    }
    let [user, system, idle, stolen] = total;
    put!(out, "cpu  {user} 0 {system} {idle} 0 0 0 {stolen} 0 0\n");
    out.try_extend_from_slice(&lines)?;
    let boot = arch::time::wall_offset() / NS;
    let running = (0..sync::cpus()).filter(|cpu| !sched::load_of(*cpu).idle).count();
    put!(out, "intr 0\nctxt {switches}\nbtime {boot}\nprocesses {processes}\n");
    put!(out, "procs_running {running}\nprocs_blocked 0\n");
    Ok(())
}

pub fn cpuinfo(out: &mut Vec<u8>) -> Result {
    let (cpus, nodes) = (sync::cpus(), arch::nodes().max(1));
    for cpu in 0..cpus {
        let node = sync::machine::node_of(cpu);
        put!(out, "processor\t: {cpu}\nvendor_id\t: {}\n", arch::identity::vendor());
        put!(out, "model name\t: {}\n", arch::identity::model());
        put!(out, "cpu MHz\t\t: {}.000\n", arch::time::clock().cycles_per_ns.saturating_mul(1000) >> 32);
        put!(out, "physical id\t: {node}\nsiblings\t: {}\n", cpus.div_ceil(nodes));
        put!(out, "core id\t\t: {cpu}\ncpu cores\t: {}\nflags\t\t:", cpus.div_ceil(nodes));
        for flag in arch::identity::flags() {
            put!(out, " {flag}");
        }
        put!(out, "\n\n");
    }
    Ok(())
}

pub fn interrupts(out: &mut Vec<u8>) -> Result {
    put!(out, "           ");
    for cpu in 0..sync::cpus() {
        put!(out, "{:>11}", Cpu(cpu));
    }
    put!(out, "\n");
    let kinds: [(&str, &sync::PerCpu<sync::Count>, &str); 6] = [
        ("DEV", &arch::interrupts::DEVICE_INTERRUPTS, "Device interrupts"),
        ("LOC", &arch::interrupts::TIMER_INTERRUPTS, "Local timer interrupts"),
        ("RES", &arch::interrupts::RESCHEDULE_INTERRUPTS, "Rescheduling interrupts"),
        ("CAL", &arch::interrupts::CALL_INTERRUPTS, "Function call interrupts"),
        ("TLB", &arch::interrupts::FLUSH_INTERRUPTS, "TLB shootdowns"),
        ("SPU", &arch::interrupts::SPURIOUS_INTERRUPTS, "Spurious interrupts"),
    ];
    for (short, counts, long) in kinds {
        put!(out, "{short:>9}: ");
        for count in counts.iter() {
            put!(out, "{:>11}", count.get());
        }
        put!(out, "   {long}\n");
    }
    Ok(())
}

struct Cpu(u32);

impl core::fmt::Display for Cpu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let width = 8usize.saturating_sub(self.0.checked_ilog10().unwrap_or(0) as usize);
        write!(f, "{:width$}CPU{}", "", self.0, width = width.saturating_sub(1))
    }
}

pub fn filesystems(out: &mut Vec<u8>) -> Result {
    for kind in superblock::types() {
        put!(out, "{}\t{}\n", if kind.nodev { "nodev" } else { "" }, kind.name);
    }
    Ok(())
}

pub fn devices(out: &mut Vec<u8>) -> Result {
    put!(out, "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n  5 /dev/console\n\nBlock devices:\n");
    Ok(())
}

/// Counts of faults and frames; the rest of Linux's list has no meaning here.
#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn vmstat(out: &mut Vec<u8>) -> Result {
    put!(out, "nr_free_pages {}\n", vm::frame::free_frames());
    let (mut minor, mut major) = (0, 0);
    walk_processes(|p| {
        let usage = p.usage();
        minor += usage.minor_faults;
        major += usage.major_faults;
        true
    });
    put!(out, "pgfault {}\npgmajfault {major}\n", minor + major);
    Ok(())
}

/// The caches of small objects. Every CPU has slabs of its own: the last column but one counts those of all.
pub fn slabinfo(out: &mut Vec<u8>) -> Result {
    put!(out, "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> <objperslab> ");
    put!(out, "<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : ");
    put!(out, "slabdata <active_slabs> <num_slabs> <sharedavail>\n");
    let mut result = Ok(());
    vm::slab::for_each_cache(&mut |cache| {
        if result.is_ok() {
            result = slab_line(out, &cache);
        }
    });
    result
}

fn slab_line(out: &mut Vec<u8>, cache: &vm::slab::CacheInfo) -> Result {
    put!(out, "{:<17} {:>6} {:>6} {:>6} ", cache.name, cache.used, cache.objects, cache.size);
    put!(out, "{:>4} {:>4} : tunables    0    0    0 : ", cache.objects_per_slab, cache.pages_per_slab);
    put!(out, "slabdata {:>6} {:>6}      0\n", cache.slabs, cache.slabs);
    Ok(())
}

pub fn swaps(out: &mut Vec<u8>) -> Result {
    put!(out, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
    Ok(())
}

/// There are no disks, and without one no heading.
pub fn partitions(_: &mut Vec<u8>) -> Result {
    Ok(())
}

/// File locks are not listed; lock statistics are in /proc/lockstat.
pub fn locks(_: &mut Vec<u8>) -> Result {
    Ok(())
}

pub fn link_mounts(out: &mut Vec<u8>) -> Result {
    put!(out, "self/mounts");
    Ok(())
}

pub fn link_self(out: &mut Vec<u8>) -> Result {
    put!(out, "{}", caller::pid());
    Ok(())
}

pub fn link_thread_self(out: &mut Vec<u8>) -> Result {
    put!(out, "{}/task/{}", caller::pid(), caller::current().tid());
    Ok(())
}
