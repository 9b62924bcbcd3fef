//! Process descriptors (pidfd_open(2)): an open file that stands for one process, and for no other that has its number later.
//!
//! The file keeps neither the process nor its number. A process and its descriptors share a queue, which is made with the first of them, and on
//! which who watches a descriptor sleeps. It is woken when the process has ended, and when it has been waited for.
//!
//! No locks of its own. Who wakes the queue has set what a watcher looks at and passed a full fence since, as `WaitQueue` asks.
#![forbid(unsafe_code)]

use super::{Pid, Process, Thread, current, ids};
use crate::errno::{Errno, Result};
use crate::fs::anon;
use crate::fs::file::poll::{self, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;
use once_cell::race::OnceBox;
use sync::heap::Text;
use sync::{try_arc, try_box};

/// A process's side of it.
pub struct Watched(OnceBox<Arc<PollQueue>>);

impl Watched {
    pub const fn new() -> Self {
        Self(OnceBox::new())
    }

    fn queue(&self) -> Result<Arc<PollQueue>> {
        if self.0.get().is_none() {
            // Another thread may be first; then ours is dropped.
            let _ = self.0.set(try_box(try_arc(PollQueue::new())?)?);
        }
        self.0.get().cloned().ok_or(Errno::ENOMEM)
    }

    /// The process has ended, or has been waited for.
    #[inline]
    pub fn wake(&self) {
        if let Some(queue) = self.0.get() {
            queue.wake();
        }
    }
}

/// What the open file is.
pub struct PidFile {
    pid: Pid,
    process: Weak<Process>,
    watched: Arc<PollQueue>,
}

impl PidFile {
    /// A file for `process`.
    ///
    /// # Errors
    /// ENOMEM, ENFILE.
    pub fn try_new(process: &Arc<Process>, flags: OpenFlags) -> Result<Arc<File>> {
        let watched = process.watched.queue()?;
        let file = PidFile { pid: process.pid(), process: Arc::downgrade(process), watched };
        let flags = flags | OpenFlags::READ_WRITE;
        File::try_anonymous(anon::nameless()?, "anon_inode:[pidfd]", try_box(file)?, flags)
    }

    /// The process, alive or a zombie. None: it has been waited for.
    pub fn process(&self) -> Option<Arc<Process>> {
        let process = self.process.upgrade()?;
        let is_there = ids::look_at(self.pid, |found| core::ptr::eq(found, &*process));
        (is_there == Some(true)).then_some(process)
    }

    /// The number that the process has, or had.
    pub fn pid(&self) -> Pid {
        self.pid
    }
}

impl FileOps for PidFile {
    fn can_read(&self) -> bool {
        false
    }

    fn can_write(&self) -> bool {
        false
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.watched);
        match self.process() {
            None => poll::IN | poll::RDNORM | poll::HUP,
            Some(process) if process.is_zombie() => poll::IN | poll::RDNORM,
            Some(_) => 0,
        }
    }

    fn tell(&self, _: &File, out: &mut Vec<u8>) -> Result {
        let number = self.process().map_or(-1, |_| i64::from(self.pid));
        write!(Text(out), "Pid:\t{number}\nNSpid:\t{number}\n").map_err(|_| Errno::ENOMEM)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// CLONE_PIDFD: gives the running thread a descriptor for the process of `child`, which nobody has seen yet, and writes its number to `address`.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM. EFAULT.
pub(super) fn give(child: &Arc<Thread>, address: usize, limit: usize) -> Result<i32> {
    let parent = current();
    let files = parent.files();
    files.check_room(limit)?;
    let file = PidFile::try_new(&child.process, OpenFlags::empty())?;
    let fd = files.install(file, 0, limit, true)?;
    if let Err(error) = crate::arch::user::copy_to_user(address, &fd.to_ne_bytes()) {
        let _ = files.close(fd);
        return Err(error.into());
    }
    Ok(fd)
}
