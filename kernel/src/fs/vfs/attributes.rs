//! Changing attributes: what chmod, chown, utimes, truncate and writes by others ask of a file system is one set of changes.
//!
//! Lock order: the inode's `write_lock` → what the file system takes inside.
#![forbid(unsafe_code)]

use super::inode::{Inode, SET_GROUP_ID, SET_USER_ID};
use crate::errno::Result;
use sync::level::Held;

/// The attributes to be changed; `None` leaves one as it is.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Permission, set-id and sticky bits.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Nanoseconds since the epoch.
    pub accessed: Option<i64>,
    pub modified: Option<i64>,
    /// Bytes.
    pub size: Option<u64>,
}

impl Changes {
    /// The set-id bits that `inode` loses when somebody other than the superuser changes its contents, or anybody its owner.
    pub fn without_set_id(inode: &Inode) -> Changes {
        let mode = inode.mode();
        // Set-group-id without group execution is the mark of mandatory locking and stays.
        let lost = SET_USER_ID | if mode & 0o010 != 0 { SET_GROUP_ID } else { 0 };
        Changes { mode: (mode & lost != 0).then_some(mode & !lost), ..Changes::default() }
    }
}

/// Makes the changes, which are permitted. May sleep; the caller does not hold the inode's `write_lock`.
///
/// # Errors
/// Those of the file system.
pub fn change(inode: &Inode, changes: &Changes) -> Result {
    let order = &mut Held::clean();
    let mut write = inode.lock_write(order);
    inode.ops.set_attributes(inode, changes, write.held().reborrow())
}
