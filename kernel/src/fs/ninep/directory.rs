//! Listing a server's directory. A position is the server's own offset: it says where the names behind an entry begin, and is handed back as it came.
//!
//! No locks.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use super::inode::Remote;
use super::message::{self, Ask};
use crate::device::virtio::share::DATA_HEAD;
use crate::errno::{EINTR, EIO, Result};
use crate::fs::vfs::operations::DirEntry;
use crate::sched::give_way;

/// Bytes of names that are asked for at once: about what a program takes with one call (getdents64(2) of glibc and musl).
const PART: usize = 32 << 10;
/// The position at which the VFS has listed `.` and `..`.
const FIRST: u64 = 2;
/// Parts without any name before a server is taken to have none.
const EMPTY_MOST: u32 = 16;

/// See `InodeOps::read_dir`.
pub fn read(remote: &Remote, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
    let fid = remote.opened()?;
    let mut at = if position <= FIRST { 0 } else { position };
    let mut empty = 0u32;
    while empty < EMPTY_MOST {
        let (mut answer, count) = remote.client.read(Ask::ReadDir, &fid, at, PART)?;
        if count == 0 {
            return Ok(());
        }
        let mut bytes = Vec::new();
        answer.copy(DATA_HEAD.saturating_add(count), &mut bytes)?;
        let mut names = message::entries(bytes.get(DATA_HEAD..).unwrap_or(&[]));
        empty = empty.saturating_add(1);
        while let Some(entry) = message::entry(&mut names)? {
            at = entry.next;
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            empty = 0;
            let listed =
                DirEntry { name: entry.name, number: entry.number, kind: entry.kind, next: entry.next };
            if !emit(&listed) {
                return Ok(());
            }
        }
        if give_way() {
            return Err(EINTR);
        }
    }
    Err(EIO)
}
