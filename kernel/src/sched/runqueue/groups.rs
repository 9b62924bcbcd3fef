//! What a CPU does about groups of tasks (`super::super::group`): at ticks it finds out whether groups compete, shows what it has of each, and finds out which
//! part of its own weight a task counts with; and a task changes its group.
//!
//! A tick looks at the group of who runs, and at [`VISITS`] of the groups that had tasks here lately. Sums are taken where somebody waits (elsewhere seldom), over
//! [`LOOKS`] CPUs at a time. Who runs takes its new weight up at the tick; whoever waits when it has had a turn.

use super::super::fair::ONE;
use super::super::group::{Cell, Group};
use super::super::task::{State, Task};
use super::super::work::Work;
use super::machine::Machine;
use super::place::{Locked, lock_queue_of};
use super::queue::{CpuQueue, MIXED, Queue};
use super::quota;
use core::ptr;
use core::sync::atomic::Ordering::*;
use intrusive_collections::UnsafeRef;
use sync::machine::CpuId;

/// Groups looked at in a tick, beside that of who runs.
const VISITS: u32 = 4;
/// Other CPUs whose part of a group is looked at in a tick.
const LOOKS: u32 = 32;
/// Tasks that wait, and are looked at in a tick: of those that may run and of the others.
const WAITING: usize = 4;
/// How far a virtual time may go.
const FAR: u64 = 1 << 62;

/// A tick of this CPU.
pub fn tick(machine: &impl Machine) {
    if count(machine) {
        quota::look_soon(machine);
    }
}

/// Counts what runs here, if it is to be counted. Is it?
fn count(machine: &impl Machine) -> bool {
    let (own, here) = (machine.own_queue(), machine.here());
    let mut queue = own.queue.lock();
    queue.keep_time_below(FAR);
    let Some(current) = queue.fair_current() else { return false };
    let group = current.slot.group().filter(|group| group.counts()).map(ptr::from_ref);
    let (name, is_kernels) = (name(current), is_kernels(current));
    if group.is_none() && queue.cells.is_empty() && !current.slot.is_counted() {
        if !is_kernels {
            queue.mix.see_here(MIXED, false);
            queue.mix.shown(MIXED, MIXED).into_iter().for_each(|name| own.show_group(name));
        }
        return false;
    }
    let sees = !is_kernels && look_around(machine, &mut queue, own, name);
    if let Some(group) = group
        && queue.mix.is_certain()
    {
        // SAFETY: who runs this is the task itself, or a test that keeps the group; nobody sleeps here.
        let group = unsafe { &*group };
        if group.cell(here).is_none() {
            drop(queue);
            let made = group.try_cell(here, machine.cpus());
            if made.is_err() {
                // Without memory it counts as if it were in no group.
                return false;
            }
            queue = own.queue.lock();
        }
        group.cell(here).filter(|cell| !cell.counts()).into_iter().for_each(Cell::begin);
    }
    look(machine, &mut queue, here, sees);
    queue.fair_current().is_some_and(|task| task.slot.is_counted())
}

/// How a CPU names the group of a task to others.
fn name(task: &Task) -> u64 {
    task.slot.group().filter(|group| group.counts()).map_or(MIXED, |group| ptr::from_ref(group) as u64)
}

/// A task of the kernel's own. It runs now and then on any CPU, and not for long, which does not make groups compete: if they counted on some CPUs and not on
/// others, tasks of one group would weigh more here than there.
fn is_kernels(task: &Task) -> bool {
    task.thread.is_none() && task.slot.group().is_none()
}

/// Do groups compete here, or with other CPUs? Says whether other CPUs are looked at in this tick.
fn look_around(machine: &impl Machine, queue: &mut Queue, own: &CpuQueue, current: u64) -> bool {
    let is_contended = own.waiting() != 0;
    let is_other = |task: &Task| !is_kernels(task) && name(task) != current;
    let others_wait = is_contended && queue.next(WAITING).any(is_other);
    queue.mix.see_here(current, others_wait);
    queue.mix.shown(current, MIXED).into_iter().for_each(|name| own.show_group(name));
    let is_time = queue.mix.is_time(is_contended);
    if is_time {
        let here = machine.here();
        queue.mix.look_afar(machine.cpus(), LOOKS, |cpu| {
            let other = machine.queue(cpu);
            let shown = other.group();
            cpu != here && shown != 0 && shown != current && !other.idles()
        });
    }
    is_time
}

fn look(machine: &impl Machine, queue: &mut Queue, here: CpuId, sees: bool) {
    let Some(current) = queue.fair_current() else { return };
    // SAFETY: it is not given up while it is `current`, which the lock keeps.
    let current = unsafe { &*ptr::from_ref(current) };
    let group = current.slot.group();
    let cell = group.and_then(|group| group.cell(here)).filter(|cell| cell.counts());
    queue.count_running(cell, current);
    if let (Some(cell), Some(group)) = (cell, group) {
        queue.link(cell, group);
        visit(machine, queue, group, cell, sees);
    }
    let factor = cell.map_or(ONE, Cell::factor);
    if current.fair.factor() != factor {
        current.fair.set_factor(factor);
    }
    queue.reweigh_current(machine.now());
    for _ in 0..VISITS {
        let Some(next) = queue.cells.pop_front() else { return };
        // SAFETY: the group is linked here as long as it is there (`end`).
        let group = unsafe { next.group.load(Relaxed).as_ref() };
        let is_seen = cell.is_some_and(|cell| ptr::eq(cell, &raw const *next));
        let is_over = match group {
            Some(group) if !is_seen => visit(machine, queue, group, &next, sees),
            _ => false,
        };
        if !is_over {
            queue.cells.push_back(next);
        }
    }
}

/// Looks at what this CPU has of a group. Is there nothing left to look at?
fn visit(machine: &impl Machine, queue: &Queue, group: &Group, cell: &Cell, sees: bool) -> bool {
    let competes = group.counts() && !queue.mix.is_over();
    if group.bandwidth().is_limited() {
        // It is counted whoever else is here.
        if cell.follow() || !competes {
            cell.set_factor(ONE);
            return cell.weight() == 0;
        }
    } else if !competes || cell.follow() {
        cell.stop();
        return true;
    }
    if sees {
        cell.look_at_others(machine.cpus(), LOOKS, |cpu| {
            if machine.queue(cpu).idles() { 0 } else { group.cell(cpu).map_or(0, Cell::shown) }
        });
        // While none is here the sum only fades: who comes has the part that those before him had.
        if cell.weight() != 0 {
            cell.set_factor(part(group.weight(), cell.total().max(cell.weight())));
        }
    }
    false
}

/// What part of its own weight each task of a group counts with, whose tasks have this weight together. They count no more than the group does, and one
/// alone as the group.
fn part(weight: u64, total: u64) -> u64 {
    const MOST: u64 = ONE << 14;
    weight.saturating_mul(ONE).checked_div(total).unwrap_or(ONE).clamp(1, MOST)
}

/// Gives a task another group. It may run, wait or sleep, on any CPU.
pub fn regroup(machine: &impl Machine, task: &Task, group: *const Group) {
    let Some(runs_on) = with_queue(machine, task, |queue, cpu, at| {
        if at != At::Asleep {
            queue.leave_group_awake(task);
        }
        task.slot.set_group(group);
        task.fair.set_factor(ONE);
        task.slot.find_cell();
        if at != At::Asleep && queue.is_fair(task) {
            queue.enter_group(cpu, task);
        }
        match at {
            At::Runs if task.fair.weight_changed() => {
                task.expect_change();
                task.work.set(Work::RESCHED);
                Some(cpu)
            }
            At::WaitsFair => {
                // SAFETY: it waits here among the fair ones, under this lock.
                unsafe { queue.reweigh(task, machine.now()) };
                None
            }
            _ => None,
        }
    }) else {
        return;
    };
    if runs_on != machine.here() {
        machine.kick(runs_on);
    }
}

/// What a task does that is looked at under the lock of its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    Runs,
    WaitsFair,
    /// Among those of real time.
    Waits,
    Asleep,
}

/// Calls `f` under the lock of a task's queue while the task is there. One that is between two queues gets there by steps that nobody interrupts: a
/// move takes two locks, one after the other, and does not sleep between.
pub fn with_queue<R>(machine: &impl Machine, task: &Task, f: impl FnOnce(&mut Queue, CpuId, At) -> R) -> R {
    loop {
        let (mut queue, cpu): (Locked<'_>, CpuId) = lock_queue_of(machine, task);
        let at = if queue.is_current(task) {
            At::Runs
        } else if queue.is_waiting_here(cpu, task) {
            if task.run_link.is_linked() { At::WaitsFair } else { At::Waits }
        } else if task.state() != State::Running {
            At::Asleep
        } else {
            drop(queue);
            core::hint::spin_loop();
            continue;
        };
        return f(&mut queue, cpu, at);
    }
}

/// The group goes: no queue leads to it from now on. It has no tasks any more.
pub fn end(machine: &impl Machine, group: &Group) {
    for cell in group.cells() {
        let mut queue = machine.queue(cell.cpu()).queue.lock();
        queue.unlink(cell);
    }
}

impl Queue {
    /// The CPU looks at its part of the group from now on.
    pub fn link(&mut self, cell: &Cell, group: &Group) {
        if cell.link.is_linked() {
            return;
        }
        cell.group.store(ptr::from_ref(group).cast_mut(), Relaxed);
        // SAFETY: `end` takes it off the list before it goes.
        self.cells.push_back(unsafe { UnsafeRef::from_raw(cell) });
    }

    fn unlink(&mut self, cell: &Cell) {
        if cell.link.is_linked() {
            // SAFETY: a cell is on the list of its CPU or on none.
            unsafe { self.cells.cursor_mut_from_ptr(cell) }.remove();
        }
    }
}
