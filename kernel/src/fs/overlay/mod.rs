//! Overlay: the files of a file system that is only read, and in memory what programs change of them. So a guest's root is the host's.
//!
//! * `options` of a mount
//! * `node`    what lies below a file, and what of it is the overlay's own by now
//! * `names`   the names of a directory that are not those below
//! * `change`  the operations that change names
//! * `list`    listing a directory
//! * `inode`   all others
//!
//! **Below** is another file system's inode, whose operations are called directly: no lock of the VFS is taken for it, and its names are cached here alone. There is one
//! inode here for each below, so all names of a file lead to it, and a file with several names stays one file when it is changed.
//!
//! **What is changed is the overlay's own**, and kept until it is removed (`InodeTable::keep`): attributes, once somebody changes them, or the number of names; contents, once somebody
//! opens the file for writing, when they are brought in whole (`vm::Object::own`: the object stays, and with it what is mapped); extended attributes. What is not changed
//! is asked for below as often as that file system says, and follows it.
//!
//! **Names**: a directory keeps those that were made in it, and those below that were taken away. A directory that moves takes what lies below it along; one that is
//! made has nothing below it, whatever stood there before.
//!
//! What is kept counts in one budget: half of memory, as a tmpfs.
//!
//! Lock order: VFS's → a file's state → its object, what lies below; a directory's names, the table of inodes: innermost.
#![deny(unsafe_code)]

mod change;
mod inode;
mod list;
mod names;
mod node;
mod options;

use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::{TryVec, try_arc, try_box};
use vm::{Budget, BudgetKind, BudgetOwner};

use self::node::Node;
use self::options::Options;
use super::caller;
use super::tmpfs;
use super::vfs::access::Cred;
use super::vfs::cache::Cache;
use super::vfs::cache::inodes::InodeTable;
use super::vfs::inode::{Attributes, Inode, Kind, NewInode};
use super::vfs::lookup::{self, Start};
use super::vfs::numbers;
use super::vfs::operations::SuperOps;
use super::vfs::parameters::Parameters;
use super::vfs::superblock::{FsType, Mounting, StatFs, SuperBlock, new_device};
use crate::errno::{EINVAL, EIO, ENOTDIR, Result};

pub static OVERLAY: FsType =
    FsType { name: "overlay", magic: 0x794c_7630, nodev: true, mount, parameters: Parameters::Text };

/// The number of what has that number below. What has nothing below it has one of the kernel's own.
fn number_above(below: u64) -> u64 {
    below & !numbers::OWN
}

/// One mounted overlay.
pub struct Fs {
    device: u64,
    inodes: Arc<InodeTable>,
    budget: BudgetOwner,
    /// What lies below stays as long.
    _below: Arc<SuperBlock>,
}

fn mount(kind: &'static FsType, asked: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    let options = Options::parse(asked.options)?;
    let place = lookup::resolve(&caller::context(), &Cred::current(), Start::Cwd, &options.below, true)?;
    if !place.dentry.inode.is_dir() {
        return Err(ENOTDIR);
    }
    let limit = vm::frame::total_frames() / 2;
    make(kind, place.mount.superblock.clone(), place.dentry.inode.clone(), options, limit)
}

/// `limit`: pages, and files.
fn make(
    kind: &'static FsType,
    below: Arc<SuperBlock>,
    root: Arc<Inode>,
    options: Options,
    limit: u64,
) -> Result<Arc<SuperBlock>> {
    if !root.ops.can_lie_below() {
        warn!("overlay: lowerdir is of a file system whose names are in memory alone");
        return Err(EINVAL);
    }
    let budget = Budget::try_new()?;
    budget.set_limit(BudgetKind::Pages, Some(limit));
    budget.set_limit(BudgetKind::Files, Some(limit));
    let (device, inodes) = (new_device(), InodeTable::try_new()?);
    let fs = try_arc(Fs { device, inodes: inodes.clone(), budget, _below: below })?;
    let root = fs.inode(root)?;
    SuperBlock::try_cached(kind, Cache::Revalidated, device, inodes, root, try_box(Whole { fs, options })?)
}

/// An overlay over the root of `below`, for tests.
#[cfg(test)]
pub fn over(below: &Arc<SuperBlock>) -> Result<Arc<SuperBlock>> {
    let options = Options { below: Vec::new() };
    make(&OVERLAY, below.clone(), below.root()?.inode.clone(), options, 10_000)
}

impl Fs {
    /// The inode of what lies below. May sleep.
    fn inode(self: &Arc<Self>, below: Arc<Inode>) -> Result<Arc<Inode>> {
        let number = number_above(below.number);
        for _ in 0..2 {
            let inode = self.inodes.get(number, || Node::over(self, number, &below))?;
            let node = node::of(&inode).ok_or(EIO)?;
            if node.is_over(&below) {
                return Ok(inode);
            }
            // The number was another file's, which is gone below.
            if node.is_changed() {
                let number = numbers::next_own();
                return self.inodes.get(number, || Node::over(self, number, &below));
            }
            self.inodes.forget(&inode);
        }
        Err(EIO)
    }

    /// A new inode with nothing below it. `text`: of a symbolic link.
    fn make(self: &Arc<Self>, new: &NewInode, text: &[u8]) -> Result<Arc<Inode>> {
        let number = numbers::next_own();
        self.inodes.get(number, || match new.kind {
            Kind::Directory => {
                let node = Node::try_new(self, None, Kind::Directory)?;
                node.count()?;
                Inode::try_with(number, self.device, new, try_box(node)?, Attributes::Here)
            }
            _ => tmpfs::numbered(number, self.device, new, text, Some(&self.budget.share())),
        })
    }
}

/// The operations of the whole.
struct Whole {
    fs: Arc<Fs>,
    options: Options,
}

impl SuperOps for Whole {
    fn statfs(&self, _: &SuperBlock) -> Result<StatFs> {
        let of = |what| {
            let limit = self.fs.budget.limit(what).unwrap_or(0);
            (limit, limit.saturating_sub(self.fs.budget.used(what)))
        };
        let ((blocks, free), (files, files_free)) = (of(BudgetKind::Pages), of(BudgetKind::Files));
        Ok(StatFs { blocks, free, reserved: 0, files, files_free })
    }

    fn show_options(&self, _: &SuperBlock, out: &mut Vec<u8>) -> Result {
        out.try_extend_from_slice(b",lowerdir=")?;
        out.try_extend_from_slice(&self.options.below)?;
        Ok(out.try_extend_from_slice(b",upper=memory")?)
    }
}
