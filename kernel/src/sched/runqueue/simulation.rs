//! A machine of any size whose time is a number: the queues, the order, wake-up and the balancer are the kernel's own code, over tasks that only spin or sleep.
//!
//! Events are handled one after the other, so no two CPUs do anything at the same moment: what CPUs do to each other at once is for the models of
//! `sync` and for the booted tests.

mod cores;
mod deadlines;
mod events;
mod groups;
mod priorities;
mod report;
mod shares;

use super::super::group::{Group, Membership, Quota};
use super::super::policy::Schedule;
use super::super::task::{Hardware, State, Task};
use super::super::work::Work;
use super::balance;
use super::calls;
use super::deadline;
use super::machine::Machine;
use super::place;
use super::queue::CpuQueue;
use super::quota;
use super::realtime;
use crate::arch;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::cmp::Reverse;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::{BinaryHeap, HashMap};
use std::vec::Vec;
use sync::machine::CpuId;

pub const MS: u64 = 1_000_000;
const TICK: u64 = 10 * MS;
const CONTENDED_TICK: u64 = 4 * MS;

/// What a task does: runs for so long, then sleeps for so long; None: it spins.
#[derive(Clone, Copy, Debug)]
pub struct Habit(pub Option<(u64, u64)>);

pub const SPINS: Habit = Habit(None);

/// What becomes of a task.
struct Life {
    task: Arc<Task>,
    habit: Habit,
    /// Whom it wakes when it sleeps, and by whom it is woken; None: by the time.
    partner: Option<usize>,
    /// Of the two it is the one whose turn it is.
    has_turn: bool,
    /// What is left of the time that it runs.
    left: u64,
    since: u64,
    ran: u64,
    woken: Option<u64>,
    latest: u64,
    late: u64,
    jobs: Option<deadlines::Jobs>,
}

/// What a task came to.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub ran: u64,
    /// The longest that it waited for a CPU after a wake-up.
    pub latest: u64,
    /// How often it waited for more than a millisecond then.
    pub late: u64,
    pub moves: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Tick(CpuId),
    TurnEnd(CpuId),
    Done(CpuId, usize),
}

struct Cpu {
    queue: CpuQueue,
    next_tick: Cell<u64>,
    turn_end: Cell<u64>,
    kicked: Cell<bool>,
    idle: Arc<Task>,
}

/// See the head of the file.
pub struct Simulation {
    cpus: Vec<Cpu>,
    per_node: u32,
    /// Threads of each core.
    threads: u32,
    here: Cell<CpuId>,
    now: Cell<u64>,
    lives: RefCell<Vec<Life>>,
    numbers: RefCell<HashMap<*const Task, usize>>,
    events: RefCell<BinaryHeap<Reverse<(u64, Event)>>>,
    /// The CPU that wakes whoever sleeps; None: that where it slept.
    pub waker: Cell<Option<CpuId>>,
    /// Looks at a queue of another CPU.
    pub looks: Cell<u64>,
    /// Since when a CPU idles while a task that others may take waits, and how long that was at most.
    wasted_since: Cell<Option<u64>>,
    pub wasted: Cell<u64>,
    /// The same of any task that waits, or runs where others wait, as far as its affinity allows: how long at most, and since when.
    pub stranded: Cell<u64>,
    stranded_since: Cell<Option<u64>>,
    watched: Cell<u64>,
    kicks: RefCell<Vec<CpuId>>,
    /// Dropped after the queues that lead to them.
    groups: RefCell<Vec<Arc<Group>>>,
}

impl Machine for Simulation {
    fn cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    fn here(&self) -> CpuId {
        self.here.get()
    }

    fn now(&self) -> u64 {
        self.now.get()
    }

    fn queue(&self, cpu: CpuId) -> &CpuQueue {
        if cpu != self.here.get() {
            self.looks.set(self.looks.get() + 1);
        }
        &self.cpus[cpu as usize].queue
    }

    fn node_of(&self, cpu: CpuId) -> u32 {
        cpu / self.per_node
    }

    fn nodes(&self) -> u32 {
        self.node_of(self.cpus() - 1) + 1
    }

    fn next_thread(&self, cpu: CpuId) -> CpuId {
        let core = cpu / self.threads * self.threads;
        core + (cpu - core + 1) % self.threads
    }

    fn has_threads(&self) -> bool {
        self.threads > 1
    }

    fn wakes(&self) -> bool {
        self.current(self.here()).partner.wakes()
    }

    fn bears_company(&self) -> bool {
        self.current(self.here()).partner.bears_company()
    }

    fn kick(&self, cpu: CpuId) {
        self.cpus[cpu as usize].kicked.set(true);
        self.kicks.borrow_mut().push(cpu);
    }

    fn tick_sooner(&self, _now: u64) {
        self.set_tick(self.here.get(), CONTENDED_TICK);
    }

    fn look_at(&self, time: u64) {
        let (here, end) = (self.here.get(), &self.cpus[self.here.get() as usize].turn_end);
        if time < end.get() {
            end.set(time);
            self.at(time, Event::TurnEnd(here));
        }
    }
}

fn new_task(schedule: Schedule) -> Arc<Task> {
    Task::try_new(None, Hardware::kernel(arch::Context::running()), schedule).unwrap()
}

impl Simulation {
    pub fn new(cpus: u32, nodes: u32) -> Self {
        Self::with_threads(cpus, nodes, 1)
    }

    /// One whose cores have so many threads each.
    pub fn with_threads(cpus: u32, nodes: u32, threads: u32) -> Self {
        let cpu = |cpu: CpuId| {
            let idle = new_task(Schedule::NORMAL);
            let queue = CpuQueue::new();
            {
                let mut locked = queue.queue.lock();
                (locked.current, locked.idle) = (Some(idle.clone()), Some(idle.clone()));
            }
            queue.shown.online.store(true, Relaxed);
            queue.shown.idle.show(true);
            assert!(queue.shown.idle.halt());
            idle.set_affinity_at_birth(cpu);
            Cpu {
                queue,
                next_tick: Cell::new(u64::MAX),
                turn_end: Cell::new(u64::MAX),
                kicked: Cell::new(false),
                idle,
            }
        };
        Self {
            cpus: (0..cpus).map(cpu).collect(),
            per_node: cpus.div_ceil(nodes),
            threads,
            here: Cell::new(0),
            now: Cell::new(MS),
            lives: RefCell::new(Vec::new()),
            numbers: RefCell::new(HashMap::new()),
            events: RefCell::new(BinaryHeap::new()),
            waker: Cell::new(None),
            looks: Cell::new(0),
            wasted_since: Cell::new(None),
            wasted: Cell::new(0),
            stranded: Cell::new(0),
            stranded_since: Cell::new(None),
            watched: Cell::new(0),
            kicks: RefCell::new(Vec::new()),
            groups: RefCell::new(Vec::new()),
        }
    }

    /// A task that begins now, on `parent`'s behalf: its number.
    pub fn start(&self, parent: CpuId, nice: i32, habit: Habit, only: Option<CpuId>) -> usize {
        self.start_as(parent, Schedule { nice, ..Schedule::NORMAL }, habit, only)
    }

    /// As `start`, of any policy.
    pub fn start_as(&self, parent: CpuId, schedule: Schedule, habit: Habit, only: Option<CpuId>) -> usize {
        self.start_in(None, parent, schedule, habit, only)
    }

    /// As `start`, of a task that may run on the CPUs of this mask.
    pub fn start_on(&self, parent: CpuId, habit: Habit, cpus: u64) -> usize {
        self.begin(None, parent, Schedule::NORMAL, habit, |task| Simulation::restrict(task, cpus))
    }

    /// A group, of this nice value.
    pub fn group(&self, nice: i32) -> Arc<Group> {
        let group = Arc::new(Group::new());
        group.set_nice(nice);
        self.groups.borrow_mut().push(group.clone());
        group
    }

    /// As `start_as`, in a group.
    pub fn start_in(
        &self,
        group: Option<&Arc<Group>>,
        parent: CpuId,
        schedule: Schedule,
        habit: Habit,
        only: Option<CpuId>,
    ) -> usize {
        self.begin(group, parent, schedule, habit, |task| {
            only.into_iter().for_each(|cpu| task.set_affinity_at_birth(cpu));
        })
    }

    fn begin(
        &self,
        group: Option<&Arc<Group>>,
        parent: CpuId,
        schedule: Schedule,
        habit: Habit,
        restrict: impl FnOnce(&Task),
    ) -> usize {
        let task = new_task(schedule);
        let membership = Membership::none();
        // SAFETY: the machine keeps its groups longer than its tasks.
        unsafe { membership.set(group.map(|group| &**group)) };
        task.slot.begin(&membership, self.current(parent).slot.is_counted());
        restrict(&task);
        let left = habit.0.map_or(u64::MAX, |(runs, _)| runs);
        let number = {
            let mut lives = self.lives.borrow_mut();
            let life = Life {
                task: task.clone(),
                habit,
                partner: None,
                has_turn: false,
                left,
                since: 0,
                ran: 0,
                woken: None,
                latest: 0,
                late: 0,
                jobs: None,
            };
            lives.push(life);
            self.numbers.borrow_mut().insert(Arc::as_ptr(&task), lives.len() - 1);
            lives.len() - 1
        };
        self.here.set(parent);
        place::start(self, task);
        self.settle();
        number
    }

    /// Two tasks that take turns from now on: who has run for so long wakes the other and sleeps. Both begin.
    pub fn start_pair(&self, parent: CpuId, runs: u64) -> [usize; 2] {
        let pair = [0, 1].map(|_| self.start(parent, 0, Habit(Some((runs, 0))), None));
        for n in 0..2 {
            self.lives.borrow_mut()[pair[n]].partner = Some(pair[1 - n]);
        }
        self.lives.borrow_mut()[pair[0]].has_turn = true;
        pair
    }

    pub fn task(&self, number: usize) -> Arc<Task> {
        self.lives.borrow()[number].task.clone()
    }

    /// Changes how a task is scheduled.
    pub fn set_schedule(&self, number: usize, schedule: Schedule) {
        let task = self.task(number);
        task.note_schedule(schedule);
        if let Some(cpu) = place::changed(self, &task) {
            self.kick(cpu);
        }
        self.settle();
    }

    /// Changes what a task's share is.
    pub fn set_nice(&self, number: usize, nice: i32) {
        let task = self.task(number);
        task.fair.set_rank(nice);
        if let Some(cpu) = place::changed(self, &task) {
            self.kick(cpu);
        }
        self.settle();
    }

    /// Lets a task run on these CPUs alone, at its next place.
    fn restrict(task: &Task, cpus: u64) {
        let mut words = [0; sync::machine::MAX_CPUS / 64];
        words[0] = cpus;
        task.affinity().store(words);
    }

    /// A task that spins ends: it sleeps for ever from its next turn on.
    pub fn stop(&self, number: usize) {
        let life = &mut self.lives.borrow_mut()[number];
        (life.habit, life.left) = (Habit(Some((1, u64::MAX / 4))), 1);
    }

    /// How late tasks have been up to now is forgotten.
    pub fn forget_late(&self) {
        self.lives.borrow_mut().iter_mut().for_each(|life| (life.latest, life.late) = (0, 0));
    }

    /// A task that sleeps spins when it has woken.
    pub fn spins_from_now(&self, number: usize) {
        let life = &mut self.lives.borrow_mut()[number];
        (life.habit, life.left) = (SPINS, u64::MAX);
    }

    /// Gives a task another group.
    pub fn regroup(&self, number: usize, group: Option<&Arc<Group>>) {
        super::groups::regroup(self, &self.task(number), group.map_or(core::ptr::null(), Arc::as_ptr));
        self.settle();
    }

    /// A group may have so many ms in each so many from now on; None: what is free.
    pub fn limit(&self, group: &Arc<Group>, quota: Option<(u64, u64)>) {
        let quota = quota.map(|(quota, period)| Quota::new(quota * 1000, period * 1000).unwrap());
        group.limit(quota, self.cpus(), self.now.get(), || quota::begin(self, group)).unwrap();
        let tasks: Vec<_> = self.lives.borrow().iter().map(|life| life.task.clone()).collect();
        for task in tasks {
            if task.slot.group().is_some_and(|other| core::ptr::eq(other, &**group)) {
                quota::expect(self, &task);
            }
        }
        self.settle();
    }

    fn number_of(&self, task: &Task) -> Option<usize> {
        self.numbers.borrow().get(&core::ptr::from_ref(task)).copied()
    }

    fn at(&self, time: u64, event: Event) {
        self.events.borrow_mut().push(Reverse((time, event)));
    }

    fn set_tick(&self, cpu: CpuId, after: u64) {
        let (time, next) = (self.now.get() + after, &self.cpus[cpu as usize].next_tick);
        if time < next.get() {
            next.set(time);
            self.at(time, Event::Tick(cpu));
        }
    }

    fn current(&self, cpu: CpuId) -> Arc<Task> {
        self.cpus[cpu as usize].queue.queue.lock().current.clone().unwrap()
    }

    /// Counts what a running task has used up to now.
    fn count(&self, task: &Task, runs_on: bool) {
        let now = self.now.get();
        task.account(now, runs_on);
        if let Some(number) = self.number_of(task) {
            let life = &mut self.lives.borrow_mut()[number];
            life.ran += now - life.since;
            life.left = life.left.saturating_sub(now - life.since);
            life.since = now;
        }
    }

    pub fn outcomes(&self) -> Vec<Outcome> {
        for cpu in 0..self.cpus.len() as CpuId {
            self.count(&self.current(cpu), true);
        }
        let outcome = |life: &Life| Outcome {
            ran: life.ran,
            latest: life.latest,
            late: life.late,
            moves: life.task.migrations.load(Relaxed),
        };
        self.lives.borrow().iter().map(outcome).collect()
    }
}
