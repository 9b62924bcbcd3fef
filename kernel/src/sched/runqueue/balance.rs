//! Tasks that move because one CPU has more to do than another.
//!
//! A CPU's virtual time goes the slower the more it has to do. So of two CPUs the one whose time is behind owes its tasks what the other's have had
//! already: at ticks a CPU compares times with one other, and a task that is owed more than [`GAP`] moves to the CPU whose time is ahead. There it
//! runs first. So each task gets its share of all CPUs, also where tasks cannot be divided evenly: three on two CPUs take turns at having one for
//! themselves. What a task is ever owed stays about [`GAP`], however long it runs.
//!
//! Times are compared through an `offset`. A CPU whose tasks cannot be helped, as one that has a whole CPU for itself and is due more, falls behind no
//! further than [`MOST`]; one that has idled begins anew. Where many tasks were and one is left, that one is not paid for those that have gone: they took
//! along at most [`MOST_GAPS`] times what it takes to move, and the CPU has what it lies behind cut to [`MOST_OF_REST`].
//!
//! Two are looked at: one at a distance of a power of two, which changes from look to look, so that a difference gets everywhere in as many looks as the
//! number of CPUs has digits; and each other CPU in turn. Nobody looks at all. A CPU that finds nothing to do looks half as often the next time. Where
//! nobody has tasks to give away, the look reads lines that nobody writes.
//!
//! An idle CPU takes the task that has waited longest where tasks are shown, without comparing; one of another node, or that has just run, only once it has
//! waited for some time. A CPU with tasks to give away wakes an idle one at ticks, and that another one when more are left.

use super::super::fair::{NICE_0, ONE, UNIT, effective, virtual_ns};
use super::super::task::Task;
use super::groups;
use super::machine::Machine;
use super::moves::{self, Why};
use super::place::{enqueue_placed, is_alone, near};
use super::push;
use super::queue::{Has, Queue};
use super::realtime;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use sync::machine::CpuId;

/// What a task of nice 0 is owed when it moves, ns of run time. Between two nodes it is four times that.
const GAP: u64 = 12_000_000;
/// The same at least, however many tasks a CPU has.
const LEAST_GAP: u64 = 3_000_000;
/// Tasks of less own weight move as soon as one of this.
const LIGHT: u64 = NICE_0 / 3;
/// How many times that a task takes along at most.
const MOST_GAPS: u64 = 5;
/// How far a CPU's time may lie behind another's, ns, where nothing can be done about it: its one task is due more than a CPU.
const MOST: u64 = 300_000_000;
/// The same of a CPU that has much less to do, and so catches up: those that it owed more have gone.
const MOST_OF_REST: u64 = 48_000_000;
/// The most ticks between two comparisons.
const REST: u32 = 4;
/// Other CPUs that one with tasks to give away looks at for an idle one, at each tick.
const AWAKE: u32 = 16;
/// The same for one that has just taken one of several.
const AWAKE_MORE: u32 = 64;
/// Who has run just now waits for so long before an idle CPU takes it, ns: it may go on at once, where its memory is near.
const HOT: u64 = 500_000;
/// The same of one that has just woken where no more than so many wait: whoever runs there may sleep soon.
const WARM: u64 = 200_000;
const FEW: u32 = 4;
/// The same before an idle CPU of another node takes whoever waits.
const NEAR_MEMORY: u64 = 2_000_000;
/// Other CPUs that an idle one looks at.
const SEARCH: u32 = 16;

/// What a CPU's balancer remembers; its own CPU comes here alone.
pub struct Looks {
    /// Looks for an idle CPU so far, and for a task elsewhere.
    step: AtomicU32,
    /// Comparisons so far.
    compared: AtomicU32,
    /// Ticks until times are compared next, and how many there were before.
    rest: AtomicU32,
    interval: AtomicU32,
    /// The weight of the CPU's tasks, over the last ticks.
    load: AtomicU64,
    /// Ticks in a row at which the running task would have been better elsewhere: see `push`.
    pub(super) crowded: AtomicU32,
    /// At the last tick an idle CPU was woken for a task that waits here.
    offered: AtomicBool,
    /// A task has ended on this CPU, and no other waited.
    ended: AtomicBool,
    /// The CPU's switches when it was asked for that last.
    switches: AtomicU64,
    /// Wake-ups so far at which tasks crowded where the woken one was.
    crowds: AtomicU32,
}

impl Looks {
    pub const fn new() -> Self {
        Self {
            step: AtomicU32::new(0),
            compared: AtomicU32::new(0),
            rest: AtomicU32::new(1),
            interval: AtomicU32::new(1),
            load: AtomicU64::new(0),
            crowded: AtomicU32::new(0),
            offered: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            switches: AtomicU64::new(0),
            crowds: AtomicU32::new(0),
        }
    }

    /// Is it time to compare?
    fn is_time(&self) -> bool {
        let rest = self.rest.load(Relaxed).saturating_sub(1);
        self.rest.store(rest, Relaxed);
        rest == 0
    }

    /// A task ends, and the CPU is about to idle.
    pub fn note_end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// The CPU idles, and has had so many switches: has the task ended that ran last? Nothing: none has run since this was asked.
    pub(super) fn take_end(&self, switches: u64) -> Option<bool> {
        if self.switches.load(Relaxed) == switches {
            return None;
        }
        self.switches.store(switches, Relaxed);
        let ended = self.ended.load(Relaxed);
        self.ended.store(false, Relaxed);
        Some(ended)
    }

    /// Counts a wake-up at which tasks crowd: how many there were before.
    pub fn next_crowd(&self) -> u32 {
        let crowds = self.crowds.load(Relaxed);
        self.crowds.store(crowds.wrapping_add(1), Relaxed);
        crowds
    }

    /// The CPU idles: what it had to do before says nothing any more.
    pub fn forget_load(&self) {
        self.load.store(0, Relaxed);
    }

    /// Something was to be done, or not.
    fn end(&self, found: bool) {
        let interval = if found { 1 } else { (self.interval.load(Relaxed) * 2).min(REST) };
        self.interval.store(interval, Relaxed);
        self.rest.store(interval, Relaxed);
    }
}

/// The CPU to compare with at the `step`th look.
fn partner(here: CpuId, cpus: u32, step: u32) -> CpuId {
    // As many distances as `cpus` has digits; then the same in the other direction.
    let digits = u32::BITS - (cpus - 1).leading_zeros();
    let distance = 1 << (step % digits);
    let forward = (step / digits).is_multiple_of(2);
    (here + if forward { distance } else { cpus - distance % cpus }) % cpus
}

/// A tick of this CPU: should another task run?
pub fn tick(machine: &impl Machine) -> bool {
    let own = machine.own_queue();
    if !own.rank().is_none() {
        return realtime::tick(machine);
    }
    groups::tick(machine);
    // Who waits and is offered would else run here before the other CPU comes for it, and wait again at the next offer. Not twice in a row, should nobody come.
    let offered = look_around(machine);
    let stays = offered && !own.looks.offered.load(Relaxed);
    own.looks.offered.store(offered, Relaxed);
    own.waiting() != 0 && !stays
}

/// The part of a tick that has to do with other CPUs. Does one come for a task that waits here?
pub fn look_around(machine: &impl Machine) -> bool {
    if machine.cpus() == 1 {
        return false;
    }
    let offered = look(machine);
    push::look(machine);
    show_load(machine);
    offered
}

/// Shows the CPU's load when it has changed by a quarter.
fn show_load(machine: &impl Machine) {
    let own = machine.own_queue();
    let now = own.queue.lock().load();
    let load = (own.looks.load.load(Relaxed) * 3 + now) / 4;
    own.looks.load.store(load, Relaxed);
    let shown = own.load.0.load(Relaxed);
    if load.abs_diff(shown) > shown / 4 {
        own.load.0.store(load, Relaxed);
    }
}

fn look(machine: &impl Machine) -> bool {
    let own = machine.own_queue();
    let offered = own.is_stealable() && wake_idle(machine, machine.here(), AWAKE);
    if !own.looks.is_time() {
        return offered;
    }
    let (here, cpus) = (machine.here(), machine.cpus());
    let n = own.looks.compared.load(Relaxed);
    own.looks.compared.store(n.wrapping_add(1), Relaxed);
    // Every other CPU in turn, beside that at a distance of a power of two.
    let pair = [partner(here, cpus, n), (here + 1 + n % (cpus - 1)) % cpus];
    let found = pair.into_iter().any(|other| {
        let queue = machine.queue(other);
        other != here
            && queue.shown.online.load(Relaxed)
            && (own.is_stealable() || queue.is_stealable())
            && compare(machine, here, other)
    });
    own.looks.end(found);
    offered
}

/// Wakes an idle CPU, if one of the `looks` that are looked at this time may run what waits on `from`. May none, but one may run who runs here, that one goes there: so
/// it does not depend on who waits at a tick how soon an idle CPU is found. True: a CPU comes for what waits.
fn wake_idle(machine: &impl Machine, from: CpuId, looks: u32) -> bool {
    let (own, source, cpus) = (machine.own_queue(), machine.queue(from), machine.cpus());
    let looks = looks.min(cpus - 1);
    let step = own.looks.step.load(Relaxed);
    own.looks.step.store(step.wrapping_add(looks), Relaxed);
    let idles = || {
        (0..looks)
            .map(|n| (machine.here() + 1 + step.wrapping_add(n) % (cpus - 1)) % cpus)
            .filter(|cpu| machine.queue(*cpu).idles())
    };
    let now = machine.now();
    let mut later = false;
    let mut idle = idles().filter(|cpu| {
        let may_go = |task: &Task| task.waits.for_ns(now) >= stays(machine, task, from, *cpu);
        let has = source.queue.lock().has_for(*cpu, may_go);
        later |= has == Has::Later;
        has == Has::Somebody
    });
    // One that shares its core with others only if there is no other.
    let Some(first) = idle.next() else {
        if !later && from == machine.here() {
            push::move_to_any(machine, idles());
        }
        return false;
    };
    let idle = Some(first)
        .filter(|cpu| is_alone(machine, *cpu))
        .or_else(|| idle.find(|cpu| is_alone(machine, *cpu)))
        .unwrap_or(first);
    let offered = source.offer_to(from, machine.queue(idle));
    if offered {
        machine.kick(idle);
    }
    offered
}

/// Compares the times of two busy CPUs, and lets a task of the one that is behind move. Was it worth it?
fn compare(machine: &impl Machine, here: CpuId, other: CpuId) -> bool {
    let now = machine.now();
    let (own, others) = (machine.queue(here), machine.queue(other));
    let (mine, begins, load, factor) = {
        let queue = own.queue.lock();
        let Some(time) = queue.time(now) else { return false };
        (time, queue.is_fresh, queue.load(), queue.factor())
    };
    let (gap, most) = {
        let Some(mut queue) = others.queue.try_lock() else { return false };
        let Some(theirs) = queue.time(now) else { return false };
        let gap = mine.wrapping_sub(theirs).cast_signed();
        // What is taken back: all of it where they begin anew, and what is too much where nothing can be done about it.
        let back = match gap {
            _ if begins => 0,
            _ if queue.is_fresh => gap,
            _ if others.is_stealable() => 0,
            _ => gap.saturating_sub(most_behind(queue.load(), load, queue.factor())).max(0),
        };
        queue.offset = queue.offset.wrapping_add(back);
        queue.is_fresh &= begins;
        (gap.wrapping_sub(back), most_behind(load, queue.load(), factor))
    };
    if begins || gap < -most && !own.is_stealable() {
        let mut queue = own.queue.lock();
        queue.offset = queue.offset.wrapping_sub(if begins { gap } else { gap.wrapping_add(most) });
        queue.is_fresh = false;
        return false;
    }
    if gap > 0 {
        transfer(machine, other, here, mine)
    } else {
        transfer(machine, here, other, mine.wrapping_add_signed(gap.wrapping_neg()))
    }
}

/// How far the time of a CPU with this load, none of whose tasks can move, may lie behind that of another. Where a task counts with a part of its weight
/// (`factor`), times go the faster.
fn most_behind(load: u64, others: u64, factor: u64) -> i64 {
    let most = if load < others / 2 { MOST_OF_REST } else { MOST };
    i64::try_from(most.saturating_mul(ONE) / factor.max(1)).unwrap_or(i64::MAX)
}

/// What a task of nice 0 is owed, ns, before it moves to a CPU with this load: where many share a CPU each gets less in the same time. Of a task that counts
/// with a part of its weight, the load in such parts.
fn least_gap(machine: &impl Machine, from: CpuId, to: CpuId, load: u64) -> u64 {
    let near = (GAP * UNIT / load.max(UNIT)).max(LEAST_GAP);
    if machine.node_of(from) == machine.node_of(to) { near } else { near * 4 }
}

/// Moves a task from a CPU to another whose time is `time`, if it is owed enough there.
fn transfer(machine: &impl Machine, from: CpuId, to: CpuId, time: u64) -> bool {
    let (source, target) = (machine.queue(from), machine.queue(to));
    if !source.is_stealable() {
        return false;
    }
    let now = machine.now();
    let (load, owes) = {
        let queue = target.queue.lock();
        (queue.load(), queue.owes(now))
    };
    // One after the other: those that are there would wait for all of them. That matters less where far more wait elsewhere.
    if owes && load > source.queue.lock().load() / 2 {
        return false;
    }
    let least =
        |task: &Task| least_gap(machine, from, to, load.saturating_mul(ONE) / task.fair.factor().max(1));
    let (task, lag) = {
        let mut queue = source.queue.lock();
        // Whoever has less to do catches up by itself; unless that was only so just now, and the time goes on to fall behind.
        let times = if queue.load() <= load { 4 } else { 1 };
        let offset = queue.offset;
        let lag =
            |task: &Task| time.wrapping_sub(task.fair.vruntime().wrapping_add_signed(offset)).cast_signed();
        let bound = |ns: u64, task: &Task| {
            let weight = effective(task.fair.own_weight().max(LIGHT), task.fair.factor());
            virtual_ns(ns, weight).cast_signed()
        };
        let owed = |task: &Task| lag(task) > bound(least(task) * times, task);
        let Some(task) = queue.take_for(source, to, owed) else { return false };
        // Those that are there wait until it has caught up.
        let lag = lag(&task).min(bound(least(&task) * MOST_GAPS, &task));
        (task, lag)
    };
    moves::count(machine, Why::IsOwed, from, to);
    let mut queue = target.queue.lock();
    queue.place_behind(to, &task, lag, now, machine.slice());
    enqueue_placed(machine, queue, to, task, now);
    true
}

/// Looks for a task that waits elsewhere and puts it on this CPU's queue. Called by an idle CPU.
pub fn steal(machine: &impl Machine) -> bool {
    let (here, cpus) = (machine.here(), machine.cpus());
    let step = machine.own_queue().looks.step.load(Relaxed);
    // The near ones, those of the own node first, and of the others some more each time.
    let others = cpus.saturating_sub(1 + SEARCH);
    let far =
        (0..others.min(SEARCH)).map(|i| 1 + SEARCH + step.wrapping_mul(SEARCH).wrapping_add(i) % others);
    if others > 0 {
        machine.own_queue().looks.step.store(step.wrapping_add(1), Relaxed);
    }
    let far = far.map(|distance| (here + distance) % cpus);
    let offered = machine.own_queue().take_offer();
    let Some(victim) = offered
        .into_iter()
        .chain(near(machine, here))
        .chain(far)
        .find(|victim| take_from(machine, *victim, here))
    else {
        return false;
    };
    // Where more wait, another comes: many CPUs idle when all tasks woke on one node. One that was called and took the last calls for another CPU near that.
    let more = if machine.queue(victim).is_stealable() {
        Some(victim)
    } else if offered.is_some() {
        near(machine, victim).find(|cpu| machine.queue(*cpu).is_stealable())
    } else {
        None
    };
    if let Some(more) = more {
        wake_idle(machine, more, AWAKE_MORE);
    }
    true
}

fn take_from(machine: &impl Machine, victim: CpuId, here: CpuId) -> bool {
    let source = machine.queue(victim);
    if !source.gives() || !source.shown.online.load(Relaxed) {
        return false;
    }
    if !source.rank_to_give().is_none() && realtime::pull(machine, victim) {
        return true;
    }
    let now = machine.now();
    let Some((task, time)) = source.queue.try_lock().and_then(|mut queue| {
        let time = queue.time(now);
        let may_go = |task: &Task| task.waits.for_ns(now) >= stays(machine, task, victim, here);
        queue.take_for(source, here, may_go).map(|task| (task, time))
    }) else {
        return false;
    };
    moves::count(machine, Why::Idles, victim, here);
    put_stolen(machine, here, task, time, now);
    true
}

/// For how long a task waits before it goes from a CPU to one that idles, ns.
fn stays(machine: &impl Machine, task: &Task, from: CpuId, to: CpuId) -> u64 {
    if machine.nodes() > 1 && machine.node_of(from) != machine.node_of(to) {
        NEAR_MEMORY
    } else if task.fair.ran() != 0 {
        HOT
    } else if machine.queue(from).waiting() <= FEW {
        WARM
    } else {
        0
    }
}

fn put_stolen(machine: &impl Machine, here: CpuId, task: Arc<Task>, time: Option<u64>, now: u64) {
    let own = machine.queue(here);
    let mut queue = own.queue.lock();
    adopt(&mut queue, time, now);
    queue.place(here, &task, 0, now, machine.slice());
    queue.put(own, here, task, None);
}

/// An idle CPU takes over the time of the one that it takes a task from.
fn adopt(queue: &mut Queue, time: Option<u64>, now: u64) {
    if let (None, Some(time)) = (queue.time(now), time) {
        queue.adopt(time);
    }
}
