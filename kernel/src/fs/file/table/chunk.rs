//! The places of a descriptor table from [`CHUNK`] on: chunks of places, under a directory.
//!
//! A chunk is made when a descriptor in it is first used, and stays until its image ends: the table grows without moving a place. Images that were
//! copied from each other have a chunk in common until one of them changes it. So a copy counts the chunks and no file, and a change copies one
//! chunk. Where a descriptor is free, bits tell: a bit for each place of a chunk, and one for each chunk that is full.
//!
//! All changes are made under the lock of a table that has the image alone; lookups are made under RCU. Images share a chunk as tables share an image
//! (`sync::protocol::share`).
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::protocol::share::RawShare;
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{try_arc, try_box};

use super::image::{Found, Slot, close_all, copy_slots, drop_late, new_slots, search_slots};
use crate::errno::{EMFILE, Result};
use crate::fs::file::File;

/// Places of a chunk.
pub const CHUNK: usize = 512;
/// Chunks that the smallest directory has room for.
const FEW: usize = 64;

/// The first bit that is `on`, at or after `from`. Only the holder of a lock changes the bits.
#[expect(clippy::arithmetic_side_effects, reason = "numbers of bits, below those that there are")]
fn next_bit(words: &[AtomicU64], from: usize, on: bool) -> Option<usize> {
    let mut wanted = u64::MAX << (from % 64);
    for (i, word) in words.iter().enumerate().skip(from / 64) {
        let word = word.load(Relaxed);
        let found = if on { word } else { !word } & wanted;
        if found != 0 {
            return Some(i * 64 + found.trailing_zeros() as usize);
        }
        wanted = u64::MAX;
    }
    None
}

fn set_bit(words: &[AtomicU64], at: usize, on: bool) {
    if let Some(word) = words.get(at / 64) {
        let (bit, old) = (1 << (at % 64), word.load(Relaxed));
        word.store(if on { old | bit } else { old & !bit }, Relaxed);
    }
}

fn copy_bits(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

struct Chunk {
    slots: Box<[Slot]>,
    used: [AtomicU64; CHUNK / 64],
    /// Images that have it.
    images: RawShare,
    rcu: RcuHead,
}

sync::rcu_object!(Chunk);

impl Chunk {
    fn try_new() -> Result<Arc<Chunk>> {
        let (slots, used) = (new_slots(CHUNK)?, [const { AtomicU64::new(0) }; CHUNK / 64]);
        Ok(try_arc(Chunk { slots, used, images: RawShare::new(), rcu: RcuHead::new() })?)
    }

    fn try_copy(&self, read: &RcuRead) -> Result<Arc<Chunk>> {
        let copy = Chunk::try_new()?;
        copy_slots(&self.slots, &copy.slots, read);
        copy_bits(&self.used, &copy.used);
        Ok(copy)
    }

    /// One image less; the last one closes the files.
    fn leave(&self, sleeps: bool) {
        if self.images.leave() {
            close_all(&self.slots, sleeps);
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        drop_late(&self.slots);
    }
}

pub struct Directory {
    /// The first is never there: those places are the image's own.
    chunks: Box<[RcuArc<Chunk>]>,
    full: Box<[AtomicU64]>,
}

#[expect(clippy::arithmetic_side_effects, reason = "numbers of places, below 2^31")]
impl Directory {
    /// How many chunks a directory has room for in which the place `index` is.
    pub fn chunks_for(index: usize) -> usize {
        (index / CHUNK + 1).next_power_of_two().max(FEW)
    }

    pub fn try_new(chunks: usize) -> Result<Box<Directory>> {
        let full = sync::heap::try_box_slice(chunks / 64, |_| AtomicU64::new(0))?;
        // No place of the first is looked for here.
        set_bit(&full, 0, true);
        let chunks = sync::heap::try_box_slice(chunks, |_| RcuArc::empty())?;
        Ok(try_box(Directory { chunks, full })?)
    }

    /// How many chunks it has room for.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// This one, which is new and not smaller, has the same chunks as `from`.
    pub fn copy(&self, from: &Directory, read: &RcuRead) {
        for (from, to) in from.chunks.iter().zip(&self.chunks) {
            if let Some(chunk) = from.get(read) {
                chunk.images.join();
                to.swap(Some(chunk));
            }
        }
        copy_bits(&from.full, &self.full);
    }

    fn chunk<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<&'r Chunk> {
        self.chunks.get(index / CHUNK)?.load(read)
    }

    pub fn slot<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<&'r Slot> {
        self.chunk(index, read)?.slots.get(index % CHUNK)
    }

    /// The chunk of `index` is there, and this image's alone, from now on. The image is the caller's alone.
    ///
    /// # Errors
    /// ENOMEM. EMFILE: the directory has no room for it.
    pub fn own(&self, index: usize, read: &RcuRead) -> Result<()> {
        let cell = self.chunks.get(index / CHUNK).ok_or(EMFILE)?;
        let Some(old) = cell.load(read) else {
            cell.swap(Some(Chunk::try_new()?));
            return Ok(());
        };
        if !old.images.is_alone() {
            cell.swap(Some(old.try_copy(read)?));
            // The copy has counted each file, so none is closed here.
            old.leave(false);
        }
        Ok(())
    }

    /// The place `index` has a file from now on, or none. `own` was called for it.
    pub fn mark(&self, index: usize, used: bool, read: &RcuRead) {
        let Some(chunk) = self.chunk(index, read) else { return };
        set_bit(&chunk.used, index % CHUNK, used);
        set_bit(&self.full, index / CHUNK, used && next_bit(&chunk.used, 0, false).is_none());
    }

    /// The first place without a file at or after `from`, which is at least [`CHUNK`]; perhaps one that the directory has no room for.
    pub fn next_free(&self, from: usize, read: &RcuRead) -> usize {
        let free_in = |from: usize| match self.chunk(from, read) {
            Some(chunk) => Some(from / CHUNK * CHUNK + next_bit(&chunk.used, from % CHUNK, false)?),
            None => Some(from),
        };
        let later = || free_in(next_bit(&self.full, from / CHUNK + 1, false)? * CHUNK);
        free_in(from).or_else(later).unwrap_or(from.max(self.chunks.len() * CHUNK))
    }

    /// The chunks that are there, from that of `from` on, with the number of the first place of each.
    fn chunks_from<'r>(&'r self, from: usize, read: &'r RcuRead) -> impl Iterator<Item = (usize, &'r Chunk)> {
        let chunks = self.chunks.iter().enumerate().skip(from / CHUNK);
        chunks.filter_map(|(i, chunk)| Some((i * CHUNK, chunk.load(read)?)))
    }

    /// The first place with a file at or after `from`.
    pub fn next_used(&self, from: usize, read: &RcuRead) -> Option<usize> {
        let mut chunks = self.chunks_from(from, read);
        chunks.find_map(|(at, chunk)| Some(at + next_bit(&chunk.used, from.saturating_sub(at), true)?))
    }

    /// As [`Image::search`](super::image::Image::search), in the next chunk.
    pub fn search(
        &self,
        from: usize,
        wanted: impl Fn(&Slot, &File) -> bool,
        read: &RcuRead,
    ) -> Option<Found> {
        let (at, chunk) = self.chunks_from(from, read).next()?;
        let found = search_slots(&chunk.slots, from, at, wanted, read);
        Some(found.map_or(Found::NotBefore(at + CHUNK), Found::At))
    }

    /// Places up to the end of the last chunk.
    pub fn size(&self, read: &RcuRead) -> usize {
        self.chunks.iter().rposition(|chunk| chunk.load(read).is_some()).map_or(0, |last| (last + 1) * CHUNK)
    }

    /// The image has ended. `sleeps`: the caller may sleep.
    pub fn leave(&self, sleeps: bool) {
        for cell in &self.chunks {
            let chunk = cell.get(&sync::rcu::read());
            if let Some(chunk) = chunk {
                chunk.leave(sleeps);
            }
        }
    }
}

impl Drop for Directory {
    /// Each chunk is dropped in a callback of its own: all together may be too much to do at once.
    fn drop(&mut self) {
        for chunk in &self.chunks {
            drop(chunk.take());
        }
    }
}
