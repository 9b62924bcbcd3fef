//! msgsnd(2).
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use arrayvec::ArrayVec;
use sync::slab_arc;

use super::message::{Message, Wanted};
use super::queue::{TURN, Waiter};
use super::{Guard, Queue, TABLE};
use crate::errno::{E2BIG, EAGAIN, ERESTARTNOHAND, Result};
use crate::fs::caller;
use crate::ipc::{NO_WAIT, now, perm};
use crate::sched::{self, Sleep};

/// Those who are told at once.
const BATCH: usize = 16;

/// Puts `message` into queue `id`, once there is room.
///
/// # Errors
/// EINVAL, EACCES, EIDRM, ENOMEM. EAGAIN: there is no room, and `flags` say not to wait. ERESTARTNOHAND: a signal.
pub fn send(id: i32, message: &Arc<Message>, flags: u32) -> Result {
    let queue = TABLE.find(id)?;
    let size = message.text.len();
    loop {
        queue.perm.check(perm::WRITE)?;
        let state = queue.lock()?;
        if state.contents.fits(size) {
            if deliver(&queue, state, message) {
                return Ok(());
            }
            continue;
        }
        if flags & NO_WAIT != 0 {
            return Err(EAGAIN);
        }
        drop(state);
        wait_for_room(&queue, size)?;
    }
}

/// Sleeps until there may be room.
fn wait_for_room(queue: &Queue, size: usize) -> Result {
    let waiter = slab_arc(Waiter::new(Wanted::Any, size, caller::pid()))?;
    {
        let mut state = queue.lock()?;
        if state.contents.fits(size) {
            return Ok(());
        }
        state.contents.senders.put(waiter.clone());
    }
    let result = waiter.queue.wait_until(Sleep::Interruptible, None, || waiter.is_told());
    if result.is_ok() {
        return Ok(());
    }
    let taken = queue.state.lock().contents.senders.remove(&waiter);
    drop(taken);
    queue.lock()?;
    Err(ERESTARTNOHAND)
}

/// Gives the message to the first who waits for it, or puts it into the queue. Gives the lock back. False: the queue was removed, or is full by now.
fn deliver(queue: &Queue, state: Guard<'_>, message: &Arc<Message>) -> bool {
    let (mut state, mut after, mut looked) = (state, 0, 0);
    loop {
        let Some(waiter) = state.contents.receivers.next(after) else {
            if !state.contents.fits(message.text.len()) {
                return false;
            }
            state.contents.put(message.clone());
            note(&mut state);
            return true;
        };
        after = waiter.number();
        looked = usize::saturating_add(looked, 1);
        if waiter.wanted.is(message.kind) {
            let taken = state.contents.receivers.remove(&waiter);
            let fits = message.text.len() <= waiter.size;
            if fits {
                note(&mut state);
                (state.times.received, state.times.receiver) = (now(), waiter.pid);
                waiter.tell(Some(Ok(message.clone())));
            } else {
                waiter.tell(Some(Err(E2BIG)));
            }
            drop(state);
            drop(taken);
            waiter.queue.wake_one();
            if fits {
                return true;
            }
        } else if looked.is_multiple_of(TURN) {
            drop(state);
        } else {
            continue;
        }
        // Who came meanwhile stands behind.
        let _ = sched::give_way();
        match queue.lock() {
            Ok(again) => state = again,
            Err(_) => return false,
        }
    }
}

fn note(state: &mut Guard<'_>) {
    (state.times.sent, state.times.sender) = (now(), caller::pid());
}

/// There may be room: those whose messages fit go on; `all`: the queue was removed.
pub fn let_senders(queue: &Queue, all: bool) {
    let mut after = 0;
    let last = queue.state.lock().contents.senders.last();
    loop {
        let mut told: ArrayVec<Arc<Waiter>, BATCH> = ArrayVec::new();
        let mut state = queue.state.lock();
        let mut ends = false;
        for _ in 0..TURN {
            let waiter = state.contents.senders.next(after).filter(|waiter| waiter.number() <= last);
            let Some(waiter) = waiter else {
                ends = true;
                break;
            };
            after = waiter.number();
            if all || state.contents.fits(waiter.size) {
                drop(state.contents.senders.remove(&waiter));
                waiter.tell(None);
                told.push(waiter);
            }
            if told.is_full() {
                break;
            }
        }
        drop(state);
        told.drain(..).for_each(|waiter| waiter.queue.wake_one());
        if ends {
            return;
        }
        let _ = sched::give_way();
    }
}
