//! The futexes of one space: a table of its own, so that unrelated processes share no line by them. Most processes never wait on a futex and have
//! none; the first wait makes it.
//!
//! Where there is no memory for it, waiters lie in the shared table, and from then on wakers look there too.
#![forbid(unsafe_code)]

use super::bucket::{Bucket, table};
use core::sync::atomic::{AtomicBool, Ordering};
use sync::AllocError;
use vm::OnceBox;

/// Buckets of a space at first; they split where many wait. A page.
const BUCKETS: usize = 64;

/// What a space has of its own for futexes. Looked at by every wake, and hardly ever written: a line that holds nothing else.
#[repr(align(64))]
#[derive(Default)]
pub struct PrivateFutexes {
    buckets: OnceBox<[Bucket; BUCKETS]>,
    /// Some have waited in the shared table.
    elsewhere: AtomicBool,
}

impl PrivateFutexes {
    /// The space's table. None: nobody has waited yet.
    #[inline]
    pub(super) fn buckets(&self) -> Option<&[Bucket; BUCKETS]> {
        self.buckets.get()
    }

    pub(super) fn buckets_or_make(&self) -> Result<&[Bucket; BUCKETS], AllocError> {
        self.buckets.get_or_try(table)
    }

    #[inline]
    pub(super) fn some_wait_elsewhere(&self) -> bool {
        self.elsewhere.load(Ordering::Acquire)
    }

    /// From now on some wait in the shared table. Said before they are put there, so that a wake after that looks there.
    pub(super) fn wait_elsewhere(&self) {
        if !self.some_wait_elsewhere() {
            self.elsewhere.store(true, Ordering::Release);
        }
    }
}
