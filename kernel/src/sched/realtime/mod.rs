//! Real-time tasks of one CPU: they go before all fair ones, by priority (SCHED_FIFO, SCHED_RR; sched(7)).
//!
//! * `entity`   what a task brings: priority, slice
//! * `line`     those that wait for one CPU, a list for each priority
//! * `throttle` what is left for fair tasks
//! * `settings` what the administrator sets
//!
//! A CPU without real-time tasks knows by one word, [`Realtime::any`], that there are none.

mod entity;
mod line;
pub mod settings;
mod throttle;

pub use entity::Entity;
pub use line::{End, Line};
pub use throttle::Throttle;

/// The real-time tasks of a queue. Under its lock.
pub struct Realtime {
    /// Some run or wait: the one word by which a CPU knows that it has none.
    pub any: bool,
    /// The priority of the one that runs; 0: none does.
    pub running: u32,
    /// From when on its time is not counted yet.
    pub since: u64,
    /// The CPU's priority has become lower, or somebody waits here who might run elsewhere: to be looked at soon.
    pub is_uneven: bool,
    pub line: Line,
    pub throttle: Throttle,
}

impl Realtime {
    pub const fn new() -> Self {
        Self {
            any: false,
            running: 0,
            since: 0,
            is_uneven: false,
            line: Line::new(),
            throttle: Throttle::new(),
        }
    }

    /// One of `priority` runs from `now` on; 0: none does.
    pub fn set_running(&mut self, priority: u32, now: u64) {
        self.running = priority;
        self.since = now;
        self.update();
    }

    /// To be called when who waits, or who runs, has changed.
    pub fn update(&mut self) {
        self.any = self.running != 0 || self.line.waiting() != 0;
    }

    /// The highest priority of those that run or wait here; 0: there are none.
    pub fn highest(&self) -> u32 {
        self.running.max(self.line.highest())
    }

    /// Counts the time of the one that runs up to `now`: how much that was since it was last counted.
    pub fn count(&mut self, now: u64) -> u64 {
        if self.running == 0 {
            return 0;
        }
        let ran = now.saturating_sub(self.since);
        self.throttle.count(now, ran);
        self.since = now.max(self.since);
        ran
    }
}
