//! What a CPU's timer is set to while the CPU idles.
//!
//! An idle CPU does not tick. But in a virtual machine each setting of the timer leaves the guest: one to turn the tick off, and one to turn it on
//! again for the next thread. Where a CPU waits for short times only, as threads do that wake each other, the tick stays set instead: one
//! that goes off in an idle span for nothing ends that, until a span has been short again.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What this CPU knows of its last idle span. Its CPU alone comes here.
pub struct LastIdle {
    /// When the timer was to go off as the span began.
    set: AtomicU64,
    /// The span was over by then.
    short: AtomicBool,
}

impl LastIdle {
    pub const fn new() -> Self {
        Self { set: AtomicU64::new(0), short: AtomicBool::new(false) }
    }

    /// A span begins, in which the CPU wants to be interrupted by `wanted`, and its timer is set to `set`. What to set it to; `None`: it stays.
    pub fn begin(&self, set: u64, wanted: u64) -> Option<u64> {
        self.set.store(set, Ordering::Relaxed);
        let stays = set == wanted || set < wanted && self.short.load(Ordering::Relaxed);
        (!stays).then_some(wanted)
    }

    /// The span is over.
    pub fn end(&self, now: u64) {
        self.short.store(now < self.set.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 1000;
    const NEVER: u64 = u64::MAX;

    /// Settings of the timer, and interrupts for nothing, of a CPU that idles `spans` times for `length`, with a thread running in between.
    fn spans(spans: usize, length: u64) -> (usize, usize) {
        let (idle, mut now, mut set) = (LastIdle::new(), 0, NEVER);
        let (mut settings, mut vain) = (0, 0);
        for _ in 0..spans {
            if now + TICK < set {
                (set, settings) = (now + TICK, settings + 1);
            }
            let next = idle.begin(set, NEVER);
            (set, settings) = (next.unwrap_or(set), settings + usize::from(next.is_some()));
            let over = now + length;
            if set <= over {
                // The tick sets the next one, as it does elsewhere.
                vain += 1;
                idle.end(set);
                assert_eq!(idle.begin(set + TICK, NEVER), Some(NEVER), "another one for nothing");
                (set, settings) = (NEVER, settings + 2);
            }
            now = over;
            idle.end(now);
        }
        (settings, vain)
    }

    #[test]
    fn between_short_spans_the_timer_stays_set() {
        // Three settings for each tick, not two for each span.
        assert_eq!(spans(1000, 10), (30, 9));
    }

    #[test]
    fn for_long_spans_the_tick_is_turned_off_and_never_goes_off() {
        assert_eq!(spans(50, TICK * 10), (100, 0));
    }

    #[test]
    fn a_deadline_before_the_tick_is_set_however_short_spans_are() {
        let idle = LastIdle::new();
        idle.begin(TICK, NEVER);
        idle.end(1);
        assert_eq!(idle.begin(TICK, TICK + 1), None);
        assert_eq!(idle.begin(TICK, TICK), None);
        assert_eq!(idle.begin(TICK, TICK - 1), Some(TICK - 1));
        idle.end(TICK);
        assert_eq!(idle.begin(TICK, TICK + 1), Some(TICK + 1));
    }
}
