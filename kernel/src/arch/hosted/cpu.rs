//! A CPU's interrupts, its timer, and what it has loaded.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{time, upcall};
use crate::arch::ArchPrctl;
use sync::machine::hosted::{Scheduler, become_cpu, interrupt, reserve, set_scheduler};
use sync::{CpuId, MAX_CPUS, cpu_id};

/// Interrupts that a CPU has not taken yet.
struct Interrupts {
    reschedule: bool,
    /// When the timer goes off, ns.
    deadline: u64,
}

struct Cpu {
    interrupts: Mutex<Interrupts>,
    came: Condvar,
    /// The root that is loaded; 0: the kernel's, which maps no program's memory.
    root: AtomicU64,
    tls: AtomicUsize,
}

static CPUS: [Cpu; MAX_CPUS] = [const {
    Cpu {
        interrupts: Mutex::new(Interrupts { reschedule: false, deadline: u64::MAX }),
        came: Condvar::new(),
        root: AtomicU64::new(0),
        tls: AtomicUsize::new(0),
    }
}; MAX_CPUS];

fn this() -> &'static Cpu {
    &CPUS[cpu_id() as usize]
}

impl Cpu {
    fn interrupts(&self) -> MutexGuard<'_, Interrupts> {
        self.interrupts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts `count` CPUs; each runs `entry`.
pub fn start_cpus(count: usize, entry: fn(usize) -> !) {
    set_scheduler(Scheduler {
        park_token: upcall::park_token,
        park: upcall::park,
        // SAFETY: a token of the scheduler's own, of a thread that parks.
        unpark: |token| unsafe { upcall::unpark(token) },
        kick: send_reschedule,
    });
    // All are known before the first runs, as in the kernel.
    let cpus: std::vec::Vec<CpuId> = (0..count).map(|_| reserve()).collect();
    for (n, cpu) in cpus.into_iter().enumerate() {
        thread::spawn(move || {
            become_cpu(cpu);
            entry(n)
        });
    }
}

/// Interrupts `cpu`, so that it looks at its work.
pub fn send_reschedule(cpu: CpuId) {
    let Some(cpu) = CPUS.get(cpu as usize) else { return };
    crate::arch::interrupts::RESCHEDULES_SENT.add(1);
    cpu.interrupts().reschedule = true;
    cpu.came.notify_all();
}

/// Sets this CPU's timer.
pub fn set_deadline(ns: u64) {
    let cpu = this();
    cpu.interrupts().deadline = ns;
    cpu.came.notify_all();
}

/// Runs the handlers of what has come for this CPU.
pub(super) fn take_interrupts() {
    let mut interrupts = this().interrupts();
    let reschedule = std::mem::take(&mut interrupts.reschedule);
    let timer = interrupts.deadline <= time::now();
    if timer {
        interrupts.deadline = u64::MAX;
    }
    drop(interrupts);
    if reschedule {
        upcall::reschedule_interrupt();
    }
    if timer {
        upcall::timer_interrupt();
    }
}

/// Stops this CPU until the next interrupt, unless `has_work`.
pub fn idle_wait(has_work: impl Fn() -> bool) {
    let cpu = this();
    let mut interrupts = cpu.interrupts();
    while !has_work() && !interrupts.reschedule {
        let now = time::now();
        if interrupts.deadline <= now {
            break;
        }
        // No deadline: an hour will do.
        let left = Duration::from_nanos((interrupts.deadline - now).min(3_600_000_000_000));
        interrupts = cpu.came.wait_timeout(interrupts, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(interrupts);
    take_interrupts();
}

/// Runs `call(argument)` in the name of each of `targets` but this CPU, while that takes no interrupts. It runs on this CPU: what
/// it looks at is this CPU's.
pub fn call_others(targets: impl Iterator<Item = CpuId>, call: fn(usize), argument: usize) {
    let here = cpu_id();
    targets.filter(|cpu| *cpu != here).for_each(|cpu| interrupt(cpu, || call(argument)));
}

pub(super) fn root() -> u64 {
    this().root.load(Ordering::Relaxed)
}

std::thread_local! {
    /// The CPU that an interrupt handler acts for.
    static ACTING: Cell<Option<CpuId>> = const { Cell::new(None) };
}

/// Runs `f`, in which roots are loaded on `cpu`.
pub(super) fn acting_as(cpu: CpuId, f: impl FnOnce()) {
    ACTING.set(Some(cpu));
    f();
    ACTING.set(None);
}

pub(super) fn load_root(root: u64) {
    let cpu = ACTING.get().unwrap_or_else(cpu_id);
    CPUS[cpu as usize].root.store(root, Ordering::Relaxed);
}

/// Makes this CPU translate no user address.
pub fn load_kernel_root() {
    load_root(0);
}

/// A program's segment registers, of a thread that does not run: here its thread pointer alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segments(usize);

impl Segments {
    /// That of a child of the running thread, or its own.
    pub fn of_child(own: Option<usize>) -> Self {
        Self(own.unwrap_or_else(tls))
    }

    /// Takes over the running thread's.
    pub fn save(&mut self) {
        self.0 = tls();
    }

    /// Gives it to the running thread.
    pub fn restore(&self) {
        this().tls.store(self.0, Ordering::Relaxed);
    }

    /// The running thread's becomes that of a new program.
    pub fn reset() {
        Self::default().restore();
    }
}

/// The running thread's.
fn tls() -> usize {
    this().tls.load(Ordering::Relaxed)
}

/// arch_prctl(2): this machine has none of its operations.
pub fn arch_prctl(_operation: u32, _value: usize) -> ArchPrctl {
    ArchPrctl::Unknown
}
