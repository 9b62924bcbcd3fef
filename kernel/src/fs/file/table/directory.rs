//! The places of a descriptor table from [`CHUNK`] on: chunks of places, in groups of chunks, under a directory.
//!
//! Images that were copied from each other have a group in common until one of them changes a place in it, and groups a chunk. So a copy counts the groups
//! and no file, and a change copies one group, which counts its chunks, and one chunk. With that, no step is longer than one array, be there 2³¹ places
//! (fs.nr_open). Where a descriptor is free, or used, bits tell: a bit for each place of a chunk, for each chunk of a group, and for each group.
//!
//! All changes are made under the lock of a table that has the image alone; lookups are made under RCU. Images share a group, and groups a chunk, as
//! tables share an image (`sync::protocol::share`).
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use sync::protocol::share::{self, RawShare};
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{try_arc, try_box};

use super::chunk::{CHUNK, Chunk, are_full, are_used, copy_bits, next_bit, set_bit};
use super::image::{Found, Slot, Wanted, search_slots};
use crate::errno::{EMFILE, Result};

/// Chunks of a group.
const CHUNKS: usize = 1024;
/// Places of a group.
pub const GROUP: usize = CHUNKS * CHUNK;

pub struct Group {
    /// The first of the first group is never there: those places are the image's own.
    chunks: Box<[RcuArc<Chunk>]>,
    /// One after the last chunk that is there: none goes before the group does.
    end: AtomicUsize,
    full: [AtomicU64; CHUNKS / 64],
    used: [AtomicU64; CHUNKS / 64],
    /// Images that have it.
    images: RawShare,
    rcu: RcuHead,
}

sync::rcu_object!(Group);

/// Places count from the first of the group.
#[expect(clippy::arithmetic_side_effects, reason = "numbers of places, below 2^31")]
impl Group {
    fn try_new() -> Result<Arc<Group>> {
        let none = || [const { AtomicU64::new(0) }; CHUNKS / 64];
        let chunks = sync::heap::try_box_slice(CHUNKS, |_| RcuArc::empty())?;
        let (images, rcu, end) = (RawShare::new(), RcuHead::new(), AtomicUsize::new(0));
        Ok(try_arc(Group { chunks, end, full: none(), used: none(), images, rcu })?)
    }

    fn try_copy(&self, read: &RcuRead) -> Result<Arc<Group>> {
        let copy = Group::try_new()?;
        for (from, to) in self.chunks.iter().zip(&copy.chunks) {
            if let Some(chunk) = from.get(read) {
                chunk.groups.join();
                to.swap(Some(chunk));
            }
        }
        copy.end.store(self.end.load(Relaxed), Relaxed);
        copy_bits(&self.full, &copy.full);
        copy_bits(&self.used, &copy.used);
        Ok(copy)
    }

    #[inline]
    fn chunk<'r>(&'r self, at: usize, read: &'r RcuRead) -> Option<&'r Chunk> {
        self.chunks.get(at / CHUNK)?.load(read)
    }

    fn own(&self, at: usize, read: &RcuRead) -> Result {
        let cell = self.chunks.get(at / CHUNK).ok_or(EMFILE)?;
        let Some(old) = cell.load(read) else {
            cell.swap(Some(Chunk::try_new()?));
            self.end.store(self.end.load(Relaxed).max(at / CHUNK + 1), Relaxed);
            return Ok(());
        };
        if !old.groups.is_alone() {
            cell.swap(Some(old.try_copy(read)?));
            // The copy has counted each file, so none is closed here.
            old.leave(false);
        }
        Ok(())
    }

    /// The first place without a file at or after `from`.
    fn next_free(&self, from: usize, read: &RcuRead) -> Option<usize> {
        let free_in = |from: usize| match self.chunk(from, read) {
            Some(chunk) => Some(from / CHUNK * CHUNK + next_bit(&chunk.used, from % CHUNK, false)?),
            None => Some(from),
        };
        free_in(from).or_else(|| free_in(next_bit(&self.full, from / CHUNK + 1, false)? * CHUNK))
    }

    /// The next chunk that has files, from that of `from` on, and its first place.
    fn next_chunk<'r>(&'r self, from: usize, read: &'r RcuRead) -> Option<(usize, &'r Chunk)> {
        let at = next_bit(&self.used, from / CHUNK, true)? * CHUNK;
        Some((at, self.chunk(at, read)?))
    }

    /// Places up to the end of the last chunk.
    fn size(&self) -> usize {
        self.end.load(Relaxed) * CHUNK
    }

    /// One image less; the last one leaves the chunks. `sleeps`: the caller may sleep.
    fn leave(&self, sleeps: bool) {
        if !self.images.leave() {
            return;
        }
        for cell in &self.chunks {
            let chunk = cell.get(&sync::rcu::read());
            if let Some(chunk) = chunk {
                chunk.leave(sleeps);
            }
        }
    }
}

impl Drop for Group {
    /// Each chunk is dropped in a callback of its own: all together may be too much to do at once.
    fn drop(&mut self) {
        self.chunks.iter().for_each(|chunk| drop(chunk.take()));
    }
}

pub struct Directory {
    groups: Box<[RcuArc<Group>]>,
    full: Box<[AtomicU64]>,
    used: Box<[AtomicU64]>,
}

#[expect(clippy::arithmetic_side_effects, reason = "numbers of places, below 2^31")]
impl Directory {
    /// How many groups a directory has room for in which the place `index` is.
    pub fn groups_for(index: usize) -> usize {
        (index / GROUP + 1).next_power_of_two()
    }

    pub fn try_new(groups: usize) -> Result<Box<Directory>> {
        let bits = || sync::heap::try_box_slice(groups.div_ceil(64), |_| AtomicU64::new(0));
        let (full, used) = (bits()?, bits()?);
        let groups = sync::heap::try_box_slice(groups, |_| RcuArc::empty())?;
        Ok(try_box(Directory { groups, full, used })?)
    }

    /// How many groups it has room for.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// This one, which is new and not smaller, has the same groups as `from`.
    pub fn copy(&self, from: &Directory, read: &RcuRead) {
        for (from, to) in from.groups.iter().zip(&self.groups) {
            if let Some(group) = from.get(read) {
                group.images.join();
                to.swap(Some(group));
            }
        }
        copy_bits(&from.full, &self.full);
        copy_bits(&from.used, &self.used);
    }

    #[inline]
    fn group<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<&'r Group> {
        self.groups.get(index / GROUP)?.load(read)
    }

    /// What `f` makes of the place `index`, or of none, as `FileTable::look`: it is of this directory still.
    #[inline]
    pub fn look<'r, R>(&'r self, index: usize, f: impl Fn(Option<&'r Slot>) -> R, read: &'r RcuRead) -> R {
        let in_chunk = |chunk: Option<&'r Chunk>| f(chunk.and_then(|chunk| chunk.slots.get(index % CHUNK)));
        let in_group = |group: Option<&'r Group>| match group {
            Some(group) => share::look(|| group.chunk(index % GROUP, read), in_chunk),
            None => f(None),
        };
        share::look(|| self.group(index, read), in_group)
    }

    /// The place `index`; None: its chunk is not there.
    #[inline]
    pub fn place<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<Place<'r>> {
        let group = self.group(index, read)?;
        let chunk = group.chunk(index % GROUP, read)?;
        Some(Place { group, chunk, slot: chunk.slots.get(index % CHUNK)? })
    }

    /// The chunk of `index` is there, and this image's alone, from now on. The image is the caller's alone.
    ///
    /// # Errors
    /// ENOMEM. EMFILE: the directory has no room for it.
    pub fn own(&self, index: usize, read: &RcuRead) -> Result {
        let cell = self.groups.get(index / GROUP).ok_or(EMFILE)?;
        match cell.load(read) {
            None => {
                let group = Group::try_new()?;
                if index < GROUP {
                    // No place of the first chunk is looked for here.
                    let _ = set_bit(&group.full, 0, true);
                }
                cell.swap(Some(group));
            }
            Some(old) if !old.images.is_alone() => {
                cell.swap(Some(old.try_copy(read)?));
                // The copy has counted each chunk, so none is closed here.
                old.leave(false);
            }
            Some(_) => {}
        }
        cell.load(read).ok_or(EMFILE)?.own(index % GROUP, read)
    }

    /// Whether `group`, in which the place `index` is, is full or used may have changed. Who says so has it alone.
    pub fn mark(&self, group: &Group, index: usize) {
        let _ = set_bit(&self.full, index / GROUP, are_full(&group.full));
        let _ = set_bit(&self.used, index / GROUP, are_used(&group.used));
    }

    /// The first place without a file at or after `from`, which is at least [`CHUNK`]; perhaps one that the directory has no room for.
    #[inline]
    pub fn next_free(&self, from: usize, read: &RcuRead) -> usize {
        let chunk = self.group(from, read).and_then(|group| group.chunk(from % GROUP, read));
        match chunk.and_then(|chunk| next_bit(&chunk.used, from % CHUNK, false)) {
            Some(at) => from / CHUNK * CHUNK + at,
            None => self.free_beyond(from, read),
        }
    }

    /// As `next_free`, where the chunk of `from` has none, or is not there.
    #[cold]
    fn free_beyond(&self, from: usize, read: &RcuRead) -> usize {
        let free_in = |from: usize| match self.group(from, read) {
            Some(group) => Some(from / GROUP * GROUP + group.next_free(from % GROUP, read)?),
            None => Some(from),
        };
        let later = || free_in(next_bit(&self.full, from / GROUP + 1, false)? * GROUP);
        free_in(from).or_else(later).unwrap_or(from.max(self.groups.len() * GROUP))
    }

    /// The next chunk that has files, from that of `from` on, and its first place.
    #[inline(never)]
    fn next_chunk<'r>(&'r self, mut from: usize, read: &'r RcuRead) -> Option<(usize, &'r Chunk)> {
        loop {
            let number = next_bit(&self.used, from / GROUP, true)?;
            from = from.max(number * GROUP);
            let next = self.group(from, read).and_then(|group| group.next_chunk(from % GROUP, read));
            if let Some((at, chunk)) = next {
                return Some((number * GROUP + at, chunk));
            }
            from = (number + 1) * GROUP;
        }
    }

    /// The first place with a file at or after `from`.
    pub fn next_used(&self, mut from: usize, read: &RcuRead) -> Option<usize> {
        loop {
            let (at, chunk) = self.next_chunk(from, read)?;
            if let Some(place) = next_bit(&chunk.used, from.saturating_sub(at), true) {
                return Some(at + place);
            }
            from = at + CHUNK;
        }
    }

    /// As [`Image::search`](super::image::Image::search), in the next chunk.
    pub fn search(&self, from: usize, wanted: impl Wanted, read: &RcuRead) -> Option<Found> {
        let (at, chunk) = self.next_chunk(from, read)?;
        let found = search_slots(&chunk.slots, from, at, wanted, read);
        Some(found.map_or(Found::NotBefore(at + CHUNK), Found::At))
    }

    /// Places up to the end of the last chunk.
    pub fn size(&self, read: &RcuRead) -> usize {
        let size = |(number, group): (usize, &RcuArc<Group>)| Some(number * GROUP + group.load(read)?.size());
        self.groups.iter().enumerate().rev().find_map(size).unwrap_or(0)
    }

    /// The image has ended. `sleeps`: the caller may sleep.
    pub fn leave(&self, sleeps: bool) {
        for cell in &self.groups {
            let group = cell.get(&sync::rcu::read());
            if let Some(group) = group {
                group.leave(sleeps);
                if sleeps {
                    crate::sched::schedule_if_needed();
                }
            }
        }
    }
}

/// A place, and what leads to it.
#[derive(Clone, Copy)]
pub struct Place<'r> {
    pub group: &'r Group,
    chunk: &'r Chunk,
    pub slot: &'r Slot,
}

impl Place<'_> {
    /// Does who has the image alone have the place alone?
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.group.images.is_alone() && self.chunk.groups.is_alone()
    }

    /// The place, which is the table's number `index`, has a file from now on. Who says so has it alone. True: what can be said of the whole group may have
    /// changed, which the directory is told next (`mark`). One bit makes a chunk full or used, never both.
    #[inline]
    #[must_use]
    pub fn fill(&self, index: usize) -> bool {
        let changed = self.chunk.fill(index);
        let full = changed.full && set_bit(&self.group.full, index % GROUP / CHUNK, true);
        full || (changed.used && self.mark_used(index, true))
    }

    /// As `fill`: it has none.
    #[inline]
    #[must_use]
    pub fn empty(&self, index: usize) -> bool {
        let changed = self.chunk.empty(index);
        let full = changed.full && set_bit(&self.group.full, index % GROUP / CHUNK, false);
        full || (changed.used && self.mark_used(index, self.chunk.is_used()))
    }

    /// The chunk has files from now on, or none.
    #[cold]
    fn mark_used(&self, index: usize, used: bool) -> bool {
        set_bit(&self.group.used, index % GROUP / CHUNK, used)
    }
}

impl Drop for Directory {
    /// As of groups.
    fn drop(&mut self) {
        self.groups.iter().for_each(|group| drop(group.take()));
    }
}
