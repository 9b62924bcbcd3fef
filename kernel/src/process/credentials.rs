//! User and group ids of a thread (credentials(7)). Each thread has its own, so that fork writes no common line.
#![forbid(unsafe_code)]

use crate::errno::Result;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use sync::{TryVec, slab_arc};

/// Ids of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids {
    pub uid: u32,
    pub euid: u32,
    pub suid: u32,
    pub fsuid: u32,
    pub gid: u32,
    pub egid: u32,
    pub sgid: u32,
    pub fsgid: u32,
}

/// Ids of a thread, and its supplementary groups. Immutable: a change makes a new one.
#[derive(Debug, Default)]
pub struct Credentials {
    pub ids: Ids,
    pub groups: Vec<u32>,
}

impl Deref for Credentials {
    type Target = Ids;
    fn deref(&self) -> &Ids {
        &self.ids
    }
}

impl DerefMut for Credentials {
    fn deref_mut(&mut self) -> &mut Ids {
        &mut self.ids
    }
}

vm::slab_type!(Credentials, "credentials", Arc);

impl Credentials {
    /// The superuser's.
    pub fn root() -> Result<Arc<Self>> {
        Ok(slab_arc(Self::default())?)
    }

    /// A copy of its own.
    pub fn copy(&self) -> Result<Self> {
        let mut groups = Vec::new();
        groups.try_extend_from_slice(&self.groups)?;
        Ok(Self { ids: self.ids, groups })
    }

    pub fn try_clone(&self) -> Result<Arc<Self>> {
        Ok(slab_arc(self.copy()?)?)
    }
}

impl Ids {
    /// May it do what is the superuser's?
    pub fn is_root(&self) -> bool {
        self.euid == 0
    }

    /// May a thread with these signal one with `target`'s (kill(2))?
    pub fn may_signal(&self, target: &Ids) -> bool {
        self.is_root() || [self.uid, self.euid].iter().any(|id| *id == target.uid || *id == target.suid)
    }
}
