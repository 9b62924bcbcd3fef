//! Which group counts a task here, and with which part of its own weight the task counts. What is done at a wake-up or a sleep of a task that nobody counts is
//! one look at a word of it.

use super::super::super::fair::ONE;
use super::super::super::group::Cell;
use super::super::super::task::Task;
use super::super::super::work::Work;
use super::Queue;
use sync::machine::CpuId;

impl Queue {
    /// A fair task comes to this queue, that of `cpu`: its group counts it here, if anything does and it was counted where it comes from.
    #[inline]
    pub fn enter_group(&mut self, cpu: CpuId, task: &Task) {
        if task.slot.is_counted() {
            self.count(cpu, task);
        }
    }

    #[cold]
    #[inline(never)]
    fn count(&mut self, cpu: CpuId, task: &Task) {
        let (group, before) = (task.slot.group(), task.slot.cell());
        let cell = group.and_then(|group| group.cell(cpu)).filter(|cell| cell.counts());
        let stays = before.is_some_and(|cell| cell.cpu() == cpu);
        task.slot.set_cell(cell);
        match (cell, group) {
            (Some(cell), Some(group)) => {
                task.fair.set_told();
                cell.enter(&task.fair);
                self.link(cell, group);
                if group.bandwidth().is_limited() {
                    task.raise_on_resume(Work::QUOTA);
                }
            }
            _ if task.fair.factor() != ONE => {
                task.fair.set_factor(ONE);
                if !stays {
                    self.mix.expect(task.slot.certainty());
                }
            }
            _ => {}
        }
    }

    /// A task goes to sleep, or ends: its group counts it here no more.
    #[inline]
    pub(super) fn leave_group(&self, task: &Task) {
        if task.slot.is_counted() {
            Queue::uncount(task);
            task.slot.set_certainty(self.mix.certainty());
            task.fair.set_told_at_sleep();
        }
    }

    /// As `leave_group`, of a task that goes to another queue, or is counted otherwise.
    #[inline]
    pub fn leave_group_awake(&self, task: &Task) {
        if task.slot.is_counted() {
            Queue::uncount(task);
            task.slot.set_certainty(self.mix.certainty());
        }
    }

    #[cold]
    #[inline(never)]
    fn uncount(task: &Task) {
        if let Some(cell) = task.slot.cell() {
            cell.tell(&task.fair);
            cell.leave(&task.fair);
            task.fair.set_told();
        }
    }

    /// A tick comes upon the running task: its group counts it here from now on where `cell`, what the CPU has of that, counts; and else no more.
    pub fn count_running(&self, cell: Option<&Cell>, task: &Task) {
        match (task.slot.cell(), cell.filter(|cell| cell.counts())) {
            (None, Some(cell)) => {
                task.slot.set_cell(Some(cell));
                task.fair.set_told();
                cell.enter(&task.fair);
            }
            (Some(_), None) => {
                self.leave_group_awake(task);
                task.slot.set_cell(None);
            }
            (Some(cell), Some(_)) => {
                cell.tell(&task.fair);
                task.fair.set_told();
            }
            (None, None) => {}
        }
    }

    /// The running task, which is `current` no more and is counted, counts with the part of its weight that tasks of its group have now.
    #[cold]
    #[inline(never)]
    pub(super) fn take_factor(&self, task: &Task) {
        if let Some(cell) = task.slot.cell()
            && cell.factor() != task.fair.factor()
        {
            task.fair.set_factor(cell.factor());
            self.line.reweigh_running(&task.fair);
        }
    }

    /// Its group counts a task, if it does so here, with the weight that it has now.
    pub(super) fn recount(&self, task: &Task) {
        if let Some(cell) = task.slot.cell() {
            cell.leave(&task.fair);
            cell.enter(&task.fair);
        }
        task.fair.refresh();
    }
}
