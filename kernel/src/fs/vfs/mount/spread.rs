//! What is mounted in a shared mount is mounted in its peers too, and in their slaves (mount_namespaces(7)), in whatever namespace, where the place is seen there.
//!
//! The copies for the peers are peers of what is mounted, and so for each group of slaves: its copies are of one group, whose master is that of the copies where its own master is. All
//! that can fail is done before anything is seen: first [`Spread::prepare`], then, when the mount itself hangs, [`Spread::hang`].
//!
//! Lock order: all of it with `MOUNTS`.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use sync::rcu::RcuHead;
use sync::{TryVec, try_arc};

use super::change::{Part, copy_tree, forget, hang, is_inside, links_of, mount_point};
use super::namespace::{self, Known};
use super::peers::{At, Peers};
use super::table::{self, Held, Link};
use super::{Mount, MountRef, Path, Point};
use crate::account::limits;
use crate::errno::{EINTR, ENOSPC, Result};
use crate::sched::{give_way, schedule_if_needed};

/// What a mount does elsewhere, prepared.
#[derive(Default)]
pub(super) struct Spread {
    /// Those of the tree that were not shared before, and are.
    shared: Vec<MountRef>,
    trees: Vec<Copy>,
}

/// A copy of the tree for another place.
struct Copy {
    space: Known,
    mounts: Vec<(Held, usize)>,
    links: Vec<Arc<Link>>,
    over: Option<Over>,
}

/// What is mounted at the place already: it hangs on the root of the copy from then on.
struct Over {
    held: Held,
    from: Path,
    to: Path,
    link: Arc<Link>,
    point: Arc<Point>,
}

/// Calls `f` for each group that is told of what happens in that one, which is the first: those above before those below. What `f` gives, it is given for the
/// groups below.
fn for_each_group<T: Clone>(
    peers: &mut Peers,
    first: At,
    given: T,
    mut f: impl FnMut(&mut Peers, At, T) -> Result<T>,
) -> Result {
    let mut left = Vec::new();
    left.try_push((first, given))?;
    while let Some((at, given)) = left.pop() {
        if give_way() {
            return Err(EINTR);
        }
        let given = f(peers, at, given)?;
        for below in peers.below(at).iter().rev() {
            left.try_push((*below, given.clone()))?;
        }
    }
    Ok(())
}

/// The mounts that are told of what happens in a shared one, but for itself.
pub(super) fn told_of(peers: &mut Peers, mount: &Mount) -> Result<Vec<MountRef>> {
    let mut all = Vec::new();
    if let Some(first) = peers.of(mount).filter(|_| peers.is_shared(mount)) {
        for_each_group(peers, first, (), |peers, at, ()| {
            for member in behind(peers, at, mount) {
                if !ptr::eq::<Mount>(&**member, mount) {
                    all.try_push(member.clone())?;
                }
                schedule_if_needed();
            }
            Ok(())
        })?;
    }
    Ok(all)
}

/// The members of a group in order, those behind `mount` first if it is one.
fn behind<'p>(peers: &'p Peers, at: At, mount: &Mount) -> impl Iterator<Item = &'p MountRef> {
    let members = peers.members(at);
    let place = members.iter().position(|member| ptr::eq::<Mount>(&**member, mount)).unwrap_or(0);
    let (before, behind) = members.split_at(place);
    behind.iter().chain(before)
}

/// Makes those of the mounts shared that are not, all or none; says which.
///
/// # Errors
/// ENOMEM.
pub(super) fn share_all(peers: &mut Peers, mounts: impl Iterator<Item = MountRef>) -> Result<Vec<MountRef>> {
    let mut shared: Vec<MountRef> = Vec::new();
    for mount in mounts {
        if peers.is_shared(&mount) {
            continue;
        }
        // Room first, so that nothing is shared that is not on the list.
        let made = shared.try_push(mount.clone()).map_err(Into::into).and_then(|()| peers.share(&mount));
        if let Err(error) = made {
            shared.iter().for_each(|mount| peers.unshare(mount));
            return Err(error);
        }
        schedule_if_needed();
    }
    Ok(shared)
}

impl Spread {
    /// Of a tree that is to hang at `point`, as `tree` lists it. If `point` lies in a shared mount all of the tree are shared from now on.
    ///
    /// # Errors
    /// ENOSPC: a namespace would have too many mounts. EINTR: a fatal signal came. ENOMEM. All is as it was.
    pub(super) fn prepare(
        peers: &mut Peers,
        point: &Path,
        tree: impl FnOnce() -> Result<Vec<Part>>,
    ) -> Result<Spread> {
        let Some(first) = peers.of(&point.mount).filter(|_| peers.is_shared(&point.mount)) else {
            return Ok(Spread::default());
        };
        let tree = tree()?;
        let shared = share_all(peers, tree.iter().map(|(mount, _)| mount.clone()))?;
        let mut spread = Spread { shared, trees: Vec::new() };
        match spread.copy_all(peers, first, &tree, point) {
            Ok(()) => Ok(spread),
            Err(error) => {
                spread.undo(peers);
                Err(error)
            }
        }
    }

    fn copy_all(&mut self, peers: &mut Peers, first: At, tree: &[Part], point: &Path) -> Result {
        // Of each group that got copies the groups of these, one for each mount of the tree.
        let mut made: Vec<Vec<At>> = Vec::new();
        let mut own = Vec::new();
        for (mount, _) in tree {
            own.try_extend(peers.of(mount))?;
        }
        made.try_push(own)?;
        for_each_group(peers, first, 0, |peers, at, above| {
            let mut members: Vec<MountRef> = Vec::new();
            members.try_extend(behind(peers, at, &point.mount).cloned())?;
            // Of which groups the copies are, once there is one, and behind which mounts of these.
            let mut groups = (at == first).then_some(0);
            let mut last: Vec<MountRef> = Vec::new();
            if groups.is_some() {
                last.try_extend(tree.iter().map(|(mount, _)| mount.clone()))?;
            }
            for member in members {
                if give_way() {
                    return Err(EINTR);
                }
                let is_here = ptr::eq::<Mount>(&*member, &*point.mount);
                if is_here || !is_inside(&point.dentry, &member.root) {
                    continue;
                }
                let Some(space) = namespace::of_number(member.tree.load(Relaxed)) else { continue };
                let place = Path { mount: member, dentry: point.dentry.clone() };
                let copy = self.copy(space, tree, place)?;
                let shared = peers.number(at) != 0;
                let (mut new, mut copies) = (Vec::new(), Vec::new());
                for (index, (mount, _)) in copy.mounts.iter().enumerate() {
                    let mount = mount.share();
                    match last.get(index) {
                        Some(other) => peers.join(&mount, other)?,
                        None => {
                            let above = made.get(above).and_then(|groups| groups.get(index)).copied();
                            new.try_push(peers.found(&mount, above, shared)?)?;
                        }
                    }
                    copies.try_push(mount)?;
                }
                last = copies;
                if groups.is_none() {
                    groups = Some(made.len());
                    made.try_push(new)?;
                }
            }
            Ok(groups.unwrap_or(above))
        })
    }

    /// A copy of the tree for `place`, of no group as yet; it is on the list whether it could be made or not.
    fn copy(&mut self, space: Known, tree: &[Part], place: Path) -> Result<&Copy> {
        let waiting = self.trees.iter().filter(|other| other.space.number() == space.number());
        let more = waiting.fold(tree.len(), |sum, other| sum.saturating_add(other.mounts.len()));
        if space.count().saturating_add(more) as u64 > limits::MOUNTS.get() {
            return Err(ENOSPC);
        }
        let (root, _) = tree.first().ok_or(EINTR)?;
        let from = Path { mount: root.clone(), dentry: root.root.clone() };
        self.trees.try_push(Copy { space, mounts: Vec::new(), links: Vec::new(), over: None })?;
        let copy = self.trees.last_mut().ok_or(EINTR)?;
        // It is held already, by the mount that is copied.
        place.dentry.add_mount()?;
        let copied = copy_tree(&from, tree, Some(&place), &mut copy.mounts);
        if copy.mounts.is_empty() {
            place.dentry.drop_mount();
        }
        copied?;
        copy.links = links_of(copy.mounts.iter().map(|(mount, _)| mount))?;
        copy.over = Over::prepare(&copy.mounts, &place, root)?;
        Ok(copy)
    }

    /// Nothing of it is to be.
    pub(super) fn undo(self, peers: &mut Peers) {
        for copy in self.trees {
            if let Some(over) = copy.over {
                over.to.dentry.drop_mount();
            }
            copy.mounts.iter().for_each(|(mount, _)| forget(peers, mount));
        }
        self.shared.iter().for_each(|mount| peers.unshare(mount));
    }

    /// The copies hang where they are to.
    pub(super) fn hang(self) {
        for mount in &self.shared {
            mount.unbindable.store(false, Relaxed);
        }
        for copy in self.trees {
            let Copy { space, mounts, links, over } = copy;
            let upper = over.as_ref().map(|over| &**over.held);
            // The first comes last, and with it all at once.
            for (index, ((mount, _), link)) in mounts.iter().zip(links).enumerate().rev() {
                if let Some(point) = mount_point(mount) {
                    hang(link, &point, Some(&space), upper.filter(|_| index == 0));
                }
                schedule_if_needed();
            }
            if let Some(over) = over {
                over.make();
            }
        }
    }
}

impl Over {
    /// `source` is what is copied: it may hang there, and is about to go.
    fn prepare(mounts: &[(Held, usize)], place: &Path, source: &Mount) -> Result<Option<Over>> {
        let (Some(held), Some((copy, _))) = (table::last_at(place, Some(source)), mounts.first()) else {
            return Ok(None);
        };
        let to = Path { mount: copy.share(), dentry: copy.root.clone() };
        let link = Link::try_new(held.clone())?;
        let point = try_arc(Point { path: to.clone(), rcu: RcuHead::new() })?;
        to.dentry.add_mount()?;
        Ok(Some(Over { held, from: place.clone(), to, link, point }))
    }

    fn make(self) {
        let Over { held, from, to, link, point } = self;
        to.mount.hanging.fetch_add(1, Relaxed);
        table::change(link, &from, &to, None, || held.point.swap(Some(point)));
        from.mount.hanging.fetch_sub(1, Relaxed);
        from.dentry.drop_mount();
    }
}
