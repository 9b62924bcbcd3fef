//! pivot_root(2): one mount takes the place of another as root, and that hangs below it from then on.
//!
//! Two moves under `MOUNTS`. Between them both hang where the root hung, and the new one covers the old: a walk finds the one or the other.
#![forbid(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use alloc::sync::Arc;
use sync::rcu::RcuHead;
use sync::try_arc;

use super::change::{hold_point, is_inside, mount_point};
use super::peers::Peers;
use super::table::{self, Held, Link};
use super::{MOUNTS, Mount, Namespace, Path, Point};
use crate::errno::{EBUSY, EINVAL, ENOENT, Result};

/// The place of `root`, the caller's, becomes that of `new`, and `root` hangs at `old`. Whoever has `root` for his own keeps it. May sleep.
///
/// # Errors
/// EBUSY: `new` or `old` lies in the mount of `root`. ENOENT: a place is removed. EINVAL: `root` or `new` is not the root of a mount of the namespace that hangs somewhere, `old` does not lie
/// below `new`, or `new` not below `root`, or one of the mounts that they hang on is shared. ENOMEM.
pub fn pivot(root: &Path, new: &Path, old: Path, within: &Namespace) -> Result {
    let old = hold_point(old)?;
    let peers = MOUNTS.lock();
    let made = Move::prepare(&peers, root, new, &old, within).and_then(|(root, new)| {
        if !lies_below(&old, &new.path) || !lies_below(&new.path, &root.path) {
            return Err(EINVAL);
        }
        let (top, below) = (new.to(&root.place)?, root.to(&old)?);
        // The second mount there.
        root.place.dentry.add_mount()?;
        Ok(((new, top), (root, below)))
    });
    match made {
        Ok((new, root)) => {
            for (it, step) in [new, root] {
                it.make(step);
            }
            Ok(())
        }
        Err(error) => {
            old.dentry.drop_mount();
            Err(error)
        }
    }
}

/// A mount that is to hang elsewhere.
struct Move {
    path: Path,
    /// Where it hangs.
    place: Path,
    held: Held,
}

/// What a move needs of memory.
struct Step {
    to: Path,
    link: Arc<Link>,
    point: Arc<Point>,
}

impl Move {
    /// Both, refused in the order that Linux has.
    fn prepare(
        peers: &Peers,
        root: &Path,
        new: &Path,
        old: &Path,
        within: &Namespace,
    ) -> Result<(Self, Self)> {
        // What was moved would have to be moved elsewhere too.
        let above = [mount_point(&root.mount), mount_point(&new.mount)];
        let shared = above.iter().flatten().map(|point| &point.mount).chain([&old.mount]);
        if shared.into_iter().any(|mount| peers.is_shared(mount)) {
            return Err(EINVAL);
        }
        for mount in [&root.mount, &new.mount] {
            if !mount.is_in(within) {
                return Err(EINVAL);
            }
        }
        // The root of everything stays where it is.
        if mount_point(&new.mount).is_none() {
            return Err(EINVAL);
        }
        if new.dentry.is_removed() {
            return Err(ENOENT);
        }
        if [new, old].iter().any(|path| ptr::eq::<Mount>(&*path.mount, &*root.mount)) {
            return Err(EBUSY);
        }
        Ok((Self::of(root)?, Self::of(new)?))
    }

    fn of(path: &Path) -> Result<Self> {
        let place = mount_point(&path.mount).ok_or(EINVAL)?;
        if !ptr::eq(&*path.mount.root, &*path.dentry) {
            return Err(EINVAL);
        }
        let held = table::held(&path.mount, &place, &sync::rcu::read()).ok_or(EINVAL)?;
        Ok(Self { path: path.clone(), place, held })
    }

    fn to(&self, to: &Path) -> Result<Step> {
        let point = try_arc(Point { path: to.clone(), rcu: RcuHead::new() })?;
        Ok(Step { to: to.clone(), link: Link::try_new(self.held.clone())?, point })
    }

    /// Its new place is held.
    fn make(self, step: Step) {
        let Step { to, link, point } = step;
        to.mount.hanging.fetch_add(1, Relaxed);
        table::change(link, &self.place, &to, None, || self.path.mount.point.swap(Some(point)));
        self.place.mount.hanging.fetch_sub(1, Relaxed);
        self.place.dentry.drop_mount();
    }
}

/// Does `lower` lie at or below `upper`, through whatever mounts?
pub(super) fn lies_below(lower: &Path, upper: &Path) -> bool {
    let mut at = lower.clone();
    while !ptr::eq::<Mount>(&*at.mount, &*upper.mount) {
        match mount_point(&at.mount) {
            Some(point) => at = point,
            None => return false,
        }
    }
    is_inside(&at.dentry, &upper.dentry)
}
