//! tmpfs: files in memory. The name cache is the directory and a file's object is the file, so what is left for this
//! module is to make inodes, and to count links. It serves as the root file system, as tmpfs, and under devtmpfs.
//!
//! Sizes are not limited: statfs reports half of memory, as Linux's default limit, but files grow until little memory is left
//! for programs.
//!
//! No locks: names change under those of their directories, which the VFS holds.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::{TryVec, slab_box, try_box};
use vm::{Object, ObjectOwner, ObjectRef, slab_type};

use crate::errno::{EINVAL, ENOSPC, Result};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::numbers;
use crate::fs::vfs::operations::{InodeOps, Moving, Plain, SuperOps, Writing};
use crate::fs::vfs::superblock::{FsType, StatFs, SuperBlock, new_device};

pub const MAGIC: u64 = 0x0102_1994;

pub static TMPFS: FsType = FsType { name: "tmpfs", magic: MAGIC, nodev: true, mount };

pub static ROOTFS: FsType = FsType { name: "rootfs", magic: 0x8584_58f6, nodev: true, mount };

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
    instance(kind, &NewInode { kind: Kind::Directory, mode: mode & 0o7777, uid, gid, rdev: 0 })
}

/// A new instance with that root.
pub fn instance(kind: &'static FsType, root: &NewInode) -> Result<Arc<SuperBlock>> {
    let device = new_device();
    SuperBlock::try_new(kind, Cache::Complete, device, inode(device, root, &[])?, try_box(InMemory)?)
}

fn number(text: &[u8], radix: u32) -> Result<u32> {
    core::str::from_utf8(text).ok().and_then(|t| u32::from_str_radix(t, radix).ok()).ok_or(EINVAL)
}

/// A file system that takes what memory there is.
pub struct InMemory;

impl SuperOps for InMemory {
    fn statfs(&self, _: &SuperBlock) -> Result<StatFs> {
        let blocks = vm::frame::total_frames() / 2;
        let free = vm::frame::free_frames().min(blocks);
        Ok(StatFs { blocks, free, files: blocks, files_free: free })
    }
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
        Kind::Fifo | Kind::Character | Kind::Block | Kind::Socket => try_box(Plain)?,
    };
    Inode::try_new(number, device, new, ops)
}

struct Dir;

impl Dir {
    fn make(dir: &Inode, new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        let made = inode(dir.device, new, target)?;
        dir.touch_modified();
        Ok(made)
    }
}

impl InodeOps for Dir {
    fn create(&self, dir: &Inode, _: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        Dir::make(dir, new, &[])
    }

    fn mkdir(&self, dir: &Inode, _: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        let made = Dir::make(dir, new, &[])?;
        dir.add_link();
        Ok(made)
    }

    fn mknod(&self, dir: &Inode, _: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        Dir::make(dir, new, &[])
    }

    fn symlink(&self, dir: &Inode, _: &[u8], new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        Dir::make(dir, new, target)
    }

    fn make_unnamed(&self, dir: &Inode, new: &NewInode) -> Result<Arc<Inode>> {
        let made = inode(dir.device, new, &[])?;
        made.set_links(0);
        Ok(made)
    }

    fn link(&self, dir: &Inode, _: &[u8], inode: &Inode) -> Result {
        inode.add_link();
        dir.touch_modified();
        Ok(())
    }

    fn unlink(&self, dir: &Inode, _: &[u8], victim: &Inode) -> Result {
        victim.drop_link();
        dir.touch_modified();
        Ok(())
    }

    fn rmdir(&self, dir: &Inode, _: &[u8], victim: &Inode) -> Result {
        victim.set_links(0);
        victim.touch_changed();
        dir.drop_link();
        dir.touch_modified();
        Ok(())
    }

    fn rename(&self, moving: &Moving<'_>) -> Result {
        let (from, to) = (moving.old_dir, moving.new_dir);
        if moving.old.is_dir() {
            from.drop_link();
            to.add_link();
        }
        moving.old.touch_changed();
        match moving.target {
            Some(other) if moving.exchange => {
                if other.is_dir() {
                    to.drop_link();
                    from.add_link();
                }
                other.touch_changed();
            }
            Some(replaced) if replaced.is_dir() => {
                replaced.set_links(0);
                to.drop_link();
            }
            Some(replaced) => replaced.drop_link(),
            None => {}
        }
        from.touch_modified();
        to.touch_modified();
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

    fn set_attributes(&self, inode: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        if let Some(size) = changes.size {
            self.0.set_size(size)?;
            inode.touch_modified();
        }
        inode.apply(changes);
        Ok(())
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
