//! How a task is scheduled: policy, nice value, and the share of the processor that they give (sched(7)).
#![forbid(unsafe_code)]

/// How a task is scheduled (sched(7)). The numbers are Linux's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    Normal = 0,
    /// It computes: when it wakes, it waits for its turn.
    Batch = 3,
    /// As batch, with a smaller share than any nice value gives.
    Idle = 5,
}

/// What sched_setscheduler and setpriority say of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub policy: Policy,
    /// -20 (most) to 19 (least).
    pub nice: i32,
    /// A child does not get a nice value below 0 (SCHED_RESET_ON_FORK).
    pub resets: bool,
}

/// The flag of `Task::policy` for `Schedule::resets`.
pub(super) const RESETS: u32 = 1 << 30;
/// The rank of `Policy::Idle`, behind every nice value.
const IDLE_RANK: i32 = 20;

impl Schedule {
    pub(super) const NORMAL: Self = Self { policy: Policy::Normal, nice: 0, resets: false };

    /// What a child begins with.
    pub(super) fn inherit(self) -> Self {
        let nice = if self.resets { self.nice.max(0) } else { self.nice };
        Self { nice, resets: false, ..self }
    }

    /// What its weight is taken from (`fair::weight`): the nice value, or worse.
    pub(super) fn rank(self) -> i32 {
        if self.policy == Policy::Idle { IDLE_RANK } else { self.nice }
    }

    pub(super) fn word(self) -> u32 {
        self.policy as u32 | if self.resets { RESETS } else { 0 }
    }
}
