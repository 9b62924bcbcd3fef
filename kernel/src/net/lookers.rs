//! Sockets that look by poll or epoll whether there is room in the queue of another, their peer, and are told once when there is.
//!
//! ```text
//!   who looks                             who receives
//!   enters (`Lookers::enter`)             takes a message out
//!   --- presence.enter ---                --- presence.look ---
//!   looks whether there is room           tells those who have entered (`Lookers::tell`)
//! ```
//!
//! So one sees the other (`sync::protocol::presence`), and who receives with nobody there writes nothing.
//!
//! A program chooses how many look. A socket has entered at one peer at the most, once; it enters and leaves in logarithmic time, and leaves when it
//! turns to another peer or is closed. Those who are told are out, so telling costs each look a bounded amount. It gives way, and goes no further than
//! those who were there when it began, whatever they do on being told.
//!
//! Lock order: `place` → `roster`. None is held while somebody is told.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};

use sync::atomic::fence_after_rmw;
use sync::protocol::presence::{Found, Presence};
use sync::{SpinLock, lock_class};

use super::Socket;
use super::roster::{Entry, Roster};
use crate::errno::Result;
use crate::lock_order as level;
use crate::sched::schedule_if_needed;

lock_class! {
    static ROSTER: LockClass = ("socket lookers", level::SocketLookers);
    static PLACE: LockClass = ("socket looks at", level::SocketLooking);
}

/// Sockets that are told before others may run.
const TURN: u32 = 64;

/// Who looks at a socket.
pub struct Lookers {
    roster: SpinLock<Roster, level::SocketLookers>,
    presence: Presence,
}

impl Lookers {
    pub const fn new() -> Lookers {
        Lookers { roster: SpinLock::new(Roster::new(), &ROSTER), presence: Presence::new() }
    }

    /// The caller looks at the queue afterwards.
    fn enter(&self, socket: &Arc<Socket>) -> Result<u64> {
        let entry = Entry::try_new(socket)?;
        let mut roster = self.roster.lock();
        self.presence.enter();
        Ok(roster.put(entry))
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.roster.lock().after(0).count()
    }

    fn has(&self, number: u64) -> bool {
        self.roster.lock().has(number)
    }

    fn leave(&self, number: u64) {
        let gone = {
            let mut roster = self.roster.lock();
            let gone = roster.remove(number);
            if gone.is_some() {
                self.presence.leave();
            }
            gone
        };
        drop(gone);
    }

    /// Tells all who are there. The caller has made room and has given back the sleeping lock under which it did so; it holds no lock but sleeping ones.
    /// A fatal signal does not end it: those who wait are others'.
    #[inline]
    pub fn tell(&self) {
        fence_after_rmw("presence.look");
        if self.presence.look() != Found::Nobody {
            self.tell_those_there();
        }
    }

    #[cold]
    fn tell_those_there(&self) {
        let last = self.roster.lock().last();
        for step in 1u32.. {
            let next = {
                let mut roster = self.roster.lock();
                let next = roster.take_first(last);
                if next.is_some() {
                    self.presence.leave();
                }
                next
            };
            let Some(next) = next else { break };
            if let Some(socket) = next.socket.upgrade() {
                socket.writable.wake_and_give_way();
            }
            if step.is_multiple_of(TURN) {
                schedule_if_needed();
            }
        }
    }
}

/// Where a socket has entered, and as what number.
pub struct Looking(SpinLock<Option<(Weak<Socket>, u64)>, level::SocketLooking>);

impl Looking {
    pub const fn new() -> Looking {
        Looking(SpinLock::new(None, &PLACE))
    }

    /// It is out of where it was. The caller holds no spinning lock: the other may end here.
    fn leave(was: Option<(Weak<Socket>, u64)>) {
        if let Some((at, number)) = was
            && let Some(other) = at.upgrade()
        {
            other.lookers.leave(number);
        }
    }
}

impl Socket {
    /// From now on it is told when `other` has room; the caller looks whether it has some already.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn look_at(self: &Arc<Socket>, other: &Arc<Socket>) -> Result {
        let was = {
            let mut place = self.looking.0.lock();
            let is_there = |(at, number): &(Weak<Socket>, u64)| {
                core::ptr::eq(at.as_ptr(), Arc::as_ptr(other)) && other.lookers.has(*number)
            };
            // Who closes it empties the place afterwards.
            if self.is_dead() || place.as_ref().is_some_and(is_there) {
                return Ok(());
            }
            place.replace((Arc::downgrade(other), other.lookers.enter(self)?))
        };
        Looking::leave(was);
        Ok(())
    }

    /// It has another peer, or is closed.
    pub(super) fn look_no_more(&self) {
        let was = self.looking.0.lock().take();
        Looking::leave(was);
    }
}
