//! Text file busy: a file is not written while it runs as a program, nor run while it is open for writing.
//!
//! Who opens a file for writing counts himself in the inode and then looks whether anybody runs it; who executes it says so in
//! his own thread and then looks at the count. Both put a full fence between, so one sees the other. Executing writes
//! nothing of the inode but, once, a flag; so CPUs that execute one file write no common line, and whoever opens for writing
//! a file that was ever executed pays for a walk over the processes.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};

use sync::protocol::readers::Shared;

use super::inode::Inode;
use crate::errno::{ETXTBSY, Result};
use crate::fs::caller;

/// An inode's side of it.
#[derive(Default)]
pub struct Writers {
    /// Open files that may write.
    count: Shared,
    executed: AtomicBool,
}

impl Writers {
    pub const fn new() -> Writers {
        Writers { count: Shared::new(), executed: AtomicBool::new(false) }
    }

    /// How many have it open to write. Who wants a lease asks behind his claim (`locks::lease`).
    pub fn count(&self) -> u32 {
        self.count.count()
    }
}

impl Inode {
    /// Somebody is to write this regular file, until `end_write`. He looks for leases afterwards.
    ///
    /// # Errors
    /// ETXTBSY.
    pub fn begin_write(&self) -> Result {
        self.writers.count.open();
        if self.writers.executed.load(SeqCst) && caller::is_executed(self) {
            self.end_write();
            return Err(ETXTBSY);
        }
        Ok(())
    }

    pub fn end_write(&self) {
        self.writers.count.close();
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
        if self.writers.count() == 0 { Ok(()) } else { Err(ETXTBSY) }
    }
}
