//! signalfd(2): signals that are read and waited for as a file.
//!
//! What is read are the signals of whoever reads, so a descriptor handed on by fork shows the child its own. A process that
//! has polled the file, or slept in a read of it, keeps it among its `Listeners` and wakes it when a blocked signal comes; one that only makes it, or
//! reads what is there, does not.
//!
//! No locks of its own.
#![deny(unsafe_code)]

mod listeners;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sync::heap::Text;
use sync::{try_arc, try_box};

use listeners::KnownTo;
pub use listeners::Listeners;

use crate::errno::{EAGAIN, EINVAL, ENOMEM, Result};
use crate::fs::caller::{self, SignalRecord};
use crate::fs::file::buffer::Output;
use crate::fs::file::poll::{self, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};

/// Bytes of what a read gives of one signal.
const RECORD: usize = size_of::<SignalRecord>();

pub struct SignalFile {
    set: AtomicU64,
    changed: Arc<PollQueue>,
    known: KnownTo,
}

impl SignalFile {
    /// A file of the signals in `set`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new(set: u64, flags: OpenFlags) -> Result<Arc<File>> {
        let file = SignalFile {
            set: AtomicU64::new(set & caller::BLOCKABLE),
            changed: try_arc(PollQueue::new())?,
            known: KnownTo::nobody(),
        };
        let inode = super::nameless()?;
        File::try_anonymous(inode, "anon_inode:[signalfd]", try_box(file)?, flags | OpenFlags::READ_WRITE)
    }

    /// Shows other signals from now on.
    pub fn set(&self, set: u64) {
        self.set.store(set & caller::BLOCKABLE, SeqCst);
        self.changed.wake_and_give_way();
    }

    fn listen(&self) -> Result {
        caller::with_signal_listeners(|listeners| listeners.add(&self.changed, &self.known))
    }

    fn take(&self) -> Option<SignalRecord> {
        caller::take_signal(self.set.load(SeqCst))
    }

    /// Does one of them wait?
    fn is_ready(&self) -> bool {
        caller::pending_signals() & self.set.load(SeqCst) != 0
    }
}

impl FileOps for SignalFile {
    fn splices(&self) -> bool {
        false
    }

    fn can_write(&self) -> bool {
        false
    }

    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        if out.left() < RECORD {
            return Err(EINVAL);
        }
        let mut next = match self.is_ready().then(|| self.take()).flatten() {
            Some(record) => Some(record),
            None if file.nonblocking() || out.nowait => return Err(EAGAIN),
            None => {
                self.listen()?;
                Some(self.changed.wait(None, || self.take())?)
            }
        };
        while let Some(record) = next {
            if out.put(&record) < RECORD || out.left() < RECORD {
                break;
            }
            next = self.take();
        }
        out.whole_records(RECORD)
    }

    fn takes_nowait(&self, _: &File) -> bool {
        true
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.changed);
        // Without memory it is not woken: a look still tells.
        let _ = self.listen();
        if self.is_ready() { poll::IN } else { 0 }
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn tell(&self, _: &File, out: &mut Vec<u8>) -> Result {
        writeln!(Text(out), "sigmask:\t{:016x}", self.set.load(SeqCst)).map_err(|_| ENOMEM)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
