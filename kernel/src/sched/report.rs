//! What a task tells of itself, for /proc: how long it waited for a CPU, and what its turn depends on.
#![forbid(unsafe_code)]

use super::policy::Policy;
use super::task::{State, Task};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long a task has waited for a CPU. The words change under the lock of its queue, or by the CPU that takes it.
pub(super) struct Waits {
    /// When it began to wait last, ns; 0: never, as an idle task.
    since: AtomicU64,
    /// How long it has waited, all together, ns.
    ns: AtomicU64,
}

impl Waits {
    pub const fn new() -> Self {
        Self { since: AtomicU64::new(0), ns: AtomicU64::new(0) }
    }

    /// It begins to wait for a CPU, whichever that will be.
    #[inline]
    pub fn begin(&self, now: u64) {
        self.since.store(now.max(1), Relaxed);
    }

    /// How long it has waited up to now, ns.
    pub fn for_ns(&self, now: u64) -> u64 {
        now.saturating_sub(self.since.load(Relaxed))
    }

    /// A CPU takes it: how long it has waited; None: it never began to.
    #[inline]
    pub fn end(&self, now: u64) -> Option<u64> {
        let since = self.since.load(Relaxed);
        (since != 0).then(|| {
            let waited = now.saturating_sub(since);
            self.ns.store(self.ns.load(Relaxed).wrapping_add(waited), Relaxed);
            waited
        })
    }
}

/// See the head of the file. Times in ns.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// When its run time was counted last; 0: it does not run.
    pub counted_at: u64,
    pub vruntime: u64,
    pub weight: u64,
    pub migrations: u64,
    pub waited_ns: u64,
    /// How often it got a CPU.
    pub taken: u64,
    /// Linux's numbers.
    pub policy: u64,
    pub priority: i64,
    /// Of one with a deadline: what it has left of its run time, and until when it is to have that.
    pub deadline: Option<(i64, u64)>,
}

impl Task {
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "nice is between -20 and 19, a priority at most 99, and counts of switches are small"
    )]
    pub fn report(&self) -> Report {
        let (times, schedule, shown) = (self.times(), self.schedule(), self.shown_priority());
        let is_deadline = schedule.policy == Policy::Deadline;
        let runs = self.on_cpu.is_on() && self.state() != State::Dead;
        Report {
            counted_at: self.clock.since(),
            vruntime: self.fair.vruntime(),
            weight: self.fair.own_weight(),
            migrations: self.migrations.load(Relaxed),
            waited_ns: self.waits.ns.load(Relaxed),
            taken: times.voluntary + times.involuntary + u64::from(runs),
            policy: schedule.policy as u64,
            deadline: self.deadline.get().filter(|_| is_deadline).map(|entity| (entity.left(), entity.at())),
            priority: match shown {
                _ if is_deadline => -1,
                (0, nice) => i64::from(nice) + 120,
                (realtime, _) => 99 - i64::from(realtime),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_moves_while_it_waits_has_waited_once() {
        let waits = Waits::new();
        assert_eq!(waits.end(50), None, "it never waited");
        waits.begin(100);
        waits.end(130);
        waits.begin(200);
        waits.end(205);
        assert_eq!(waits.ns.load(Relaxed), 35);
    }
}
