//! How a task is scheduled: policy, nice value or priority, and what follows from them (sched(7)).
#![forbid(unsafe_code)]

/// How a task is scheduled (sched(7)). The numbers are Linux's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    #[default]
    Normal = 0,
    /// Real time: runs until it sleeps, gives way, or one of a higher priority comes.
    Fifo = 1,
    /// As FIFO, in turn with others of its priority.
    RoundRobin = 2,
    /// It computes: when it wakes, it waits for its turn.
    Batch = 3,
    /// As batch, with a smaller share than any nice value gives.
    Idle = 5,
    /// It has a run time in each period (`deadline`), and goes before all others.
    Deadline = 6,
}

impl Policy {
    /// Does it have priorities?
    pub fn is_realtime(self) -> bool {
        matches!(self, Policy::Fifo | Policy::RoundRobin)
    }

    /// Does it go before all fair ones?
    pub fn goes_first(self) -> bool {
        self.is_realtime() || self == Policy::Deadline
    }
}

/// What sched_setscheduler and setpriority say of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    pub policy: Policy,
    /// Of a real-time policy: 1 (least) to 99 (most). Else 0.
    pub priority: u32,
    /// -20 (most) to 19 (least). A real-time policy keeps it for the next one.
    pub nice: i32,
    /// What a fair task asks for at a time, ns; 0: it has not been said.
    pub slice: u32,
    /// A child gets neither a nice value below 0 nor a real-time policy (SCHED_RESET_ON_FORK).
    pub resets: bool,
}

/// The flag of `Task::policy` for `Schedule::resets`.
pub(super) const RESETS: u32 = 1 << 30;
/// The rank of `Policy::Idle`, behind every nice value.
const IDLE_RANK: i32 = 20;

/// As what a task runs: a policy, and a priority above it. So real-time classes are those from [`Class::REALTIME`] on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Class(pub(super) u32);

impl Class {
    pub(super) const NORMAL: Class = Class(Policy::Normal as u32);
    const SHIFT: u32 = 8;
    const REALTIME: Class = Class(1 << Self::SHIFT);
    /// What is above all priorities: the one of classes with deadlines.
    pub(super) const DEADLINES: u32 = 100;

    #[inline]
    pub(super) fn is_realtime(self) -> bool {
        self >= Self::REALTIME
    }

    /// 1 to 99, or [`Self::DEADLINES`]; 0: it is a fair class.
    #[inline]
    pub fn priority(self) -> u32 {
        self.0 >> Self::SHIFT
    }

    /// This class, of a task to which others lend that. A fair task runs until it gives way then.
    pub(super) fn with(self, loan: Loan) -> Class {
        let priority = loan.priority();
        match self.policy() {
            _ if priority <= self.priority() => self,
            Policy::RoundRobin => Class(Policy::RoundRobin as u32 | priority << Self::SHIFT),
            _ => Class(Policy::Fifo as u32 | priority << Self::SHIFT),
        }
    }

    #[inline]
    pub(super) fn has_deadline(self) -> bool {
        self >= Class(Self::DEADLINES << Self::SHIFT)
    }

    pub(super) fn policy(self) -> Policy {
        match self.0 & 0xff {
            0 => Policy::Normal,
            1 => Policy::Fifo,
            2 => Policy::RoundRobin,
            3 => Policy::Batch,
            6 => Policy::Deadline,
            _ => Policy::Idle,
        }
    }
}

/// What one who waits lends to whom it waits for: a real-time priority, by which loans are ordered; or nothing but what is shown of it, as Linux shows
/// a nice value that is better, and gives nothing for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Loan(pub(super) u32);

impl Loan {
    /// Nobody waits.
    pub(super) const NONE: Loan = Loan(0);
    const SHIFT: u32 = 8;

    /// Of one of this priority or, if that is 0, of this nice value. One with a deadline lends the highest priority, and no run time of its own.
    pub(super) fn of(priority: u32, nice: i32) -> Loan {
        let priority = priority.min(Class::DEADLINES - 1);
        Loan(if priority == 0 { (20 - nice.clamp(-20, 19)).unsigned_abs() } else { priority << Self::SHIFT })
    }

    pub(super) fn priority(self) -> u32 {
        self.0 >> Self::SHIFT
    }

    /// What is left of it when its owner's nice value is set.
    pub(super) fn without_nice(self) -> Loan {
        Loan(self.0 >> Self::SHIFT << Self::SHIFT)
    }

    /// The nice value that is shown of one who has `nice`.
    pub(super) fn shown(self, nice: i32) -> i32 {
        match (self.0 & ((1 << Self::SHIFT) - 1)).cast_signed() {
            0 => nice,
            lent => nice.min(20 - lent),
        }
    }
}

impl Schedule {
    pub(super) const NORMAL: Self =
        Self { policy: Policy::Normal, priority: 0, nice: 0, slice: 0, resets: false };

    /// What a child begins with; None: nobody inherits a deadline.
    pub(super) fn inherit(self) -> Option<Self> {
        match self.resets {
            false if self.policy == Policy::Deadline => None,
            false => Some(self),
            true if self.policy.goes_first() => Some(Self::NORMAL),
            true => Some(Self { nice: self.nice.max(0), slice: 0, resets: false, ..self }),
        }
    }

    /// What its weight is taken from (`fair::weight`): the nice value, or worse.
    pub(super) fn rank(self) -> i32 {
        if self.policy == Policy::Idle { IDLE_RANK } else { self.nice }
    }

    pub(super) fn class(self) -> Class {
        let priority = if self.policy == Policy::Deadline { Class::DEADLINES } else { self.priority };
        Class(self.policy as u32 | priority << Class::SHIFT)
    }

    pub(super) fn word(self) -> u32 {
        self.class().0 | if self.resets { RESETS } else { 0 }
    }

    pub(super) fn from_word(word: u32, nice: i32, slice: u32) -> Self {
        let class = Class(word & !RESETS);
        let priority = if class.priority() < Class::DEADLINES { class.priority() } else { 0 };
        Self { policy: class.policy(), priority, nice, slice, resets: word & RESETS != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_all_but_the_nice_value() {
        let real = [Policy::Fifo, Policy::RoundRobin, Policy::Deadline];
        for policy in [Policy::Normal, Policy::Batch, Policy::Idle].into_iter().chain(real) {
            let priority = if policy.is_realtime() { 99 } else { 0 };
            let schedule = Schedule { policy, priority, nice: -3, slice: 7, resets: priority == 0 };
            assert_eq!(Schedule::from_word(schedule.word(), -3, 7), schedule);
            assert_eq!(schedule.class().is_realtime(), policy.goes_first());
        }
    }

    #[test]
    fn who_is_lent_a_priority_has_the_higher_of_two_and_keeps_its_turns() {
        let class = |policy, priority| Schedule { policy, priority, ..Schedule::NORMAL }.class();
        for policy in [Policy::Normal, Policy::Batch, Policy::Idle] {
            assert_eq!(class(policy, 0).with(Loan::NONE), class(policy, 0));
            assert_eq!(class(policy, 0).with(Loan::of(7, 0)), class(Policy::Fifo, 7));
        }
        for policy in [Policy::Fifo, Policy::RoundRobin] {
            assert_eq!(class(policy, 5).with(Loan::of(5, 0)), class(policy, 5));
            assert_eq!(class(policy, 5).with(Loan::of(3, 0)), class(policy, 5));
            assert_eq!(class(policy, 5).with(Loan::of(9, 0)), class(policy, 9));
        }
    }

    #[test]
    fn a_nice_value_is_shown_of_a_loan_that_is_no_priority() {
        assert_eq!((Loan::NONE.priority(), Loan::NONE.shown(5)), (0, 5));
        for (lent, own, shown) in [(-20, 0, -20), (19, 0, 0), (19, 19, 19), (3, 7, 3), (-1, -2, -2)] {
            let loan = Loan::of(0, lent);
            assert_eq!((loan.priority(), loan.shown(own), loan.without_nice()), (0, shown, Loan::NONE));
            assert!(Loan::NONE < loan && loan < Loan::of(1, 0));
        }
        assert_eq!(Loan::of(9, -5).shown(4), 4);
    }

    #[test]
    fn a_child_of_one_that_resets_has_neither_priority_nor_a_nice_value_below_zero() {
        let fifo = Schedule { policy: Policy::Fifo, priority: 9, nice: 4, ..Schedule::NORMAL };
        assert_eq!(fifo.inherit(), Some(fifo));
        assert_eq!(Schedule { resets: true, ..fifo }.inherit(), Some(Schedule::NORMAL));
        let deadline = Schedule { policy: Policy::Deadline, nice: 4, ..Schedule::NORMAL };
        assert_eq!(deadline.inherit(), None);
        assert_eq!(Schedule { resets: true, ..deadline }.inherit(), Some(Schedule::NORMAL));
        let batch = Schedule { policy: Policy::Batch, nice: -4, slice: 7, resets: true, ..Schedule::NORMAL };
        assert_eq!(batch.inherit(), Some(Schedule { nice: 0, slice: 0, resets: false, ..batch }));
    }
}
