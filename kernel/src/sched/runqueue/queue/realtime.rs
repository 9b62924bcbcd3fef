//! What a queue does where real-time tasks are.

use super::super::super::pending::{self, Pending};
use super::super::super::policy::Policy;
use super::super::super::realtime::End;
use super::super::super::task::Task;
use super::super::super::work::Work;
use super::{CpuQueue, FAIR, Queue};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::machine::CpuId;

impl CpuQueue {
    /// The highest priority of the CPU's real-time tasks; 0: it has none.
    #[inline]
    pub fn priority(&self) -> u32 {
        self.shown.priority.load(Ordering::Relaxed)
    }

    /// The highest priority of real-time tasks that wait, if others may take some; else 0.
    pub fn priority_to_give(&self) -> u32 {
        self.stealable.0.load(Ordering::Relaxed) >> 1
    }
}

impl Queue {
    /// Puts a task among those of this priority; `own` is this queue's CPU.
    #[cold]
    pub fn put_realtime(&mut self, own: &CpuQueue, cpu: CpuId, task: Arc<Task>, priority: u32) {
        Queue::move_to(cpu, &task);
        let end = if task.realtime.take_first() { End::First } else { End::Last };
        if let Some(current) = &self.current
            && priority == self.realtime.running
            && !self.realtime.line.has(priority)
        {
            // Where it gave its turn up, nobody was there to take it.
            current.realtime.set_first(true);
        }
        self.realtime.line.insert(task, priority, end);
        own.waiting.store(own.waiting() + 1, Ordering::Relaxed);
        self.show_realtime(own);
    }

    /// Takes the real-time task whose turn it is, on a CPU that has or had some; None: it is a fair one's.
    #[cold]
    pub(super) fn take_first_realtime(&mut self, own: &CpuQueue, now: u64) -> Option<Arc<Task>> {
        let had = self.realtime.running;
        self.realtime.count(now);
        let is_held_back = self.line.load() != 0 && self.realtime.throttle.holds_back(now);
        let next = if is_held_back { None } else { self.realtime.line.take_first() };
        if let Some(task) = &next {
            own.waiting.store(own.waiting() - 1, Ordering::Relaxed);
            task.realtime.set_first(true);
            self.runs_fair = false;
        }
        self.realtime.set_running(next.as_ref().map_or(0, |task| task.realtime.priority()), now);
        self.show_realtime(own);
        if self.realtime.running < had || self.realtime.line.highest_to_give() != 0 {
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
    fn show_realtime(&mut self, own: &CpuQueue) {
        self.realtime.update();
        let highest = self.realtime.highest();
        if own.priority() != highest {
            own.shown.priority.store(highest, Ordering::Relaxed);
        }
        let word = own.stealable.0.load(Ordering::Relaxed);
        let to_give = self.realtime.line.highest_to_give() << 1 | word & FAIR;
        if word != to_give {
            own.stealable.0.store(to_give, Ordering::Relaxed);
        }
    }

    /// The priority of who runs, if the CPU may have real-time tasks now.
    #[cfg(test)]
    pub fn running_priority(&self, now: u64) -> Option<u32> {
        (!self.realtime.throttle.holds_back(now)).then_some(self.realtime.running)
    }

    /// Should who runs give way to one of this priority? Among equals who runs goes on.
    pub fn gives_way_to(&self, priority: u32, now: u64) -> bool {
        priority > self.realtime.running && (!self.runs_fair || !self.realtime.throttle.holds_back(now))
    }

    /// The running task, which has left `current` for a moment, has this priority from now on; 0: it is a fair one.
    pub(super) fn change_running(
        &mut self,
        own: &CpuQueue,
        task: &Task,
        priority: u32,
        now: u64,
        slice: u64,
    ) {
        let had = self.realtime.running;
        self.realtime.count(now);
        match (had, priority) {
            (_, 0) => {
                task.realtime.sleep();
                self.runs_fair = true;
                self.realtime.set_running(0, now);
                self.place(task, 0, now, slice);
            }
            (0, _) => {
                self.leave(task, slice);
                task.realtime.set_first(true);
                self.runs_fair = false;
                self.realtime.set_running(priority, now);
            }
            _ => self.realtime.set_running(priority, now),
        }
        self.show_realtime(own);
        if priority < had {
            self.look_soon();
        }
    }

    /// The priority at which a task waits here; 0: among the fair ones.
    pub fn priority_of_waiting(&self, task: &Task) -> u32 {
        if task.run_link.is_linked() { 0 } else { task.realtime.priority() }
    }

    /// A tick of the CPU, whose real-time tasks are shown: should another task run?
    #[cold]
    pub fn tick_realtime(&mut self, now: u64) -> bool {
        let ran = self.realtime.count(now);
        let (true, Some(current)) = (self.realtime.running != 0, &self.current) else {
            return !self.realtime.throttle.holds_back(now);
        };
        current.work.set(Work::REALTIME);
        let slice_is_over = current.realtime.tick(ran) && current.class().policy() == Policy::RoundRobin;
        let highest = self.realtime.line.highest();
        if slice_is_over && highest == self.realtime.running {
            current.realtime.set_first(false);
            return true;
        }
        highest > self.realtime.running || self.line.load() != 0 && self.realtime.throttle.holds_back(now)
    }

    /// Takes a real-time task out that waits here.
    ///
    /// # Safety
    /// `is_waiting_here` says so, and the task is not among the fair ones.
    pub(super) unsafe fn take_realtime(&mut self, own: &CpuQueue, task: &Task) -> Option<Arc<Task>> {
        // SAFETY: as the caller says.
        let task = unsafe { self.realtime.line.take(task) }?;
        own.waiting.store(own.waiting() - 1, Ordering::Relaxed);
        self.show_realtime(own);
        Some(task)
    }

    /// Takes the first of the real-time tasks that wait here, whose registers are saved, for which `place` finds one: with that place.
    pub fn take_realtime_for(
        &mut self,
        own: &CpuQueue,
        place: impl Fn(&Task) -> Option<CpuId>,
    ) -> Option<(Arc<Task>, CpuId)> {
        let found = self
            .realtime
            .line
            .take_for(|task| place(task).filter(|_| !task.on_cpu.load(Ordering::Acquire)))?;
        own.waiting.store(own.waiting() - 1, Ordering::Relaxed);
        self.show_realtime(own);
        Some(found)
    }

    pub(super) fn realtime_affinity_changed(&mut self, own: &CpuQueue, task: &Task) {
        self.realtime.line.update_movable(task);
        self.show_realtime(own);
    }
}
