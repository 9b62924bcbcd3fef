//! procfs: the kernel's and the processes' state as files, in the formats of proc(5).
//!
//! Nothing is kept: each lookup makes an inode for the moment, each open file makes its text at the first read and keeps it until it is
//! read again from the start. Inode numbers are made of what the file shows, so that they stay the same.
//!
//! No locks but those of what is shown.
#![forbid(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod content;
mod darter;
mod entry;
mod knobs;
mod manner;
mod names;
mod nodes;
mod sched;
mod space;
mod system;
mod task;
mod text;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use crate::lock_order as level;
use sync::{Mutex, lock_class, try_box};

pub use self::manner::Manner;
pub use self::nodes::process_of;
use crate::errno::{EFAULT, EINVAL, EIO, ENODEV, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, Poller};
use crate::fs::file::{File, FileOps, Mapping, Order};
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::operations::SuperOps;
use crate::fs::vfs::parameters::Parameters;
use crate::fs::vfs::superblock::{FsType, Mounting, SuperBlock, new_device};

lock_class! { static CONTENT: LockClass = ("proc file", level::ProcContent); }

pub static PROC: FsType =
    FsType { name: "proc", magic: 0x9fa0, nodev: true, mount: mount_proc, parameters: Parameters::None };

/// There are no options: hidepid=, gid= and subset= are refused as words that mean nothing are.
fn check_no_options(text: &[u8]) -> Result {
    if text.iter().all(|&byte| byte == b',') { Ok(()) } else { Err(EINVAL) }
}

struct Proc;

impl SuperOps for Proc {
    fn largest_file(&self) -> u64 {
        manner::LARGEST
    }
}

fn mount_proc(kind: &'static FsType, asked: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    check_no_options(asked.options)?;
    let device = new_device();
    SuperBlock::try_new(kind, Cache::Uncached, device, nodes::root(device)?, try_box(Proc)?)
}

/// Makes a file's text.
pub trait Source: Send + Sync + 'static {
    fn manner(&self) -> Manner;

    fn text(&self, out: &mut Vec<u8>) -> Result;

    /// A part of a long text, which begins where `from` says: 0, or what the part before it answered. None: it was the last.
    fn part(&self, _from: usize, out: &mut Vec<u8>) -> Result<Option<usize>> {
        self.text(out).map(|()| None)
    }

    fn write(&self, _data: &[u8]) -> Result {
        Err(EINVAL)
    }
}

/// The part of a text that was read last.
struct Content {
    text: Vec<u8>,
    /// Where in the whole it begins.
    start: u64,
    /// Where the next part begins.
    next: Option<usize>,
}

impl Content {
    fn first(source: &impl Source) -> Result<Content> {
        let mut text = Vec::new();
        let next = source.part(0, &mut text)?;
        Ok(Content { text, start: 0, next })
    }

    /// What lies at `at` or follows in this part; None: it comes later, if there is more.
    fn rest(&self, at: u64) -> Option<&[u8]> {
        let skipped = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.text.get(skipped..).filter(|rest| !rest.is_empty())
    }

    /// Goes on to the next part. False: there is none.
    fn advance(&mut self, source: &impl Source) -> Result<bool> {
        let Some(next) = self.next else { return Ok(false) };
        self.start = self.start.saturating_add(self.text.len() as u64);
        self.text.clear();
        self.next = source.part(next, &mut self.text)?;
        Ok(true)
    }
}

/// An open file of text.
pub struct TextFile<S: Source> {
    source: S,
    content: Mutex<Option<Content>, level::ProcContent>,
}

impl<S: Source> TextFile<S> {
    pub fn open(source: S) -> Result<Box<dyn FileOps>> {
        Ok(try_box(TextFile { source, content: Mutex::new(None, &CONTENT) })?)
    }
}

impl<S: Source> FileOps for TextFile<S> {
    fn read(&self, _: &File, at: u64, out: &mut Output<'_>, mut order: Order<'_>) -> Result<usize> {
        let mut kept = self.content.lock_in(&mut order);
        let content = match &mut *kept {
            Some(content) if at != 0 && content.start <= at => content,
            other => other.insert(Content::first(&self.source)?),
        };
        let (began, mut at) = (at, at);
        loop {
            if let Some(rest) = content.rest(at) {
                at = at.saturating_add(out.put(rest) as u64);
            }
            if content.next.is_none() || out.left() == 0 || out.faulted() {
                return out.result();
            }
            match content.advance(&self.source) {
                Ok(true) => {}
                Err(error) if at == began => return Err(error),
                _ => return out.result(),
            }
        }
    }

    fn write(&self, _: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        match self.source.manner() {
            Manner::Machine => return Err(EIO),
            manner if !manner.is_written() => return Err(EINVAL),
            _ => {}
        }
        let mut data = [0; 512];
        let n = from.take(&mut data);
        if from.faulted() {
            return Err(EFAULT);
        }
        if from.left() > 0 {
            return Err(EINVAL);
        }
        self.source.write(data.get(..n).unwrap_or(&[]))?;
        Ok(n)
    }

    fn seeks(&self) -> bool {
        true
    }

    fn seek(&self, _: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        self.source.manner().seek(offset, whence, now)
    }

    fn can_write(&self) -> bool {
        self.source.manner().is_written()
    }

    fn takes_places(&self, writing: bool) -> bool {
        !writing || self.source.manner().is_written_at()
    }

    fn takes_flags(&self, writing: bool) -> bool {
        self.source.manner().takes_flags(writing)
    }

    fn ignores_append(&self) -> bool {
        true
    }

    fn splices(&self) -> bool {
        self.source.manner().takes_flags(false)
    }

    fn takes_spliced(&self) -> bool {
        self.source.manner().takes_flags(true)
    }

    fn poll<'a>(&'a self, _: &'a File, _: &mut Poller<'_, 'a>) -> u32 {
        match self.source.manner() {
            Manner::Mounts => poll::IN | poll::RDNORM,
            _ => poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM,
        }
    }

    fn mapping(&self, _: &File) -> Result<Mapping> {
        Err(if self.source.manner() == Manner::Machine { EIO } else { ENODEV })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
