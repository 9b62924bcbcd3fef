//! Leases of files: F_SETLEASE and F_GETLEASE (fcntl(2)).
#![forbid(unsafe_code)]

use linux_raw_sys::general::{F_RDLCK, F_UNLCK, F_WRLCK};

use crate::errno::*;
use crate::fs::file::File;

/// F_SETLEASE on `file`, which is descriptor `fd`. Of the argument the lower half counts, as on Linux.
///
/// # Errors
/// EINVAL: there is no such kind; as `File::set_lease` and `File::end_lease`.
pub fn set(fd: i32, file: &File, kind: usize) -> Result<usize> {
    // The last close ends a lease, so it must not come before it.
    let _kept = file.keep_open()?;
    match kind as u32 {
        F_RDLCK => file.set_lease(fd, false)?,
        F_WRLCK => file.set_lease(fd, true)?,
        F_UNLCK => file.end_lease()?,
        _ => return Err(EINVAL),
    }
    Ok(0)
}

/// F_GETLEASE.
pub fn get(file: &File) -> usize {
    let kind = match file.lease() {
        Some(false) => F_RDLCK,
        Some(true) => F_WRLCK,
        None => F_UNLCK,
    };
    kind as usize
}
