//! Chunks of a descriptor table's places, and bits that tell which are used.
//!
//! A chunk is made when a descriptor in it is first used, and stays until its image ends: the table grows without moving a place. It hangs in the
//! image's [directory](super::directory).
//!
//! All changes are made under the lock of a table that has the chunk alone; lookups are made under RCU.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::protocol::share::RawShare;
use sync::rcu::{RcuHead, RcuRead};
use sync::try_arc;

use super::image::{Slot, close_all, copy_slots, drop_late, new_slots};
use crate::errno::Result;

/// Places of a chunk.
pub const CHUNK: usize = 512;

/// The first bit that is `on`, at or after `from`. Only the holder of a lock changes the bits.
#[expect(clippy::arithmetic_side_effects, reason = "numbers of bits, below those that there are")]
pub fn next_bit(words: &[AtomicU64], from: usize, on: bool) -> Option<usize> {
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

pub fn set_bit(words: &[AtomicU64], at: usize, on: bool) {
    if let Some(word) = words.get(at / 64) {
        let (bit, old) = (1 << (at % 64), word.load(Relaxed));
        word.store(if on { old | bit } else { old & !bit }, Relaxed);
    }
}

pub fn copy_bits(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

pub struct Chunk {
    pub slots: Box<[Slot]>,
    pub used: [AtomicU64; CHUNK / 64],
    /// Groups that have it.
    pub groups: RawShare,
    rcu: RcuHead,
}

sync::rcu_object!(Chunk);

impl Chunk {
    pub fn try_new() -> Result<Arc<Chunk>> {
        let (slots, used) = (new_slots(CHUNK)?, [const { AtomicU64::new(0) }; CHUNK / 64]);
        Ok(try_arc(Chunk { slots, used, groups: RawShare::new(), rcu: RcuHead::new() })?)
    }

    pub fn try_copy(&self, read: &RcuRead) -> Result<Arc<Chunk>> {
        let copy = Chunk::try_new()?;
        copy_slots(&self.slots, &copy.slots, read);
        copy_bits(&self.used, &copy.used);
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
