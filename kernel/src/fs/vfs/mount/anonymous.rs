//! Trees of mounts that a descriptor holds: what fsmount(2) makes and open_tree(2) copies. All of it under `MOUNTS`.
//!
//! Nothing is mounted in such a tree, taken out of it or moved in it. It ends when its descriptor does, unless its root was moved to a place in the tree that all see
//! (`moving`).
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use sync::{TryVec, try_arc};

use super::change::{below_or, copy_as_peers, forget, hang, links_of, list_bound, mount_point, take_off};
use super::peers::Peers;
use super::table::{self, Held};
use super::unmount::bears;
use super::{HELD, MOUNTS, Mount, MountRef, Namespace, Path, try_mount};
use crate::errno::{EINVAL, Result};
use crate::fs::vfs::dentry::DentryRef;
use crate::fs::vfs::superblock::SuperBlock;
use crate::sched::schedule_if_needed;

fn path_of(mount: &Mount, shared: MountRef) -> Path {
    Path { mount: shared, dentry: mount.root.clone() }
}

/// A tree of one mount of the file system. `dissolve` ends it.
///
/// # Errors
/// ENOMEM.
pub fn new(superblock: Arc<SuperBlock>, root: DentryRef, source: &[u8], flags: u32) -> Result<Path> {
    let mount = try_arc(try_mount(superblock, root, source, flags, None)?)?;
    let _lock = MOUNTS.lock();
    enter(&[(mount, 0)])
}

/// A copy of what lies at `from`; with `below` also of what is mounted below it, but for what must not be bound. `dissolve` ends it. May sleep.
///
/// # Errors
/// EINVAL: it must not be bound, or is not in the namespace. EINTR: a fatal signal came. ENOMEM.
pub fn copy(from: &Path, below: bool, within: &Namespace) -> Result<Path> {
    let mut peers = MOUNTS.lock();
    if from.mount.is_unbindable() || !from.mount.is_in(within) {
        return Err(EINVAL);
    }
    let mut copies = Vec::new();
    let list = list_bound(from, below)?;
    let entered = copy_as_peers(&mut peers, from, &list, None, &mut copies).and_then(|()| enter(&copies));
    if entered.is_err() {
        copies.iter().for_each(|(copy, _)| forget(&mut peers, copy));
    }
    entered
}

/// Makes a tree of mounts that are in none, the root first.
fn enter(mounts: &[(Held, usize)]) -> Result<Path> {
    let links = links_of(mounts.iter().map(|(mount, _)| mount))?;
    let (root, _) = mounts.first().ok_or(EINVAL)?;
    let own = path_of(root, root.share());
    for ((mount, _), link) in mounts.iter().zip(links) {
        match mount_point(mount) {
            Some(point) => hang(link, &point, None, None),
            None => {
                mount.tree.store(HELD, Relaxed);
                table::enter(link, Some(&own), None);
            }
        }
        schedule_if_needed();
    }
    Ok(own)
}

/// Ends the tree with that root, if it is still one. Each mount goes from the one that it hangs on, though they be used. May sleep.
pub fn dissolve(root: &MountRef) {
    let mut peers = MOUNTS.lock();
    if root.is_anonymous_root() {
        clear(&mut peers, root);
    }
}

/// Takes a tree apart whose root hangs nowhere. With `MOUNTS`.
pub(super) fn clear(peers: &mut Peers, root: &MountRef) {
    // Without memory for a list of all those go first that bear no others.
    while bears(root) {
        let (mut one, mut more, mut all) = (None, Vec::new(), true);
        // It fails only where the closure does.
        let _ = below_or(root, |mount| {
            if ptr::eq::<Mount>(&***mount, &**root) {
                return Ok(());
            }
            if one.is_none() && !bears(mount) {
                one = Some(mount.clone());
            } else if more.try_push(mount.clone()).is_err() {
                all = false;
            }
            Ok(())
        });
        for mount in one.into_iter().chain(more) {
            if all || !bears(&mount) {
                take_off(peers, &mount, None);
            }
            schedule_if_needed();
        }
    }
    table::leave(root, &path_of(root, root.clone()));
    forget(peers, root);
}
