//! How much memory programs may ask for (vm.overcommit_memory).
//!
//! 0, the default, refuses a request that memory could never fill: one mapping, or one segment, that is larger than all of it. 1 refuses none. What is asked for in
//! several requests is not added up, as on Linux, so nothing is counted. 2, where it is added up, is not there.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::errno::{ENOMEM, Result};
use vm::addr::PAGE_SHIFT;

static ALWAYS: AtomicBool = AtomicBool::new(false);

/// Is no request refused (1)?
pub fn is_always() -> bool {
    ALWAYS.load(Relaxed)
}

pub fn set_always(to: bool) {
    ALWAYS.store(to, Relaxed);
}

/// May a program ask for `len` bytes more, whole pages?
///
/// # Errors
/// ENOMEM.
pub fn check(len: usize) -> Result {
    let refused = !is_always() && (len >> PAGE_SHIFT) as u64 > vm::frame::managed_frames();
    if refused { Err(ENOMEM) } else { Ok(()) }
}
