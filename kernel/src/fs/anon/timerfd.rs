//! timerfd(2): a timer that is read and waited for as a file.
//!
//! When it goes off it wakes whoever waits, once; a periodic one is set anew when it is read, and what passed meanwhile is
//! counted then, so that a timer that nobody reads costs nothing.
//!
//! One that is set to a moment on the wall clock goes off when that clock shows it, however it is set meanwhile. If it wants to know
//! (TFD_TIMER_CANCEL_ON_SET), it is on a list (`watches`), and notes the wall clock's offset: where the offset is another, the clock was set.
//!
//! Lock order: `state` → list of watches, timer queue; the waiters are woken with no lock held.
#![deny(unsafe_code)]

mod watches;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;
use core::num::NonZeroU64;
use core::sync::atomic::AtomicU64;
use intrusive_collections::RBTreeAtomicLink;

use crate::lock_order as level;
use sync::heap::Text;
use sync::{CpuId, SpinLock, lock_class, try_arc, try_box};

use crate::arch::time;
use crate::errno::{EAGAIN, ECANCELED, EINVAL, ENOMEM, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::sched::{ClockBase, Deadline, Expire, TimeClock, Timer, TimerSetting, forward};

lock_class! { static TIMERFD: LockClass = ("timerfd", level::Timerfd); }

/// An offset that the wall clock does not have.
const NO_OFFSET: u64 = u64::MAX;

#[derive(Default)]
struct State {
    timer: Option<Arc<Timer>>,
    /// On `base`, ns; 0: not set.
    next: u64,
    interval: u64,
    base: ClockBase,
    /// It went off and has not been set anew.
    expired: bool,
    /// Times it went off since it was read, and one if the clock was set.
    ticks: u64,
    /// It wants to know when the wall clock is set, and is on the list of this CPU.
    watches: Option<CpuId>,
    /// The offset of the wall clock that its owner knows; [`NO_OFFSET`]: of none since.
    offset: u64,
    /// As it was set last: bits of timerfd_settime.
    how: u32,
}

impl State {
    fn arm(&self) {
        if let Some(timer) = &self.timer {
            timer.arm(Deadline::from(self.next).on(self.base));
        }
    }

    /// How long until it goes off; 0: not set, or it was due before.
    fn left(&self) -> u64 {
        if self.next == 0 { 0 } else { self.next.saturating_sub(self.base.now()) }
    }

    /// Counts the periods that passed since a periodic timer went off, and sets it anew. If the clock was set back, none has passed.
    fn catch_up(&mut self) {
        if !self.expired || self.interval == 0 {
            return;
        }
        self.expired = false;
        let passed = forward(self.interval, self.base.now(), &mut self.next);
        self.ticks = self.ticks.saturating_add(passed).saturating_sub(1);
        self.arm();
    }

    /// Was the wall clock set since its owner was told, who wants to know? He is told now.
    fn take_cancelled(&mut self) -> bool {
        let offset = time::wall_offset();
        self.watches.is_some() && core::mem::replace(&mut self.offset, offset) != offset
    }
}

struct Core {
    clock: TimeClock,
    /// The clock it was made with, by its number.
    number_of_clock: i32,
    state: SpinLock<State, level::Timerfd>,
    ready: PollQueue,
    /// Its place on a list of `watches`, and its number there.
    watch: RBTreeAtomicLink,
    number: AtomicU64,
}

pub struct TimerFile(Arc<Core>);

impl Expire for Core {
    fn expired(&self) {
        {
            let mut state = self.state.lock();
            if state.next == 0 || state.expired {
                return;
            }
            if state.base.now() < state.next {
                // It was set later meanwhile, or the wall clock back.
                if state.base == ClockBase::Wall {
                    state.arm();
                }
                return;
            }
            state.expired = true;
            state.ticks = state.ticks.saturating_add(1);
        }
        self.ready.wake();
    }
}

impl Core {
    /// The wall clock was set.
    fn clock_was_set(&self) {
        {
            let mut state = self.state.lock();
            if state.watches.is_none() || state.offset == time::wall_offset() {
                return;
            }
            state.offset = NO_OFFSET;
            state.ticks = state.ticks.saturating_add(1);
        }
        self.ready.wake();
    }
}

/// The wall clock was set: tells those who want to know. Gives way.
pub fn clock_was_set() {
    watches::visit(Core::clock_was_set);
}

impl TimerFile {
    /// A timer of `clock`, whose number is `number`, that is not set.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new(number: i32, clock: TimeClock, flags: OpenFlags) -> Result<Arc<File>> {
        let state = State { offset: time::wall_offset(), ..State::default() };
        let core = try_arc(Core {
            clock,
            number_of_clock: number,
            state: SpinLock::new(state, &TIMERFD),
            ready: PollQueue::new(),
            watch: RBTreeAtomicLink::new(),
            number: AtomicU64::new(0),
        })?;
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
    ///
    /// # Errors
    /// ECANCELED: it is set, but the wall clock was set since its owner was told, who wants to know.
    pub fn set(&self, to: TimerSetting, absolute: bool, cancel_on_set: bool) -> Result<TimerSetting> {
        let mut state = self.0.state.lock();
        let state = &mut *state;
        self.watch(state, absolute && cancel_on_set && self.0.clock != TimeClock::Monotonic);
        let before = Self::setting(state);
        // It may go off until it is armed anew; then it finds that it is not time yet.
        state.base = self.0.clock.base(absolute);
        state.next = match to.value {
            0 => 0,
            value if absolute => value,
            value => state.base.now().saturating_add(value),
        };
        state.interval = to.interval;
        state.expired = false;
        state.ticks = 0;
        if state.next != 0 {
            state.arm();
            if state.take_cancelled() {
                return Err(ECANCELED);
            }
        } else if let Some(timer) = &state.timer {
            timer.cancel();
        }
        state.how = u32::from(absolute) | u32::from(cancel_on_set) << 1;
        Ok(before)
    }

    /// It wants to know when the wall clock is set, or no longer.
    fn watch(&self, state: &mut State, wants: bool) {
        match state.watches {
            None if wants => state.watches = Some(watches::enter(&self.0)),
            Some(cpu) if !wants => {
                watches::leave(&self.0, cpu);
                state.watches = None;
            }
            _ => {}
        }
    }

    /// What a read finds; None: it has to wait. One that does not wait asks whether the clock was set; one that waits is woken for that.
    fn take(&self, waits: bool) -> Option<Result<u64>> {
        let mut state = self.0.state.lock();
        if waits && state.ticks == 0 {
            return None;
        }
        if state.take_cancelled() {
            state.ticks = 0;
            state.expired = false;
            return Some(Err(ECANCELED));
        }
        if state.ticks == 0 {
            return None;
        }
        state.catch_up();
        state.expired = false;
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
        self.watch(&mut state, false);
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
        let waits = !file.nonblocking() && !out.nowait;
        let found = if waits {
            self.0.ready.wait(None, || self.take(true))?
        } else {
            self.take(false).ok_or(EAGAIN)?
        };
        // None: the clock was set back after a periodic timer went off.
        let Some(ticks) = NonZeroU64::new(found?) else { return if waits { Ok(0) } else { Err(EAGAIN) } };
        out.put(&ticks.get().to_ne_bytes());
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
        if state.ticks > 0 { poll::IN } else { 0 }
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
            self.0.number_of_clock,
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
