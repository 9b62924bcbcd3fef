//! Waiting on a word of user memory (futex(2)).
//!
//! * `key`      what a word *is*: address space and address for a private futex, object and offset for a shared one
//! * `bucket`   where waiters lie, by a hash of that, and how a bucket splits
//! * `private`  the table of a space: private futexes of unrelated processes share no line
//! * `pi`       futexes that lend priority
//! * `several`  waits on several at once
//!
//! A waiter compares the word under its bucket's lock, counted as a waiter, so a wake that comes after the word was changed finds it. A wake that finds nobody
//! counted takes no lock and writes nothing (`sync::protocol::presence`).
//!
//! LockOrder: bucket → run queue (`pi` has more); two buckets (requeue) in the order of their addresses, a bucket before its children. The word is read under the
//! bucket's lock without faulting; a page that is not there is brought in with the lock dropped.

mod bucket;
mod key;
pub mod pi;
mod private;
pub mod several;
#[cfg(test)]
mod tests;

use self::bucket::{Members, Place, leave};
pub use self::key::Key;
use self::key::Word;
pub use self::private::PrivateFutexes;
use super::give_way;
use super::task::current;
use super::timer::Deadline;
use super::wait::{Sleep, Woken, sleep_alone};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::memory::Space;
pub(super) use bucket::Bucket;
use core::sync::atomic::Ordering;
use sync::lock_class;
use sync::protocol::presence;

lock_class! { static FUTEX: LockClass = ("futex bucket", level::Futex); }

/// Matches every waiter (FUTEX_BITSET_MATCH_ANY).
pub const ANY: u32 = u32::MAX;

/// Does the word at `address` hold `expected`? Brings no page in: None if that were needed.
fn holds(address: usize, expected: u32) -> Option<bool> {
    arch::user::load_u32_nofault(address).ok().map(|value| value == expected)
}

/// Sleeps until woken, if the word at `address` still holds `expected`.
///
/// # Errors
/// EAGAIN: it does not. EFAULT: no such memory. ETIMEDOUT. EINTR: a signal.
pub fn wait(key: Key<'_>, address: usize, expected: u32, bits: u32, deadline: Option<Deadline>) -> Result {
    let task = current();
    let node = &task.sleep_node;
    loop {
        // One that has changed already concerns nobody else.
        if arch::user::load_u32(address)? != expected {
            return Err(Errno::EAGAIN);
        }
        match key.place_to_wait().join(node, key.word, bits, || holds(address, expected)) {
            Some(true) => break,
            Some(false) => return Err(Errno::EAGAIN),
            None => {}
        }
    }
    let result =
        sleep_alone(Sleep::Interruptible, deadline, || node.woken.load(Ordering::SeqCst).then_some(()));
    leave(node);
    match result {
        Ok(()) => Ok(()),
        // Woken in the meantime: the wake counts, or it would be lost.
        Err(_) if node.woken.load(Ordering::SeqCst) => Ok(()),
        Err(Woken::Timeout) => Err(Errno::ETIMEDOUT),
        Err(Woken::Signal) => Err(Errno::EINTR),
    }
}

/// Most waiters that are woken under a bucket's lock, before others may run.
const TURN: u32 = 64;

/// How many waiters are to be woken yet.
struct Left(u32);

impl Left {
    /// A full round was made with the bucket locked, and `woken` is how many it woke. True: another is to be made, after a rest. It wakes no more than
    /// wait by the end of the first round, or waiters that wait again at once could keep it busy for ever.
    fn goes_on(&mut self, woken: u32, members: &Members<'_>, word: Word, bits: u32) -> bool {
        self.0 = self.0.saturating_sub(woken);
        if self.0 == 0 {
            return false;
        }
        self.0 = self.0.min(u32::try_from(members.count(word, bits)).unwrap_or(u32::MAX));
        self.0 != 0
    }
}

/// Wakes up to `count` waiters on `key` whose bits meet `bits`; returns how many. Gives way; a fatal signal ends it.
///
/// # Errors
/// EINVAL: the futex lends priority, or who waits there is to be moved to one that does.
#[inline]
pub fn wake(key: Key<'_>, count: u32, bits: u32) -> Result<u32> {
    presence::before_look();
    if key.is_free() { Ok(0) } else { wake_waiters(key, count, bits) }
}

#[inline(never)]
fn wake_waiters(key: Key<'_>, count: u32, bits: u32) -> Result<u32> {
    match key.places() {
        [None, None] => Ok(0),
        [Some(place), None] | [None, Some(place)] => wake_at(place, key.word, count, bits),
        [Some(_), Some(_)] => wake_in_both(key, count, bits),
    }
}

#[cold]
fn wake_in_both(key: Key<'_>, count: u32, bits: u32) -> Result<u32> {
    let mut all = 0u32;
    for place in key.places().into_iter().flatten() {
        if all < count {
            all = all.saturating_add(wake_at(place, key.word, count.saturating_sub(all), bits)?);
        }
    }
    Ok(all)
}

fn wake_at(place: Place<'_>, word: Word, count: u32, bits: u32) -> Result<u32> {
    let (mut left, mut all) = (Left(count), 0u32);
    loop {
        // Who was woken takes the bucket's lock at once: so the last of them, mostly the only one, is woken when it has been given back.
        let mut last = None;
        let goes_on: Result<bool> = place.with(|members, order| {
            let woken = members.wake(word, left.0.min(TURN), bits, &mut last, order)?;
            all = all.saturating_add(woken);
            Ok(woken == TURN && left.goes_on(woken, members, word, bits))
        });
        drop(last);
        if !goes_on? || give_way() {
            return Ok(all);
        }
    }
}

/// Wakes one waiter on the word at `address` of `space`, as FUTEX_WAKE does for a futex that is not said to be private. A bad address wakes nobody.
pub fn wake_one_at(space: &Space, address: usize) {
    if let Ok(key) = Key::of(space, address, false) {
        let _ = wake(key, 1, ANY);
    }
}

/// Wakes `count` waiters on `from` and lets up to `moved` others wait on `to` instead. With `expected`, only if the word at
/// `address` still holds it. Returns how many were woken, and how many were moved.
///
/// # Errors
/// EAGAIN: the word has changed. EFAULT. EINVAL: as `wake`.
pub fn requeue(
    from: Key<'_>,
    to: Key<'_>,
    count: u32,
    moved: u32,
    address: usize,
    expected: Option<u32>,
) -> Result<(u32, u32)> {
    let (mut call, mut expected) = (Requeue { from: from.word, to: to.word, woken: 0, moved: 0 }, expected);
    presence::before_look();
    for place in from.places().into_iter().flatten().filter(|place| !place.is_empty()) {
        let target = to.place_after(place);
        let limits = (count.saturating_sub(call.woken), moved.saturating_sub(call.moved));
        if !call.at(place, target, limits, address, &mut expected)? {
            return Ok((call.woken, call.moved));
        }
    }
    // Nobody waits, and the word is still to be compared.
    match expected {
        Some(expected) if arch::user::load_u32(address)? != expected => Err(Errno::EAGAIN),
        _ => Ok((call.woken, call.moved)),
    }
}

/// A requeue under way, and how many it has woken and moved.
struct Requeue {
    from: Word,
    to: Word,
    woken: u32,
    moved: u32,
}

impl Requeue {
    /// Goes through one place. `expected` is taken away once the word was found to hold it. False: a fatal signal ends the call.
    fn at(
        &mut self,
        place: Place<'_>,
        target: Place<'_>,
        (count, limit): (u32, u32),
        address: usize,
        expected: &mut Option<u32>,
    ) -> Result<bool> {
        let mut left = Left(count);
        loop {
            // None: the word has to be brought in.
            let mut last = None;
            let done = place.with_both(target, |source, target, order| {
                if let Some(value) = *expected {
                    if !holds(address, value)? {
                        return Some(Err(Errno::EAGAIN));
                    }
                    *expected = None;
                }
                let woken = match source.wake(self.from, left.0.min(TURN), ANY, &mut last, order) {
                    Ok(woken) => woken,
                    Err(errno) => return Some(Err(errno)),
                };
                self.woken = self.woken.saturating_add(woken);
                if woken == TURN && left.goes_on(woken, source, self.from, ANY) {
                    return Some(Ok(false));
                }
                Some(source.requeue(target, self.from, self.to, limit).map(|moved| {
                    self.moved = self.moved.saturating_add(moved);
                    true
                }))
            });
            drop(last);
            match done {
                Some(Ok(true)) => return Ok(true),
                Some(Err(errno)) => return Err(errno),
                Some(Ok(false)) => {}
                None => {
                    arch::user::load_u32(address)?;
                }
            }
            if give_way() {
                return Ok(false);
            }
        }
    }
}

/// FUTEX_WAKE_OP: changes the word at `address` by `change` in one step, wakes waiters on `first`, and those on `second`
/// if `test` holds of the old value.
///
/// # Errors
/// EFAULT. EINVAL: as `wake`.
pub fn wake_op(
    (first, count): (Key<'_>, u32),
    (second, count_second): (Key<'_>, u32),
    address: usize,
    change: impl Fn(u32) -> u32,
    test: impl Fn(u32) -> bool,
) -> Result<u32> {
    let mut old = arch::user::load_u32(address)?;
    loop {
        match arch::user::compare_exchange_u32(address, old, change(old))? {
            seen if seen == old => break,
            seen => old = seen,
        }
    }
    let mut woken = wake(first, count, ANY)?;
    if test(old) {
        woken = woken.saturating_add(wake(second, count_second, ANY)?);
    }
    Ok(woken)
}
