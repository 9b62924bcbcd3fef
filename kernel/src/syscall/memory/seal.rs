//! mseal(2).
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::ipc::attach;
use crate::process;
use vm::addr::{PAGE_SIZE, VirtAddr};

/// mseal(2): what is mapped in a range stays as it is. There are no flags.
///
/// # Errors
/// EINVAL: flags, or no such range. ENOMEM: not all of it is mapped, or there would be too many mappings; then nothing is sealed.
pub fn sys_mseal(start: usize, len: usize, flags: usize) -> Result<usize> {
    if flags != 0 || !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    let current = process::current();
    let space = current.space();
    attach::around(space, start..end, || Ok(space.seal(VirtAddr(start), len)?))?;
    Ok(0)
}
