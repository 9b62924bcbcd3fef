//! What mount(2) adds to the tree of mounts, and what all that change the tree have in common. All of it under `MOUNTS`.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::rcu::RcuRead;
use sync::{TryVec, try_arc};

use super::peers::Peers;
use super::spread::Spread;
use super::table::{self, Held, Link};
use super::{HELD, MOUNTS, Mount, MountRef, NOWHERE, Namespace, Path, try_mount};
use crate::account::limits;
use crate::errno::{EINTR, EINVAL, ENOENT, ENOMEM, ENOSPC, ENOTDIR, ESTALE, Result};
use crate::fs::vfs::dentry::DentryRef;
use crate::fs::vfs::lookup;
use crate::fs::vfs::superblock::SuperBlock;
use crate::sched::{give_way, schedule_if_needed};
use crate::sort;

/// Keeps the point from being removed or evicted, until `drop_mount`. One that has left the cache is looked for once more: without memory to keep it
/// there nothing can be mounted.
pub(super) fn hold_point(mut point: Path) -> Result<Path> {
    match point.dentry.add_mount() {
        Err(ESTALE) => {
            point = lookup::again(&point)?;
            point.dentry.add_mount().map_err(|e| if e == ESTALE { ENOMEM } else { e })?;
        }
        added => added?,
    }
    Ok(point)
}

/// May anything be mounted in that mount?
///
/// # Errors
/// ENOENT: it is in no tree. EINVAL: it is not in the caller's namespace.
pub(super) fn check_bears(mount: &Mount, within: &Namespace) -> Result {
    if mount.gone.load(Relaxed) {
        return Err(ENOENT);
    }
    if mount.is_in(within) { Ok(()) } else { Err(EINVAL) }
}

/// With `MOUNTS`: may `more` mounts hang at `point`?
///
/// # Errors
/// ENOSPC: there are too many mounts (fs.mount-max). Those of `check_bears`.
pub(super) fn check_room(point: &Path, more: usize, within: &Namespace) -> Result {
    check_bears(&point.mount, within)?;
    let all = within.count().saturating_add(more) as u64;
    if all > limits::MOUNTS.get() { Err(ENOSPC) } else { Ok(()) }
}

/// Mounts `root`, a dentry of `superblock`, on `point`, and where that is shared wherever it is passed on to.
///
/// # Errors
/// ENOTDIR: one is a directory and the other is not. ENOENT: the point is removed. EINTR: a fatal signal came. ENOMEM, and those of `check_room`.
pub fn mount(
    superblock: Arc<SuperBlock>,
    root: DentryRef,
    source: &[u8],
    flags: u32,
    point: Path,
    within: &Namespace,
) -> Result<()> {
    attach(root.clone(), point, within, |_, point, made| {
        let mount = try_mount(superblock, root, source, flags, Some(point.clone()))?;
        Ok(made.try_push((try_arc(mount)?, 0))?)
    })
}

/// Puts a tree at `point`, which `make` makes: its root, which is `root` and hangs at the place that `make` is given, first, each with the place in the list of the one it hangs on.
fn attach(
    root: DentryRef,
    point: Path,
    within: &Namespace,
    make: impl FnOnce(&mut Peers, &Path, &mut Vec<(Held, usize)>) -> Result,
) -> Result {
    if root.inode.is_dir() != point.dentry.inode.is_dir() {
        return Err(check_bears(&point.mount, within).err().unwrap_or(ENOTDIR));
    }
    let point = hold_point(point)?;
    let mut peers = MOUNTS.lock();
    let mut tree = Vec::new();
    let prepared = make(&mut peers, &point, &mut tree)
        .and_then(|()| check_room(&point, tree.len(), within))
        .and_then(|()| links_of(tree.iter().map(|(mount, _)| mount)))
        .and_then(|links| Ok((links, Spread::prepare(&mut peers, &point, || shared_of(&tree))?)));
    match prepared {
        Ok((links, spread)) => {
            // The first comes last, and with it all at once.
            for ((mount, _), link) in tree.iter().zip(links).rev() {
                if let Some(point) = mount_point(mount) {
                    hang(link, &point, Some(within), None);
                }
                schedule_if_needed();
            }
            spread.hang();
            Ok(())
        }
        Err(error) => {
            if tree.is_empty() {
                point.dentry.drop_mount();
            }
            // The first, if there is one, lets go of the point.
            tree.iter().for_each(|(mount, _)| forget(&mut peers, mount));
            Err(error)
        }
    }
}

/// The mounts of a tree as others may have them.
fn shared_of(tree: &[(Held, usize)]) -> Result<Vec<Part>> {
    let mut list = Vec::new();
    list.try_extend(tree.iter().map(|(mount, on)| (mount.share(), *on)))?;
    Ok(list)
}

/// The mount of `link` is in the namespace from now on, or in a tree that a descriptor holds, on `point`; if another hangs there, which is named, behind that.
pub(super) fn hang(link: Arc<Link>, point: &Path, within: Option<&Namespace>, other: Option<&Mount>) {
    link.mount().tree.store(within.map_or(HELD, Namespace::number), Relaxed);
    if let Some(within) = within {
        within.add(1);
    }
    point.mount.hanging.fetch_add(1, Relaxed);
    table::enter(link, Some(point), other);
}

/// Does `lower` lie in the mount below `upper`, or is it that?
pub(super) fn is_inside(lower: &DentryRef, upper: &DentryRef) -> bool {
    let mut here = lower.clone();
    loop {
        if ptr::eq(&*here, &**upper) {
            return true;
        }
        match here.parent() {
            Some(parent) => here = parent,
            None => return false,
        }
    }
}

/// MS_BIND: what lies at `from` is at `point` too; with `below` also what is mounted below it, but for what must not be bound. What is bound is a peer of what is shared, and a slave as
/// that is one.
///
/// # Errors
/// EINVAL: it must not be bound, or is not in the namespace. EINTR: a fatal signal came. Those of `mount`.
pub fn bind_tree(from: &Path, point: Path, below: bool, within: &Namespace) -> Result {
    if from.mount.is_unbindable() || !from.mount.is_in(within) {
        return Err(EINVAL);
    }
    attach(from.dentry.clone(), point, within, |peers, point, made| {
        copy_as_peers(peers, from, &list_bound(from, below)?, Some(point), made)
    })
}

/// What MS_BIND and open_tree(2) copy: what lies at `from`, and with `below` what is mounted below it, but for what must not be bound.
pub(super) fn list_bound(from: &Path, below: bool) -> Result<Vec<Part>> {
    if below {
        return list_tree(from, false);
    }
    let mut list = Vec::new();
    list.try_push((from.mount.clone(), 0))?;
    Ok(list)
}

/// As `copy_tree`; each copy is of the group of what it is a copy of.
pub(super) fn copy_as_peers(
    peers: &mut Peers,
    from: &Path,
    list: &[Part],
    point: Option<&Path>,
    copies: &mut Vec<(Held, usize)>,
) -> Result {
    copy_tree(from, list, point, copies)?;
    for ((copy, _), (mount, _)) in copies.iter().zip(list) {
        peers.join(&copy.share(), mount)?;
        schedule_if_needed();
    }
    Ok(())
}

pub(super) fn links_of<'m>(mounts: impl Iterator<Item = &'m Held>) -> Result<Vec<Arc<Link>>> {
    let mut links = Vec::new();
    for mount in mounts {
        links.try_push(Link::try_new(mount.clone())?)?;
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(links)
}

pub(super) fn mount_point(mount: &Mount) -> Option<Path> {
    mount.point(&sync::rcu::read()).cloned()
}

/// The mount is taken out of the namespace, or of a tree that ends, and hangs nowhere from now on.
pub(super) fn take_off(peers: &mut Peers, mount: &Mount, within: Option<&Namespace>) {
    if let Some(within) = within {
        within.take();
    }
    if let Some(point) = mount_point(mount) {
        table::leave(mount, &point);
        point.mount.hanging.fetch_sub(1, Relaxed);
    }
    forget(peers, mount);
}

/// The mount, which is not in the tree, hangs nowhere from now on, and is of no group.
pub(super) fn forget(peers: &mut Peers, mount: &Mount) {
    peers.leave(mount);
    if let Some(point) = mount_point(mount) {
        point.dentry.drop_mount();
    }
    mount.gone.store(true, Relaxed);
    mount.tree.store(NOWHERE, Relaxed);
    mount.point.swap(None);
}

/// A mount of a tree, and the place in the tree's list of the one it hangs on.
pub(super) type Part = (MountRef, usize);

/// What `copy_tree` copies: `from`'s mount, then those that hang below it, each with the place in the list of the one it hangs on; with `unbindable` also what must not be bound. In the
/// order in which Linux goes through a tree, which /proc/mounts shows: a mount, then what hangs on it, each with all below it.
pub(super) fn list_tree(from: &Path, unbindable: bool) -> Result<Vec<Part>> {
    let mut all = Vec::new();
    table::for_each(|mount, _| Ok(all.try_push(mount.share())?))?;
    sort::by_key(&mut all, |mount| mount.id);
    let (mut list, mut left) = (Vec::new(), Vec::new());
    left.try_push((from.mount.clone(), 0))?;
    while let Some((upper, on)) = left.pop() {
        let at = list.len();
        for mount in all.iter().rev() {
            if give_way() {
                return Err(EINTR);
            }
            let place = mount.point(&sync::rcu::read()).cloned();
            let Some(place) = place.filter(|place| ptr::eq(&*place.mount, &*upper)) else { continue };
            if (unbindable || !mount.is_unbindable()) && (at != 0 || is_inside(&place.dentry, &from.dentry)) {
                left.try_push((mount.clone(), at))?;
            }
        }
        list.try_push((upper, on))?;
    }
    Ok(list)
}

/// Copies what lies at `from` and the mounts below it, which `list` has. The first is the copy of `from`, at `point`, if there is one. The copies are private. Those that were made
/// when it failed are in the list.
pub(super) fn copy_tree(
    from: &Path,
    list: &[Part],
    point: Option<&Path>,
    copies: &mut Vec<(Held, usize)>,
) -> Result {
    for (mount, on) in list {
        let (superblock, source, flags) = (mount.superblock.clone(), &mount.source, mount.flags());
        let Some(upper) = copies.get(*on).map(|(upper, _)| upper.share()) else {
            let first = try_mount(superblock, from.dentry.clone(), source, flags, point.cloned())?;
            copies.try_push((try_arc(first)?, 0))?;
            continue;
        };
        let Some(place) = mount.point(&sync::rcu::read()).map(|place| place.dentry.clone()) else { continue };
        // It is held already, by the mount that is copied.
        place.add_mount()?;
        let point = Path { mount: upper, dentry: place.clone() };
        let entered =
            try_mount(superblock, mount.root.clone(), source, flags, Some(point)).and_then(|copy| {
                copy.unbindable.store(mount.is_unbindable(), Relaxed);
                Ok(copies.try_push((try_arc(copy)?, *on))?)
            });
        if entered.is_err() {
            place.drop_mount();
        }
        entered?;
    }
    Ok(())
}

/// Calls `f` for a mount and each that hangs below it. `MOUNTS` is held. Each that a climb comes by notes what was found, so that none is climbed from twice.
pub(super) fn below_or(upper: &Mount, mut f: impl FnMut(&Held) -> Result) -> Result {
    static WALKS: AtomicU64 = AtomicU64::new(1);
    let number = WALKS.fetch_add(1, Relaxed).wrapping_mul(2);
    let is_below = |mount: &Mount, read: &RcuRead| {
        let known = |mount: &Mount| match mount.walk.load(Relaxed) {
            walk if walk & !1 == number => Some(walk & 1 != 0),
            _ => ptr::eq(mount, upper).then_some(true),
        };
        let climb = |each: &dyn Fn(&Mount)| {
            let mut at = mount;
            loop {
                if let Some(known) = known(at) {
                    return known;
                }
                each(at);
                match at.point(read) {
                    Some(point) => at = &point.mount,
                    None => return false,
                }
            }
        };
        let is = climb(&|_| ());
        climb(&|mount| mount.walk.store(number | u64::from(is), Relaxed));
        is
    };
    table::for_each(|mount, read| if is_below(mount, read) { f(mount) } else { Ok(()) })
}
