//! msgrcv(2).
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use arrayvec::ArrayVec;
use sync::slab_arc;

use super::message::{Message, Wanted};
use super::queue::{Looked, Waiter};
use super::{Queue, TABLE, send};
use crate::errno::{E2BIG, EAGAIN, EINTR, EINVAL, ENOMSG, ERESTARTNOHAND, Errno, Result};
use crate::fs::caller;
use crate::ipc::{NO_WAIT, now, perm};
use crate::sched::{self, Sleep};

/// Flags: what does not fit is cut off; any kind but the one; a copy, of the message in that place.
const NO_ERROR: u32 = 0o10000;
pub const EXCEPT: u32 = 0o20000;
pub const COPY: u32 = 0o40000;

/// Those who are told at once.
const BATCH: usize = 16;

/// A message, and how many bytes of it the receiver gets.
pub struct Received {
    pub message: Arc<Message>,
    pub size: usize,
}

/// Takes the message that is `wanted` out of queue `id`, or a copy as `flags` say, once there is one.
///
/// # Errors
/// EINVAL, EACCES, EIDRM, ENOMEM. E2BIG: it has more than `size` bytes. ENOMSG: there is none, and `flags` say not to wait. ERESTARTNOHAND: a signal.
pub fn receive(id: i32, size: usize, wanted: Wanted, flags: u32) -> Result<Received> {
    let queue = TABLE.find(id)?;
    loop {
        let mut seen = 0;
        let message = match next(&queue, size, wanted, flags, &mut seen) {
            Ok(message) => message,
            Err(ENOMSG) if flags & NO_WAIT == 0 => match wait(&queue, size, wanted, flags, seen) {
                Ok(message) => message,
                // It is to look again.
                Err(EAGAIN) => continue,
                Err(errno) => return Err(errno),
            },
            Err(errno) => return Err(errno),
        };
        let size = message.text.len().min(size);
        return Ok(Received { message, size });
    }
}

/// The message, taken out. Where there is none, `seen` is the number of the last that there was. Gives way.
fn next(queue: &Queue, size: usize, wanted: Wanted, flags: u32, seen: &mut u64) -> Result<Arc<Message>> {
    queue.perm.check(perm::READ)?;
    let (mut after, mut passed) = (0, 0);
    loop {
        let mut state = queue.lock()?;
        match state.contents.find(wanted, after, passed) {
            Looked::None => {
                *seen = state.contents.last();
                return Err(ENOMSG);
            }
            Looked::GoesOn(last, place) => (after, passed) = (last, place),
            Looked::Found(message) => {
                if message.text.len() > size && flags & NO_ERROR == 0 {
                    return Err(E2BIG);
                }
                if flags & COPY != 0 {
                    return if message.text.len() > size { Err(EINVAL) } else { Ok(message) };
                }
                state.contents.remove(&message);
                (state.times.received, state.times.receiver) = (now(), caller::pid());
                let has_senders = !state.contents.senders.is_empty();
                drop(state);
                if has_senders {
                    send::let_senders(queue, false);
                }
                return Ok(message);
            }
        }
        drop(state);
        if sched::give_way() {
            return Err(EINTR);
        }
    }
}

/// Sleeps until there is a message for it, after number `seen`.
///
/// # Errors
/// EAGAIN: it is to look again.
fn wait(queue: &Queue, size: usize, wanted: Wanted, flags: u32, seen: u64) -> Result<Arc<Message>> {
    let most = if flags & NO_ERROR != 0 { usize::MAX } else { size };
    let waiter = slab_arc(Waiter::new(wanted, most, caller::pid()))?;
    {
        let mut state = queue.lock()?;
        // One that came meanwhile is not handed over.
        if !matches!(state.contents.find(wanted, seen, 0), Looked::None) {
            return Err(EAGAIN);
        }
        state.contents.receivers.put(waiter.clone());
    }
    let slept = waiter.queue.wait_until(Sleep::Interruptible, None, || waiter.result());
    let given = match slept {
        Ok(given) => given,
        Err(_) => {
            let taken = queue.state.lock().contents.receivers.remove(&waiter);
            drop(taken);
            // It may have been given one just before.
            match waiter.result() {
                Some(given) => given,
                None => {
                    queue.lock()?;
                    return Err(ERESTARTNOHAND);
                }
            }
        }
    };
    given.unwrap_or(Err(EAGAIN))
}

/// Those who wait for a message look again, or go on with an error.
pub fn look_again(queue: &Queue, error: Option<Errno>) {
    let last = queue.state.lock().contents.receivers.last();
    loop {
        let mut told: ArrayVec<Arc<Waiter>, BATCH> = ArrayVec::new();
        let mut state = queue.state.lock();
        while !told.is_full() {
            let first = state.contents.receivers.next(0).filter(|waiter| waiter.number() <= last);
            let Some(waiter) = first else { break };
            drop(state.contents.receivers.remove(&waiter));
            waiter.tell(Some(Err(error.unwrap_or(EAGAIN))));
            told.push(waiter);
        }
        drop(state);
        if told.is_empty() {
            return;
        }
        told.drain(..).for_each(|waiter| waiter.queue.wake_one());
        let _ = sched::give_way();
    }
}
