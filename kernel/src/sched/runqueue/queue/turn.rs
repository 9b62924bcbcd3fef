//! When a task that comes may have the CPU.

use super::super::super::fair::Running;
use super::super::super::policy::Class;
use super::super::super::task::Task;
use super::Queue;

/// Two that are nearly as urgent do not take the CPU from each other, and who has just got it keeps it for so long, ns.
const LEAD: u64 = 250_000;

/// Where somebody waits who asks for little at a time, the CPU looks so often whether what runs has had its request, ns: others wait for a tick to find out.
const SOON: u64 = 500_000;

/// When a task that comes may have the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    Now,
    /// Its CPU looks again in so many ns: it is due, but the running one keeps the CPU for so long yet; or it asks for little.
    In(u64),
    /// Others are as urgent.
    Waits,
}

impl Queue {
    /// When may `task`, a fair one which has its place, take the CPU from what runs?
    #[inline(always)]
    pub fn turn_of(&self, task: &Task, running: Option<Running>) -> Turn {
        if self.idles() {
            return Turn::Now;
        }
        if task.class() != Class::NORMAL {
            return Turn::Waits;
        }
        let (Some(current), Some(running)) = (&self.current, running) else { return Turn::Waits };
        if current.is_background() {
            return Turn::Now;
        }
        if !self.line.is_due_before(&task.fair, running, LEAD) {
            return if task.fair.asks_for_little() { Turn::In(SOON) } else { Turn::Waits };
        }
        match running.turn_left(LEAD) {
            0 => Turn::Now,
            left => Turn::In(left),
        }
    }

    /// How long what runs keeps this CPU yet from those that wait, ns; None: until the next tick.
    #[cold]
    #[inline(never)]
    pub fn turn_left(&mut self, now: u64) -> Option<u64> {
        let running = self.running(now)?;
        self.line.ripen(running);
        match self.line.first().map(|first| self.turn_of(first, Some(running))) {
            Some(Turn::Now) => Some(0),
            Some(Turn::In(left)) if left < SOON => Some(left),
            // Who asks for little need not be the first, and not eligible yet.
            _ => self.line.any_short().then(|| running.request_left().min(SOON)),
        }
    }

    /// The same, of a task that has just got the CPU: nobody who waits is due before it.
    #[inline]
    pub fn first_turn(&self) -> Option<u64> {
        self.line.any_short().then_some(SOON)
    }
}
