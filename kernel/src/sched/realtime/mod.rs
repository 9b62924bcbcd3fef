//! Real-time tasks of one CPU: they go before all fair ones, by priority (SCHED_FIFO, SCHED_RR; sched(7)).
//!
//! * `entity`   what a task brings: priority, slice
//! * `rank`     how urgent a task is: by its priority, or above all those by its deadline (`deadline`)
//! * `line`     those that wait for one CPU, a list for each priority, and those with deadlines
//! * `throttle` what is left for fair tasks
//! * `settings` what the administrator sets
//!
//! A CPU without real-time tasks knows by one word, [`Realtime::any`], that there are none.

mod entity;
mod line;
mod rank;
pub mod settings;
mod throttle;

pub use entity::Entity;
pub use line::{End, Line};
pub use rank::Rank;
pub use throttle::Throttle;

/// The real-time tasks of a queue, and those with deadlines. Under its lock.
pub struct Realtime {
    /// Some run or wait: the one word by which a CPU knows that it has none.
    pub any: bool,
    /// The rank of the one that runs.
    pub running: Rank,
    /// From when on its time is not counted yet.
    pub since: u64,
    /// The CPU's priority has become lower, or somebody waits here who might run elsewhere: to be looked at soon.
    pub is_uneven: bool,
    pub line: Line,
    /// Of all of them.
    throttle: Throttle,
    /// Of those with deadlines alone.
    deadlines: Throttle,
    /// One with a deadline runs while those with priorities are held back.
    overtakes: bool,
}

impl Realtime {
    pub const fn new() -> Self {
        Self {
            any: false,
            running: Rank::NONE,
            since: 0,
            is_uneven: false,
            line: Line::new(),
            throttle: Throttle::new(),
            deadlines: Throttle::new(),
            overtakes: false,
        }
    }

    /// One of this rank runs from `now` on.
    pub fn set_running(&mut self, rank: Rank, now: u64) {
        self.running = rank;
        self.since = now;
        self.overtakes = rank.has_deadline() && self.throttle.holds_back(now);
        self.update();
    }

    /// To be called when who waits, or who runs, has changed.
    pub fn update(&mut self) {
        self.any = !self.running.is_none() || self.line.waiting() != 0;
    }

    /// The highest rank of those that run or wait here.
    pub fn highest(&self) -> Rank {
        self.running.max(self.line.highest())
    }

    /// Have those of this rank had what they may have where fair tasks wait, so that these go first?
    pub fn holds_back(&self, rank: Rank, now: u64) -> bool {
        let throttle = if rank.has_deadline() { &self.deadlines } else { &self.throttle };
        throttle.holds_back(now)
    }

    /// Counts the time of the one that runs up to `now`: how much that was since it was last counted.
    pub fn count(&mut self, now: u64) -> u64 {
        if self.running.is_none() {
            return 0;
        }
        let ran = now.saturating_sub(self.since);
        if self.overtakes {
            self.throttle.postpone(ran);
        } else {
            self.throttle.count(now, ran);
        }
        if self.running.has_deadline() {
            self.deadlines.count(now, ran);
        }
        self.since = now.max(self.since);
        ran
    }
}
