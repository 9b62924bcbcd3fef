//! What of a file is in memory: cachestat(2).
#![forbid(unsafe_code)]

use super::opened;
use crate::errno::*;
use crate::fs::File;
use crate::fs::vfs::access::{self, Cred, WRITE};
use crate::memory::user::UserPtr;
use crate::sched::give_way;
use vm::addr::PAGE_SIZE;

/// cachestat(2). Files are in memory and nowhere else, so no page is dirty, under way or gone.
pub fn sys_cachestat(fd: i32, range: usize, to: usize, flags: u32) -> Result<usize> {
    let file = opened(fd)?;
    let [offset, len] = UserPtr::<[u64; 2]>::new(range).read()?;
    if !may_ask(&file) {
        return Err(EPERM);
    }
    if flags != 0 {
        return Err(EINVAL);
    }
    const PAGE: u64 = PAGE_SIZE as u64;
    // Sums wrap, as on Linux; a length of 0 is all that follows.
    let last = if len == 0 { u64::MAX } else { offset.wrapping_add(len).wrapping_sub(1) / PAGE };
    let cached = pages_in_memory(&file, offset / PAGE, last);
    UserPtr::<[u64; 5]>::new(to).write(&[cached, 0, 0, 0, 0])?;
    Ok(0)
}

/// What is in memory tells who else has used the file: that is for those who might write it.
fn may_ask(file: &File) -> bool {
    let (inode, cred) = (file.inode(), Cred::current());
    file.flags().writes() || cred.owns(inode) || access::check(inode, &cred, WRITE).is_ok()
}

/// How many of the pages `first..=last` are in memory. Gives way; a fatal signal ends it.
fn pages_in_memory(file: &File, first: u64, last: u64) -> u64 {
    let Some(object) = file.inode().object() else { return 0 };
    let end = last.saturating_add(1).min(object.pages());
    let (mut at, mut count) = (first, 0u64);
    while let Some(start) = object.seek(at, end, true) {
        at = object.seek(start, end, false).unwrap_or(end);
        count = count.saturating_add(at.saturating_sub(start));
        if give_way() {
            break;
        }
    }
    count
}
