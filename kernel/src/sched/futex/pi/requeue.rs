//! Who waits on a plain word is moved to a futex that lends priority, and returns when it has that (FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI): what a condition
//! variable does whose mutex lends priority.
//!
//! A waiter lies in the bucket of the plain word until another thread, with that bucket and the futex's locked, makes the attempt for it. From then on it is a
//! waiter of the futex, or its owner. Who would have waited for itself is sent back to the word.

use super::super::bucket::{Place, TO_BE_MOVED, leave};
use super::super::{Key, holds};
use super::attempt::{Entry, Step, Tried, prepare};
use super::chain;
use super::state::{PiState, UserWord};
use super::task::{PiTask, Stage};
use super::{Find, Leaves, bring_in, finish, own_part, poll, rest, why, withdraw};
use crate::arch::user;
use crate::errno::{ERESTARTNOINTR, Errno, Result};
use crate::sched::current;
use crate::sched::timer::Deadline;
use crate::sched::wait::{Sleep, WaitNode, sleep_alone};
use alloc::sync::Arc;
use sync::protocol::pi::{Fault, Word as _};

/// Waits on the plain word at `address`, if it still holds `expected`, to be moved to the futex at `to_address`, and until that is the running thread's, whose
/// number is `tid`.
///
/// # Errors
/// EAGAIN: the word does not hold that, or a signal came after the move. EINVAL: both are one. ERESTARTNOINTR: a signal came before the move. ETIMEDOUT, EFAULT, ENOMEM.
pub fn wait_requeue(
    (from, address): (Key<'_>, usize),
    (to, to_address): (Key<'_>, usize),
    expected: u32,
    tid: u32,
    deadline: Option<Deadline>,
) -> Result {
    let own = own_part(tid)?;
    let (place, target, at) = (from.place_with_table()?, to.place_with_table()?, UserWord(to_address));
    let task = current();
    let node = &task.sleep_node;
    let mut first = true;
    loop {
        if first && user::load_u32(address)? != expected {
            return Err(Errno::EAGAIN);
        }
        if from.word == to.word {
            return Err(Errno::EINVAL);
        }
        own.set_target(to.word);
        own.set_stage(Stage::Waits);
        // Who was sent back has been waiting all the time.
        let joined = place
            .join(node, from.word, TO_BE_MOVED, || if first { holds(address, expected) } else { Some(true) });
        match joined {
            Some(true) => {}
            Some(false) => return Err(Errno::EAGAIN),
            None => continue,
        }
        first = false;
        if let Some(result) = until_moved(target, &own, node, &at, deadline) {
            return result;
        }
    }
}

/// What a waiter sees that was woken.
enum Seen {
    Owns,
    Back,
    /// It owns the futex of this state, but for a page that is not there yet.
    Looked(Arc<PiState>, Tried<()>),
}

fn look(own: &Arc<PiTask>, at: &UserWord) -> Option<Seen> {
    match own.stage() {
        Stage::Waits => None,
        Stage::Owns => Some(Seen::Owns),
        Stage::Back => Some(Seen::Back),
        Stage::Moved => {
            let state = own.waits_for()?;
            let tried = poll(&state, own, at)?;
            Some(Seen::Looked(state, tried))
        }
    }
}

/// Sleeps until the running thread has the futex, or waits no more. None: it was sent back.
fn until_moved(
    target: Place<'_>,
    own: &Arc<PiTask>,
    node: &WaitNode,
    at: &UserWord,
    deadline: Option<Deadline>,
) -> Option<Result> {
    let errno = loop {
        match sleep_alone(Sleep::Interruptible, deadline, || look(own, at)) {
            Ok(Seen::Owns) => return Some(Ok(())),
            Ok(Seen::Back) => return None,
            Ok(Seen::Looked(state, Ok(()))) => return Some(finish(target, &state, own, at, Ok(()))),
            Ok(Seen::Looked(_, Err(Fault))) => {
                if let Err(errno) = bring_in(at.0) {
                    break errno;
                }
            }
            Err(woken) => break why(woken),
        }
    };
    if leave(node) {
        return Some(Err(if errno == Errno::EINTR { ERESTARTNOINTR } else { errno }));
    }
    // Who moved it is done: the bucket was locked since.
    match (own.stage(), own.waits_for()) {
        (Stage::Moved, Some(state)) => {
            let result = finish(target, &state, own, at, Err(errno));
            // The word has changed since: the call could only say so when it is made again.
            Some(result.map_err(|errno| if errno == Errno::EINTR { Errno::EAGAIN } else { errno }))
        }
        (Stage::Back, _) => None,
        _ => Some(Ok(())),
    }
}

/// Moves those who wait on the plain word at `address`, if it still holds `expected`, to the futex at `to_address`: one, which gets the futex at once if it is free,
/// and up to `limit` others. Returns how many.
///
/// # Errors
/// EAGAIN: the word does not hold that. EINVAL: both are one, or a waiter does not wait to be moved there. EDEADLK: one would wait for itself. As `lock`.
pub fn requeue(
    (from, address): (Key<'_>, usize),
    (to, to_address): (Key<'_>, usize),
    limit: u32,
    expected: u32,
    find: Find<'_>,
) -> Result<u32> {
    if from.word == to.word {
        return Err(Errno::EINVAL);
    }
    let (place, target) = (from.place_with_table()?, to.place_with_table()?);
    let call = Call { place, target, from, to, address, to_address, expected, leads: limit != 0, find };
    // No more than wait now, or those who wait again at once could keep it busy for ever.
    let limit = place.with(|members, _| members.count_of(from.word)).min(limit as usize + 1);
    let mut moved = 0u32;
    loop {
        if !call.move_one(moved == 0)? {
            return Ok(moved);
        }
        moved = moved.saturating_add(1);
        if moved as usize >= limit || rest().is_err() {
            return Ok(moved);
        }
    }
}

struct Call<'a> {
    place: Place<'a>,
    target: Place<'a>,
    from: Key<'a>,
    to: Key<'a>,
    address: usize,
    to_address: usize,
    expected: u32,
    /// More than one may be moved.
    leads: bool,
    find: Find<'a>,
}

/// What came of an attempt for the first who waits.
enum Moved {
    Nobody,
    /// It owns the futex.
    Owns,
    Waits(Arc<PiTask>, Arc<PiState>),
    /// The plain word has to be brought in.
    Fault,
    Prepare(Step),
    Fails(Errno),
}

impl Call<'_> {
    /// Moves the first who waits. `compares`: the word is still to be looked at. False: nobody waits.
    fn move_one(&self, compares: bool) -> Result<bool> {
        // What was looked up for an attempt that is to be repeated.
        let mut found = None;
        loop {
            let moved = self.place.with_both(self.target, |source, target, order| {
                if compares {
                    match holds(self.address, self.expected) {
                        Some(true) => {}
                        Some(false) => return Moved::Fails(Errno::EAGAIN),
                        None => return Moved::Fault,
                    }
                    if UserWord(self.to_address).load().is_err() {
                        return Moved::Prepare(Step::Fault);
                    }
                }
                if source.lends(self.from.word) {
                    return Moved::Fails(Errno::EINVAL);
                }
                let Some(first) = source.first_of(self.from.word) else { return Moved::Nobody };
                if !first.is_to_be_moved() {
                    return Moved::Fails(Errno::EINVAL);
                }
                // SAFETY: it lies in this bucket, whose lock is held, and takes that lock before it goes on.
                let who = unsafe { first.task().as_ref() }.and_then(|task| task.pi_record()).cloned();
                let Some(who) = who.filter(|who| who.target() == self.to.word) else {
                    return Moved::Fails(Errno::EINVAL);
                };
                let (word, at) = (self.to.word, UserWord(self.to_address));
                let found = found.take();
                let mut entry = Entry { who: &who, word, at, tries: false, leads: self.leads, found };
                // Before it can be found there by an unlock.
                who.set_stage(Stage::Moved);
                let step = match target {
                    Some(target) => entry.attempt(target, order),
                    None => entry.attempt(source, order),
                };
                match step {
                    Step::Taken => {
                        who.set_stage(Stage::Owns);
                        if let Some(node) = source.take_first_of(self.from.word) {
                            node.wake(order.reborrow().lower());
                        }
                        Moved::Owns
                    }
                    Step::Waits(state) => {
                        let _it = source.take_first_of(self.from.word);
                        Moved::Waits(who, state)
                    }
                    Step::Fails(errno) => {
                        who.set_stage(Stage::Waits);
                        Moved::Fails(errno)
                    }
                    step => {
                        who.set_stage(Stage::Waits);
                        Moved::Prepare(step)
                    }
                }
            });
            match moved {
                Moved::Nobody => return Ok(false),
                Moved::Owns => return Ok(true),
                Moved::Waits(who, state) => {
                    return match chain::follow(&state, Some(&who)) {
                        Ok(()) => Ok(true),
                        Err(chain::Deadlock) => self.send_back(&who, &state),
                    };
                }
                Moved::Fails(errno) => return Err(errno),
                Moved::Fault => drop(user::load_u32(self.address)?),
                Moved::Prepare(step) => found = prepare(&step, self.to.word, self.to_address, self.find)?,
            }
        }
    }

    /// Takes `who`, which would wait for itself, off the futex of `state`: it waits on the plain word again.
    fn send_back(&self, who: &Arc<PiTask>, state: &Arc<PiState>) -> Result<bool> {
        let at = UserWord(self.to_address);
        let _ = withdraw(self.target, state, who, &at, Leaves::Back);
        let _ = chain::follow(state, None);
        Err(Errno::EDEADLK)
    }
}
