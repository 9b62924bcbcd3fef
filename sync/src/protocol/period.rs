//! Grace periods: when has every CPU dropped what it read before a moment?
//!
//! One number, read-mostly, on a line of its own, and one seat per CPU. A CPU *reports* period n by writing n to its seat while it is
//! in no read section; an idle or absent CPU has IDLE there. When every seat says n or IDLE, anybody may move the number to n + 1.
//! What was unlinked before a `tag` that gave n may be freed once the number is n + 2:
//!
//! - Period n + 1 began after the tag (`tag`'s fence orders the unlinking before its read of n). A CPU that reports n + 1 has read
//!   that number, and its fence (`period.report`) orders its later reads after it: they see the unlinking. So whoever
//!   can still hold what was unlinked has not reported n + 1, and the number does not become n + 2.
//! - A CPU seen IDLE that wakes up: either the scan (after its own fence, `period.scan`) sees the seat taken, or the fence in `wake`
//!   comes later than the scan's, and the reads after it see the unlinking.
//! - Reads of a CPU happen before its report (`period.seen`, release), the report before the scan (acquire), the scan before the new number
//!   (`period.advance`), and that before the freeing (`period.over`).

use crate::atomic::{AtomicU64, Ordering, const_new, fence_at, site};

/// In the seat of a CPU that reads nothing.
const IDLE: u64 = u64::MAX;

/// The number of the current period; on a line (and its pair) of its own, because every CPU reads it all the time.
#[derive(Debug)]
#[repr(align(128))]
pub struct Period {
    number: AtomicU64,
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
            Period { number: AtomicU64::new(1) }
        }
    }

    /// The number, of the current period or one just over.
    #[inline(always)]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// The CPU of `seat` is in no read section. Two loads and a comparison, once per period more.
    #[inline(always)]
    pub fn quiescent(&self, seat: &Seat) {
        let number = self.number.load(Ordering::Acquire);
        if number != seat.seen.load(Ordering::Relaxed) {
            report(seat, number);
        }
    }

    /// The CPU of `seat` may read from here on.
    #[inline]
    pub fn wake(&self, seat: &Seat) {
        seat.seen.store(self.number.load(Ordering::Acquire), Ordering::Relaxed);
        fence_at("period.wake");
    }

    /// What `is_over` asks for, for everything unlinked by this CPU so far.
    #[inline]
    pub fn tag(&self) -> u64 {
        fence_at("period.tag");
        self.number.load(Ordering::Relaxed)
    }

    /// Whether what was unlinked before `tag` was taken may be freed.
    #[inline]
    pub fn is_over(&self, tag: u64) -> bool {
        self.number.load(site("period.over", Ordering::Acquire)) >= tag + 2
    }

    /// Ends the period if every CPU has reported it. `Err` names the first CPU that has not, which may be asked for first
    /// (`ask_first`) the next time.
    pub fn try_advance<'a>(
        &self,
        cpus: u32,
        ask_first: u32,
        seat_of: impl Fn(u32) -> &'a Seat,
    ) -> Result<u64, u32> {
        let number = self.number.load(Ordering::Acquire);
        fence_at("period.scan");
        for cpu in core::iter::once(ask_first).filter(|cpu| *cpu < cpus).chain(0..cpus) {
            let seen = seat_of(cpu).seen.load(site("period.seen", Ordering::Acquire));
            if seen != number && seen != IDLE {
                return Err(cpu);
            }
        }
        let order = site("period.advance", Ordering::AcqRel);
        match self.number.compare_exchange(number, number + 1, order, Ordering::Relaxed) {
            Ok(_) => Ok(number + 1),
            Err(now) => Ok(now),
        }
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
