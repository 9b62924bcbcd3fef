//! mlock, munlock, mlockall and their kin.
#![forbid(unsafe_code)]

use super::limits;
use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::ipc::attach;
use crate::process;
use linux_raw_sys::general as abi;
use vm::Lock;
use vm::addr::{PAGE_SIZE, VirtAddr};

/// The whole pages that `start..start + len` touches: start and length. Linux's sums wrap: a length that comes to nothing locks nothing.
fn whole_pages(start: usize, len: usize) -> (usize, usize) {
    let lead = start % PAGE_SIZE;
    let len = len.wrapping_add(lead).wrapping_add(PAGE_SIZE - 1) & !(PAGE_SIZE - 1);
    (start.wrapping_sub(lead), len)
}

/// Locks or unlocks pages.
///
/// # Errors
/// EINVAL: they go around the end of all addresses. ENOMEM: not all of them are mapped.
fn set_lock(start: usize, len: usize, how: Option<Lock>) -> Result {
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    if len == 0 {
        return Ok(());
    }
    if end > USER_END {
        return Err(Errno::ENOMEM);
    }
    let current = process::current();
    let space = current.space();
    attach::around(space, start..end, || Ok(space.set_lock(VirtAddr(start), len, how)?))
}

fn lock(start: usize, len: usize, how: Lock) -> Result<usize> {
    limits::check_may_lock()?;
    let (start, len) = whole_pages(start, len);
    limits::check_lock(start, len)?;
    set_lock(start, len, Some(how))?;
    let current = process::current();
    let end = start.saturating_add(len);
    current.space().populate_locked(start, end, false).map_err(|e| match e {
        vm::VmError::Fault => Errno::ENOMEM,
        vm::VmError::NoMemory => Errno::EAGAIN,
        e => e.into(),
    })?;
    Ok(0)
}

/// mlock(2).
pub fn sys_mlock(start: usize, len: usize) -> Result<usize> {
    lock(start, len, Lock::Now)
}

/// mlock2(2).
pub fn sys_mlock2(start: usize, len: usize, flags: u32) -> Result<usize> {
    match flags {
        0 => lock(start, len, Lock::Now),
        abi::MLOCK_ONFAULT => lock(start, len, Lock::OnFault),
        _ => Err(Errno::EINVAL),
    }
}

/// munlock(2).
pub fn sys_munlock(start: usize, len: usize) -> Result<usize> {
    let (start, len) = whole_pages(start, len);
    set_lock(start, len, None)?;
    Ok(0)
}

/// mlockall(2).
pub fn sys_mlockall(flags: u32) -> Result<usize> {
    const KNOWN: u32 = abi::MCL_CURRENT | abi::MCL_FUTURE | abi::MCL_ONFAULT;
    if flags == 0 || flags & !KNOWN != 0 || flags == abi::MCL_ONFAULT {
        return Err(Errno::EINVAL);
    }
    limits::check_may_lock()?;
    let has = |flag: u32| flags & flag != 0;
    if has(abi::MCL_CURRENT) {
        limits::check_lock_all()?;
    }
    let how = if has(abi::MCL_ONFAULT) { Lock::OnFault } else { Lock::Now };
    let current = process::current();
    let space = current.space();
    space.set_future_lock(has(abi::MCL_FUTURE).then_some(how));
    if has(abi::MCL_CURRENT) {
        space.set_lock_of_all(Some(how));
        // As on Linux, what cannot be faulted in is no error here.
        let _ = space.populate_locked(0, USER_END, true);
    }
    Ok(0)
}

/// munlockall(2).
pub fn sys_munlockall() -> Result<usize> {
    let current = process::current();
    let space = current.space();
    space.set_future_lock(None);
    if space.may_have_locks() {
        space.set_lock_of_all(None);
    }
    Ok(0)
}
