//! Futexes that lend priority (FUTEX_LOCK_PI and its kin; futex(2), pthread_mutexattr_setprotocol(3)): who owns one runs at the highest real-time priority of those
//! that wait for it. What a nice value gives is not lent, as on Linux.
//!
//! * `state`   a futex that somebody waits for: owner and waiters
//! * `task`    a task's part: the futexes that it owns, the one that it waits for
//! * `attempt` one attempt to get one
//! * `chain`   priorities along chains of owners that wait for each other
//! * `requeue` who waits on a plain word is moved to such a futex (condition variables)
//!
//! What the word says, who may write it when, and what holds when an owner ends: `sync::protocol::pi`. The word is written under the lock of the bucket or of the
//! state, without faulting; a page that is not there is brought in with the locks dropped.
//!
//! LockOrder: bucket → state → a task's part → run queue.

mod attempt;
mod chain;
mod requeue;
mod state;
mod task;
#[cfg(test)]
mod tests;

use self::attempt::{Entry, Step, Tried, prepare};
pub(super) use self::state::{PiState, StateAdapter};
use self::state::{UserWord, leave, leave_to_first, take};
pub(in crate::sched) use self::task::PiSlot;
pub use self::task::PiTask;
use self::task::Stage;
use super::bucket::Place;
use super::key::Key;
use crate::arch::user;
use crate::errno::{Errno, Result};
use crate::sched::task::Task;
use crate::sched::timer::Deadline;
use crate::sched::wait::{Sleep, Woken, sleep_alone};
use crate::sched::{current, give_way};
use alloc::sync::Arc;
pub use requeue::{requeue, wait_requeue};
use sync::protocol::pi::{self, Fault, HandedOver, OWNER};

/// Finds a thread by its number: its part in such futexes; None: there is none with that number, or it has ended.
pub type Find<'a> = &'a dyn Fn(u32) -> Result<Option<Arc<PiTask>>>;

/// The running thread, whose number is `tid`.
fn own_part(tid: u32) -> Result<Arc<PiTask>> {
    current().pi(tid)?.ok_or(Errno::ESRCH)
}

/// Brings the word's page in, to be written.
fn bring_in(address: usize) -> Result {
    user::compare_exchange_u32(address, 0, 0).map(drop).map_err(|_| Errno::EFAULT)
}

/// What lies at `address`, aligned or not.
fn read(address: usize) -> Result<u32> {
    if address & 3 == 0 {
        return Ok(user::load_u32(address)?);
    }
    let mut bytes = [0; 4];
    user::copy_from_user(&mut bytes, address)?;
    Ok(u32::from_ne_bytes(bytes))
}

/// Lets others run. EINTR: a fatal signal has come.
fn rest() -> Result {
    if give_way() { Err(Errno::EINTR) } else { Ok(()) }
}

/// Locks the futex at `address` for the running thread, whose number is `tid`. `tries`: without waiting.
///
/// # Errors
/// EDEADLK: it is the thread's own, or its owner waits for it by a chain of futexes. ESRCH: its owner is no thread. EINVAL: the word does not fit those that wait, or
/// they wait there in another way. EAGAIN: another has it, and `tries`. ETIMEDOUT. EINTR: a signal. EFAULT. ENOMEM.
pub fn lock(
    key: Key<'_>,
    address: usize,
    tid: u32,
    deadline: Option<Deadline>,
    tries: bool,
    find: Find<'_>,
) -> Result {
    let (own, place) = (own_part(tid)?, key.place_with_table()?);
    let at = UserWord(address);
    let mut entry = Entry { who: &own, word: key.word, at, tries, leads: false, found: None };
    loop {
        match place.with(|members, order| entry.attempt(members, order)) {
            Step::Taken => return Ok(()),
            Step::Fails(errno) => return Err(errno),
            Step::Waits(state) => return wait(place, &state, &own, &entry.at, deadline),
            step => entry.found = prepare(&step, key.word, address, find)?,
        }
    }
}

/// Waits for the futex of `state`, among whose waiters the running thread is.
fn wait(
    place: Place<'_>,
    state: &Arc<PiState>,
    own: &Arc<PiTask>,
    at: &UserWord,
    deadline: Option<Deadline>,
) -> Result {
    let mut result = chain::follow(state, Some(own)).map_err(|chain::Deadlock| Errno::EDEADLK);
    while result.is_ok() {
        match sleep_alone(Sleep::Interruptible, deadline, || poll(state, own, at)) {
            Ok(Ok(())) => break,
            Ok(Err(Fault)) => result = bring_in(at.0),
            Err(woken) => result = Err(why(woken)),
        }
    }
    finish(place, state, own, at, result)
}

fn why(woken: Woken) -> Errno {
    match woken {
        Woken::Timeout => Errno::ETIMEDOUT,
        Woken::Signal => Errno::EINTR,
    }
}

/// Takes the futex if it has been left for the running thread. None: it has not.
fn poll(state: &Arc<PiState>, own: &Arc<PiTask>, at: &UserWord) -> Option<Tried<()>> {
    if !own.was_woken() {
        return None;
    }
    let mut locked = state.lock();
    own.has_looked(false);
    // SAFETY: the running task's.
    let priority = unsafe { own.priority_now() };
    if !locked.has(own) || locked.held || !locked.may_take(own, priority) {
        return None;
    }
    let taken = take(state, &mut locked, own, at);
    // It is to be looked at again once the page is there.
    own.has_looked(taken.is_err());
    Some(taken)
}

/// The running thread waits no more, since it has the futex, or for the reason that `result` says: then it takes the futex if it is free all the same.
fn finish(
    place: Place<'_>,
    state: &Arc<PiState>,
    own: &Arc<PiTask>,
    at: &UserWord,
    result: Result,
) -> Result {
    let mut result = result;
    let mut how = if result.is_err() { Leaves::Taking } else { Leaves::Only };
    loop {
        match withdraw(place, state, own, at, how) {
            Ok(true) => result = Ok(()),
            Ok(false) => {}
            Err(Fault) => {
                if let Err(errno) = bring_in(at.0) {
                    (result, how) = (Err(errno), Leaves::Only);
                }
                continue;
            }
        }
        break;
    }
    // Who takes it has the highest priority of those that wait; what they lend is looked at when that of one changes, as on Linux.
    if result.is_err() {
        let _ = chain::follow(state, None);
    }
    result
}

/// How one leaves those who wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// With the futex, if nobody holds it.
    Taking,
    Only,
    /// By the hand of who moved it, to wait for a move again.
    Back,
}

/// Takes `who` off those that wait for the futex of `state`. True: it has the futex now. The last one to leave takes the state away.
fn withdraw(
    place: Place<'_>,
    state: &Arc<PiState>,
    who: &Arc<PiTask>,
    at: &UserWord,
    how: Leaves,
) -> Tried<bool> {
    place.with(|members, order| {
        let mut locked = state.lock_in(order);
        let mut has_taken = false;
        if how == Leaves::Taking && !locked.held && locked.has(who) {
            if locked.may_take(who, 0) {
                take(state, &mut locked, who, at)?;
                has_taken = true;
            } else if locked.is_owner(who) {
                // It was left for this one, and then another came first.
                let next = locked.first().map_or(0, |first| first.tid());
                pi::take(at, next, false)?;
                let (inner, held) = locked.split();
                leave(inner, held, who);
                leave_to_first(state, &mut locked, true);
            }
        }
        let (inner, held) = locked.split();
        let was_there = leave(inner, held, who);
        if was_there && how == Leaves::Back {
            who.set_stage(Stage::Back);
            // SAFETY: it was among those that wait for the futex of the state, which is locked, and takes that lock before it goes on.
            unsafe { who.wake(held.reborrow().lower()) };
        }
        if inner.is_empty() {
            members.remove_state(state);
            if let Some(owner) = &inner.owner {
                owner.disown(state, held);
            }
        } else if !inner.held {
            state::wake_first(&mut locked);
        }
        Ok(has_taken)
    })
}

/// Unlocks the futex at `address`, which is the running thread's, whose number is `tid`; `key` says what is there.
///
/// # Errors
/// EPERM: it is not its. EINVAL: the word does not fit those that wait, or they wait there in another way. EAGAIN: the word has changed though nobody waits. EFAULT. ENOMEM.
pub fn unlock<'a>(key: impl Fn() -> Result<Key<'a>>, address: usize, tid: u32) -> Result {
    let at = UserWord(address);
    loop {
        let value = read(address)?;
        if value & OWNER != tid {
            return Err(Errno::EPERM);
        }
        let key = key()?;
        let place = key.place_with_table()?;
        let found = place.with(|members, _| match members.state_of(key.word) {
            Some(state) => Ok(Some(state)),
            None if members.first_of(key.word).is_some() => Err(Errno::EINVAL),
            None => match pi::release(&at, value) {
                Ok(true) => Ok(None),
                Ok(false) => Err(Errno::EAGAIN),
                // To be brought in below.
                Err(Fault) => Err(Errno::EFAULT),
            },
        });
        match found {
            Ok(None) => return Ok(()),
            Ok(Some(state)) => match hand_over(&state, value, &at)? {
                Some(()) => return Ok(()),
                None => bring_in(address)?,
            },
            Err(Errno::EFAULT) => bring_in(address)?,
            Err(errno) => return Err(errno),
        }
        rest()?;
    }
}

/// Gives the futex of `state` from the running thread to the first who waits. None: to be tried again, with the page there.
fn hand_over(state: &Arc<PiState>, value: u32, at: &UserWord) -> Result<Option<()>> {
    let task = current();
    let Some(own) = task.pi_record() else { return Err(Errno::EINVAL) };
    let mut locked = state.lock();
    if !locked.is_owner(own) {
        return Err(Errno::EINVAL);
    }
    // Where none is left, the last one takes the state away just now.
    let Some(next) = locked.first().map(|first| first.tid()) else { return Ok(None) };
    match pi::hand_over(at, value, next) {
        Ok(HandedOver::Yes) => {}
        Ok(HandedOver::No) => return Err(Errno::EINVAL),
        Ok(HandedOver::Again) | Err(Fault) => return Ok(None),
    }
    leave_to_first(state, &mut locked, true);
    drop(locked);
    own.settle(false);
    Ok(Some(()))
}

/// The priority of a task was changed. Gives way; no lock is held.
pub fn priority_changed(task: &Task) {
    if let Some(part) = task.pi_record().cloned() {
        chain::changed(&part);
    }
}

/// Leaves all futexes that a task owns, which stay locked, to those that wait for them. The running task, or one that has not begun.
pub fn leave_all(task: &Task) {
    if let Some(part) = task.pi_record() {
        leave_all_of(part);
        part.settle(false);
    }
}

/// The task ends: leaves all futexes that it owns, and owns none from now on. The running task, or one that will not begin.
#[inline]
pub fn end(task: &Task) {
    if let Some(part) = task.pi_end() {
        leave_all_of(part);
    }
}

#[cold]
fn leave_all_of(part: &Arc<PiTask>) {
    while let Some(state) = part.first_owned() {
        let mut locked = state.lock();
        if locked.is_owner(part) {
            leave_to_first(&state, &mut locked, false);
        }
        drop(locked);
        // The end of a thread is not ended early.
        let _ = give_way();
    }
}
