//! The events of an inotify instance that nobody has read: a list with a bound.
//!
//! An event that is the same as the last one is not queued again. When the bound is reached, or memory is out, one event says that others
//! were lost; it is there from the start, so that it never waits for memory.
//!
//! Each step takes the same time, however long the queue is.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;

use intrusive_collections::{LinkedList, LinkedListAtomicLink, intrusive_adapter};
use sync::{AllocError, slab_box};

use super::events::{IGNORED, Q_OVERFLOW};
use crate::account::Charge;
use crate::fs::vfs::dentry::Name;

/// Bytes of `struct inotify_event` without a name.
pub const HEADER: usize = 16;

/// What happened.
#[derive(Clone)]
pub struct Event {
    pub watch: i32,
    pub mask: u32,
    /// Tells which two events are of one rename; 0 for all others.
    pub cookie: u32,
    pub name: Option<Arc<Name>>,
}

impl Event {
    /// What it says when others were lost.
    pub const LOST: Event = Event { watch: -1, mask: Q_OVERFLOW, cookie: 0, name: None };

    pub fn name(&self) -> &[u8] {
        self.name.as_ref().map_or(&[], |name| &name.bytes)
    }

    /// Bytes of its name for a program: with a NUL at least, and a multiple of the header's.
    #[expect(clippy::arithmetic_side_effects, reason = "a name has 255 bytes at the most")]
    pub fn name_len(&self) -> usize {
        match self.name().len() {
            0 => 0,
            len => (len + 1).next_multiple_of(HEADER),
        }
    }

    /// Bytes of it for a program.
    #[expect(clippy::arithmetic_side_effects, reason = "a name has 255 bytes at the most")]
    pub fn len(&self) -> usize {
        HEADER + self.name_len()
    }

    /// Does `next`, which happens right after it, say nothing new? The cookie is not looked at, as on Linux.
    fn says(&self, next: &Event) -> bool {
        self.mask & IGNORED == 0
            && (self.mask, self.watch) == (next.mask, next.watch)
            && self.name() == next.name()
    }
}

/// An event with its place in a queue.
pub struct Queued {
    pub event: Event,
    link: LinkedListAtomicLink,
}

vm::slab_type!(Queued, "inotify-event", Box);

intrusive_adapter!(InQueue = Box<Queued>: Queued { link => LinkedListAtomicLink });

impl Queued {
    pub fn try_new(event: Event) -> Result<Box<Queued>, AllocError> {
        slab_box(Queued { event, link: LinkedListAtomicLink::new() })
    }
}

/// What became of an event.
#[derive(PartialEq, Eq, Debug)]
pub enum Put {
    /// There is more to read.
    Queued,
    /// The last event said the same, or that events are lost is said already.
    Nothing,
}

/// The first event of a queue, for one who has room for so many bytes.
pub enum Taken {
    Event(Box<Queued>),
    /// `Event::LOST`.
    Lost,
    /// It does not fit.
    NoRoom,
    Empty,
}

pub struct Queue {
    /// Taken by `close`, before which no queue is dropped that has been put into: so there is nothing to drop.
    list: ManuallyDrop<LinkedList<InQueue>>,
    len: usize,
    /// What a program would read now.
    bytes: usize,
    most: usize,
    /// The event that says that others were lost, while it is not in the list.
    lost: Option<Box<Queued>>,
    /// Nobody will read any more.
    closed: bool,
    /// Counts the events for the user: as many as there were at once since the queue was empty, about.
    charge: Charge,
    /// Counts the instance, until it is closed.
    instance: Option<Charge>,
}

/// Events that are counted for the user at once.
const COUNTED: u64 = 64;

impl Queue {
    /// A queue for `most` events, which are counted in `charge`, of the instance that `instance` counts.
    pub fn try_new(most: usize, charge: Charge, instance: Option<Charge>) -> Result<Queue, AllocError> {
        let lost = Some(Queued::try_new(Event::LOST)?);
        let list = ManuallyDrop::new(LinkedList::new(InQueue::NEW));
        Ok(Queue { list, len: 0, bytes: 0, most, lost, closed: false, charge, instance })
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// What a program would read now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Does the last event say what `event` says?
    pub fn ends_with(&self, event: &Event) -> bool {
        self.list.back().get().is_some_and(|last| last.event.says(event))
    }

    /// Puts an event at the end; None: there was no memory for it. One that is not queued stays in its place, for the caller to drop.
    pub fn put(&mut self, event: &mut Option<Box<Queued>>) -> Put {
        if self.closed {
            return Put::Nothing;
        }
        let full = self.len >= self.most;
        match event.take_if(|_| !full) {
            Some(new) if self.ends_with(&new.event) => {
                *event = Some(new);
                Put::Nothing
            }
            Some(new) => self.push(new),
            None => match self.lost.take() {
                Some(lost) => self.push(lost),
                None => Put::Nothing,
            },
        }
    }

    fn push(&mut self, new: Box<Queued>) -> Put {
        self.len = self.len.saturating_add(1);
        self.bytes = self.bytes.saturating_add(new.event.len());
        self.list.push_back(new);
        if self.len as u64 > self.charge.n() {
            // Without memory for a count it is not counted.
            let _ = self.charge.set(self.charge.n().saturating_add(COUNTED), sync::quota::UNLIMITED);
        }
        Put::Queued
    }

    /// Takes the first event, if it fits into `room` bytes.
    pub fn take(&mut self, room: usize) -> Taken {
        match self.list.front().get() {
            None => return Taken::Empty,
            Some(first) if first.event.len() > room => return Taken::NoRoom,
            Some(_) => {}
        }
        let Some(first) = self.list.pop_front() else { return Taken::Empty };
        self.len = self.len.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(first.event.len());
        if self.len == 0 && self.charge.n() != 0 {
            // To make it less never fails.
            let _ = self.charge.set(0, sync::quota::UNLIMITED);
        }
        if first.event.mask & Q_OVERFLOW == 0 {
            return Taken::Event(first);
        }
        // It stays for the next time.
        self.lost = Some(first);
        Taken::Lost
    }

    /// Nobody will read any more: from now on nothing is queued, and what was is the caller's to drop.
    pub fn close(&mut self) -> Rest {
        self.closed = true;
        (self.len, self.bytes) = (0, 0);
        Rest { events: self.list.take(), _instance: self.instance.take() }
    }
}

/// Events that nobody has read, and what counted their instance.
pub struct Rest {
    events: LinkedList<InQueue>,
    _instance: Option<Charge>,
}

impl Rest {
    /// Drops one. False: none is left.
    pub fn drop_one(&mut self) -> bool {
        self.events.pop_front().is_some()
    }
}
