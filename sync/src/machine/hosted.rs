//! The machine as a hosted test sees it: every thread is a CPU from its first question until it ends.
//!
//! A thread takes the lowest CPU that no living thread holds, so per-CPU data is touched by one thread at a time, as in the
//! kernel. A CPU between threads is idle to RCU. When a thread ends it first runs the RCU callbacks that wait on its CPU.
//! `as_cpu` lets one thread play several CPUs in turn, for tests that must be deterministic.

use super::{CpuId, MAX_CPUS};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

const NONE: CpuId = CpuId::MAX;

static TAKEN: Mutex<[bool; MAX_CPUS]> = Mutex::new([false; MAX_CPUS]);
static FREED: Condvar = Condvar::new();
static PRESENT: AtomicU32 = AtomicU32::new(1);
static NODES: AtomicU32 = AtomicU32::new(1);

std::thread_local! {
    // Without a destructor, so that it can be read while other thread-locals are torn down.
    static CPU: Cell<CpuId> = const { Cell::new(NONE) };
    static IRQS: Cell<bool> = const { Cell::new(true) };
    static LEASE: Lease = const { Lease };
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

#[cold]
fn claim_any() -> CpuId {
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
    let _back = Back(own);
    f()
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

/// Waits for what another thread is about to do; a minute at most, so that a test fails instead of hanging.
#[cfg(test)]
pub(crate) fn wait_until(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed().as_secs() < 60, "waited in vain");
        thread::yield_now();
    }
}

/// Whether this thread, as a CPU, has interrupts enabled.
pub fn irqs_enabled() -> bool {
    IRQS.get()
}

pub fn irq_save() -> bool {
    IRQS.replace(false)
}

pub fn irq_restore(was: bool) {
    IRQS.set(was);
}

struct Parker {
    permit: Mutex<bool>,
    given: Condvar,
}

/// One per CPU: a token is a CPU. A permit left by a thread before is one return without cause.
static PARKERS: [Parker; MAX_CPUS] =
    [const { Parker { permit: Mutex::new(false), given: Condvar::new() } }; MAX_CPUS];

pub fn park_token() -> usize {
    cpu_id() as usize
}

pub fn park() {
    let parker = &PARKERS[cpu_id() as usize];
    let mut permit = parker.permit.lock().unwrap_or_else(PoisonError::into_inner);
    while !*permit {
        permit = parker.given.wait(permit).unwrap_or_else(PoisonError::into_inner);
    }
    *permit = false;
}

pub fn unpark(token: usize) {
    let parker = &PARKERS[token];
    *parker.permit.lock().unwrap_or_else(PoisonError::into_inner) = true;
    parker.given.notify_one();
}

pub fn kick(_cpu: CpuId) {}

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
    fn a_permit_given_early_lets_the_next_park_return() {
        unpark(park_token());
        park();
    }
}
