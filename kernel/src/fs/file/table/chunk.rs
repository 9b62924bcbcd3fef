//! Chunks of a descriptor table's places, and bits that tell which are used.
//!
//! A chunk is made when a descriptor in it is first used, and stays until its image ends: the table grows without moving a place. It hangs in the
//! image's [directory](super::directory).
//!
//! All changes are made under the lock of a table that has the chunk alone; lookups are made under RCU.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use sync::protocol::share::RawShare;
use sync::rcu::{RcuHead, RcuRead};
use sync::try_arc;

use super::image::{Slot, close_all, copy_slots, drop_late, new_slots};
use crate::errno::Result;

/// Places of a chunk.
pub const CHUNK: usize = 512;

/// The first bit that is `on`, at or after `from`. Only the holder of a lock changes the bits.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "numbers of bits, below those that there are")]
pub fn next_bit(words: &[AtomicU64], from: usize, on: bool) -> Option<usize> {
    let first = bits(words.get(from / 64)?, on) & u64::MAX << (from % 64);
    match first {
        0 => first_bit(words, from / 64 + 1, on),
        first => Some(from / 64 * 64 + first.trailing_zeros() as usize),
    }
}

/// The first bit that is `on` in the words from `from` on.
#[cold]
#[expect(clippy::arithmetic_side_effects, reason = "numbers of bits, below those that there are")]
fn first_bit(words: &[AtomicU64], from: usize, on: bool) -> Option<usize> {
    let mut later = words.iter().enumerate().skip(from);
    later.find_map(|(i, word)| match bits(word, on) {
        0 => None,
        found => Some(i * 64 + found.trailing_zeros() as usize),
    })
}

fn bits(word: &AtomicU64, on: bool) -> u64 {
    let word = word.load(Relaxed);
    if on { word } else { !word }
}

/// The bit's word before and after.
#[inline]
fn change_bit(words: &[AtomicU64], at: usize, on: bool) -> (u64, u64) {
    let Some(word) = words.get(at / 64) else { return (0, 0) };
    let (bit, old) = (1 << (at % 64), word.load(Relaxed));
    let new = if on { old | bit } else { old & !bit };
    word.store(new, Relaxed);
    (old, new)
}

/// False: its word has bits of both kinds, before and after, so that what can be said of all bits is as it was.
#[inline]
pub fn set_bit(words: &[AtomicU64], at: usize, on: bool) -> bool {
    let (old, new) = change_bit(words, at, on);
    let is_mixed = |word| word != 0 && word != u64::MAX;
    !is_mixed(old) || !is_mixed(new)
}

/// Are all bits on?
pub fn are_full(words: &[AtomicU64]) -> bool {
    words.iter().all(|word| word.load(Relaxed) == u64::MAX)
}

/// Is any bit on?
pub fn are_used(words: &[AtomicU64]) -> bool {
    words.iter().any(|word| word.load(Relaxed) != 0)
}

pub fn copy_bits(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

/// What may have changed of a chunk as a place in it did.
#[derive(Clone, Copy)]
pub struct Changed {
    /// It has no free place any more, or has one again.
    pub full: bool,
    /// It has a file, or has none any more.
    pub used: bool,
}

/// The bit in [`Chunk::full`] of the word of a place.
fn word_bit(index: usize) -> u8 {
    1 << (index % CHUNK / 64)
}

pub struct Chunk {
    pub slots: Box<[Slot]>,
    pub used: [AtomicU64; CHUNK / 64],
    /// Words of `used` without a free place: a bit each.
    full: AtomicU8,
    /// Groups that have it.
    pub groups: RawShare,
    rcu: RcuHead,
}

sync::rcu_object!(Chunk);

impl Chunk {
    pub fn try_new() -> Result<Arc<Chunk>> {
        let (slots, used) = (new_slots(CHUNK)?, [const { AtomicU64::new(0) }; CHUNK / 64]);
        let (full, groups, rcu) = (AtomicU8::new(0), RawShare::new(), RcuHead::new());
        Ok(try_arc(Chunk { slots, used, full, groups, rcu })?)
    }

    /// The place `index` of the table has a file from now on. Who says so has it alone.
    #[inline]
    pub fn fill(&self, index: usize) -> Changed {
        let (old, new) = change_bit(&self.used, index % CHUNK, true);
        Changed { full: new == u64::MAX && self.fill_word(index), used: old == 0 }
    }

    /// As `fill`: it has none.
    #[inline]
    pub fn empty(&self, index: usize) -> Changed {
        let (old, new) = change_bit(&self.used, index % CHUNK, false);
        Changed { full: old == u64::MAX && self.empty_word(index), used: new == 0 }
    }

    /// The word of the place is full. Are all by now?
    #[inline]
    fn fill_word(&self, index: usize) -> bool {
        let full = self.full.load(Relaxed) | word_bit(index);
        self.full.store(full, Relaxed);
        full == u8::MAX
    }

    /// The word of the place is full no more. Were all?
    #[inline]
    fn empty_word(&self, index: usize) -> bool {
        let full = self.full.load(Relaxed);
        self.full.store(full & !word_bit(index), Relaxed);
        full == u8::MAX
    }

    pub fn is_used(&self) -> bool {
        are_used(&self.used)
    }

    pub fn try_copy(&self, read: &RcuRead) -> Result<Arc<Chunk>> {
        let copy = Chunk::try_new()?;
        copy_slots(&self.slots, &copy.slots, read);
        copy_bits(&self.used, &copy.used);
        copy.full.store(self.full.load(Relaxed), Relaxed);
        Ok(copy)
    }

    /// One group less; the last one closes the files. `sleeps`: the caller may sleep.
    pub fn leave(&self, sleeps: bool) {
        if self.groups.leave() {
            close_all(&self.slots, sleeps);
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        drop_late(&self.slots);
    }
}
