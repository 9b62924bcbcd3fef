//! Resource limits (getrlimit(2)), per process; copied at fork.
#![forbid(unsafe_code)]

use super::{Process, signal};
use crate::account;
use crate::errno::{Errno, Result};
use crate::sched;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as abi;

/// RLIMIT_NPROC of the first process: as good as none, the number of all threads is bounded by the memory before (`ids`).
pub const PROCESSES: u64 = 1 << 20;
pub const INFINITY: u64 = u64::MAX;
const COUNT: usize = abi::RLIM_NLIMITS as usize;

/// Soft and hard limits, by resource number.
pub struct Limits {
    soft: [AtomicU64; COUNT],
    hard: [AtomicU64; COUNT],
}

impl Limits {
    /// What Linux gives the first process.
    pub fn new() -> Self {
        let limits = Self {
            soft: [const { AtomicU64::new(INFINITY) }; COUNT],
            hard: [const { AtomicU64::new(INFINITY) }; COUNT],
        };
        let signals = account::limits::signals();
        let first = [
            (abi::RLIMIT_STACK, 8 << 20, INFINITY),
            (abi::RLIMIT_CORE, 0, INFINITY),
            (abi::RLIMIT_NPROC, PROCESSES, PROCESSES),
            (abi::RLIMIT_NOFILE, 1024, 4096),
            (abi::RLIMIT_MEMLOCK, 8 << 20, 8 << 20),
            (abi::RLIMIT_SIGPENDING, signals, signals),
            (abi::RLIMIT_MSGQUEUE, 819_200, 819_200),
            (abi::RLIMIT_NICE, 0, 0),
            (abi::RLIMIT_RTPRIO, 0, 0),
        ];
        for (resource, soft, hard) in first {
            limits.store(resource as usize, soft, hard);
        }
        limits
    }

    /// A copy, for fork.
    pub fn copy(&self) -> Self {
        let copy = |from: &[AtomicU64; COUNT]| {
            core::array::from_fn(|n| AtomicU64::new(from[n].load(Ordering::Relaxed)))
        };
        Self { soft: copy(&self.soft), hard: copy(&self.hard) }
    }

    fn store(&self, n: usize, soft: u64, hard: u64) {
        if let (Some(s), Some(h)) = (self.soft.get(n), self.hard.get(n)) {
            s.store(soft, Ordering::Relaxed);
            h.store(hard, Ordering::Relaxed);
        }
    }

    /// Soft and hard limit.
    ///
    /// # Errors
    /// EINVAL: no such resource.
    pub fn get(&self, resource: u32) -> Result<(u64, u64)> {
        let n = resource as usize;
        match (self.soft.get(n), self.hard.get(n)) {
            (Some(soft), Some(hard)) => Ok((soft.load(Ordering::Relaxed), hard.load(Ordering::Relaxed))),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Sets both; a hard limit is raised only if `raises`.
    ///
    /// # Errors
    /// EINVAL; EPERM.
    pub fn set(&self, resource: u32, soft: u64, hard: u64, raises: bool) -> Result {
        let (_, old_hard) = self.get(resource)?;
        if soft > hard {
            return Err(Errno::EINVAL);
        }
        if (hard > old_hard && !raises)
            || (resource == abi::RLIMIT_NOFILE && hard > account::limits::NR_OPEN.get())
        {
            return Err(Errno::EPERM);
        }
        self.store(resource as usize, soft, hard);
        Ok(())
    }

    /// The soft limit becomes `soft`, if it is above that.
    pub fn lower(&self, resource: u32, soft: u64) {
        if let Some(limit) = self.soft.get(resource as usize) {
            limit.fetch_min(soft, Ordering::Relaxed);
        }
    }

    /// The soft limit; none for a resource that does not exist.
    pub fn soft(&self, resource: u32) -> u64 {
        self.get(resource).map_or(INFINITY, |(soft, _)| soft)
    }
}

/// RLIMIT_CPU: SIGXCPU at the soft limit and at every second after it, SIGKILL at the hard one. Asked at ticks, so late by one
/// at most.
#[expect(clippy::arithmetic_side_effects, reason = "soft is below INFINITY")]
pub fn check_cpu_time(process: &Arc<Process>) {
    let soft = process.limits.soft(abi::RLIMIT_CPU);
    if soft == INFINITY {
        return;
    }
    let used = process.cpu_time_ns() / 1_000_000_000;
    let hard = process.limits.get(abi::RLIMIT_CPU).map_or(INFINITY, |(_, hard)| hard);
    if used >= hard {
        signal::send_kernel(process, abi::SIGKILL);
    } else if used >= soft {
        process.limits.store(abi::RLIMIT_CPU as usize, soft + 1, hard);
        signal::send_kernel(process, abi::SIGXCPU);
    }
}

/// RLIMIT_RTTIME, in microseconds: the same for the time that the running thread has run in a real-time class since it last slept. And SIGXCPU for one with a
/// deadline that has run for longer than it has said, if it asked for that.
pub fn check_realtime(process: &Arc<Process>) {
    if sched::current().take_overrun() {
        signal::send_kernel(process, abi::SIGXCPU);
    }
    let Ok((soft, hard)) = process.limits.get(abi::RLIMIT_RTTIME) else { return };
    if soft == INFINITY {
        return;
    }
    let ran = sched::current().realtime_ns() / 1000;
    if hard != INFINITY && ran >= hard {
        signal::send_kernel(process, abi::SIGKILL);
    } else if ran >= soft {
        process.limits.store(abi::RLIMIT_RTTIME as usize, soft.saturating_add(1_000_000), hard);
        signal::send_kernel(process, abi::SIGXCPU);
    }
}

/// The running process's soft limit.
pub fn limit_now(resource: u32) -> u64 {
    super::current().process.limits.soft(resource)
}

/// The running process's RLIMIT_FSIZE.
pub fn file_size_limit() -> u64 {
    limit_now(abi::RLIMIT_FSIZE)
}
