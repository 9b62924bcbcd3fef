//! What each CPU's time went to since boot, and how many tasks it switched to and had born: for /proc/stat, /proc/uptime and /proc/loadavg.
//!
//! A CPU's time is that of the tasks that it ran: `Task::account` counts the same nanoseconds for both, so sums over CPUs and over tasks agree. What its
//! running task has not been counted yet, at most a tick, is missing from the CPU's; an idle CPU's is whole, as it does not tick.
//!
//! What the host stole while a task ran is the task's, as on Linux, but the CPU's own time only as stolen.
//!
//! CountLocal: a CPU writes its own figures alone.
#![forbid(unsafe_code)]

use super::task::Task;
use crate::arch;
use crate::errno::Result;
use alloc::sync::Arc;
use once_cell::race::OnceBox;
use sync::{Count, CpuId, per_cpu};

/// Which of a CPU's times a task's run time is, in user mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Share {
    User = 0,
    /// Of a task with a nice value above 0.
    Nice = 1,
    Idle = 2,
}

/// Added to a share: in the kernel.
const IN_KERNEL: usize = 4;

/// On lines of its own: who asks takes no other from the CPU.
#[repr(align(64))]
struct Own {
    /// By [`Share`]: in user mode, then the same in the kernel.
    ns: [Count; IN_KERNEL * 2],
    /// What the host had stolen, as far as it is taken off, ns.
    stolen: Count,
    switches: Count,
    /// How often it took a task that waited for it, and how long those had waited, ns.
    taken: Count,
    waited_ns: Count,
    born: Count,
    /// The number of the last thread born here, and when.
    last: Count,
    last_at: Count,
    /// Changes by tasks that fell asleep or woke here: with the other CPUs', those that sleep and are not to be interrupted.
    blocked: Count,
    /// What runs when nothing else does.
    idle: OnceBox<Arc<Task>>,
}

per_cpu! {
    static OWN: Own = Own {
        ns: [const { Count::new() }; IN_KERNEL * 2],
        stolen: Count::new(),
        switches: Count::new(),
        taken: Count::new(),
        waited_ns: Count::new(),
        born: Count::new(),
        last: Count::new(),
        last_at: Count::new(),
        blocked: Count::new(),
        idle: OnceBox::new(),
    };
}

/// This CPU has run a task of this share for `ns`. Not between an interrupt handler and what it interrupts (`Clock::advance`).
#[inline]
pub(super) fn charge(share: u8, in_kernel: bool, ns: u64) {
    let own = OWN.this();
    let stolen = arch::stolen_here_ns();
    let left = if stolen == own.stolen.get() { ns } else { ns.wrapping_sub(take_off(own, stolen, ns)) };
    let place = usize::from(share) | (usize::from(in_kernel) * IN_KERNEL);
    own.ns[place % (IN_KERNEL * 2)].add(left);
}

/// How much of these nanoseconds the host has stolen; the rest is taken off what comes next.
#[cold]
fn take_off(own: &Own, stolen: u64, ns: u64) -> u64 {
    let before = own.stolen.get();
    let part = stolen.wrapping_sub(before).min(ns);
    own.stolen.set(before.wrapping_add(part));
    part
}

/// This CPU's time begins, with its idle task.
///
/// # Errors
/// ENOMEM.
pub(super) fn begin(idle: &Arc<Task>) -> Result {
    idle.clock.set_share(Share::Idle);
    // Another one would be a second begin, which `init_cpu` does not make.
    let _ = OWN.this().idle.set(sync::try_box(idle.clone())?);
    Ok(())
}

/// This CPU goes from one task to another, which has waited for it for so many ns; None: its idle task.
#[inline]
pub(super) fn switched(waited: Option<u64>) {
    let own = OWN.this();
    own.switches.add(1);
    if let Some(ns) = waited {
        own.taken.add(1);
        own.waited_ns.add(ns);
    }
}

/// A thread with this number, 0 for one of the kernel's own, is about to run for the first time.
pub(super) fn born(tid: u32) {
    let own = OWN.this();
    own.born.add(1);
    if tid != 0 {
        own.last.set(tid.into());
        own.last_at.set(arch::time::now());
    }
}

/// A task of this CPU begins to sleep without looking at signals.
#[inline]
pub(super) fn blocks() {
    OWN.this().blocked.add(1);
}

/// One that slept so, on whatever CPU, is woken by this one.
#[inline]
pub(super) fn unblocks() {
    OWN.this().blocked.sub(1);
}

/// What `cpu` has gained or lost of such sleepers; the sum over all CPUs is their number.
pub(super) fn blocked(cpu: CpuId) -> i64 {
    OWN.of(cpu).blocked.get().cast_signed()
}

/// See the head of the file; ns.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CpuTimes {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub stolen: u64,
}

/// What the time of `cpu` went to.
#[expect(clippy::arithmetic_side_effects, reason = "nanoseconds of five hundred years")]
pub fn times_of(cpu: CpuId) -> CpuTimes {
    let ns = |place: usize| OWN.of(cpu).ns.get(place).map_or(0, Count::get);
    CpuTimes {
        user: ns(Share::User as usize),
        nice: ns(Share::Nice as usize),
        system: ns(IN_KERNEL + Share::User as usize) + ns(IN_KERNEL + Share::Nice as usize),
        idle: OWN.of(cpu).idle.get().map_or(0, |idle| {
            let (user, system) = idle.clock.read();
            user + system
        }),
        stolen: arch::stolen_ns(cpu),
    }
}

/// Tasks that waited for a CPU and got it.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub times: u64,
    /// How long they waited, together.
    pub waited_ns: u64,
}

/// What `cpu` has taken since boot.
pub fn taken_of(cpu: CpuId) -> Taken {
    let own = OWN.of(cpu);
    Taken { times: own.taken.get(), waited_ns: own.waited_ns.get() }
}

/// Switches from one task to another on `cpu`.
pub fn switches_of(cpu: CpuId) -> u64 {
    OWN.of(cpu).switches.get()
}

/// Tasks that were ever born, on all CPUs.
pub fn ever_born() -> u64 {
    OWN.iter().map(|own| own.born.get()).sum()
}

/// The number of the thread that was born last, as far as CPUs agree on the time.
pub fn last_born() -> u32 {
    let last = OWN.iter().max_by_key(|own| own.last_at.get());
    last.map_or(0, |own| own.last.get() as u32)
}

impl Share {
    /// Of a task with this nice value.
    pub fn of(nice: i32) -> Share {
        if nice > 0 { Share::Nice } else { Share::User }
    }
}
