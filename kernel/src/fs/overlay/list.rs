//! Listing a directory: the names below, but for those that were taken away, and then those that were made here.
//!
//! **Positions** are those of the file system below, and lie in its order: a name that was put in the place of one below is listed in that one's place. Behind them all are the
//! cookies of the names made here (`OWN`). A position below that lies among those (on ext4 one of eight million) is shown as one a little before: there the listing
//! may go on with names that it had. The largest one, behind which there can be none (ext4 has it behind the last name), is where those made here begin.
//!
//! No lock is held while what lies below is asked.
#![forbid(unsafe_code)]

use super::names::{COOKIES, Leads};
use super::node::Node;
use super::number_above;
use crate::errno::Result;
use crate::fs::vfs::operations::DirEntry;

/// Positions of names made here: this and a cookie. Programs have positions as signed numbers.
const OWN: u64 = i64::MAX as u64 - (COOKIES - 1);

/// The position shown for one below.
fn position_of(below: u64) -> u64 {
    const LAST: u64 = i64::MAX as u64;
    match below {
        ..OWN => below,
        LAST.. => OWN,
        // One step of the part that a file system has hashes in.
        _ => below.wrapping_sub(COOKIES),
    }
}

/// See `InodeOps::read_dir`.
pub fn read(node: &Node, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
    if position < OWN
        && let Some(below) = &node.below
    {
        let mut ended = false;
        below.ops.read_dir(below, position, &mut |entry| {
            let own = node.names.look(entry.name);
            let next = position_of(entry.next);
            let listed = match own {
                None => DirEntry { number: number_above(entry.number), next, ..*entry },
                Some((Leads::To { number, kind }, true)) => DirEntry { name: entry.name, number, kind, next },
                // Taken away; or it came below after it was made here, and is listed there.
                Some(_) => return true,
            };
            ended = !emit(&listed);
            !ended
        })?;
        if ended {
            return Ok(());
        }
    }
    node.names.list(position.saturating_sub(OWN), &mut |entry| {
        emit(&DirEntry { next: OWN.saturating_add(entry.next), ..*entry })
    });
    Ok(())
}

/// Is there no name in it? May sleep.
pub fn is_empty(node: &Node) -> Result<bool> {
    if !node.names.is_empty() {
        return Ok(false);
    }
    let Some(below) = &node.below else { return Ok(true) };
    const FIRST: u64 = 2;
    let mut is_empty = true;
    below.ops.read_dir(below, FIRST, &mut |entry| {
        is_empty = node.names.find(entry.name).is_some();
        is_empty
    })?;
    Ok(is_empty)
}

const _: () = assert!(OWN > i64::MAX as u64 / 2 && OWN + (COOKIES - 1) == i64::MAX as u64);

#[cfg(test)]
mod tests {
    use super::{COOKIES, OWN, position_of};

    #[test]
    fn no_position_below_is_taken_for_one_of_here() {
        for below in [2, 3, 1 << 40, 1 << 62, OWN - 1, OWN, OWN + 1, i64::MAX as u64 - 1] {
            assert!(position_of(below) < OWN, "{below:#x}");
        }
        assert_eq!(position_of(OWN - 1), OWN - 1);
        assert_eq!(OWN + COOKIES - 1, i64::MAX as u64);
        assert_eq!(position_of(i64::MAX as u64), OWN);
    }
}
