//! The way to a node, and what is done to the entry that leads to it.
//!
//! That entry changes under the lock of the leaf that it leads to (protocol/leaf.rs), so it is reached through a [`WalkPath`] alone, which
//! a walk makes, and whose steps want to see the leaf locked:
//!
//! ```compile_fail,E0451
//! fn forge<'g>(node: &'g vm::node::Node, upper: &'g core::sync::atomic::AtomicU64) -> vm::node::WalkPath<'g> {
//!     vm::node::WalkPath { upper: Some(upper), node }
//! }
//! ```

use super::{DetachedLeaf, Locked, Node, RegisteredLeaf, Sharer, cell, index_of, node_of};
use crate::machine::{Entry, Machine};
use crate::order::Leaf;
use crate::protocol::leaf;
use crate::protocol::share::{self, Claim};
use crate::tlb::OwnTlb;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::level::{Before, Held};
use sync::rcu::RcuRead;

/// What sharing a leaf came to.
pub enum Shared {
    Done,
    /// The path leads elsewhere by now.
    Elsewhere,
    /// There is no room for one more sharer: see [`Node::make_room_for_sharer`].
    NoRoom,
}

/// The way from the root to the deepest table that translates an address, without a lock and without touching nodes.
pub struct WalkPath<'g> {
    /// The entry that leads to `node`; none for the root.
    pub(super) upper: Option<&'g AtomicU64>,
    node: &'g Node,
}

impl<'g> WalkPath<'g> {
    /// Walks from `root` to the leaf of `addr`, or to the interior node whose entry is absent.
    #[inline]
    pub fn walk<M: Machine>(root: &'g Node, addr: usize, rcu: &'g RcuRead) -> Self {
        let mut table = root.table();
        let mut upper = None;
        let mut level = root.level();
        while level > 0 {
            // SAFETY: the root's table, or one that an entry led to within this section.
            let entry = unsafe { cell(table, index_of(addr, level)) };
            let Some(next) = leaf::look(entry).table::<M>() else { break };
            table = next;
            upper = Some(entry);
            level -= 1;
        }
        // SAFETY: as above.
        let node = if upper.is_some() { unsafe { node_of(table, rcu) } } else { root };
        Self { upper, node }
    }

    /// Walks from `root`, a space's, to the leaf of `addr`; None: there is none as yet.
    #[inline(always)]
    pub fn to_leaf<M: Machine>(root: &'g Node, addr: usize, rcu: &'g RcuRead) -> Option<Self> {
        debug_assert_eq!(root.level(), M::LEVELS - 1);
        let mut table = root.table();
        let mut upper = None;
        for level in (1..M::LEVELS).rev() {
            // SAFETY: the root's table, or one that an entry led to within this section.
            let entry = unsafe { cell(table, index_of(addr, level)) };
            table = leaf::look(entry).table::<M>()?;
            upper = Some(entry);
        }
        // SAFETY: as above.
        Some(Self { upper, node: unsafe { node_of(table, rcu) } })
    }

    /// The way from `parent`, an interior node, to the node under its entry `index`.
    #[inline]
    pub fn below<M: Machine>(parent: &'g Node, index: u16, rcu: &'g RcuRead) -> Option<Self> {
        let node = parent.child::<M>(index, rcu)?;
        Some(Self { upper: Some(parent.cell(index)), node })
    }

    #[inline]
    pub fn node(&self) -> &'g Node {
        self.node
    }

    /// Locks the node, if it is still where it was found: None, and the walk begins anew, if it is stray.
    #[inline(always)]
    #[track_caller]
    pub fn enter<'a, M: Machine>(&self, held: &'a mut Held<'_, impl Before<Leaf>>) -> Option<Locked<'a>>
    where
        'g: 'a,
    {
        let locked = self.node.lock(held);
        match self.upper {
            Some(upper) => leaf::enter::<M, _>(upper, self.node.table(), locked),
            None => Some(locked),
        }
    }

    /// Is the node, which is locked, still where it was found? For who locked it without [`Self::enter`].
    #[inline]
    pub fn is_current<M: Machine>(&self, locked: &Locked<'_>) -> bool {
        self.upper.is_none_or(|upper| leaf::is_attached::<M, _>(upper, self.node.table(), locked))
    }

    /// Is a leaf writable through this space? Else it is shared, or was until lately.
    #[inline]
    pub fn is_writable<M: Machine>(&self) -> bool {
        self.upper.is_none_or(|u| M::is_writable(Entry(u.load(Ordering::Relaxed))))
    }

    /// Is the node, which is locked, this space's own, so that what it means may be changed?
    #[inline]
    pub fn is_exclusive<M: Machine>(&self, locked: &Locked<'_>) -> bool {
        self.is_writable::<M>() && !locked.is_shared()
    }

    /// The space wants the leaf, which is `locked`, for its own: the last sharer takes it over; else says what the space has to do.
    pub fn claim<M: Machine>(&self, locked: &Locked<'_>, forking: &AtomicBool) -> Claim {
        let Some(upper) = self.upper else { return Claim::Again };
        share::claim::<M>(upper, self.node.table(), locked.is_shared(), forking)
    }

    /// Makes the space with `tlb` one more sharer of the leaf, which is `locked`, and puts the leaf under the same entry of `copy`, a node of that
    /// space. `unlink` cuts the links of views.
    pub fn share<M: Machine>(
        &self,
        mut locked: Locked<'_>,
        copy: &mut Locked<'_>,
        tlb: &OwnTlb,
        unlink: impl FnOnce(&Locked<'_>),
    ) -> Shared {
        let Some(upper) = self.upper else { return Shared::Elsewhere };
        let (now, table) = (Entry(upper.load(Ordering::Relaxed)), self.node.table());
        if !leaf::leads_to::<M>(now, table) {
            return Shared::Elsewhere;
        }
        if !locked.sharers.has_capacity(1) {
            return Shared::NoRoom;
        }
        // Where all is the same shared mapping in both spaces, one table will do for good, for writing too.
        let common = || locked.segments.as_slice().iter().all(|s| s.attrs.is_shared());
        let Some(entry) = share::protect::<M>(upper, now, table, common, || unlink(&locked)) else {
            return Shared::Elsewhere;
        };
        locked.sharers.push(Sharer::new(tlb));
        drop(locked);
        copy.fill::<M>(copy.node().index(self.node.base()), entry);
        Shared::Done
    }

    /// Puts `copy` in place of the leaf, which is `locked` and shared; `unlink` cuts the links of views to it. If the path leads elsewhere by
    /// now, gives the copy back.
    pub fn exchange<M: Machine, R>(
        &self,
        locked: &Locked<'_>,
        copy: RegisteredLeaf,
        unlink: impl FnOnce(&Locked<'_>) -> R,
    ) -> Result<(DetachedLeaf<'g>, R), RegisteredLeaf> {
        let Some(upper) = self.upper else { return Err(copy) };
        let entry = copy.publish::<M>();
        match share::replace::<M, R>(upper, self.node.table(), entry, || unlink(locked)) {
            Some(unlinked) => Ok((DetachedLeaf::new(self.node), unlinked)),
            // SAFETY: just published, and stored nowhere.
            None => Err(unsafe { RegisteredLeaf::unpublish::<M>(entry) }),
        }
    }
}
