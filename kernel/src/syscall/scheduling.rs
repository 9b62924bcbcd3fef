//! Affinity, nice values, processor time. Policies are set in `policies`.
#![forbid(unsafe_code)]

use super::process::Rusage;
use super::time::NS_PER_SEC;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::wait::UsageSum;
use crate::process::{self, Capability, Process, Thread, ids, session};
use crate::sched::{self, Policy, Task, deadline};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use sync::MAX_CPUS;
use zerocopy::IntoBytes;

pub(super) fn thread(tid: i32) -> Result<Arc<Thread>> {
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
pub(super) fn look_at_task<R>(tid: i32, f: impl FnOnce(&Task) -> R) -> Result<R> {
    match tid {
        0 => Ok(f(&sched::current())),
        tid => look_at(tid, |thread| thread.look_at_task(f))?.ok_or(Errno::ESRCH),
    }
}

/// May the caller change how `thread` is scheduled?
pub(super) fn check_owner(thread: &Thread) -> Result {
    let caller = process::current();
    let user = caller.ids().euid;
    let owns = thread.look_at_credentials(|owner| [owner.uid, owner.euid].contains(&user)).unwrap_or(false);
    if owns || caller.capable(Capability::SYS_NICE) { Ok(()) } else { Err(Errno::EPERM) }
}

/// May the caller give `thread` this nice value, which is better than it has?
pub(super) fn may_raise(thread: &Thread, nice: i32) -> bool {
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
    // A deadline was promised on all CPUs together.
    if task.schedule().policy == Policy::Deadline && deadline::has_bound() && !sched::is_everywhere(&words) {
        return Err(Errno::EBUSY);
    }
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
