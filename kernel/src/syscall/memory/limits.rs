//! How much a process may map and lock: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK. Nothing is counted as it is mapped: the sum over the mappings is made
//! for those alone who have a limit.
#![forbid(unsafe_code)]

use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::memory::commit;
use crate::process::limits::INFINITY;
use crate::process::{self, Capability};
use linux_raw_sys::general as abi;
use vm::addr::{PAGE_SHIFT, PAGE_SIZE};

/// Whole pages that a limit allows; None: any number.
fn limit(resource: u32) -> Option<usize> {
    pages_of(process::limit_now(resource))
}

fn pages_of(limit: u64) -> Option<usize> {
    match limit {
        INFINITY => None,
        bytes => Some((bytes >> PAGE_SHIFT) as usize),
    }
}

/// The same of private writable memory. 0 means the hard limit, as on Linux: some programs set it so to keep others from brk.
fn data_limit() -> Option<usize> {
    match process::limit_now(abi::RLIMIT_DATA) {
        0 => {
            process::current().process.limits.get(abi::RLIMIT_DATA).ok().and_then(|(_, hard)| pages_of(hard))
        }
        soft => pages_of(soft),
    }
}

fn in_pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_SIZE)
}

/// May the space grow by `more` bytes, private writable ones if `is_data`? `replaced`: they take the place of what is mapped from there on.
///
/// # Errors
/// ENOMEM.
pub fn check_room(more: usize, is_data: bool, replaced: Option<usize>) -> Result {
    let total = limit(abi::RLIMIT_AS);
    let data = if is_data { data_limit() } else { None };
    if total.is_none() && data.is_none() {
        return Ok(());
    }
    let current = process::current();
    let space = current.space();
    let usage = space.usage();
    let fits = |pages: usize| {
        total.is_none_or(|most| usage.virtual_pages.saturating_add(pages) <= most)
            && data.is_none_or(|most| usage.data.saturating_add(pages) <= most)
    };
    let pages = in_pages(more);
    let gone = || replaced.map_or(0, |start| space.count_pages(start, start.saturating_add(more), false));
    if fits(pages) || fits(pages.saturating_sub(gone())) { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// May what is mapped in `start..end` become private writable (mprotect)?
///
/// # Errors
/// ENOMEM.
pub fn check_data_room(start: usize, end: usize) -> Result {
    let Some(most) = data_limit() else { return Ok(()) };
    let current = process::current();
    let space = current.space();
    let mut more = 0usize;
    space.for_each_mapping_in(start..end, &mut |m| {
        if !m.shared && !m.growsdown && !m.prot.contains(vm::Prot::WRITE) {
            more = more.saturating_add(in_pages(m.end.min(end).saturating_sub(m.start)));
        }
    });
    if more == 0 || space.usage().data.saturating_add(more) <= most { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// May what is mapped in `start..end` become private writable, by what memory can fill? Each mapping counts for itself.
///
/// # Errors
/// ENOMEM.
pub fn check_commit(start: usize, end: usize) -> Result {
    // Nothing in a shorter range is longer.
    if commit::check(end.saturating_sub(start)).is_ok() {
        return Ok(());
    }
    let mut fits = Ok(());
    process::current().space().for_each_mapping_in(start..end, &mut |m| {
        if !m.shared && !m.prot.contains(vm::Prot::WRITE) {
            fits = fits.and_then(|()| commit::check(m.end.min(end).saturating_sub(m.start)));
        }
    });
    fits
}

/// Has the caller CAP_IPC_LOCK?
fn locks_freely() -> bool {
    process::current().capable(Capability::IPC_LOCK)
}

/// May the caller lock memory at all?
///
/// # Errors
/// EPERM.
pub fn check_may_lock() -> Result {
    if process::limit_now(abi::RLIMIT_MEMLOCK) != 0 || locks_freely() { Ok(()) } else { Err(Errno::EPERM) }
}

/// May a new mapping of `more` bytes be locked?
///
/// # Errors
/// EAGAIN.
pub fn check_lock_room(more: usize) -> Result {
    let Some(most) = limit(abi::RLIMIT_MEMLOCK) else { return Ok(()) };
    let locked = || process::current().space().usage().locked;
    if locks_freely() || locked().saturating_add(in_pages(more)) <= most {
        Ok(())
    } else {
        Err(Errno::EAGAIN)
    }
}

/// May what is mapped in `start..start + len` be locked? What is locked there already does not count twice.
///
/// # Errors
/// ENOMEM.
pub fn check_lock(start: usize, len: usize) -> Result {
    let Some(most) = limit(abi::RLIMIT_MEMLOCK).filter(|_| !locks_freely()) else { return Ok(()) };
    let current = process::current();
    let space = current.space();
    let locked = space.usage().locked;
    let end = start.saturating_add(len).min(USER_END);
    let again = || if start < end { space.count_pages(start, end, true) } else { 0 };
    let after = locked.saturating_add(in_pages(len));
    if after <= most || after.saturating_sub(again()) <= most { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// May all that is mapped be locked?
///
/// # Errors
/// ENOMEM.
pub fn check_lock_all() -> Result {
    let Some(most) = limit(abi::RLIMIT_MEMLOCK).filter(|_| !locks_freely()) else { return Ok(()) };
    if process::current().space().usage().virtual_pages <= most { Ok(()) } else { Err(Errno::ENOMEM) }
}
