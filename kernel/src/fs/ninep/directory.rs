//! Listing a server's directory. A position is the server's own offset: it says where the names behind an entry begin, and is handed back as it came.
//!
//! What was said is kept for as long as it is believed (`listing`).
//!
//! No locks.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::listing::{Ended, Met, Part, Place, Spot};
use super::message::{self, Ask, Entry};
use super::remote::Remote;
use crate::device::virtio::share::DATA_HEAD;
use crate::errno::{EINTR, EIO, Result};
use crate::fs::vfs::operations::DirEntry;
use crate::sched::give_way;

/// Bytes of names that are asked for at once: about what a program takes with one call (getdents64(2) of glibc and musl).
const PART: usize = 32 << 10;
/// The position at which the VFS has listed `.` and `..`.
pub const FIRST: u64 = 2;
/// Offsets of the server's that are as small as the positions of those two stand here, where hardly one of its own is.
const SMALL: u64 = 1 << 62;
/// Parts without any name before a server is taken to have none.
const EMPTY_MOST: u32 = 16;

/// The position for a server's offset behind an entry.
pub fn position_of(offset: u64) -> u64 {
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

fn listed<'a>(entry: &Entry<'a>) -> DirEntry<'a> {
    DirEntry { name: entry.name, number: entry.number, kind: entry.kind, next: position_of(entry.next) }
}

/// Names at `position`, as they came from the server.
fn ask(remote: &Remote, position: u64) -> Result<Vec<u8>> {
    let fid = remote.opened()?;
    let (mut answer, count) = remote.client.read(Ask::ReadDir, &fid, offset_of(position), PART)?;
    let mut names = Vec::new();
    answer.copy(DATA_HEAD.saturating_add(count), &mut names)?;
    names.drain(..DATA_HEAD.min(names.len()));
    Ok(names)
}

/// See `InodeOps::read_dir`. What the server says at `now` is believed for `lifetime`, both nanoseconds.
pub fn read(
    remote: &Remote,
    place: &Arc<Place>,
    (now, lifetime): (u64, u64),
    position: u64,
    emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
) -> Result {
    let mut show = |entry: &Entry<'_>| emit(&listed(entry));
    let (listing, mut spot) = match place.list(position, now, &mut show) {
        Met::Done => return Ok(()),
        Met::Listing(listing, spot) => (listing, spot),
        Met::Nothing if position <= FIRST => (place.begin(now.saturating_add(lifetime))?, Spot::BEGIN),
        Met::Nothing => return read_on(remote, position, &mut show),
    };
    loop {
        match listing.emit(&mut spot, &mut show) {
            Ended::Done => return Ok(()),
            Ended::Turn => {}
            Ended::Beyond => {
                if !listing.may_grow(&spot) {
                    return read_on(remote, spot.position, &mut show);
                }
                let part = Part::try_new(spot.position, ask(remote, spot.position)?)?;
                if !listing.put(&spot, part) {
                    return read_on(remote, spot.position, &mut show);
                }
            }
        }
        if give_way() {
            return Err(EINTR);
        }
    }
}

/// Lists from `position` on what no listing keeps.
fn read_on(remote: &Remote, position: u64, emit: &mut dyn FnMut(&Entry<'_>) -> bool) -> Result {
    let mut at = position;
    let mut empty = 0u32;
    while empty < EMPTY_MOST {
        let bytes = ask(remote, at)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut names = message::entries(&bytes);
        empty = empty.saturating_add(1);
        while let Some(entry) = message::entry(&mut names)? {
            at = position_of(entry.next);
            if entry.is_dots() {
                continue;
            }
            empty = 0;
            if !emit(&entry) {
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
