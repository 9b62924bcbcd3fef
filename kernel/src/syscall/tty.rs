//! ioctl(2): what every file understands, and the rest by the file itself.
#![forbid(unsafe_code)]

use super::file::file;
use crate::errno::*;
use crate::fs::caller::{self, Capability};
use crate::fs::file::OpenFlags;
use crate::fs::file::ioctl::{FIOASYNC, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD, get_u32, put_u32};
use crate::fs::tty;
use crate::fs::vfs::inode::Kind;

#[expect(clippy::arithmetic_side_effects, reason = "flags without some of them")]
pub fn sys_ioctl(fd: i32, command: u32, argument: usize) -> Result<usize> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    match command {
        FIOCLEX | FIONCLEX => caller::files().set_close_on_exec(fd, command == FIOCLEX).map(|()| 0),
        FIONBIO => {
            let on = get_u32(argument)? != 0;
            let flags = file.flags();
            file.set_flags(if on { flags | OpenFlags::NONBLOCK } else { flags - OpenFlags::NONBLOCK });
            Ok(0)
        }
        FIOASYNC => {
            let on = get_u32(argument)? != 0;
            file.set_async(fd, on)?.ok_or(ENOTTY).map(|()| 0)
        }
        FIONREAD if file.inode().kind == Kind::Regular => {
            let left = file.inode().size().saturating_sub(*file.position.lock());
            put_u32(argument, u32::try_from(left).unwrap_or(i32::MAX as u32))
        }
        _ => file.ops().ioctl(&file, command, argument),
    }
}

/// vhangup(2).
pub fn sys_vhangup() -> Result<usize> {
    if !caller::capable(Capability::SYS_TTY_CONFIG) {
        return Err(EPERM);
    }
    if let Some(tty) = caller::controlling_tty() {
        tty::Tty::hang_up(&tty);
    }
    Ok(0)
}
