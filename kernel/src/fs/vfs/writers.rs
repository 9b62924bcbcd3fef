//! Text file busy: a file is not written while it runs as a program, nor run while it is open for writing.
//!
//! Who opens a file for writing counts himself in the inode and then looks whether anybody runs it; who executes it says so in
//! his own thread and then looks at the count. Both put a full fence between, so one sees the other. Executing writes
//! nothing of the inode but, once, a flag; so CPUs that execute one file write no common line, and whoever opens for writing
//! a file that was ever executed pays for a walk over the processes.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst, fence};

use super::inode::Inode;
use crate::errno::{ETXTBSY, Result};
use crate::fs::caller;

/// An inode's side of it.
#[derive(Default)]
pub struct Writers {
    /// Open files that may write.
    count: AtomicU32,
    executed: AtomicBool,
}

impl Writers {
    pub const fn new() -> Writers {
        Writers { count: AtomicU32::new(0), executed: AtomicBool::new(false) }
    }
}

impl Inode {
    /// Somebody is to write this regular file, until `end_write`.
    ///
    /// # Errors
    /// ETXTBSY.
    pub fn begin_write(&self) -> Result {
        self.writers.count.fetch_add(1, SeqCst);
        fence(SeqCst);
        if self.writers.executed.load(SeqCst) && caller::is_executed(self) {
            self.end_write();
            return Err(ETXTBSY);
        }
        Ok(())
    }

    pub fn end_write(&self) {
        self.writers.count.fetch_sub(1, SeqCst);
    }

    /// May the file be executed now? The caller has said that it does where `caller::is_executed` finds it.
    ///
    /// # Errors
    /// ETXTBSY.
    pub fn check_writers(&self) -> Result {
        if !self.writers.executed.load(SeqCst) {
            self.writers.executed.store(true, SeqCst);
        }
        fence(SeqCst);
        if self.writers.count.load(SeqCst) == 0 { Ok(()) } else { Err(ETXTBSY) }
    }
}
