//! Files about the machine as a whole.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use crate::arch;
use crate::errno::{ENOMEM, Result};
use crate::fs::vfs::superblock;
use crate::fs::{block, caller, devfs, ninep};
use crate::process::{ids, utsname, walk_processes};
use crate::sched;
use vm::large::LARGE_COUNTS;

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
    let idle: u64 = (0..sync::cpus()).map(|cpu| sched::times_of(cpu).idle).sum();
    let part = |ns: u64| (ns / NS, ns % NS / (NS / 100));
    let ((a, b), (c, d)) = (part(now), part(idle));
    put!(out, "{a}.{b:02} {c}.{d:02}\n");
    Ok(())
}

/// Linux's rounding: to the nearest hundredth.
#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn loadavg(out: &mut Vec<u8>) -> Result {
    for average in sched::load_averages() {
        let hundredths = (average * 100 + (1 << 15)) >> 16;
        put!(out, "{}.{:02} ", hundredths / 100, hundredths % 100);
    }
    put!(out, "{}/{} {}\n", running(), ids::live(), sched::last_born());
    Ok(())
}

/// Tasks that run or wait for a CPU.
#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
fn running() -> u64 {
    let of = |cpu| {
        let load = sched::load_of(cpu);
        u64::from(load.waiting) + u64::from(!load.idle)
    };
    (0..sync::cpus()).map(of).sum()
}

/// Pages of files and of shared memory that programs have mapped: an upper bound. Nobody counts whether a page is mapped by somebody; what each process has
/// is added up, so a page of two counts twice, and no more than there are.
fn mapped_pages() -> u64 {
    let objects = vm::ObjectPages::now();
    let mut pages = 0u64;
    walk_processes(|process| {
        let own = process.space().map_or(0, |space| space.object_pages() as u64);
        pages = pages.saturating_add(own);
        true
    });
    pages.min(objects.paged.saturating_add(objects.own))
}

/// Pages that programs may write to themselves, touched or not. Added up now; those of processes that share a space count for each.
fn asked_pages() -> u64 {
    let mut pages = 0u64;
    walk_processes(|process| {
        let usage = process.space().map(|space| space.usage()).unwrap_or_default();
        pages = pages.saturating_add(usage.data.saturating_add(usage.stack) as u64);
        true
    });
    pages
}

#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn meminfo(out: &mut Vec<u8>) -> Result {
    let kib = 4;
    let (total, free) = (vm::frame::managed_frames() * kib, vm::frame::free_frames() * kib);
    let objects = vm::ObjectPages::now();
    let (paged, shared) = (objects.paged * kib, objects.own * kib);
    let mut slab = 0;
    vm::slab::for_each_cache(&mut |cache| slab += (cache.slabs * cache.pages_per_slab) as u64 * kib);
    for (name, value) in [
        ("MemTotal:", total),
        ("MemFree:", free),
        ("MemAvailable:", free + paged),
        ("Buffers:", 0),
        ("Cached:", paged + shared),
        ("SwapCached:", 0),
        ("Active:", 0),
        ("Inactive:", 0),
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
        ("Dirty:", ninep::dirty_pages() * kib),
        ("Writeback:", 0),
        ("AnonPages:", vm::frame::private_frames() * kib),
        ("Mapped:", mapped_pages() * kib),
        ("Shmem:", shared),
        ("Slab:", slab),
        ("SReclaimable:", 0),
        ("SUnreclaim:", slab),
        // By vm.overcommit_ratio, which is 50.
        ("CommitLimit:", total / 2),
        ("Committed_AS:", (asked_pages() + objects.own) * kib),
        ("VmallocTotal:", 34_359_738_367),
        ("VmallocUsed:", 0),
        ("AnonHugePages:", vm::frame::large_pages(None) * vm::ENTRIES as u64 * kib),
    ] {
        put!(out, "{name:<16}{value:>8} kB\n");
    }
    Ok(())
}

/// Nothing is done in interrupts that would be worth a column, and no CPU waits for a device.
#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn stat(out: &mut Vec<u8>) -> Result {
    let tick = NS / TICKS;
    let mut total = sched::CpuTimes::default();
    let (mut lines, mut switches) = (Vec::new(), 0);
    let line = |out: &mut Vec<u8>, name: core::fmt::Arguments<'_>, times: &sched::CpuTimes| -> Result {
        let [user, nice, system] = [times.user, times.nice, times.system].map(|ns| ns / tick);
        let (idle, stolen) = (times.idle / tick, times.stolen / tick);
        put!(out, "{name} {user} {nice} {system} {idle} 0 0 0 {stolen} 0 0\n");
        Ok(())
    };
    for cpu in 0..sync::cpus() {
        let times = sched::times_of(cpu);
        line(&mut lines, format_args!("cpu{cpu}"), &times)?;
        total.user += times.user;
        total.nice += times.nice;
        total.system += times.system;
        total.idle += times.idle;
        total.stolen += times.stolen;
        switches += sched::switches_of(cpu);
    }
    line(out, format_args!("cpu "), &total)?;
    out.try_extend_from_slice(&lines)?;
    let boot = arch::time::wall_offset() / NS;
    let interrupts: u64 = INTERRUPTS.iter().map(|(_, counts, _)| counts.sum()).sum();
    put!(out, "intr {interrupts}\nctxt {switches}\nbtime {boot}\nprocesses {}\n", sched::ever_born());
    put!(out, "procs_running {}\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n", running());
    Ok(())
}

pub fn cpuinfo(out: &mut Vec<u8>) -> Result {
    let mut seats = Vec::new();
    for cpu in 0..sync::cpus() {
        seats.try_push(arch::seat(cpu))?;
    }
    let (family, model, stepping) = arch::identity::version();
    let khz = arch::time::clock().cycles_per_ns.saturating_mul(1_000_000) >> 32;
    let (physical, linear) = arch::identity::address_bits();
    let (line, level) = (arch::identity::flush_line(), arch::identity::level());
    let (mut cores, cache) = (Vec::new(), cache_kib());
    let (mut package, mut siblings) = (None, 0usize);
    for (cpu, seat) in seats.iter().enumerate() {
        if package != Some(seat.package) {
            let mates = seats.iter().filter(|other| other.package == seat.package);
            (package, siblings) = (Some(seat.package), mates.clone().count());
            cores.clear();
            for mate in mates {
                if !cores.contains(&mate.core) {
                    cores.try_push(mate.core)?;
                }
            }
        }
        let apic = seat.place;
        put!(out, "processor\t: {cpu}\nvendor_id\t: {}\n", arch::identity::vendor());
        put!(out, "cpu family\t: {family}\nmodel\t\t: {model}\n");
        put!(out, "model name\t: {}\nstepping\t: {stepping}\n", arch::identity::model());
        put!(out, "cpu MHz\t\t: {}.{:03}\n", khz / 1000, khz % 1000);
        if let Some(kib) = cache {
            put!(out, "cache size\t: {kib} KB\n");
        }
        put!(out, "physical id\t: {}\nsiblings\t: {siblings}\n", seat.package);
        put!(out, "core id\t\t: {}\ncpu cores\t: {}\n", seat.core_in_package, cores.len());
        put!(out, "apicid\t\t: {apic}\ninitial apicid\t: {apic}\n");
        put!(out, "fpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: {level}\nwp\t\t: yes\nflags\t\t:");
        for flag in arch::identity::flags() {
            put!(out, " {flag}");
        }
        put!(out, "\nbogomips\t: {}.{:02}\n", khz / 500, khz / 5 % 100);
        if let Some(entries) = arch::identity::tlb_entries() {
            put!(out, "TLB size\t: {entries} 4K pages\n");
        }
        put!(out, "clflush size\t: {line}\ncache_alignment\t: {line}\n");
        put!(out, "address sizes\t: {physical} bits physical, {linear} bits virtual\npower management:\n\n");
    }
    Ok(())
}

/// KiB of the cache that Linux shows here: the last one, of AMD's processors the second.
fn cache_kib() -> Option<u64> {
    let last = if arch::identity::is_amd() { 2 } else { u32::MAX };
    let caches = (0..32).map_while(arch::cache).filter(|cache| cache.level <= last);
    caches.max_by_key(|cache| cache.level).map(|cache| cache.size() >> 10)
}

const INTERRUPTS: [(&str, &sync::PerCpu<sync::Count>, &str); 6] = [
    ("DEV", &arch::interrupts::DEVICE_INTERRUPTS, "Device interrupts"),
    ("LOC", &arch::interrupts::TIMER_INTERRUPTS, "Local timer interrupts"),
    ("RES", &arch::interrupts::RESCHEDULE_INTERRUPTS, "Rescheduling interrupts"),
    ("CAL", &arch::interrupts::CALL_INTERRUPTS, "Function call interrupts"),
    ("TLB", &arch::interrupts::FLUSH_INTERRUPTS, "TLB shootdowns"),
    ("SPU", &arch::interrupts::SPURIOUS_INTERRUPTS, "Spurious interrupts"),
];

pub fn interrupts(out: &mut Vec<u8>) -> Result {
    put!(out, "           ");
    for cpu in 0..sync::cpus() {
        put!(out, "{:>11}", Cpu(cpu));
    }
    put!(out, "\n");
    for (short, counts, long) in INTERRUPTS {
        put!(out, "{short:>9}: ");
        for count in counts.iter() {
            put!(out, "{:>11}", count.get());
        }
        put!(out, "   {long}\n");
    }
    Ok(())
}

/// Linux's kinds of work that an interrupt leaves to be done soon (proc(5), /proc/softirqs).
const SOFT_INTERRUPTS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// As in /proc/stat: interrupts leave nothing of the kind here, so nothing is counted.
pub fn softirqs(out: &mut Vec<u8>) -> Result {
    put!(out, "                    ");
    for cpu in 0..sync::cpus() {
        put!(out, "CPU{cpu:<8}");
    }
    put!(out, "\n");
    for name in SOFT_INTERRUPTS {
        put!(out, "{name:>12}:");
        for _ in 0..sync::cpus() {
            put!(out, " {:>10}", 0);
        }
        put!(out, "\n");
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
    put!(out, "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n  5 /dev/console\n");
    if let Some(major) = devfs::console_major() {
        put!(out, "{major:3} hvc\n");
    }
    put!(out, "\nBlock devices:\n");
    if block::names().next().is_some() {
        put!(out, "{:3} virtblk\n", block::MAJOR);
    }
    Ok(())
}

/// Counts of faults, frames and flushes; the rest of Linux's list has no meaning here.
#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn vmstat(out: &mut Vec<u8>) -> Result {
    let objects = vm::ObjectPages::now();
    put!(out, "nr_free_pages {}\n", vm::frame::free_frames());
    put!(out, "nr_anon_pages {}\nnr_mapped {}\n", vm::frame::private_frames(), mapped_pages());
    put!(out, "nr_file_pages {}\n", objects.paged + objects.own);
    put!(out, "nr_dirty {}\nnr_writeback 0\n", ninep::dirty_pages());
    put!(out, "nr_shmem {}\n", objects.own);
    put!(out, "nr_anon_transparent_hugepages {}\n", vm::frame::large_pages(None));
    let (mut minor, mut major) = (0, 0);
    walk_processes(|p| {
        let usage = p.usage();
        minor += usage.minor_faults;
        major += usage.major_faults;
        true
    });
    // KiB that went to and from disks; there is no swap.
    let (read, written) = block::names().fold((0, 0), |(read, written), (_, disk, _)| {
        let [reads, writes, ..] = disk.sums();
        (read + reads[1] / 2, written + writes[1] / 2)
    });
    put!(out, "pgpgin {read}\npgpgout {written}\npswpin 0\npswpout 0\n");
    put!(out, "pgfault {}\npgmajfault {major}\n", minor + major);
    let [mut made, mut lacked, mut gathered, mut gather_lacked, mut split] = [0; 5];
    for counts in LARGE_COUNTS.iter() {
        made += counts.made.get();
        lacked += counts.lacked.get();
        gathered += counts.gathered.get();
        gather_lacked += counts.gather_lacked.get();
        split += counts.split.get();
    }
    put!(out, "thp_fault_alloc {made}\nthp_fault_fallback {lacked}\n");
    put!(
        out,
        "thp_collapse_alloc {gathered}\nthp_collapse_alloc_failed {gather_lacked}\nthp_split_pmd {split}\n"
    );
    crate::procfs::darter::tlb::vmstat(out)
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

/// Without a disk there is no heading.
pub fn partitions(out: &mut Vec<u8>) -> Result {
    for (n, disk, name) in block::names() {
        if n == 0 {
            put!(out, "major minor  #blocks  name\n\n");
        }
        put!(out, "{:4}  {:7} {:10} {name}\n", block::MAJOR, block::minor(n), disk.shape.sectors / 2);
    }
    Ok(())
}

pub fn diskstats(out: &mut Vec<u8>) -> Result {
    for (n, disk, name) in block::names() {
        put!(out, "{:4} {:7} {name} ", block::MAJOR, block::minor(n));
        block::columns(disk, out)?;
        put!(out, "\n");
    }
    Ok(())
}

pub fn link_mounts(out: &mut Vec<u8>) -> Result {
    put!(out, "self/mounts");
    Ok(())
}

pub fn link_net(out: &mut Vec<u8>) -> Result {
    put!(out, "self/net");
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
