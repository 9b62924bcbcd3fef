//! Priorities, affinity, processor time.
#![forbid(unsafe_code)]

use super::process::Rusage;
use super::time::NS_PER_SEC;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::wait::UsageSum;
use crate::process::{self, Capability, Process, Thread, ids, session};
use crate::sched::futex::pi;
use crate::sched::{self, Policy, Schedule, Task, realtime_settings};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use sync::MAX_CPUS;
use vm::addr::PAGE_SIZE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

fn thread(tid: i32) -> Result<Arc<Thread>> {
    match tid {
        0 => Ok((*process::current()).clone()),
        tid if tid < 0 => Err(Errno::ESRCH),
        tid => process::find_thread(tid as u32).ok_or(Errno::ESRCH),
    }
}

/// What `f` says of a thread, which is not counted for it; 0 is the caller. `f` does not sleep.
///
/// # Errors
/// ESRCH.
#[inline]
fn look_at<R>(tid: i32, f: impl FnOnce(&Thread) -> R) -> Result<R> {
    match tid {
        0 => Ok(f(&process::current())),
        tid if tid < 0 => Err(Errno::ESRCH),
        tid => ids::look_at_thread(tid.unsigned_abs(), f).ok_or(Errno::ESRCH),
    }
}

/// As `look_at`, at the task of a thread that has not ended.
#[inline]
fn look_at_task<R>(tid: i32, f: impl FnOnce(&Task) -> R) -> Result<R> {
    match tid {
        0 => Ok(f(&sched::current())),
        tid => look_at(tid, |thread| thread.look_at_task(f))?.ok_or(Errno::ESRCH),
    }
}

/// May the caller change how `thread` is scheduled?
fn check_owner(thread: &Thread) -> Result {
    let caller = process::current();
    let user = caller.ids().euid;
    let owns = thread.look_at_credentials(|owner| [owner.uid, owner.euid].contains(&user)).unwrap_or(false);
    if owns || caller.capable(Capability::SYS_NICE) { Ok(()) } else { Err(Errno::EPERM) }
}

/// May the caller give `thread` this nice value, which is better than it has?
fn may_raise(thread: &Thread, nice: i32) -> bool {
    // RLIMIT_NICE counts from 1 for 19 to 40 for -20.
    let rank = 20i32.saturating_sub(nice).max(0) as u64;
    rank <= thread.process.limits.soft(abi::RLIMIT_NICE) || process::current().capable(Capability::SYS_NICE)
}

/// sched_yield(2).
pub fn sys_sched_yield() -> Result<usize> {
    sched::yield_now();
    Ok(0)
}

/// sched_setaffinity(2).
#[expect(clippy::arithmetic_side_effects, reason = "shifts of bytes in a word")]
pub fn sys_sched_setaffinity(tid: i32, len: usize, mask: usize) -> Result<usize> {
    let mut bytes = [0u8; MAX_CPUS / 8];
    let taken = len.min(bytes.len());
    UserSlice::new(mask, taken).read(&mut bytes[..taken])?;
    let thread = thread(tid)?;
    check_owner(&thread)?;
    let mut words = [0u64; MAX_CPUS / 64];
    for (n, byte) in bytes.iter().enumerate() {
        words[n / 8] |= u64::from(*byte) << (n % 8 * 8);
    }
    let task = thread.task().ok_or(Errno::ESRCH)?;
    if task.set_affinity(words) { Ok(0) } else { Err(Errno::EINVAL) }
}

/// sched_getaffinity(2): bytes written.
#[expect(clippy::arithmetic_side_effects, reason = "n is below the number of bytes")]
pub fn sys_sched_getaffinity(tid: i32, len: usize, mask: usize) -> Result<usize> {
    let cpus = sync::cpus() as usize;
    let size = cpus.next_multiple_of(64) / 8;
    if len < size || !len.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let mut words = look_at_task(tid, |task| task.affinity().words())?;
    // Bits of CPUs that are not there are not shown.
    let words = words.get_mut(..size / 8).unwrap_or_default();
    if let (Some(last), left @ 1..) = (words.last_mut(), cpus % 64) {
        *last &= (1 << left) - 1;
    }
    UserSlice::new(mask, size).write(words.as_bytes())?;
    Ok(size)
}

/// getcpu(2).
pub fn sys_getcpu(cpu: usize, node: usize) -> Result<usize> {
    let here = sync::cpu_id();
    if cpu != 0 {
        UserPtr::<u32>::new(cpu).write(&here)?;
    }
    if node != 0 {
        UserPtr::<u32>::new(node).write(&sync::machine::node_of(here))?;
    }
    Ok(0)
}

/// Threads that getpriority and setpriority mean.
fn each_of(which: u32, who: i32, mut f: impl FnMut(&Thread)) -> Result {
    match which {
        abi::PRIO_PROCESS => look_at(who, f)?,
        abi::PRIO_PGRP => {
            let group = if who == 0 { process::current().process.group() } else { who as u32 };
            let mut are_many = false;
            let mut look = |p: &Process| match p.signals.crowd() {
                Some(_) => are_many = true,
                None => p.look_at_few_threads(&mut f),
            };
            // Those of a large group are come by again by who may rest.
            if session::look_at_members(group, &mut look) == Some(false) {
                session::for_each_member(group, |p| {
                    look(p);
                    true
                });
            }
            // Many threads are not come by under the group's lock.
            if are_many {
                process::walk_processes(|p| {
                    if p.group() == group && p.signals.crowd().is_some() {
                        p.look_at_threads(&mut f);
                    }
                    true
                });
            }
        }
        abi::PRIO_USER => {
            let uid = if who == 0 { process::current().ids().uid } else { who as u32 };
            let mut look = |p: &Process, rests: bool| {
                let skips = p.uid_at_exit() != uid;
                let few = p.signals.crowd().is_none();
                match (skips, few || rests) {
                    (true, _) => {}
                    (_, false) => return false,
                    _ if few => p.look_at_few_threads(&mut f),
                    _ => p.look_at_threads(&mut f),
                }
                true
            };
            ids::look_at_processes(&mut look);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// getpriority(2): 20 minus the nice value.
#[expect(clippy::arithmetic_side_effects, reason = "nice is between -20 and 19")]
pub fn sys_getpriority(which: u32, who: i32) -> Result<usize> {
    let mut best: Option<i32> = None;
    each_of(which, who, |t| {
        if let Some(nice) = t.look_at_task(|task| task.nice()) {
            best = Some(best.map_or(nice, |best| best.min(nice)));
        }
    })?;
    Ok((20 - best.ok_or(Errno::ESRCH)?) as usize)
}

/// setpriority(2).
pub fn sys_setpriority(which: u32, who: i32, nice: i32) -> Result<usize> {
    let nice = nice.clamp(-20, 19);
    // The first refusal is told, whatever becomes of the others.
    let mut result = Err(Errno::ESRCH);
    each_of(which, who, |t| {
        t.look_at_task(|task| {
            if check_owner(t).is_err() {
                result = Err(Errno::EPERM);
            } else if nice < task.nice() && !may_raise(t, nice) {
                result = Err(Errno::EACCES);
            } else {
                task.set_nice(nice);
                if result == Err(Errno::ESRCH) {
                    result = Ok(0);
                }
            }
        });
    })?;
    result
}

/// Classes of I/O priorities, and the bits of class and level.
const IO_REALTIME: u32 = 1;
const IO_BEST_EFFORT: u32 = 2;
const IO_IDLE: u32 = 3;
const IO_CLASS_SHIFT: u32 = 13;
const IO_LEVEL: u32 = 7;

/// ioprio_set(2). Nothing goes by it: there are no disks.
pub fn sys_ioprio_set(which: u32, who: i32, priority: u32) -> Result<usize> {
    let caller = process::current();
    let level = priority & IO_LEVEL;
    match priority >> IO_CLASS_SHIFT & 7 {
        0 if level == 0 => {}
        IO_REALTIME if !(caller.capable(Capability::SYS_ADMIN) || caller.capable(Capability::SYS_NICE)) => {
            return Err(Errno::EPERM);
        }
        IO_REALTIME | IO_BEST_EFFORT | IO_IDLE => {}
        _ => return Err(Errno::EINVAL),
    }
    let ids = caller.ids();
    let mut result = Err(Errno::ESRCH);
    each_of(which.wrapping_sub(1), who, |thread| {
        // The first refusal is the end.
        if result == Err(Errno::EPERM) {
            return;
        }
        let owner = thread.look_at_credentials(|owner| owner.uid);
        let owns = owner.is_some_and(|owner| [ids.uid, ids.euid].contains(&owner));
        result = if owns || caller.capable(Capability::SYS_NICE) {
            thread.attributes.set_io_priority(priority & 0xffff);
            Ok(0)
        } else {
            Err(Errno::EPERM)
        };
    })?;
    result
}

/// ioprio_get(2): of one thread what was set, of many the best that is in effect.
#[expect(clippy::arithmetic_side_effects, reason = "nice is between -20 and 19")]
pub fn sys_ioprio_get(which: u32, who: i32) -> Result<usize> {
    let which = which.wrapping_sub(1);
    let mut best: Option<u32> = None;
    each_of(which, who, |thread| {
        let set = thread.attributes.io_priority();
        let effective = || {
            let nice = thread.look_at_task(|task| task.nice()).unwrap_or(0);
            IO_BEST_EFFORT << IO_CLASS_SHIFT | ((nice + 20) / 5).cast_unsigned()
        };
        let by_nice = set >> IO_CLASS_SHIFT == 0 && which != abi::PRIO_PROCESS;
        let own = if by_nice { effective() } else { set };
        best = Some(best.map_or(own, |best| best.min(own)));
    })?;
    best.map(|priority| priority as usize).ok_or(Errno::ESRCH)
}

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
struct Wish {
    /// Policy and whether it resets on fork.
    policy: Option<(u32, bool)>,
    /// None: that of a real-time task stays, another's has to be 0.
    priority: Option<u32>,
    nice: Option<i32>,
    /// What a fair task asks for at a time, ns; 0: what others do.
    slice: Option<u32>,
    /// With SCHED_FLAG_KEEP_PARAMS the policy stays too, once it has been judged; what it resets does not.
    keeps_policy: bool,
    /// Limits of the processor's speed, too.
    utilization: bool,
}

/// Does to a thread what sched_setscheduler, sched_setparam and sched_setattr may do.
///
/// # Errors
/// EINVAL, EPERM; EOPNOTSUPP: the processor's speed is not chosen here.
fn set_schedule(thread: &Thread, wish: &Wish) -> Result<usize> {
    let task = thread.task().ok_or(Errno::ESRCH)?;
    let old = task.schedule();
    let (policy, resets) = match wish.policy {
        None => (old.policy, old.resets),
        Some((number, resets)) => (policy_of(number)?, resets),
    };
    let priority = wish.priority.unwrap_or(old.priority);
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
    let needs_right = old.resets && !resets || policy.is_realtime() && !may_be_realtime(thread, old, new);
    if needs_right && !process::current().capable(Capability::SYS_NICE) || better || leaves_idle {
        return Err(Errno::EPERM);
    }
    check_owner(thread)?;
    if wish.utilization {
        return Err(Errno::EOPNOTSUPP);
    }
    let new = if wish.keeps_policy { Schedule { resets, ..old } } else { new };
    if old.policy.is_realtime() && !new.policy.is_realtime() {
        // Its timers had none meanwhile.
        thread.attributes.set_slack(0);
    }
    task.set_schedule(new);
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
        &Wish {
            policy: Some((policy, resets)),
            priority: Some(priority),
            nice: None,
            slice: None,
            keeps_policy: false,
            utilization: false,
        },
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
    let schedule = schedule_of(tid)?;
    let size = size.min(size_of::<SchedAttr>() as u32);
    let attr = SchedAttr {
        size,
        policy: schedule.policy as u32,
        flags: if schedule.resets { RESET_ON_FORK } else { 0 },
        nice: if schedule.policy.is_realtime() { 0 } else { schedule.nice },
        priority: schedule.priority,
        runtime: if schedule.policy.is_realtime() { 0 } else { told_slice(schedule) },
        ..SchedAttr::default()
    };
    let bytes = attr.as_bytes().get(..size as usize).unwrap_or_default();
    UserSlice::new(to, size as usize).write(bytes).map(|()| 0)
}

/// Flags of sched_setattr.
const RESET_ON_FORK: u64 = 1;
const KEEP_POLICY: u64 = 8;
const KEEP_PARAMS: u64 = 16;
/// Limits of the processor's speed, which the kernel does not choose.
const UTILIZATION: u64 = 0x60;
/// Those above and two that speak of deadlines only.
const KNOWN: u64 = 0x7f;

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
    let wish = Wish {
        policy: (!keeps(KEEP_POLICY)).then_some((attr.policy, keeps(RESET_ON_FORK))),
        priority: (!keeps(KEEP_PARAMS) || !is_realtime(&target)).then_some(attr.priority),
        nice: (!keeps(KEEP_PARAMS)).then_some(attr.nice.clamp(-20, 19)),
        slice: (!keeps(KEEP_PARAMS)).then_some(slice_of(attr.runtime)),
        keeps_policy: keeps(KEEP_PARAMS),
        utilization: keeps(UTILIZATION),
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
    set_schedule(
        &*found(tid)?,
        &Wish {
            policy: None,
            priority: Some(priority),
            nice: None,
            slice: None,
            keeps_policy: false,
            utilization: false,
        },
    )
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
        Policy::Fifo => 0,
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

/// getrusage(2).
pub fn sys_getrusage(who: i32, to: usize) -> Result<usize> {
    let current = process::current();
    const SELF: i32 = 0;
    const CHILDREN: i32 = -1;
    const THREAD: i32 = 1;
    let usage = match who {
        SELF => {
            let mut usage = current.process.usage();
            usage.max_rss = usage.max_rss.max(current.space().resident_pages() as u64);
            usage
        }
        CHILDREN => current.process.children_usage(),
        THREAD => UsageSum::of_thread(&current, sched::current().times()),
        _ => return Err(Errno::EINVAL),
    };
    UserPtr::new(to).write(&Rusage::new(&usage)).map(|()| 0)
}

/// times(2), in clock ticks of 1/100 s.
pub fn sys_times(to: usize) -> Result<usize> {
    const NS_PER_TICK: u64 = NS_PER_SEC / 100;
    let current = process::current();
    if to != 0 {
        let (own, children) = (current.process.usage(), current.process.children_usage());
        let ticks = [own.user_ns, own.system_ns, children.user_ns, children.system_ns];
        UserPtr::<[u64; 4]>::new(to).write(&ticks.map(|ns| ns / NS_PER_TICK))?;
    }
    Ok((arch::time::now() / NS_PER_TICK) as usize)
}
