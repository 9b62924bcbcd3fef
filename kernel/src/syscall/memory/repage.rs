//! remap_file_pages(2), which maps a file anew where it is mapped already.
#![forbid(unsafe_code)]

use super::limits;
use crate::errno::{Errno, Result};
use crate::fs::file::mapped;
use crate::ipc::attach;
use crate::process;
use linux_raw_sys::general as abi;
use vm::Prot;
use vm::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};

/// remap_file_pages(2). Of `flags` MAP_NONBLOCK alone means something, as on Linux: the pages are not faulted in.
pub fn sys_remap_file_pages(
    address: usize,
    len: usize,
    prot: usize,
    page: usize,
    flags: usize,
) -> Result<usize> {
    let (start, len) = (address & !(PAGE_SIZE - 1), len & !(PAGE_SIZE - 1));
    if prot != 0 || start.checked_add(len).is_none_or(|end| end <= start) {
        return Err(Errno::EINVAL);
    }
    if page.checked_add(len >> PAGE_SHIFT).is_none() {
        return Err(Errno::EINVAL);
    }
    let current = process::current();
    let space = current.space();
    // No file is longer.
    let is_too_far = (page as u64)
        .checked_mul(PAGE_SIZE as u64)
        .and_then(|at| at.checked_add(len as u64))
        .is_none_or(|end| end > i64::MAX as u64);
    let run = space.shared_run(VirtAddr(start), len)?;
    if is_too_far {
        return Err(Errno::EOVERFLOW);
    }
    if run.is_locked() {
        limits::check_may_lock()?;
        limits::check_lock_room(len)?;
    }
    let inode = run.object().and_then(mapped::inode_of);
    if run.prot().contains(Prot::WRITE)
        && let Some(seals) = inode.as_ref().and_then(|inode| inode.ops.seals())
    {
        seals.check_write()?;
    }
    let populate = flags & abi::MAP_NONBLOCK as usize == 0;
    let end = start.saturating_add(len);
    attach::around(space, start..end, || Ok(space.map_run(run, page as u64, populate)?))?;
    Ok(0)
}
