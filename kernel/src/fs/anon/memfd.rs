//! Memory files (memfd_create(2)): regular files without a name, which ask their seals before they are written.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use sync::{TryVec, try_box};
use vm::{BudgetRef, Object, ObjectOwner, ObjectRef};

use crate::account::{self, Charge};
use crate::errno::{ENOSPC, EPERM, Result};
use crate::fs::caller;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::mapped;
use crate::fs::file::regular::{self, REGULAR};
use crate::fs::file::{File, FileOps, Mapping, OpenFlags, Order};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::numbers;
use crate::fs::vfs::operations::{InodeOps, Writing};
use crate::fs::vfs::seals::{self, Seals};
use crate::fs::vfs::xattr::store::Xattrs;

struct Contents {
    object: ObjectOwner,
    seals: Seals,
    xattrs: Xattrs,
    _charge: Charge,
}

impl InodeOps for Contents {
    fn size(&self, _: &Inode) -> u64 {
        self.object.size()
    }

    fn blocks(&self, _: &Inode) -> u64 {
        self.object.resident_pages().saturating_mul(8)
    }

    fn object(&self) -> Option<ObjectRef> {
        Some(self.object.share())
    }

    fn xattrs(&self) -> Option<(&Xattrs, Option<&BudgetRef>)> {
        Some((&self.xattrs, None))
    }

    fn keeps_acls(&self) -> bool {
        true
    }

    fn seals(&self) -> Option<&Seals> {
        Some(&self.seals)
    }

    fn open(&self, _: &Dentry, _: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        Ok(Some(try_box(MemoryFile)?))
    }

    fn set_attributes(&self, inode: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        if changes.mode.is_some_and(|mode| (mode ^ inode.mode()) & 0o111 != 0) && self.seals.has(seals::EXEC)
        {
            return Err(EPERM);
        }
        if let Some(size) = changes.size {
            self.seals.check_size(self.object.size(), size)?;
            self.object.set_size(size)?;
            inode.touch_modified();
        }
        inode.apply(changes);
        Ok(())
    }
}

/// A regular file that asks its seals before it is written.
struct MemoryFile;

static MEMORY_FILE: MemoryFile = MemoryFile;

impl FileOps for MemoryFile {
    fn read(&self, file: &File, at: u64, out: &mut Output<'_>, order: Order<'_>) -> Result<usize> {
        REGULAR.read(file, at, out, order)
    }

    fn write(&self, file: &File, at: u64, from: &mut Input<'_>, mut order: Order<'_>) -> Result<usize> {
        let inode = file.inode();
        let mut write = inode.lock_write(&mut order);
        from.limit(seals::allowed(inode, at, from.left())?);
        regular::write_locked(file, at, from, write.held().reborrow())
    }

    fn seeks(&self) -> bool {
        true
    }

    fn seek(&self, file: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        REGULAR.seek(file, offset, whence, now)
    }

    fn mapping(&self, file: &File) -> Result<Mapping> {
        REGULAR.mapping(file)
    }

    fn held_pages(&self, file: &File) -> u64 {
        file.inode().object().map_or(0, |object| object.resident_pages())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A new memory file with these seals.
///
/// # Errors
/// ENOSPC: memory is scarce. ENOMEM, ENFILE.
pub fn try_new(name: &[u8], mode: u32, seals: u32) -> Result<Arc<File>> {
    if !vm::may_grow() {
        return Err(ENOSPC);
    }
    let cred = Cred::current();
    let number = numbers::next();
    let new = NewInode { kind: Kind::Regular, mode, uid: cred.uid, gid: cred.gid, rdev: 0 };
    let (charge, budget) = account::memory_file(caller::uid())?;
    let object = Object::try_owned_in(number as usize, Some(budget))?;
    let mut called = Vec::new();
    for part in [b"/memfd:", name, b" (deleted)"] {
        called.try_extend_from_slice(part)?;
    }
    let (seals, xattrs) = (Seals::new(seals), Xattrs::new());
    let contents = try_box(Contents { object, seals, xattrs, _charge: charge })?;
    let inode = Inode::try_new(number, super::DEVICE, &new, contents)?;
    inode.set_links(0);
    if let Some(object) = inode.object() {
        mapped::enter_nameless(&object, &inode, called)?;
    }
    let flags = OpenFlags::READ_WRITE | OpenFlags::LARGEFILE;
    File::try_static(inode, "memfd", &MEMORY_FILE, flags)
}
