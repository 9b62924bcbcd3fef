//! As what a task is to run: its policy and nice value, what others lend it, and what of that its queue has yet to take up.

use super::super::cpustat::Share;
use super::super::deadline;
use super::super::policy::{Class, Loan, Policy, RESETS, Schedule};
use super::super::realtime::Rank;
use super::Task;
use crate::arch;
use core::sync::atomic::Ordering;

impl Task {
    /// Lets the tasks that wait go first, as far as their turn has come, or their priority is the same.
    pub(in crate::sched) fn yield_turn(&self) {
        self.realtime.set_first(false);
        if self.class().has_deadline()
            && let Some(entity) = self.deadline.get()
        {
            entity.yield_turn();
        }
        self.account(arch::time::now(), true);
        self.fair.yield_turn(super::super::runqueue::slice());
    }

    /// Nice value, -20 (most) to 19 (least).
    pub fn nice(&self) -> i32 {
        self.place.nice.load(Ordering::Relaxed)
    }

    pub fn set_nice(&self, nice: i32) {
        let loan = self.lent();
        if loan != loan.without_nice() {
            self.lent.store(loan.without_nice().0, Ordering::SeqCst);
        }
        self.set_schedule(Schedule { nice, ..self.schedule() });
    }

    /// Two who set it at once may leave a share that belongs to either. Takes the lock of the task's queue.
    pub fn set_schedule(&self, schedule: Schedule) {
        let schedule = Schedule { nice: schedule.nice.clamp(-20, 19), ..schedule };
        // Most who set it find it so, and write no line of the task's.
        if self.schedule() != schedule && self.note_schedule(schedule) {
            super::super::runqueue::changed(self);
        }
    }

    /// Writes down how it is to be scheduled; true: its queue has to know.
    pub(in crate::sched) fn note_schedule(&self, schedule: Schedule) -> bool {
        self.place.nice.store(schedule.nice, Ordering::Relaxed);
        self.clock.set_share(Share::of(schedule.nice));
        self.place.policy.store(schedule.word(), Ordering::SeqCst);
        let weighs_other = self.fair.set_rank(schedule.rank());
        self.fair.set_slice(schedule.slice);
        let is_new = self.settle_class() | weighs_other;
        if is_new {
            // Release: with `take_change`.
            self.changed.store(true, Ordering::Release);
        }
        is_new
    }

    /// Others lend it that from now on. True: its queue has to know. Under the lock of its record (`futex::pi`).
    pub(in crate::sched) fn note_lent(&self, loan: Loan) -> bool {
        self.lent.store(loan.0, Ordering::SeqCst);
        let is_new = self.settle_class();
        if is_new {
            self.changed.store(true, Ordering::Release);
        }
        is_new
    }

    /// As `note_lent`, and says so to its queue. Takes the lock of that.
    pub(in crate::sched) fn set_lent(&self, loan: Loan) {
        if self.lent() != loan && self.note_lent(loan) {
            super::super::runqueue::changed(self);
        }
    }

    fn lent(&self) -> Loan {
        Loan(self.lent.load(Ordering::SeqCst))
    }

    /// What others would be lent by this task, and what is shown of it: its priority or, where that is 0, a nice value, both with what it is lent itself.
    pub fn shown_priority(&self) -> (u32, i32) {
        (self.class().priority(), self.lent().shown(self.nice()))
    }

    /// What it is given and what it is lent may change at once. Each who changes one looks once more after it has written the class: so the last of them
    /// has written what follows from both.
    fn settle_class(&self) -> bool {
        let mut is_new = false;
        loop {
            let class = self.own_class().with(self.lent());
            is_new |= self.place.class.swap(class.0, Ordering::SeqCst) != class.0;
            if self.own_class().with(self.lent()) == class {
                return is_new;
            }
        }
    }

    /// The class of its policy, whatever it is lent.
    pub(in crate::sched) fn own_class(&self) -> Class {
        Class(self.place.policy.load(Ordering::SeqCst) & !RESETS)
    }

    pub fn schedule(&self) -> Schedule {
        Schedule::from_word(self.place.policy.load(Ordering::Relaxed), self.nice(), self.fair.slice())
    }

    /// As what it is to run.
    #[inline]
    pub fn class(&self) -> Class {
        Class(self.place.class.load(Ordering::Relaxed))
    }

    /// How urgent it is, before all fair ones. Of one with a deadline under the lock of its queue, or where it runs.
    pub(in crate::sched) fn rank(&self) -> Rank {
        self.rank_in(self.class())
    }

    /// As `rank`, in `class`.
    pub(in crate::sched) fn rank_in(&self, class: Class) -> Rank {
        match self.deadline.get() {
            Some(entity) if class.has_deadline() => Rank::of_deadline(entity.at()),
            _ => Rank::of_priority(class.priority()),
        }
    }

    /// How long it has run in a class with priorities since it last slept, as ticks tell, ns; 0: it is in none.
    pub fn realtime_ns(&self) -> u64 {
        let class = self.class();
        if class.is_realtime() && !class.has_deadline() { self.realtime.ran() } else { 0 }
    }

    /// What it was admitted with, if it has a deadline.
    pub fn deadline_parameters(&self) -> Option<deadline::Parameters> {
        let is_set = self.schedule().policy == Policy::Deadline;
        self.deadline.get().filter(|_| is_set).map(deadline::Entity::parameters)
    }

    /// It has run for longer than it has said, and asked to be told so: once.
    pub fn take_overrun(&self) -> bool {
        self.deadline.get().is_some_and(deadline::Entity::take_overrun)
    }

    /// May it run on all CPUs?
    pub fn runs_everywhere(&self) -> bool {
        super::super::affinity::is_everywhere(&self.place.affinity.words())
    }

    /// Are its class and weight to be taken up?
    #[inline]
    pub(in crate::sched) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// Its CPU looks at it when it switches the next time.
    pub(in crate::sched) fn expect_change(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// The class that is to be taken up; the weight may be another too.
    pub(in crate::sched) fn take_change(&self) -> Class {
        // Who changes them stores first what they are and then that they have changed.
        self.changed.swap(false, Ordering::AcqRel);
        self.class()
    }

    /// Does it run only when nobody else wants to?
    pub(in crate::sched) fn is_background(&self) -> bool {
        self.place.class.load(Ordering::Relaxed) == Policy::Idle as u32
    }
}
