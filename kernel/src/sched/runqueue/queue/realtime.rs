//! What a queue does where real-time tasks are.

use super::super::super::pending::{self, Pending};
use super::super::super::policy::Policy;
use super::super::super::realtime::{End, Line, Rank};
use super::super::super::task::Task;
use super::super::super::work::Work;
use super::{CpuQueue, FAIR, Queue};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::machine::CpuId;

impl CpuQueue {
    /// The highest rank of the CPU's real-time tasks.
    #[inline]
    pub fn rank(&self) -> Rank {
        Rank::from_word(self.shown.rank.load(Ordering::Relaxed))
    }

    /// The highest rank of real-time tasks that wait, if others may take some.
    pub fn rank_to_give(&self) -> Rank {
        Rank::from_word(self.stealable.0.shown() >> 1)
    }
}

impl Queue {
    /// Puts a task among those of this rank; `own` is this queue's CPU.
    #[cold]
    pub fn put_realtime(&mut self, own: &CpuQueue, cpu: CpuId, task: Arc<Task>, rank: Rank) {
        Queue::move_to(cpu, &task);
        let priority = rank.priority();
        let end = if task.realtime.take_first() { End::First } else { End::Last };
        if let Some(current) = &self.current
            && priority == self.realtime.running.priority()
            && !self.realtime.line.has(priority)
        {
            // Where it gave its turn up, nobody was there to take it.
            current.realtime.set_first(true);
        }
        self.realtime.line.insert(task, priority, end);
        own.waiting.store(own.waiting() + 1, Ordering::Relaxed);
        self.show_realtime(own);
    }

    /// Puts the running task, which is `current` no more and is of real time, back among the waiting.
    #[cold]
    pub(super) fn put_back_realtime(&mut self, own: &CpuQueue, cpu: CpuId, task: Arc<Task>) {
        let rank = self.realtime.running;
        match task.deadline.shared().filter(|entity| rank.has_deadline() && entity.is_exhausted()) {
            Some(entity) => self.throttle(own, cpu, entity, task),
            None => self.put_realtime(own, cpu, task, rank),
        }
    }

    /// Takes the real-time task whose turn it is, on a CPU that has or had some; None: it is a fair one's.
    #[cold]
    pub(super) fn take_first_realtime(&mut self, own: &CpuQueue, now: u64) -> Option<Arc<Task>> {
        let had = self.realtime.running;
        self.realtime.count(now);
        let is_held_back =
            self.line.load() != 0 && self.realtime.holds_back(self.realtime.line.highest(), now);
        let next = if is_held_back { None } else { self.realtime.line.take_first() };
        let mut rank = Rank::NONE;
        if let Some(task) = &next {
            own.waiting.store(own.waiting() - 1, Ordering::Relaxed);
            task.realtime.set_first(true);
            self.runs_fair = false;
            rank = Line::rank_of(task);
            if rank.has_deadline() {
                // Its budget is looked at when it is switched away.
                task.expect_change();
            }
        }
        self.realtime.set_running(rank, now);
        self.show_realtime(own);
        if rank < had || rank.has_deadline() || !self.realtime.line.highest_to_give().is_none() {
            self.look_soon();
        }
        next
    }

    /// The CPU looks soon whether a task should come here, or go.
    fn look_soon(&mut self) {
        self.realtime.is_uneven = true;
        pending::leave(Pending::Realtime);
    }

    /// Is it time to look? Then not again.
    pub fn take_uneven(&mut self) -> bool {
        core::mem::take(&mut self.realtime.is_uneven)
    }

    /// Who waits or runs has changed: says so to others.
    pub(super) fn show_realtime(&mut self, own: &CpuQueue) {
        self.realtime.update();
        let highest = self.realtime.highest();
        if own.rank() != highest {
            own.shown.rank.store(highest.word(), Ordering::Relaxed);
        }
        let word = own.stealable.0.shown();
        let to_give = self.realtime.line.highest_to_give().word() << 1 | word & FAIR;
        if word != to_give {
            own.stealable.0.show(to_give);
        }
    }

    /// The rank of who runs, if the CPU may have real-time tasks now.
    #[cfg(test)]
    pub fn running_rank(&self, now: u64) -> Option<Rank> {
        (!self.realtime.holds_back(Rank::NONE, now)).then_some(self.realtime.running)
    }

    /// Should who runs give way to one of this rank? Among equals who runs goes on.
    pub fn gives_way_to(&self, rank: Rank, now: u64) -> bool {
        rank > self.realtime.running && (!self.runs_fair || !self.realtime.holds_back(rank, now))
    }

    /// The running task, which has left `current` for a moment, has this rank from now on.
    pub(super) fn change_running(
        &mut self,
        own: &CpuQueue,
        cpu: CpuId,
        task: &Task,
        rank: Rank,
        now: u64,
        slice: u64,
    ) {
        let had = self.realtime.running;
        match task.deadline.get() {
            Some(entity) if had.has_deadline() => {
                self.charge(entity, now);
                self.realtime.line.deadlines.reclaim.leave(entity);
            }
            _ => {
                self.realtime.count(now);
            }
        }
        if rank.is_none() {
            task.realtime.sleep();
            self.runs_fair = true;
            self.realtime.set_running(rank, now);
            task.slot.find_cell();
            self.place(cpu, task, 0, now, slice);
        } else {
            if had.is_none() {
                self.leave(task, slice);
                task.realtime.set_first(true);
                self.runs_fair = false;
            }
            match task.deadline.get() {
                Some(entity) if rank.has_deadline() => {
                    entity.arrive(now);
                    self.realtime.line.deadlines.reclaim.enter(entity);
                    self.realtime.set_running(task.rank(), now);
                    // Its budget is to be looked at.
                    self.look_soon();
                }
                _ => self.realtime.set_running(rank, now),
            }
        }
        self.show_realtime(own);
        if self.realtime.running < had {
            self.look_soon();
        }
    }

    /// The running task, which is `current` no more and is of real time, sleeps, ends, or leaves for another CPU.
    #[cold]
    pub(super) fn leave_realtime(&mut self, task: &Task) {
        if self.realtime.running.has_deadline() {
            self.leave_deadline(task);
        }
        task.realtime.sleep();
    }

    /// The priority at which a task waits here; 0: among the fair ones.
    pub fn priority_of_waiting(&self, task: &Task) -> u32 {
        if task.run_link.is_linked() { 0 } else { task.realtime.priority() }
    }

    /// A tick of the CPU, whose real-time tasks are shown: should another task run?
    #[cold]
    pub fn tick_realtime(&mut self, now: u64) -> bool {
        if let Some(time) = self.look_at_budget(now) {
            let gives_way = time <= now || self.realtime.line.highest() > self.realtime.running;
            return gives_way
                || self.line.load() != 0 && self.realtime.holds_back(self.realtime.running, now);
        }
        let ran = self.realtime.count(now);
        let (false, Some(current)) = (self.realtime.running.is_none(), &self.current) else {
            return !self.realtime.holds_back(self.realtime.line.highest(), now);
        };
        current.work.set(Work::REALTIME);
        let slice_is_over = current.realtime.tick(ran) && current.class().policy() == Policy::RoundRobin;
        let highest = self.realtime.line.highest();
        if slice_is_over && highest == self.realtime.running {
            current.realtime.set_first(false);
            return true;
        }
        highest > self.realtime.running
            || self.line.load() != 0 && self.realtime.holds_back(self.realtime.running, now)
    }

    /// Takes a real-time task out that waits here.
    ///
    /// # Safety
    /// `is_waiting_here` says so, and the task is not among the fair ones.
    pub(super) unsafe fn take_realtime(&mut self, own: &CpuQueue, task: &Task) -> Option<Arc<Task>> {
        // SAFETY: as the caller says.
        let (task, waited) = unsafe { self.realtime.line.take(task) }?;
        if waited {
            own.waiting.store(own.waiting() - 1, Ordering::Relaxed);
            self.show_realtime(own);
        } else {
            self.show_next_period(own);
        }
        Some(task)
    }

    /// Takes the first of the real-time tasks that wait here, whose registers are saved, for which `place` finds one: with that place.
    pub fn take_realtime_for(
        &mut self,
        own: &CpuQueue,
        place: impl Fn(&Task) -> Option<CpuId>,
    ) -> Option<(Arc<Task>, CpuId)> {
        let found = self.realtime.line.take_for(|task| place(task).filter(|_| !task.on_cpu.is_on()))?;
        own.waiting.store(own.waiting() - 1, Ordering::Relaxed);
        self.show_realtime(own);
        Some(found)
    }

    pub(super) fn realtime_affinity_changed(&mut self, own: &CpuQueue, task: &Task) {
        self.realtime.line.update_movable(task);
        self.show_realtime(own);
    }
}
