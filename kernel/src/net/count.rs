//! How many sockets there are in the whole machine: at most twice as many as files may be open, as on Linux. Without this bound connections that nobody
//! accepts, of which no descriptor is needed, would fill memory.
//!
//! A socket counts until it is closed, or goes if it never was.
//!
//! CountLocal: far from the limit a CPU charges and gives back out of its own batch (`sync::quota`), near it the count is exact. No locks.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sync::{GlobalQuota, per_cpu};

use crate::account::limits;
use crate::errno::{ENFILE, Result};

per_cpu! { static SPARES: AtomicU64 = AtomicU64::new(0); }

static SOCKETS: GlobalQuota = GlobalQuota::new(&SPARES);

/// One socket's part in the count.
pub struct Counted(AtomicBool);

impl Counted {
    /// Counts one more.
    ///
    /// # Errors
    /// ENFILE, also for the privileged.
    #[inline]
    pub fn try_new() -> Result<Counted> {
        if SOCKETS.charge(1, limits::files().saturating_mul(2)) {
            Ok(Counted(AtomicBool::new(true)))
        } else {
            Err(ENFILE)
        }
    }

    /// The socket is closed. Once: whoever drops it does so after that.
    #[inline]
    pub fn end(&self) {
        if self.0.load(Relaxed) {
            self.0.store(false, Relaxed);
            SOCKETS.give_back(1);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.end();
    }
}
