//! Who stays on the queues of a file: watches of epolls, and files that tell their owners by signal. A program chooses how many there are.
//!
//! A wake tells all of them. A caller that holds no lock but sleeping ones gives way meanwhile ([`Pace::resting`]), and all are told when it comes back.
//! Where nobody may rest ([`Pace::hurried`]: a timer goes off, input comes) a few are told at once, and the others soon after on the same CPU, from a
//! callback for each part. Watchers keep their places, so a round that goes by places passes nobody over; a wake during the round has it go once more
//! around, from where it is. What is woken by being told (an epoll that another watches) goes on at the same pace.
//!
//! Many are dropped in parts, too.
//!
//! Lock order: what the file holds when it wakes → `watchers` → nothing.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::mem::take;

use crate::lock_order as level;
use sync::rcu::{InParts, Parts};
use sync::{SpinLock, TryVec, lock_class, try_box};

use crate::errno::Result;
use crate::fs::file::async_io::Place;
use crate::sched::schedule_if_needed;

lock_class! { static WATCHERS: LockClass = ("poll watchers", level::PollWatchers); }

/// Watchers that are told, or dropped, before others may run.
const TURN: usize = 64;

/// Who stays on queues: an epoll's interest in one file.
pub trait Watcher: Send + Sync {
    /// The file may be ready. Says whether a thread sleeps for it. Whom this wakes in turn is told at `pace`.
    fn notify(&self, pace: &mut Pace) -> bool;

    /// Among several of these one that somebody sleeps for is enough (EPOLLEXCLUSIVE).
    fn is_exclusive(&self) -> bool {
        false
    }

    /// The last descriptor of the file that it watches is closed (`Stays`). May sleep.
    fn file_closed(&self) {}
}

/// How many have been told, and whether the caller may rest.
pub struct Pace {
    told: usize,
    rests: bool,
}

impl Pace {
    /// For callers that hold no lock but sleeping ones.
    pub fn resting() -> Self {
        Pace { told: 0, rests: true }
    }

    /// For all others.
    pub fn hurried() -> Self {
        Pace { told: 0, rests: false }
    }

    /// One more was told.
    fn step(&mut self) {
        self.told = self.told.saturating_add(1);
        if self.rests && self.told.is_multiple_of(TURN) {
            schedule_if_needed();
        }
    }

    /// Has the caller told as many as it may at once?
    fn is_spent(&self) -> bool {
        !self.rests && self.told >= TURN
    }
}

/// Those of one kind, in places that they keep.
struct Row<W> {
    list: Vec<W>,
    /// Where the last newcomer looked for the place of one that is gone.
    looked: usize,
    /// The round under way, which goes in parts: the next place, and how many it has yet to come to.
    next: usize,
    left: usize,
}

/// What stands in a row.
trait Standing: Clone {
    fn is_gone(&self) -> bool;
}

impl Standing for Weak<dyn Watcher> {
    fn is_gone(&self) -> bool {
        self.strong_count() == 0
    }
}

impl Standing for Place {
    fn is_gone(&self) -> bool {
        self.to.strong_count() == 0
    }
}

impl<W: Standing> Row<W> {
    const fn new() -> Self {
        Row { list: Vec::new(), looked: 0, next: 0, left: 0 }
    }

    /// A newcomer looks at a few places only. So as many are there as were in use at once, and a part more.
    fn put(&mut self, newcomer: W) -> Result {
        const LOOKS: usize = 4;
        for _ in 0..LOOKS.min(self.list.len()) {
            self.looked = self.looked.checked_add(1).filter(|&at| at < self.list.len()).unwrap_or(0);
            if let Some(place) = self.list.get_mut(self.looked).filter(|w| w.is_gone()) {
                *place = newcomer;
                return Ok(());
            }
        }
        self.list.try_push(newcomer)?;
        if self.left != 0 {
            // One place more lies between the round and where it ends.
            self.left = self.left.saturating_add(1);
        }
        Ok(())
    }

    /// The round comes to all once more.
    fn begin_round(&mut self) {
        self.left = self.list.len();
    }

    fn take_next(&mut self) -> Option<W> {
        self.left = self.left.checked_sub(1)?;
        let at = if self.next < self.list.len() { self.next } else { 0 };
        self.next = at.saturating_add(1);
        self.list.get(at).cloned()
    }
}

struct Rows {
    all: Row<Weak<dyn Watcher>>,
    exclusive: Row<Weak<dyn Watcher>>,
    /// Files that tell their owners by signal.
    signals: Row<Place>,
    /// A round goes in parts.
    in_parts: bool,
    /// Wakes that came meanwhile.
    wakes: u32,
    /// The place for dropping them in parts, once they are many.
    leaving: Option<Box<InParts<Leaving>>>,
}

impl Rows {
    const fn new() -> Self {
        Rows {
            all: Row::new(),
            exclusive: Row::new(),
            signals: Row::new(),
            in_parts: false,
            wakes: 0,
            leaving: None,
        }
    }

    fn len(&self) -> usize {
        let watchers = self.all.list.len().saturating_add(self.exclusive.list.len());
        watchers.saturating_add(self.signals.list.len())
    }

    /// The next that the round in parts comes to; None: it is over.
    fn take_next(&mut self) -> Option<Next> {
        let watchers = self.all.take_next().map(Next::All);
        let watchers = watchers.or_else(|| self.exclusive.take_next().map(Next::Exclusive));
        watchers.or_else(|| self.signals.take_next().map(Next::Owner))
    }
}

enum Next {
    All(Weak<dyn Watcher>),
    Exclusive(Weak<dyn Watcher>),
    Owner(Place),
}

impl Next {
    /// Says whether an exclusive watcher was told that somebody sleeps for.
    fn tell(self, pace: &mut Pace) -> bool {
        match self {
            Next::All(watcher) => {
                tell_watcher(&watcher, pace);
                false
            }
            Next::Exclusive(watcher) => tell_watcher(&watcher, pace),
            Next::Owner(place) => {
                tell_owner(&place);
                false
            }
        }
    }
}

/// Says whether somebody sleeps for it.
fn tell_watcher(watcher: &Weak<dyn Watcher>, pace: &mut Pace) -> bool {
    watcher.upgrade().is_some_and(|watcher| watcher.notify(pace))
}

fn tell_owner(place: &Place) {
    if let Some(io) = place.to.upgrade() {
        io.tell(place.band);
    }
}

/// All that stay on one queue.
pub struct Watching {
    rows: SpinLock<Rows, level::PollWatchers>,
}

impl Watching {
    pub fn new() -> Self {
        Watching { rows: SpinLock::new(Rows::new(), &WATCHERS) }
    }

    /// Whoever comes behind the back of a wake looks at the file itself.
    pub fn watch(&self, watcher: Weak<dyn Watcher>, exclusive: bool) -> Result {
        self.put(|rows| {
            let row = if exclusive { &mut rows.exclusive } else { &mut rows.all };
            row.put(watcher)
        })
    }

    pub fn join(&self, place: Place) -> Result {
        self.put(|rows| rows.signals.put(place))
    }

    fn put(&self, put: impl FnOnce(&mut Rows) -> Result) -> Result {
        let mut rows = self.rows.lock();
        if rows.len() >= TURN && rows.leaving.is_none() {
            rows.leaving = Some(try_box(InParts::new(Leaving::default()))?);
        }
        put(&mut rows)
    }

    /// Tells the watchers, of the exclusive ones as many as it takes to find one that somebody sleeps for.
    pub fn tell_watchers(self: &Arc<Self>, pace: &mut Pace) {
        let begin = |rows: &mut Rows| {
            rows.all.begin_round();
            rows.exclusive.begin_round();
        };
        let each = |watcher: &_, pace: &mut _| {
            tell_watcher(watcher, pace);
            false
        };
        if !self.tell_row(|rows| &rows.all, each, begin, pace) {
            self.tell_row(|rows| &rows.exclusive, tell_watcher, begin, pace);
        }
    }

    /// Tells the owners of files with O_ASYNC. Their signals may wake watchers in turn (signalfd), but no owners.
    pub fn tell_owners(self: &Arc<Self>, pace: &mut Pace) {
        let each = |place: &_, _: &mut _| {
            tell_owner(place);
            false
        };
        self.tell_row(|rows| &rows.signals, each, |rows| rows.signals.begin_round(), pace);
    }

    /// Tells those of one row until `tell` says that it is enough, or all are told in parts from here on, which `begin` begins: then true.
    fn tell_row<W: Standing>(
        self: &Arc<Self>,
        row: fn(&Rows) -> &Row<W>,
        tell: impl Fn(&W, &mut Pace) -> bool,
        begin: fn(&mut Rows),
        pace: &mut Pace,
    ) -> bool {
        // One at a time and with the lock dropped: a watcher may be the last to hold itself.
        for at in 0.. {
            if pace.is_spent() && self.tell_in_parts(begin) {
                return true;
            }
            let Some(next) = row(&self.rows.lock()).list.get(at).cloned() else { break };
            if tell(&next, pace) {
                return true;
            }
            pace.step();
        }
        false
    }

    /// All of them are told soon, those again who were told by this wake: it costs them a look. False: they are few, or there is no memory for that.
    fn tell_in_parts(self: &Arc<Self>, begin: fn(&mut Rows)) -> bool {
        let mut rows = self.rows.lock();
        if rows.len() == 0 {
            return false;
        }
        begin(&mut rows);
        rows.wakes = rows.wakes.wrapping_add(1);
        if rows.in_parts {
            return true;
        }
        let Ok(round) = try_box(InParts::new(Round(self.clone()))) else { return false };
        rows.in_parts = true;
        drop(rows);
        InParts::drop_soon(round);
        true
    }

    /// Owners are told by signal no more. Gives way: no spinning lock is held.
    pub fn stop_signals(&self) {
        // From the last to the first: where one in between is gone, the rest moves towards what has been visited.
        let mut left = usize::MAX;
        while left != 0 {
            let place = {
                let rows = self.rows.lock();
                left = left.min(rows.signals.list.len()).saturating_sub(1);
                rows.signals.list.get(left).cloned()
            };
            if let Some(io) = place.and_then(|place| place.to.upgrade()) {
                io.turn_off();
            }
            // A terminal is hung up for all of them.
            schedule_if_needed();
        }
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.rows.lock().all.list.len()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut rows = self.rows.lock();
        if let Some(mut leaving) = rows.leaving.take() {
            let gone = leaving.value();
            gone.watchers = [take(&mut rows.all.list), take(&mut rows.exclusive.list)];
            gone.owners = take(&mut rows.signals.list);
            drop(rows);
            InParts::begin_drop(leaving);
        }
    }
}

/// A round in parts, until it has come to all.
struct Round(Arc<Watching>);

impl Parts for Round {
    fn drop_part(&mut self) -> bool {
        let mut pace = Pace::hurried();
        while !pace.is_spent() {
            let (next, wakes) = {
                let mut rows = self.0.rows.lock();
                let Some(next) = rows.take_next() else {
                    // Under the lock: the next wake begins another.
                    rows.in_parts = false;
                    return false;
                };
                (next, rows.wakes)
            };
            if next.tell(&mut pace) {
                let mut rows = self.0.rows.lock();
                // For a wake that came meanwhile it takes another.
                if rows.wakes == wakes {
                    rows.exclusive.left = 0;
                }
            }
            pace.step();
        }
        true
    }
}

/// Those of a file that is gone.
#[derive(Default)]
struct Leaving {
    watchers: [Vec<Weak<dyn Watcher>>; 2],
    owners: Vec<Place>,
}

impl Parts for Leaving {
    fn drop_part(&mut self) -> bool {
        self.watchers.iter_mut().any(drop_some) || drop_some(&mut self.owners)
    }
}

/// Drops a few. False: none is left.
fn drop_some<W>(list: &mut Vec<W>) -> bool {
    let len = list.len().saturating_sub(TURN);
    list.truncate(len);
    len != 0
}
