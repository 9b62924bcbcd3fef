//! What a queue does where tasks with deadlines are.

use super::super::super::deadline::{Arrival, Entity};
use super::super::super::realtime::Rank;
use super::super::super::task::{State, Task};
use super::super::super::work::Work;
use super::{CpuQueue, Queue};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::machine::CpuId;

/// A task that runs gets at least this much before it is throttled, ns: what it has too much is taken off its next budgets. So nobody makes
/// a CPU do nothing but look at its timer.
const GRAIN: u64 = 100_000;

impl CpuQueue {
    /// When the first of those that are throttled here is to have its next budget; `u64::MAX`: none is.
    #[inline]
    pub fn next_period(&self) -> u64 {
        self.next_period.load(Ordering::Relaxed)
    }
}

impl Queue {
    /// Does a task wait among those with deadlines, of whichever CPU?
    pub(super) fn is_on_deadlines(task: &Task) -> bool {
        task.deadline.get().is_some_and(Entity::is_waiting)
    }

    /// Says when the first of those that are throttled goes on.
    pub(super) fn show_next_period(&self, own: &CpuQueue) {
        let next = self.realtime.line.deadlines.next_period();
        if own.next_period() != next {
            own.next_period.store(next, Ordering::Relaxed);
        }
    }

    /// A task with a deadline, which slept here, asks for a CPU.
    pub fn arrive(&mut self, task: &Task, now: u64) {
        if let Some(entity) = task.deadline.get() {
            self.realtime.line.deadlines.reclaim.wake(entity);
            entity.arrive(now);
            entity.hold(false);
        }
    }

    /// Puts a task, whose entity this is and that has had its run time, among those that wait for their next period; `own` is this queue's CPU.
    pub fn throttle(&mut self, own: &CpuQueue, cpu: CpuId, entity: Arc<Entity>, task: Arc<Task>) {
        Queue::move_to(cpu, &task);
        self.realtime.line.deadlines.throttle(entity, task);
        self.show_next_period(own);
    }

    /// Takes one whose next period has begun.
    pub fn take_released(&mut self, own: &CpuQueue, now: u64) -> Option<Arc<Task>> {
        let task = self.realtime.line.deadlines.take_released(now);
        self.show_next_period(own);
        task
    }

    /// The running task has run up to `now`.
    pub(super) fn charge(&mut self, entity: &Entity, now: u64) {
        let part = self.realtime.line.deadlines.reclaim.part(entity, now);
        entity.charge(self.realtime.count(now), part);
    }

    /// The running task, which is `current` no more for a moment and has a deadline, is counted: may it go on?
    pub(super) fn go_on_with_deadline(&mut self, own: &CpuQueue, task: &Task, now: u64) -> bool {
        let Some(entity) = task.deadline.get() else { return true };
        task.expect_change();
        self.charge(entity, now);
        if entity.ends_turn(now) {
            note_overrun(task, entity);
            return false;
        }
        let rank = task.rank();
        if rank != self.realtime.running {
            // Its budget is a new one.
            note_overrun(task, entity);
            self.realtime.set_running(rank, now);
            self.show_realtime(own);
        }
        true
    }

    /// The running task, which is `current` no more and has a deadline, sleeps, ends, or leaves for another CPU.
    pub(super) fn leave_deadline(&mut self, task: &Task) {
        let Some(entity) = task.deadline.get() else { return };
        let reclaim = &mut self.realtime.line.deadlines.reclaim;
        match task.state() {
            State::Running | State::Dead => reclaim.leave(entity),
            state => {
                // Who waits for a lock may hold others.
                entity.hold(state != State::Interruptible);
                reclaim.sleep(entity);
            }
        }
    }

    /// Counts the running task, if that has a deadline: when the CPU is to look again, at the latest. It has to give way if that is by now.
    pub fn look_at_budget(&mut self, now: u64) -> Option<u64> {
        if !self.realtime.running.has_deadline() {
            return None;
        }
        let entity = &*self.current.as_ref()?.deadline.shared()?;
        self.charge(entity, now);
        let left = entity.left().max(0).unsigned_abs();
        if left == 0 {
            return Some(now);
        }
        let part = self.realtime.line.deadlines.reclaim.part(entity, now).max(1);
        let time = u128::from(left) * u128::from(super::super::super::deadline::UNIT) / u128::from(part);
        Some(now.saturating_add(u64::try_from(time).unwrap_or(u64::MAX).max(GRAIN)))
    }

    /// What is due sooner than this after `now` is looked at then.
    pub fn soonest(now: u64) -> u64 {
        now.saturating_add(GRAIN)
    }
}

/// A task that is to be told of an overrun is told on its way to user mode.
fn note_overrun(task: &Task, entity: &Entity) {
    if entity.has_overrun() {
        task.work.set(Work::REALTIME);
    }
}

/// The entity of a task that is about to wait at this rank, if it has had its run time and its period is not over.
pub fn throttled(task: &Task, rank: Rank, now: u64) -> Option<Arc<Entity>> {
    let entity = task.deadline.get().filter(|entity| rank.has_deadline() && entity.is_exhausted())?;
    if entity.arrive(now) == Arrival::Ready { None } else { task.deadline.shared() }
}
