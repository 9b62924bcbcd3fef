//! How the wall clock is corrected: the state that adjtimex(2) reads and sets, and what follows from it each second. RFC 5905 has the loop (a phase-locked one, and a
//! frequency-locked one for long intervals); constants and rounding are those of Linux with 250 ticks a second.
//!
//! Nothing here reads a clock or changes one: the owner calls [`Discipline::second`] at each second of the wall clock, and carries out what that says.
//!
//! Units: a *scaled* number is nanoseconds times 2^32.
#![forbid(unsafe_code)]
// Each sum is bounded by the ranges that the values are brought into when they come.
#![expect(clippy::arithmetic_side_effects, reason = "values are in their ranges, products fit")]

/// Ticks a second, by which offsets are divided.
const TICKS: i64 = 250;
/// What user space counts a second's ticks to be (USER_HZ).
const USER_TICKS: i64 = 100;
const SCALE: u32 = 32;
/// A part in a million as user space says it (times 2^16), scaled.
const PPM: i64 = 1000 << (SCALE - 16);
/// The most that the frequency is off, scaled: 500 parts in a million.
const MOST_FREQUENCY: i64 = 500_000 << SCALE;
/// The most that an offset may be, ns.
const MOST_PHASE: i64 = 500_000_000;
/// The most that an error is said to be, µs.
const MOST_ERROR: i64 = 16_000_000;
/// By this the error grows in a second, µs.
const DRIFT: i64 = 500;
/// The most that a single adjustment moves the clock in a second, µs.
const MOST_STEP: i64 = 500;
/// The most that CLOCK_TAI may be ahead, s.
const MOST_TAI: i64 = 100_000;
const MOST_CONSTANT: i64 = 10;
const PLL_SHIFT: i64 = 2;
const FLL_SHIFT: u32 = 2;
/// Shorter intervals between offsets say nothing of the frequency, longer ones all of it (s).
const FLL_INTERVALS: (i64, i64) = (256, 2048);
const DAY: i64 = 86_400;

/// Bits of the status (adjtimex(2)). Those of a pulse-per-second signal are kept and mean nothing, as on a Linux that was built without.
const STA_PLL: u32 = 0x1;
const STA_FLL: u32 = 0x8;
const STA_INS: u32 = 0x10;
const STA_DEL: u32 = 0x20;
const STA_UNSYNC: u32 = 0x40;
const STA_FREQHOLD: u32 = 0x80;
const STA_CLOCKERR: u32 = 0x1000;
pub const STA_NANO: u32 = 0x2000;
const STA_MODE: u32 = 0x4000;
/// Bits that are not set from outside: the four that say something of the signal, and from STA_CLOCKERR on.
const READ_ONLY: u32 = 0xff00;

/// The state that adjtimex returns (TIME_OK, …).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leap {
    None = 0,
    Insert = 1,
    Delete = 2,
    Inside = 3,
    Over = 4,
}

/// What adjtimex returns while the clock is not in step.
const ERROR: usize = 5;

/// See the head of the file.
#[derive(Debug)]
pub struct Discipline {
    pub status: u32,
    leap: Leap,
    /// The second at whose begin the leap takes place.
    leap_at: i64,
    /// What is left of an offset, scaled, per tick.
    offset: i64,
    /// Scaled, of a second.
    frequency: i64,
    pub max_error: i64,
    pub estimated_error: i64,
    constant: i64,
    /// µs of a tick of user space.
    tick: i64,
    /// When an offset came last, or the loop was closed, s.
    reference: i64,
    /// What is left of a single adjustment, µs.
    adjust: i64,
}

/// `value / 2^shift`, towards zero.
fn shift_right(value: i64, shift: i64) -> i64 {
    if value < 0 { -(-value >> shift) } else { value >> shift }
}

/// What is to be done at a second.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Second {
    /// By this the clock is moved during the second, scaled.
    pub phase: i64,
    /// The wall clock leaps by this, s.
    pub leap: i64,
}

impl Discipline {
    pub const fn new() -> Self {
        Self {
            status: STA_UNSYNC,
            leap: Leap::None,
            leap_at: i64::MAX,
            offset: 0,
            frequency: 0,
            max_error: MOST_ERROR,
            estimated_error: MOST_ERROR,
            constant: 2,
            tick: 1_000_000 / USER_TICKS,
            reference: 0,
            adjust: 0,
        }
    }

    /// The clock was set: nothing is known of its errors, and it is in no correction.
    pub fn clear(&mut self) {
        self.adjust = 0;
        self.offset = 0;
        self.status |= STA_UNSYNC;
        self.max_error = MOST_ERROR;
        self.estimated_error = MOST_ERROR;
        self.leap_at = i64::MAX;
    }

    /// How far the clock moves in a second without corrections of its phase, scaled.
    pub fn length(&self) -> i64 {
        ((self.tick * 1000 * USER_TICKS) << SCALE) + self.frequency
    }

    /// What adjtimex returns.
    pub fn state(&self) -> usize {
        if self.status & (STA_UNSYNC | STA_CLOCKERR) != 0 { ERROR } else { self.leap as usize }
    }

    /// Does anything happen at the next seconds but that the error grows?
    pub fn is_busy(&self) -> bool {
        self.adjust != 0
            || self.chunk() != 0
            || (self.leap == Leap::None && self.wants_leap())
            || self.leap == Leap::Inside
    }

    /// The second of a leap that is announced.
    pub fn leap_at(&self) -> Option<i64> {
        (self.leap_at != i64::MAX).then_some(self.leap_at)
    }

    fn wants_leap(&self) -> bool {
        self.status & (STA_INS | STA_DEL) != 0
    }

    fn chunk(&self) -> i64 {
        shift_right(self.offset, PLL_SHIFT + self.constant)
    }

    /// The wall clock has come to the second `now`.
    pub fn second(&mut self, now: i64) -> Second {
        let leap = self.step_leap(now);
        self.pass(1);
        let chunk = self.chunk();
        self.offset -= chunk;
        let step = self.adjust.clamp(-MOST_STEP, MOST_STEP);
        self.adjust -= step;
        Second { phase: chunk * TICKS + ((step * 1000) << SCALE), leap }
    }

    /// Seconds have passed in which nothing was to be done.
    pub fn pass(&mut self, seconds: i64) {
        self.max_error = self.max_error.saturating_add(seconds.saturating_mul(DRIFT));
        if self.max_error > MOST_ERROR {
            self.max_error = MOST_ERROR;
            self.status |= STA_UNSYNC;
        }
    }

    fn step_leap(&mut self, now: i64) -> i64 {
        let (insert, delete) = (self.status & STA_INS != 0, self.status & STA_DEL != 0);
        match self.leap {
            Leap::None if insert => {
                (self.leap, self.leap_at) = (Leap::Insert, now + DAY - now.rem_euclid(DAY));
            }
            Leap::None if delete => {
                (self.leap, self.leap_at) = (Leap::Delete, now + DAY - (now + 1).rem_euclid(DAY));
            }
            Leap::Insert if !insert => (self.leap, self.leap_at) = (Leap::None, i64::MAX),
            Leap::Delete if !delete => (self.leap, self.leap_at) = (Leap::None, i64::MAX),
            Leap::Insert if now >= self.leap_at => {
                self.leap = Leap::Inside;
                return -1;
            }
            Leap::Delete if now >= self.leap_at => {
                (self.leap, self.leap_at) = (Leap::Over, i64::MAX);
                return 1;
            }
            Leap::Inside => (self.leap, self.leap_at) = (Leap::Over, i64::MAX),
            Leap::Over if !self.wants_leap() => self.leap = Leap::None,
            _ => {}
        }
        0
    }

    /// ADJ_STATUS, at the second `now`.
    pub fn set_status(&mut self, to: u32, now: i64) {
        let (had, has) = (self.status & STA_PLL != 0, to & STA_PLL != 0);
        if had && !has {
            (self.leap, self.leap_at) = (Leap::None, i64::MAX);
            self.status = STA_UNSYNC;
        }
        if !had && has {
            self.reference = now;
        }
        self.status = self.status & READ_ONLY | to & !READ_ONLY;
    }

    /// ADJ_FREQUENCY: parts in a million, times 2^16, checked to fit.
    pub fn set_frequency(&mut self, to: i64) {
        self.frequency = to.saturating_mul(PPM).clamp(-MOST_FREQUENCY, MOST_FREQUENCY);
    }

    /// May ADJ_FREQUENCY set this?
    pub fn is_frequency(frequency: i64) -> bool {
        (i64::MIN / PPM..=i64::MAX / PPM).contains(&frequency)
    }

    pub fn frequency(&self) -> i64 {
        self.frequency.div_euclid(PPM)
    }

    /// The frequencies that there may be, as `frequency`.
    pub const TOLERANCE: i64 = MOST_FREQUENCY / PPM;

    pub fn set_max_error(&mut self, to: i64) {
        self.max_error = to.clamp(0, MOST_ERROR);
    }

    pub fn set_estimated_error(&mut self, to: i64) {
        self.estimated_error = to.clamp(0, MOST_ERROR);
    }

    pub fn constant(&self) -> i64 {
        self.constant
    }

    pub fn set_constant(&mut self, to: i64) {
        let finer = if self.is_in_ns() { 0 } else { 4 };
        self.constant = (to.clamp(0, MOST_CONSTANT) + finer).min(MOST_CONSTANT);
    }

    fn is_in_ns(&self) -> bool {
        self.status & STA_NANO != 0
    }

    /// ADJ_TAI: what CLOCK_TAI may be ahead, s.
    pub fn is_tai(seconds: i64) -> bool {
        (0..=MOST_TAI).contains(&seconds)
    }

    pub fn tick(&self) -> i64 {
        self.tick
    }

    /// ADJ_TICK, of a checked range.
    pub fn set_tick(&mut self, to: i64) {
        self.tick = to;
    }

    /// The ticks that there may be: a tenth more or less.
    pub fn is_tick(tick: i64) -> bool {
        (900_000 / USER_TICKS..=1_100_000 / USER_TICKS).contains(&tick)
    }

    /// What is left of an offset, ns or µs as the status says.
    pub fn offset(&self) -> i64 {
        let ns = shift_right(self.offset * TICKS, i64::from(SCALE));
        if self.is_in_ns() { ns } else { ns / 1000 }
    }

    /// ADJ_OFFSET at the second `now`: the clock is off by so many ns or µs. It moves the frequency too, by how long the offset took to come about.
    pub fn set_offset(&mut self, to: i64, now: i64) {
        if self.status & STA_PLL == 0 {
            return;
        }
        let ns = if self.is_in_ns() { to } else { to.clamp(-1_000_000, 1_000_000) * 1000 };
        let ns = ns.clamp(-MOST_PHASE, MOST_PHASE);
        let seconds = if self.status & STA_FREQHOLD != 0 {
            0
        } else {
            now.saturating_sub(self.reference).clamp(0, i64::from(u32::MAX))
        };
        self.reference = now;
        let locked = self.by_interval(ns, seconds);
        let seconds = seconds.min(1 << (PLL_SHIFT + 1 + self.constant));
        let shift = i64::from(SCALE) - 2 * (PLL_SHIFT + 2 + self.constant);
        let change = locked + ((ns * seconds) << shift);
        self.frequency = (self.frequency + change).clamp(-MOST_FREQUENCY, MOST_FREQUENCY);
        self.offset = (ns << SCALE) / TICKS;
    }

    /// The change of the frequency that an offset after a long interval asks for.
    fn by_interval(&mut self, ns: i64, seconds: i64) -> i64 {
        self.status &= !STA_MODE;
        let (least, long) = FLL_INTERVALS;
        if seconds < least || (self.status & STA_FLL == 0 && seconds <= long) {
            return 0;
        }
        self.status |= STA_MODE;
        (ns << (SCALE - FLL_SHIFT)) / seconds
    }

    /// ADJ_OFFSET_SINGLESHOT and its kin: what is left of a single adjustment, and a new one.
    pub fn swap_adjust(&mut self, to: Option<i64>) -> i64 {
        let left = self.adjust;
        self.adjust = to.unwrap_or(left);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn an_offset_is_worked_off_in_parts_that_become_smaller() {
        let mut it = Discipline::new();
        it.set_status(STA_PLL | STA_FREQHOLD, 100);
        it.status |= STA_NANO;
        it.set_constant(0);
        it.set_offset(100 * MS, 101);
        assert_eq!(it.offset(), 100 * MS);
        assert_eq!(it.second(102), Second { phase: (25 * MS) << 32, leap: 0 });
        assert_eq!(it.offset(), 75 * MS);
        let mut moved = 25 * MS;
        for now in 103..300 {
            moved += it.second(now).phase >> 32;
        }
        assert!(!it.is_busy() && it.offset() == 0, "{it:?}");
        assert!((100 * MS - moved).abs() < 300, "{moved}");
        assert_eq!(it.frequency(), 0, "it is held");
    }

    #[test]
    fn offsets_move_the_frequency_and_never_too_far() {
        let mut it = Discipline::new();
        it.set_status(STA_PLL, 0);
        it.set_offset(1000, 16);
        assert!(it.frequency() > 0);
        for now in 1..100 {
            it.set_offset(i64::MAX, 16 + now * 4000);
        }
        assert_eq!(it.frequency(), Discipline::TOLERANCE);
        assert_eq!(it.status & STA_MODE, STA_MODE);
        it.set_frequency(-1 << 40);
        assert_eq!(it.frequency(), -Discipline::TOLERANCE);
    }

    #[test]
    fn a_single_adjustment_takes_half_a_millisecond_a_second() {
        let mut it = Discipline::new();
        assert_eq!(it.swap_adjust(Some(-1200)), 0);
        let steps = [1, 2, 3, 4].map(|now| it.second(now).phase >> 32);
        assert_eq!(steps, [-500_000, -500_000, -200_000, 0]);
        assert!(!it.is_busy());
        it.swap_adjust(Some(i64::MIN));
        it.second(5);
        assert_eq!(it.swap_adjust(None), i64::MIN + 500);
    }

    #[test]
    fn errors_grow_until_the_clock_counts_as_not_in_step() {
        let mut it = Discipline::new();
        it.set_status(0, 0);
        it.set_max_error(MOST_ERROR - 600);
        it.second(1);
        assert_eq!((it.max_error, it.state()), (MOST_ERROR - 100, 0));
        it.second(2);
        assert_eq!((it.max_error, it.state()), (MOST_ERROR, 5));
    }

    #[test]
    fn a_leap_second_comes_at_midnight_and_goes() {
        let mut it = Discipline::new();
        it.set_status(STA_INS, 0);
        it.set_max_error(0);
        assert!(it.is_busy());
        assert_eq!(it.second(DAY - 2).leap, 0);
        assert_eq!((it.state(), it.leap_at()), (1, Some(DAY)));
        assert_eq!(it.second(DAY - 1).leap, 0);
        assert_eq!((it.second(DAY).leap, it.state()), (-1, 3));
        assert_eq!((it.second(DAY).leap, it.state(), it.leap_at()), (0, 4, None));
        it.set_status(0, DAY);
        assert_eq!((it.second(DAY + 1).leap, it.state()), (0, 0));
        it.set_status(STA_DEL, DAY);
        it.second(DAY + 2);
        assert_eq!((it.second(2 * DAY - 1).leap, it.state()), (1, 4));
    }
}
