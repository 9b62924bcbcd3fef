//! procfs: the kernel's and the processes' state as files, in the formats of proc(5).
//!
//! Nothing is kept: each lookup makes an inode for the moment, each open file makes its text at the first read and keeps it until it is
//! read again from the start. Inode numbers are made of what the file shows, so that they stay the same.
//! sysfs is here as an empty directory, so that programs that mount it go on; it shows nothing yet.
//!
//! No locks but those of what is shown.
#![forbid(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod descriptors;
mod entry;
mod general;
mod latency;
mod lockstat;
mod maps;
mod names;
mod nodes;
mod process;
mod settings;
#[cfg(feature = "lockdep")]
mod stack;
mod status;
mod users;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use crate::lock_order as level;
use sync::{Mutex, lock_class, try_box};

use crate::errno::{EINVAL, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, Poller};
use crate::fs::file::{File, FileOps, Order};
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::operations::Plain;
use crate::fs::vfs::superblock::{FsType, SuperBlock, new_device};

lock_class! { static CONTENT: LockClass = ("proc file", level::ProcContent); }

pub static PROC: FsType = FsType { name: "proc", magic: 0x9fa0, nodev: true, mount: mount_proc };

pub static SYSFS: FsType = FsType { name: "sysfs", magic: 0x6265_6572, nodev: true, mount: mount_sysfs };

/// There are no options: hidepid=, gid= and subset= are refused as words that mean nothing are.
fn check_no_options(text: &[u8]) -> Result {
    if text.iter().all(|&byte| byte == b',') { Ok(()) } else { Err(EINVAL) }
}

fn mount_proc(kind: &'static FsType, options: &[u8]) -> Result<Arc<SuperBlock>> {
    check_no_options(options)?;
    let device = new_device();
    SuperBlock::try_new(kind, Cache::Uncached, device, nodes::root(device)?, try_box(Plain)?)
}

fn mount_sysfs(kind: &'static FsType, options: &[u8]) -> Result<Arc<SuperBlock>> {
    check_no_options(options)?;
    let device = new_device();
    let new = NewInode { kind: Kind::Directory, mode: 0o555, uid: 0, gid: 0, rdev: 0 };
    let root = Inode::try_new(1, device, &new, try_box(Plain)?)?;
    SuperBlock::try_new(kind, Cache::Complete, device, root, try_box(Plain)?)
}

/// Makes a file's text.
pub trait Source: Send + Sync + 'static {
    /// Is it one of a process's own texts?
    const OF_PROCESS: bool = false;

    fn text(&self, out: &mut Vec<u8>) -> Result;

    fn write(&self, _data: &[u8]) -> Result {
        Err(EINVAL)
    }
}

/// An open file of text.
pub struct TextFile<S: Source> {
    source: S,
    content: Mutex<Option<Vec<u8>>, level::ProcContent>,
}

impl<S: Source> TextFile<S> {
    pub fn open(source: S) -> Result<Box<dyn FileOps>> {
        Ok(try_box(TextFile { source, content: Mutex::new(None, &CONTENT) })?)
    }
}

impl<S: Source> FileOps for TextFile<S> {
    fn read(&self, _: &File, at: u64, out: &mut Output<'_>, mut order: Order<'_>) -> Result<usize> {
        let mut content = self.content.lock_in(&mut order);
        if at == 0 || content.is_none() {
            let mut text = Vec::new();
            self.source.text(&mut text)?;
            *content = Some(text);
        }
        let text = content.as_deref().unwrap_or(&[]);
        let rest = usize::try_from(at).ok().and_then(|at| text.get(at..)).unwrap_or(&[]);
        out.put(rest);
        out.result()
    }

    fn write(&self, _: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        let mut data = [0; 512];
        let n = from.take(&mut data);
        if n == 0 || from.left() > 0 {
            return if from.faulted() { from.result() } else { Err(EINVAL) };
        }
        self.source.write(data.get(..n).unwrap_or(&[]))?;
        Ok(n)
    }

    fn seeks(&self) -> bool {
        true
    }

    fn takes_flags(&self, _: bool) -> bool {
        !S::OF_PROCESS
    }

    fn poll<'a>(&'a self, _: &'a File, _: &mut Poller<'_, 'a>) -> u32 {
        poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
