//! F_NOTIFY: a directory tells by a signal what happens in it (fcntl(2)).
#![forbid(unsafe_code)]

use crate::errno::*;
use crate::fs::File;
use crate::fs::caller::{self, Owner, OwnerKind};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::notify::{self, signals};

/// F_NOTIFY of descriptor `fd`, which is `file`. An argument without events ends the watch. May sleep.
///
/// # Errors
/// EINVAL: the administrator wants none (fs.dir-notify-enable). ENOTDIR, ENOMEM.
pub fn watch(fd: i32, file: &File, argument: u32) -> Result {
    if signals::ENABLED.get() == 0 {
        return Err(EINVAL);
    }
    let files = caller::files();
    if !signals::asks_for_any(argument) {
        files.end_watch(file);
        return Ok(());
    }
    let directory = file.path().filter(|_| file.inode().kind == Kind::Directory).ok_or(ENOTDIR)?;
    let io = file.need_async_io()?;
    // Another thread may have closed it meanwhile: then nobody watches, and nothing is said of that, as on Linux.
    if !files.is(fd, file) {
        return Ok(());
    }
    if !io.owner().is_somebody() {
        // By the thread's number, as Linux has it, though the process is told.
        io.set_owner(Owner::find(OwnerKind::Process, caller::tid())?);
    }
    let is_open = || files.is(fd, file);
    notify::watch_by_signal(&directory.dentry, files.opening(file), (fd, argument), io, is_open)
}
