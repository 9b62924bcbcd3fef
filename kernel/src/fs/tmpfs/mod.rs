//! tmpfs: files in memory. The name cache is the directory and a file's object is the file, so what is left for this
//! module is to make inodes. It serves as the root file system, as tmpfs, and under devtmpfs.
//!
//! Sizes are not limited: statfs reports half of memory, as Linux's default limit, but files grow until little memory is left
//! for programs.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::{TryVec, slab_box, try_box};
use vm::{Object, ObjectOwner, ObjectRef, slab_type};

use crate::errno::{EINVAL, ENOSPC, Result};
use crate::fs::anon::fifo;
use crate::fs::devfs::devices;
use crate::fs::file::{FileOps, OpenFlags};
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Inode, InodeOps, Kind, NewInode};
use crate::fs::vfs::numbers;
use crate::fs::vfs::superblock::{FsType, StatFs, SuperBlock, new_device};

pub const MAGIC: u64 = 0x0102_1994;

pub static TMPFS: FsType =
    FsType { name: "tmpfs", magic: MAGIC, nodev: true, names_complete: true, mount, statfs };

pub static ROOTFS: FsType =
    FsType { name: "rootfs", magic: 0x8584_58f6, nodev: true, names_complete: true, mount, statfs };

fn mount(kind: &'static FsType, options: &[u8]) -> Result<Arc<SuperBlock>> {
    let (mut mode, mut uid, mut gid) = (if kind.name == "tmpfs" { 0o1777 } else { 0o755 }, 0, 0);
    for option in options.split(|&b| b == b',').filter(|o| !o.is_empty()) {
        let mut parts = option.splitn(2, |&b| b == b'=');
        let key = parts.next().unwrap_or(&[]);
        let value = parts.next();
        match (key, value) {
            (b"mode", Some(v)) => mode = number(v, 8)?,
            (b"uid", Some(v)) => uid = number(v, 10)?,
            (b"gid", Some(v)) => gid = number(v, 10)?,
            // Accepted, and without effect: nothing is limited.
            (b"size" | b"nr_inodes" | b"nr_blocks" | b"huge", Some(_)) => {}
            _ => return Err(EINVAL),
        }
    }
    let device = new_device();
    let new = NewInode { kind: Kind::Directory, mode: mode & 0o7777, uid, gid, rdev: 0 };
    SuperBlock::try_new(kind, device, inode(device, &new, &[])?)
}

fn number(text: &[u8], radix: u32) -> Result<u32> {
    core::str::from_utf8(text).ok().and_then(|t| u32::from_str_radix(t, radix).ok()).ok_or(EINVAL)
}

pub fn statfs(_: &SuperBlock) -> StatFs {
    let blocks = vm::frame::total_frames() / 2;
    let free = vm::frame::free_frames().min(blocks);
    StatFs { blocks, free, files: blocks, files_free: free }
}

/// A new inode of any kind.
pub fn inode(device: u64, new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
    if vm::frame::is_scarce() {
        return Err(ENOSPC);
    }
    let number = numbers::next();
    let ops: Box<dyn InodeOps> = match new.kind {
        Kind::Directory => try_box(Dir)?,
        Kind::Regular => slab_box(Contents(Object::try_owned(number as usize)?))?,
        Kind::Symlink => try_box(Link(Vec::try_from_slice(target)?.into_boxed_slice()))?,
        Kind::Fifo => try_box(fifo::Fifo::new())?,
        Kind::Character | Kind::Block => try_box(Node { block: new.kind == Kind::Block, rdev: new.rdev })?,
        Kind::Socket => try_box(super::vfs::inode::Fixed)?,
    };
    Inode::try_new(number, device, new, ops)
}

struct Dir;

impl InodeOps for Dir {
    fn make(&self, dir: &Inode, new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        inode(dir.device, new, target)
    }

    fn allow_remove(&self) -> Result<()> {
        Ok(())
    }

    fn allow_link(&self) -> Result<()> {
        Ok(())
    }

    /// As tmpfs on Linux counts it: 20 bytes a name would need the lock; one page is what stat shows of a directory elsewhere.
    fn size(&self, _: &Inode) -> u64 {
        4096
    }
}

struct Contents(ObjectOwner);

slab_type!(Contents, "tmpfs-file", Box);

impl InodeOps for Contents {
    fn size(&self, _: &Inode) -> u64 {
        self.0.size()
    }

    fn blocks(&self, _: &Inode) -> u64 {
        self.0.resident_pages().saturating_mul(8)
    }

    fn object(&self) -> Option<ObjectRef> {
        Some(self.0.share())
    }

    fn truncate(&self, _: &Inode, size: u64) -> Result<()> {
        Ok(self.0.set_size(size)?)
    }
}

struct Link(Box<[u8]>);

impl InodeOps for Link {
    fn read_link(&self, _: &Inode) -> Result<Vec<u8>> {
        Ok(Vec::try_from_slice(&self.0)?)
    }

    fn size(&self, _: &Inode) -> u64 {
        self.0.len() as u64
    }
}

struct Node {
    block: bool,
    rdev: u64,
}

impl InodeOps for Node {
    fn open(&self, _: &Dentry, flags: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        devices::open(self.block, self.rdev, flags).map(Some)
    }

    /// O_TRUNC of a device does nothing.
    fn truncate(&self, _: &Inode, _: u64) -> Result<()> {
        Ok(())
    }
}
