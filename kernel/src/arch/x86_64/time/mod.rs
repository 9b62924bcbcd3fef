//! Time: nanoseconds since boot from the time-stamp counter, the wall clock's offset, and this CPU's one-shot timer.
//!
//! Reading the clock is one RDTSC, one multiplication and one shift; nothing is written. The counters of all virtual
//! CPUs run together (QEMU and KVM keep them so).

mod calibrate;
mod rtc;

use core::sync::atomic::{AtomicU64, Ordering};

use super::cpu::BootCell;
use super::cpu::reg::rdtsc;
use super::{apic, kvm};

/// The facts that turn cycles into time.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Time-stamp at boot.
    pub start: u64,
    /// Nanoseconds per cycle, times 2^32.
    pub ns_per_cycle: u64,
    /// Cycles per nanosecond, times 2^32.
    pub cycles_per_ns: u64,
    /// Timer ticks per nanosecond, times 2^32 (where the timer takes counts).
    pub ticks_per_ns: u64,
}

static CLOCK: BootCell<Clock> =
    BootCell::new(Clock { start: 0, ns_per_cycle: 1 << 32, cycles_per_ns: 1 << 32, ticks_per_ns: 1 << 32 });

fn scale(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32) as u64
}

/// Nanoseconds since boot.
#[inline]
pub fn now() -> u64 {
    let clock = CLOCK.get();
    scale(rdtsc().wrapping_sub(clock.start), clock.ns_per_cycle)
}

/// What to add to [`now`] for nanoseconds since 1970 UTC. Written by settimeofday only.
static WALL: AtomicU64 = AtomicU64::new(0);

/// What to add to [`now`] for nanoseconds since 1970 UTC.
#[inline]
pub fn wall_offset() -> u64 {
    WALL.load(Ordering::Relaxed)
}

/// Sets the wall clock.
pub fn set_wall_offset(ns: u64) {
    WALL.store(ns, Ordering::Relaxed);
    super::vdso::set_wall(ns);
}

/// The clock's facts.
pub fn clock() -> &'static Clock {
    CLOCK.get()
}

/// Arms this CPU's timer to interrupt at `ns` on [`now`]'s clock (at once if that is past); `u64::MAX` disarms it.
pub fn set_deadline(ns: u64) {
    let clock = CLOCK.get();
    if apic::has_deadline() {
        // A deadline of 0 would disarm.
        let tsc =
            if ns == u64::MAX { 0 } else { clock.start.wrapping_add(scale(ns, clock.cycles_per_ns)).max(1) };
        apic::set_deadline(tsc);
        return;
    }
    if ns == u64::MAX {
        apic::set_count(0);
        return;
    }
    // A wait longer than the counter ends early; the handler sees that nothing is due and arms again.
    let left = ns.saturating_sub(now());
    apic::set_count(scale(left, clock.ticks_per_ns).clamp(1, u64::from(u32::MAX)) as u32);
}

/// Measures the clocks and reads the wall clock.
///
/// # Safety
/// Once, on the boot CPU, alone, with its APIC on.
pub unsafe fn init(pm_timer: Option<u16>) {
    let rates = calibrate::measure(pm_timer);
    let per = |hz: u64| ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
    let inverse = |hz: u64| ((u128::from(hz) << 32) / 1_000_000_000) as u64;
    // SAFETY: boot CPU, alone.
    let clock = unsafe { CLOCK.get_mut() };
    clock.start = rdtsc();
    clock.ns_per_cycle = per(rates.tsc);
    clock.cycles_per_ns = inverse(rates.tsc);
    clock.ticks_per_ns = inverse(rates.timer);
    set_wall_offset(rtc::read().unwrap_or(0) * 1_000_000_000);
    sync::machine::set_cycles_per_ms(rates.tsc / 1000);
    let (tsc, timer) = (rates.tsc / 1000, rates.timer / 1000);
    let level = if kvm::is_host() { crate::log::INFO } else { crate::log::DEBUG };
    crate::log::print(level, format_args!("clock: {tsc} kHz, timer {timer} kHz, from {}", rates.source));
}
