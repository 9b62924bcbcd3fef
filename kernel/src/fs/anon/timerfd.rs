//! timerfd(2): a timer that is read and waited for as a file.
//!
//! When it goes off it wakes whoever waits, once; a periodic one is set anew when it is read, and what passed meanwhile is
//! counted then, so that a timer that nobody reads costs nothing.
//!
//! Lock order: `state` → timer queue; the waiters are woken with no lock held.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;

use crate::lock_order as level;
use sync::heap::Text;
use sync::{SpinLock, lock_class, try_arc, try_box};

use crate::arch::time;
use crate::errno::{EAGAIN, ECANCELED, EINVAL, ENOMEM, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::sched::{Expire, Timer, TimerSetting, forward};

lock_class! { static TIMERFD: LockClass = ("timerfd", level::Timerfd); }

#[derive(Default)]
struct State {
    timer: Option<Arc<Timer>>,
    /// On the monotonic clock, ns; 0: not set.
    next: u64,
    interval: u64,
    /// What `next` is on the wall clock, for absolute settings of a timer that goes by it.
    wall: Option<u64>,
    /// It went off and has not been set anew.
    expired: bool,
    /// Times it went off since it was read.
    ticks: u64,
    /// The wall clock was set and the timer's owner wants to know: the next read says so.
    wants_cancel: bool,
    cancelled: bool,
    /// As it was set last: bits of timerfd_settime.
    how: u32,
}

impl State {
    fn arm(&self) {
        if let Some(timer) = &self.timer {
            timer.arm(self.next);
        }
    }

    /// How long until it goes off; 0: not set, or it has gone off.
    fn left(&self) -> u64 {
        match self.next {
            0 => 0,
            _ if self.expired => 0,
            next => next.saturating_sub(time::now()).max(1),
        }
    }

    /// Counts the periods that passed since a periodic timer went off, and sets it anew.
    fn catch_up(&mut self) {
        if !self.expired || self.interval == 0 {
            return;
        }
        self.expired = false;
        self.wall = None;
        let passed = forward(self.interval, time::now(), &mut self.next);
        self.ticks = self.ticks.saturating_add(passed.saturating_sub(1));
        self.arm();
    }
}

struct Core {
    /// It goes by the wall clock.
    wall: bool,
    /// The clock it was made with, by its number.
    clock: i32,
    state: SpinLock<State, level::Timerfd>,
    ready: PollQueue,
}

pub struct TimerFile(Arc<Core>);

impl Expire for Core {
    fn expired(&self) {
        {
            let mut state = self.state.lock();
            if state.next == 0 || state.expired || time::now() < state.next {
                return;
            }
            state.expired = true;
            state.ticks = state.ticks.saturating_add(1);
        }
        self.ready.wake();
    }
}

impl TimerFile {
    /// A timer of `clock` that is not set. `wall`: absolute times are on the wall clock.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new(clock: i32, wall: bool, flags: OpenFlags) -> Result<Arc<File>> {
        let state = SpinLock::new(State::default(), &TIMERFD);
        let core = try_arc(Core { wall, clock, state, ready: PollQueue::new() })?;
        let owner: Weak<dyn Expire> = Arc::downgrade(&core) as _;
        core.state.lock().timer = Some(try_arc(Timer::of(owner))?);
        let inode = super::nameless()?;
        let ops = try_box(TimerFile(core))?;
        File::try_anonymous(inode, "anon_inode:[timerfd]", ops, flags | OpenFlags::READ_WRITE)
    }

    fn setting(state: &mut State) -> TimerSetting {
        state.catch_up();
        TimerSetting { interval: state.interval, value: state.left() }
    }

    /// timerfd_gettime(2).
    pub fn get(&self) -> TimerSetting {
        Self::setting(&mut self.0.state.lock())
    }

    /// timerfd_settime(2); returns what it was set to.
    pub fn set(&self, to: TimerSetting, absolute: bool, cancel_on_set: bool) -> TimerSetting {
        let mut state = self.0.state.lock();
        let before = Self::setting(&mut state);
        if let Some(timer) = &state.timer {
            timer.cancel();
        }
        let timer = state.timer.take();
        let wall = (absolute && self.0.wall && to.value != 0).then_some(to.value);
        let next = match (to.value, wall) {
            (0, _) => 0,
            (_, Some(at)) => at.saturating_sub(time::wall_offset()).max(1),
            (value, None) if absolute => value,
            (value, None) => time::now().saturating_add(value),
        };
        *state = State {
            timer,
            next,
            wall,
            interval: to.interval,
            how: u32::from(absolute) | u32::from(cancel_on_set) << 1,
            wants_cancel: absolute && self.0.wall && cancel_on_set,
            ..State::default()
        };
        if next != 0 {
            state.arm();
        }
        before
    }

    /// The wall clock was set.
    pub fn clock_was_set(&self) {
        let cancelled = {
            let mut state = self.0.state.lock();
            if let Some(at) = state.wall
                && !state.expired
                && state.next != 0
            {
                state.next = at.saturating_sub(time::wall_offset()).max(1);
                state.arm();
            }
            state.cancelled |= state.wants_cancel;
            state.wants_cancel
        };
        if cancelled {
            self.0.ready.wake();
        }
    }

    /// What a read finds; None: it has to wait.
    fn take(&self) -> Option<Result<u64>> {
        let mut state = self.0.state.lock();
        if core::mem::take(&mut state.cancelled) {
            state.ticks = 0;
            return Some(Err(ECANCELED));
        }
        if state.ticks == 0 {
            return None;
        }
        state.catch_up();
        Some(Ok(core::mem::take(&mut state.ticks)))
    }
}

impl Drop for TimerFile {
    /// Not at the last close: a thread may be reading still.
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.next = 0;
        if let Some(timer) = &state.timer {
            timer.cancel();
        }
    }
}

impl FileOps for TimerFile {
    fn splices(&self) -> bool {
        false
    }

    fn can_write(&self) -> bool {
        false
    }

    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        if out.left() < 8 {
            return Err(EINVAL);
        }
        let ticks = match self.take() {
            Some(ticks) => ticks,
            None if file.nonblocking() || out.nowait => return Err(EAGAIN),
            None => self.0.ready.wait(None, || self.take())?,
        }?;
        out.put(&ticks.to_ne_bytes());
        out.result()
    }

    fn write(&self, _: &File, _: u64, _: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        Err(EINVAL)
    }

    fn takes_nowait(&self, _: &File) -> bool {
        true
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.0.ready);
        let state = self.0.state.lock();
        if state.ticks > 0 || state.cancelled { poll::IN } else { 0 }
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn tell(&self, _: &File, out: &mut Vec<u8>) -> Result {
        const SECOND: u64 = 1_000_000_000;
        let (ticks, how, left, interval) = {
            let state = self.0.state.lock();
            (state.ticks, state.how, state.left(), state.interval)
        };
        let written = write!(
            Text(out),
            "clockid: {}\nticks: {ticks}\nsettime flags: 0{how:o}\nit_value: ({}, {})\nit_interval: ({}, {})\n",
            self.0.clock,
            left / SECOND,
            left % SECOND,
            interval / SECOND,
            interval % SECOND,
        );
        written.map_err(|_| ENOMEM)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
