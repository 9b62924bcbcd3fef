//! Files of /proc/PID/ns: each stands for a namespace and keeps it. There are those of mounts alone.
//!
//! They have no place in any tree; on Linux they lie in a file system of their own (nsfs), and nobody writes or changes them.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;

use linux_raw_sys::general as abi;
use sync::heap::Text;
use sync::try_box;

use crate::errno::{EFAULT, EINVAL, ENODEV, ENOMEM, ENOTTY, EPERM, Errno, Result};
use crate::fs::file::ioctl::{put_u32, put_u64};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::context::FsContext;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Attributes, Inode, Kind, NewInode};
use crate::fs::vfs::mount::namespace::{FIRST_NUMBER, Member, first};
use crate::fs::vfs::mount::{self, Namespace, Path};
use crate::fs::vfs::operations::{InodeOps, SuperOps, Writing};
use crate::fs::vfs::parameters::Parameters;
use crate::fs::vfs::superblock::{FsType, SuperBlock};

/// `st_dev`; no mount has it.
const DEVICE: u64 = 0xe;
/// The number of the first namespace's file, and those of the others follow.
const FIRST_INODE: u64 = 0xf000_0000;

const NS_GET_USERNS: u32 = 0xb701;
const NS_GET_NSTYPE: u32 = 0xb703;
const NS_GET_MNTNS_ID: u32 = 0x8008_b705;
const NS_MNT_GET_INFO: u32 = 0x8010_b70a;
/// The size of what NS_MNT_GET_INFO tells.
const INFO: u32 = 16;

static NSFS: FsType = FsType {
    name: "nsfs",
    magic: 0x6e73_6673,
    nodev: true,
    mount: |_, _| Err(ENODEV),
    parameters: Parameters::None,
};

struct Nsfs;

impl SuperOps for Nsfs {}

/// What the file stands for. Nothing: the first namespace.
#[derive(Clone)]
pub struct Kept(Option<Member>);

impl Kept {
    /// The namespace of that root and working directory.
    pub fn of(context: &FsContext) -> Kept {
        Kept(context.member())
    }

    fn namespace(&self) -> &Namespace {
        self.0.as_deref().unwrap_or_else(|| first())
    }

    fn inode(&self) -> u64 {
        FIRST_INODE.saturating_add(self.namespace().number().saturating_sub(FIRST_NUMBER))
    }

    /// The file's name: what the link in /proc/PID/ns says.
    pub fn name(&self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        write!(Text(&mut text), "mnt:[{}]", self.inode()).map_err(|_| ENOMEM)?;
        Ok(text)
    }

    /// Where the link leads.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn path(self) -> Result<Path> {
        const NEW: NewInode = NewInode { kind: Kind::Regular, mode: 0o444, uid: 0, gid: 0, rdev: 0 };
        let (name, number) = (self.name()?, self.inode());
        let inode = Inode::try_with(number, DEVICE, &NEW, try_box(self)?, Attributes::Elsewhere)?;
        let superblock = SuperBlock::try_new(&NSFS, Cache::Uncached, DEVICE, inode.clone(), try_box(Nsfs)?)?;
        let mount = mount::unnumbered(superblock)?;
        Ok(Path { mount, dentry: Dentry::try_unowned(inode, None, &name)? })
    }

    /// `context` at the root of this namespace.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn enter(&self, context: &FsContext) -> Result<Arc<FsContext>> {
        context.within(self.0.clone())
    }
}

impl InodeOps for Kept {
    fn open(&self, _: &Dentry, _: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        Ok(Some(try_box(NamespaceFile(self.clone()))?))
    }

    fn set_attributes(&self, _: &Inode, _: &Changes, _: Writing<'_>) -> Result {
        Err(EPERM)
    }

    fn fsync(&self, _: &Inode, _: bool) -> Result {
        Err(EINVAL)
    }

    fn refuses_writing(&self) -> Option<Errno> {
        Some(EPERM)
    }
}

pub struct NamespaceFile(Kept);

impl NamespaceFile {
    /// What the file stands for, if it is one of these.
    pub fn of(file: &File) -> Option<&Kept> {
        file.ops().as_any().downcast_ref::<Self>().map(|file| &file.0)
    }
}

impl FileOps for NamespaceFile {
    fn can_read(&self) -> bool {
        false
    }

    fn can_write(&self) -> bool {
        false
    }

    fn has_no_size(&self) -> (Errno, Errno) {
        (EINVAL, EPERM)
    }

    fn ioctl(&self, _: &File, command: u32, argument: usize) -> Result<usize> {
        let space = self.0.namespace();
        match command {
            NS_GET_NSTYPE => Ok(abi::CLONE_NEWNS as usize),
            // There are no namespaces of users.
            NS_GET_USERNS => Err(EPERM),
            NS_GET_MNTNS_ID => put_u64(argument, space.number()),
            NS_MNT_GET_INFO => {
                let mounts = u32::try_from(space.count()).unwrap_or(u32::MAX);
                let after = |bytes: usize| argument.checked_add(bytes).ok_or(EFAULT);
                put_u32(argument, INFO)?;
                put_u32(after(4)?, mounts)?;
                put_u64(after(8)?, space.number())
            }
            // NS_GET_PARENT and NS_GET_OWNER_UID are for other kinds.
            0xb702 | 0xb704 => Err(EINVAL),
            _ => Err(ENOTTY),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
