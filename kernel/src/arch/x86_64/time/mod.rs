//! Time: nanoseconds since boot from the time-stamp counter, the wall clock's offset, and this CPU's one-shot timer.
//!
//! Reading the clock is one RDTSC, one multiplication and one shift; nothing is written. The counters of all virtual
//! CPUs run together (QEMU and KVM keep them so).
//!
//! How fast the clock runs may change (`set_rate`), so what turns cycles into time is read under a sequence number, here and in the vDSO's page,
//! and both change in one step. A clock that keeps the rate measured at boot is [`raw`].

mod calibrate;
mod rtc;

use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::super::wall_clock;
use super::cpu::BootCell;
use super::cpu::reg::rdtsc;
use super::{apic, disable_interrupts, enable_interrupts, kvm};
use sync::protocol::sequence::{Sequence, Word};

/// The facts that turn cycles into time, as measured at boot.
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

/// What turns cycles into the time that [`now`] tells, at the rate that the clock runs at now.
#[repr(align(64))]
struct Pace {
    sequence: Sequence,
    /// Time-stamp at which the clock showed `base`.
    start: Word,
    base: Word,
    /// The others as in [`Clock`].
    ns_per_cycle: Word,
    cycles_per_ns: Word,
    ticks_per_ns: Word,
}

static PACE: Pace = Pace {
    sequence: Sequence::new(),
    start: Word::new(),
    base: Word::new(),
    ns_per_cycle: Word::with(1 << 32),
    cycles_per_ns: Word::with(1 << 32),
    ticks_per_ns: Word::with(1 << 32),
};

impl Pace {
    /// What `read` gives of words that belong together. Who changes them does not take interrupts meanwhile.
    #[inline(always)]
    fn read<T>(&self, read: impl Fn() -> T) -> T {
        loop {
            if let Some(found) = self.sequence.read(&read) {
                return found;
            }
            core::hint::spin_loop();
        }
    }
}

/// Nanoseconds since boot, at the rate that [`set_rate`] gave the clock.
#[inline]
pub fn now() -> u64 {
    PACE.read(|| {
        let cycles = rdtsc().wrapping_sub(PACE.start.load());
        PACE.base.load().wrapping_add(scale(cycles, PACE.ns_per_cycle.load()))
    })
}

/// Nanoseconds since boot, at the rate measured then.
pub fn raw() -> u64 {
    let clock = CLOCK.get();
    scale(rdtsc().wrapping_sub(clock.start), clock.ns_per_cycle)
}

/// Has the rate been measured? Before that no clock tells the time.
pub fn is_measured() -> bool {
    CLOCK.get().start != 0
}

/// The rate of a clock that runs as measured: nanoseconds a second, times 2^32.
pub const EVEN: u64 = 1_000_000_000 << 32;

/// From now on [`now`] moves on by `rate` in a second of [`raw`] (nanoseconds, times 2^32; not 0). It goes on from where it is. One caller at a time. A timer that
/// is armed keeps its moment by the old rate.
pub fn set_rate(rate: u64) {
    let clock = CLOCK.get();
    let part =
        |factor: u64, of: u64, to: u64| (u128::from(factor) * u128::from(of) / u128::from(to.max(1))) as u64;
    let ns_per_cycle = part(clock.ns_per_cycle, rate, EVEN);
    let cycles_per_ns = part(clock.cycles_per_ns, EVEN, rate);
    let ticks_per_ns = part(clock.ticks_per_ns, EVEN, rate);
    // A handler that reads the clock would wait for the end of this.
    let enabled = disable_interrupts();
    PACE.sequence.write(|| {
        super::vdso::set_pace(ns_per_cycle, || {
            // Whoever has read a time by the old rate has done so before this.
            fence(Ordering::SeqCst);
            let at = rdtsc();
            let shown =
                PACE.base.load() + scale(at.wrapping_sub(PACE.start.load()), PACE.ns_per_cycle.load());
            // A processor may read the counter a little before the words that it has to do with: the line begins before now.
            let lead = at.wrapping_sub(PACE.start.load()).min(LEAD);
            let (start, base) = (at - lead, shown - scale(lead, ns_per_cycle).min(shown));
            PACE.start.store(start);
            PACE.base.store(base);
            PACE.ns_per_cycle.store(ns_per_cycle);
            PACE.cycles_per_ns.store(cycles_per_ns);
            PACE.ticks_per_ns.store(ticks_per_ns);
            (start, base)
        });
    });
    if enabled {
        enable_interrupts();
    }
}

/// Cycles by which a processor cannot be ahead of itself.
const LEAD: u64 = 1 << 16;

/// What to add to [`now`] for nanoseconds since 1970 UTC. Written by who sets the clock only.
static WALL: AtomicU64 = AtomicU64::new(0);
/// The same for TAI: a leap second changes the one and not the other.
static TAI: AtomicU64 = AtomicU64::new(0);

/// What to add to [`now`] for nanoseconds since 1970 UTC.
#[inline]
pub fn wall_offset() -> u64 {
    WALL.load(Ordering::Relaxed)
}

/// What to add to [`now`] for CLOCK_TAI.
pub fn tai_offset() -> u64 {
    TAI.load(Ordering::Relaxed)
}

/// Sets the wall clock, and CLOCK_TAI.
pub fn set_wall_offset(wall: u64, tai: u64) {
    WALL.store(wall, Ordering::Relaxed);
    TAI.store(tai, Ordering::Relaxed);
    super::vdso::set_wall(wall, tai);
}

/// The clock's facts.
pub fn clock() -> &'static Clock {
    CLOCK.get()
}

/// Arms this CPU's timer to interrupt at `ns` on [`now`]'s clock (at once if that is past); `u64::MAX` disarms it.
pub fn set_deadline(ns: u64) {
    if apic::has_deadline() {
        if ns == u64::MAX {
            // A deadline of 0 disarms.
            return apic::set_deadline(0);
        }
        let tsc = PACE.read(|| {
            let cycles = scale(ns.saturating_sub(PACE.base.load()), PACE.cycles_per_ns.load());
            PACE.start.load().wrapping_add(cycles)
        });
        apic::set_deadline(tsc.max(1));
        return;
    }
    if ns == u64::MAX {
        apic::set_count(0);
        return;
    }
    // A wait longer than the counter ends early; the handler sees that nothing is due and arms again.
    let left = ns.saturating_sub(now());
    apic::set_count(scale(left, PACE.ticks_per_ns.load()).clamp(1, u64::from(u32::MAX)) as u32);
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
    PACE.sequence.write(|| {
        PACE.start.store(clock.start);
        PACE.ns_per_cycle.store(clock.ns_per_cycle);
        PACE.cycles_per_ns.store(clock.cycles_per_ns);
        PACE.ticks_per_ns.store(clock.ticks_per_ns);
    });
    let wall = wall_clock::at_start(rtc::read(), super::command_line());
    set_wall_offset(wall, wall);
    sync::machine::set_cycles_per_ms(rates.tsc / 1000);
    let (tsc, timer) = (rates.tsc / 1000, rates.timer / 1000);
    let level = if kvm::is_host() { crate::log::INFO } else { crate::log::DEBUG };
    crate::log::print(level, format_args!("clock: {tsc} kHz, timer {timer} kHz, from {}", rates.source));
}
