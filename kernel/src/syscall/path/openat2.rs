//! openat2(2): open with a bound on where the path may lead.
#![forbid(unsafe_code)]

use super::{At, PathText, enter};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::OpenFlags;
use crate::fs::file::open;
use crate::fs::vfs::lookup::Limits;
use crate::memory::user::{UserPtr, UserSlice};

/// `struct open_how`: flags, mode and resolve, 64 bits each.
const HOW_SIZE: usize = 24;
/// No structure is larger than a page.
const SIZE_MAX: usize = 4096;

/// Of a structure of `size` bytes at `address`, what a newer one holds beyond the first `known` bytes must be zero. `size` is bounded.
///
/// # Errors
/// E2BIG: it is not. EFAULT.
#[expect(clippy::arithmetic_side_effects, reason = "at is below size, which is bounded")]
pub(super) fn check_rest(address: usize, known: usize, size: usize) -> Result {
    let mut at = known;
    while at < size {
        let mut part = [0u8; 64];
        let part = part.get_mut(..(size - at).min(64)).ok_or(E2BIG)?;
        UserSlice::new(address.checked_add(at).ok_or(EFAULT)?, part.len()).read(part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Err(E2BIG);
        }
        at += part.len();
    }
    Ok(())
}

fn read_how(address: usize, size: usize) -> Result<[u64; 3]> {
    if size < HOW_SIZE {
        return Err(EINVAL);
    }
    if size > SIZE_MAX {
        return Err(E2BIG);
    }
    check_rest(address, HOW_SIZE, size)?;
    UserPtr::<[u64; 3]>::new(address).read()
}

/// What open ignores is EINVAL here.
fn check(flags: u64, mode: u64, resolve: u64) -> Result<(OpenFlags, Limits)> {
    let flags = u32::try_from(flags).ok().and_then(OpenFlags::from_bits).ok_or(EINVAL)?;
    let limits = u32::try_from(resolve).ok().and_then(Limits::from_bits).ok_or(EINVAL)?;
    if limits.contains(Limits::BENEATH | Limits::IN_ROOT) {
        return Err(EINVAL);
    }
    let makes = flags.intersects(OpenFlags::CREATE | OpenFlags::TMPFILE);
    if mode & !(if makes { 0o7777 } else { 0 }) != 0 {
        return Err(EINVAL);
    }
    open::check_flags(flags)?;
    let with_path = OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW | OpenFlags::CLOEXEC;
    if flags.contains(OpenFlags::PATH) && !with_path.contains(flags) {
        return Err(EINVAL);
    }
    let changes = OpenFlags::CREATE | OpenFlags::TMPFILE | OpenFlags::TRUNCATE;
    if limits.contains(Limits::CACHED) && flags.intersects(changes) {
        return Err(EAGAIN);
    }
    Ok((flags, limits))
}

pub fn sys_openat2(fd: i32, path: usize, how: usize, size: usize) -> Result<usize> {
    let [flags, mode, resolve] = read_how(how, size)?;
    let (flags, limits) = check(flags, mode, resolve)?;
    let text = PathText::read(path)?;
    let path = text.bytes();
    if path.is_empty() {
        return Err(ENOENT);
    }
    let limit = caller::descriptor_limit();
    caller::files().check_room(limit)?;
    let at = if limits.contains(Limits::IN_ROOT) { At::rooted(fd)? } else { At::new(fd, path)? };
    let asked = (flags | OpenFlags::LARGEFILE, (mode & 0o7777) as u32);
    let file = open::open_within(&at.context, &at.cred, at.start(), path, asked, limits)?;
    enter(file, flags, limit)
}
