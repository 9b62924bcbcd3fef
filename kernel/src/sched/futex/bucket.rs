//! The buckets in which waiters lie, by a hash of their futex. A bucket has a line of its own. One in which waiters on several futexes crowd splits into
//! children, once; so what a wake costs does not grow with the waiters on other futexes, and a process has memory for as many as it needs.
//!
//! Of a futex that lends priority its state lies here, in which its waiters are (`pi`). Who waits to be moved to such a futex lies here with no bits,
//! and no wake is meant for it.
//!
//! How a split and wakes without a lock go together: `sync::protocol::presence`.
//!
//! Lock order: a bucket → its child (while it splits, nobody holds the child and waits for another); two buckets of a requeue by address.

mod members;

use super::super::task::current;
use super::super::wait::{WaitAdapter, WaitNode};
use super::FUTEX;
use super::key::Word;
use super::pi::StateAdapter;
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

/// The bits of who waits to be moved to a futex that lends priority.
pub(super) const TO_BE_MOVED: u32 = 0;

type List = LinkedList<WaitAdapter>;
type States = LinkedList<StateAdapter>;
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

    /// Does it wait to be moved to a futex that lends priority?
    pub(super) fn is_to_be_moved(&self) -> bool {
        self.bits.load(Ordering::Relaxed) == TO_BE_MOVED
    }

    fn is_meant(&self, word: Word, bits: u32) -> bool {
        self.word() == word && self.bits.load(Ordering::Relaxed) & bits != 0
    }
}

/// What lies in a bucket.
struct Lists {
    waiters: List,
    /// Of futexes that lend priority, and have waiters.
    states: States,
}

/// Waiters, or children. A line.
#[repr(align(64))]
pub(in crate::sched) struct Bucket {
    lists: SpinLock<Lists, level::Futex>,
    /// Waiters and states.
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
        const { assert!(size_of::<Bucket>() == 64) };
        let lists =
            Lists { waiters: LinkedList::new(WaitAdapter::NEW), states: LinkedList::new(StateAdapter::NEW) };
        Self { lists: SpinLock::new(lists, &FUTEX), presence: Presence::new(), children: OnceBox::new() }
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
        let mut place = self;
        loop {
            if place.bucket.presence.look() == Found::Split {
                place = place.below();
            }
            let mut lists = place.bucket.lists.lock();
            if place.bucket.presence.look() != Found::Split {
                let (lists, order) = lists.split();
                return f(place, Members { lists, bucket: place.bucket }, order);
            }
        }
    }

    /// Does `f` with the waiters.
    #[inline(always)]
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
            let mut lower_lock = lower.lists.lock();
            let (lists, order) = lower_lock.split();
            let mut lower_members = Members { lists, bucket: lower };
            if lower.presence.look() == Found::Split {
                continue;
            }
            if core::ptr::eq(lower, upper) {
                return f(&mut lower_members, None, order);
            }
            let mut upper_lock = upper.lists.lock_nested_in(order);
            let (lists, order) = upper_lock.split();
            let mut upper_members = Members { lists, bucket: upper };
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
                // Its own: what others lend it does not count, as on Linux.
                node.priority.store(current().own_class().priority() as u8, Ordering::Relaxed);
                // SAFETY: it is the running task's, or one that the task keeps (`several`), and the task takes it off before it goes on: `leave`.
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
    lists: &'m mut Lists,
    bucket: &'m Bucket,
}

/// Takes the caller's node off whatever bucket it is in by now. False: it was in none any more.
#[inline(always)]
pub(super) fn leave(node: &WaitNode) -> bool {
    loop {
        // SAFETY: the bucket that the caller joined or was moved to: one of the shared table, or of the space that the caller has (`Key::place_after`).
        let Some(bucket) = (unsafe { node.futex.bucket.load(Ordering::Acquire).as_ref() }) else {
            return false;
        };
        let mut lists = bucket.lists.lock();
        if !node.is_in(bucket) {
            continue;
        }
        let is_linked = node.link.is_linked();
        if is_linked {
            // SAFETY: linked in this bucket, whose lock is held.
            unsafe { lists.waiters.cursor_mut_from_ptr(node) }.remove();
            bucket.presence.leave();
        }
        return is_linked;
    }
}
