//! Who owns a futex runs at the highest priority of those that wait for it; who waits for another futex meanwhile lends that one's owner as much, and so on
//! along the chain.
//!
//! A step holds the lock of one state and of one task at the most, and none is held from step to step. So the chain may change meanwhile: who has come in, or
//! has gone, walks along it itself, and a step that finds its task elsewhere, or there a second time, has nothing more to do.
//!
//! What a walk says of a circle is true all the same. A step sees at once, under the lock of its state, that the owner of the step before waits for it,
//! still in the wait in which it was found, and for what its own owner waits. Who is in one wait all the time gives nothing away meanwhile. So
//! all that the walk has come by holds together at its last step, but for waits that a time or a signal ended, which held until then.

use super::super::super::give_way;
use super::state::{Locked, PiState, wake_first};
use super::task::PiTask;
use alloc::sync::Arc;

/// Owners along a chain that wait for another futex; with more it is taken for a circle. Linux's kernel.max_lock_depth.
const LONGEST: usize = 1024;
/// Steps after which others may run.
const TURN: usize = 64;

/// The chain leads back to who has come in, or is too long.
#[derive(Debug)]
pub struct Deadlock;

/// The waiters of `state` have changed: its owner's priority follows from them, and what that one waits for from it. `newcomer`: who has come
/// in, which is not to wait for itself. Gives way; no lock is held.
pub fn follow(state: &Arc<PiState>, newcomer: Option<&Arc<PiTask>>) -> Result<(), Deadlock> {
    walk(state.clone(), None, newcomer)
}

/// One that waits in the state at which a walk has come, and in which of its waits it was found.
type Waiter = (Arc<PiTask>, u64);

/// Walks from `at`, where `waiter` waits, if the walk does not begin there.
fn walk(
    mut at: Arc<PiState>,
    mut waiter: Option<Waiter>,
    newcomer: Option<&Arc<PiTask>>,
) -> Result<(), Deadlock> {
    let mut seen = at.clone();
    for step in usize::from(waiter.is_some()).. {
        let (owner, (next, wait)) = {
            let mut locked = at.lock();
            if waiter.is_some_and(|waiter| !move_in(&mut locked, &waiter)) {
                return Ok(());
            }
            let (inner, held) = locked.split();
            let Some(owner) = inner.owner.clone().filter(|_| inner.held) else { return Ok(()) };
            if newcomer.is_some_and(|newcomer| Arc::ptr_eq(newcomer, &owner)) {
                return Err(Deadlock);
            }
            owner.set_loan(&at, inner.loan(), held);
            // Who looks for a circle goes to the end.
            let Some(next) = owner.settle_in(newcomer.is_some(), held) else { return Ok(()) };
            (owner, next)
        };
        if step == LONGEST {
            return Err(Deadlock);
        }
        // A circle of others: who has closed it finds itself in it, and leaves.
        if Arc::ptr_eq(&next, &seen) {
            return Ok(());
        }
        if step.is_power_of_two() {
            seen = next.clone();
        }
        (at, waiter) = (next, Some((owner, wait)));
        #[cfg(test)]
        super::tests::between_steps();
        if step % TURN == TURN - 1 {
            // A chain is walked to its end, or its owners would be left with what they are lent no more.
            let _ = give_way();
        }
    }
    Ok(())
}

/// The priority of who waits for the futex whose state is locked may have changed: finds it its place there. False: it does not wait there any more, or again.
fn move_in(locked: &mut Locked<'_>, (task, wait): &Waiter) -> bool {
    let first = locked.first().map(core::ptr::from_ref);
    if task.wait() != *wait || !locked.requeue(task) {
        return false;
    }
    if !locked.held && first != locked.first().map(core::ptr::from_ref) {
        // Another comes first now, to whom the futex was not left.
        wake_first(locked);
    }
    true
}

/// The priority of a task was changed: those for whom it waits follow. Gives way; no lock is held.
pub fn changed(task: &Arc<PiTask>) {
    if let Some((state, wait)) = task.settle(true) {
        let _ = walk(state, Some((task.clone(), wait)), None);
    }
}
