//! What was sent to a socket and not yet received.
//!
//! ```text
//!   who sends  ──push──▶  arrived  ──all at once──▶  held  ──▶  who receives
//!                         spinning lock              sleeping lock
//! ```
//!
//! Who receives holds a sleeping lock, since a program's memory is copied under it, and takes what has arrived when nothing is held. So who
//! sends waits for nobody who copies, and the two meet at the spinning lock once for all messages that came meanwhile.
//!
//! Both are chains: each message leads to the next, so nothing is allocated here, and no step under the spinning lock depends on how many there are. What
//! has arrived begins with the last that came; who takes it turns it round, once for each message, and gives way meanwhile.
//!
//! The counts beside the chains are written under their locks, so that a sleeper's condition takes none. Who moves messages counts them as held
//! before it counts them as gone, so nobody who looks at `arrived` first misses them.
//!
//! Lock order: `held` → `arrived`.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use sync::level::Held as Locked;
use sync::{Mutex, MutexGuard, SpinLock, lock_class};

use super::message::Message;
use super::rights::Heap;
use super::{Kind, Socket};
use crate::errno::{EAGAIN, ECONNREFUSED, EINTR, Result};
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! {
    static ARRIVED: LockClass = ("socket queue", level::SocketQueue);
    static HELD: LockClass = ("socket receive", level::SocketReceive);
}

/// Messages between two points at which a walk gives way.
const TURN: usize = 64;

/// Messages of which each leads to the next.
struct Chain(Option<Box<Message>>);

impl Chain {
    const fn new() -> Chain {
        Chain(None)
    }

    fn put_first(&mut self, mut message: Box<Message>) {
        message.next = self.0.take();
        self.0 = Some(message);
    }

    fn take_first(&mut self) -> Option<Box<Message>> {
        let mut message = self.0.take()?;
        self.0 = message.next.take();
        Some(message)
    }

    /// The last comes first. Gives way.
    fn turned_round(mut self) -> Chain {
        let mut turned = Chain::new();
        for step in 1usize.. {
            let Some(message) = self.take_first() else { break };
            turned.put_first(message);
            if step.is_multiple_of(TURN) {
                // Not even a fatal signal ends it: others may receive them.
                let _ = give_way();
            }
        }
        turned
    }
}

impl Drop for Chain {
    /// One after the other: a message that dropped its next would do so as deep as the chain is long.
    fn drop(&mut self) {
        while self.take_first().is_some() {}
    }
}

struct Arrived {
    /// The last that came is the first here.
    newest: Chain,
    len: usize,
    /// Nothing comes any more.
    closed: bool,
}

struct Held {
    oldest: Chain,
    len: usize,
}

pub struct Queue {
    arrived: SpinLock<Arrived, level::SocketQueue>,
    arrived_count: AtomicUsize,
    held: Mutex<Held, level::SocketReceive>,
    held_count: AtomicUsize,
}

impl Queue {
    pub const fn new() -> Queue {
        let arrived = Arrived { newest: Chain::new(), len: 0, closed: false };
        Queue {
            arrived: SpinLock::new(arrived, &ARRIVED),
            arrived_count: AtomicUsize::new(0),
            held: Mutex::new(Held { oldest: Chain::new(), len: 0 }, &HELD),
            held_count: AtomicUsize::new(0),
        }
    }

    /// Puts `message` at the end, if `may` says so with the number of messages that are there. Where it fails, `message` stays the caller's.
    ///
    /// # Errors
    /// ECONNREFUSED: the socket is closed. EAGAIN: `may` says no.
    pub fn push(&self, message: &mut Option<Box<Message>>, may: impl FnOnce(usize) -> bool) -> Result {
        let mut arrived = self.arrived.lock();
        if arrived.closed {
            return Err(ECONNREFUSED);
        }
        if !may(arrived.len.saturating_add(self.held_count.load(Relaxed))) {
            return Err(EAGAIN);
        }
        if let Some(message) = message.take() {
            arrived.newest.put_first(message);
            arrived.len = arrived.len.saturating_add(1);
        }
        self.arrived_count.store(arrived.len, Release);
        Ok(())
    }

    /// Is anything there?
    #[inline]
    pub fn has_some(&self) -> bool {
        self.arrived_count.load(Acquire) > 0 || self.held_count.load(Acquire) > 0
    }

    /// How many messages there are, about.
    pub fn count(&self) -> usize {
        self.arrived_count.load(Acquire).saturating_add(self.held_count.load(Acquire))
    }

    /// Who receives. May sleep; nobody else receives meanwhile.
    pub fn receive(&self) -> Receiver<'_> {
        Receiver { queue: self, held: self.held.lock() }
    }

    /// From now on nothing comes.
    pub fn close(&self) {
        self.arrived.lock().closed = true;
    }

    /// Takes everything out, of a closed socket, and gives it to `heap`. Gives way.
    pub fn drain(&self, socket: &Arc<Socket>, heap: &mut Heap) {
        let mut receiver = self.receive();
        for step in 1usize.. {
            let Some(message) = receiver.pop() else { break };
            heap.take(*message, socket);
            if step.is_multiple_of(TURN) {
                let _ = give_way();
            }
        }
    }

    /// What has arrived, the oldest first, and how many that is. They count as held from now on, beside the `len` that were.
    #[inline]
    fn take_arrived(&self, len: usize, order: &mut Locked<'_, level::SocketReceive>) -> (Chain, usize) {
        if self.arrived_count.load(Acquire) == 0 {
            return (Chain::new(), len);
        }
        let (newest, len) = {
            let mut arrived = self.arrived.lock_in(order);
            let len = len.saturating_add(arrived.len);
            self.held_count.store(len, Release);
            self.arrived_count.store(0, Release);
            arrived.len = 0;
            (core::mem::replace(&mut arrived.newest, Chain::new()), len)
        };
        // Mostly it is one.
        let is_one = newest.0.as_ref().is_none_or(|message| message.next.is_none());
        (if is_one { newest } else { newest.turned_round() }, len)
    }
}

/// The lock of who receives.
pub struct Receiver<'a> {
    queue: &'a Queue,
    held: MutexGuard<'a, Held, level::SocketReceive>,
}

impl Receiver<'_> {
    /// Takes what has arrived, if nothing is held.
    #[inline]
    fn fetch(&mut self) {
        if self.held.oldest.0.is_some() {
            return;
        }
        let (held, order) = self.held.split();
        (held.oldest, held.len) = self.queue.take_arrived(0, order);
    }

    /// Shows all that is there to `look`, the oldest first, until that says that it has seen enough (false). Gives way.
    ///
    /// # Errors
    /// Those of `look`. EINTR: a fatal signal.
    pub fn look_through(&mut self, look: impl FnMut(&mut Message) -> Result<bool>) -> Result {
        self.walk(true, look)
    }

    /// Shows all that is there to `look`, whatever signals come. Gives way.
    pub fn for_each(&mut self, mut look: impl FnMut(&mut Message)) {
        let _ = self.walk(false, |message| {
            look(message);
            Ok(true)
        });
    }

    fn walk(&mut self, ends_early: bool, mut look: impl FnMut(&mut Message) -> Result<bool>) -> Result {
        let (held, order) = self.held.split();
        let Held { oldest, len } = held;
        let mut at = &mut oldest.0;
        for step in 1usize.. {
            if at.is_none() {
                // The end of what is held: what has arrived meanwhile follows.
                let mut newer;
                (newer, *len) = self.queue.take_arrived(*len, order);
                *at = newer.0.take();
            }
            let Some(message) = at else { break };
            if !look(message)? {
                break;
            }
            if step.is_multiple_of(TURN) && give_way() && ends_early {
                return Err(EINTR);
            }
            at = &mut message.next;
        }
        Ok(())
    }

    /// The first message.
    #[inline]
    pub fn front(&mut self) -> Option<&mut Message> {
        self.fetch();
        self.held.oldest.0.as_deref_mut()
    }

    /// Takes the first message out.
    #[inline]
    pub fn pop(&mut self) -> Option<Box<Message>> {
        self.fetch();
        let message = self.held.oldest.take_first()?;
        self.held.len = self.held.len.saturating_sub(1);
        self.queue.held_count.store(self.held.len, Release);
        Some(message)
    }

    /// SIOCINQ: bytes of a stream, or of the first message. Gives way.
    ///
    /// # Errors
    /// EINTR: a fatal signal.
    pub fn bytes(&mut self, kind: Kind) -> Result<usize> {
        if kind == Kind::Datagram {
            return Ok(self.front().map_or(0, |message| message.left()));
        }
        let mut sum = 0usize;
        self.look_through(|message| {
            sum = sum.saturating_add(message.left());
            Ok(true)
        })?;
        Ok(sum)
    }
}
