//! Who may have a deadline: the bandwidths of all tasks with deadlines are bounded by that of the machine's CPUs (sched_rt_runtime_us in each
//! sched_rt_period_us of each). The rest is left to all others.
//!
//! There is one domain, of all CPUs. The sum changes when a task comes into the class, gets other parameters, leaves it, or ends, and nobody else takes this lock.
//! A bandwidth is free again at once; on Linux it is when the task's rest is due. What a task has run before counts all the same when it comes back
//! (`Entity::arrive`).
#![forbid(unsafe_code)]

use super::super::policy::{Policy, Schedule};
use super::super::task::Task;
use super::parameters::{Parameters, UNIT, ratio};
use super::reclaim::bound;
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{SpinLock, lock_class};

lock_class! { static ADMISSION: LockClass = ("deadline admission", level::Admission); }

/// The sum of the bandwidths of all tasks with deadlines.
static ADMITTED: SpinLock<u64, level::Admission> = SpinLock::new(0, &ADMISSION);

/// The longest period in the upper half, and the shortest in the lower one, so that both are read at once; in microseconds.
static PERIODS: AtomicU64 = AtomicU64::new(1 << 22 << 32 | 100);

const NS_PER_US: u64 = 1000;

/// What a period may be, in microseconds: /proc/sys/kernel/sched_deadline_period_min_us and _max_us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub least: u32,
    pub most: u32,
}

impl Limits {
    pub fn now() -> Self {
        Self::of(PERIODS.load(Relaxed))
    }

    fn of(word: u64) -> Self {
        Self { least: word as u32, most: (word >> 32) as u32 }
    }

    /// Parameters as they count; None: they do not go together.
    pub fn check(self, parameters: Parameters) -> Option<Parameters> {
        parameters.checked(u64::from(self.least) * NS_PER_US, u64::from(self.most) * NS_PER_US)
    }
}

/// Changes both as `change` does.
///
/// # Errors
/// EINVAL: the shortest would be longer than the longest.
pub fn set_limits(change: impl Fn(Limits) -> Limits) -> Result {
    let changed = |word| {
        let new = change(Limits::of(word));
        (new.least <= new.most).then_some(u64::from(new.most) << 32 | u64::from(new.least))
    };
    // In one step: of two who write one each at once neither is lost.
    PERIODS.fetch_update(Relaxed, Relaxed, changed).map(drop).map_err(|_| Errno::EINVAL)
}

/// Does anything bound the sum?
pub fn has_bound() -> bool {
    bound().is_some()
}

/// May a task that may run on all CPUs, or not on all, have a deadline at all?
pub fn may_have(runs_everywhere: bool) -> bool {
    bound().is_none_or(|bound| runs_everywhere && bound != 0)
}

/// Do `admitted` fit in all CPUs, if each gives this part of itself?
fn fits(admitted: u64, part: u64) -> bool {
    admitted <= part.saturating_mul(u64::from(sync::cpus()))
}

/// Does `store` if all that has been admitted fits into a bound of `runtime` in each `period`; -1: none. Nobody is admitted meanwhile.
///
/// # Errors
/// EBUSY: it does not fit.
pub fn allows_bound(period: i32, runtime: i32, store: impl FnOnce()) -> Result {
    let admitted = ADMITTED.lock();
    let part = match runtime {
        0.. => ratio(u64::from(period.unsigned_abs()), u64::from(runtime.unsigned_abs())),
        _ => UNIT,
    };
    if !fits(*admitted, part) {
        return Err(Errno::EBUSY);
    }
    store();
    Ok(())
}

/// Sets how `task` is scheduled; with parameters if that has a deadline, which nobody else sets.
///
/// # Errors
/// EBUSY: so much is not left; ESRCH: it ends; ENOMEM.
pub fn set_schedule(task: &Task, schedule: Schedule, parameters: Option<Parameters>) -> Result {
    let entity = match parameters {
        Some(_) => task.deadline.try_make()?,
        None => match task.deadline.get() {
            Some(entity) => entity,
            None => {
                task.set_schedule(schedule);
                return Ok(());
            }
        },
    };
    let mut admitted = ADMITTED.lock();
    if task.leaves() {
        return Err(Errno::ESRCH);
    }
    let had = entity.admitted.load(Relaxed);
    let (new, is_new) = match parameters {
        Some(parameters) => (parameters.bandwidth(), task.schedule().policy != Policy::Deadline),
        None => (0, false),
    };
    let sum = admitted.saturating_sub(had).saturating_add(new);
    if parameters.is_some() && (is_new || new != had) && bound().is_some_and(|part| !fits(sum, part)) {
        return Err(Errno::EBUSY);
    }
    *admitted = sum;
    entity.admitted.store(new, Relaxed);
    if let Some(parameters) = parameters {
        entity.set_parameters(parameters);
    }
    task.set_schedule(schedule);
    Ok(())
}

/// The task ends: others may have its bandwidth. It runs on as it did.
#[cold]
pub fn release(task: &Task) {
    if let Some(entity) = task.deadline.get() {
        let mut admitted = ADMITTED.lock();
        *admitted = admitted.saturating_sub(entity.admitted.swap(0, Relaxed));
    }
}
