//! Sockets in the order in which they came, in a red-black tree by number: one is put in, found and taken out in logarithmic time, however many a
//! program makes. No number is given twice, so a number that is out of date takes out nobody else.
//!
//! Sockets are not kept: who is in a roster leaves it when it is closed. A roster belongs to a lock of its owner, under which nothing is freed: what is
//! taken out is the caller's to drop.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeLink, intrusive_adapter};
use sync::try_box;

use super::Socket;
use crate::errno::Result;

/// A socket in a roster.
pub struct Entry {
    pub socket: Weak<Socket>,
    number: u64,
    link: RBTreeLink,
}

intrusive_adapter!(ByNumber = Box<Entry>: Entry { link => RBTreeLink });

impl<'a> KeyAdapter<'a> for ByNumber {
    type Key = u64;
    fn get_key(&self, entry: &'a Entry) -> u64 {
        entry.number
    }
}

impl Entry {
    /// # Errors
    /// ENOMEM.
    pub fn try_new(socket: &Arc<Socket>) -> Result<Box<Entry>> {
        Ok(try_box(Entry { socket: Arc::downgrade(socket), number: 0, link: RBTreeLink::new() })?)
    }
}

pub struct Roster {
    by_number: RBTree<ByNumber>,
    last: u64,
}

impl Roster {
    pub const fn new() -> Roster {
        Roster { by_number: RBTree::new(ByNumber::NEW), last: 0 }
    }

    /// Puts it at the end. Its number, which is not 0.
    pub fn put(&mut self, mut entry: Box<Entry>) -> u64 {
        let number = self.last.wrapping_add(1);
        entry.number = number;
        self.last = number;
        self.by_number.back_mut().insert_after(entry);
        number
    }

    /// The number of the last that came, whether it is still here or not.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn has(&self, number: u64) -> bool {
        !self.by_number.find(&number).is_null()
    }

    pub fn remove(&mut self, number: u64) -> Option<Box<Entry>> {
        self.by_number.find_mut(&number).remove()
    }

    /// Takes the first out, unless it came after number `last`.
    pub fn take_first(&mut self, last: u64) -> Option<Box<Entry>> {
        let mut first = self.by_number.front_mut();
        if first.get()?.number > last { None } else { first.remove() }
    }

    /// Those after number `after`, in their order.
    pub fn after(&self, after: u64) -> impl Iterator<Item = (u64, &Weak<Socket>)> {
        let mut at = self.by_number.lower_bound(Bound::Excluded(&after));
        core::iter::from_fn(move || {
            let entry = at.get()?;
            at.move_next();
            Some((entry.number, &entry.socket))
        })
    }
}
