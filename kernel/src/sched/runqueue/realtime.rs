//! Which CPU a real-time task runs on: so that those of the highest ranks run, each on a CPU that it may use. A rank is a priority or, above all those, how early a
//! deadline is: so the tasks with the earliest deadlines run.
//!
//! * A task that wakes, or begins, goes where it was if it may run there at once, else to a CPU that runs one of a lower rank.
//! * A CPU that has tasks to give away looks for such CPUs when it switches, and at ticks.
//! * A CPU whose own rank has become lower, or that idles, looks for a task of a higher one elsewhere.
//!
//! Each look is at a few CPUs, the near ones and some more each time. What a CPU shows (`Shown::rank`, `Stealable`) it writes only while it has
//! real-time tasks, and nobody reads it but for a real-time task: where there are none, no line is touched for them.

use super::super::realtime::{Line, Rank};
use super::super::task::Task;
use super::balance::look_around;
use super::deadline;
use super::machine::Machine;
use super::place::{self, Locked, SEARCH, first_of, make_look, near};
use super::queue::{Turn, throttled};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::machine::CpuId;

/// Tasks that go to other CPUs at one look.
const PUSHES: u32 = 4;

/// The CPUs looked at: the near ones, and those near another, which changes from look to look.
fn around(machine: &impl Machine) -> impl Iterator<Item = CpuId> {
    /// How long one look is like the last one, ns, as a shift: 4 ms.
    const STEP: u32 = 22;
    let (here, cpus) = (machine.here(), machine.cpus());
    let rest = cpus.saturating_sub(1 + SEARCH);
    let begin = (machine.now() >> STEP) as u32;
    let far = (0..rest.min(SEARCH))
        .map(move |n| (here + 1 + SEARCH + begin.wrapping_mul(SEARCH).wrapping_add(n) % rest) % cpus);
    (1..cpus.min(1 + SEARCH)).map(move |n| (here + n) % cpus).chain(far)
}

/// Of these CPUs an idle one or, if there is none, that of the lowest rank, if it is lower than `rank`.
fn lowest(
    machine: &impl Machine,
    task: &Task,
    rank: Rank,
    cpus: impl Iterator<Item = CpuId>,
) -> Option<CpuId> {
    let (mut best, mut least) = (None, rank);
    for cpu in cpus {
        let queue = machine.queue(cpu);
        let other = queue.rank();
        if other >= least || !queue.shown.online.load(Ordering::Relaxed) || !task.affinity().allows(cpu) {
            continue;
        }
        if other.is_none() && queue.idles() {
            return Some(cpu);
        }
        (best, least) = (Some(cpu), other.max(Rank::of_priority(1)));
    }
    best
}

/// Where a real-time task should run that wakes, or begins, on `home`.
pub fn choose(machine: &impl Machine, task: &Task, home: CpuId) -> CpuId {
    if let Some(only) = task.affinity().only() {
        return if only < machine.cpus() { only } else { home };
    }
    let rank = task.rank();
    let is_allowed = task.affinity().allows(home);
    if is_allowed && machine.queue(home).rank() < rank {
        return home;
    }
    let fallback = || if is_allowed { home } else { first_of(machine, task, home) };
    lowest(machine, task, rank, near(machine, home)).unwrap_or_else(fallback)
}

/// Puts a real-time task that has just been woken on a queue; `queue` is that of its CPU.
#[cold]
pub fn woken(machine: &impl Machine, mut queue: Locked<'_>, home: CpuId, task: Arc<Task>) {
    if task.class().has_deadline() {
        queue.arrive(&task, machine.now());
    }
    // Its registers are still being saved: it goes on there.
    let target = if task.on_cpu.is_on() { home } else { choose(machine, &task, home) };
    task.waits.begin(machine.now());
    go_to(machine, queue, home, target, task);
}

/// Puts a real-time task on a queue that begins, or has left this CPU.
#[cold]
pub fn begin(machine: &impl Machine, task: Arc<Task>) {
    let target = choose(machine, &task, machine.here());
    task.waits.begin(machine.now());
    enqueue(machine, machine.queue(target).queue.lock(), target, task);
}

/// Puts a task that waited here as one of priority `from` back, or elsewhere, as one of priority `to`; 0: as a fair one. One that has become less goes before
/// its equals.
#[cold]
pub fn put_changed(
    machine: &impl Machine,
    queue: Locked<'_>,
    cpu: CpuId,
    task: Arc<Task>,
    from: u32,
    to: u32,
) {
    task.realtime.set_first(to < from && to != 0);
    if let Some(entity) = task.deadline.get()
        && task.class().has_deadline()
    {
        entity.arrive(machine.now());
    }
    let stays = to == 0 || task.on_cpu.is_on();
    let target = if stays { cpu } else { choose(machine, &task, cpu) };
    go_to(machine, queue, cpu, target, task);
}

/// Puts a task on the queue of `target`; `queue` is that of `home`.
fn go_to(machine: &impl Machine, queue: Locked<'_>, home: CpuId, target: CpuId, task: Arc<Task>) {
    if target == home {
        return enqueue(machine, queue, home, task);
    }
    drop(queue);
    enqueue(machine, machine.queue(target).queue.lock(), target, task);
}

/// Puts a task of real time, or one that was of it just now, on a queue, and makes its CPU look if it should.
fn enqueue(machine: &impl Machine, mut queue: Locked<'_>, cpu: CpuId, task: Arc<Task>) {
    let (now, rank) = (machine.now(), task.rank());
    if rank.is_none() {
        return place::enqueue(machine, queue, cpu, task, 0, now);
    }
    if let Some(entity) = throttled(&task, rank, now) {
        drop(queue);
        return deadline::throttle(machine, entity, task);
    }
    let own = machine.queue(cpu);
    let turn = if queue.idles() || queue.gives_way_to(rank, now) { Turn::Now } else { Turn::Waits };
    queue.put_realtime(own, cpu, task, rank);
    make_look(machine, queue, cpu, turn, now);
}

/// A tick of this CPU, which has real-time tasks: should another task run?
#[cold]
pub fn tick(machine: &impl Machine) -> bool {
    look_around(machine);
    let own = machine.own_queue();
    let gives_way = own.queue.lock().tick_realtime(machine.now());
    push(machine);
    gives_way
}

/// Sends tasks to other CPUs, or takes one from there.
pub fn even_out(machine: &impl Machine) {
    push(machine);
    let own = machine.own_queue();
    for cpu in around(machine) {
        if machine.queue(cpu).rank_to_give() > own.rank() && pull(machine, cpu) {
            break;
        }
    }
    deadline::look_soon(machine);
}

/// Sends tasks that wait here to CPUs of lower ranks.
fn push(machine: &impl Machine) {
    let own = machine.own_queue();
    for _ in 0..PUSHES {
        if own.rank_to_give().is_none() {
            return;
        }
        let place = |task: &Task| lowest(machine, task, Line::rank_of(task), around(machine));
        let Some((task, target)) = own.queue.lock().take_realtime_for(own, place) else { return };
        enqueue(machine, machine.queue(target).queue.lock(), target, task);
    }
}

/// Takes a task that waits on `victim`, if its rank is higher than this CPU's.
pub fn pull(machine: &impl Machine, victim: CpuId) -> bool {
    let (here, source) = (machine.here(), machine.queue(victim));
    let least = machine.own_queue().rank();
    let place = |task: &Task| (Line::rank_of(task) > least && task.affinity().allows(here)).then_some(here);
    let Some((task, _)) =
        source.queue.try_lock().and_then(|mut queue| queue.take_realtime_for(source, place))
    else {
        return false;
    };
    enqueue(machine, machine.own_queue().queue.lock(), here, task);
    true
}
