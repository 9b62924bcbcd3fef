//! Sending and receiving of streams. A send makes pieces of at most 36,544 bytes, as Linux does; a receive takes bytes out of as many as it likes, but not
//! across a piece with files, and where it tells who sent not across two senders.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::message::{self, Message, Sender};
use super::queue::Receiver;
use super::rights::{Heap, Rights};
use super::{NO_RECEIVE, NO_SEND, Phase, Socket, Wait};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::buffer::{Input, Output};
use crate::sched::give_way;

/// What goes with the bytes of one call.
#[derive(Default)]
pub struct Outgoing {
    pub rights: Option<Box<Rights>>,
    /// The credentials that the program gave.
    pub sender: Option<Sender>,
    /// MSG_NOSIGNAL.
    pub no_signal: bool,
}

/// What a receive gives beside bytes.
#[derive(Default)]
pub struct Incoming {
    pub rights: Option<Box<Rights>>,
    pub sender: Option<Sender>,
    /// Whose name is told.
    pub from: Option<Arc<super::address::Address>>,
    /// A message was longer than the buffer: its length.
    pub truncated: bool,
}

impl Socket {
    /// Sends bytes to the peer.
    ///
    /// # Errors
    /// ENOTCONN; EPIPE, with SIGPIPE; EAGAIN, EFAULT, ENOMEM, ETOOMANYREFS, a signal. Not if a part was sent.
    pub fn send_stream(&self, from: &mut Input<'_>, mut with: Outgoing, wait: &Wait<'_>) -> Result<usize> {
        if self.phase() != Phase::Connected {
            return Err(ENOTCONN);
        }
        let mut done = 0usize;
        let error = loop {
            if done == 0 && self.may_not(NO_SEND) {
                break EPIPE;
            }
            if from.left() == 0 {
                return Ok(done);
            }
            let most = (self.options.send_buffer() / 2).saturating_sub(64).min(message::PIECE_MAX);
            let len = from.left().min(most.max(1));
            match self.send_piece(len, from, &mut with, wait) {
                Ok(()) => done = done.saturating_add(len),
                Err(error) => break error,
            }
            // Who receives meanwhile makes it go on as long as the program likes.
            if from.left() > 0 && give_way() {
                break EINTR;
            }
        };
        if error == EPIPE && done == 0 && !with.no_signal {
            caller::signal_pipe();
        }
        if done > 0 { Ok(done) } else { Err(error) }
    }

    fn send_piece(&self, len: usize, from: &mut Input<'_>, with: &mut Outgoing, wait: &Wait<'_>) -> Result {
        self.wait_to_send(wait)?;
        let mut message = Message::try_new(len, message::stream_size(len), from)?;
        message.sender = with.sender;
        self.send_message(message, &mut with.rights, |_| true)
    }

    /// Waits until less is under way than the buffer takes.
    ///
    /// # Errors
    /// The error that waits; EPIPE; EAGAIN, a signal.
    pub(super) fn wait_to_send(&self, wait: &Wait<'_>) -> Result {
        use core::sync::atomic::Ordering::Acquire;
        loop {
            self.take_error()?;
            if self.may_not(NO_SEND) {
                return Err(EPIPE);
            }
            let has_room = || self.sent.load(Acquire) < self.options.send_buffer();
            if has_room() {
                return Ok(());
            }
            let has_error = || self.error.load(Acquire) != 0;
            wait.on(&self.writable, || (has_room() || self.may_not(NO_SEND) || has_error()).then_some(()))?;
        }
    }

    /// Puts a message into the peer's queue, with the rights if they are still to be sent.
    fn send_message(
        &self,
        mut message: Box<Message>,
        rights: &mut Option<Box<Rights>>,
        may: impl Fn(usize) -> bool,
    ) -> Result {
        if rights.is_some() {
            let peer = self.peer_counted().ok_or(EPIPE)?;
            let sent = peer.receive_with_rights(self, &mut Some(message), rights, may);
            return sent
                .map_err(|error| if error == ECONNREFUSED || error == EAGAIN { EPIPE } else { error });
        }
        let size = message.size;
        {
            let read = sync::rcu::read();
            let peer = self.peer(&read).ok_or(EPIPE)?;
            peer.note_sender(self, &mut message);
            self.count_sent(size);
            let pushed = peer.queue.push(&mut Some(message), |n| !peer.may_not(NO_RECEIVE) && may(n));
            if pushed.is_err() {
                self.count_received(size);
                return Err(EPIPE);
            }
            peer.readable.wake_for_io();
        }
        Ok(())
    }

    /// As `send_message`, by `from`, for what has files with it. May sleep.
    ///
    /// # Errors
    /// ECONNREFUSED: it is closed; EAGAIN: `may` says no; ENOMEM or ETOOMANYREFS, of the rights. Message and rights are the caller's then.
    pub(super) fn receive_with_rights(
        self: &Arc<Socket>,
        from: &Socket,
        message: &mut Option<Box<Message>>,
        rights: &mut Option<Box<Rights>>,
        may: impl Fn(usize) -> bool,
    ) -> Result {
        if let Some(files) = rights {
            files.charge().and_then(|()| files.begin_flight(self))?;
        }
        let size = message.as_ref().map_or(0, |message| message.size);
        if let Some(message) = message.as_deref_mut() {
            message.rights = rights.take();
            self.note_sender(from, message);
        }
        from.count_sent(size);
        let pushed = self.queue.push(message, |n| !self.may_not(NO_RECEIVE) && may(n));
        let Err(error) = pushed else {
            self.readable.wake_for_io_and_give_way();
            return Ok(());
        };
        from.count_received(size);
        // Whoever tries again has them.
        *rights = message.as_mut().and_then(|message| message.rights.take());
        if let Some(files) = rights {
            let _ = files.end_flight();
        }
        Err(error)
    }

    /// Says who sends, if either side wants to know it, or nobody has accepted the socket yet.
    pub(super) fn note_sender(&self, from: &Socket, message: &mut Message) {
        if message.sender.is_none()
            && (from.options.wants_credentials() || self.number() == 0 || self.options.wants_credentials())
        {
            message.sender = Some(Sender::current());
        }
    }

    /// Receives bytes: at least one, or with `all` as many as fit. `peek`: they stay.
    ///
    /// # Errors
    /// EINVAL: it is not connected. EAGAIN, EFAULT, the error that waits, a signal; not if bytes were received.
    pub fn receive_stream(
        &self,
        out: &mut Output<'_>,
        (peek, all): (bool, bool),
        wait: &Wait<'_>,
        tells_sender: bool,
    ) -> Result<(usize, Incoming)> {
        if self.phase() != Phase::Connected {
            return Err(EINVAL);
        }
        let target = if all { out.left() } else { self.options.low_mark().min(out.left()) }.max(1);
        let (mut done, mut got, mut first) = (0usize, Incoming::default(), true);
        let tells = tells_sender || self.options.wants_credentials();
        // Dropped when nothing is locked.
        let mut heap = Heap::new();
        loop {
            let mut receiver = self.queue.receive();
            // Before the queue: what was sent before the end is there then.
            let ended = self.may_not(NO_RECEIVE);
            let part = if peek {
                self.peek(&mut receiver, out, &mut got)
            } else {
                self.take(&mut receiver, out, (&mut got, &mut heap), tells, &mut first)
            };
            let (n, more) = part?;
            done = done.saturating_add(n);
            drop(receiver);
            if out.faulted() {
                return if done > 0 { Ok((done, got)) } else { Err(EFAULT) };
            }
            if !more || peek && n > 0 || done >= target {
                return Ok((done, got));
            }
            if let Err(error) = self.take_error() {
                return if done > 0 { Ok((done, got)) } else { Err(error) };
            }
            if ended {
                return Ok((done, got));
            }
            let has_error = || self.error.load(core::sync::atomic::Ordering::Acquire) != 0;
            let woken = wait.on(&self.readable, || {
                (self.queue.has_some() || self.may_not(NO_RECEIVE) || has_error()).then_some(())
            });
            if let Err(error) = woken {
                return if done > 0 { Ok((done, got)) } else { Err(error) };
            }
        }
    }

    /// Takes what there is. The bytes, and whether the call may wait for more.
    fn take(
        &self,
        receiver: &mut Receiver<'_>,
        out: &mut Output<'_>,
        (got, heap): (&mut Incoming, &mut Heap),
        tells: bool,
        first: &mut bool,
    ) -> Result<(usize, bool)> {
        let (mut done, mut freed) = (0usize, 0usize);
        let more = loop {
            let Some(message) = receiver.front() else { break true };
            if tells {
                if *first {
                    got.sender = message.sender;
                } else if got.sender != message.sender {
                    break false;
                }
            }
            *first = false;
            let n = message.put(message.consumed, out);
            if n == 0 && message.left() > 0 || out.faulted() {
                // No room, or a fault.
                break false;
            }
            message.consumed = message.consumed.saturating_add(n);
            done = done.saturating_add(n);
            let rights = message.rights.take();
            let has_rights = rights.is_some();
            let ends = message.left() == 0;
            if ends && let Some(message) = receiver.pop() {
                freed = freed.saturating_add(message.size);
            }
            if let Some(mut rights) = rights {
                if rights.end_flight() {
                    got.rights = Some(rights);
                } else {
                    heap.put(rights);
                }
            }
            if !ends || has_rights || out.left() == 0 || give_way() {
                break false;
            }
        };
        self.options.peeked_back(done);
        if freed > 0
            && let Some(peer) = self.peer(&sync::rcu::read())
        {
            peer.count_received(freed);
        }
        Ok((done, more))
    }

    /// Looks at what there is. As `take`.
    fn peek(
        &self,
        receiver: &mut Receiver<'_>,
        out: &mut Output<'_>,
        got: &mut Incoming,
    ) -> Result<(usize, bool)> {
        let (mut done, mut skip, mut first) = (0usize, self.options.peek_at(), true);
        receiver.look_through(|message| {
            if skip >= message.left() {
                skip = skip.saturating_sub(message.left());
                return Ok(true);
            }
            if first {
                got.sender = message.sender;
            } else if got.sender != message.sender && self.options.wants_credentials() {
                return Ok(false);
            }
            first = false;
            let n = message.put(message.consumed.saturating_add(skip), out);
            skip = 0;
            done = done.saturating_add(n);
            if n > 0 {
                self.options.peeked(n);
            }
            if let Some(rights) = &message.rights {
                if n > 0 {
                    got.rights = Some(rights.copy()?);
                }
                return Ok(false);
            }
            Ok(out.left() > 0)
        })?;
        Ok((done, first))
    }
}
