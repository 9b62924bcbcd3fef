//! signalfd(2): signals that are read and waited for as a file.
//!
//! What is read are the signals of whoever reads, so a descriptor handed on by fork shows the child its own. A process that
//! asked keeps the file among its `Listeners` and wakes it when a blocked signal comes.
//!
//! Lock order: `signals` of the process, which the sender has dropped before it wakes → the queue's.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::lock_order as level;
use sync::{SpinLock, TryVec, lock_class, try_arc, try_box};

use crate::errno::{EAGAIN, EINVAL, Result};
use crate::fs::caller::{self, SignalRecord};
use crate::fs::file::buffer::Output;
use crate::fs::file::poll::{self, Pace, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};

lock_class! { static LISTENERS: LockClass = ("signalfd listeners", level::SignalfdListeners); }

/// Bytes of what a read gives of one signal.
const RECORD: usize = size_of::<SignalRecord>();

/// The signal files that a process has looked at.
pub struct Listeners {
    some: AtomicBool,
    list: SpinLock<Vec<Weak<PollQueue>>, level::SignalfdListeners>,
}

impl Listeners {
    pub const fn new() -> Listeners {
        Listeners { some: AtomicBool::new(false), list: SpinLock::new(Vec::new(), &LISTENERS) }
    }

    fn add(&self, queue: &Arc<PollQueue>) -> Result {
        let mut list = self.list.lock();
        if list.iter().any(|w| core::ptr::eq(w.as_ptr(), Arc::as_ptr(queue))) {
            return Ok(());
        }
        list.retain(|w| w.strong_count() > 0);
        list.try_push(Arc::downgrade(queue))?;
        self.some.store(true, SeqCst);
        Ok(())
    }

    /// A signal has come that waits. No lock is held.
    #[inline]
    pub fn wake(&self, pace: &mut Pace) {
        if self.some.load(SeqCst) {
            self.wake_all(pace);
        }
    }

    #[cold]
    #[expect(clippy::arithmetic_side_effects, reason = "counts no more than the array holds")]
    fn wake_all(&self, pace: &mut Pace) {
        let mut n = 0;
        loop {
            let queue = match self.list.lock().get(n) {
                Some(queue) => queue.upgrade(),
                None => return,
            };
            queue.into_iter().for_each(|q| q.wake_at(pace));
            n += 1;
        }
    }
}

pub struct SignalFile {
    set: AtomicU64,
    changed: Arc<PollQueue>,
}

impl SignalFile {
    /// A file of the signals in `set`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new(set: u64, flags: OpenFlags) -> Result<Arc<File>> {
        let file =
            SignalFile { set: AtomicU64::new(set & caller::BLOCKABLE), changed: try_arc(PollQueue::new())? };
        file.listen()?;
        let inode = super::nameless()?;
        File::try_anonymous(inode, "anon_inode:[signalfd]", try_box(file)?, flags | OpenFlags::READ_WRITE)
    }

    /// Shows other signals from now on.
    pub fn set(&self, set: u64) {
        self.set.store(set & caller::BLOCKABLE, SeqCst);
        self.changed.wake_and_give_way();
    }

    fn listen(&self) -> Result {
        caller::with_signal_listeners(|listeners| listeners.add(&self.changed))
    }

    fn take(&self) -> Option<SignalRecord> {
        caller::take_signal(self.set.load(SeqCst))
    }
}

impl FileOps for SignalFile {
    fn can_write(&self) -> bool {
        false
    }

    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        if out.left() < RECORD {
            return Err(EINVAL);
        }
        self.listen()?;
        let mut next = match self.take() {
            Some(record) => Some(record),
            None if file.nonblocking() => return Err(EAGAIN),
            None => Some(self.changed.wait(None, || self.take())?),
        };
        while let Some(record) = next {
            if out.put(&record) < RECORD || out.left() < RECORD {
                break;
            }
            next = self.take();
        }
        out.whole_records(RECORD)
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.changed);
        // Without memory it is not woken: a look still tells.
        let _ = self.listen();
        if caller::pending_signals() & self.set.load(SeqCst) != 0 { poll::IN } else { 0 }
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
