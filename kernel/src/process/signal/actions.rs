//! What happens when a signal comes: the actions of a process, which processes cloned with CLONE_SIGHAND have in common.
//!
//! They are read without a lock (`sync::protocol::sequence`), and found under RCU: exec ends the sharing. Writers exclude each other by a lock, which lies on
//! the actions' own lines.
//!
//! LockOrder: taken under a process's signal state or alone.
#![forbid(unsafe_code)]

use super::{Action, COUNT, bit};
use crate::lock_order as level;
use alloc::sync::Arc;
use linux_raw_sys::general::{SA_RESETHAND, SIGKILL, SIGSTOP};
use sync::level::{Before, Held};
use sync::protocol::sequence::{HalfWord, Sequence, Word};
use sync::rcu::RcuHead;
use sync::{AllocError, SpinGuard, SpinLock, lock_class, slab_arc};

lock_class! { static ACTIONS: LockClass = ("signal actions", level::SignalActions); }

vm::slab_type!(Actions, "signal-actions", Arc);

sync::rcu_object!(Actions);

/// SIGKILL and SIGSTOP have the default for good, and no place.
const PLACES: usize = COUNT as usize - 2;

/// How often a reader looks again before it takes the writers' lock.
const LOOKS: usize = 4;

/// The actions for all signals.
pub(super) struct Actions {
    sequence: Sequence,
    /// A bit for each place whose action may be another than the default.
    set: Word,
    writer: SpinLock<(), level::SignalActions>,
    words: [Words; PLACES],
    /// All that are known fit into half a word; apart, so that all of it fits into a slab's object.
    flags: [HalfWord; PLACES],
    rcu: RcuHead,
}

const _: () = assert!(PLACES <= u64::BITS as usize);

/// An action without its flags.
struct Words {
    handler: Word,
    restorer: Word,
    mask: Word,
}

const _: () = assert!(super::KNOWN_FLAGS <= u32::MAX as u64);

/// Where an action lies.
#[derive(Clone, Copy)]
struct Place<'a> {
    words: &'a Words,
    flags: &'a HalfWord,
}

impl Place<'_> {
    /// The action: of one piece if no writer is there.
    fn load(&self) -> Action {
        Action {
            handler: self.words.handler.load() as usize,
            flags: self.flags.load().into(),
            restorer: self.words.restorer.load() as usize,
            mask: self.words.mask.load(),
        }
    }

    /// As a writer.
    fn store(&self, to: &Action) {
        self.words.handler.store(to.handler as u64);
        self.flags.store(to.flags as u32);
        self.words.restorer.store(to.restorer as u64);
        self.words.mask.store(to.mask);
    }
}

/// The place of `signal`; None: it has none.
#[expect(clippy::arithmetic_side_effects, reason = "signals are numbered from 1 to 64")]
fn place_of(signal: u32) -> Option<usize> {
    if signal == 0 || signal == SIGKILL || signal == SIGSTOP {
        return None;
    }
    let before = u32::from(signal > SIGKILL) + u32::from(signal > SIGSTOP);
    Some((signal - 1 - before) as usize)
}

/// The signal whose place that is.
#[expect(clippy::arithmetic_side_effects, reason = "there are as many places as signals, but for two")]
fn signal_at(place: usize) -> u32 {
    let signal = place as u32 + 1;
    let behind = signal + u32::from(signal >= SIGKILL);
    behind + u32::from(behind >= SIGSTOP)
}

/// Calls `f` for each bit that is set.
#[expect(clippy::arithmetic_side_effects, reason = "left is not zero")]
fn each(mut left: u64, mut f: impl FnMut(usize)) {
    while left != 0 {
        f(left.trailing_zeros() as usize);
        left &= left - 1;
    }
}

impl Actions {
    /// Every action the default.
    ///
    /// # Errors
    /// No memory.
    #[inline(never)] // Its frame is large, and is not to lie below the rest of a fork.
    pub fn try_new() -> Result<Arc<Self>, AllocError> {
        slab_arc(Self {
            sequence: Sequence::new(),
            set: Word::new(),
            writer: SpinLock::new((), &ACTIONS),
            words: [const { Words { handler: Word::new(), restorer: Word::new(), mask: Word::new() } };
                PLACES],
            flags: [const { HalfWord::new() }; PLACES],
            rcu: RcuHead::new(),
        })
    }

    fn place(&self, number: usize) -> Option<Place<'_>> {
        Some(Place { words: self.words.get(number)?, flags: self.flags.get(number)? })
    }

    /// Gives `copy`, which is new and nobody else's, the same actions. Whoever forks writes no line of these.
    pub fn copy_to(&self, copy: &Self) {
        // What was read while a writer was there is read again, also if it is said to be the default by then.
        let mut tried = 0;
        let mut read = || {
            let set = self.set.load();
            tried |= set;
            each(tried, |number| {
                if let (Some(from), Some(to)) = (self.place(number), copy.place(number)) {
                    to.store(&from.load());
                }
            });
            copy.set.store(set);
        };
        if !(0..LOOKS).any(|_| self.sequence.read(&mut read).is_some()) {
            let _writer = self.writer.lock();
            read();
        }
    }

    /// The action for `signal`; None: no such signal.
    #[inline]
    pub fn get(&self, signal: u32) -> Option<Action> {
        let Some(place) = place_of(signal) else { return (signal != 0).then(Action::default) };
        let place = self.place(place)?;
        (0..LOOKS).find_map(|_| self.sequence.read(|| place.load())).or_else(|| self.get_of_writers(place))
    }

    /// Masks of the signals that are ignored, and of those that have a handler, each as it is when it is looked at.
    pub fn masks(&self) -> (u64, u64) {
        let (mut ignored, mut caught) = (0, 0);
        for (place, words) in self.words.iter().enumerate() {
            let action = Action { handler: words.handler.load() as usize, ..Action::default() };
            if !action.is_default() {
                let mask = if action.is_ignore() { &mut ignored } else { &mut caught };
                *mask |= bit(signal_at(place));
            }
        }
        (ignored, caught)
    }

    #[cold]
    fn get_of_writers(&self, place: Place<'_>) -> Option<Action> {
        let _writer = self.writer.lock();
        Some(place.load())
    }

    /// Sets the action for `signal` and returns the old one; None: there is no such signal, or its action is fixed.
    pub fn set(
        &self,
        signal: u32,
        to: &Action,
        order: &mut Held<'_, impl Before<level::SignalActions>>,
    ) -> Option<Action> {
        let number = place_of(signal)?;
        let place = self.place(number)?;
        let _writer = self.writer.lock_in(order);
        let mut old = Action::default();
        // Lock and sequence are on one line, which is used before and after the action's.
        self.sequence.write(|| {
            let (set, bit) = (self.set.load(), 1 << number);
            if set & bit == 0 {
                self.set.store(set | bit);
            }
            old = place.load();
            place.store(to);
        });
        Some(old)
    }

    fn write(&self, _lock: &SpinGuard<'_, (), level::SignalActions>, place: Place<'_>, to: &Action) {
        self.sequence.write(|| place.store(to));
    }

    /// `signal` was taken, and its action was found to have a handler for once (SA_RESETHAND). Gives the action that holds for this signal: of several
    /// threads that take one at the same time, one has the handler.
    pub fn take_handler(&self, signal: u32) -> Option<Action> {
        let place = self.place(place_of(signal)?)?;
        let lock = self.writer.lock();
        let action = place.load();
        if action.has(SA_RESETHAND) && !action.is_ignore() {
            // The handler goes; flags and mask stay, as on Linux.
            self.write(&lock, place, &Action { handler: Action::DEFAULT, ..action });
        }
        Some(action)
    }

    /// exec: handlers become the default, ignored signals stay ignored.
    pub fn reset_for_exec(&self, order: &mut Held<'_, impl Before<level::SignalActions>>) {
        let writer = self.writer.lock_in(order);
        let mut set = 0;
        each(self.set.load(), |number| {
            let Some(place) = self.place(number) else { return };
            let ignored = place.load().is_ignore();
            let handler = if ignored { Action::IGNORE } else { Action::DEFAULT };
            self.write(&writer, place, &Action { handler, ..Action::default() });
            set |= u64::from(ignored) << number;
        });
        self.sequence.write(|| self.set.store(set));
    }
}
