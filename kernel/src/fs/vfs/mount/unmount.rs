//! What umount2(2) takes off the tree of mounts, and what goes with it elsewhere. All of it under `MOUNTS`.
//!
//! Where a mount goes that hangs in a shared one, what hangs at the same place in the peers of that and in their slaves goes too, unless something hangs there that stays. A mount on the root of
//! one that goes is no reason to stay: it hangs at the place of that from then on.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use sync::rcu::RcuHead;
use sync::{TryVec, try_arc};

use super::change::{below_or, mount_point, take_off};
use super::peers::Peers;
use super::table::{self, Held, Link};
use super::{MARKED, MOUNTS, Mount, Namespace, Path, Point, SEEN, find_mount, namespace, spread};
use crate::errno::{EAGAIN, EBUSY, EINTR, EINVAL, ENOMEM, Result};
use crate::fs::vfs::dentry::Dentry;
use crate::sched::{give_way, schedule_if_needed};
use crate::sort;

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
/// EINVAL: `path` is not the root of a mount of the namespace that hangs somewhere. EBUSY, not with `detach`: it bears others, or `busy` says so of it or of one that would go with it.
/// EINTR: a fatal signal came. ENOMEM.
pub fn unmount(path: &Path, detach: bool, within: &Namespace, busy: impl Fn(&Mount) -> bool) -> Result<()> {
    let mut peers = MOUNTS.lock();
    let mount: &Mount = &path.mount;
    let Some(point) = mount_point(mount).filter(|_| mount.is_in(within)) else { return Err(EINVAL) };
    if !ptr::eq(&*mount.root, &*path.dentry) {
        return Err(EINVAL);
    }
    if !detach && (bears(mount) || busy(mount)) {
        return Err(EBUSY);
    }
    let mut gone: Vec<Held> = Vec::new();
    if detach {
        below_or(mount, |below| Ok(gone.try_push(below.clone())?))?;
    } else {
        gone.try_extend(table::held(mount, &point, &sync::rcu::read()))?;
    }
    let with = Fall::prepare(&mut peers, &gone)?;
    if !detach && with.found.iter().any(|one| one.bears_only_upper && busy(&one.held)) {
        with.undo();
        return Err(EBUSY);
    }
    take_all(&mut peers, mount, &gone, Some(within));
    with.make(&mut peers);
    Ok(())
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
    let mut peers = MOUNTS.lock();
    let is_here = |mount: &Mount| {
        let read = sync::rcu::read();
        mount.point(&read).is_some_and(|point| ptr::eq(&*point.dentry, dentry))
    };
    while let Some(mount) = find_mount(is_here) {
        if mount.is_in(within) {
            return Err(EBUSY);
        }
        let space = namespace::of_number(mount.tree.load(Relaxed));
        let mut gone: Vec<Held> = Vec::new();
        below_or(&mount, |below| Ok(gone.try_push(below.clone())?))?;
        take_all(&mut peers, &mount, &gone, space.as_deref());
    }
    Ok(())
}

/// Takes a mount off, with `gone`, those that hang below it, each from the one it hangs on.
fn take_all(peers: &mut Peers, mount: &Mount, gone: &[Held], within: Option<&Namespace>) {
    // With it none of the others can be come to.
    take_off(peers, mount, within);
    for below in gone {
        if !ptr::eq::<Mount>(&***below, mount) {
            take_off(peers, below, within);
        }
        schedule_if_needed();
    }
}

/// What goes with others that go, prepared.
#[derive(Default)]
struct Fall {
    found: Vec<Found>,
    uppers: Vec<Upper>,
}

/// A mount at the place of one that goes, in a peer or a slave of what that hangs on.
struct Found {
    held: Held,
    /// Nothing hangs on it, but for what hangs on its root.
    bears_only_upper: bool,
    /// How far below the root of its tree it hangs.
    depth: usize,
    goes: bool,
    /// What hangs on its root and stays.
    upper: Option<Held>,
}

/// A mount on the root of one that goes, and where it hangs then.
struct Upper {
    held: Held,
    from: Path,
    to: Path,
    link: Arc<Link>,
    point: Arc<Point>,
}

/// Of the mount on which that one hangs one more goes.
fn count_on(on: &mut Vec<(u64, u32)>, mount: &Mount) -> Result {
    let Some(place) = mount_point(mount) else { return Ok(()) };
    match on.binary_search_by_key(&place.mount.id, |entry| entry.0) {
        Ok(index) => {
            if let Some(entry) = on.get_mut(index) {
                entry.1 = entry.1.saturating_add(1);
            }
            Ok(())
        }
        Err(index) => Ok(on.try_insert(index, (place.mount.id, 1))?),
    }
}

fn is_listed(list: &[u64], mount: &Mount) -> bool {
    list.binary_search(&mount.id).is_ok()
}

/// What hangs on the root of the mount.
fn upper_of(mount: &Held) -> Option<Held> {
    table::last_at(&Path { mount: mount.share(), dentry: mount.root.clone() }, None)
}

impl Fall {
    /// What goes with `gone`, each with the mounts that hang below it, or bearing none.
    fn prepare(peers: &mut Peers, gone: &[Held]) -> Result<Fall> {
        let mut fall = Fall::default();
        if !gone.iter().any(|mount| mount_point(mount).is_some_and(|point| peers.is_shared(&point.mount))) {
            return Ok(fall);
        }
        let mut going: Vec<u64> = Vec::new();
        going.try_extend(gone.iter().map(|mount| mount.id))?;
        sort::by_key(&mut going, |id| *id);
        for mount in gone {
            let Some(point) = mount_point(mount) else { continue };
            for other in spread::told_of(peers, &point.mount)? {
                if give_way() {
                    return Err(EINTR);
                }
                let place = Path { mount: other, dentry: point.dentry.clone() };
                if let Some(held) = table::last_at(&place, None).filter(|held| !is_listed(&going, held)) {
                    fall.add(held)?;
                }
            }
        }
        let going = fall.decide(gone, &going)?;
        match fall.hold_uppers(&going) {
            Ok(()) => Ok(fall),
            Err(error) => {
                fall.undo();
                Err(error)
            }
        }
    }

    /// Nothing of it is to be.
    fn undo(self) {
        self.uppers.iter().for_each(|upper| upper.to.dentry.drop_mount());
    }

    fn add(&mut self, held: Held) -> Result {
        let depth = {
            let read = sync::rcu::read();
            let mut depth = 0usize;
            let mut above = held.point(&read);
            while let Some(point) = above {
                depth = depth.saturating_add(1);
                above = point.mount.point(&read);
            }
            depth
        };
        Ok(self.found.try_push(Found { held, bears_only_upper: false, depth, goes: false, upper: None })?)
    }

    /// Which go: those on which nothing hangs that stays, but for what is on their roots. `gone` go before, by number `before`. Gives the numbers of those that go in order.
    fn decide(&mut self, gone: &[Held], before: &[u64]) -> Result<Vec<u64>> {
        // The deepest first: what hangs on one is decided before it.
        sort::by_key(&mut self.found, |one| (usize::MAX.saturating_sub(one.depth), one.held.id));
        self.found.dedup_by_key(|one| one.held.id);
        let mut going: Vec<u64> = Vec::new();
        // On which mounts something hangs that goes, and how much; by number.
        let mut on: Vec<(u64, u32)> = Vec::new();
        for mount in gone {
            if give_way() {
                return Err(EINTR);
            }
            count_on(&mut on, mount)?;
        }
        for one in &mut self.found {
            if give_way() {
                return Err(EINTR);
            }
            let upper = upper_of(&one.held);
            let hanging = one.held.hanging.load(Relaxed);
            one.bears_only_upper = hanging == u32::from(upper.is_some());
            let upper = upper.filter(|upper| !is_listed(&going, upper) && !is_listed(before, upper));
            let fallen = on.binary_search_by_key(&one.held.id, |entry| entry.0);
            let fallen = fallen.ok().and_then(|index| on.get(index)).map_or(0, |entry| entry.1);
            one.goes = hanging == fallen.saturating_add(u32::from(upper.is_some()));
            if !one.goes {
                continue;
            }
            count_on(&mut on, &one.held)?;
            let index = going.binary_search(&one.held.id).unwrap_or_else(|index| index);
            going.try_insert(index, one.held.id)?;
            one.upper = upper;
        }
        self.found.retain(|one| one.goes || one.bears_only_upper);
        Ok(going)
    }

    /// What is on the roots of those that go shall hang where the highest of them hangs that all hang on.
    fn hold_uppers(&mut self, going: &[u64]) -> Result {
        for one in &mut self.found {
            let Some(held) = one.upper.take() else { continue };
            let mut to = mount_point(&one.held).ok_or(EINVAL)?;
            while is_listed(going, &to.mount) {
                to = mount_point(&to.mount).ok_or(EINVAL)?;
            }
            let from = Path { mount: one.held.share(), dentry: one.held.root.clone() };
            let link = Link::try_new(held.clone())?;
            let point = try_arc(Point { path: to.clone(), rcu: RcuHead::new() })?;
            self.uppers.try_reserve(1).map_err(|_| ENOMEM)?;
            to.dentry.add_mount()?;
            // There is room.
            let _ = self.uppers.push_reserved(Upper { held, from, to, link, point });
        }
        Ok(())
    }

    fn make(self, peers: &mut Peers) {
        for Upper { held, from, to, link, point } in self.uppers {
            to.mount.hanging.fetch_add(1, Relaxed);
            table::change(link, &from, &to, None, || held.point.swap(Some(point)));
            from.mount.hanging.fetch_sub(1, Relaxed);
            from.dentry.drop_mount();
        }
        for one in self.found.into_iter().filter(|one| one.goes) {
            let space = namespace::of_number(one.held.tree.load(Relaxed));
            take_off(peers, &one.held, space.as_deref());
            schedule_if_needed();
        }
    }
}
