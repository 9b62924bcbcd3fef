//! Dentries: names in the tree. A dentry is owned by the name table of its parent (`directory`), or by its super block if
//! it is a root; everyone else holds `HotRef`s, which count on the holder's CPU, so that all CPUs can open one file at
//! once. Dentries of file systems that make names up (procfs) have no owner at all and live as long as they are held.
//!
//! Parent and name lie together behind one RCU pointer that rename swaps: a reader sees the old pair or the new.
//!
//! All else that changes is one word, `state`, which is zero for a name that a walk has nothing to do for but to pass: where the
//! cache is the directory and nothing is mounted. Mounts and removal exclude each other there: a name whose removal has begun takes
//! no mount, and a mount point is not removed, without a common lock.
//!
//! An *absent* dentry stands in the cache for a name that the file system does not have. It is never given out.
//!
//! No locks here.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::Deref;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use sync::percpu_ref::{PerCpuArc as HotRef, PerCpuOwner as Owner};
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{TryVec, slab_arc, slab_box};

use super::directory::Directory;
use crate::bytes;
use crate::errno::{EBUSY, ENAMETOOLONG, ENOENT, ESTALE, Result};
use crate::fs::vfs::inode::{Inode, Kind};
use crate::fs::vfs::notify;

pub type DentryRef = HotRef<Dentry>;

/// Longest name of one component.
pub const NAME_MAX: usize = 255;

/// A component's text with its hash.
pub struct Name {
    pub hash: u64,
    pub bytes: Text,
}

/// The bytes of a name: a short one lies in place, so that it is one object, and one cache line.
pub enum Text {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

/// So many that a name with its count fills a cache line.
const SHORT: usize = 38;

impl Text {
    fn try_new(bytes: &[u8]) -> Result<Text> {
        let mut short = [0; SHORT];
        if let (Ok(len), Some(place)) = (u8::try_from(bytes.len()), short.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
            return Ok(Text::Short(len, short));
        }
        // Of the exact size, so that making it a box moves nothing.
        let mut copy = sync::heap::try_vec(bytes.len())?;
        copy.try_extend_from_slice(bytes)?;
        Ok(Text::Long(copy.into_boxed_slice()))
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match self {
            Text::Short(len, short) => short.get(..usize::from(*len)).unwrap_or(&[]),
            Text::Long(long) => long,
        }
    }
}

vm::slab_type!(Name, "name", Arc);

impl Name {
    pub fn try_new(bytes: &[u8]) -> Result<Arc<Name>> {
        if bytes.len() > NAME_MAX {
            return Err(ENAMETOOLONG);
        }
        Ok(slab_arc(Name { hash: hash(bytes), bytes: Text::try_new(bytes)? })?)
    }
}

/// Eight bytes a step; the last multiplication spreads the entropy to the low bits that pick a bucket.
pub fn hash(name: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = name.len() as u64 ^ 0x5851_f42d_4c95_7f2d;
    let mut mix = |word: u64| {
        h = (h ^ word).wrapping_mul(K);
        h ^= h >> 29;
    };
    let (words, tail) = name.as_chunks();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    if !tail.is_empty() {
        mix(bytes::word(tail));
    }
    h.wrapping_mul(K) >> 16
}

/// Where a dentry hangs.
pub struct Link {
    /// `None` for roots.
    pub parent: Option<DentryRef>,
    pub name: Arc<Name>,
    rcu: RcuHead,
}

vm::slab_type!(Link, "dentry-link", Arc);

sync::rcu_object!(Link);

impl Link {
    pub fn try_new(parent: Option<DentryRef>, name: Arc<Name>) -> Result<Arc<Link>> {
        Ok(slab_arc(Link { parent, name, rcu: RcuHead::new() })?)
    }
}

/// The bits of a dentry's state; those below count the mounts on it.
const MOUNTS: u32 = (1 << 24) - 1;
/// The name is gone: unlink, rmdir, replaced by rename, or found gone.
const REMOVED: u32 = 1 << 31;
/// Its removal is under way.
const LEAVING: u32 = 1 << 30;
/// In a cache that is not the directory itself (`cache`).
const CACHED: u32 = 1 << 29;
/// Used since the shrinker came by.
const USED: u32 = 1 << 28;
/// Taken out of its directory's table by the shrinker, or because it was found gone.
const EVICTED: u32 = 1 << 27;
/// The file system has no such name.
const ABSENT: u32 = 1 << 26;
/// No table has it: it lives as long as it is held.
const UNOWNED: u32 = 1 << 24;

pub struct Dentry {
    pub inode: Arc<Inode>,
    link: RcuArc<Link>,
    /// Of directories.
    pub directory: Option<Box<Directory>>,
    state: AtomicU32,
    /// Its directory was watched while the name was there: what happens to the file is told there, if that is still so. Set and never taken off,
    /// under the directory's lock.
    told: AtomicBool,
    /// Until when, in nanoseconds since boot, what the file system said of the name is believed.
    until: AtomicU64,
}

vm::slab_type!(Dentry, "dentry", PerCpuArc);

impl Dentry {
    /// A new dentry and its owner.
    pub fn try_new(inode: Arc<Inode>, parent: Option<DentryRef>, name: Arc<Name>) -> Result<Owner<Dentry>> {
        Ok(Owner::try_slab(Dentry::below(inode, parent, name, 0)?)?)
    }

    /// What a dentry of that name has.
    #[inline(always)]
    fn below(inode: Arc<Inode>, parent: Option<DentryRef>, name: Arc<Name>, state: u32) -> Result<Dentry> {
        let directory = match inode.kind {
            Kind::Directory => {
                let above = parent.as_ref().and_then(|p| p.directory.as_deref());
                Some(slab_box(Directory::try_below(above)?)?)
            }
            _ => None,
        };
        let told = parent.as_ref().is_some_and(|parent| notify::wants_children(&parent.inode));
        let link = Link::try_new(parent, name)?;
        let dentry = Dentry::with(inode, Some(link), directory, state);
        dentry.told.store(told, Relaxed);
        Ok(dentry)
    }

    /// The root of a file system whose directories are cached.
    pub fn try_cached_root(inode: Arc<Inode>) -> Result<Owner<Dentry>> {
        let directory = slab_box(Directory::try_cached()?)?;
        let link = Link::try_new(None, Name::try_new(b"/")?)?;
        Ok(Owner::try_slab(Dentry::with(inode, Some(link), Some(directory), CACHED))?)
    }

    /// For a name that is not there. `inode` is any; nobody sees it.
    pub fn try_absent(inode: Arc<Inode>) -> Result<Owner<Dentry>> {
        Ok(Owner::try_slab(Dentry::with(inode, None, None, ABSENT | CACHED))?)
    }

    #[inline(always)]
    fn with(
        inode: Arc<Inode>,
        link: Option<Arc<Link>>,
        directory: Option<Box<Directory>>,
        state: u32,
    ) -> Dentry {
        Dentry {
            inode,
            link: RcuArc::new(link),
            directory,
            state: AtomicU32::new(state),
            told: AtomicBool::new(false),
            until: AtomicU64::new(0),
        }
    }

    /// A dentry that nobody owns: it lives as long as it is held.
    pub fn try_unowned(inode: Arc<Inode>, parent: Option<DentryRef>, name: &[u8]) -> Result<DentryRef> {
        Ok(HotRef::try_slab(Dentry::below(inode, parent, Name::try_new(name)?, UNOWNED)?)?)
    }

    pub fn link<'g>(&'g self, read: &'g RcuRead) -> Option<&'g Link> {
        self.link.load(read)
    }

    /// Where it hangs, or hung last, held.
    pub fn last_link(&self) -> Option<Arc<Link>> {
        self.link.get(&sync::rcu::read())
    }

    /// The parent; a root has none.
    pub fn parent(&self) -> Option<DentryRef> {
        let read = sync::rcu::read();
        self.link.load(&read)?.parent.clone()
    }

    /// Rename's last step. The caller holds both directories' locks.
    pub fn set_link(&self, link: Arc<Link>) {
        if link.parent.as_ref().is_some_and(|parent| notify::wants_children(&parent.inode)) {
            self.mark_told();
        }
        self.link.swap(Some(link));
    }

    /// It hangs nowhere from now on: its whole file system goes. Otherwise a directory would be held until all below it have gone, each a
    /// grace period after the one below.
    pub fn cut(&self) {
        self.link.swap(None);
    }

    /// What happens to the file is to be told to its directory, if that is watched.
    #[inline]
    pub fn is_told(&self) -> bool {
        self.told.load(Relaxed)
    }

    /// Its directory is watched. The caller holds that directory's lock.
    pub fn mark_told(&self) {
        if !self.is_told() {
            self.told.store(true, Relaxed);
        }
    }

    /// A walk passes it without another look: it is in its directory for certain, and nothing is mounted on it.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.state.load(Relaxed) == 0
    }

    pub fn is_removed(&self) -> bool {
        self.state.load(Acquire) & REMOVED != 0
    }

    /// The name is gone, whatever is mounted there.
    pub fn set_removed(&self) {
        self.state.fetch_or(REMOVED, AcqRel);
    }

    /// The name is to be removed: until `end_removal` nothing is mounted here. The caller holds the directory's lock.
    ///
    /// # Errors
    /// EBUSY: a mount point.
    pub fn begin_removal(&self) -> Result {
        let begin = |state| (state & MOUNTS == 0).then_some(state | LEAVING);
        self.state.fetch_update(AcqRel, Acquire, begin).map(drop).map_err(|_| EBUSY)
    }

    /// The name is gone, or it stays after all.
    pub fn end_removal(&self, gone: bool) {
        self.state.fetch_xor(if gone { LEAVING | REMOVED } else { LEAVING }, AcqRel);
    }

    pub fn is_mount_point(&self) -> bool {
        self.state.load(Relaxed) & MOUNTS != 0
    }

    /// One more mount here.
    ///
    /// # Errors
    /// ENOENT: the name is gone, or on its way; ESTALE: it has fallen out of the cache, and whoever looks for it again finds another.
    #[expect(clippy::arithmetic_side_effects, reason = "each mount takes memory")]
    pub fn add_mount(&self) -> Result {
        let add = |state| (state & (REMOVED | LEAVING | EVICTED) == 0).then_some(state + 1);
        self.state
            .fetch_update(AcqRel, Acquire, add)
            .map(drop)
            .map_err(|state| if state & EVICTED != 0 && state & REMOVED == 0 { ESTALE } else { ENOENT })
    }

    pub fn drop_mount(&self) {
        self.state.fetch_sub(1, AcqRel);
    }

    /// It stands for a name that is not there.
    #[inline]
    pub fn is_absent(&self) -> bool {
        self.state.load(Relaxed) & ABSENT != 0
    }

    pub fn is_cached(&self) -> bool {
        self.state.load(Relaxed) & CACHED != 0
    }

    /// It enters a cache, or comes back to it: in a directory's table from now on, or at once. Whoever asked for it uses it.
    pub fn enter_cache(&self) {
        let enter = |state| Some((state | CACHED | USED) & !(EVICTED | REMOVED));
        let _always = self.state.fetch_update(AcqRel, Acquire, enter);
    }

    /// A walk came by. Only the first after the shrinker writes, so that CPUs that use one name write no common line.
    pub fn note_use(&self) {
        if self.state.load(Relaxed) & USED == 0 {
            self.state.fetch_or(USED, Relaxed);
        }
    }

    /// Takes the mark of use off, and says whether there was one.
    pub fn take_use(&self) -> bool {
        self.state.fetch_and(!USED, Relaxed) & USED != 0
    }

    /// It leaves the table, unless it is a mount point, or is about to be removed or in use: `false`.
    pub fn evict(&self) -> bool {
        let evict = |state| (state & (MOUNTS | LEAVING | USED) == 0).then_some(state | EVICTED);
        self.state.fetch_update(AcqRel, Acquire, evict).is_ok()
    }

    pub fn is_evicted(&self) -> bool {
        self.state.load(Acquire) & EVICTED != 0
    }

    /// The file system has lost the name. `false`: it is a mount point, which stays.
    pub fn lose(&self) -> bool {
        let lose = |state| (state & MOUNTS == 0).then_some(state | EVICTED | REMOVED);
        self.state.fetch_update(AcqRel, Acquire, lose).is_ok()
    }

    /// Whether what the file system said last is still believed at `now`.
    pub fn is_fresh(&self, now: u64) -> bool {
        now < self.until.load(Relaxed)
    }

    pub fn believe_until(&self, until: u64) {
        self.until.store(until, Relaxed);
    }
}

impl Drop for Dentry {
    /// A removed directory may be the last to hold its parent, and that its own, and so on up a tree as deep as a program
    /// likes. Each link is dropped by a callback of its own, so that no stack is asked for all of them. Names that are made up go no deeper
    /// than their file system makes them.
    fn drop(&mut self) {
        if notify::is_used() && *self.state.get_mut() & REMOVED != 0 {
            notify::name_dropped(&self.inode);
        }
        if self.directory.is_some() && *self.state.get_mut() & UNOWNED == 0 {
            self.link.swap(None);
        }
    }
}

/// A thing met under RCU: through its owner or through someone's reference.
pub enum Seen<'g, T: Send + Sync + 'static> {
    Owned(&'g Owner<T>),
    Held(&'g HotRef<T>),
}

impl<T: Send + Sync> Clone for Seen<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Send + Sync> Copy for Seen<'_, T> {}

impl<T: Send + Sync> Deref for Seen<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Seen::Owned(owner) => owner,
            Seen::Held(held) => held,
        }
    }
}

impl<'g, T: Send + Sync> Seen<'g, T> {
    pub fn as_ref(self) -> &'g T {
        match self {
            Seen::Owned(owner) => owner,
            Seen::Held(held) => held,
        }
    }

    /// A reference that outlasts the read section.
    pub fn keep(self) -> HotRef<T> {
        match self {
            Seen::Owned(owner) => owner.share(),
            Seen::Held(held) => held.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_wherever_its_bytes_lie() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, NAME_MAX] {
            let bytes: alloc::vec::Vec<u8> = (0..len).map(|n| n as u8 | 1).collect();
            let name = Name::try_new(&bytes).unwrap();
            assert_eq!((&*name.bytes, name.hash), (&*bytes, hash(&bytes)));
            assert_eq!(matches!(name.bytes, Text::Short(..)), len <= SHORT);
        }
        assert_eq!(Name::try_new(&[b'a'; NAME_MAX + 1]).err(), Some(ENAMETOOLONG));
        assert_eq!(size_of::<Name>(), 48, "with the counts of an `Arc` a cache line");
    }
}
