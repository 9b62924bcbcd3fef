//! Who owns a futex runs at the highest priority of those that wait for it; who waits for another futex meanwhile lends that one's owner as much, and so on
//! along the chain.
//!
//! A step holds the lock of one state and of one task at the most, and none is held from step to step. So the chain may change meanwhile: who has come in, or
//! has gone, walks along it itself, and a step that finds its task elsewhere has nothing more to do.

use super::super::super::give_way;
use super::state::{PiState, wake_first};
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
    walk(state, newcomer, 0)
}

/// As `follow`, behind so many owners.
fn walk(state: &Arc<PiState>, newcomer: Option<&Arc<PiTask>>, begun: usize) -> Result<(), Deadlock> {
    let mut at = state.clone();
    for step in begun.. {
        let owner = {
            let mut locked = at.lock();
            let (inner, held) = locked.split();
            let Some(owner) = inner.owner.clone().filter(|_| inner.held) else { return Ok(()) };
            if newcomer.is_some_and(|newcomer| Arc::ptr_eq(newcomer, &owner)) {
                return Err(Deadlock);
            }
            owner.set_loan(&at, inner.loan(), held);
            owner
        };
        // Who looks for a circle goes to the end.
        let Some(next) = owner.settle(newcomer.is_some()) else { return Ok(()) };
        if step == LONGEST {
            return Err(Deadlock);
        }
        // It may have got that futex since, and not have come to say so.
        if !move_in(&next, &owner) {
            return Ok(());
        }
        if newcomer.is_some() && Arc::ptr_eq(&next, state) {
            return Err(Deadlock);
        }
        at = next;
        if step % TURN == TURN - 1 {
            // A chain is walked to its end, or its owners would be left with what they are lent no more.
            let _ = give_way();
        }
    }
    Ok(())
}

/// The priority of `task`, which waits for the futex of `state`, may have changed: finds it its place there. False: it waits elsewhere, or nobody holds the
/// futex, so that the chain ends here.
fn move_in(state: &PiState, task: &PiTask) -> bool {
    let mut locked = state.lock();
    let first = locked.first().map(core::ptr::from_ref);
    if !locked.requeue(task) {
        return false;
    }
    if !locked.held && first != locked.first().map(core::ptr::from_ref) {
        // Another comes first now, to whom the futex was not left.
        wake_first(&mut locked);
    }
    locked.held
}

/// The priority of a task was changed: those for whom it waits follow. Gives way; no lock is held.
pub fn changed(task: &PiTask) {
    if let Some(state) = task.settle(true)
        && move_in(&state, task)
    {
        let _ = walk(&state, None, 1);
    }
}
