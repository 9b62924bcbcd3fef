//! Those that wait for one CPU.
//!
//! They stand on two trees: the eligible by their deadlines, the others by their virtual run times. Before a choice is made, those whose time has come move
//! over from the second, at most [`RIPEN`] at once: whoever stays behind has more run time than all that moved. Once eligible, a task stays so until it
//! has run: the virtual time may go back a little when somebody leaves, its request has begun all the same.
//!
//! The sums over all that wait give the virtual time exactly, without a walk. The task that runs is in none of them; who asks says how it stands.
//! Everything here is under the queue's lock, and takes steps that grow with the logarithm of how many wait.

use super::super::task::Task;
use super::entity::{Entity, Running};
use super::weight::virtual_ns;
use crate::arch;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use intrusive_collections::{KeyAdapter, RBTree, intrusive_adapter};

intrusive_adapter!(pub ByDeadline = Arc<Task>: Task { run_link => intrusive_collections::RBTreeLink });
intrusive_adapter!(pub ByRunTime = Arc<Task>: Task { run_link => intrusive_collections::RBTreeLink });

impl<'a> KeyAdapter<'a> for ByDeadline {
    type Key = u64;
    fn get_key(&self, task: &'a Task) -> u64 {
        task.fair.deadline()
    }
}

impl<'a> KeyAdapter<'a> for ByRunTime {
    type Key = u64;
    fn get_key(&self, task: &'a Task) -> u64 {
        task.fair.vruntime()
    }
}

/// Tasks that become eligible in one look: thousands may at once, and the queue is locked meanwhile.
const RIPEN: u32 = 16;

/// How much run time a task can be owed, or owe, at its weight, in its requests: who asks for little is not kept from it for long.
const MOST_LAG: u64 = 2;

/// See the head of the file.
pub struct Line {
    ready: RBTree<ByDeadline>,
    early: RBTree<ByRunTime>,
    /// The weights of all that wait.
    load: u64,
    /// Their virtual run times, each times its weight.
    sum: u128,
    /// How many of them ask for little.
    short: u32,
    /// The virtual time as the last one left.
    time: u64,
    /// The virtual time as a task came that was owed much, which put it back. Those whose time had come by then need not wait until that task is paid.
    was: u64,
}

/// So much later the time would have come of those who are as good as eligible: a task that sleeps most of the time has run for as long when it wakes again, virtual ns.
const NEAR: u64 = 100_000;

fn weighted(vruntime: u64, weight: u64) -> u128 {
    u128::from(vruntime) * u128::from(weight)
}

/// The mean of virtual run times whose weighted sum this is, rounded down. `load`: the sum of their weights, which is not zero.
#[inline]
fn mean(sum: u128, load: u64) -> u64 {
    arch::divide(sum, load)
}

/// `lag` of a task of this weight, within bounds.
fn bounded(lag: i64, weight: u64, slice: u64) -> i64 {
    let most = i64::try_from(virtual_ns(slice.saturating_mul(MOST_LAG), weight)).unwrap_or(i64::MAX);
    lag.clamp(most.saturating_neg(), most)
}

impl Line {
    pub const fn new() -> Self {
        let ready = RBTree::new(ByDeadline::NEW);
        let early = RBTree::new(ByRunTime::NEW);
        Self { ready, early, load: 0, sum: 0, short: 0, time: 0, was: 0 }
    }

    /// The weight of all that wait.
    pub fn load(&self) -> u64 {
        self.load
    }

    /// All times are less by `shift` from now on. Takes as long as tasks wait.
    pub fn shift_back(&mut self, shift: u64) {
        // All by as much, so each tree stays in order.
        self.ready.iter().chain(self.early.iter()).for_each(|task| task.fair.shift_back(shift));
        self.sum = self.sum.saturating_sub(weighted(shift, self.load));
        self.time = self.time.saturating_sub(shift);
        self.was = self.was.saturating_sub(shift);
    }

    /// Some of those that wait: the next of the eligible, and of the others.
    pub fn next(&self, some: usize) -> impl Iterator<Item = &Task> {
        self.ready.iter().take(some).chain(self.early.iter().take(some))
    }

    /// The CPU's virtual time.
    #[inline]
    pub fn time(&self, running: Option<Running>) -> u64 {
        match (running, self.load) {
            (None, 0) => self.time,
            (Some(running), 0) => running.vruntime,
            _ => {
                let (load, sum) = self.sums(running);
                mean(sum, load)
            }
        }
    }

    /// The weights of all, and their virtual run times, each times its weight.
    #[inline]
    fn sums(&self, running: Option<Running>) -> (u64, u128) {
        running.map_or((self.load, self.sum), |running| {
            (self.load + running.weight, self.sum + weighted(running.vruntime, running.weight))
        })
    }

    /// May a task that is to wait here have its turn, beside what runs? Its virtual run time is not after the virtual time, or that which was before somebody put it back.
    #[inline]
    fn is_eligible(&self, entity: &Entity, running: Option<Running>) -> bool {
        let vruntime = entity.vruntime();
        if vruntime <= self.was {
            return true;
        }
        if self.load == 0 {
            // The time is that of what runs, or its own.
            return running.is_none_or(|running| vruntime <= running.vruntime);
        }
        let (load, sum) = self.sums(running);
        weighted(vruntime, load) <= sum
    }

    /// Puts a task in its place, beside what runs.
    pub fn insert(&mut self, task: Arc<Task>, running: Option<Running>) {
        let is_ready = self.is_eligible(&task.fair, running);
        let (vruntime, weight) = (task.fair.vruntime(), task.fair.weight());
        self.load += weight;
        self.sum += weighted(vruntime, weight);
        self.short += u32::from(task.fair.asks_for_little());
        task.fair.is_ready.store(is_ready, Relaxed);
        if is_ready {
            self.ready.insert(task);
        } else {
            self.early.insert(task);
        }
    }

    fn gone(&mut self, entity: &Entity) {
        let (vruntime, weight) = (entity.vruntime(), entity.weight());
        self.load -= weight;
        self.sum -= weighted(vruntime, weight);
        self.short -= u32::from(entity.asks_for_little());
        if self.load == 0 {
            self.time = vruntime;
        }
    }

    /// Takes the task whose turn it is.
    pub fn take_first(&mut self) -> Option<Arc<Task>> {
        if !self.early.is_empty() {
            self.ripen_beside(None);
        }
        let task = self.ready.front_mut().remove()?;
        self.gone(&task.fair);
        task.fair.begin_turn();
        Some(task)
    }

    /// Those whose time has come become eligible. The one with the least run time always does if no other is and none runs.
    fn ripen_beside(&mut self, running: Option<Running>) {
        let (load, sum) = self.sums(running);
        for _ in 0..RIPEN {
            let mut first = self.early.front_mut();
            let Some(task) = first.get() else { return };
            let vruntime = task.fair.vruntime();
            let is_early = vruntime > self.was && weighted(vruntime, load) > sum;
            if is_early && (running.is_some() || !self.ready.is_empty()) {
                return;
            }
            if let Some(task) = first.remove() {
                task.fair.is_ready.store(true, Relaxed);
                self.ready.insert(task);
            }
        }
    }

    /// Takes out one that waits here.
    ///
    /// # Safety
    /// `task` waits on this line.
    pub unsafe fn take(&mut self, task: &Task) -> Option<Arc<Task>> {
        // SAFETY: as the caller says; `is_ready` tells on which tree.
        let task = unsafe {
            if task.fair.is_ready.load(Relaxed) {
                self.ready.cursor_mut_from_ptr(task).remove()
            } else {
                self.early.cursor_mut_from_ptr(task).remove()
            }
        }?;
        self.gone(&task.fair);
        Some(task)
    }

    /// Gives a task that is to wait here its place: so that it is owed `lag` then.
    pub fn place(&self, entity: &Entity, lag: i64, running: Option<Running>, slice: u64) {
        let lag = entity.take_weight_asleep(lag);
        entity.comes(lag);
        let (now, load) = (self.time(running), self.load + running.map_or(0, |r| r.weight));
        let lag = if lag == 0 || load == 0 {
            0
        } else {
            // Who comes takes the mean with it.
            i64::try_from(i128::from(lag) * i128::from(load + entity.weight()) / i128::from(load))
                .unwrap_or(0)
        };
        entity.stand(now.saturating_add_signed(lag.saturating_neg()), 0, slice);
    }

    /// As `place`, for a task that stands `lag` behind the virtual time before it comes. Its requests are no more urgent than others', but it is eligible for long.
    pub fn place_behind(&mut self, entity: &Entity, lag: i64, running: Option<Running>, slice: u64) {
        let (lag, now) = (entity.take_weight_asleep(lag), self.time(running));
        let lag = if entity.asks_for_little() { lag.min(entity.most_owed(slice) * 4) } else { lag };
        entity.comes(lag);
        self.was = self.was.max(now.saturating_add(NEAR));
        // Its first request is nearly due, but who wakes with a short one goes before it.
        let late = now.saturating_sub(virtual_ns(slice / 4 * 3, entity.weight()));
        entity.stand(now.saturating_add_signed(lag.saturating_neg()), late, slice);
    }

    /// The running task goes back among those that wait: if it has had its request, with the next one. Where somebody has put the time back, that
    /// begins at the time that was: those that woke before have their deadlines by that.
    #[inline(always)]
    pub fn renew(&self, entity: &Entity, slice: u64) {
        if self.load != 0 && entity.is_served() {
            entity.renew(self.time(Some(entity.running(0))).max(self.was), slice);
        }
    }

    /// The task that ran here goes to sleep, or ends.
    pub fn leave(&mut self, entity: &Entity, slice: u64) {
        let vruntime = entity.vruntime();
        let lag = if self.load == 0 {
            self.time = vruntime;
            0
        } else {
            let now = self.time(Some(entity.running(0)));
            match bounded(now.wrapping_sub(vruntime).cast_signed(), entity.weight(), slice) {
                lag @ 0.. => lag.min(entity.most_owed(slice) * 4),
                debt => debt.max(entity.most_debt()),
            }
        };
        entity.sleep(lag);
    }

    /// Are those that are here still waiting for one that came from another CPU and was owed much?
    pub fn owes(&self, running: Option<Running>) -> bool {
        self.time(running) < self.was.saturating_sub(NEAR)
    }

    /// The last one has left: nobody waits for anybody.
    pub fn forget_debts(&mut self) {
        self.was = 0;
    }

    /// What a task is owed that went to sleep here. A debt is paid off by the time that has passed for those who stayed.
    pub fn lag_of(&self, entity: &Entity, running: Option<Running>) -> i64 {
        let kept = entity.lag();
        if kept >= 0 {
            return kept;
        }
        self.time(running).wrapping_sub(entity.vruntime()).cast_signed().clamp(kept, 0)
    }

    /// Gives a task that runs here the weight that it is to have.
    pub fn reweigh_running(&self, entity: &Entity) {
        entity.take_weight(self.time(Some(entity.running(0))));
    }

    /// Gives a task that waits here the weight that it is to have.
    ///
    /// # Safety
    /// As `take`.
    pub unsafe fn reweigh(&mut self, task: &Task, running: Option<Running>) {
        let now = self.time(running);
        // SAFETY: as the caller says.
        if let Some(task) = unsafe { self.take(task) } {
            task.fair.take_weight(now);
            self.insert(task, running);
        }
    }

    /// Those whose time has come beside what runs become eligible.
    pub fn ripen(&mut self, running: Running) {
        if !self.early.is_empty() {
            self.ripen_beside(Some(running));
        }
    }

    /// Does anybody wait who asks for little?
    #[inline]
    pub fn any_short(&self) -> bool {
        self.short != 0
    }

    /// The next of those that are eligible.
    pub fn first(&self) -> Option<&Task> {
        self.ready.front().get()
    }

    /// Is a task that is to wait here due before what runs, by more than `lead` ns? So is one that asks for little once that has had its request.
    #[inline]
    pub fn is_due_before(&self, entity: &Entity, running: Running, lead: u64) -> bool {
        let is_before = entity.deadline().saturating_add(lead) < running.deadline.max(running.vruntime)
            || entity.asks_for_little() && running.request_left() == 0;
        is_before && self.is_eligible(entity, Some(running))
    }
}
