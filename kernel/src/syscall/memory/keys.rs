//! Protection keys, as on a processor without: there is none to be had, and a mapping has none.
#![forbid(unsafe_code)]

use super::{pages, sys_mprotect};
use crate::errno::{Errno, Result};
use linux_raw_sys::general as abi;
use vm::addr::PAGE_SIZE;

/// pkey_mprotect(2), as on a processor without protection keys: no key can have been allocated, and -1 is none.
pub fn sys_pkey_mprotect(start: usize, len: usize, prot: usize, key: i32) -> Result<usize> {
    if key == -1 {
        return sys_mprotect(start, len, prot);
    }
    // What is told before it is looked at the key.
    let grows = prot as u32 & (abi::PROT_GROWSDOWN | abi::PROT_GROWSUP);
    let both = grows == abi::PROT_GROWSDOWN | abi::PROT_GROWSUP;
    if len == 0 && !both && start.is_multiple_of(PAGE_SIZE) {
        return Ok(0);
    }
    let end = pages(len).and_then(|len| start.checked_add(len));
    let is_far = !both && start.is_multiple_of(PAGE_SIZE) && end.is_none();
    Err(if is_far { Errno::ENOMEM } else { Errno::EINVAL })
}

/// pkey_alloc(2), as on a processor without protection keys: there is none to be had.
pub fn sys_pkey_alloc(flags: usize, rights: usize) -> Result<usize> {
    const KNOWN: usize = (abi::PKEY_DISABLE_ACCESS | abi::PKEY_DISABLE_WRITE) as usize;
    Err(if flags != 0 || rights & !KNOWN != 0 { Errno::EINVAL } else { Errno::ENOSPC })
}

/// pkey_free(2): nobody has a key.
pub fn sys_pkey_free(_key: i32) -> Result<usize> {
    Err(Errno::EINVAL)
}
