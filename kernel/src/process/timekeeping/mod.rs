//! The wall clock: who sets it, and how fast it and the monotonic clock run (adjtimex(2)).
//!
//! * `discipline`  the state of the correction, and what it asks for each second
//!
//! What the state asks for is carried out by the rate of `arch::time`, which changes at most once a second, and by leap seconds. A timer looks at each second in which
//! something is to be done; in all others nothing runs, and whoever asks counts the seconds that have passed. What a timer that comes late has moved the clock too
//! far is taken back in the next second (`debt`), so the clock moves by just what was asked for.
//!
//! CLOCK_MONOTONIC_RAW keeps the rate measured at boot. The processor time of programs is counted by the clock that is corrected.
//!
//! LockOrder: the keeper → timer queue. Who is to know that the clock was set is told with no lock held.
#![forbid(unsafe_code)]

mod discipline;

use crate::arch::time;
use crate::errno::{EINVAL, EPERM, Result};
use crate::fs::anon::timerfd;
use crate::lock_order as level;
use crate::process::{self, Capability};
use crate::sched::{self, ClockBase, Deadline, Timer};
use alloc::sync::Arc;
pub use discipline::Discipline;
use discipline::{STA_NANO, Second};
use sync::{SpinLock, lock_class, try_arc};

lock_class! { static KEEPER_LOCK: LockClass = ("timekeeping", level::Timekeeping); }

const NS: u64 = 1_000_000_000;
const SCALED_NS: i128 = 1 << 32;
/// The most that a second moves the phase, scaled: the loop asks for an eighth of a second at the most.
const MOST_PHASE: i128 = 400_000_000 * SCALED_NS;
/// Seconds that are looked at one by one when several have passed.
const STEPS: i64 = 8;

/// Modes of adjtimex(2).
pub mod mode {
    pub const OFFSET: u32 = 0x1;
    pub const FREQUENCY: u32 = 0x2;
    pub const MAX_ERROR: u32 = 0x4;
    pub const ESTIMATED_ERROR: u32 = 0x8;
    pub const STATUS: u32 = 0x10;
    pub const CONSTANT: u32 = 0x20;
    pub const TAI: u32 = 0x80;
    pub const SET_OFFSET: u32 = 0x100;
    pub const MICRO: u32 = 0x1000;
    pub const NANO: u32 = 0x2000;
    pub const TICK: u32 = 0x4000;
    /// With [`OFFSET`]: a single adjustment, as adjtime(3) has it. Of the other modes SET_OFFSET alone counts then.
    pub const ADJTIME: u32 = 0x8000;
    /// With [`ADJTIME`]: it is only asked for.
    pub const READ_ONLY: u32 = 0x2000;
}

/// What adjtimex is asked for, and what it says.
#[derive(Clone, Copy, Default, Debug)]
pub struct Adjustment {
    pub modes: u32,
    pub offset: i64,
    pub frequency: i64,
    pub max_error: i64,
    pub estimated_error: i64,
    pub status: u32,
    pub constant: i64,
    pub tolerance: i64,
    /// Seconds, and nanoseconds or microseconds.
    pub time: (i64, i64),
    pub tick: i64,
    pub tai: i64,
}

struct Keeper {
    discipline: Discipline,
    /// The second of the wall clock that was looked at last.
    second: i64,
    /// When that was, on the raw clock.
    since: u64,
    /// By this the clock is moved in a second, and by this it is still to be moved; scaled.
    phase: i128,
    debt: i128,
    /// Seconds by which CLOCK_TAI is ahead.
    tai: i64,
    /// The rate that the clock was given.
    rate: u64,
    timer: Option<Arc<Timer>>,
}

static KEEPER: SpinLock<Keeper, level::Timekeeping> = SpinLock::new(
    Keeper {
        discipline: Discipline::new(),
        second: 0,
        since: 0,
        phase: 0,
        debt: 0,
        tai: 0,
        rate: time::EVEN,
        timer: None,
    },
    &KEEPER_LOCK,
);

/// Whom to tell when the lock is free.
#[derive(Clone, Copy, Default)]
struct News {
    was_set: bool,
    is_faster: bool,
}

impl News {
    /// Tells it. Gives way; no lock is held.
    fn tell(self) {
        if self.is_faster {
            sched::clock_runs_faster();
        }
        if self.was_set {
            sched::wall_clock_was_set();
            timerfd::clock_was_set();
        }
    }
}

/// Nanoseconds since 1970.
fn wall() -> u64 {
    time::now().saturating_add(time::wall_offset())
}

/// The wall clock is `offset` ahead of the monotonic clock from now on, and CLOCK_TAI further `tai` seconds.
fn set_offset(offset: u64, tai: i64) {
    time::set_wall_offset(offset, offset.saturating_add_signed(tai.saturating_mul(NS as i64)));
}

impl Keeper {
    /// The wall clock was set: corrections under way end.
    fn restart(&mut self) {
        self.discipline.clear();
        (self.phase, self.debt) = (0, 0);
        self.second = (wall() / NS) as i64;
        self.since = time::raw();
    }

    /// Looks at the seconds that have passed. A leap second is made.
    #[expect(clippy::arithmetic_side_effects, reason = "bounded by times and by the rates of the clock")]
    fn catch_up(&mut self, news: &mut News) {
        let now = (wall() / NS) as i64;
        let passed = now - self.second;
        if passed <= 0 {
            return;
        }
        let raw = time::raw();
        self.debt -= self.phase * i128::from(raw.saturating_sub(self.since)) / i128::from(NS);
        self.since = raw;
        for second in 1..=passed.min(STEPS) {
            let Second { phase, leap } = self.discipline.second(self.second + second);
            self.debt += i128::from(phase);
            if leap != 0 {
                self.tai -= leap;
                set_offset(time::wall_offset().saturating_add_signed(leap * NS as i64), self.tai);
                news.was_set = true;
            }
        }
        self.discipline.pass((passed - STEPS).max(0));
        self.phase = self.debt.clamp(-MOST_PHASE, MOST_PHASE);
        self.second = (wall() / NS) as i64;
    }

    /// Lets the clock run as it has to, and the timer come when it is needed.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a second's length is 0.9 s at least, its phase below half of it"
    )]
    fn carry_out(&mut self, news: &mut News) {
        let rate = (i128::from(self.discipline.length()) + self.phase) as u64;
        if rate != self.rate {
            news.is_faster |= rate > self.rate;
            self.rate = rate;
            time::set_rate(rate);
        }
        let Some(timer) = &self.timer else { return };
        // What is less than a nanosecond is no debt.
        let is_busy =
            self.discipline.is_busy() || self.phase.abs() >= SCALED_NS || self.debt.abs() >= SCALED_NS;
        let next = if is_busy { Some(self.second + 1) } else { self.discipline.leap_at() };
        match next {
            Some(second) => timer.arm(Deadline::from(second as u64 * NS).on(ClockBase::Wall)),
            None => _ = timer.cancel(),
        }
    }

    /// Sets what `modes` says.
    fn apply(&mut self, to: &Adjustment, news: &mut News) {
        let (it, now) = (&mut self.discipline, (wall() / NS) as i64);
        let has = |mode: u32| to.modes & mode != 0;
        if has(mode::STATUS) {
            it.set_status(to.status, now);
        }
        if has(mode::NANO) {
            it.status |= STA_NANO;
        }
        if has(mode::MICRO) {
            it.status &= !STA_NANO;
        }
        if has(mode::FREQUENCY) {
            it.set_frequency(to.frequency);
        }
        if has(mode::MAX_ERROR) {
            it.set_max_error(to.max_error);
        }
        if has(mode::ESTIMATED_ERROR) {
            it.set_estimated_error(to.estimated_error);
        }
        if has(mode::CONSTANT) {
            it.set_constant(to.constant);
        }
        if has(mode::TAI) && Discipline::is_tai(to.constant) && self.tai != to.constant {
            self.tai = to.constant;
            news.was_set = true;
            set_offset(time::wall_offset(), self.tai);
        }
        if has(mode::OFFSET) {
            it.set_offset(to.offset, now);
        }
        if has(mode::TICK) {
            it.set_tick(to.tick);
        }
    }

    /// Writes what there is to say into `to`, and gives the clock's state.
    fn tell(&self, to: &mut Adjustment) -> usize {
        let (it, now) = (&self.discipline, wall());
        to.frequency = it.frequency();
        to.max_error = it.max_error;
        to.estimated_error = it.estimated_error;
        to.status = it.status;
        to.constant = it.constant();
        to.tolerance = Discipline::TOLERANCE;
        to.tick = it.tick();
        to.tai = self.tai;
        let part = now % NS;
        let part = if it.status & STA_NANO == 0 { part / 1000 } else { part };
        to.time = ((now / NS) as i64, part as i64);
        it.state()
    }
}

/// At a second in which something is to be done.
fn expired(_: usize) {
    let mut news = News::default();
    {
        let mut keeper = KEEPER.lock();
        keeper.catch_up(&mut news);
        keeper.carry_out(&mut news);
    }
    news.tell();
}

/// Sets the wall clock, ns since 1970. Gives way; no lock is held.
///
/// # Errors
/// EINVAL: before the boot.
pub fn set_wall_clock(to: u64) -> Result {
    let mut news = News { was_set: true, ..News::default() };
    {
        let mut keeper = KEEPER.lock();
        keeper.catch_up(&mut news);
        let offset = to.checked_sub(time::now()).ok_or(EINVAL)?;
        set_offset(offset, keeper.tai);
        keeper.restart();
        keeper.carry_out(&mut news);
    }
    news.tell();
    Ok(())
}

/// The last wall-clock time that may be set: Linux keeps 30 years up to the end of its own nanoseconds.
const END: u64 = (i64::MAX as u64 / NS).saturating_sub(30 * 365 * 24 * 3600);

/// A time that the wall clock can be set to, as far as it alone says.
///
/// # Errors
/// EINVAL.
pub fn settable(time: u64) -> Result<u64> {
    if time / NS < END { Ok(time) } else { Err(EINVAL) }
}

fn check(to: &Adjustment) -> Result {
    let may = || if process::current().capable(Capability::SYS_TIME) { Ok(()) } else { Err(EPERM) };
    if to.modes & mode::ADJTIME != 0 {
        if to.modes & mode::OFFSET == 0 {
            return Err(EINVAL);
        }
        if to.modes & mode::READ_ONLY == 0 {
            may()?;
        }
    } else {
        if to.modes != 0 {
            may()?;
        }
        if to.modes & mode::TICK != 0 && !Discipline::is_tick(to.tick) {
            return Err(EINVAL);
        }
    }
    if to.modes & mode::SET_OFFSET != 0 {
        may()?;
        let most = if to.modes & mode::NANO != 0 { NS as i64 } else { 1_000_000 };
        if !(0..most).contains(&to.time.1) {
            return Err(EINVAL);
        }
    }
    if to.modes & mode::FREQUENCY != 0 && !Discipline::is_frequency(to.frequency) {
        return Err(EINVAL);
    }
    Ok(())
}

/// ADJ_SETOFFSET: where the wall clock's offset goes.
fn moved(to: &Adjustment) -> Result<u64> {
    let unit = if to.modes & mode::NANO != 0 { 1 } else { 1000 };
    let by = i128::from(to.time.0)
        .saturating_mul(i128::from(NS))
        .saturating_add(i128::from(to.time.1.saturating_mul(unit)));
    let by = |from: u64| i128::from(from).saturating_add(by);
    // Neither before the boot nor after the end.
    let time = u64::try_from(by(wall())).map_err(|_| EINVAL)?;
    settable(time)?;
    u64::try_from(by(time::wall_offset())).map_err(|_| EINVAL)
}

/// adjtimex(2): carries out `to.modes`, and writes into it how the clock stands. Gives the clock's state. Gives way; no lock is held.
///
/// # Errors
/// EINVAL: a value out of range, or a time before the boot. EPERM: without CAP_SYS_TIME. ENOMEM: a first change.
pub fn adjust(to: &mut Adjustment) -> Result<usize> {
    check(to)?;
    let needs_timer = to.modes != 0 && KEEPER.lock().timer.is_none();
    let mut spare = if needs_timer { Some(try_arc(Timer::new(expired, 0))?) } else { None };
    let mut news = News::default();
    let state = {
        let mut keeper = KEEPER.lock();
        if keeper.timer.is_none() {
            keeper.timer = spare.take();
        }
        keeper.catch_up(&mut news);
        let moved = if to.modes & mode::SET_OFFSET == 0 { Ok(None) } else { moved(to).map(Some) };
        if let Ok(Some(offset)) = moved {
            set_offset(offset, keeper.tai);
            keeper.restart();
            news.was_set = true;
        }
        let state = moved.map(|_| {
            if to.modes & mode::ADJTIME != 0 {
                let new = (to.modes & mode::READ_ONLY == 0).then_some(to.offset);
                to.offset = keeper.discipline.swap_adjust(new);
            } else {
                if to.modes != 0 {
                    keeper.apply(to, &mut news);
                }
                to.offset = keeper.discipline.offset();
            }
            keeper.tell(to)
        });
        keeper.carry_out(&mut news);
        state
    };
    news.tell();
    state
}
