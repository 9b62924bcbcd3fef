//! Time: the host's clock, and this CPU's timer.

use std::sync::atomic::{AtomicU64, Ordering};

pub use super::cpu::set_deadline;

/// The facts that turn cycles into time: a cycle is a nanosecond.
pub struct Clock {
    /// Cycles per nanosecond, times 2^32.
    pub cycles_per_ns: u64,
}

static CLOCK: Clock = Clock { cycles_per_ns: 1 << 32 };

/// Nanoseconds since the first question.
pub fn now() -> u64 {
    sync::machine::cycles()
}

/// 2026-01-01, so that a test knows the date.
static WALL: AtomicU64 = AtomicU64::new(1_767_225_600_000_000_000);

/// The same for TAI.
static TAI: AtomicU64 = AtomicU64::new(1_767_225_600_000_000_000);

/// What to add to [`now`] for nanoseconds since 1970 UTC.
pub fn wall_offset() -> u64 {
    WALL.load(Ordering::Relaxed)
}

/// What to add to [`now`] for CLOCK_TAI.
pub fn tai_offset() -> u64 {
    TAI.load(Ordering::Relaxed)
}

pub fn set_wall_offset(wall: u64, tai: u64) {
    WALL.store(wall, Ordering::Relaxed);
    TAI.store(tai, Ordering::Relaxed);
}

pub fn is_measured() -> bool {
    true
}

/// Nanoseconds since the first question.
pub fn raw() -> u64 {
    now()
}

/// The rate of a clock that runs as measured: nanoseconds a second, times 2^32.
pub const EVEN: u64 = 1_000_000_000 << 32;

/// The host's clock runs as it does.
pub fn set_rate(_rate: u64) {}

pub fn clock() -> &'static Clock {
    &CLOCK
}
