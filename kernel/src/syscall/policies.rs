//! Policies, priorities and deadlines: sched_setscheduler(2), sched_setattr(2) and their kind.
#![forbid(unsafe_code)]

use super::scheduling::{check_owner, look_at_task, may_raise, thread};
use crate::errno::{Errno, Result};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::{self, Capability, Thread};
use crate::sched::deadline::{self, Parameters};
use crate::sched::futex::pi;
use crate::sched::{Policy, Schedule, realtime_settings};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use vm::addr::PAGE_SIZE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// As `thread`, for the calls that refuse a number below zero at once.
fn found(tid: i32) -> Result<Arc<Thread>> {
    if tid < 0 { Err(Errno::EINVAL) } else { thread(tid) }
}

fn schedule_of(tid: i32) -> Result<Schedule> {
    if tid < 0 { Err(Errno::EINVAL) } else { look_at_task(tid, |task| task.schedule()) }
}

/// sched_getscheduler(2).
pub fn sys_sched_getscheduler(tid: i32) -> Result<usize> {
    let schedule = schedule_of(tid)?;
    let flag = if schedule.resets { abi::SCHED_RESET_ON_FORK } else { 0 };
    Ok((schedule.policy as u32 | flag) as usize)
}

/// What a call asks of a thread; None: that stays as it is.
#[derive(Default)]
struct Wish {
    /// Policy and whether it resets on fork.
    policy: Option<(u32, bool)>,
    /// None: that of a real-time task stays, another's has to be 0.
    priority: Option<u32>,
    nice: Option<i32>,
    /// What a fair task asks for at a time, ns; 0: what others do.
    slice: Option<u32>,
    /// For a policy with deadlines; all 0: nothing was said.
    parameters: Parameters,
    /// With SCHED_FLAG_KEEP_PARAMS the policy stays too, once it has been judged; what it resets does not.
    keeps_policy: bool,
    /// Limits of the processor's speed, too.
    utilization: bool,
    /// It says that it is the kernel's own.
    is_special: bool,
}

/// Does to a thread what sched_setscheduler, sched_setparam and sched_setattr may do.
///
/// # Errors
/// EINVAL, EPERM; EOPNOTSUPP: the processor's speed is not chosen here; EBUSY: so much time is not left.
fn set_schedule(thread: &Thread, wish: &Wish) -> Result<usize> {
    let task = thread.task().ok_or(Errno::ESRCH)?;
    let old = task.schedule();
    let (policy, resets) = match wish.policy {
        None => (old.policy, old.resets),
        Some((number, resets)) => (policy_of(number)?, resets),
    };
    let priority = wish.priority.unwrap_or(old.priority);
    let parameters = match policy {
        Policy::Deadline if wish.is_special => None,
        Policy::Deadline => Some(deadline::Limits::now().check(wish.parameters).ok_or(Errno::EINVAL)?),
        _ => None,
    };
    if priority > HIGHEST || policy.is_realtime() != (priority != 0) {
        return Err(Errno::EINVAL);
    }
    // The nice value of an idle thread waits for its next policy, and so does that of one of real time.
    let is_fair = matches!(policy, Policy::Normal | Policy::Batch);
    let nice = wish.nice.filter(|_| is_fair).unwrap_or(old.nice);
    let slice = wish.slice.filter(|_| is_fair).unwrap_or(old.slice);
    let new = Schedule { policy, priority, nice, slice, resets };
    let better = nice < old.nice && !may_raise(thread, nice);
    let leaves_idle = old.policy == Policy::Idle && policy != Policy::Idle && !may_raise(thread, old.nice);
    let needs_right = old.resets && !resets
        || policy == Policy::Deadline
        || policy.is_realtime() && !may_be_realtime(thread, old, new);
    if needs_right && !process::current().capable(Capability::SYS_NICE) || better || leaves_idle {
        return Err(Errno::EPERM);
    }
    check_owner(thread)?;
    if wish.is_special {
        return Err(Errno::EINVAL);
    }
    if wish.utilization {
        return Err(Errno::EOPNOTSUPP);
    }
    let had = task.deadline_parameters();
    // One without a period is never as it was, as on Linux.
    let is_as_before = parameters.is_some() && had == Some(wish.parameters);
    if parameters.is_some() && !is_as_before && !deadline::may_have(task.runs_everywhere()) {
        return Err(Errno::EPERM);
    }
    let (new, parameters) =
        if wish.keeps_policy { (Schedule { resets, ..old }, had) } else { (new, parameters) };
    deadline::set_schedule(&task, new, parameters)?;
    if old.policy.goes_first() && !new.policy.goes_first() {
        // Its timers had none meanwhile.
        thread.attributes.set_slack(0);
    }
    pi::priority_changed(&task);
    Ok(0)
}

fn policy_of(number: u32) -> Result<Policy> {
    match number {
        abi::SCHED_NORMAL => Ok(Policy::Normal),
        abi::SCHED_FIFO => Ok(Policy::Fifo),
        abi::SCHED_RR => Ok(Policy::RoundRobin),
        abi::SCHED_BATCH => Ok(Policy::Batch),
        abi::SCHED_IDLE => Ok(Policy::Idle),
        abi::SCHED_DEADLINE => Ok(Policy::Deadline),
        _ => Err(Errno::EINVAL),
    }
}

fn is_realtime(thread: &Thread) -> bool {
    thread.look_at_task(|task| task.schedule().policy.is_realtime()).unwrap_or(false)
}

/// The highest real-time priority.
const HIGHEST: u32 = 99;

/// May `thread` be of this real-time class without its being the superuser's wish? RLIMIT_RTPRIO bounds what it rises to, and says with 0 that it may not change
/// to such a policy at all.
fn may_be_realtime(thread: &Thread, old: Schedule, new: Schedule) -> bool {
    let limit = thread.process.limits.soft(abi::RLIMIT_RTPRIO);
    (new.policy == old.policy || limit != 0)
        && (new.priority <= old.priority || u64::from(new.priority) <= limit)
}

/// sched_setscheduler(2).
pub fn sys_sched_setscheduler(tid: i32, policy: i32, param: usize) -> Result<usize> {
    if policy < 0 || param == 0 || tid < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = UserPtr::<u32>::new(param).read()?;
    let resets = policy as u32 & abi::SCHED_RESET_ON_FORK != 0;
    let policy = policy as u32 & !abi::SCHED_RESET_ON_FORK;
    set_schedule(
        &*found(tid)?,
        &Wish { policy: Some((policy, resets)), priority: Some(priority), ..Wish::default() },
    )
}

/// struct sched_attr, as large as it is now.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    utilization: [u32; 2],
}

/// Its size when it was new.
const FIRST_ATTR: u32 = 48;

/// sched_getattr(2).
pub fn sys_sched_getattr(tid: i32, to: usize, size: u32, flags: u32) -> Result<usize> {
    if to == 0 || tid < 0 || size > PAGE_SIZE as u32 || size < FIRST_ATTR || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (schedule, parameters) =
        look_at_task(tid, |task| (task.schedule(), task.deadline_parameters().unwrap_or_default()))?;
    let size = size.min(size_of::<SchedAttr>() as u32);
    let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
    let attr = SchedAttr {
        size,
        policy: schedule.policy as u32,
        flags: flag(schedule.resets, RESET_ON_FORK)
            | flag(parameters.reclaims, RECLAIM)
            | flag(parameters.is_told, DL_OVERRUN),
        nice: if schedule.policy.goes_first() { 0 } else { schedule.nice },
        priority: schedule.priority,
        runtime: if schedule.policy.goes_first() { parameters.runtime } else { told_slice(schedule) },
        deadline: parameters.deadline,
        period: parameters.period,
        ..SchedAttr::default()
    };
    let bytes = attr.as_bytes().get(..size as usize).unwrap_or_default();
    UserSlice::new(to, size as usize).write(bytes).map(|()| 0)
}

/// Flags of sched_setattr.
const RESET_ON_FORK: u64 = 1;
const RECLAIM: u64 = 2;
const DL_OVERRUN: u64 = 4;
const KEEP_POLICY: u64 = 8;
const KEEP_PARAMS: u64 = 16;
/// Limits of the processor's speed, which the kernel does not choose.
const UTILIZATION: u64 = 0x60;
/// SCHED_FLAG_SUGOV: a thread of the kernel's own says it.
const SPECIAL: u64 = 0x1000_0000;
const KNOWN: u64 = 0x7f | SPECIAL;

/// sched_setattr(2): the policies are those of sched_setscheduler, and the nice value counts.
#[expect(clippy::arithmetic_side_effects, reason = "from is in user memory, which was just read")]
pub fn sys_sched_setattr(tid: i32, from: usize, flags: u32) -> Result<usize> {
    if from == 0 || tid < 0 || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let mut attr = SchedAttr::default();
    let known = size_of::<SchedAttr>() as u32;
    let size = match UserPtr::<u32>::new(from).read()? {
        0 => FIRST_ATTR,
        size => size,
    };
    if size < FIRST_ATTR || size > PAGE_SIZE as u32 {
        UserPtr::<u32>::new(from).write(&known)?;
        return Err(Errno::E2BIG);
    }
    let taken = size.min(known) as usize;
    UserSlice::new(from, taken).read(attr.as_mut_bytes().get_mut(..taken).unwrap_or_default())?;
    // What is not known here has to be zero.
    for at in known as usize..size as usize {
        if UserPtr::<u8>::new(from + at).read()? != 0 {
            UserPtr::<u32>::new(from).write(&known)?;
            return Err(Errno::E2BIG);
        }
    }
    if attr.flags & UTILIZATION != 0 && size < known {
        return Err(Errno::EINVAL);
    }
    if (attr.policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let target = found(tid)?;
    if attr.flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let keeps = |flag| attr.flags & flag != 0;
    let own = if keeps(KEEP_PARAMS) { look_at_task(tid, |task| task.deadline_parameters())? } else { None };
    let wish = Wish {
        policy: (!keeps(KEEP_POLICY)).then_some((attr.policy, keeps(RESET_ON_FORK))),
        priority: match own {
            Some(_) => Some(0),
            None => (!keeps(KEEP_PARAMS) || !is_realtime(&target)).then_some(attr.priority),
        },
        nice: (!keeps(KEEP_PARAMS)).then_some(attr.nice.clamp(-20, 19)),
        slice: (!keeps(KEEP_PARAMS)).then_some(slice_of(attr.runtime)),
        parameters: own.unwrap_or(Parameters {
            runtime: attr.runtime,
            deadline: attr.deadline,
            period: attr.period,
            reclaims: keeps(RECLAIM),
            is_told: keeps(DL_OVERRUN),
        }),
        keeps_policy: keeps(KEEP_PARAMS),
        utilization: keeps(UTILIZATION),
        is_special: keeps(SPECIAL),
    };
    set_schedule(&target, &wish)
}

/// sched_getparam(2).
pub fn sys_sched_getparam(tid: i32, param: usize) -> Result<usize> {
    if param == 0 || tid < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = schedule_of(tid)?.priority;
    UserPtr::<u32>::new(param).write(&priority).map(|()| 0)
}

/// sched_setparam(2).
pub fn sys_sched_setparam(tid: i32, param: usize) -> Result<usize> {
    if param == 0 || tid < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = UserPtr::<u32>::new(param).read()?;
    set_schedule(&*found(tid)?, &Wish { priority: Some(priority), ..Wish::default() })
}

/// The class of a scheduler that is loaded.
const SCHED_EXT: u32 = 7;

fn priority_bound(policy: u32, real_time: usize) -> Result<usize> {
    match policy {
        abi::SCHED_FIFO | abi::SCHED_RR => Ok(real_time),
        abi::SCHED_NORMAL | abi::SCHED_BATCH | abi::SCHED_IDLE | abi::SCHED_DEADLINE | SCHED_EXT => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// sched_get_priority_max(2).
pub fn sys_sched_get_priority_max(policy: u32) -> Result<usize> {
    priority_bound(policy, 99)
}

/// sched_get_priority_min(2).
pub fn sys_sched_get_priority_min(policy: u32) -> Result<usize> {
    priority_bound(policy, 1)
}

/// ns.
const LINUX_TICK: u64 = 4_000_000;

/// The slice of a fair task, as Linux tells it, ns: where none was set its base slice, which grows with the number of CPUs. Without a slice of its own a
/// task's requests are as long as it has run (`sched::fair`).
fn told_slice(schedule: Schedule) -> u64 {
    const BASE: u64 = 700_000;
    match schedule.slice {
        0 => BASE.saturating_mul(1 + u64::from(sync::cpus().clamp(1, 8).ilog2())),
        slice => u64::from(slice),
    }
}

/// The slice that `runtime` of sched_setattr asks for, ns.
fn slice_of(runtime: u64) -> u32 {
    if runtime == 0 { 0 } else { runtime.clamp(100_000, 100_000_000) as u32 }
}

/// sched_rr_get_interval(2).
pub fn sys_sched_rr_get_interval(tid: i32, to: usize) -> Result<usize> {
    if tid < 0 {
        return Err(Errno::EINVAL);
    }
    let (schedule, priority) = look_at_task(tid, |task| (task.schedule(), task.class().priority()))?;
    let turn = match schedule.policy {
        Policy::Fifo | Policy::Deadline => 0,
        // It is lent a priority, and has no turns.
        Policy::Normal | Policy::Batch | Policy::Idle if priority != 0 => 0,
        Policy::RoundRobin => realtime_settings::slice(),
        // Linux counts in ticks.
        Policy::Normal | Policy::Batch | Policy::Idle => {
            (told_slice(schedule) / LINUX_TICK).saturating_mul(LINUX_TICK)
        }
    };
    UserPtr::new(to).write(&super::time::Timespec::from_ns(turn)).map(|()| 0)
}
