//! How two sockets come together: socketpair, and for streams and SOCK_SEQPACKET listen, connect and accept.
//!
//! Who connects makes the other end itself and puts it among those that wait for accept; it can send at once. What is between two who connect one
//! socket, and between connect and a close of the listener, the listener's `state` decides.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering::*;

use super::address::{self, Address};
use super::{Kind, NO_RECEIVE, Phase, Socket, Turn, Wait};
use crate::account::limits;
use crate::errno::*;
use crate::fs::caller;

/// Two sockets that are connected to each other.
///
/// # Errors
/// ENOMEM.
pub fn pair(kind: Kind) -> Result<(Arc<Socket>, Arc<Socket>)> {
    let whose = caller::identity();
    let first = Socket::try_new_for(kind, Some(whose.clone()))?;
    let second = Socket::try_new_for(kind, Some(whose)).inspect_err(|_| first.release())?;
    for (one, other) in [(&first, &second), (&second, &first)] {
        one.peer.swap(Some(other.clone()));
        one.set_phase(Phase::Connected);
    }
    Ok((first, second))
}

impl Socket {
    /// listen(2).
    ///
    /// # Errors
    /// EOPNOTSUPP: of datagrams; EINVAL: it has no name, or is connected.
    pub fn listen(&self, backlog: i32) -> Result {
        if !self.kind.is_connected() {
            return Err(EOPNOTSUPP);
        }
        let most = u32::try_from(limits::SOMAXCONN.get()).unwrap_or(u32::MAX);
        let backlog = backlog.cast_unsigned().min(most);
        let state = self.state.lock();
        if state.name.is_none() || self.phase() == Phase::Connected {
            return Err(EINVAL);
        }
        let grows = backlog > self.backlog.swap(backlog, Relaxed);
        self.set_phase(Phase::Listening);
        drop(state);
        let whose = caller::identity();
        *self.peer_identity.lock() = Some(whose.clone());
        *self.identity.lock() = Some(whose);
        if grows {
            self.room.wake();
        }
        Ok(())
    }

    /// connect(2) of a stream, or of SOCK_SEQPACKET. Waits while too many wait to be accepted.
    ///
    /// # Errors
    /// ECONNREFUSED: nobody listens. EAGAIN: too many wait. EISCONN, EINVAL: it is connected already, or listens. Those of the name.
    pub fn connect(self: &Arc<Socket>, name: &Address, wait: &Wait<'_>) -> Result {
        self.name_for_credentials()?;
        let end = Socket::try_new_for(self.kind, Some(caller::identity()))?;
        let connected = self.connect_with(&end, name, wait);
        if connected.is_err() {
            // Nobody has seen it.
            end.peer.take();
            end.release();
        }
        connected
    }

    fn connect_with(self: &Arc<Socket>, end: &Arc<Socket>, name: &Address, wait: &Wait<'_>) -> Result {
        let mut turn: Option<Turn> = None;
        loop {
            let listener = address::find(self.kind, name)?;
            let connected = self.try_connect(end, &listener);
            drop(turn.take());
            match connected {
                // It is just being closed: another may have the name.
                Err(ESTALE) => {}
                Err(EAGAIN) if wait.may_wait() => {
                    wait.alone(&listener.room, || {
                        (!listener.is_full() || !listener.is_listening()).then_some(())
                    })?;
                    turn = Some(Turn(listener));
                }
                result => return result,
            }
            if crate::sched::give_way() {
                return Err(EINTR);
            }
        }
    }

    /// Do as many wait to be accepted as may?
    fn is_full(&self) -> bool {
        self.waiting.load(Acquire) > self.backlog.load(Relaxed)
    }

    /// Is there a place for one more who waits for it?
    pub(super) fn has_room(&self) -> bool {
        if self.kind.is_connected() { !self.is_full() } else { !self.is_crowded() }
    }

    fn try_connect(self: &Arc<Socket>, end: &Arc<Socket>, listener: &Arc<Socket>) -> Result {
        let mut state = listener.state.lock();
        if listener.is_dead() {
            return Err(ESTALE);
        }
        if !listener.is_listening() || listener.may_not(NO_RECEIVE) {
            return Err(ECONNREFUSED);
        }
        if state.waiting.len() > listener.backlog.load(Relaxed) as usize {
            return Err(EAGAIN);
        }
        state.waiting.try_reserve(1).map_err(|_| ENOMEM)?;
        // The first of two threads that connect the socket does.
        let first =
            self.phase.compare_exchange(Phase::Unconnected as u8, Phase::Connected as u8, AcqRel, Acquire);
        if let Err(phase) = first {
            return Err(if phase == Phase::Connected as u8 { EISCONN } else { EINVAL });
        }
        end.peer.swap(Some(self.clone()));
        end.set_phase(Phase::Connected);
        // One at a time: they are of one class.
        let listens = listener.identity.lock().clone();
        {
            // Nobody else has it yet.
            let mut new = end.state.lock_nested();
            new.name = state.name.clone();
            new.listener = Arc::downgrade(listener);
        }
        *self.peer_identity.lock() = listens;
        self.peer.swap(Some(end.clone()));
        state.waiting.push_back(end.clone());
        listener.waiting.store(u32::try_from(state.waiting.len()).unwrap_or(u32::MAX), Release);
        drop(state);
        listener.readable.wake_one_for_io_and_give_way();
        // Who waits to send or to be connected looks again.
        self.writable.wake();
        Ok(())
    }

    /// accept(2).
    ///
    /// # Errors
    /// EOPNOTSUPP: of datagrams; EINVAL: it does not listen. EAGAIN, a signal.
    pub fn accept(&self, wait: &Wait<'_>) -> Result<Arc<Socket>> {
        if !self.kind.is_connected() {
            return Err(EOPNOTSUPP);
        }
        if !self.is_listening() {
            return Err(EINVAL);
        }
        loop {
            self.take_error()?;
            let ended = self.may_not(NO_RECEIVE);
            let taken = {
                let mut state = self.state.lock();
                let taken = state.waiting.pop_front();
                if let Some(end) = &taken {
                    // From now on it is received from by itself (`collect`).
                    end.state.lock_nested().listener = Weak::new();
                }
                self.waiting.store(u32::try_from(state.waiting.len()).unwrap_or(u32::MAX), Release);
                taken
            };
            if let Some(end) = taken {
                if self.waiting.load(Relaxed) > 0 {
                    self.readable.wake_next();
                }
                self.room.wake_next();
                return Ok(end);
            }
            if ended {
                return Err(EINVAL);
            }
            wait.alone(&self.readable, || {
                (self.waiting.load(Acquire) > 0 || self.may_not(NO_RECEIVE) || !self.is_listening())
                    .then_some(())
            })?;
            if !self.is_listening() {
                return Err(EINVAL);
            }
        }
    }

    /// A socket that tells or is told who sends needs a name before it does.
    pub(super) fn name_for_credentials(self: &Arc<Socket>) -> Result {
        if self.options.wants_credentials() && self.name().is_none() { self.bind_to_any() } else { Ok(()) }
    }

    /// Descriptors refer to `file` from now on, whose inode has `number`.
    pub(super) fn is_opened(&self, file: &Arc<crate::fs::file::File>, number: u64) {
        let mut state = self.state.lock();
        state.file = Arc::downgrade(file);
        state.listener = Weak::new();
        self.number.store(number as usize, Relaxed);
    }
}
