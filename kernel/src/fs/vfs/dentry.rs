//! Dentries: names in the tree. A dentry is owned by the name table of its parent (`directory`), or by its super block if
//! it is a root; everyone else holds `HotRef`s, which count on the holder's CPU, so that all CPUs can open one file at
//! once. Dentries of file systems that make names up (procfs) have no owner at all and live as long as they are held.
//!
//! Parent and name lie together behind one RCU pointer that rename swaps: a reader sees the old pair or the new.
//! No locks here.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use sync::percpu_ref::{PerCpuArc as HotRef, PerCpuOwner as Owner};
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{TryVec, slab_arc, slab_box};

use super::directory::Directory;
use super::inode::{Inode, Kind};
use crate::errno::{ENAMETOOLONG, Result};

pub type DentryRef = HotRef<Dentry>;

/// Longest name of one component.
pub const NAME_MAX: usize = 255;

/// A component's text with its hash.
pub struct Name {
    pub hash: u64,
    pub bytes: Box<[u8]>,
}

vm::slab_type!(Name, "name", Arc);

impl Name {
    pub fn try_new(bytes: &[u8]) -> Result<Arc<Name>> {
        if bytes.len() > NAME_MAX {
            return Err(ENAMETOOLONG);
        }
        let copy = Vec::try_from_slice(bytes)?.into_boxed_slice();
        Ok(slab_arc(Name { hash: hash(bytes), bytes: copy })?)
    }
}

/// Eight bytes a step; the last multiplication spreads the entropy to the low bits that pick a bucket.
pub fn hash(name: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = name.len() as u64 ^ 0x5851_f42d_4c95_7f2d;
    for chunk in name.chunks(8) {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(K);
        h ^= h >> 29;
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

rcu_object!(Link);

impl Link {
    pub fn try_new(parent: Option<DentryRef>, name: Arc<Name>) -> Result<Arc<Link>> {
        Ok(slab_arc(Link { parent, name, rcu: RcuHead::new() })?)
    }
}

pub struct Dentry {
    pub inode: Arc<Inode>,
    link: RcuArc<Link>,
    /// Of directories.
    pub directory: Option<Box<Directory>>,
    /// Mounts whose mount point this is; the walk asks the mount table only if it is not zero.
    mounts: AtomicU32,
    /// The name is gone (unlink, rmdir, or replaced by rename).
    removed: AtomicBool,
}

vm::slab_type!(Dentry, "dentry", PerCpuArc);

impl Dentry {
    /// A new dentry and its owner.
    pub fn try_new(inode: Arc<Inode>, parent: Option<DentryRef>, name: Arc<Name>) -> Result<Owner<Dentry>> {
        let directory = match inode.kind {
            Kind::Directory => Some(slab_box(Directory::try_new()?)?),
            _ => None,
        };
        let link = Link::try_new(parent, name)?;
        Ok(Owner::try_slab(Dentry {
            inode,
            link: RcuArc::new(Some(link)),
            directory,
            mounts: AtomicU32::new(0),
            removed: AtomicBool::new(false),
        })?)
    }

    /// A dentry that nobody owns: it lives as long as it is held.
    pub fn try_unowned(inode: Arc<Inode>, parent: Option<DentryRef>, name: &[u8]) -> Result<DentryRef> {
        let owner = Dentry::try_new(inode, parent, Name::try_new(name)?)?;
        Ok(owner.share())
    }

    pub fn link<'g>(&'g self, read: &'g RcuRead) -> Option<&'g Link> {
        self.link.load(read)
    }

    /// The parent; a root has none.
    pub fn parent(&self) -> Option<DentryRef> {
        let read = sync::rcu::read();
        self.link.load(&read)?.parent.clone()
    }

    /// Rename's last step. The caller holds both directories' locks.
    pub fn set_link(&self, link: Arc<Link>) {
        self.link.swap(Some(link));
    }

    pub fn is_removed(&self) -> bool {
        self.removed.load(Acquire)
    }

    pub fn set_removed(&self, removed: bool) {
        self.removed.store(removed, Release);
    }

    pub fn is_mount_point(&self) -> bool {
        self.mounts.load(Relaxed) != 0
    }

    /// Under the mount lock.
    pub fn count_mounts(&self, up: bool) {
        let n = self.mounts.load(Relaxed);
        self.mounts.store(if up { n.saturating_add(1) } else { n.saturating_sub(1) }, Relaxed);
    }
}

impl Drop for Dentry {
    /// A removed directory may be the last to hold its parent, and that its own, and so on up a tree as deep as a program
    /// likes. Each link is dropped by a callback of its own, so that no stack is asked for all of them.
    fn drop(&mut self) {
        if self.directory.is_some() {
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
