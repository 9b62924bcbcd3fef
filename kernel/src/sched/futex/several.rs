//! Waiting on several futexes at once (futex_waitv(2)).
//!
//! A waiter has a node for each in its bucket, one after the other with the bucket locked, and compares the word then. So a wake that comes after a word was changed
//! finds the node of that word. Who goes on takes all off, and whichever a waker took before is what the wait returns: no wake is lost.
//!
//! LockOrder: as `super`, one bucket at a time.
#![forbid(unsafe_code)]

use super::bucket::leave;
use super::{Key, holds};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::sched::give_way;
use crate::sched::task::current;
use crate::sched::timer::Deadline;
use crate::sched::wait::{Sleep, WaitNode, Woken, sleep_alone};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use sync::{TryVec, try_arc};

/// A futex, the address of its word, what that is to hold, and the wakes that count (`ANY`: all).
pub struct Part<'a> {
    pub key: Key<'a>,
    pub address: usize,
    pub expected: u32,
    pub bits: u32,
}

/// The running task's places among the waiters on each of some futexes. It leaves them when this is dropped.
struct Places {
    nodes: Vec<Arc<WaitNode>>,
    /// The first so many are in buckets, or were taken off by a waker.
    joined: usize,
}

/// What became of an attempt to join all.
enum Joined {
    All,
    /// The word of the part with this number has changed, or has to be brought in.
    Not(usize, Option<bool>),
}

impl Places {
    fn try_new(count: usize) -> Result<Self> {
        let mut nodes = Vec::new();
        nodes.try_reserve(count).map_err(|_| Errno::ENOMEM)?;
        for _ in 0..count {
            nodes.try_push(try_arc(WaitNode::of(&raw const *current()))?)?;
        }
        Ok(Self { nodes, joined: 0 })
    }

    fn join(&mut self, parts: &[Part<'_>]) -> Joined {
        for (n, (part, node)) in parts.iter().zip(&self.nodes).enumerate() {
            let may_wait = || holds(part.address, part.expected);
            match part.key.place_to_wait().join(node, part.key.word, part.bits, may_wait) {
                Some(true) => self.joined = n + 1,
                other => return Joined::Not(n, other),
            }
        }
        Joined::All
    }

    fn any_is_woken(&self) -> bool {
        self.nodes.iter().any(|node| node.woken.load(Ordering::SeqCst))
    }

    /// Leaves all. The last that a waker had taken off.
    fn leave(&mut self) -> Option<usize> {
        let joined = core::mem::take(&mut self.joined);
        let mut woken = None;
        for (n, node) in self.nodes.iter().take(joined).enumerate() {
            if !leave(node) {
                woken = Some(n);
            }
        }
        woken
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Sleeps until woken on one of `parts`, if each word holds what it is to hold. Returns the number of one on which it was woken.
///
/// # Errors
/// EAGAIN: a word does not. EFAULT: no such memory. ETIMEDOUT. EINTR: a signal. ENOMEM.
pub fn wait_any(parts: &[Part<'_>], deadline: Option<Deadline>) -> Result<usize> {
    // One that has changed already concerns nobody else.
    for part in parts {
        if arch::user::load_u32(part.address)? != part.expected {
            return Err(Errno::EAGAIN);
        }
    }
    let mut places = Places::try_new(parts.len())?;
    while let Joined::Not(n, why) = places.join(parts) {
        // Woken in the meantime: the wake counts, or it would be lost.
        if let Some(woken) = places.leave() {
            return Ok(woken);
        }
        let Some(part) = parts.get(n).filter(|_| why.is_none()) else { return Err(Errno::EAGAIN) };
        arch::user::load_u32(part.address)?;
        if give_way() {
            return Err(Errno::EINTR);
        }
    }
    let slept = sleep_alone(Sleep::Interruptible, deadline, || places.any_is_woken().then_some(()));
    match (places.leave(), slept) {
        (Some(woken), _) => Ok(woken),
        (None, Err(Woken::Timeout)) => Err(Errno::ETIMEDOUT),
        (None, _) => Err(Errno::EINTR),
    }
}
