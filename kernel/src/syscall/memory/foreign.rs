//! Calls on another process's memory.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::fs::file::buffer::{Input, Output, Segment};
use crate::process::foreign::Memory;
use crate::syscall::file::{iovec, segments};
use alloc::vec::Vec;

/// The caller's segments and the other's, and the memory in which these lie.
type Asked = (Vec<Segment>, Vec<Segment>, Memory);

/// What both calls look at: the caller's segments; then, if these have a byte, the other's, whatever they point at, and whose they are if they have one.
///
/// # Errors
/// EINVAL, EFAULT: of the caller's segments first. ESRCH. EPERM.
fn arguments(
    tid: u32,
    (own, own_count): (usize, usize),
    (others, count): (usize, usize),
    flags: usize,
) -> Result<Option<Asked>> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let own = segments(own, own_count)?;
    if own.iter().all(|segment| segment.len == 0) {
        return Ok(None);
    }
    let others = iovec(others, count)?;
    if others.iter().all(|segment| segment.len == 0) {
        return Ok(None);
    }
    let memory = Memory::of(tid)?;
    Ok(Some((own, others, memory)))
}

/// process_vm_readv(2).
pub fn sys_process_vm_readv(
    tid: u32,
    to: usize,
    to_count: usize,
    from: usize,
    from_count: usize,
    flags: usize,
) -> Result<usize> {
    match arguments(tid, (to, to_count), (from, from_count), flags)? {
        Some((to, from, memory)) => memory.read(&from, &mut Output::user(&to)),
        None => Ok(0),
    }
}

/// process_vm_writev(2).
pub fn sys_process_vm_writev(
    tid: u32,
    from: usize,
    from_count: usize,
    to: usize,
    to_count: usize,
    flags: usize,
) -> Result<usize> {
    match arguments(tid, (from, from_count), (to, to_count), flags)? {
        Some((from, to, memory)) => memory.write(&to, &mut Input::user(&from)),
        None => Ok(0),
    }
}
