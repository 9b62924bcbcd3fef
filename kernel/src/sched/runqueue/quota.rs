//! What a CPU does about quotas of groups (`super::super::group::Bandwidth`): it counts what tasks of such groups have run at ticks, when what its cell has is used up, and when
//! they are on their way to user mode, and tells who runs to look whether anything is left.
//!
//! Who is in no group with a quota is never looked at: it is not counted, or has no flag that makes it look.

use super::super::group::{Group, Quota};
use super::super::task::Task;
use super::super::work::Work;
use super::groups::{At, with_queue};
use super::machine::Machine;
use super::queue::Queue;
use alloc::sync::Arc;
use sync::machine::CpuId;

/// What is used up sooner than this is looked at then, ns.
const GRAIN: u64 = 100_000;

/// What the running task's group has left here.
struct Left {
    task: Arc<Task>,
    quota: Quota,
    ns: u64,
}

/// Counts what the running task has run; None: its group has no quota.
fn count(queue: &mut Queue, here: CpuId, now: u64) -> Option<Left> {
    let task = queue.running_fair()?.clone();
    let group = task.slot.group()?;
    let quota = group.bandwidth().quota()?;
    let cell = group.cell(here)?;
    task.raise_on_resume(Work::QUOTA);
    task.account(now, true);
    queue.count_running(Some(cell), &task);
    queue.link(cell, group);
    let ns = cell.quota_left(group.bandwidth(), quota, now);
    Some(Left { quota, ns, task: task.clone() })
}

/// Looks at the running task, which its group counts. When to look again; `u64::MAX`: not before something else happens.
pub fn look(machine: &impl Machine) -> u64 {
    let now = machine.now();
    let left = count(&mut machine.own_queue().queue.lock(), machine.here(), now);
    match left {
        None => u64::MAX,
        Some(Left { task, ns: 0, .. }) => {
            task.work.set(Work::QUOTA);
            u64::MAX
        }
        Some(Left { ns, .. }) => now.saturating_add(ns.max(GRAIN)),
    }
}

/// This CPU looks when it has to.
pub fn look_soon(machine: &impl Machine) {
    match look(machine) {
        u64::MAX => {}
        time => machine.look_at(time),
    }
}

/// The running task is on its way to user mode: until when it has to wait; None: something is left, or its group has no quota.
pub fn wait(machine: &impl Machine, task: &Task) -> Option<u64> {
    let now = machine.now();
    let Some(left) = count(&mut machine.own_queue().queue.lock(), machine.here(), now) else {
        if !task.class().is_realtime() {
            task.stop_raising(Work::QUOTA);
        }
        return None;
    };
    if left.ns == 0 {
        return Some(left.quota.next(now));
    }
    machine.look_at(now.saturating_add(left.ns.max(GRAIN)));
    None
}

/// The group has a quota from now on. What was run before is not held against it, if it had none.
pub fn begin(machine: &impl Machine, group: &Group) {
    for cell in group.cells() {
        let _queue = machine.queue(cell.cpu()).queue.lock();
        cell.begin_quota();
    }
}

/// A task of a group whose quota has changed: it is counted from now on, and looks.
pub fn expect(machine: &impl Machine, task: &Task) {
    let runs_on = with_queue(machine, task, |_, cpu, at| {
        if !task.slot.is_counted() {
            task.slot.find_cell();
        }
        task.raise_on_resume(Work::QUOTA);
        task.work.set(Work::QUOTA);
        (at == At::Runs).then_some(cpu)
    });
    if let Some(cpu) = runs_on.filter(|cpu| *cpu != machine.here()) {
        machine.kick(cpu);
    }
}
