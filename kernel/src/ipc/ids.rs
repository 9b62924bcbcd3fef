//! The table of a kind of object: by number, and by key.
//!
//! A number is a place in the table and how often the place was used before, so the number of an object that is gone is nobody's for a long time.
//! Places come in blocks of 64. A CPU takes those of its own blocks in turn, so CPUs that make objects write no common line; it takes of other blocks when
//! these are full. Objects are found under RCU, and finding one writes nothing.
//!
//! Keys are in a hash table, whose buckets are chains read under RCU; a chain is changed under the lock of its bucket, each on a line of its own. The hash
//! is mixed with a random word, so no program chooses keys that meet.
//!
//! OneKeyOneObject: an object with a key stands in its place before its key is on the chain, and leaves the chain first. So who holds the bucket's lock sees
//! on the chain which keys are taken.
//!
//! Lock order: a bucket's lock is taken alone.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};

use once_cell::race::OnceNonZeroUsize;
use sync::percpu::{Padded, PerCpu};
use sync::rcu::{self, Chain, Prepared, RcuArc, RcuObject};
use sync::{GlobalQuota, SpinLock, lock_class, try_box};
use vm::OnceBox;

use super::perm::Perm;
use super::{CREATE, EXCLUSIVE};
use crate::errno::{EEXIST, EINVAL, ENOENT, ENOMEM, ENOSPC, Result};
use crate::fs::devfs::random;
use crate::lock_order as level;

lock_class! { static KEYS: LockClass = ("ipc keys", level::IpcKeys); }

/// The key of objects that are found by their number alone (IPC_PRIVATE).
pub const PRIVATE: i32 = 0;

/// Places, as on Linux.
pub const PLACES: u32 = 1 << SHIFT;
const SHIFT: u32 = 15;
const BLOCK: u32 = 64;
const BLOCKS: u32 = PLACES / BLOCK;
/// How often a place is used before its numbers begin anew: a number is not negative.
const SEQUENCES: u32 = 65_535;
const BUCKETS: usize = 256;

/// The part of a number that says how often its place was used before.
pub fn sequence_of(id: i32) -> u16 {
    (id >> SHIFT) as u16
}

/// The place in a number.
fn place_of(id: i32) -> u32 {
    id.cast_unsigned() & (PLACES - 1)
}

fn number(place: u32, sequence: u32) -> i32 {
    (sequence << SHIFT | place).cast_signed()
}

/// What a table holds.
pub trait Object: RcuObject {
    fn perm(&self) -> &Perm;
}

struct Place<T: Object> {
    object: RcuArc<T>,
    /// Twice how often the place was used, and one more while it is.
    state: AtomicU32,
}

impl<T: Object> Place<T> {
    /// Takes the place, if it is free: the sequence of its number.
    fn claim(&self) -> Option<u32> {
        let state = self.state.load(Relaxed);
        (state & 1 == 0 && self.state.compare_exchange(state, state | 1, AcqRel, Relaxed).is_ok())
            .then_some(state >> 1)
    }

    fn release(&self, next: u32) {
        let next = if next >= SEQUENCES { 0 } else { next };
        self.state.store(next << 1, Release);
    }
}

#[repr(align(64))]
struct Block<T: Object>([Place<T>; BLOCK as usize]);

/// A key that is taken.
struct Key {
    key: i32,
    id: i32,
}

vm::slab_type!(Key, "ipc-key", Chain);

struct Bucket {
    lock: SpinLock<(), level::IpcKeys>,
    chain: Chain<Key>,
}

/// All objects of a kind.
pub struct Table<T: Object> {
    blocks: [OnceBox<Block<T>>; BLOCKS as usize],
    keys: [Padded<Bucket>; BUCKETS],
    /// Mixed into the hash.
    secret: OnceNonZeroUsize,
    /// The number that the next object is to have; -1: any.
    pub next_id: AtomicI32,
    count: GlobalQuota,
    /// Where each CPU looks for a free place next; 0: it has not looked yet.
    cursors: &'static PerCpu<AtomicU64>,
}

/// Whether an object was there, or is the new one with that number.
pub enum Found<T> {
    Old(Arc<T>),
    New(i32),
}

/// A place that is to get an object.
struct Claim<'a, T: Object> {
    table: &'a Table<T>,
    place: &'a Place<T>,
    id: i32,
    sequence: u32,
    /// It was filled.
    filled: bool,
}

impl<T: Object> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        if !self.filled {
            self.place.release(self.sequence);
            self.table.count.give_back(1);
        }
    }
}

impl<T: Object> Table<T> {
    /// Empty. `spares` and `cursors` are this table's alone.
    pub const fn new(spares: &'static PerCpu<AtomicU64>, cursors: &'static PerCpu<AtomicU64>) -> Self {
        const fn bucket() -> Padded<Bucket> {
            Padded(Bucket { lock: SpinLock::new((), &KEYS), chain: Chain::new() })
        }
        Table {
            blocks: [const { OnceBox::new() }; BLOCKS as usize],
            keys: [const { bucket() }; BUCKETS],
            secret: OnceNonZeroUsize::new(),
            next_id: AtomicI32::new(-1),
            count: GlobalQuota::new(spares),
            cursors,
        }
    }

    /// How many objects there are.
    pub fn used(&self) -> u64 {
        self.count.used()
    }

    /// The object with that number.
    ///
    /// # Errors
    /// EINVAL.
    pub fn find(&self, id: i32) -> Result<Arc<T>> {
        let object = self.at(place_of(id)).ok_or(EINVAL)?;
        if id >= 0 && object.perm().id == id { Ok(object) } else { Err(EINVAL) }
    }

    /// The object in the place of that number, whatever its sequence (SHM_STAT and its like).
    ///
    /// # Errors
    /// EINVAL.
    pub fn find_at(&self, id: i32) -> Result<Arc<T>> {
        self.at(place_of(id)).ok_or(EINVAL)
    }

    fn at(&self, place: u32) -> Option<Arc<T>> {
        let place = self.made(place)?;
        let read = rcu::read();
        if place.object.is_empty() { None } else { place.object.get(&read) }
    }

    fn made(&self, place: u32) -> Option<&Place<T>> {
        self.blocks.get((place / BLOCK) as usize)?.get()?.0.get((place % BLOCK) as usize)
    }

    fn make(&self, place: u32) -> Result<&Place<T>> {
        let block = self.blocks.get((place / BLOCK) as usize).ok_or(ENOSPC)?;
        let empty = || Place { object: RcuArc::empty(), state: AtomicU32::new(0) };
        let block = block.get_or_try(|| try_box(Block(core::array::from_fn(|_| empty()))))?;
        block.0.get((place % BLOCK) as usize).ok_or(ENOSPC)
    }

    /// The highest place in use, for who looks at all; 0 as well where none is.
    pub fn highest(&self) -> u32 {
        let used = |place: &u32| self.made(*place).is_some_and(|place| !place.object.is_empty());
        (0..PLACES).rev().find(used).unwrap_or(0)
    }

    /// Shows `f` all objects in the order of their places, until it fails. Gives way.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn for_each(&self, mut f: impl FnMut(&T) -> Result) -> Result {
        for place in 0..PLACES {
            if let Some(object) = self.at(place) {
                f(&object)?;
            }
            if place % BLOCK == 0 && crate::sched::give_way() {
                break;
            }
        }
        Ok(())
    }

    /// Takes a place, of at most `most`.
    ///
    /// # Errors
    /// ENOSPC, ENOMEM.
    fn claim(&self, most: u64) -> Result<Claim<'_, T>> {
        if !self.count.charge(1, most.min(u64::from(PLACES))) {
            return Err(ENOSPC);
        }
        let claimed = self.claim_counted();
        if claimed.is_err() {
            self.count.give_back(1);
        }
        claimed
    }

    fn claim_counted(&self) -> Result<Claim<'_, T>> {
        let claim = |number_of: &dyn Fn(u32) -> u32, at: u32| -> Result<Option<Claim<'_, T>>> {
            let place = self.make(at)?;
            Ok(place.claim().map(|sequence| {
                let sequence = number_of(sequence);
                Claim { table: self, place, id: number(at, sequence), sequence, filled: false }
            }))
        };
        if self.next_id.load(Relaxed) >= 0 {
            let wanted = self.next_id.swap(-1, AcqRel);
            for at in if wanted < 0 { 0..0 } else { place_of(wanted)..PLACES } {
                if let Some(claimed) = claim(&|_| u32::from(sequence_of(wanted)), at)? {
                    return Ok(claimed);
                }
            }
        }
        let cpus = sync::machine::cpus().max(1);
        let cursor = self.cursors.this();
        let begin = match cursor.load(Relaxed) as u32 {
            0 => sync::machine::cpu_id().wrapping_mul(BLOCK) % PLACES,
            next => next.wrapping_sub(1) % PLACES,
        };
        let (first, within) = (begin / BLOCK, begin % BLOCK);
        // The CPU's own blocks one after the other, then all.
        let own = (0..BLOCKS.div_ceil(cpus)).map(|n| first.wrapping_add(n.wrapping_mul(cpus)) % BLOCKS);
        for block in own.chain(0..BLOCKS) {
            for n in 0..BLOCK {
                let at = block.wrapping_mul(BLOCK).wrapping_add(within.wrapping_add(n) % BLOCK);
                if let Some(claimed) = claim(&|sequence| sequence, at)? {
                    let next = block.wrapping_mul(BLOCK).wrapping_add(at.wrapping_add(1) % BLOCK);
                    cursor.store(u64::from(next.wrapping_add(1)), Relaxed);
                    return Ok(claimed);
                }
            }
        }
        Err(ENOSPC)
    }

    fn bucket(&self, key: i32) -> Option<&Bucket> {
        let secret = self.secret.get_or_init(|| {
            let mut word = [0; 8];
            word.copy_from_slice(&random::bytes()[..8]);
            NonZeroUsize::MIN | usize::from_ne_bytes(word)
        });
        let mixed = (key as u32 as usize ^ secret.get() >> 32).wrapping_mul(secret.get() | 1);
        self.keys.get((mixed >> 40) % BUCKETS).map(|padded| &padded.0)
    }

    fn find_key(&self, bucket: &Bucket, key: i32) -> Option<i32> {
        bucket.chain.iter(&rcu::read()).find(|taken| taken.key == key).map(|taken| taken.id)
    }

    /// The object with that key, or a new one, as `flags` say (shmget and its like). `make` makes it, with the number that it is given; there are at most `most`.
    ///
    /// # Errors
    /// ENOENT, EEXIST, ENOSPC, ENOMEM; those of `make`.
    pub fn get(
        &self,
        key: i32,
        flags: u32,
        most: u64,
        make: &dyn Fn(i32) -> Result<Arc<T>>,
    ) -> Result<Found<T>> {
        if key == PRIVATE {
            return self.put(most, make, None).map(Found::New);
        }
        let bucket = self.bucket(key).ok_or(ENOMEM)?;
        loop {
            if let Some(id) = self.find_key(bucket, key) {
                if flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE {
                    return Err(EEXIST);
                }
                match self.find(id) {
                    Ok(object) => return Ok(Found::Old(object)),
                    // It has just been removed, and its key with it.
                    Err(_) => continue,
                }
            }
            if flags & CREATE == 0 {
                return Err(ENOENT);
            }
            match self.put(most, make, Some((bucket, key))) {
                // Somebody else was first.
                Err(EEXIST) => {}
                made => return made.map(Found::New),
            }
        }
    }

    /// Puts a new object into a place, and its key on the chain.
    ///
    /// # Errors
    /// EEXIST: the key is taken.
    fn put(
        &self,
        most: u64,
        make: &dyn Fn(i32) -> Result<Arc<T>>,
        key: Option<(&Bucket, i32)>,
    ) -> Result<i32> {
        let mut claim = self.claim(most)?;
        let id = claim.id;
        let object = make(id)?;
        let Some((bucket, key)) = key else {
            claim.place.object.swap(Some(object));
            claim.filled = true;
            return Ok(id);
        };
        let prepared = Prepared::try_new(Key { key, id })?;
        let lock = bucket.lock.lock();
        if self.find_key(bucket, key).is_some() {
            drop(lock);
            return Err(EEXIST);
        }
        claim.place.object.swap(Some(object));
        claim.filled = true;
        bucket.chain.push_prepared(prepared);
        Ok(id)
    }

    /// Nobody finds the object by its key any more. Who removes it calls this once, and holds no lock.
    pub fn forget_key(&self, object: &T) {
        let (id, key) = (object.perm().id, object.perm().key());
        if key != PRIVATE
            && let Some(bucket) = self.bucket(key)
        {
            let lock = bucket.lock.lock();
            bucket.chain.remove(|taken| taken.id == id, &rcu::read());
            drop(lock);
            object.perm().forget_key();
        }
    }

    /// Takes the object out of the table. The one who has said that it is removed calls this, once, and holds no lock.
    pub fn remove(&self, object: &T) {
        self.forget_key(object);
        let id = object.perm().id;
        if let Some(place) = self.made(place_of(id)) {
            place.object.swap(None);
            place.release(u32::from(sequence_of(id)).wrapping_add(1));
            self.count.give_back(1);
        }
    }
}

const _: () = assert!(BLOCK.is_power_of_two());
