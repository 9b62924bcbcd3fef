//! The armed timers of one CPU: trees by what they do and by the clock that they are on.
//!
//! A timer on the wall clock stands in the order of the wall clock's moments, which do not change when that clock is set. What is then due, and when
//! the next is, is asked with the new offset.
#![forbid(unsafe_code)]

use super::deadline::ClockBase;
use super::{Action, Timer, TimerAdapter};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use intrusive_collections::RBTree;

pub(super) type Tree = RBTree<TimerAdapter>;

/// What a timer does, which says its tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Sleeps and the kernel's own: [`Action::Call`].
    Calls,
    /// What programs made: [`Action::Tell`].
    Owned,
}

impl Kind {
    pub(super) fn of(action: &Action) -> Self {
        match action {
            Action::Call(..) => Self::Calls,
            Action::Tell(_) => Self::Owned,
        }
    }
}

/// The timers on one clock.
struct Trees {
    calls: Tree,
    owned: Tree,
}

impl Trees {
    const fn new() -> Self {
        Self { calls: Tree::new(TimerAdapter::NEW), owned: Tree::new(TimerAdapter::NEW) }
    }

    fn of(&mut self, kind: Kind) -> &mut Tree {
        match kind {
            Kind::Calls => &mut self.calls,
            Kind::Owned => &mut self.owned,
        }
    }

    /// The last moment of the timer that is the first to go off; `u64::MAX`: there is none.
    #[inline]
    fn first(&self) -> u64 {
        first(&self.calls).min(first(&self.owned))
    }

    /// As [`Armed::next`], of these timers alone.
    #[inline]
    fn next(&mut self, turn: Turn, now: u64) -> Result<Due, u64> {
        let mut first = u64::MAX;
        for kind in [Kind::Calls, Kind::Owned] {
            let by = if turn.allows(kind) { Some(now) } else { None };
            match take_due(self.of(kind), by) {
                Ok(timer) => return Ok(Due { timer, kind }),
                Err(at) => first = first.min(at),
            }
        }
        Err(first)
    }
}

/// Whose turn it is to go off. Sleeps come first, so that all timers that are due at one moment keep no sleeper waiting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Turn {
    /// Sleeps, and if none is due what programs made.
    Calls,
    /// What programs made.
    Owned,
    /// Nobody.
    Over,
}

impl Turn {
    pub(super) fn next(self) -> Self {
        if self == Self::Calls { Self::Owned } else { Self::Over }
    }

    fn allows(self, kind: Kind) -> bool {
        match kind {
            Kind::Calls => self == Turn::Calls,
            Kind::Owned => self != Turn::Over,
        }
    }
}

/// A timer that goes off, off its tree.
pub(super) struct Due {
    pub(super) timer: Arc<Timer>,
    pub(super) kind: Kind,
}

/// All of a CPU's.
pub(super) struct Armed {
    monotonic: Trees,
    wall: Trees,
    /// How many are on the wall clock: with none its trees are not looked at.
    on_wall: u32,
}

impl Armed {
    pub(super) const fn new() -> Self {
        Self { monotonic: Trees::new(), wall: Trees::new(), on_wall: 0 }
    }

    /// Where timers of this kind on the monotonic clock are.
    #[inline]
    pub(super) fn on_monotonic(&mut self, kind: Kind) -> &mut Tree {
        self.monotonic.of(kind)
    }

    /// Where one on the wall clock goes.
    pub(super) fn enter_wall(&mut self, kind: Kind) -> &mut Tree {
        self.on_wall = self.on_wall.saturating_add(1);
        self.wall.of(kind)
    }

    /// Where one on the wall clock comes from.
    pub(super) fn leave_wall(&mut self, kind: Kind) -> &mut Tree {
        self.on_wall = self.on_wall.saturating_sub(1);
        self.wall.of(kind)
    }

    pub(super) fn any_on_wall(&self) -> bool {
        self.on_wall != 0
    }

    /// When the first goes off at the latest, on the monotonic clock as the wall clock stands now; `u64::MAX`: there is none.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        let first = self.monotonic.first();
        if self.on_wall == 0 { first } else { first.min(monotonic(self.wall.first())) }
    }

    /// Takes out a timer that may go off by `now`, on the monotonic clock. Else when the first goes off at the latest, as `first`.
    ///
    /// A tree is in the order of the last moments; a timer that may go off already, and that lies behind one that may not, waits on, as on Linux: to find
    /// it, each change of the tree would cost more.
    #[inline]
    pub(super) fn next(&mut self, turn: Turn, now: u64) -> Result<Due, u64> {
        if self.on_wall == 0 { self.monotonic.next(turn, now) } else { self.next_of_both(turn, now) }
    }

    /// As `next`, where some are on the wall clock. Of one kind those on the monotonic clock come first.
    #[cold]
    fn next_of_both(&mut self, turn: Turn, now: u64) -> Result<Due, u64> {
        for kind in [Kind::Calls, Kind::Owned].into_iter().filter(|kind| turn.allows(*kind)) {
            if let Ok(timer) = take_due(self.monotonic.of(kind), Some(now)) {
                return Ok(Due { timer, kind });
            }
            if let Ok(timer) = take_due(self.wall.of(kind), Some(ClockBase::Wall.at(now))) {
                self.on_wall = self.on_wall.saturating_sub(1);
                return Ok(Due { timer, kind });
            }
        }
        Err(self.first())
    }
}

/// When the monotonic clock shows what the wall clock shows at `at`; `u64::MAX` stays so.
fn monotonic(at: u64) -> u64 {
    if at == u64::MAX { at } else { ClockBase::Wall.to_monotonic(at) }
}

/// The last moment of the first timer; `u64::MAX`: there is none.
#[inline]
fn first(tree: &Tree) -> u64 {
    tree.front().get().map_or(u64::MAX, |timer| timer.hard.load(Ordering::Relaxed))
}

/// Takes the first timer out if it may go off by `by`. Else its last moment, as `first`.
#[inline]
pub(super) fn take_due(tree: &mut Tree, by: Option<u64>) -> Result<Arc<Timer>, u64> {
    let mut cursor = tree.front_mut();
    let Some(timer) = cursor.get() else { return Err(u64::MAX) };
    let (soft, hard) = (timer.soft.load(Ordering::Relaxed), timer.hard.load(Ordering::Relaxed));
    if by.is_some_and(|by| soft <= by) { cursor.remove().ok_or(hard) } else { Err(hard) }
}
