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
//! The counts beside the lists are written under their locks, so that a sleeper's condition takes none. Who moves messages counts them as held
//! before it counts them as gone, so nobody who looks at `arrived` first misses them.
//!
//! Lock order: `held` → `arrived`.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use sync::{Mutex, MutexGuard, SpinLock, lock_class};

use super::message::Message;
use super::rights::Heap;
use super::{Kind, Socket};
use crate::errno::{EAGAIN, ECONNREFUSED, ENOMEM, Result};
use crate::lock_order as level;

lock_class! {
    static ARRIVED: LockClass = ("socket queue", level::SocketQueue);
    static HELD: LockClass = ("socket receive", level::SocketReceive);
}

type Messages = VecDeque<Box<Message>>;

struct Arrived {
    messages: Messages,
    /// Nothing comes any more.
    closed: bool,
}

pub struct Queue {
    arrived: SpinLock<Arrived, level::SocketQueue>,
    arrived_count: AtomicUsize,
    held: Mutex<Messages, level::SocketReceive>,
    held_count: AtomicUsize,
}

impl Queue {
    pub const fn new() -> Queue {
        let arrived = Arrived { messages: Messages::new(), closed: false };
        Queue {
            arrived: SpinLock::new(arrived, &ARRIVED),
            arrived_count: AtomicUsize::new(0),
            held: Mutex::new(Messages::new(), &HELD),
            held_count: AtomicUsize::new(0),
        }
    }

    /// Puts `message` at the end, if `may` says so with the number of messages that are there. Where it fails, `message` stays the caller's.
    ///
    /// # Errors
    /// ECONNREFUSED: the socket is closed. EAGAIN: `may` says no. ENOMEM.
    pub fn push(&self, message: &mut Option<Box<Message>>, may: impl FnOnce(usize) -> bool) -> Result {
        let mut arrived = self.arrived.lock();
        if arrived.closed {
            return Err(ECONNREFUSED);
        }
        let count = arrived.messages.len();
        if !may(count.saturating_add(self.held_count.load(Relaxed))) {
            return Err(EAGAIN);
        }
        arrived.messages.try_reserve(1).map_err(|_| ENOMEM)?;
        if let Some(message) = message.take() {
            arrived.messages.push_back(message);
        }
        self.arrived_count.store(count.saturating_add(1), Release);
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

    /// Takes everything out, of a closed socket, and gives it to `heap`.
    pub fn drain(&self, socket: &Arc<Socket>, heap: &mut Heap) {
        let mut receiver = self.receive();
        while let Some(message) = receiver.pop() {
            heap.take(*message, socket);
        }
    }
}

/// The lock of who receives.
pub struct Receiver<'a> {
    queue: &'a Queue,
    held: MutexGuard<'a, Messages, level::SocketReceive>,
}

impl Receiver<'_> {
    /// Takes what has arrived, if nothing is held.
    #[inline]
    fn fetch(&mut self) {
        if !self.held.is_empty() || self.queue.arrived_count.load(Acquire) == 0 {
            return;
        }
        let (held, order) = self.held.split();
        let mut arrived = self.queue.arrived.lock_in(order);
        core::mem::swap(held, &mut arrived.messages);
        self.queue.held_count.store(held.len(), Release);
        self.queue.arrived_count.store(0, Release);
    }

    /// All that is there, to be looked at.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn all(&mut self) -> Result<&mut Messages> {
        self.fetch();
        if self.queue.arrived_count.load(Acquire) > 0 {
            let (held, order) = self.held.split();
            let mut arrived = self.queue.arrived.lock_in(order);
            held.try_reserve(arrived.messages.len()).map_err(|_| ENOMEM)?;
            held.append(&mut arrived.messages);
            self.queue.held_count.store(held.len(), Release);
            self.queue.arrived_count.store(0, Release);
        }
        Ok(&mut self.held)
    }

    /// The first message.
    #[inline]
    pub fn front(&mut self) -> Option<&mut Box<Message>> {
        self.fetch();
        self.held.front_mut()
    }

    /// Takes the first message out.
    #[inline]
    pub fn pop(&mut self) -> Option<Box<Message>> {
        self.fetch();
        let message = self.held.pop_front();
        self.queue.held_count.store(self.held.len(), Release);
        message
    }

    /// SIOCINQ: bytes of a stream, or of the first message.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn bytes(&mut self, kind: Kind) -> Result<usize> {
        if kind == Kind::Datagram {
            return Ok(self.front().map_or(0, |message| message.left()));
        }
        Ok(self.all()?.iter().fold(0usize, |sum, message| sum.saturating_add(message.left())))
    }
}
