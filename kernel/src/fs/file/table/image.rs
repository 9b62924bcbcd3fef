//! Images: what a descriptor table shows, and what tables that were forked have in common until one of them changes it.
//!
//! An image has a two-level count, [`Share`]s and the tables of each: a process that forks again and again gives its children a
//! share of its own, so that processes that inherited one image from a common ancestor do not all write its count. Who may change an image in place, and
//! what a lookup may see then, is `sync::protocol::share`.
//!
//! The first places are an array, which is copied to grow; it is short. The others are in a [directory](super::directory) of chunks, so no copy takes
//! longer than some ten thousand instructions however many descriptors there are.
//!
//! A lookup that began before a table went over to another image goes on in the old one. So nothing is taken out of an image that ends:
//! its files are closed at once, and dropped with it, after the lookups.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sync::protocol::share::{self, RawShare};
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{slab_arc, try_arc};

use super::FIRST;
use super::chunk::CHUNK;
use super::directory::{Directory, Place};
use crate::errno::Result;
use crate::fs::file::File;

pub struct Slot {
    pub file: RcuArc<File>,
    pub close_on_exec: AtomicBool,
}

pub fn new_slots(count: usize) -> Result<Box<[Slot]>> {
    let make = |_| Slot { file: RcuArc::empty(), close_on_exec: AtomicBool::new(false) };
    Ok(sync::heap::try_box_slice(count, make)?)
}

/// `to` is new, and at least as long.
pub fn copy_slots(from: &[Slot], to: &[Slot], read: &RcuRead) {
    for (from, to) in from.iter().zip(to) {
        if let Some(file) = from.file.get(read) {
            file.add_open();
            to.file.swap(Some(file));
            to.close_on_exec.store(from.close_on_exec.load(Relaxed), Relaxed);
        }
    }
}

/// Slots closed before others may run.
const TURN: usize = 64;

/// What ends with the slots. `sleeps`: the caller may sleep.
pub fn close_all(slots: &[Slot], sleeps: bool) {
    for slots in slots.chunks(TURN) {
        for slot in slots {
            let file = slot.file.get(&sync::rcu::read());
            if let Some(file) = file {
                file.drop_open();
            }
        }
        if sleeps {
            // All are closed, whatever signal has come.
            let _ = crate::sched::give_way();
        }
    }
}

/// The slots are dropped next: their files are first given to callbacks of their own, for what a file has may be much to drop.
pub fn drop_late(slots: &[Slot]) {
    slots.iter().for_each(|slot| drop(slot.file.take()));
}

/// What a search of one array of places came to.
pub enum Found {
    At(usize),
    /// There is none before that place; behind it, perhaps.
    NotBefore(usize),
}

/// What a search asks of a place and its file.
pub trait Wanted: Fn(&Slot, &File) -> bool {}

impl<T: Fn(&Slot, &File) -> bool> Wanted for T {}

/// The first place at or after `from` that has a file and is `wanted`, in `slots`, the first of which is place `start`.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
pub fn search_slots(
    slots: &[Slot],
    from: usize,
    start: usize,
    wanted: impl Wanted,
    read: &RcuRead,
) -> Option<usize> {
    let from = from.saturating_sub(start);
    let mut rest = slots.get(from..)?.iter();
    let found = rest.position(|slot| slot.file.load(read).is_some_and(|file| wanted(slot, file)))?;
    Some(start + from + found)
}

#[repr(align(64))]
pub struct Image {
    /// The first places: at most [`CHUNK`], and so many once there are chunks.
    pub first: Box<[Slot]>,
    pub rest: Option<Box<Directory>>,
    /// Shares of this image.
    shares: RawShare,
}

impl Image {
    pub fn try_new(slots: usize) -> Result<Arc<Image>> {
        Image::with(new_slots(slots)?, None)
    }

    fn with(first: Box<[Slot]>, rest: Option<Box<Directory>>) -> Result<Arc<Image>> {
        Ok(try_arc(Image { first, rest, shares: RawShare::new() })?)
    }

    #[inline]
    pub fn slot<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<&'r Slot> {
        match self.first.get(index) {
            Some(slot) => Some(slot),
            None => self.far_slot(index, read),
        }
    }

    #[cold]
    fn far_slot<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<&'r Slot> {
        self.rest.as_ref()?.place(index, read).map(|place| place.slot)
    }

    /// The first place without a file at or after `from`; perhaps none that is there yet.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    pub fn next_free(&self, from: usize, read: &RcuRead) -> usize {
        let first = self.first.get(from..).unwrap_or(&[]);
        match first.iter().position(|s| s.file.load(read).is_none()) {
            Some(n) => from + n,
            None => self.far_free(from.max(self.first.len()), read),
        }
    }

    #[cold]
    fn far_free(&self, from: usize, read: &RcuRead) -> usize {
        self.rest.as_ref().map_or(from, |rest| rest.next_free(from, read))
    }

    /// The first place with a file at or after `from`. Takes some ten thousand instructions at most.
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    pub fn next_used(&self, from: usize, read: &RcuRead) -> Option<usize> {
        let first = self.first.get(from..).unwrap_or(&[]);
        let near = first.iter().position(|s| s.file.load(read).is_some()).map(|n| from + n);
        near.or_else(|| self.rest.as_ref()?.next_used(from.max(CHUNK), read))
    }

    /// Looks for the first place at or after `from` that has a file and is `wanted`, as far as one array goes.
    pub fn search(&self, from: usize, wanted: impl Wanted, read: &RcuRead) -> Option<Found> {
        match search_slots(&self.first, from, 0, &wanted, read) {
            Some(at) => Some(Found::At(at)),
            None => self.rest.as_ref()?.search(from.max(CHUNK), &wanted, read),
        }
    }

    /// How many places there are, as Linux counts.
    pub fn size(&self, read: &RcuRead) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.size(read));
        rest.next_power_of_two().max(self.first.len())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Most have few.
        drop_late(self.first.get(FIRST..).unwrap_or(&[]));
    }
}

/// One family's part in an image.
pub struct Share {
    pub image: Arc<Image>,
    /// Tables that have this share.
    tables: RawShare,
    rcu: RcuHead,
}

sync::rcu_object!(Share);
vm::slab_type!(Share, "file-table-share", Arc);

impl Share {
    /// A share of `image` that one table has: the first one, or one that `change_to` counts.
    pub fn try_new(image: Arc<Image>) -> Result<Arc<Share>> {
        Ok(slab_arc(Share { image, tables: RawShare::new(), rcu: RcuHead::new() })?)
    }

    /// A table goes over to `own`, a new share of the same image: `enter` puts it into the table's cell.
    pub fn change_to(&self, own: &Share, enter: impl FnOnce()) {
        let enter = || {
            own.image.shares.join();
            enter();
        };
        if share::change_group(&self.tables, enter) {
            // Not the last: there is `own`.
            self.image.shares.leave();
        }
    }

    /// A share of a copy of `image` with `slots` first places and room for `groups`, none of them fewer than there are. Its descriptors count anew.
    fn try_copy(image: &Image, slots: usize, groups: usize, read: &RcuRead) -> Result<Arc<Share>> {
        // Nothing is counted before all that can fail is done.
        let rest = if groups == 0 { None } else { Some(Directory::try_new(groups)?) };
        let copy = Share::try_new(Image::with(new_slots(slots)?, rest)?)?;
        copy_slots(&image.first, &copy.image.first, read);
        if let (Some(from), Some(to)) = (&image.rest, &copy.image.rest) {
            to.copy(from, read);
        }
        Ok(copy)
    }

    /// One table more.
    pub fn join(&self) {
        self.tables.join();
    }

    /// Does one table alone have the image?
    #[inline]
    pub fn is_alone(&self) -> bool {
        share::is_alone(&self.tables, &self.image.shares)
    }

    /// The place `index`, from [`CHUNK`] on, and its chunk, if the one table that asks, and has the image alone, may change it.
    #[inline]
    pub fn far<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<Place<'r>> {
        self.image.rest.as_ref()?.place(index, read).filter(Place::is_alone)
    }

    /// What a table that wants to change the place `index` goes on with: None where it is this share still. In the result it has the place to itself.
    /// The table's lock is held.
    ///
    /// # Errors
    /// ENOMEM: nothing has changed.
    #[cold]
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    pub fn make_own(&self, index: usize, read: &RcuRead) -> Result<Option<Arc<Share>>> {
        let is_far = index >= CHUNK;
        let slots = self.image.first.len();
        let groups = self.image.rest.as_ref().map_or(0, |rest| rest.groups());
        let wanted = (index + 1).next_power_of_two().min(CHUNK).max(slots);
        let wanted_groups = if is_far { Directory::groups_for(index).max(groups) } else { groups };
        let own = if self.is_alone() && (wanted, wanted_groups) == (slots, groups) {
            None
        } else {
            Some(Share::try_copy(&self.image, wanted, wanted_groups, read)?)
        };
        let image = own.as_ref().map_or(&self.image, |own| &own.image);
        if is_far
            && let Some(rest) = &image.rest
            && let Err(error) = rest.own(index, read)
        {
            own.iter().for_each(|own| own.leave(false));
            return Err(error);
        }
        Ok(own)
    }

    /// One table less; the last one closes every file. `sleeps`: the caller may sleep.
    pub fn leave(&self, sleeps: bool) {
        if !self.tables.leave() || !self.image.shares.leave() {
            return;
        }
        close_all(&self.image.first, sleeps);
        if let Some(rest) = &self.image.rest {
            rest.leave(sleeps);
        }
    }
}
