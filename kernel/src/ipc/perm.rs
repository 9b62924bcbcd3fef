//! Whose an object is, and who may use it (sysvipc(7), ipc_perm).
//!
//! Owner and mode change under the object's lock; who asks reads them without it, as one that came just before or after the change.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

use crate::errno::{EACCES, EINVAL, EPERM, Result};
use crate::fs::caller::{self, Capability};

/// The bits of a mode that are rights.
const RIGHTS: u32 = 0o777;

/// The rights that a call asks for.
pub const READ: u32 = 0o444;
pub const WRITE: u32 = 0o222;

/// An object's name and owners.
pub struct Perm {
    pub id: i32,
    key: AtomicI32,
    uid: AtomicU32,
    gid: AtomicU32,
    mode: AtomicU32,
    cuid: u32,
    cgid: u32,
}

/// What is shown of it (struct ipc64_perm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub id: i32,
    pub key: i32,
    pub uid: u32,
    pub gid: u32,
    pub cuid: u32,
    pub cgid: u32,
    pub mode: u32,
    pub sequence: u16,
}

/// What IPC_SET changes.
#[derive(Clone, Copy, Debug)]
pub struct NewOwner {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

impl Perm {
    /// The running thread's, with the rights in `flags`.
    pub fn new(id: i32, key: i32, flags: u32) -> Perm {
        let ids = caller::current().ids();
        Perm {
            id,
            key: AtomicI32::new(key),
            uid: AtomicU32::new(ids.euid),
            gid: AtomicU32::new(ids.egid),
            mode: AtomicU32::new(flags & RIGHTS),
            cuid: ids.euid,
            cgid: ids.egid,
        }
    }

    pub fn key(&self) -> i32 {
        self.key.load(Relaxed)
    }

    /// Nobody finds it by its key any more.
    pub fn forget_key(&self) {
        self.key.store(super::ids::PRIVATE, Relaxed);
    }

    pub fn has_flag(&self, flag: u32) -> bool {
        self.mode.load(Relaxed) & flag != 0
    }

    /// Under the object's lock.
    pub fn set_flag(&self, flag: u32, on: bool) {
        let mode = self.mode.load(Relaxed);
        self.mode.store(if on { mode | flag } else { mode & !flag }, Relaxed);
    }

    pub fn shown(&self) -> Shown {
        Shown {
            id: self.id,
            key: self.key(),
            uid: self.uid.load(Relaxed),
            gid: self.gid.load(Relaxed),
            cuid: self.cuid,
            cgid: self.cgid,
            mode: self.mode.load(Relaxed),
            sequence: super::ids::sequence_of(self.id),
        }
    }

    /// May the running thread do what `asked` says, in any of the three places of a mode?
    ///
    /// # Errors
    /// EACCES.
    pub fn check(&self, asked: u32) -> Result {
        let asked = (asked >> 6 | asked >> 3 | asked) & 7;
        let current = caller::current();
        let ids = current.ids();
        let is_group = |gid| gid == ids.fsgid || current.has_group(gid);
        let mode = self.mode.load(Relaxed);
        let granted = if self.is_owner(ids.euid) {
            mode >> 6
        } else if is_group(self.cgid) || is_group(self.gid.load(Relaxed)) {
            mode >> 3
        } else {
            mode
        };
        if asked & !granted == 0 || current.capable(Capability::IPC_OWNER) { Ok(()) } else { Err(EACCES) }
    }

    /// Is that its owner or maker?
    pub fn is_owner(&self, euid: u32) -> bool {
        euid == self.cuid || euid == self.uid.load(Relaxed)
    }

    /// May the running thread change or remove it?
    ///
    /// # Errors
    /// EPERM.
    pub fn check_owner(&self) -> Result {
        let current = caller::current();
        if self.is_owner(current.ids().euid) || current.capable(Capability::SYS_ADMIN) {
            Ok(())
        } else {
            Err(EPERM)
        }
    }

    /// IPC_SET. Under the object's lock.
    ///
    /// # Errors
    /// EINVAL: no such user or group.
    pub fn set(&self, to: &NewOwner) -> Result {
        if to.uid == u32::MAX || to.gid == u32::MAX {
            return Err(EINVAL);
        }
        self.uid.store(to.uid, Relaxed);
        self.gid.store(to.gid, Relaxed);
        let mode = self.mode.load(Relaxed);
        self.mode.store(mode & !RIGHTS | to.mode & RIGHTS, Relaxed);
        Ok(())
    }
}
