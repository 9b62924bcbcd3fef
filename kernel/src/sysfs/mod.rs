//! sysfs: the machine's CPUs, memory and devices as files, as Linux's documents of its ABI (sysfs-devices-*, sysfs-block, sysfs-bus-*) show them. What is not
//! known of the machine has no name.
//!
//! * `folder`  which folders there are, what they lie in, and how links lead from one to another
//! * `tree`    which names each has
//! * `system`  those of /sys/devices/system
//! * `texts`   what the files say
//! * `bus`, `devices`, `disks`, `memory`: functions of PCI and virtio devices, devices of characters, disks, blocks of memory
//! * `firmware` what the firmware says of the machine
//!
//! Nothing is kept: a lookup makes an inode for the moment, as in procfs, and an open file makes its text when it is read. Nothing changes while the
//! machine runs but what is counted, and nothing can be written but the weights of nodes.
//!
//! No locks.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod bus;
mod devices;
mod disks;
mod firmware;
mod folder;
mod memory;
mod system;
mod texts;
mod tree;

pub use texts::configure;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::{TryVec, try_box};

use crate::errno::{EACCES, EINVAL, ENOENT, ENOTDIR, EPERM, Errno, Result};
use crate::fs::file::{FileOps, OpenFlags};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::operations::{DirEntry, InodeOps, Moving, Plain, Writing};
use crate::fs::vfs::parameters::Parameters;
use crate::fs::vfs::superblock::{FsType, Mounting, SuperBlock, new_device};
use crate::procfs::{Manner, Source, TextFile};
use folder::{Folder, relative};
use texts::Text;
use tree::Leads;

pub static SYSFS: FsType =
    FsType { name: "sysfs", magic: 0x6265_6572, nodev: true, mount, parameters: Parameters::None };

fn mount(kind: &'static FsType, asked: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    if asked.options.iter().any(|&byte| byte != b',') {
        return Err(EINVAL);
    }
    let device = new_device();
    SuperBlock::try_new(
        kind,
        Cache::Uncached,
        device,
        make(device, 1, Leads::Folder(Folder::Root))?,
        try_box(Plain)?,
    )
}

fn kind_of(leads: &Leads) -> (Kind, u32) {
    match leads {
        Leads::Folder(_) => (Kind::Directory, 0o755),
        Leads::Text(text) if text.is_setting() => (Kind::Regular, 0o644),
        Leads::Text(text) => (Kind::Regular, if text.is_secret() { 0o400 } else { 0o444 }),
        Leads::Link(..) => (Kind::Symlink, 0o777),
    }
}

fn make(device: u64, number: u64, leads: Leads) -> Result<Arc<Inode>> {
    let (kind, mode) = kind_of(&leads);
    let new = NewInode { kind, mode, uid: 0, gid: 0, rdev: 0 };
    Inode::try_new(number, device, &new, try_box(Node(leads))?)
}

struct Node(Leads);

impl Node {
    fn is_setting(&self) -> bool {
        matches!(self.0, Leads::Text(text) if text.is_setting())
    }
}

impl InodeOps for Node {
    fn size(&self, _: &Inode) -> u64 {
        match self.0 {
            Leads::Text(text) => text.size(),
            _ => 0,
        }
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
        let Leads::Folder(folder) = self.0 else { return Err(ENOTDIR) };
        let mut found = Err(ENOENT);
        folder.each(&mut |n, entry, leads| {
            let is_it = entry == name;
            if is_it {
                found = make(dir.device, folder.number(n), leads);
            }
            !is_it
        });
        found
    }

    fn read_dir(&self, _: &Inode, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
        let Leads::Folder(folder) = self.0 else { return Err(ENOTDIR) };
        // The first two are `.` and `..`.
        let from = position.saturating_sub(2);
        folder.each(&mut |n, name, leads| {
            let next = n.saturating_add(3);
            n < from || emit(&DirEntry { name, number: folder.number(n), kind: kind_of(&leads).0, next })
        });
        Ok(())
    }

    fn read_link(&self, _: &Inode) -> Result<Vec<u8>> {
        let Leads::Link(from, to) = self.0 else { return Err(EINVAL) };
        let mut out = Vec::new();
        relative(from, to, &mut out)?;
        Ok(out)
    }

    fn open(&self, _: &Dentry, flags: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        match self.0 {
            // Whoever it is: nothing here takes what is written.
            Leads::Text(text)
                if !text.is_setting() && (flags.writes() || flags.contains(OpenFlags::TRUNCATE)) =>
            {
                Err(EACCES)
            }
            Leads::Text(text) => TextFile::open(Shown(text)).map(Some),
            _ => Ok(None),
        }
    }

    fn refuses_writing(&self) -> Option<Errno> {
        if self.is_setting() { None } else { Some(EPERM) }
    }

    fn rename(&self, _: &Moving<'_>) -> Result {
        Err(EPERM)
    }

    /// Opening a setting may ask for a size of 0.
    fn set_attributes(&self, _: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        if self.is_setting() && changes.size.is_some() { Ok(()) } else { Err(EPERM) }
    }
}

struct Shown(Text);

impl Source for Shown {
    fn manner(&self) -> Manner {
        if self.0.is_setting() { Manner::WritableLines } else { Manner::Lines }
    }

    fn write(&self, data: &[u8]) -> Result {
        self.0.set(data)
    }

    fn text(&self, out: &mut Vec<u8>) -> Result {
        self.0.write(out)?;
        if self.0.is_lines() { Ok(out.try_push(b'\n')?) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
