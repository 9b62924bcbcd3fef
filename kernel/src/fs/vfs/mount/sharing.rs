//! What mount(2), mount_setattr(2) and move_mount(2) say of how mounts share what is mounted in them, and what programs are told of it. All of it under `MOUNTS`.
#![forbid(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::TryVec;

use super::change::{below_or, is_inside};
use super::peers::{self, At, Peers};
use super::pivot::lies_below;
use super::spread::share_all;
use super::{MOUNTS, Mount, MountRef, Namespace, Path};
use crate::errno::{EINVAL, Result};
use crate::sched::schedule_if_needed;

/// Of a mount, as in mount_namespaces(7).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Shared,
    Slave,
    Private,
    Unbindable,
}

/// What programs are told of a mount.
#[derive(Default)]
pub struct Told {
    /// The number of its group, if it is shared.
    pub group: Option<u32>,
    /// That of the group whose slave it is.
    pub master: Option<u32>,
    /// That of the nearest group above it of which the reader sees a mount.
    pub from: Option<u32>,
}

/// Of a mount of the namespace, to who has that root. May sleep.
///
/// # Errors
/// ENOMEM.
pub fn told(mount: &Mount, within: &Namespace, root: &Path) -> Result<Told> {
    if mount.group.load(Relaxed) == peers::NONE {
        return Ok(Told::default());
    }
    let peers = MOUNTS.lock();
    let Some(at) = peers.of(mount) else { return Ok(Told::default()) };
    let number = |at: At| Some(peers.number(at)).filter(|number| *number != 0);
    let is_seen = |member: &MountRef| {
        schedule_if_needed();
        member.is_in(within) && lies_below(&Path { mount: member.clone(), dentry: member.root.clone() }, root)
    };
    let master = peers.master(at);
    let mut from = master;
    while let Some(at) = from {
        if peers.members(at).iter().any(is_seen) {
            break;
        }
        from = peers.master(at);
    }
    Ok(Told { group: number(at), master: master.and_then(number), from: from.and_then(number) })
}

/// MS_SHARED and its kin, of a mount, with `below` also of those that hang below it. May sleep.
///
/// # Errors
/// ENOMEM: none is shared; of slaves some may be.
pub fn set_kind(mount: &MountRef, kind: Kind, below: bool) -> Result {
    let mut peers = MOUNTS.lock();
    let mut all = Vec::new();
    if below {
        below_or(mount, |mount| Ok(all.try_push(mount.share())?))?;
    } else {
        all.try_push(mount.clone())?;
    }
    set_kinds(&mut peers, &all, kind)
}

/// As `set_kind`, of those mounts.
pub(super) fn set_kinds(peers: &mut Peers, mounts: &[MountRef], kind: Kind) -> Result {
    if kind == Kind::Shared {
        share_all(peers, mounts.iter().cloned())?;
    }
    for mount in mounts {
        match kind {
            Kind::Shared => mount.unbindable.store(false, Relaxed),
            // What is unbindable stays so.
            Kind::Slave => peers.enslave(mount)?,
            Kind::Private | Kind::Unbindable => {
                peers.leave(mount);
                mount.unbindable.store(kind == Kind::Unbindable, Relaxed);
            }
        }
        schedule_if_needed();
    }
    Ok(())
}

/// MOVE_MOUNT_SET_GROUP: the mount whose root is `to` shares as the one does whose root is `from`. Both are attached. May sleep.
///
/// # Errors
/// EINVAL: one is not the root of a mount that is attached, they are of different file systems or the root of `to` does not lie in `from`; `to` is not private, or `from` is. ENOMEM.
pub fn join_group(from: &Path, to: &Path) -> Result {
    let mut peers = MOUNTS.lock();
    let is_root = |path: &Path| path.mount.is_attached() && ptr::eq(&*path.mount.root, &*path.dentry);
    let fits = is_root(from)
        && is_root(to)
        && Arc::ptr_eq(&from.mount.superblock, &to.mount.superblock)
        && is_inside(&to.mount.root, &from.mount.root)
        && peers.of(&to.mount).is_none()
        && peers.of(&from.mount).is_some();
    if !fits {
        return Err(EINVAL);
    }
    peers.join(&to.mount, &from.mount)?;
    if peers.is_shared(&to.mount) {
        to.mount.unbindable.store(false, Relaxed);
    }
    Ok(())
}
