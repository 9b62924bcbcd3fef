//! The names of a directory in the order of their arrival, for getdents64.
//!
//! Each name has a cookie, which is unique and grows. The newest names lie in one array, `tail`; when that is full it becomes one of the `full` ones, and
//! a new one begins. So a small directory has one small array, no array is larger than `CHUNK` places however many names there are, and no
//! call looks at more than one of them: what a call costs grows with the logarithm of the names, and with one word for each `CHUNK` of them.
//!
//! A name that goes leaves a hole. An array that is half holes is packed; one that has none but holes goes.
//!
//! No locks: the directory's.
#![forbid(unsafe_code)]
#![expect(clippy::arithmetic_side_effects, reason = "counts and cookies of names that take memory each")]

use alloc::vec::Vec;

use sync::TryVec;

use super::directory::Entry;
use crate::errno::{ENOMEM, Result};

/// Places of an array: 16 KiB.
const CHUNK: usize = 512;
/// Places among which holes are left: two cache lines.
const FEW: usize = 4;

pub struct Slot {
    cookie: u64,
    entry: Option<Entry>,
}

/// Slots in the order of their cookies; the last is no hole.
struct Slots {
    all: Vec<Slot>,
    live: usize,
}

impl Slots {
    const fn new() -> Slots {
        Slots { all: Vec::new(), live: 0 }
    }

    fn starts_at(&self) -> u64 {
        self.all.first().map_or(u64::MAX, |slot| slot.cookie)
    }

    fn find(&mut self, cookie: u64) -> Option<&mut Slot> {
        let i = self.all.binary_search_by_key(&cookie, |slot| slot.cookie).ok()?;
        self.all.get_mut(i)
    }

    /// Leaves a hole, drops holes at the end, and packs.
    fn remove(&mut self, cookie: u64) {
        if self.find(cookie).is_some_and(|slot| slot.entry.take().is_some()) {
            self.live -= 1;
        }
        if self.all.len() > FEW && self.live * 2 < self.all.len() {
            self.all.retain(|slot| slot.entry.is_some());
        }
        while self.all.last().is_some_and(|slot| slot.entry.is_none()) {
            self.all.pop();
        }
    }

    /// Gives back the places that are not used, where most are not. Without memory to do so they stay.
    fn shrink(&mut self) {
        if self.all.len() * 4 < self.all.capacity()
            && let Ok(mut fewer) = sync::heap::try_vec(self.all.len() * 2)
        {
            // It has room for all of them.
            fewer.append(&mut self.all);
            self.all = fewer;
        }
    }
}

pub struct Order {
    /// Arrays that take no more names, none empty, in the order of their cookies.
    full: Vec<Slots>,
    tail: Slots,
}

impl Order {
    pub const fn new() -> Order {
        Order { full: Vec::new(), tail: Slots::new() }
    }

    /// Finds the memory for one more name.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn reserve(&mut self) -> Result {
        if self.tail.all.len() >= CHUNK {
            self.full.try_reserve(1).map_err(|_| ENOMEM)?;
            let next = sync::heap::try_vec(CHUNK)?;
            // There is room.
            let _pushed =
                self.full.try_push(core::mem::replace(&mut self.tail, Slots { all: next, live: 0 }));
        }
        self.tail.all.try_reserve(1).map_err(|_| ENOMEM)
    }

    /// Enters a name after `reserve`; its cookie is above all before.
    pub fn push(&mut self, cookie: u64, entry: Entry) {
        // There is room: `reserve` saw to it.
        let _pushed = self.tail.all.try_push(Slot { cookie, entry: Some(entry) });
        self.tail.live += 1;
    }

    /// The array of `full` in which the cookie lies, if it lies in one.
    fn place(&self, cookie: u64) -> Option<usize> {
        if self.full.is_empty() || cookie >= self.tail.starts_at() {
            return None;
        }
        self.full.partition_point(|slots| slots.starts_at() <= cookie).checked_sub(1)
    }

    pub fn get_mut(&mut self, cookie: u64) -> Option<&mut Entry> {
        let slots = match self.place(cookie) {
            Some(i) => self.full.get_mut(i)?,
            None => &mut self.tail,
        };
        slots.find(cookie)?.entry.as_mut()
    }

    pub fn remove(&mut self, cookie: u64) {
        let Some(i) = self.place(cookie) else {
            self.tail.remove(cookie);
            return;
        };
        if let Some(slots) = self.full.get_mut(i) {
            slots.remove(cookie);
            slots.shrink();
            if slots.live == 0 {
                self.full.remove(i);
            }
        }
    }

    /// The entry that came last.
    pub fn last(&self) -> Option<&Entry> {
        let slots = if self.tail.live > 0 { Some(&self.tail) } else { self.full.last() };
        slots?.all.last()?.entry.as_ref()
    }

    /// The entries at and after a position, with the position after each.
    pub fn entries_from(&self, position: u64) -> impl Iterator<Item = (&Entry, u64)> {
        // The array before the first that begins behind the position may have it.
        let first = self.full.partition_point(|slots| slots.starts_at() <= position).saturating_sub(1);
        let arrays = self.full.get(first..).unwrap_or(&[]).iter().chain(core::iter::once(&self.tail));
        arrays.flat_map(move |slots| {
            let start = slots.all.partition_point(|slot| slot.cookie < position);
            let rest = slots.all.get(start..).unwrap_or(&[]);
            rest.iter().filter_map(|slot| slot.entry.as_ref().map(|entry| (entry, slot.cookie + 1)))
        })
    }

    /// Arrays of which there can be one with names that are not yet listed: for who gives way between them.
    pub fn arrays(&self) -> usize {
        self.full.len() + 1
    }

    /// The entries of one array.
    pub fn of_array(&self, i: usize) -> impl Iterator<Item = &Entry> {
        self.full.get(i).unwrap_or(&self.tail).all.iter().filter_map(|slot| slot.entry.as_ref())
    }
}
