//! What is in a queue: messages in the order in which they came and by kind, so that each is found in logarithmic time; who waits for one; who waits for room.
//! All of it is under the queue's lock.
#![deny(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use sync::{SpinLock, lock_class};

use super::message::{ByKind, InOrder, Message, Wanted};
use super::{BYTES, MESSAGES};
use crate::errno::Result;
use crate::lock_order as level;
use crate::sched::WaitQueue;
use sync::quota::UNLIMITED;

lock_class! { static HANDOVER: LockClass = ("message for who waits", level::IpcHandover); }

/// Messages that are looked at before the lock is given back.
pub const TURN: usize = 512;

/// Somebody who waits for a message, or for room.
pub struct Waiter {
    number: AtomicU64,
    /// The message, or that there will be none. Of who waits for room always empty.
    given: SpinLock<Option<Result<Arc<Message>>>, level::IpcHandover>,
    /// It may go on.
    told: AtomicBool,
    pub wanted: Wanted,
    /// Bytes that it takes, or wants to send.
    pub size: usize,
    pub pid: u32,
    pub queue: WaitQueue,
    link: RBTreeAtomicLink,
}

vm::slab_type!(Waiter, "message-waiter", Arc);

intrusive_adapter!(pub Waiting = Arc<Waiter>: Waiter { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for Waiting {
    type Key = u64;
    fn get_key(&self, waiter: &'a Waiter) -> u64 {
        waiter.number()
    }
}

impl Waiter {
    pub fn new(wanted: Wanted, size: usize, pid: u32) -> Waiter {
        Waiter {
            number: AtomicU64::new(0),
            given: SpinLock::new(None, &HANDOVER),
            told: AtomicBool::new(false),
            wanted,
            size,
            pid,
            queue: WaitQueue::new(),
            link: RBTreeAtomicLink::new(),
        }
    }

    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// What it was given, once it was told.
    pub fn result(&self) -> Option<Option<Result<Arc<Message>>>> {
        self.told.load(SeqCst).then(|| self.given.lock().take())
    }

    pub fn is_told(&self) -> Option<()> {
        self.told.load(SeqCst).then_some(())
    }

    /// It goes on, once it is woken.
    pub fn tell(&self, given: Option<Result<Arc<Message>>>) {
        *self.given.lock() = given;
        self.told.store(true, SeqCst);
    }
}

/// Those who wait, in their order.
pub struct Line {
    waiters: RBTree<Waiting>,
    last: u64,
}

impl Line {
    const fn new() -> Line {
        Line { waiters: RBTree::new(Waiting::NEW), last: 0 }
    }

    pub fn put(&mut self, waiter: Arc<Waiter>) {
        self.last = self.last.wrapping_add(1);
        waiter.number.store(self.last, Relaxed);
        self.waiters.back_mut().insert_after(waiter);
    }

    pub fn remove(&mut self, waiter: &Waiter) -> Option<Arc<Waiter>> {
        self.waiters.find_mut(&waiter.number()).remove()
    }

    /// The number of the last that came.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The next after number `after`.
    pub fn next(&self, after: u64) -> Option<Arc<Waiter>> {
        self.waiters.lower_bound(Bound::Excluded(&after)).clone_pointer()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}

/// What a queue has.
pub struct Contents {
    in_order: RBTree<InOrder>,
    by_kind: RBTree<ByKind>,
    count: u64,
    bytes: u64,
    last: u64,
    /// Bytes that it takes; as many messages without any.
    pub most_bytes: u64,
    pub receivers: Line,
    pub senders: Line,
}

/// What a look for a message has come to.
pub enum Looked {
    Found(Arc<Message>),
    None,
    /// Not yet: the look goes on behind that number, having passed so many.
    GoesOn(u64, i64),
}

impl Contents {
    pub const fn new(most_bytes: u64) -> Contents {
        Contents {
            in_order: RBTree::new(InOrder::NEW),
            by_kind: RBTree::new(ByKind::NEW),
            count: 0,
            bytes: 0,
            last: 0,
            most_bytes,
            receivers: Line::new(),
            senders: Line::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of the last message that came.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Is there room for a message of `size` bytes?
    pub fn fits(&self, size: usize) -> bool {
        self.bytes.saturating_add(size as u64) <= self.most_bytes && self.count < self.most_bytes
    }

    pub fn put(&mut self, message: Arc<Message>) {
        self.last = self.last.wrapping_add(1);
        message.set_number(self.last);
        let size = message.text.len() as u64;
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
        MESSAGES.charge(1, UNLIMITED);
        BYTES.charge(size, UNLIMITED);
        self.by_kind.insert(message.clone());
        self.in_order.back_mut().insert_after(message);
    }

    /// Takes the message out, if it is in.
    pub fn remove(&mut self, message: &Message) -> bool {
        let size = message.text.len() as u64;
        let Some(_taken) = self.in_order.find_mut(&message.number()).remove() else { return false };
        let _ = self.by_kind.find_mut(&(message.kind, message.number())).remove();
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        MESSAGES.give_back(1);
        BYTES.give_back(size);
        true
    }

    pub fn take_first(&mut self) -> Option<Arc<Message>> {
        let first = self.in_order.front().clone_pointer()?;
        self.remove(&first).then_some(first)
    }

    /// The message that is `wanted`; behind number `after`, before which there are `passed`, where messages are looked at one after the other.
    pub fn find(&self, wanted: Wanted, after: u64, passed: i64) -> Looked {
        let found = match wanted {
            Wanted::Any => self.in_order.front().clone_pointer(),
            Wanted::Kind(kind) => {
                let first = self.by_kind.lower_bound(Bound::Included(&(kind, 0))).clone_pointer();
                first.filter(|message| message.kind == kind)
            }
            Wanted::UpTo(most) => self.by_kind.front().clone_pointer().filter(|message| message.kind <= most),
            Wanted::Not(_) | Wanted::Place(_) => return self.search(wanted, after, passed),
        };
        found.map_or(Looked::None, Looked::Found)
    }

    fn search(&self, wanted: Wanted, after: u64, passed: i64) -> Looked {
        let mut at = self.in_order.lower_bound(Bound::Excluded(&after));
        let (mut place, mut last) = (passed, after);
        for _ in 0..TURN {
            let Some(message) = at.get() else { return Looked::None };
            let is_it = match wanted {
                Wanted::Place(wanted) => wanted == place,
                wanted => wanted.is(message.kind),
            };
            if is_it {
                return at.clone_pointer().map_or(Looked::None, Looked::Found);
            }
            (place, last) = (place.saturating_add(1), message.number());
            at.move_next();
        }
        Looked::GoesOn(last, place)
    }
}
