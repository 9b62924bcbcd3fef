//! The machine as a hosted test sees it: every thread is a CPU from its first question until it ends.
//!
//! A thread takes the lowest CPU that no living thread holds, so per-CPU data is touched by one thread at a time, as in the
//! kernel. A CPU between threads is idle to RCU. When a thread ends it first runs the RCU callbacks that wait on its CPU.
//! `as_cpu` lets one thread play several CPUs in turn, for tests that must be deterministic.
//!
//! A scheduler may run under test too, with a thread for each of its tasks: it [`reserve`]s CPUs, and its threads hand them to each
//! other ([`become_cpu`]). On such a *scheduled* CPU everything is as in the kernel: it is quiescent only when it says so, and
//! its tasks sleep through the scheduler ([`set_scheduler`]).
#![forbid(unsafe_code)]

use super::{CpuId, MAX_CPUS};
use crate::lock::order::HeldLocks;
use core::cell::Cell;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const NONE: CpuId = CpuId::MAX;

static TAKEN: Mutex<[bool; MAX_CPUS]> = Mutex::new([false; MAX_CPUS]);
static FREED: Condvar = Condvar::new();
static PRESENT: AtomicU32 = AtomicU32::new(1);
static NODES: AtomicU32 = AtomicU32::new(1);

std::thread_local! {
    // Without a destructor, so that it can be read while other thread-locals are torn down.
    static CPU: Cell<CpuId> = const { Cell::new(NONE) };
    static SCHEDULED: Cell<bool> = const { Cell::new(false) };
    /// CPUs that the thread has beside its own (`as_cpu`).
    static PLAYED: Cell<u32> = const { Cell::new(0) };
    static LEASE: Lease = const { Lease };
    static LOCKS: HeldLocks = const { HeldLocks::new() };
}

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        if CPU.get() != NONE {
            crate::rcu::drain();
            release(CPU.replace(NONE));
        }
    }
}

fn taken() -> MutexGuard<'static, [bool; MAX_CPUS]> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn release(cpu: CpuId) {
    taken()[cpu as usize] = false;
    FREED.notify_all();
}

/// Takes a CPU that no living thread holds.
fn take_free() -> CpuId {
    let mut taken = taken();
    let free = loop {
        if let Some(free) = taken.iter().position(|taken| !taken) {
            break free;
        }
        taken = FREED.wait(taken).unwrap_or_else(PoisonError::into_inner);
    };
    taken[free] = true;
    drop(taken);
    let cpu = free as CpuId;
    PRESENT.fetch_max(cpu + 1, Ordering::Relaxed);
    cpu
}

#[cold]
fn claim_any() -> CpuId {
    let cpu = take_free();
    CPU.set(cpu);
    // Arms the destructor; a thread that is already past it keeps its CPU for good.
    let _ = LEASE.try_with(|_| ());
    cpu
}

/// Runs `f` as CPU `cpu`, after waiting until no other thread is that CPU.
///
/// # Panics
/// Inside an RCU read section, which belongs to a CPU; or if `cpu` is not below `MAX_CPUS`.
pub fn as_cpu<R>(cpu: CpuId, f: impl FnOnce() -> R) -> R {
    struct Back(CpuId);
    impl Drop for Back {
        fn drop(&mut self) {
            release(CPU.replace(self.0));
            PLAYED.set(PLAYED.get() - 1);
        }
    }
    let own = cpu_id();
    if own == cpu {
        return f();
    }
    assert!(!crate::rcu::reading(), "a read section belongs to one CPU");
    let mut held = taken();
    while held[cpu as usize] {
        held = FREED.wait(held).unwrap_or_else(PoisonError::into_inner);
    }
    held[cpu as usize] = true;
    drop(held);
    PRESENT.fetch_max(cpu + 1, Ordering::Relaxed);
    CPU.set(cpu);
    PLAYED.set(PLAYED.get() + 1);
    let _back = Back(own);
    f()
}

/// Waits until no thread but the caller is a CPU, a second at most. A thread that was joined may still be one: it runs the callbacks of its CPU when its thread-locals
/// go, of which who joins is not told.
pub fn wait_for_others() {
    const LIMIT: Duration = Duration::from_secs(1);
    let _own = cpu_id();
    let others = |taken: &mut [bool; MAX_CPUS]| {
        let held = taken.iter().filter(|taken| **taken).count();
        held > PLAYED.get() as usize + 1
    };
    drop(FREED.wait_timeout_while(taken(), LIMIT, others));
}

/// Lets at least `n` CPUs be present. The number grows by itself when more threads ask for a CPU.
pub fn set_cpus(n: u32) {
    PRESENT.fetch_max(n.min(MAX_CPUS as u32), Ordering::Relaxed);
}

/// Spreads the CPUs over `n` nodes: CPU `c` is on node `c % n`.
pub fn set_nodes(n: u32) {
    NODES.store(n.max(1), Ordering::Relaxed);
}

#[inline]
pub fn cpu_id() -> CpuId {
    match CPU.get() {
        NONE => claim_any(),
        cpu => cpu,
    }
}

pub fn cpus() -> u32 {
    PRESENT.load(Ordering::Relaxed)
}

pub fn node_of(cpu: CpuId) -> u32 {
    cpu % nodes()
}

pub fn nodes() -> u32 {
    NODES.load(Ordering::Relaxed)
}

/// Nanoseconds since the first question: a clock of 1 GHz.
pub fn cycles() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

pub fn relax() {
    thread::yield_now();
}

pub fn give_way() -> bool {
    GAVE_WAY.with(|times| times.set(times.get() + 1));
    KILLED.get()
}

std::thread_local! {
    static PRESSED: Cell<bool> = const { Cell::new(false) };
    static GAVE_WAY: Cell<usize> = const { Cell::new(0) };
    static KILLED: Cell<bool> = const { Cell::new(false) };
}

pub fn should_give_way() -> bool {
    PRESSED.get()
}

/// Has this thread give way wherever it may, while `f` runs; how often it did so.
pub fn pressed(f: impl FnOnce()) -> usize {
    GAVE_WAY.set(0);
    PRESSED.set(true);
    f();
    PRESSED.set(false);
    GAVE_WAY.get()
}

/// As [`pressed`], and a fatal signal has come.
pub fn killed(f: impl FnOnce()) -> usize {
    KILLED.set(true);
    let times = pressed(f);
    KILLED.set(false);
    times
}

/// Waits for what another thread is about to do; a minute at most, so that a test fails instead of hanging.
#[cfg(test)]
pub(crate) fn wait_until(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed().as_secs() < 60, "waited in vain");
        thread::yield_now();
    }
}

/// How a scheduler's tasks sleep; see `super`.
pub struct Scheduler {
    /// Not below `MAX_CPUS`.
    pub park_token: fn() -> usize,
    pub park: fn(),
    pub unpark: fn(usize),
    pub kick: fn(CpuId),
}

static SCHEDULER: OnceLock<Scheduler> = OnceLock::new();

/// Says how tasks sleep on scheduled CPUs. The first call of a process counts.
pub fn set_scheduler(scheduler: Scheduler) {
    // Another call came first.
    let _ = SCHEDULER.set(scheduler);
}

/// Takes a CPU for a scheduler, for good.
pub fn reserve() -> CpuId {
    take_free()
}

/// From now on this thread runs as `cpu`, which a scheduler has reserved and no other thread runs as.
pub fn become_cpu(cpu: CpuId) {
    CPU.set(cpu);
    SCHEDULED.set(true);
}

/// Does this thread run on a scheduler's CPU?
#[inline]
pub fn is_scheduled() -> bool {
    SCHEDULED.get()
}

const ENABLED: u8 = 0;
const DISABLED: u8 = 1;
const INTERRUPTED: u8 = 2;

/// Of each CPU, which keeps the state when another thread goes on: interrupts are enabled, disabled, or one is being served.
static IRQ: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(ENABLED) }; MAX_CPUS];

fn close_irq(cpu: CpuId, to: u8) {
    let irq = &IRQ[cpu as usize];
    while irq.compare_exchange(ENABLED, to, Ordering::Acquire, Ordering::Relaxed).is_err() {
        thread::yield_now();
    }
}

/// Runs `handler` on behalf of `cpu`, as soon as that has interrupts enabled. It takes none meanwhile.
pub fn interrupt(cpu: CpuId, handler: impl FnOnce()) {
    struct Served(CpuId);
    impl Drop for Served {
        fn drop(&mut self) {
            IRQ[self.0 as usize].store(ENABLED, Ordering::Release);
        }
    }
    close_irq(cpu, INTERRUPTED);
    let _served = Served(cpu);
    handler();
}

/// Whether this thread, as a CPU, has interrupts enabled.
pub fn irqs_enabled() -> bool {
    IRQ[cpu_id() as usize].load(Ordering::Relaxed) != DISABLED
}

pub fn irq_save() -> bool {
    let was = irqs_enabled();
    if was {
        close_irq(cpu_id(), DISABLED);
    }
    was
}

pub fn irq_restore(was: bool) {
    if was {
        IRQ[cpu_id() as usize].store(ENABLED, Ordering::Release);
    }
}

struct Parker {
    permit: Mutex<bool>,
    given: Condvar,
}

/// One per CPU: a token is a CPU. A permit left by a thread before is one return without cause.
static PARKERS: [Parker; MAX_CPUS] =
    [const { Parker { permit: Mutex::new(false), given: Condvar::new() } }; MAX_CPUS];

/// The scheduler, on its own CPUs.
fn scheduler() -> Option<&'static Scheduler> {
    is_scheduled().then(|| SCHEDULER.get()).flatten()
}

pub fn park_token() -> usize {
    scheduler().map_or_else(|| cpu_id() as usize, |scheduler| (scheduler.park_token)())
}

pub fn park() {
    if let Some(scheduler) = scheduler() {
        return (scheduler.park)();
    }
    let parker = &PARKERS[cpu_id() as usize];
    let mut permit = parker.permit.lock().unwrap_or_else(PoisonError::into_inner);
    while !*permit {
        permit = parker.given.wait(permit).unwrap_or_else(PoisonError::into_inner);
    }
    *permit = false;
}

pub fn unpark(token: usize) {
    let Some(parker) = PARKERS.get(token) else {
        return SCHEDULER.get().into_iter().for_each(|scheduler| (scheduler.unpark)(token));
    };
    *parker.permit.lock().unwrap_or_else(PoisonError::into_inner) = true;
    parker.given.notify_one();
}

pub fn kick(cpu: CpuId) {
    if let Some(scheduler) = SCHEDULER.get() {
        (scheduler.kick)(cpu);
    }
}

pub(crate) fn with_thread_locks<R>(f: impl FnOnce(&HeldLocks) -> R) -> R {
    LOCKS.with(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_one_cpu_and_no_other_thread_is_it() {
        let mine = cpu_id();
        assert_eq!(mine, cpu_id());
        let theirs = thread::spawn(cpu_id).join().unwrap();
        assert_ne!(mine, theirs);
        assert!(cpus() > mine.max(theirs));
    }

    #[test]
    fn one_thread_can_play_another_cpu_and_comes_back() {
        let own = cpu_id();
        assert_eq!(as_cpu(200, cpu_id), 200);
        assert_eq!(cpu_id(), own);
    }

    #[test]
    fn an_interrupt_waits_until_its_cpu_enables_interrupts() {
        let cpu = reserve();
        let served = AtomicU32::new(0);
        thread::scope(|scope| {
            let (ready, is_ready) = std::sync::mpsc::channel();
            let served = &served;
            scope.spawn(move || {
                become_cpu(cpu);
                assert!(irq_save());
                assert!(!irq_save(), "disabled already");
                ready.send(()).unwrap();
                thread::sleep(std::time::Duration::from_millis(5));
                assert_eq!(served.load(Ordering::Relaxed), 0);
                irq_restore(true);
                wait_until(|| served.load(Ordering::Relaxed) == 1);
            });
            is_ready.recv().unwrap();
            interrupt(cpu, || served.store(1, Ordering::Relaxed));
        });
    }

    #[test]
    fn a_permit_given_early_lets_the_next_park_return() {
        unpark(park_token());
        park();
    }
}
