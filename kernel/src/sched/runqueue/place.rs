//! Wake-up, birth, a change of affinity or of weight: which queue a task goes to.

use super::super::cpustat;
use super::super::task::{State, Task};
use super::super::work::Work;
use super::calls;
use super::machine::Machine;
use super::moves::{self, Why};
use super::queue::{Queue, Turn};
use super::realtime;
use crate::lock_order as level;
use alloc::sync::Arc;
use core::sync::atomic::{Ordering, fence};
use sync::SpinGuard;
use sync::machine::CpuId;
use sync::protocol::idle::Found;

/// CPUs looked at when an idle one is wanted.
pub const SEARCH: u32 = 16;
/// Who takes turns goes to a CPU only if that has idled for so long, ns: one that idles between two turns gets its task back soon.
const REST: u64 = 50_000;
/// Who wakes where so many wait is better where fewer do.
const CROWD: u32 = 4;

pub type Locked<'a> = SpinGuard<'a, Queue, level::RunQueue>;

/// Wakes `task` if it is in one of `states`; or another sleep that it has begun since, which is then over for nothing.
pub fn wake(machine: &impl Machine, task: &Task, states: &[State]) {
    // The waker's condition before the look at the state; `WaitQueue` has the other half.
    fence(Ordering::SeqCst);
    if states.contains(&task.state()) {
        let wanted = if task.affinity().only().is_none() && come_together(machine, task) {
            Wanted::Here
        } else if let Some(home) = calls::home_afar(machine, task) {
            return calls::call(machine, task, home);
        } else {
            Wanted::Anywhere
        };
        wake_from_here(machine, task, states, wanted);
    }
}

/// Where a task that is woken is best.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// On this CPU.
    Here,
    Anywhere,
}

/// Is `task` best on this CPU, since it and who wakes it take turns? Nobody else is to wait here, but for a moment, and it is to stay near its memory.
#[inline]
fn come_together(machine: &impl Machine, task: &Task) -> bool {
    machine.wakes()
        && task.partner.takes_turns()
        && (machine.own_queue().waiting() == 0 || is_no_worse_here(machine, task))
        && task.affinity().allows(machine.here())
        && is_on_our_node(machine, task)
}

/// The same where somebody waits here: not for long, as far as one can tell, if both are here; if he does, an idle CPU is better for one of them. Who comes finds no
/// more here than where it was, since who wakes it goes to sleep.
#[cold]
fn is_no_worse_here(machine: &impl Machine, task: &Task) -> bool {
    let home = task.sleep_node.cpu.get();
    if home == machine.here() {
        return machine.bears_company();
    }
    let others = machine.queue(home);
    !others.idles() && machine.own_queue().waiting() <= others.waiting()
}

fn is_on_our_node(machine: &impl Machine, task: &Task) -> bool {
    let home = task.sleep_node.cpu.get();
    machine.nodes() == 1 || machine.node_of(home) == machine.node_of(machine.here())
}

/// As `wake`, by this CPU's own hands.
pub(super) fn wake_from_here(machine: &impl Machine, task: &Task, states: &[State], wanted: Wanted) {
    let lock = |cpu| machine.queue(cpu).queue.lock();
    let (queue, home, state) = task.sleep_node.cpu.lock_seeing(lock, || task.state());
    if !states.contains(&state) {
        return;
    }
    task.set_state(State::Running);
    if queue.is_current(task) {
        return;
    }
    if state != State::Interruptible {
        cpustat::unblocks();
    }
    // SAFETY: made `Running` just now under the lock, and not current: see the head of `runqueue`.
    let owned = unsafe { task.take_run_reference() };
    if task.class().is_realtime() {
        return realtime::woken(machine, queue, home, owned);
    }
    let now = machine.now();
    let lag = queue.lag_of(task, now);
    let target = match wanted {
        _ if task.on_cpu.is_on() => home,
        Wanted::Here if task.affinity().allows(machine.here()) => machine.here(),
        _ => choose(machine, task, home),
    };
    if target == home {
        enqueue(machine, queue, home, owned, lag, now);
    } else {
        drop(queue);
        let why = if wanted == Wanted::Here { Why::TakesTurns } else { Why::Wakes };
        moves::count(machine, why, home, target);
        enqueue(machine, machine.queue(target).queue.lock(), target, owned, lag, now);
    }
}

/// Puts a new task, whose run reference this is, on a queue.
pub fn start(machine: &impl Machine, task: Arc<Task>) {
    // The first place is no move.
    if task.class().is_realtime() {
        task.sleep_node.cpu.begin(realtime::choose(machine, &task, machine.here()));
        return realtime::begin(machine, task);
    }
    let target = place_of(machine, &task);
    task.sleep_node.cpu.begin(target);
    put_on(machine, target, task);
}

/// Where a task is to be that has no place.
fn place_of(machine: &impl Machine, task: &Task) -> CpuId {
    let here = machine.here();
    match task.affinity().only() {
        Some(cpu) if cpu < machine.cpus() => cpu,
        _ => find_vacant(machine, task, here)
            .or_else(|| find_idle(machine, task, here, Cores::Any))
            .unwrap_or_else(|| find_least(machine, task, here)),
    }
}

/// Puts a task that is owed nothing on the queue of `target`.
fn put_on(machine: &impl Machine, target: CpuId, task: Arc<Task>) {
    let queue = machine.queue(target).queue.lock();
    enqueue(machine, queue, target, task, 0, machine.now());
}

/// As `start`, for a task that has just left this CPU.
pub fn send_away(machine: &impl Machine, task: Arc<Task>) {
    let here = machine.here();
    let lag = machine.own_queue().queue.lock().lag_of(&task, machine.now());
    if task.class().is_realtime() {
        return realtime::begin(machine, task);
    }
    let target =
        find_idle(machine, &task, here, Cores::Any).unwrap_or_else(|| find_least(machine, &task, here));
    moves::count(machine, Why::Leaves, here, target);
    let queue = machine.queue(target).queue.lock();
    enqueue(machine, queue, target, task, lag, machine.now());
}

/// Locks the queue that `task` belongs to.
pub fn lock_queue_of<'a>(machine: &'a impl Machine, task: &Task) -> (Locked<'a>, CpuId) {
    task.sleep_node.cpu.lock(|cpu| machine.queue(cpu).queue.lock())
}

/// Puts a task that is owed `lag` on a queue, and makes its CPU look if it should.
pub fn enqueue(
    machine: &impl Machine,
    mut queue: Locked<'_>,
    cpu: CpuId,
    task: Arc<Task>,
    lag: i64,
    now: u64,
) {
    queue.place(cpu, &task, lag, now, machine.slice());
    task.waits.begin(now);
    enqueue_placed(machine, queue, cpu, task, now);
}

/// Puts a task that has its place on a queue, and makes its CPU look if it should.
pub fn enqueue_placed(machine: &impl Machine, mut queue: Locked<'_>, cpu: CpuId, task: Arc<Task>, now: u64) {
    let running = queue.running(now);
    let turn = queue.turn_of(&task, running);
    queue.put(machine.queue(cpu), cpu, task, running);
    make_look(machine, queue, cpu, turn, now);
}

/// Something was put on a queue: its CPU looks when that is to have its turn.
#[inline(always)]
pub fn make_look(machine: &impl Machine, queue: Locked<'_>, cpu: CpuId, turn: Turn, now: u64) {
    let own = machine.queue(cpu);
    if turn == Turn::Now
        && let Some(current) = &queue.current
    {
        current.work.set(Work::RESCHED);
    }
    drop(queue);
    if cpu != machine.here() {
        // A CPU that is told looks when the turn of its task is over: `expect_turn`.
        let is_told = match own.shown.idle.take() {
            Found::Looking => false,
            Found::Halted => true,
            Found::Busy => turn != Turn::Waits,
        };
        if is_told {
            machine.kick(cpu);
        }
        return;
    }
    match turn {
        Turn::Now => {}
        Turn::In(left) => machine.look_at(now + left),
        Turn::Waits => machine.tick_sooner(now),
    }
}

/// Where a woken task should run: where it was if it must, or that CPU idles and no core as a whole; else on an idle one of the same node, where its memory
/// is; else where it was, or near it where it is far less crowded. If it waits there for long, an idle CPU of another node comes for it: `balance`.
fn choose(machine: &impl Machine, task: &Task, home: CpuId) -> CpuId {
    if let Some(only) = task.affinity().only() {
        return if only < machine.cpus() { only } else { home };
    }
    let allowed = task.affinity().allows(home);
    if allowed && machine.queue(home).idles() {
        let is_best = is_alone(machine, home);
        return if is_best { home } else { find_core(machine, task, home, Cores::OfNode).unwrap_or(home) };
    }
    if allowed {
        let rest = if task.partner.takes_turns() { REST } else { 0 };
        find_idle_of_node(machine, task, home, rest).unwrap_or_else(|| less_crowded(machine, task, home))
    } else {
        find_idle(machine, task, home, Cores::OfNode).unwrap_or_else(|| first_of(machine, task, home))
    }
}

/// The less crowded of two CPUs near `home`, others each time, if less than half as many wait there; else `home`. Of many that wake at once the first would else
/// run alone until ticks have shared out the others.
fn less_crowded(machine: &impl Machine, task: &Task, home: CpuId) -> CpuId {
    let (cpus, waiting) = (machine.cpus(), machine.queue(home).waiting());
    if waiting < CROWD || cpus == 1 {
        return home;
    }
    let step = machine.own_queue().looks.next_crowd();
    let others = (cpus - 1).min(SEARCH);
    let (mut best, mut least) = (home, waiting / 2);
    for n in [step, step.wrapping_add(1)] {
        let cpu = (home + 1 + n % others) % cpus;
        let queue = machine.queue(cpu);
        if queue.waiting() < least
            && queue.shown.online.load(Ordering::Relaxed)
            && task.affinity().allows(cpu)
        {
            (best, least) = (cpu, queue.waiting());
        }
    }
    best
}

pub fn first_of(machine: &impl Machine, task: &Task, home: CpuId) -> CpuId {
    (0..machine.cpus()).find(|cpu| task.affinity().allows(*cpu)).unwrap_or(home)
}

/// The CPUs looked at for one near `start`: its own node first.
pub fn near(machine: &impl Machine, start: CpuId) -> impl Iterator<Item = CpuId> {
    let cpus = machine.cpus();
    let node = machine.node_of(start);
    let both = if machine.nodes() == 1 { &[true][..] } else { &[true, false] };
    both.iter().copied().flat_map(move |own_node| {
        (1..cpus)
            .map(move |i| (start + i) % cpus)
            .filter(move |cpu| (machine.node_of(*cpu) == node) == own_node)
            .take(SEARCH as usize)
    })
}

/// Do all other threads of the core of `cpu` idle?
#[inline]
pub fn is_alone(machine: &impl Machine, cpu: CpuId) -> bool {
    if !machine.has_threads() {
        return true;
    }
    let mut other = machine.next_thread(cpu);
    while other != cpu {
        if !machine.queue(other).idles() {
            return false;
        }
        other = machine.next_thread(other);
    }
    true
}

/// Which cores that idle as a whole are better than an idle thread of one that does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// Those of other nodes too: for who has little memory here yet.
    Any,
    OfNode,
}

/// An idle CPU that `task` may run on: of a core that idles as a whole if there is one.
pub fn find_idle(machine: &impl Machine, task: &Task, start: CpuId, cores: Cores) -> Option<CpuId> {
    let idle = near(machine, start).filter(|cpu| machine.queue(*cpu).idles());
    first_idle(machine, task, idle, cores)
}

/// The same of the node of `start` alone, and one that has idled for `rest` ns.
fn find_idle_of_node(machine: &impl Machine, task: &Task, start: CpuId, rest: u64) -> Option<CpuId> {
    let node = machine.node_of(start);
    let of_node = near(machine, start).take_while(|cpu| machine.node_of(*cpu) == node);
    let rests = |cpu: &CpuId| {
        let queue = machine.queue(*cpu);
        queue.idles() && (rest == 0 || queue.idles_for(machine.now(), rest))
    };
    first_idle(machine, task, of_node.filter(rests), Cores::OfNode)
}

/// An idle CPU of the node of `start` that whoever ran there last has left for good: who sleeps elsewhere finds its own CPU idle when it wakes.
fn find_vacant(machine: &impl Machine, task: &Task, start: CpuId) -> Option<CpuId> {
    let node = machine.node_of(start);
    near(machine, start).take_while(|cpu| machine.node_of(*cpu) == node).find(|cpu| {
        let queue = machine.queue(*cpu);
        queue.idles() && queue.is_vacant() && is_alone(machine, *cpu) && task.affinity().allows(*cpu)
    })
}

/// Of idle CPUs.
fn first_idle(
    machine: &impl Machine,
    task: &Task,
    among: impl Iterator<Item = CpuId>,
    cores: Cores,
) -> Option<CpuId> {
    let mut idle = among.filter(|cpu| task.affinity().allows(*cpu));
    if !machine.has_threads() {
        return idle.next();
    }
    let first = idle.next()?;
    if is_alone(machine, first) {
        return Some(first);
    }
    let node = machine.node_of(first);
    Some(
        idle.take_while(|cpu| cores == Cores::Any || machine.node_of(*cpu) == node)
            .find(|cpu| is_alone(machine, *cpu))
            .unwrap_or(first),
    )
}

/// A CPU that `task` may run on, whose core idles as a whole.
#[cold]
pub fn find_core(machine: &impl Machine, task: &Task, start: CpuId, cores: Cores) -> Option<CpuId> {
    let node = machine.node_of(start);
    near(machine, start)
        .take_while(|cpu| cores == Cores::Any || machine.node_of(*cpu) == node)
        .find(|cpu| machine.queue(*cpu).idles() && is_alone(machine, *cpu) && task.affinity().allows(*cpu))
}

/// Would the running task, whose memory and caches are new, do better elsewhere? It has this CPU not for itself.
pub fn is_better_elsewhere(machine: &impl Machine, task: &Task) -> bool {
    let (here, waiting) = (machine.here(), machine.own_queue().waiting());
    task.affinity().only().is_none()
        && !task.class().is_realtime()
        && (find_idle(machine, task, here, Cores::Any).is_some()
            || find_shortest(machine, task, here, waiting.saturating_sub(1)).is_some())
}

/// A CPU on which fewer than `most` tasks wait, and the fewest. What waits is counted exactly and read from lines that others write, but only by who comes where tasks wait.
fn find_shortest(machine: &impl Machine, task: &Task, start: CpuId, mut most: u32) -> Option<CpuId> {
    let mut best = None;
    if most == 0 {
        return None;
    }
    for cpu in near(machine, start).filter(|cpu| task.affinity().allows(*cpu)) {
        let queue = machine.queue(cpu);
        if queue.shown.online.load(Ordering::Relaxed) && queue.waiting() < most {
            (most, best) = (queue.waiting(), Some(cpu));
        }
    }
    best
}

/// A CPU that has clearly less to do than `start`, as tasks wait there or as CPUs show it; else `start`.
fn find_least(machine: &impl Machine, task: &Task, start: CpuId) -> CpuId {
    let load = |cpu: CpuId| machine.queue(cpu).load.0.load(Ordering::Relaxed);
    let allowed = task.affinity().allows(start);
    let waiting = machine.queue(start).waiting();
    if allowed && waiting > 0 {
        return find_shortest(machine, task, start, waiting).unwrap_or(start);
    }
    let mut least = if allowed { load(start) / 4 * 3 } else { u64::MAX };
    let mut best = if allowed { start } else { first_of(machine, task, start) };
    for cpu in near(machine, start).filter(|cpu| task.affinity().allows(*cpu)) {
        if machine.queue(cpu).shown.online.load(Ordering::Relaxed) && load(cpu) < least {
            (least, best) = (load(cpu), cpu);
        }
    }
    best
}

/// See `runqueue::move_if_needed`: the CPU that runs the task, if it may not any more.
pub fn move_if_needed(machine: &impl Machine, task: &Task) -> Option<CpuId> {
    let (mut queue, cpu) = lock_queue_of(machine, task);
    let (own, runs) = (machine.queue(cpu), queue.is_current(task));
    let waits = queue.is_waiting_here(cpu, task);
    if (runs || waits) && task.affinity().allows(cpu) {
        if waits {
            queue.affinity_changed(own, task);
        }
        return None;
    }
    if waits && !task.on_cpu.is_on() {
        // SAFETY: `is_waiting_here` said so, under this lock.
        let owned = unsafe { queue.take(own, task) };
        drop(queue);
        if let Some(task) = owned {
            if task.class().is_realtime() {
                realtime::begin(machine, task);
            } else {
                put_on(machine, place_of(machine, &task), task);
            }
        }
        return None;
    }
    drop(queue);
    // Perhaps it was between two queues, and runs by now: `protocol::home`.
    let lock = |cpu| machine.queue(cpu).queue.lock();
    let (queue, cpu) = task.sleep_node.cpu.tell(|| task.work.set(Work::RESCHED), lock);
    queue.is_current(task).then_some(cpu)
}

/// The weight or the class of `task` has changed. The CPU that runs it, where it is to take it up; one that sleeps does when it wakes.
pub fn changed(machine: &impl Machine, task: &Task) -> Option<CpuId> {
    let (mut queue, cpu) = lock_queue_of(machine, task);
    task.fair.refresh();
    if queue.is_current(task) {
        task.work.set(Work::RESCHED);
        return Some(cpu);
    }
    if queue.is_waiting_here(cpu, task) {
        let (from, to) = (queue.priority_of_waiting(task), task.class().priority());
        if from != to {
            // SAFETY: as it says, under this lock.
            let owned = unsafe { queue.take(machine.queue(cpu), task) };
            if let Some(task) = owned {
                realtime::put_changed(machine, queue, cpu, task, from, to);
            }
        } else if to == 0 {
            // SAFETY: as it says, under this lock.
            unsafe { queue.reweigh(task, machine.now()) };
        }
    } else if task.state() == State::Running {
        // It is on its way to a queue, and may have been looked at before the change.
        task.work.set(Work::RESCHED);
    }
    None
}
