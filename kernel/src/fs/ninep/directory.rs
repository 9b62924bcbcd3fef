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
/// Offsets of the server's that are as small as the positions of those two stand here, where hardly one of its own is.
const SMALL: u64 = 1 << 62;
/// Parts without any name before a server is taken to have none.
const EMPTY_MOST: u32 = 16;

/// The position for a server's offset behind an entry.
fn position_of(offset: u64) -> u64 {
    if offset <= FIRST { SMALL | offset } else { offset }
}

/// The server's offset for a position.
fn offset_of(position: u64) -> u64 {
    match position {
        ..=FIRST => 0,
        _ if position ^ SMALL <= FIRST => position ^ SMALL,
        _ => position,
    }
}

/// See `InodeOps::read_dir`.
pub fn read(remote: &Remote, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
    let fid = remote.opened()?;
    let mut at = offset_of(position);
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
            let listed = DirEntry {
                name: entry.name,
                number: entry.number,
                kind: entry.kind,
                next: position_of(entry.next),
            };
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

#[cfg(test)]
mod tests {
    use super::{FIRST, offset_of, position_of};

    #[test]
    fn each_offset_comes_back_and_none_is_taken_for_the_begin() {
        for offset in [0, 1, 2, 3, 4, 1 << 31, (1 << 62) - 1, i64::MAX as u64] {
            assert!(position_of(offset) > FIRST);
            assert_eq!(offset_of(position_of(offset)), offset);
        }
        assert_eq!([0, 1, 2].map(offset_of), [0; 3]);
    }
}
