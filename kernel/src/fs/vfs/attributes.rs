//! Changing attributes: what chmod, chown, utimes, truncate and writes by others ask of a file system is one set of changes.
//!
//! Lock order: the inode's `write_lock` → what the file system takes inside.
#![forbid(unsafe_code)]

use super::access::Cred;
use super::acl::kept;
use super::inode::{Inode, SET_GROUP_ID, SET_USER_ID};
use crate::errno::Result;
use crate::fs::caller::Capability;
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
    /// The capabilities that the file gives to who executes it go.
    pub drops_capabilities: bool,
}

impl Changes {
    /// The set-id bits that `inode` loses when `cred` changes its owner, or what is in it: all, but that set-group-id without group
    /// execution runs as no group and stays for who may set it. And the capabilities that it gives.
    pub fn without_set_id(inode: &Inode, cred: &Cred) -> Changes {
        let mode = inode.mode();
        let group_id_stays = mode & 0o010 == 0 && cred.keeps_group_id(inode.gid());
        let lost = SET_USER_ID | if group_id_stays { 0 } else { SET_GROUP_ID };
        Changes { mode: (mode & lost != 0).then_some(mode & !lost), ..Changes::without_capabilities(inode) }
    }

    fn without_capabilities(inode: &Inode) -> Changes {
        Changes { drops_capabilities: inode.has_capabilities(), ..Changes::default() }
    }
}

/// As `Changes::without_set_id`, for one who changes what is in the file: with CAP_FSETID it loses no set-id bit.
pub fn without_set_id_by_write(inode: &Inode) -> Changes {
    if inode.mode() & (SET_USER_ID | SET_GROUP_ID) == 0 {
        return Changes::without_capabilities(inode);
    }
    let cred = Cred::current();
    if cred.capable(Capability::FSETID) {
        Changes::without_capabilities(inode)
    } else {
        Changes::without_set_id(inode, &cred)
    }
}

/// Makes the changes, which are permitted. May sleep; the caller does not hold the inode's `write_lock`.
///
/// # Errors
/// Those of the file system.
pub fn change(inode: &Inode, changes: &Changes) -> Result {
    let order = &mut Held::clean();
    let mut write = inode.lock_write(order);
    let lists = match changes.mode {
        Some(mode) if !inode.acls.is_empty() => kept::following(inode, mode)?,
        _ => None,
    };
    inode.ops.set_attributes(inode, changes, write.held().reborrow())?;
    if let Some(lists) = lists {
        inode.acls.put(lists);
    }
    Ok(())
}
