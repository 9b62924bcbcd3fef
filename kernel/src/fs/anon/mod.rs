//! Inodes of files that no directory holds: pipes, event counters, epolls, memory files.
#![deny(unsafe_code)]

pub mod epoll;
pub mod eventfd;
pub mod fifo;
pub mod fscontext;
pub mod inotify;
pub mod memfd;
pub mod namespace;
pub mod pipe;
mod ring;
pub mod signalfd;
pub mod timerfd;

use alloc::boxed::Box;
use alloc::sync::Arc;

use sync::try_box;

use crate::errno::{ENXIO, EPERM, Result};
use crate::fs::file::regular::Regular;
use crate::fs::file::{FileOps, OpenFlags};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::numbers;
use crate::fs::vfs::operations::{InodeOps, Writing};

/// `st_dev` of all of them but namespaces', and of what nobody changes; no mount has these numbers (`superblock::new_device`).
const DEVICE: u64 = 0xf;
const IMMUTABLE_DEVICE: u64 = 0x10;

/// Is that the `st_dev` of files without a mount?
pub fn has_device(device: u64) -> bool {
    matches!(device, DEVICE | IMMUTABLE_DEVICE)
}

/// Opened once more by way of /proc/PID/fd, a memory file is empty: its object is known to the first open file alone. What is of no kind is
/// not opened again.
struct Nameless;

impl InodeOps for Nameless {
    fn open(&self, dentry: &Dentry, _: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        match dentry.inode.kind {
            Kind::Anonymous | Kind::Socket => Err(ENXIO),
            // As any fifo: `fifo::show`.
            Kind::Fifo => Ok(None),
            _ => Ok(Some(try_box(Regular)?)),
        }
    }
}

/// What keeps its owner and mode.
struct Immutable;

impl InodeOps for Immutable {
    fn open(&self, dentry: &Dentry, flags: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        Nameless.open(dentry, flags)
    }

    fn set_attributes(&self, _: &Inode, _: &Changes, _: Writing<'_>) -> Result {
        Err(EPERM)
    }
}

/// As `nameless`, but nobody changes its attributes.
pub fn immutable() -> Result<Arc<Inode>> {
    make(&Cred::root(), IMMUTABLE_DEVICE, Kind::Anonymous, 0o700, try_box(Immutable)?)
}

/// The inode of what is no file at all (eventfd, epoll and their like): nobody's but root's.
pub fn nameless() -> Result<Arc<Inode>> {
    made_by(&Cred::root(), Kind::Anonymous, 0o600)
}

pub fn inode(kind: Kind, mode: u32) -> Result<Arc<Inode>> {
    made_by(&Cred::current(), kind, mode)
}

pub fn made_by(cred: &Cred, kind: Kind, mode: u32) -> Result<Arc<Inode>> {
    make(cred, DEVICE, kind, mode, try_box(Nameless)?)
}

fn make(cred: &Cred, device: u64, kind: Kind, mode: u32, ops: Box<dyn InodeOps>) -> Result<Arc<Inode>> {
    let new = NewInode { kind, mode, uid: cred.uid, gid: cred.gid, rdev: 0 };
    Inode::try_new(numbers::next(), device, &new, ops)
}
