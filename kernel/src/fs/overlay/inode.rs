//! The operations of inodes that have something below them, and of directories.
//!
//! Lock order: see `node`.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use sync::try_box;
use vm::{BudgetRef, ObjectRef};

use super::names::Leads;
use super::node::{self, Node};
use super::{change, list};
use crate::errno::{EINVAL, EIO, ENODATA, ENOENT, EOPNOTSUPP, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::regular::REGULAR;
use crate::fs::file::{File, FileOps, Mapping, OpenFlags, Order};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::operations::{DirEntry, InodeOps, Moving, Validity, Writing, XattrMode};

/// Bytes that a directory without one below shows as its size, as in tmpfs.
const DIRECTORY_SIZE: u64 = 4096;

impl Node {
    fn budget(&self) -> BudgetRef {
        self.fs.budget.share()
    }
}

impl InodeOps for Node {
    fn size(&self, _: &Inode) -> u64 {
        match (&self.object, &self.below) {
            (Some(object), _) => object.size(),
            (None, Some(below)) => below.size(),
            (None, None) => DIRECTORY_SIZE,
        }
    }

    fn blocks(&self, _: &Inode) -> u64 {
        match (&self.object, &self.below) {
            (Some(object), _) if self.has_contents() => object.resident_pages().saturating_mul(8),
            (_, Some(below)) => below.ops.blocks(below),
            (_, None) => 0,
        }
    }

    fn refresh(&self, inode: &Inode) -> Result {
        Node::refresh(self, inode)
    }

    fn begin_change(&self, inode: &Inode) -> Result {
        self.own_attributes(inode)
    }

    fn set_attributes(&self, inode: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        let loses = changes.size.is_some() || changes.uid.is_some() || changes.gid.is_some();
        if loses {
            self.learn_capabilities(inode);
        }
        match (changes.size, &self.object) {
            (Some(size), Some(object)) => {
                self.own_contents(inode, size)?;
                object.set_size(size)?;
                inode.touch_modified();
            }
            (Some(_), None) => return Err(EINVAL),
            (None, _) => self.own_attributes(inode)?,
        }
        inode.apply(&Changes {
            drops_capabilities: changes.drops_capabilities || loses && inode.has_capabilities(),
            ..*changes
        });
        Ok(())
    }

    fn get_xattr(&self, _: &Inode, name: &[u8], out: &mut Vec<u8>) -> Result {
        self.xattr(name, out)
    }

    fn set_xattr(&self, inode: &Inode, name: &[u8], value: &[u8], mode: XattrMode) -> Result {
        self.own_xattrs(inode)?;
        self.xattrs().set(name, value, mode, Some(&self.budget()))
    }

    fn list_xattr(&self, _: &Inode, all: bool, out: &mut Vec<u8>) -> Result<usize> {
        let len = out.len();
        match &self.below {
            Some(below) if !self.has_xattrs() => match below.ops.list_xattr(below, all, out) {
                Err(EOPNOTSUPP) => {
                    out.truncate(len);
                    self.xattrs().list(all, out)
                }
                listed => listed,
            },
            _ => self.xattrs().list(all, out),
        }
    }

    fn remove_xattr(&self, inode: &Inode, name: &[u8]) -> Result {
        if !self.has_xattrs() {
            // A write asks for one to go that is hardly ever there.
            let mut value = Vec::new();
            match self.xattr(name, &mut value) {
                Err(EOPNOTSUPP) => return Err(ENODATA),
                got => got?,
            }
        }
        self.own_xattrs(inode)?;
        self.xattrs().remove(name)
    }

    fn keeps_acls(&self) -> bool {
        true
    }

    fn lookup(&self, _: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
        match self.names.find(name) {
            Some(Leads::To { number, .. }) => self.fs.inodes.find(number).ok_or(EIO),
            Some(Leads::Nowhere) => Err(ENOENT),
            None => {
                let below = self.below.as_ref().ok_or(ENOENT)?;
                self.fs.inode(below.ops.lookup(below, name)?)
            }
        }
    }

    fn revalidate(&self, _: &Inode, name: &[u8], child: Option<&Inode>) -> Result<Validity> {
        let holds = |is_so: bool| if is_so { Validity::Valid } else { Validity::Stale };
        let leads = self.names.find(name);
        match (leads, &self.below, child) {
            (Some(Leads::To { number, .. }), _, child) => {
                Ok(holds(child.is_some_and(|child| child.number == number)))
            }
            (Some(Leads::Nowhere), ..) | (None, None, _) => Ok(holds(child.is_none())),
            (None, Some(below), None) => below.ops.revalidate(below, name, None),
            (None, Some(below), Some(child)) => match node::of(child) {
                Some(node) if let Some(there) = &node.below => below.ops.revalidate(below, name, Some(there)),
                _ => Ok(Validity::Stale),
            },
        }
    }

    fn lifetime(&self, _: &Inode, child: Option<&Inode>) -> u64 {
        let of_child = child.map(|child| node::of(child).and_then(|node| node.below.as_deref()));
        match (&self.below, of_child) {
            // Nobody changes it elsewhere.
            (None, _) | (_, Some(None)) => u64::MAX,
            (Some(below), None) => below.ops.lifetime(below, None),
            (Some(below), Some(child)) => below.ops.lifetime(below, child),
        }
    }

    fn read_dir(&self, _: &Inode, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
        list::read(self, position, emit)
    }

    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        change::make(self, dir, name, new, &[])
    }

    fn mkdir(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        change::make(self, dir, name, new, &[])
    }

    fn mknod(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        change::make(self, dir, name, new, &[])
    }

    fn symlink(&self, dir: &Inode, name: &[u8], new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        change::make(self, dir, name, new, target)
    }

    fn make_unnamed(&self, _: &Inode, new: &NewInode) -> Result<Arc<Inode>> {
        let made = self.fs.make(new, &[])?;
        made.set_links(0);
        Ok(made)
    }

    fn link(&self, dir: &Inode, name: &[u8], inode: &Inode) -> Result {
        change::link(self, dir, name, inode)
    }

    fn unlink(&self, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
        change::unlink(self, dir, name, victim)
    }

    fn rmdir(&self, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
        change::rmdir(self, dir, name, victim)
    }

    fn rename(&self, moving: &Moving<'_>) -> Result {
        change::rename(moving)
    }

    fn read_link(&self, _: &Inode) -> Result<Vec<u8>> {
        self.text()
    }

    fn open(&self, dentry: &Dentry, flags: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        let inode = &dentry.inode;
        let Some(below) = self.below.as_ref().filter(|_| !self.has_contents()) else { return Ok(None) };
        if matches!(inode.kind, Kind::Regular | Kind::Directory) {
            // What is below says whether it lets anybody read.
            below.ops.open(dentry, OpenFlags::empty())?;
        }
        if inode.kind != Kind::Regular {
            return Ok(None);
        }
        if flags.writes() {
            change::pin(self, dentry)?;
            // What is cut to nothing takes nothing from below.
            if !flags.contains(OpenFlags::TRUNCATE) {
                self.own_contents(inode, u64::MAX)?;
            }
            self.learn_capabilities(inode);
        }
        Ok(Some(try_box(Following)?))
    }

    fn object(&self) -> Option<ObjectRef> {
        self.object.as_ref().map(|object| object.share())
    }
}

/// A file whose contents follow what lies below, until they are the overlay's own: each read sees what has changed there.
struct Following;

impl FileOps for Following {
    fn read(&self, file: &File, at: u64, out: &mut Output<'_>, order: Order<'_>) -> Result<usize> {
        file.inode().refresh()?;
        REGULAR.read(file, at, out, order)
    }

    fn write(&self, file: &File, at: u64, from: &mut Input<'_>, order: Order<'_>) -> Result<usize> {
        REGULAR.write(file, at, from, order)
    }

    fn seeks(&self) -> bool {
        true
    }

    fn seek(&self, file: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        file.inode().refresh()?;
        REGULAR.seek(file, offset, whence, now)
    }

    fn mapping(&self, file: &File) -> Result<Mapping> {
        REGULAR.mapping(file)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
