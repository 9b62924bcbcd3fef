//! Moving a mount, with all that hangs below it: MS_MOVE and move_mount(2). All of it under `MOUNTS`.
//!
//! A walk finds a mount that moves at its old place or its new one. Where it goes beneath another it is put behind that in the chain of their place: a walk finds the
//! upper one there until that has moved, and then the lower one, on which the upper one hangs.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use sync::rcu::RcuHead;
use sync::{TryVec, try_arc};

use super::change::{below_or, check_bears, check_room, hold_point, list_tree, mount_point};
use super::peers::Peers;
use super::spread::Spread;
use super::table::{self, Held, Link};
use super::unmount::bears;
use super::{MOUNTS, Mount, MountRef, Namespace, Path, Point};
use crate::errno::{EINVAL, ELOOP, ENOENT, Result};
use crate::sched::schedule_if_needed;

/// Where a mount is moved to.
pub enum Where<'a> {
    /// The place, over all that is mounted there.
    On(Path),
    /// Below the mount whose root that is, which hangs on the root of the other then. With the caller's root.
    Beneath(Path, &'a Path),
}

/// A move that is found possible, with all that it needs of memory.
struct Move {
    link: Arc<Link>,
    /// Where it hangs now; nowhere if a descriptor holds it as the root of a tree.
    from: Option<Path>,
    to: Path,
    point: Arc<Point>,
    /// The mounts of the tree that is no more held by a descriptor.
    joins: Vec<Held>,
    upper: Option<Upper>,
    spread: Spread,
}

/// The mount that comes to hang on the root of the one that is moved beneath it.
struct Upper {
    link: Arc<Link>,
    held: Held,
    to: Path,
    point: Arc<Point>,
}

/// MS_MOVE and move_mount(2): what is mounted at `from` hangs at `to` instead, with all that hangs below it. `from` may be the root of a tree that a descriptor holds, which
/// is so no more then. May sleep.
///
/// # Errors
/// EINVAL: `from` is neither that nor the root of a mount of the namespace that hangs somewhere, or one is a directory and the other is not, or nothing can be beneath that mount; or it hangs in a shared mount, or the place lies in one and something of the tree must not be bound. ELOOP: the
/// place lies in what is moved. ENOENT: one is removed, or the place's mount is in no tree. ENOSPC, ENOMEM.
pub fn move_to(from: &Path, to: Where<'_>, within: &Namespace) -> Result {
    let (point, beneath) = match to {
        Where::On(point) => (point, None),
        Where::Beneath(over, root) => (mount_point(&over.mount).ok_or(EINVAL)?, Some((over, root))),
    };
    let point = hold_point(point)?;
    let mut peers = MOUNTS.lock();
    let beneath = beneath.as_ref().map(|(over, root)| (over, *root));
    match prepare_move(&mut peers, from, &point, beneath, within) {
        Ok(prepared) => {
            prepared.make(&from.mount, within);
            Ok(())
        }
        Err(error) => {
            point.dentry.drop_mount();
            Err(error)
        }
    }
}

fn prepare_move(
    peers: &mut Peers,
    from: &Path,
    point: &Path,
    beneath: Option<(&Path, &Path)>,
    within: &Namespace,
) -> Result<Move> {
    let over = beneath.map_or(point, |(over, _)| over);
    check_move(peers, from, over, within)?;
    if let Some((over, root)) = beneath {
        check_beneath(peers, from, over, point, root)?;
    }
    let mount: &Mount = &from.mount;
    let is_shared = peers.is_shared(&point.mount);
    if is_shared && bears_unbindable(mount)? {
        return Err(EINVAL);
    }
    if ptr::eq(&*point.mount, mount) || point.mount.hangs_below(mount, &sync::rcu::read()) {
        return Err(ELOOP);
    }
    if mount.root.is_removed() {
        return Err(ENOENT);
    }
    let old = mount_point(mount);
    let own = Path { mount: from.mount.clone(), dentry: mount.root.clone() };
    let held = table::held(mount, old.as_ref().unwrap_or(&own), &sync::rcu::read()).ok_or(EINVAL)?;
    let mut joins = Vec::new();
    if old.is_none() {
        if bears(mount) {
            below_or(mount, |below| Ok(joins.try_push(below.clone())?))?;
        } else {
            joins.try_push(held.clone())?;
        }
        check_room(point, joins.len(), within)?;
    }
    let place = |path: &Path| try_arc(Point { path: path.clone(), rcu: RcuHead::new() });
    let upper = match beneath {
        None => None,
        Some((over, _)) => {
            let held = table::held(&over.mount, point, &sync::rcu::read()).ok_or(EINVAL)?;
            Some(Upper { link: Link::try_new(held.clone())?, held, point: place(&own)?, to: own.clone() })
        }
    };
    let (link, point_there) = (Link::try_new(held)?, place(point)?);
    let spread = Spread::prepare(peers, point, || list_tree(&own, true))?;
    // The last that can fail.
    if upper.is_some()
        && let Err(error) = mount.root.add_mount()
    {
        spread.undo(peers);
        return Err(error);
    }
    Ok(Move { link, from: old, to: point.clone(), point: point_there, joins, upper, spread })
}

/// Is anything in the tree that must not be bound, and so not be copied?
fn bears_unbindable(mount: &Mount) -> Result<bool> {
    let mut any = mount.is_unbindable();
    if bears(mount) {
        below_or(mount, |below| {
            any |= below.is_unbindable();
            Ok(())
        })?;
    }
    Ok(any)
}

/// May what is mounted at `from` be moved to `point`?
fn check_move(peers: &Peers, from: &Path, point: &Path, within: &Namespace) -> Result {
    let mount: &Mount = &from.mount;
    check_bears(&point.mount, within)?;
    let above = mount_point(mount).filter(|_| mount.is_in(within));
    // What is taken out of a shared one would have to be taken off elsewhere.
    let can_go = match above {
        Some(above) => !peers.is_shared(&above.mount),
        None => mount.is_anonymous_root(),
    };
    let same = from.dentry.inode.is_dir() == point.dentry.inode.is_dir();
    if can_go && same && ptr::eq(&*mount.root, &*from.dentry) { Ok(()) } else { Err(EINVAL) }
}

/// May `from` come beneath the mount whose root is `over`, which hangs at `point`?
fn check_beneath(peers: &Peers, from: &Path, over: &Path, point: &Path, root: &Path) -> Result {
    let read = sync::rcu::read();
    let top: &Mount = &over.mount;
    let mount: &Mount = &from.mount;
    let is_at = |path: &Path| ptr::eq(&*path.mount, &*point.mount) && ptr::eq(&*path.dentry, &*point.dentry);
    // It has moved since it was looked for.
    if !top.point(&read).is_some_and(is_at) || !ptr::eq(&*top.root, &*over.dentry) {
        return Err(EINVAL);
    }
    let covered = table::find(mount, &mount.root, &read).is_some();
    let is_top = ptr::eq(top, &*root.mount);
    let on_root = point.mount.point(&read).is_none();
    let below = mount.point(&read).is_some() && (ptr::eq(mount, top) || mount.hangs_below(top, &read));
    // What is passed on from the place would come over what it is to be beneath.
    let comes_over =
        |mount: &Mount| ptr::eq(&*mount.root, &*point.dentry) && peers.passes_on(&point.mount, mount);
    if covered || is_top || on_root || below || comes_over(top) || comes_over(mount) {
        Err(EINVAL)
    } else {
        Ok(())
    }
}

impl Move {
    /// Its place is held, and so is the root of `mount`, if another comes to hang there: a walk finds first that one at the place, and from one moment on `mount`, and
    /// on that the other.
    fn make(self, mount: &MountRef, within: &Namespace) {
        let Move { link, from, to, point, joins, upper, spread } = self;
        let own = Path { mount: mount.clone(), dentry: mount.root.clone() };
        to.mount.hanging.fetch_add(1, Relaxed);
        table::change(
            link,
            from.as_ref().unwrap_or(&own),
            &to,
            upper.as_ref().map(|upper| &**upper.held),
            || {
                mount.point.swap(Some(point));
                for below in &joins {
                    below.tree.store(within.number(), Relaxed);
                    schedule_if_needed();
                }
                within.add(joins.len());
            },
        );
        if let Some(from) = from {
            from.mount.hanging.fetch_sub(1, Relaxed);
            from.dentry.drop_mount();
        }
        if let Some(upper) = upper {
            mount.hanging.fetch_add(1, Relaxed);
            table::change(upper.link, &to, &upper.to, None, || upper.held.point.swap(Some(upper.point)));
            to.mount.hanging.fetch_sub(1, Relaxed);
            to.dentry.drop_mount();
        }
        spread.hang();
    }
}
