//! All mounts, found by the place that they hang on: a hash table of chains, which are read under RCU, and changed under `MOUNTS`.
//!
//! A mount that moves is in two chains meanwhile, and found in that of the place it hangs on just then. Of what hangs nowhere the root of everything is in a chain, and
//! the root of another namespace or of a tree that a descriptor holds, as if it hung on its own root.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::try_arc;

use super::{Mount, Owner, Path};
use crate::errno::Result;
use crate::fs::vfs::dentry::{Dentry, Seen};
use crate::sched::schedule_if_needed;

/// The owning handle of a mount.
pub(super) type Held = Arc<Owner<Mount>>;

/// With as many mounts as fs.mount-max allows by default, each chain has two dozen.
const CHAINS: usize = 4096;
const WORDS: usize = CHAINS / 64;
/// The highest bits of a hash are the number of its chain.
const SHIFT: u32 = 64 - CHAINS.ilog2();

pub(super) struct Link {
    mount: Held,
    /// The hash of the place that it is in the table for: of the others on its chain nothing else is looked at.
    hash: AtomicU64,
    next: RcuArc<Link>,
    rcu: RcuHead,
}

sync::rcu_object!(Link);

impl Drop for Link {
    /// Of links that have left one after the other each is dropped in a callback of its own.
    fn drop(&mut self) {
        drop(self.next.take());
    }
}

static TABLE: [RcuArc<Link>; CHAINS] = [const { RcuArc::empty() }; CHAINS];
/// Bit `n % 64` of word `n / 64`: chain `n` may have something. Set before it has, and cleared when it has not, under `MOUNTS`.
static OCCUPIED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// Bit `n`: word `n` of `OCCUPIED` may have a bit. As above.
static WORDS_OCCUPIED: AtomicU64 = AtomicU64::new(0);
const _: () = assert!(WORDS <= 64);
/// How many have moved.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// The hash of what hangs on `dentry` in `mount`. The root of everything hangs on nothing.
fn hash(place: Option<(&Mount, &Dentry)>) -> u64 {
    let key = place.map_or(0, |(mount, dentry)| {
        (ptr::from_ref(mount).addr() as u64).rotate_left(32) ^ ptr::from_ref(dentry).addr() as u64
    });
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn hash_of(point: Option<&Path>) -> u64 {
    hash(point.map(|point| (&*point.mount, &*point.dentry)))
}

/// The number of its chain.
fn number(hash: u64) -> usize {
    (hash >> SHIFT) as usize
}

fn chain(number: usize) -> &'static RcuArc<Link> {
    let [first, ..] = &TABLE;
    TABLE.get(number).unwrap_or(first)
}

/// Says of chain `number` whether it has something. With `MOUNTS`.
fn set_occupied(number: usize, occupied: bool) {
    let Some(word) = OCCUPIED.get(number / 64) else { return };
    let bit = 1 << (number % 64);
    let above = 1 << (number / 64);
    if occupied {
        word.fetch_or(bit, Release);
        WORDS_OCCUPIED.fetch_or(above, Release);
    } else if word.fetch_and(!bit, Release) == bit {
        WORDS_OCCUPIED.fetch_and(!above, Release);
    }
}

impl Link {
    pub(super) fn mount(&self) -> &Mount {
        &self.mount
    }

    /// # Errors
    /// ENOMEM.
    pub(super) fn try_new(mount: Held) -> Result<Arc<Link>> {
        let hash = AtomicU64::new(0);
        Ok(try_arc(Link { mount, hash, next: RcuArc::empty(), rcu: RcuHead::new() })?)
    }
}

/// The mount of `link` is in its tree from now on. `point` is where it hangs; if `upper` hangs there too, a walk finds that.
pub(super) fn enter(link: Arc<Link>, point: Option<&Path>, upper: Option<&Mount>) {
    put(link, point, upper);
}

/// Puts a link first into its chain, or behind that of the mount `first`, which hangs there.
fn put(link: Arc<Link>, point: Option<&Path>, first: Option<&Mount>) {
    let read = sync::rcu::read();
    let hash = hash_of(point);
    let number = number(hash);
    let mut cell = chain(number);
    if let Some(first) = first {
        let mut at = cell.load(&read);
        while let Some(other) = at {
            if ptr::eq::<Mount>(&**other.mount, first) {
                cell = &other.next;
                break;
            }
            at = other.next.load(&read);
        }
    }
    link.hash.store(hash, Relaxed);
    link.next.swap(cell.get(&read));
    set_occupied(number, true);
    cell.swap(Some(link));
}

/// A mount that hung on `point` is in its tree no more.
pub(super) fn leave(mount: &Mount, point: &Path) {
    take(mount, point, None);
}

fn take(mount: &Mount, point: &Path, but: Option<&Link>) {
    let read = sync::rcu::read();
    let number = number(hash_of(Some(point)));
    let mut cell = chain(number);
    while let Some(link) = cell.load(&read) {
        if ptr::eq::<Mount>(&**link.mount, mount) && !but.is_some_and(|but| ptr::eq(but, link)) {
            cell.swap(link.next.get(&read));
            if chain(number).load(&read).is_none() {
                set_occupied(number, false);
            }
            return;
        }
        cell = &link.next;
    }
}

/// The mount of `link`, which hangs on `from`, hangs on `to` once `change` was called; below the mount `upper`, if there is one, which hangs there.
pub(super) fn change(link: Arc<Link>, from: &Path, to: &Path, upper: Option<&Mount>, change: impl FnOnce()) {
    MOVES.fetch_add(1, Relaxed);
    put(link.clone(), Some(to), upper);
    change();
    take(&link.mount, from, Some(&link));
    MOVES.fetch_add(1, Relaxed);
}

/// The mount that covers `dentry` in `mount`: the last one made there.
pub(super) fn find<'g>(mount: &Mount, dentry: &Dentry, read: &'g RcuRead) -> Option<Seen<'g, Mount>> {
    let hash = hash(Some((mount, dentry)));
    let is_here = |point: &Path| ptr::eq(&*point.mount, mount) && ptr::eq(&*point.dentry, dentry);
    let mut at = chain(number(hash)).load(read);
    while let Some(link) = at {
        if link.hash.load(Relaxed) == hash && link.mount.point(read).is_some_and(is_here) {
            link.mount.note_use();
            return Some(Seen::Owned(&link.mount));
        }
        at = link.next.load(read);
    }
    None
}

/// The owning handle of what was mounted at `place` last, but for `other`.
pub(super) fn last_at(place: &Path, other: Option<&Mount>) -> Option<Held> {
    let read = sync::rcu::read();
    let is_here =
        |point: &Path| ptr::eq(&*point.mount, &*place.mount) && ptr::eq(&*point.dentry, &*place.dentry);
    let mut at = chain(number(hash_of(Some(place)))).load(&read);
    while let Some(link) = at {
        let mount: &Mount = &link.mount;
        if mount.point(&read).is_some_and(is_here) && !other.is_some_and(|other| ptr::eq(other, mount)) {
            return Some(link.mount.clone());
        }
        at = link.next.load(&read);
    }
    None
}

/// The owning handle of a mount that hangs on `point`.
pub(super) fn held(mount: &Mount, point: &Path, read: &RcuRead) -> Option<Held> {
    let mut at = chain(number(hash_of(Some(point)))).load(read);
    while let Some(link) = at {
        if ptr::eq::<Mount>(&**link.mount, mount) {
            return Some(link.mount.clone());
        }
        at = link.next.load(read);
    }
    None
}

/// Calls `f` for each mount, and gives way between chains. One that comes or goes meanwhile is there or not; without `MOUNTS` one that moves may be there
/// twice, or not.
pub(super) fn for_each(mut f: impl FnMut(&Held, &RcuRead) -> Result) -> Result {
    let mut words = WORDS_OCCUPIED.load(Acquire);
    while let Some(occupied) = OCCUPIED.get(words.trailing_zeros() as usize) {
        let first = (words.trailing_zeros() as usize) << 6;
        words &= words.wrapping_sub(1);
        let mut left = occupied.load(Acquire);
        while left != 0 {
            let chain = chain(first | left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            {
                let read = sync::rcu::read();
                let mut at = chain.load(&read);
                while let Some(link) = at {
                    f(&link.mount, &read)?;
                    at = link.next.load(&read);
                }
            }
            schedule_if_needed();
        }
    }
    Ok(())
}

/// What `collect` gathers of all mounts: once more if any has moved meanwhile, unless they move again and again.
pub(super) fn unmoved<R>(collect: impl Fn() -> Result<R>) -> Result<R> {
    const TRIES: u32 = 8;
    for _ in 1..TRIES {
        let before = MOVES.load(Relaxed);
        let all = collect()?;
        if MOVES.load(Relaxed) == before && before.is_multiple_of(2) {
            return Ok(all);
        }
    }
    collect()
}
