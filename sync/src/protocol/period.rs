//! Grace periods: when has every CPU dropped what it read before a moment?
//!
//! Two numbers, of the period that has begun last and of the last that is over, each on a line of its own, and one seat per CPU. A CPU
//! *reports* period n by writing n to its seat while it is in no read section; an idle or absent CPU has IDLE there. When every seat says n
//! or IDLE, period n is over, and anybody may say so and begin n + 1. What was unlinked before a `tag` that gave n may be freed
//! once period n + 1 is over. So a batch of callbacks costs one period, and CPUs report nothing while nobody begins one:
//!
//! - Period n + 1 began after the tag (`tag`'s fence orders the unlinking before its read of n). A CPU that reports n + 1 has read
//!   that number, and its fence (`period.report`) orders its later reads after it: they see the unlinking. So while somebody
//!   can still hold what was unlinked who has not reported n + 1, that period is not over.
//! - A CPU seen IDLE that wakes up: either the scan (after its own fence, `period.scan`) sees the seat taken, or the fence in `wake`
//!   comes later than the scan's, and the reads after it see the unlinking.
//! - Reads of a CPU happen before its report (`period.seen`, release), the report before the scan (acquire), the scan before the period is
//!   said to be over (`period.end`), and that before the freeing (`period.over`).
//! - A period begins only when the last is over, so that it is not put off for ever.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU64, Ordering, const_new, fence_at, site};

/// In the seat of a CPU that reads nothing.
const IDLE: u64 = u64::MAX;

/// A line (and its pair) of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The numbers. Every CPU reads that of the current period all the time, and that of the last one over when callbacks of its own wait.
#[derive(Debug)]
pub struct Period {
    number: Line,
    over: Line,
}

/// A CPU's place. Written by that CPU, read by those that scan; on a line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct Seat {
    seen: AtomicU64,
}

impl Seat {
    const_new! {
        pub fn new() -> Self {
            Seat { seen: AtomicU64::new(IDLE) }
        }
    }

    /// The CPU reads nothing from here until `Period::wake`.
    #[inline]
    pub fn idle(&self) {
        self.seen.store(IDLE, site("period.idle", Ordering::Release));
    }

    /// Whether the CPU is idle, asked by itself.
    #[inline(always)]
    pub fn is_idle(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == IDLE
    }
}

impl Default for Seat {
    fn default() -> Self {
        Self::new()
    }
}

impl Period {
    const_new! {
        pub fn new() -> Self {
            Period { number: Line(AtomicU64::new(1)), over: Line(AtomicU64::new(1)) }
        }
    }

    /// The number, of the current period or one just over.
    #[inline(always)]
    pub fn number(&self) -> u64 {
        self.number.0.load(Ordering::Relaxed)
    }

    /// The CPU of `seat` is in no read section. Two loads and a comparison, once per period more.
    #[inline(always)]
    pub fn quiescent(&self, seat: &Seat) {
        let number = self.number.0.load(Ordering::Acquire);
        if number != seat.seen.load(Ordering::Relaxed) {
            report(seat, number);
        }
    }

    /// The CPU of `seat` may read from here on.
    #[inline]
    pub fn wake(&self, seat: &Seat) {
        seat.seen.store(self.number.0.load(Ordering::Acquire), Ordering::Relaxed);
        fence_at("period.wake");
    }

    /// What `is_over` asks for, for everything unlinked by this CPU so far.
    #[inline]
    pub fn tag(&self) -> u64 {
        fence_at("period.tag");
        self.number.0.load(Ordering::Relaxed)
    }

    /// Whether what was unlinked before `tag` was taken may be freed.
    #[inline]
    pub fn is_over(&self, tag: u64) -> bool {
        self.over.0.load(site("period.over", Ordering::Acquire)) > tag
    }

    /// Whether period `number` has begun and is not over.
    pub fn is_under_way(&self, number: u64) -> bool {
        self.number() == number && self.over.0.load(Ordering::Relaxed) < number
    }

    /// Begins a period, if the current one is over. Says whether it is another now.
    pub fn begin(&self) -> bool {
        let number = self.number();
        if self.over.0.load(Ordering::Relaxed) < number {
            return false;
        }
        // Whoever fails finds that another has begun it.
        let _ = self.number.0.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed);
        true
    }

    /// Ends the current period if every CPU has reported it. `Err` names the first CPU that has not, which may be asked for first
    /// (`ask_first`) the next time.
    pub fn try_end<'a>(
        &self,
        cpus: u32,
        ask_first: u32,
        seat_of: impl Fn(u32) -> &'a Seat,
    ) -> Result<(), u32> {
        let number = self.number();
        fence_at("period.scan");
        for cpu in core::iter::once(ask_first).filter(|cpu| *cpu < cpus).chain(0..cpus) {
            // IDLE is more than any number.
            if seat_of(cpu).seen.load(site("period.seen", Ordering::Acquire)) < number {
                return Err(cpu);
            }
        }
        self.over.0.fetch_max(number, site("period.end", Ordering::Release));
        Ok(())
    }
}

impl Default for Period {
    fn default() -> Self {
        Self::new()
    }
}

#[cold]
fn report(seat: &Seat, number: u64) {
    seat.seen.store(number, site("period.report", Ordering::Release));
    fence_at("period.quiescent");
}
