//! Sending and receiving of messages: datagrams, to a name or to the peer that connect chose, and SOCK_SEQPACKET.
//!
//! A queue takes as many datagrams as net.unix.max_dgram_qlen says, and one more; of a peer that sends back, as many as its buffer holds.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;

use super::address::{self, Address};
use super::message::{self, Message};
use super::rights::{Heap, Rights};
use super::stream::{Incoming, Outgoing};
use super::{Kind, NO_RECEIVE, Phase, Socket, Turn, Wait};
use crate::errno::*;
use crate::fs::file::buffer::{Input, Output};

/// What Linux needs of the buffer for itself.
const RESERVED: usize = 32;

impl Socket {
    /// Sends all of `from` as one message, to `name` or to the peer.
    ///
    /// # Errors
    /// ENOTCONN, ECONNREFUSED, EPERM: the other end listens to another; EMSGSIZE, ENOBUFS, EPIPE, EAGAIN; those of the name; EFAULT, ENOMEM,
    /// ETOOMANYREFS; a signal.
    pub fn send_message_to(
        self: &Arc<Socket>,
        name: Option<&Address>,
        from: &mut Input<'_>,
        with: Outgoing,
        wait: &Wait<'_>,
    ) -> Result<usize> {
        let mut name = name;
        if self.kind == Kind::SeqPacket {
            self.take_error()?;
            if self.phase() != Phase::Connected {
                return Err(ENOTCONN);
            }
            name = None;
        }
        if name.is_none() && self.peer(&sync::rcu::read()).is_none() {
            return Err(ENOTCONN);
        }
        self.name_for_credentials()?;
        let len = from.left();
        if len > self.options.send_buffer().saturating_sub(RESERVED) {
            return Err(EMSGSIZE);
        }
        self.wait_to_send(wait)?;
        if message::is_too_long(len) {
            return Err(ENOBUFS);
        }
        let mut message = Message::try_new(len, message::datagram_size(len), from)?;
        message.sender = with.sender;
        message.from = Some(self.clone());
        let (mut message, mut rights) = (Some(message), with.rights);
        let mut turn: Option<Turn> = None;
        loop {
            let other = match name {
                Some(name) => address::find(self.kind, name)?,
                None => self.peer_counted().ok_or(ECONNRESET)?,
            };
            let sent = self.try_send(&other, &mut message, &mut rights);
            drop(turn.take());
            match sent {
                Err(ECONNREFUSED) if self.kind == Kind::SeqPacket => return Err(EPIPE),
                Err(ECONNREFUSED) if self.is_peer(&other) => {
                    self.disconnect_from_dead(&other);
                    return Err(ECONNREFUSED);
                }
                // It was just closed: another may have the name.
                Err(ECONNREFUSED) if name.is_some() => {}
                Err(EAGAIN) if wait.may_wait() => {
                    let may_go_on = || !other.is_crowded() || other.is_dead() || other.may_not(NO_RECEIVE);
                    wait.alone(&other.room, || may_go_on().then_some(()))?;
                    turn = Some(Turn(other));
                }
                Ok(()) => return Ok(len),
                Err(error) => return Err(error),
            }
            if crate::sched::give_way() {
                return Err(EINTR);
            }
        }
    }

    /// Has it as many messages as it takes?
    pub(super) fn is_crowded(&self) -> bool {
        self.queue.count() > self.backlog.load(Relaxed) as usize
    }

    /// Does it take any number of messages of `from`?
    fn takes_all_of(&self, from: &Socket) -> bool {
        core::ptr::eq(self, from) || self.is_peer(from)
    }

    /// ECONNREFUSED: `other` is closed.
    fn try_send(
        self: &Arc<Socket>,
        other: &Arc<Socket>,
        message: &mut Option<Box<Message>>,
        rights: &mut Option<Box<Rights>>,
    ) -> Result {
        // Whoever is connected hears its peer alone.
        if other.peer(&sync::rcu::read()).is_some_and(|peer| !core::ptr::eq(peer, &**self)) {
            return Err(EPERM);
        }
        if other.is_dead() {
            return Err(ECONNREFUSED);
        }
        if other.may_not(NO_RECEIVE) {
            return Err(EPIPE);
        }
        let (all, most) = (other.takes_all_of(self), other.backlog.load(Relaxed) as usize);
        let may = |n: usize| all || n <= most;
        if rights.is_some() {
            return other.receive_with_rights(self, message, rights, may);
        }
        if let Some(message) = message.as_deref_mut() {
            other.note_sender(self, message);
        }
        let size = message.as_ref().map_or(0, |message| message.size);
        self.count_sent(size);
        match other.queue.push(message, may) {
            Ok(()) => {
                other.readable.wake_for_io_and_give_way();
                Ok(())
            }
            Err(error) => {
                self.count_received(size);
                Err(error)
            }
        }
    }

    /// The peer of a datagram socket was closed.
    fn disconnect_from_dead(&self, other: &Socket) {
        let _changing = self.state.lock();
        if self.is_peer(other) {
            self.peer.take();
            self.set_phase(Phase::Unconnected);
        }
    }

    /// connect(2) of a datagram socket: where to send, and whom to hear. None: nobody in particular.
    ///
    /// # Errors
    /// EPERM: the other is connected to another; those of the name.
    pub fn connect_datagram(self: &Arc<Socket>, name: Option<&Address>) -> Result {
        let Some(name) = name else {
            let old = {
                let _changing = self.state.lock();
                self.set_phase(Phase::Unconnected);
                self.peer.take()
            };
            if let Some(old) = old {
                self.forget_peer(&old);
            }
            return Ok(());
        };
        self.name_for_credentials()?;
        let other = address::find(self.kind, name)?;
        if other.peer(&sync::rcu::read()).is_some_and(|peer| !core::ptr::eq(peer, &**self)) {
            return Err(EPERM);
        }
        let old = {
            let _changing = self.state.lock();
            self.set_phase(Phase::Connected);
            self.peer.replace(Some(other.clone()))
        };
        other.phase.store(Phase::Connected as u8, Release);
        if let Some(old) = old
            && !Arc::ptr_eq(&old, &other)
        {
            self.forget_peer(&old);
        }
        self.writable.wake();
        Ok(())
    }

    /// It is connected to `old` no more: what it has not received is lost, and `old` is told if it sends here.
    fn forget_peer(self: &Arc<Socket>, old: &Socket) {
        self.look_no_more();
        let mut heap = Heap::new();
        let had_some = self.queue.has_some();
        self.queue.drain(self, &mut heap);
        drop(heap);
        if had_some {
            self.tell_of_room(true);
        }
        if !old.is_dead() && old.is_peer(self) {
            old.set_error(ECONNRESET);
            old.wake_all();
        }
    }

    /// One message was taken out, or all. The caller has given back the sleeping lock under which it did so, and holds no spinning one. Gives way.
    fn tell_of_room(&self, all: bool) {
        if all {
            self.room.wake_and_give_way();
        } else {
            self.room.wake_one_after_unlock();
        }
        self.lookers.tell();
    }

    /// Does poll say that messages can be sent? If the peer's queue is full, this socket is told when it is not.
    pub(super) fn may_send_messages(self: &Arc<Socket>) -> bool {
        if !self.may_send_more() {
            return false;
        }
        let Some(other) = self.peer_counted().filter(|other| !other.takes_all_of(self)) else { return true };
        if !other.is_crowded() {
            return true;
        }
        // Without memory to be told it may try at once; and it may have become empty, or closed, just now.
        self.look_at(&other).is_err() || !other.is_crowded() || other.is_dead()
    }

    /// Receives one message. What does not fit is lost.
    ///
    /// # Errors
    /// ENOTCONN: SOCK_SEQPACKET without a peer. EAGAIN, EFAULT, the error that waits, a signal.
    pub fn receive_message(
        &self,
        out: &mut Output<'_>,
        peek: bool,
        wait: &Wait<'_>,
    ) -> Result<(Received, Incoming)> {
        if self.kind == Kind::SeqPacket && self.phase() != Phase::Connected {
            return Err(ENOTCONN);
        }
        loop {
            self.take_error()?;
            let ended = self.may_not(NO_RECEIVE);
            let found = if peek { self.peek_message(out)? } else { self.take_message(out)? };
            if let Some(found) = found {
                return if out.faulted() { Err(EFAULT) } else { Ok(found) };
            }
            if ended && (wait.may_wait() || self.kind == Kind::SeqPacket) {
                return Ok((Received::default(), Incoming::default()));
            }
            let has_error = || self.error.load(Acquire) != 0;
            wait.on(&self.readable, || {
                (self.queue.has_some() || self.may_not(NO_RECEIVE) || has_error()).then_some(())
            })?;
        }
    }

    fn take_message(&self, out: &mut Output<'_>) -> Result<Option<(Received, Incoming)>> {
        let Some(mut message) = self.queue.receive().pop() else { return Ok(None) };
        self.options.peeked_back(message.len);
        self.tell_of_room(false);
        let n = message.put(0, out);
        let mut got = self.told(&message);
        got.truncated = n < message.len;
        let received = Received { copied: n, len: message.len };
        let mut heap = Heap::new();
        if let Some(mut rights) = message.rights.take() {
            if rights.end_flight() && !out.faulted() {
                got.rights = Some(rights);
            } else {
                heap.put(rights);
            }
        }
        heap.take(*message, self);
        Ok(Some((received, got)))
    }

    fn peek_message(&self, out: &mut Output<'_>) -> Result<Option<(Received, Incoming)>> {
        let (mut found, mut skip) = (None, self.options.peek_at());
        self.queue.receive().look_through(|message| {
            if skip > 0 && skip >= message.len {
                skip = skip.saturating_sub(message.len);
                return Ok(true);
            }
            let n = message.put(skip, out);
            self.options.peeked(n);
            let mut got = self.told(message);
            got.truncated = n < message.len.saturating_sub(skip);
            got.rights = message.rights.as_ref().map(|rights| rights.copy()).transpose()?;
            found = Some((Received { copied: n, len: message.len.saturating_sub(skip) }, got));
            Ok(false)
        })?;
        Ok(found)
    }

    fn told(&self, message: &Message) -> Incoming {
        let from = message.from.as_ref().and_then(|from| from.name());
        Incoming { sender: message.sender, from, ..Incoming::default() }
    }
}

/// How much was received, and how long the message is.
#[derive(Default)]
pub struct Received {
    pub copied: usize,
    pub len: usize,
}
