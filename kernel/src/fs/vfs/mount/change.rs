//! What mount(2) and umount2(2) do to the tree of mounts, but for moving (`moving`). All of it under `MOUNTS`.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::rcu::RcuRead;
use sync::{TryVec, try_arc};

use super::table::{self, Held, Link};
use super::{HELD, MARKED, MOUNTS, Mount, NOWHERE, Namespace, Path, SEEN, find_mount, namespace, try_mount};
use crate::account::limits;
use crate::errno::{EAGAIN, EBUSY, EINTR, EINVAL, ENOENT, ENOMEM, ENOSPC, ENOTDIR, ESTALE, Result};
use crate::fs::vfs::dentry::{Dentry, DentryRef};
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

/// Mounts `root`, a dentry of `superblock`, on `point`.
///
/// # Errors
/// ENOTDIR: one is a directory and the other is not. ENOENT: the point is removed. ENOMEM, and those of `check_room`.
pub fn mount(
    superblock: Arc<SuperBlock>,
    root: DentryRef,
    source: &[u8],
    flags: u32,
    point: Path,
    within: &Namespace,
) -> Result<()> {
    if root.inode.is_dir() != point.dentry.inode.is_dir() {
        return Err(check_bears(&point.mount, within).err().unwrap_or(ENOTDIR));
    }
    let point = hold_point(point)?;
    let _lock = MOUNTS.lock();
    let entered = check_room(&point, 1, within)
        .and_then(|()| try_mount(superblock, root, source, flags, Some(point.clone())))
        .and_then(|mount| Link::try_new(try_arc(mount)?));
    let entered = entered.map(|link| hang(link, &point, Some(within)));
    if entered.is_err() {
        point.dentry.drop_mount();
    }
    entered
}

/// The mount of `link` is in the namespace from now on, or in a tree that a descriptor holds, on `point`.
pub(super) fn hang(link: Arc<Link>, point: &Path, within: Option<&Namespace>) {
    link.mount().tree.store(within.map_or(HELD, Namespace::number), Relaxed);
    if let Some(within) = within {
        within.add(1);
    }
    point.mount.hanging.fetch_add(1, Relaxed);
    table::enter(link, Some(point));
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

/// MS_BIND: what lies at `from` is at `point` too; with `below` also what is mounted below it, but for what must not be bound.
///
/// # Errors
/// EINVAL: it must not be bound, or is not in the namespace. EINTR: a fatal signal came. Those of `mount`.
pub fn bind_tree(from: &Path, point: Path, below: bool, within: &Namespace) -> Result {
    if from.mount.is_unbindable() || !from.mount.is_in(within) {
        return Err(EINVAL);
    }
    let superblock = from.mount.superblock.clone();
    if !below {
        return mount(superblock, from.dentry.clone(), &from.mount.source, from.mount.flags(), point, within);
    }
    if from.dentry.inode.is_dir() != point.dentry.inode.is_dir() {
        return Err(check_bears(&point.mount, within).err().unwrap_or(ENOTDIR));
    }
    let point = hold_point(point)?;
    let _lock = MOUNTS.lock();
    let mut copies = Vec::new();
    let entered = list_tree(from, false)
        .and_then(|list| copy_tree(from, &list, Some(&point), &mut copies))
        .and_then(|()| check_room(&point, copies.len(), within))
        .and_then(|()| links_of(&copies));
    match entered {
        Ok(links) => {
            // The first comes last, and with it all at once.
            for (copy, link) in copies.iter().zip(links).rev() {
                if let Some(point) = mount_point(copy) {
                    hang(link, &point, Some(within));
                }
                schedule_if_needed();
            }
            Ok(())
        }
        Err(error) => {
            // The first copy is to hang at `point`, which is held also where there is no copy yet.
            point.dentry.drop_mount();
            copies.iter().skip(1).for_each(|copy| forget(copy));
            Err(error)
        }
    }
}

pub(super) fn links_of(mounts: &[Held]) -> Result<Vec<Arc<Link>>> {
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
pub(super) fn take_off(mount: &Mount, within: Option<&Namespace>) {
    if let Some(within) = within {
        within.take();
    }
    if let Some(point) = mount_point(mount) {
        table::leave(mount, &point);
        point.mount.hanging.fetch_sub(1, Relaxed);
    }
    forget(mount);
}

/// The mount, which is not in the tree, hangs nowhere from now on.
pub(super) fn forget(mount: &Mount) {
    if let Some(point) = mount_point(mount) {
        point.dentry.drop_mount();
    }
    mount.gone.store(true, Relaxed);
    mount.tree.store(NOWHERE, Relaxed);
    mount.point.swap(None);
}

/// What `copy_tree` copies: `from`'s mount, then those that hang below it, each with the place in the list of the one it hangs on; with `unbindable` also what must not be bound. In the
/// order in which Linux goes through a tree, which /proc/mounts shows: a mount, then what hangs on it, each with all below it.
pub(super) fn list_tree(from: &Path, unbindable: bool) -> Result<Vec<(Held, usize)>> {
    let mut all = Vec::new();
    table::for_each(|mount, _| Ok(all.try_push(mount.clone())?))?;
    sort::by_key(&mut all, |mount| mount.id);
    let first = all.iter().find(|m| ptr::eq::<Mount>(&****m, &*from.mount)).ok_or(EINVAL)?;
    let (mut list, mut left) = (Vec::new(), Vec::new());
    left.try_push((first.clone(), 0))?;
    while let Some((upper, on)) = left.pop() {
        let at = list.len();
        for mount in all.iter().rev() {
            if give_way() {
                return Err(EINTR);
            }
            let place = mount.point(&sync::rcu::read()).cloned();
            let Some(place) = place.filter(|place| ptr::eq(&*place.mount, &**upper)) else { continue };
            if (unbindable || !mount.is_unbindable()) && (at != 0 || is_inside(&place.dentry, &from.dentry)) {
                left.try_push((mount.clone(), at))?;
            }
        }
        list.try_push((upper, on))?;
    }
    Ok(list)
}

/// Copies what lies at `from` and the mounts below it, which `list` has. The first is the copy of `from`, at `point`, if there is one.
pub(super) fn copy_tree(
    from: &Path,
    list: &[(Held, usize)],
    point: Option<&Path>,
    copies: &mut Vec<Held>,
) -> Result {
    for (mount, on) in list {
        let (superblock, source, flags) = (mount.superblock.clone(), &mount.source, mount.flags());
        let Some(upper) = copies.get(*on).map(|upper| upper.share()) else {
            let first = try_mount(superblock, from.dentry.clone(), source, flags, point.cloned())?;
            copies.try_push(try_arc(first)?)?;
            continue;
        };
        let Some(place) = mount.point(&sync::rcu::read()).map(|place| place.dentry.clone()) else { continue };
        // It is held already, by the mount that is copied.
        place.add_mount()?;
        let point = Path { mount: upper, dentry: place.clone() };
        let entered =
            try_mount(superblock, mount.root.clone(), source, flags, Some(point)).and_then(|copy| {
                copy.unbindable.store(mount.is_unbindable(), Relaxed);
                Ok(copies.try_push(try_arc(copy)?)?)
            });
        if entered.is_err() {
            place.drop_mount();
        }
        entered?;
    }
    Ok(())
}

/// Makes a mount one that cannot be bound elsewhere, or one that can; with `below` those that hang on it too.
pub fn set_unbindable(mount: &Mount, to: bool, below: bool) {
    let _lock = MOUNTS.lock();
    mount.unbindable.store(to, Relaxed);
    if below {
        // It fails only where the closure does.
        let _ = below_or(mount, |below| {
            below.unbindable.store(to, Relaxed);
            Ok(())
        });
    }
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

/// Does another hang on it?
pub(super) fn bears(mount: &Mount) -> bool {
    mount.hanging.load(Relaxed) != 0
}

/// MNT_EXPIRE: may the mount be taken off, because nobody has used it since the last call for it?
///
/// # Errors
/// EBUSY: it bears others, or `busy` says so. EAGAIN: from now on it is looked whether anybody does.
pub fn check_expired(mount: &Mount, busy: impl FnOnce(&Mount) -> bool) -> Result<()> {
    if bears(mount) || busy(mount) {
        return Err(EBUSY);
    }
    if mount.expiry.swap(MARKED, Relaxed) == SEEN { Ok(()) } else { Err(EAGAIN) }
}

/// Takes a mount off; with `detach` also those that hang below it, each from the one it hangs on, though they be used.
///
/// # Errors
/// EINVAL: `path` is not the root of a mount of the namespace that hangs somewhere. EBUSY, not with `detach`: it bears others or `busy` says so.
pub fn unmount(
    path: &Path,
    detach: bool,
    within: &Namespace,
    busy: impl FnOnce(&Mount) -> bool,
) -> Result<()> {
    let _lock = MOUNTS.lock();
    let mount: &Mount = &path.mount;
    let hangs = mount.is_in(within) && mount.point(&sync::rcu::read()).is_some();
    if !ptr::eq(&*mount.root, &*path.dentry) || !hangs {
        return Err(EINVAL);
    }
    if !detach && (bears(mount) || busy(mount)) {
        return Err(EBUSY);
    }
    if !detach {
        take_off(mount, Some(within));
        return Ok(());
    }
    take_off_all(mount, Some(within))
}

/// Is any mount of the namespace on `dentry`, in whatever mount? Gives way.
pub fn covers(dentry: &Dentry, within: &Namespace) -> bool {
    find_mount(|mount| {
        let read = sync::rcu::read();
        mount.is_in(within) && mount.point(&read).is_some_and(|point| ptr::eq(&*point.dentry, dentry))
    })
    .is_some()
}

/// What is mounted on `dentry` is taken off, with all that hangs below it, though it be used: a name that is removed is no place for mounts of other namespaces. May sleep.
///
/// # Errors
/// EBUSY: a mount of the caller's namespace is there. ENOMEM.
pub fn uncover(dentry: &Dentry, within: &Namespace) -> Result {
    let _lock = MOUNTS.lock();
    let is_here = |mount: &Mount| {
        let read = sync::rcu::read();
        mount.point(&read).is_some_and(|point| ptr::eq(&*point.dentry, dentry))
    };
    while let Some(mount) = find_mount(is_here) {
        if mount.is_in(within) {
            return Err(EBUSY);
        }
        let space = namespace::of_number(mount.tree.load(Relaxed));
        take_off_all(&mount, space.as_deref())?;
    }
    Ok(())
}

/// Takes a mount off, with those that hang below it, each from the one it hangs on. With `MOUNTS`.
///
/// # Errors
/// ENOMEM.
fn take_off_all(mount: &Mount, within: Option<&Namespace>) -> Result {
    let mut gone: Vec<Held> = Vec::new();
    below_or(mount, |below| Ok(gone.try_push(below.clone())?))?;
    // With it none of the others can be come to.
    take_off(mount, within);
    for below in gone {
        if !ptr::eq::<Mount>(&**below, mount) {
            take_off(&below, within);
        }
        schedule_if_needed();
    }
    Ok(())
}
