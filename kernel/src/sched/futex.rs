//! Waiting on a word of user memory (futex(2)).
//!
//! Waiters lie in buckets by a hash of what the word *is*: address space and address for a private futex, object and offset
//! for a shared one. A waiter compares the word under its bucket's lock, so a wake that comes after the word was changed
//! finds it. Buckets have a cache line each: futexes of unrelated programs meet only by chance.
//!
//! LockOrder: bucket → run queue; two buckets (requeue) in the order of their index. The word is read under the bucket's
//! lock without faulting; a page that is not there is brought in with the lock dropped.

use super::give_way;
use super::task::current;
use super::timer::Deadline;
use super::wait::{Sleep, WaitAdapter, WaitNode, Woken, sleep_alone};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::memory::Space;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use intrusive_collections::LinkedList;
use sync::level::Held;
use sync::{SpinLock, lock_class};
use vm::FutexKey;
use vm::addr::VirtAddr;

lock_class! { static FUTEX: LockClass = ("futex bucket", level::Futex); }

/// Matches every waiter (FUTEX_BITSET_MATCH_ANY).
pub const ANY: u32 = u32::MAX;

/// What a futex word is, whatever address it is seen at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The space (private) or the object (shared).
    pub owner: usize,
    /// The address or the offset.
    pub place: usize,
}

impl Key {
    /// What the word at `address` of `space` is. `private`: only the threads of that space wait on it.
    ///
    /// # Errors
    /// EINVAL: misaligned. EFAULT.
    pub fn of(space: &Space, address: usize, private: bool) -> Result<Self> {
        if address & 3 != 0 {
            return Err(Errno::EINVAL);
        }
        if address >= arch::USER_END {
            return Err(Errno::EFAULT);
        }
        if private {
            return Ok(Self { owner: space.id() as usize, place: address });
        }
        Ok(match space.futex_key(VirtAddr(address)).map_err(|_| Errno::EFAULT)? {
            FutexKey::Private(space, address) => Self { owner: space as usize, place: address },
            FutexKey::Shared(object, offset) => Self { owner: object, place: offset as usize },
        })
    }
}

/// The futex that a node in a bucket waits on.
pub(super) struct FutexWait {
    owner: AtomicUsize,
    place: AtomicUsize,
    bits: AtomicU32,
    /// The bucket that the node is in; changes under the locks of both buckets.
    bucket: AtomicUsize,
}

impl FutexWait {
    pub(super) const fn new() -> Self {
        Self {
            owner: AtomicUsize::new(0),
            place: AtomicUsize::new(0),
            bits: AtomicU32::new(0),
            bucket: AtomicUsize::new(0),
        }
    }

    fn key(&self) -> Key {
        Key { owner: self.owner.load(Ordering::Relaxed), place: self.place.load(Ordering::Relaxed) }
    }

    fn set_key(&self, key: Key) {
        self.owner.store(key.owner, Ordering::Relaxed);
        self.place.store(key.place, Ordering::Relaxed);
    }
}

const BUCKETS: usize = 1024;

#[repr(align(64))]
struct Bucket(SpinLock<LinkedList<WaitAdapter>, level::Futex>);

static BUCKET: [Bucket; BUCKETS] =
    [const { Bucket(SpinLock::new(LinkedList::new(WaitAdapter::NEW), &FUTEX)) }; BUCKETS];

type List = LinkedList<WaitAdapter>;

fn index_of(key: Key) -> usize {
    let mixed = (key.owner.rotate_left(17) ^ (key.place >> 2)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> (usize::BITS - BUCKETS.ilog2())
}

/// Reads the word at `address` without faulting pages in.
fn read_resident(address: usize) -> Option<u32> {
    arch::user::load_u32_nofault(address).ok()
}

/// Sleeps until woken, if the word at `address` still holds `expected`.
///
/// # Errors
/// EAGAIN: it does not. EFAULT: no such memory. ETIMEDOUT. EINTR: a signal.
pub fn wait(key: Key, address: usize, expected: u32, bits: u32, deadline: Option<Deadline>) -> Result {
    let task = current();
    let node = &task.sleep_node;
    let index = index_of(key);
    loop {
        let mut bucket = BUCKET[index].0.lock();
        let Some(value) = read_resident(address) else {
            drop(bucket);
            arch::user::load_u32(address)?;
            continue;
        };
        if value != expected {
            return Err(Errno::EAGAIN);
        }
        node.futex.set_key(key);
        node.futex.bits.store(bits, Ordering::Relaxed);
        node.futex.bucket.store(index, Ordering::Relaxed);
        node.woken.store(false, Ordering::Relaxed);
        bucket.push_back(node.clone());
        break;
    }
    let result =
        sleep_alone(Sleep::Interruptible, deadline, || node.woken.load(Ordering::SeqCst).then_some(()));
    leave(node);
    match result {
        Ok(()) => Ok(()),
        // Woken in the meantime: the wake counts, or it would be lost.
        Err(_) if node.woken.load(Ordering::SeqCst) => Ok(()),
        Err(Woken::Timeout) => Err(Errno::ETIMEDOUT),
        Err(Woken::Signal) => Err(Errno::EINTR),
    }
}

/// Takes this task's node off whatever bucket it is in by now.
fn leave(node: &Arc<WaitNode>) {
    loop {
        let index = node.futex.bucket.load(Ordering::Acquire);
        let mut bucket = BUCKET[index].0.lock();
        if node.futex.bucket.load(Ordering::Relaxed) != index {
            continue;
        }
        if !node.woken.load(Ordering::Relaxed) && node.link.is_linked() {
            // SAFETY: linked in this bucket, whose lock is held.
            drop(unsafe { bucket.cursor_mut_from_ptr(Arc::as_ptr(node)) }.remove());
        }
        return;
    }
}

/// Most waiters that are woken under a bucket's lock, before others may run.
const TURN: u32 = 64;

/// How many waiters are to be woken yet.
struct Left(u32);

impl Left {
    /// One round was made with the bucket locked, and `woken` is how many it woke. True: another is to be made, after a rest. It wakes no more than
    /// wait by the end of the first round, or waiters that wait again at once could keep it busy for ever.
    fn goes_on(&mut self, woken: u32, bucket: &List, key: Key, bits: u32) -> bool {
        if woken < TURN {
            return false;
        }
        self.0 = self.0.saturating_sub(woken);
        if self.0 == 0 {
            return false;
        }
        let waiting = bucket.iter().filter(|node| is_meant(node, key, bits)).count();
        self.0 = self.0.min(u32::try_from(waiting).unwrap_or(u32::MAX));
        self.0 != 0
    }
}

/// Wakes up to `count` waiters on `key` whose bits meet `bits`; returns how many. Gives way; a fatal signal ends it.
pub fn wake(key: Key, count: u32, bits: u32) -> u32 {
    let (mut left, mut all) = (Left(count), 0u32);
    loop {
        let goes_on = {
            let mut bucket = BUCKET[index_of(key)].0.lock();
            let (bucket, order) = bucket.split();
            let woken = wake_in(bucket, key, left.0.min(TURN), bits, order);
            all = all.saturating_add(woken);
            left.goes_on(woken, bucket, key, bits)
        };
        if !goes_on || give_way() {
            return all;
        }
    }
}

/// Wakes one waiter on the word at `address` of `space`, whichever kind of futex it is to those who wait. A bad address wakes nobody.
pub fn wake_one_at(space: &Space, address: usize) {
    for private in [true, false] {
        if let Ok(key) = Key::of(space, address, private) {
            wake(key, 1, ANY);
        }
    }
}

fn is_meant(node: &WaitNode, key: Key, bits: u32) -> bool {
    node.futex.key() == key && node.futex.bits.load(Ordering::Relaxed) & bits != 0
}

fn wake_in(bucket: &mut List, key: Key, count: u32, bits: u32, order: &mut Held<'_, level::Futex>) -> u32 {
    let mut woken = 0;
    let mut cursor = bucket.front_mut();
    while woken < count {
        let Some(node) = cursor.get() else { break };
        if !is_meant(node, key, bits) {
            cursor.move_next();
            continue;
        }
        if let Some(node) = cursor.remove() {
            node.wake(order.reborrow().lower());
            woken += 1;
        }
    }
    woken
}

/// Wakes `count` waiters on `from` and lets up to `moved` others wait on `to` instead. With `expected`, only if the word at
/// `address` still holds it. Returns how many were woken, and how many were moved.
///
/// # Errors
/// EAGAIN: the word has changed. EFAULT.
pub fn requeue(
    from: Key,
    to: Key,
    count: u32,
    moved: u32,
    address: usize,
    expected: Option<u32>,
) -> Result<(u32, u32)> {
    let (mut left, mut all, mut expected) = (Left(count), 0u32, expected);
    loop {
        // None: the word has to be brought in.
        let done = with_two(index_of(from), index_of(to), |source, target, order| {
            if let Some(expected) = expected {
                match read_resident(address) {
                    Some(value) if value == expected => {}
                    Some(_) => return Some(Err(Errno::EAGAIN)),
                    None => return None,
                }
            }
            let woken = wake_in(source, from, left.0.min(TURN), ANY, order);
            all = all.saturating_add(woken);
            if left.goes_on(woken, source, from, ANY) {
                return Some(Ok(None));
            }
            Some(Ok(Some(move_waiters(source, target, from, to, moved))))
        });
        match done {
            Some(Ok(Some(moved))) => return Ok((all, moved)),
            Some(Err(errno)) => return Err(errno),
            // The word was as expected when the first were woken.
            Some(Ok(None)) => expected = None,
            None => {
                arch::user::load_u32(address)?;
            }
        }
        if give_way() {
            return Ok((all, 0));
        }
    }
}

fn move_waiters(source: &mut List, mut target: Option<&mut List>, from: Key, to: Key, limit: u32) -> u32 {
    let mut moved = 0;
    let mut cursor = source.front_mut();
    while moved < limit {
        let Some(node) = cursor.get() else { break };
        if node.futex.key() != from {
            cursor.move_next();
            continue;
        }
        moved += 1;
        match &mut target {
            None => {
                node.futex.set_key(to);
                cursor.move_next();
            }
            Some(target) => {
                if let Some(node) = cursor.remove() {
                    node.futex.set_key(to);
                    node.futex.bucket.store(index_of(to), Ordering::Release);
                    target.push_back(node);
                }
            }
        }
    }
    moved
}

/// Does `f` with two buckets locked, the lower index first; with one if they are the same.
fn with_two<R>(
    first: usize,
    second: usize,
    f: impl FnOnce(&mut List, Option<&mut List>, &mut Held<'_, level::Futex>) -> R,
) -> R {
    let mut lower = BUCKET[first.min(second)].0.lock();
    let (lower, order) = lower.split();
    if first == second {
        return f(lower, None, order);
    }
    let mut upper = BUCKET[first.max(second)].0.lock_nested_in(order);
    let (upper, order) = upper.split();
    if first < second { f(lower, Some(upper), order) } else { f(upper, Some(lower), order) }
}

/// FUTEX_WAKE_OP: changes the word at `address` by `change` in one step, wakes waiters on `first`, and those on `second`
/// if `test` holds of the old value.
///
/// # Errors
/// EFAULT.
pub fn wake_op(
    (first, count): (Key, u32),
    (second, count_second): (Key, u32),
    address: usize,
    change: impl Fn(u32) -> u32,
    test: impl Fn(u32) -> bool,
) -> Result<u32> {
    let mut old = arch::user::load_u32(address)?;
    loop {
        match arch::user::compare_exchange_u32(address, old, change(old))? {
            seen if seen == old => break,
            seen => old = seen,
        }
    }
    let mut woken = wake(first, count, ANY);
    if test(old) {
        woken += wake(second, count_second, ANY);
    }
    Ok(woken)
}
