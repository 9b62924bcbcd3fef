//! Process descriptors (pidfd_open(2)): an open file that stands for one process or thread, and for no other that has its number later.
//!
//! The file keeps neither the process nor its number. A process and its descriptors share a queue, which is made with the first of them, and on
//! which who watches a descriptor sleeps. It is woken when the process has ended, and when it has been waited for. A thread that is not the first has
//! a queue of its own.
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

/// Whom it stands for.
enum Whom {
    Process(Weak<Process>),
    /// The thread with the process's number (PIDFD_THREAD).
    First(Weak<Process>),
    Thread(Weak<Thread>),
}

/// What the open file is.
pub struct PidFile {
    pid: Pid,
    whom: Whom,
    /// When the process began: a group that it has led may outlive it. None: a thread that leads none.
    began: Option<u64>,
    watched: Arc<PollQueue>,
}

impl PidFile {
    /// A file for `process`.
    ///
    /// # Errors
    /// ENOMEM, ENFILE.
    pub fn try_new(process: &Arc<Process>, flags: OpenFlags) -> Result<Arc<File>> {
        let whom = Whom::Process(Arc::downgrade(process));
        PidFile::try_with(process.pid(), Some(process.started), whom, process.watched.queue()?, flags)
    }

    /// A file for `thread` alone.
    ///
    /// # Errors
    /// ENOMEM, ENFILE.
    pub fn try_of_thread(thread: &Arc<Thread>, flags: OpenFlags) -> Result<Arc<File>> {
        let tid = thread.tid();
        if tid == thread.process.pid() {
            return PidFile::try_of_first(&thread.process, flags);
        }
        let whom = Whom::Thread(Arc::downgrade(thread));
        let file = PidFile::try_with(tid, None, whom, thread.watched.queue()?, flags)?;
        // PIDFD_THREAD, by which fcntl tells it.
        file.keep_flag(OpenFlags::EXCLUSIVE);
        Ok(file)
    }

    /// A file for the thread with the number of `process`, which may have ended.
    ///
    /// # Errors
    /// ENOMEM, ENFILE.
    pub fn try_of_first(process: &Arc<Process>, flags: OpenFlags) -> Result<Arc<File>> {
        let whom = Whom::First(Arc::downgrade(process));
        let file =
            PidFile::try_with(process.pid(), Some(process.started), whom, process.watched.queue()?, flags)?;
        file.keep_flag(OpenFlags::EXCLUSIVE);
        Ok(file)
    }

    fn try_with(
        pid: Pid,
        began: Option<u64>,
        whom: Whom,
        watched: Arc<PollQueue>,
        flags: OpenFlags,
    ) -> Result<Arc<File>> {
        let file = PidFile { pid, whom, began, watched };
        let flags = flags | OpenFlags::READ_WRITE;
        File::try_anonymous(anon::immutable()?, "anon_inode:[pidfd]", try_box(file)?, flags)
    }

    /// Does it stand for a thread alone?
    pub fn is_of_thread(&self) -> bool {
        !matches!(self.whom, Whom::Process(_))
    }

    /// Does it stand for the caller's own process? To be asked before `process`, whose count of references all its threads share.
    pub fn is_own(&self) -> bool {
        let (Whom::Process(process) | Whom::First(process)) = &self.whom else { return false };
        core::ptr::eq(process.as_ptr(), &*current().process)
    }

    /// The process that has the number, alive or a zombie. None: it has been waited for, or it is a thread's number.
    pub fn process(&self) -> Option<Arc<Process>> {
        let (Whom::Process(process) | Whom::First(process)) = &self.whom else { return None };
        let process = process.upgrade()?;
        let is_there = ids::look_at(self.pid, |found| core::ptr::eq(found, &*process));
        (is_there == Some(true)).then_some(process)
    }

    /// The thread that has the number, unless it has ended.
    pub fn thread(&self) -> Option<Arc<Thread>> {
        match &self.whom {
            Whom::Thread(thread) => {
                ids::find_thread(self.pid).filter(|found| Weak::as_ptr(thread) == Arc::as_ptr(found))
            }
            _ => self.process()?.leader().filter(|thread| thread.tid() == self.pid),
        }
    }

    /// The process, or that of the thread.
    pub fn process_of_any(&self) -> Option<Arc<Process>> {
        match &self.whom {
            Whom::Thread(_) => self.thread().map(|thread| thread.process.clone()),
            _ => self.process(),
        }
    }

    /// Is a group with the number that which the process leads, or led?
    pub fn has_group(&self) -> bool {
        let found = || ids::find_group(self.pid).is_some_and(|group| self.began == Some(group.led_from));
        self.process().is_some() || found()
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

    fn takes_places(&self, _writing: bool) -> bool {
        true
    }

    fn is_regular(&self, _: &File) -> bool {
        true
    }

    /// On Linux it is a file of a file system of its own, whose files nobody changes.
    fn has_no_size(&self) -> (Errno, Errno) {
        (Errno::EOPNOTSUPP, Errno::EPERM)
    }

    /// Its own commands, which lead to namespaces, take nothing.
    fn ioctl(&self, _: &File, _command: u32, argument: usize) -> Result<usize> {
        if argument != 0 {
            return Err(Errno::EINVAL);
        }
        Err(if self.process().is_some() { Errno::ENOTTY } else { Errno::ESRCH })
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.watched);
        let Some(process) = self.process_of_any() else { return poll::IN | poll::RDNORM | poll::HUP };
        // That the first thread has ended before the others is not told: another may take its place by exec.
        let has_ended = process.is_zombie() && !matches!(self.whom, Whom::Thread(_));
        if has_ended { poll::IN | poll::RDNORM } else { 0 }
    }

    fn tell(&self, _: &File, out: &mut Vec<u8>) -> Result {
        let number = self.process_of_any().map_or(-1, |_| i64::from(self.pid));
        write!(Text(out), "Pid:\t{number}\nNSpid:\t{number}\n").map_err(|_| Errno::ENOMEM)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A descriptor that CLONE_PIDFD gives to the running thread. Nobody finds it before `give`; dropped without, its number is free again.
pub(super) struct Promised {
    fd: i32,
    file: Option<Arc<File>>,
}

impl Promised {
    /// A descriptor for `child`, which nobody has seen yet: for the process, or the thread that a process gets (`of_thread`). Writes its number to
    /// `address`.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM. EFAULT.
    pub fn try_new(child: &Arc<Thread>, of_thread: bool, address: usize, limit: usize) -> Result<Promised> {
        let parent = current();
        let files = parent.files();
        files.check_room(limit)?;
        let file = if of_thread {
            PidFile::try_of_thread(child, OpenFlags::empty())?
        } else {
            PidFile::try_new(&child.process, OpenFlags::empty())?
        };
        let promised = Promised { fd: files.reserve(limit)?, file: Some(file) };
        crate::arch::user::copy_to_user(address, &promised.fd.to_ne_bytes())?;
        Ok(promised)
    }

    /// The child can be found: the descriptor is there.
    pub fn give(mut self) {
        if let Some(file) = self.file.take() {
            // Without memory for a table that was shared meanwhile there is none, and its number is free.
            let _ = current().files().install_reserved(file, self.fd);
        }
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        if self.file.is_some() {
            current().files().end_reservation(self.fd);
        }
    }
}
