//! The buckets in which waiters lie, by a hash of their futex. A bucket has a line of its own. One in which waiters on several futexes crowd splits into
//! children, once; so what a wake costs does not grow with the waiters on other futexes, and a process has memory for as many as it needs.
//!
//! How a split and wakes without a lock go together: `sync::protocol::presence`.
//!
//! Lock order: a bucket → its child (while it splits, nobody holds the child and waits for another); two buckets of a requeue by address.

use super::super::task::current;
use super::super::wait::{WaitAdapter, WaitNode};
use super::FUTEX;
use super::key::Word;
use crate::lock_order as level;
use alloc::boxed::Box;
use core::sync::atomic::Ordering;
use intrusive_collections::{LinkedList, UnsafeRef};
use sync::heap::try_box_slice;
use sync::level::Held;
use sync::protocol::presence::{Found, Presence};
use sync::{AllocError, SpinLock};
use vm::OnceBox;

/// Children of a bucket.
const CHILDREN: usize = 16;
/// A bucket does not split where so many bits of the hash lead to it.
const MOST_BITS: u32 = 14;
/// A bucket splits when so many are in it who wait on other futexes than the one who comes,
const CROWD: usize = 2;
/// of so many that are looked at.
const LOOKED_AT: usize = 16;
/// A bucket with more does not split: it is split in one go, with its lock held.
const MOST_MOVED: usize = 2048;

type List = LinkedList<WaitAdapter>;
pub(super) type Order<'a> = Held<'a, level::Futex>;

/// What a node in a bucket knows of the futex that its task waits on.
impl WaitNode {
    fn word(&self) -> Word {
        Word {
            owner: self.futex.owner.load(Ordering::Relaxed),
            place: self.futex.place.load(Ordering::Relaxed),
        }
    }

    fn set_word(&self, word: Word) {
        self.futex.owner.store(word.owner, Ordering::Relaxed);
        self.futex.place.store(word.place, Ordering::Relaxed);
    }

    fn is_in(&self, bucket: &Bucket) -> bool {
        core::ptr::eq(self.futex.bucket.load(Ordering::Relaxed), bucket)
    }

    fn set_bucket(&self, bucket: &Bucket) {
        self.futex.bucket.store(core::ptr::from_ref(bucket).cast_mut(), Ordering::Release);
    }

    fn is_meant(&self, word: Word, bits: u32) -> bool {
        self.word() == word && self.bits.load(Ordering::Relaxed) & bits != 0
    }
}

/// Waiters, or children.
#[repr(align(64))]
pub(in crate::sched) struct Bucket {
    waiters: SpinLock<List, level::Futex>,
    presence: Presence,
    children: OnceBox<[Bucket; CHILDREN]>,
}

/// Where waiters on shared memory lie, whoever they are. These do not split.
pub(super) static SHARED: [Bucket; 1024] = [const { Bucket::new() }; 1024];

/// A table of empty buckets.
pub(super) fn table<const N: usize>() -> Result<Box<[Bucket; N]>, AllocError> {
    try_box_slice(N, |_| Bucket::new())?.try_into().map_err(|_| AllocError)
}

impl Bucket {
    const fn new() -> Self {
        let waiters = SpinLock::new(LinkedList::new(WaitAdapter::NEW), &FUTEX);
        Self { waiters, presence: Presence::new(), children: OnceBox::new() }
    }
}

/// Where waiters on a futex lie: a bucket of a table, or below it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    bucket: &'a Bucket,
    hash: u64,
    /// How many bits of the hash lead to the bucket.
    bits: u32,
}

impl<'a> Place<'a> {
    /// The place in `table`, whose length is a power of two.
    #[inline]
    pub(super) fn in_table<const N: usize>(table: &'a [Bucket; N], hash: u64) -> Self {
        let bits = const { N.ilog2() };
        Self { bucket: &table[(hash >> (u64::BITS - bits)) as usize], hash, bits }
    }

    /// Is it in the shared table?
    pub(super) fn is_shared(self) -> bool {
        SHARED.as_ptr_range().contains(&core::ptr::from_ref(self.bucket))
    }

    /// Is nobody there? Of wakers behind `presence::before_look`. Writes nothing.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self.bucket.presence.look() {
            Found::Nobody => true,
            Found::Waiters(_) => false,
            Found::Split => self.below().bucket.presence.look() == Found::Nobody,
        }
    }

    fn child(self, children: &'a [Bucket; CHILDREN]) -> Self {
        Self {
            bucket: &children[child_index(self.hash, self.bits)],
            bits: self.bits + CHILDREN.ilog2(),
            ..self
        }
    }

    /// The bucket in which waiters lie just now.
    #[inline]
    fn settled(self) -> Self {
        if self.bucket.presence.look() == Found::Split { self.below() } else { self }
    }

    #[cold]
    fn below(mut self) -> Self {
        // They are there before the bucket is split.
        while self.bucket.presence.look() == Found::Split
            && let Some(children) = self.bucket.children.get()
        {
            self = self.child(children);
        }
        self
    }

    /// Does `f` with the bucket in which waiters lie locked.
    fn lock<R>(self, f: impl FnOnce(Self, Members<'_>, &mut Order<'_>) -> R) -> R {
        loop {
            let place = self.settled();
            let mut waiters = place.bucket.waiters.lock();
            if place.bucket.presence.look() != Found::Split {
                let (list, order) = waiters.split();
                return f(place, Members { list, bucket: place.bucket }, order);
            }
        }
    }

    /// Does `f` with the waiters.
    pub(super) fn with<R>(self, f: impl FnOnce(&mut Members<'_>, &mut Order<'_>) -> R) -> R {
        self.lock(|_, mut members, order| f(&mut members, order))
    }

    /// Does `f` with the waiters of both places; with those of one if they lie in one bucket. Of two the lower address is locked first.
    pub(super) fn with_both<R>(
        self,
        other: Place<'_>,
        f: impl FnOnce(&mut Members<'_>, Option<&mut Members<'_>>, &mut Order<'_>) -> R,
    ) -> R {
        loop {
            let (first, second) = (self.settled().bucket, other.settled().bucket);
            let in_order = core::ptr::from_ref(first) <= core::ptr::from_ref(second);
            let (lower, upper) = if in_order { (first, second) } else { (second, first) };
            let mut lower_lock = lower.waiters.lock();
            let (list, order) = lower_lock.split();
            let mut lower_members = Members { list, bucket: lower };
            if lower.presence.look() == Found::Split {
                continue;
            }
            if core::ptr::eq(lower, upper) {
                return f(&mut lower_members, None, order);
            }
            let mut upper_lock = upper.waiters.lock_nested_in(order);
            let (list, order) = upper_lock.split();
            let mut upper_members = Members { list, bucket: upper };
            if upper.presence.look() == Found::Split {
                continue;
            }
            return if in_order {
                f(&mut lower_members, Some(&mut upper_members), order)
            } else {
                f(&mut upper_members, Some(&mut lower_members), order)
            };
        }
    }

    /// Puts `node`, the caller's, among those who wait on `word`, if `may_wait`, which is asked under the lock and does not sleep. None: it cannot
    /// say now.
    pub(super) fn join(
        self,
        node: &WaitNode,
        word: Word,
        bits: u32,
        may_wait: impl Fn() -> Option<bool>,
    ) -> Option<bool> {
        loop {
            let joined = self.lock(|place, mut members, order| {
                if place.bits + CHILDREN.ilog2() <= MOST_BITS
                    && members.are_a_crowd_beside(word)
                    && members.split(place.bits, order)
                {
                    return None;
                }
                members.bucket.presence.enter();
                let may_wait = may_wait();
                if may_wait != Some(true) {
                    members.bucket.presence.leave();
                    return Some(may_wait);
                }
                node.set_word(word);
                node.bits.store(bits, Ordering::Relaxed);
                node.set_bucket(members.bucket);
                node.woken.store(false, Ordering::Relaxed);
                node.priority.store(current().class().priority() as u8, Ordering::Relaxed);
                // SAFETY: it is the running task's, which takes it off before it goes on: `leave`.
                members.insert(unsafe { UnsafeRef::from_raw(node) });
                Some(may_wait)
            });
            if let Some(joined) = joined {
                return joined;
            }
        }
    }
}

fn child_index(hash: u64, bits: u32) -> usize {
    (hash >> (u64::BITS - bits - CHILDREN.ilog2())) as usize % CHILDREN
}

/// The waiters of a bucket that is not split, which is locked.
pub(super) struct Members<'m> {
    list: &'m mut List,
    bucket: &'m Bucket,
}

impl Members<'_> {
    /// Are there many who wait on other futexes than `word`, and not too many to be moved?
    fn are_a_crowd_beside(&self, word: Word) -> bool {
        matches!(self.bucket.presence.look(), Found::Waiters(count) if (CROWD..=MOST_MOVED).contains(&(count as usize)))
            && self.has_crowd_beside(word)
    }

    #[cold]
    fn has_crowd_beside(&self, word: Word) -> bool {
        self.list.iter().take(LOOKED_AT).filter(|node| node.word() != word).count() >= CROWD
    }

    /// Puts all into children of the bucket. False: there is no memory for them.
    #[cold]
    fn split(&mut self, bits: u32, order: &mut Order<'_>) -> bool {
        let Ok(children) = self.bucket.children.get_or_try(table) else { return false };
        while let Some(node) = self.list.pop_front() {
            let child = &children[child_index(node.word().hash(), bits)];
            let mut waiters = child.waiters.lock_nested_in(order);
            // Who leaves finds the child by this, and locks it.
            node.set_bucket(child);
            child.presence.receive();
            waiters.push_back(node);
        }
        self.bucket.presence.split();
        true
    }

    /// Puts a waiter in its place: by its priority when it began to wait, and then behind those that came before, as Linux does.
    #[inline]
    fn insert(&mut self, node: UnsafeRef<WaitNode>) {
        if node.priority.load(Ordering::Relaxed) == 0 {
            self.list.push_back(node);
        } else {
            self.insert_by_priority(node);
        }
    }

    #[cold]
    fn insert_by_priority(&mut self, node: UnsafeRef<WaitNode>) {
        let priority = |node: &WaitNode| node.priority.load(Ordering::Relaxed);
        let mut cursor = self.list.front_mut();
        while cursor.get().is_some_and(|other| priority(other) >= priority(&node)) {
            cursor.move_next();
        }
        cursor.insert_before(node);
    }

    /// How many wait on `word` with one of `bits`.
    pub(super) fn count(&self, word: Word, bits: u32) -> usize {
        self.list.iter().filter(|node| node.is_meant(word, bits)).count()
    }

    /// Wakes up to `count` who wait on `word` with one of `bits`; returns how many.
    #[inline]
    pub(super) fn wake(&mut self, word: Word, count: u32, bits: u32, order: &mut Order<'_>) -> u32 {
        let mut woken = 0;
        let mut cursor = self.list.front_mut();
        while woken < count {
            let Some(node) = cursor.get() else { break };
            if !node.is_meant(word, bits) {
                cursor.move_next();
                continue;
            }
            if let Some(node) = cursor.remove() {
                self.bucket.presence.leave();
                node.wake(order.reborrow().lower());
                woken += 1;
            }
        }
        woken
    }

    /// Lets up to `limit` who wait on `from` wait on `to` instead, which lies in `target`, or in this bucket. Returns how many.
    pub(super) fn requeue(
        &mut self,
        mut target: Option<&mut Members<'_>>,
        from: Word,
        to: Word,
        limit: u32,
    ) -> u32 {
        let mut moved = 0;
        let mut cursor = self.list.front_mut();
        while moved < limit {
            let Some(node) = cursor.get() else { break };
            if node.word() != from {
                cursor.move_next();
                continue;
            }
            moved += 1;
            let Some(target) = &mut target else {
                node.set_word(to);
                cursor.move_next();
                continue;
            };
            if let Some(node) = cursor.remove() {
                self.bucket.presence.leave();
                target.bucket.presence.enter();
                node.set_word(to);
                node.set_bucket(target.bucket);
                target.insert(node);
            }
        }
        moved
    }
}

/// Takes the caller's node off whatever bucket it is in by now.
pub(super) fn leave(node: &WaitNode) {
    loop {
        // SAFETY: the bucket that the caller joined or was moved to: one of the shared table, or of the space that the caller has (`Key::place_after`).
        let Some(bucket) = (unsafe { node.futex.bucket.load(Ordering::Acquire).as_ref() }) else { return };
        let mut waiters = bucket.waiters.lock();
        if !node.is_in(bucket) {
            continue;
        }
        if !node.woken.load(Ordering::Relaxed) && node.link.is_linked() {
            // SAFETY: linked in this bucket, whose lock is held.
            unsafe { waiters.cursor_mut_from_ptr(node) }.remove();
            bucket.presence.leave();
        }
        return;
    }
}
