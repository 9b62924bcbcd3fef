//! When a task that comes may have the CPU.

use super::super::super::policy::Class;
use super::super::super::task::Task;
use super::Queue;

/// Two that are nearly as urgent do not take the CPU from each other, and who has just got it keeps it for so long, ns.
const LEAD: u64 = 250_000;

/// When a task that comes may have the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    Now,
    /// It is due, but the running one keeps the CPU for so long yet, ns.
    In(u64),
    /// Others are as urgent.
    Waits,
}

impl Queue {
    /// When may `task`, a fair one which has its place, take the CPU from the running one?
    pub fn turn_of(&self, task: &Task, now: u64) -> Turn {
        if self.idles() {
            return Turn::Now;
        }
        if task.class() != Class::NORMAL {
            return Turn::Waits;
        }
        let (Some(current), Some(running)) = (&self.current, self.running(now)) else { return Turn::Waits };
        if current.is_background() {
            return Turn::Now;
        }
        if !self.line.is_due_before(&task.fair, running, LEAD) {
            return Turn::Waits;
        }
        match running.turn_left(LEAD) {
            0 => Turn::Now,
            left => Turn::In(left),
        }
    }
}

/// How long the task that runs on this CPU keeps it yet, ns, whoever comes.
pub fn turn_left(current: &Task, now: u64) -> u64 {
    let since = current.clock.since();
    current.fair.running(if since == 0 { 0 } else { now.saturating_sub(since) }).turn_left(LEAD)
}
