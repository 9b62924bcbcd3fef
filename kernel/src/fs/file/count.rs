//! How many files are open in the whole machine (fs.file-nr), and how many may be (fs.file-max).
//!
//! A file counts from when it is made until its last descriptor is closed, or until it goes if it never had one. Beyond the limit only the
//! privileged (CAP_SYS_ADMIN) open files.
//!
//! CountLocal: far from the limit a CPU charges and gives back out of its own batch (`sync::quota`), near it the count is exact. No locks.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sync::quota::UNLIMITED;
use sync::{GlobalQuota, per_cpu};

use crate::account::limits;
use crate::errno::{ENFILE, Result};
use crate::fs::caller;

per_cpu! { static SPARES: AtomicU64 = AtomicU64::new(0); }

static OPEN: GlobalQuota = GlobalQuota::new(&SPARES);

/// How many files are open.
pub fn open_files() -> u64 {
    OPEN.used()
}

/// One file's part in the count.
pub struct Counted(AtomicBool);

impl Counted {
    /// Counts one more.
    ///
    /// # Errors
    /// ENFILE.
    #[inline]
    pub fn try_new() -> Result<Counted> {
        if !OPEN.charge(1, limits::files()) {
            beyond()?;
        }
        Ok(Counted(AtomicBool::new(true)))
    }

    /// The last descriptor is closed.
    #[inline]
    pub fn end(&self) {
        // Whoever drops the file does so after that, and nobody else comes here.
        if self.0.load(Relaxed) {
            self.0.store(false, Relaxed);
            OPEN.give_back(1);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.end();
    }
}

#[cold]
fn beyond() -> Result {
    if caller::capable(caller::Capability::SYS_ADMIN) && OPEN.charge(1, UNLIMITED) {
        Ok(())
    } else {
        Err(ENFILE)
    }
}
