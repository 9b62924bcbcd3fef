//! mount_setattr(2): what mounts allow, changed in place. All of it under `MOUNTS`.
#![forbid(unsafe_code)]

use core::ptr;

use alloc::vec::Vec;
use sync::TryVec;

use super::change::below_or;
use super::sharing::{Kind, set_kinds};
use super::{MOUNTS, Mount, MountRef, Namespace, Path, READ_ONLY};
use crate::errno::{EBUSY, EINTR, EINVAL, Result};
use crate::sched::{give_way, schedule_if_needed};

/// What becomes of a mount.
pub struct Change {
    /// Flags that it has from now on, and those that it has not unless they are among the former.
    pub set: u32,
    pub clear: u32,
    /// How it shares what is mounted in it.
    pub kind: Option<Kind>,
}

impl Change {
    fn of(&self, flags: u32) -> u32 {
        flags & !self.clear | self.set
    }
}

/// Changes the mount whose root is at `path`, with `below` also those that hang below it: all of them, or none. `writers` says whether any of those that it is
/// given, whose flags say already that they may not be written, has something open for it. May sleep.
///
/// # Errors
/// EINVAL: `path` is not the root of a mount of the namespace, or of a tree that a descriptor holds. EBUSY: one that is not to be written has writers. EINTR: a fatal signal came. ENOMEM.
pub fn change(
    path: &Path,
    change: &Change,
    below: bool,
    within: &Namespace,
    writers: impl FnOnce(&[MountRef]) -> bool,
) -> Result {
    let mut peers = MOUNTS.lock();
    let upper: &Mount = &path.mount;
    if !ptr::eq(&*upper.root, &*path.dentry) || !(upper.is_in(within) || upper.is_anonymous_root()) {
        return Err(EINVAL);
    }
    let mut all = Vec::new();
    if below {
        below_or(upper, |mount| Ok(all.try_push(mount.share())?))?;
    } else {
        all.try_push(path.mount.clone())?;
    }
    let mut closed = Vec::new();
    for mount in &all {
        if give_way() {
            return Err(EINTR);
        }
        if change.of(mount.flags()) & READ_ONLY != 0 && !mount.is_read_only() {
            closed.try_push(mount.clone())?;
        }
    }
    // Who opens from here on is refused, and who has opened before is seen.
    set_all(&closed, |flags| flags | READ_ONLY);
    if !closed.is_empty() && writers(&closed) {
        set_all(&closed, |flags| flags & !READ_ONLY);
        return Err(EBUSY);
    }
    // The last that can fail.
    if let Some(kind) = change.kind {
        let made = set_kinds(&mut peers, &all, kind);
        if made.is_err() {
            set_all(&closed, |flags| flags & !READ_ONLY);
            return made;
        }
    }
    set_all(&all, |flags| change.of(flags));
    Ok(())
}

fn set_all(mounts: &[MountRef], to: impl Fn(u32) -> u32) {
    for mount in mounts {
        mount.set_flags(to(mount.flags()));
        schedule_if_needed();
    }
}
