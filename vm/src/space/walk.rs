//! Getting to leaves: making them at first touch, and making them this space's own before a change.
//!
//! Invariants: LeafOwns, RegisterBeforeMap, CopyBeforeWrite.
//! Lock order: one node at a time, but for a new leaf that nobody knows yet.
#![forbid(unsafe_code)]

use super::{Space, Stop};
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::flush::Gather;
use crate::node::segment::{MappingAttrs, SegmentList};
use crate::node::{Locked, NewNode, NewPoolShare, Node, RegisteredLeaf, Retired, WalkPath, copy_entries};
use crate::order::Order;
use crate::protocol::pool;
use crate::protocol::share::Claim;
use sync::rcu::{self, RcuRead};

/// A node that is to be put into the tree.
enum Child {
    Leaf(RegisteredLeaf),
    Interior(NewNode),
}

impl<M: Machine> Space<M> {
    /// The leaf of `addr`. Where there is none it is made: at the first touch of a segment that lies higher up (the segment is
    /// copied down), or, with `create`, empty. None: nothing is mapped there.
    #[inline]
    pub(crate) fn reach<'g>(
        &'g self,
        addr: usize,
        create: bool,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<Option<WalkPath<'g>>, VmError> {
        loop {
            let path = WalkPath::walk::<M>(self.root(), addr, rcu);
            if path.node().is_leaf() {
                return Ok(Some(path));
            }
            if !self.grow_tree(path.node(), addr, create, order)? {
                return Ok(None);
            }
        }
    }

    /// Puts a child under the entry of `parent` for `addr`, which was absent. False: nothing is mapped there.
    #[cold]
    pub(crate) fn grow_tree(
        &self,
        parent: &Node,
        addr: usize,
        create: bool,
        order: &mut Order<'_>,
    ) -> Result<bool, VmError> {
        let index = parent.index(addr);
        if !create && !parent.counts().may_mean(index) {
            #[cfg(debug_assertions)]
            {
                let locked = parent.lock(order);
                assert!(parent.counts().may_mean(index) || locked.segments.find(index).is_none());
            }
            return Ok(false);
        }
        let attrs_now =
            |locked: &Locked<'_>| locked.segments.find(index).map(|s| s.at(index, parent.shift()));
        let locked = parent.lock(order);
        let attrs = attrs_now(&locked);
        let stray = locked.is_stray();
        drop(locked);
        if stray || (attrs.is_none() && !create) {
            return Ok(false);
        }
        let child = self.make_child(parent, index, attrs.as_ref(), order)?;
        let mut locked = parent.lock(order);
        let unchanged = match (&attrs, attrs_now(&locked)) {
            (None, None) => true,
            (Some(a), Some(b)) => a.continued_by(&b, 0),
            _ => false,
        };
        let fits = unchanged && !locked.is_stray() && locked.entry(index).is_absent();
        match child {
            Child::Leaf(leaf) if fits => locked.fill_leaf::<M>(index, leaf),
            Child::Interior(node) if fits => locked.fill_node::<M>(index, node),
            Child::Leaf(leaf) => {
                drop(locked);
                Retired::unused::<M>(leaf, order);
            }
            Child::Interior(node) => {
                drop(locked);
                drop(node);
            }
        }
        Ok(true)
    }

    /// A node for entry `index` of `parent`, all of which has `attrs`.
    #[expect(clippy::arithmetic_side_effects, reason = "a leaf has no child, so the level is not zero")]
    fn make_child(
        &self,
        parent: &Node,
        index: u16,
        attrs: Option<&MappingAttrs>,
        order: &mut Order<'_>,
    ) -> Result<Child, VmError> {
        let (level, base) = (parent.level() - 1, parent.address(index));
        let is_leaf = level == 0;
        let mut child = match attrs {
            None if is_leaf => return Ok(Child::Leaf(RegisteredLeaf::try_empty(base, &self.tlb)?)),
            _ if is_leaf => NewNode::try_leaf(base, &self.tlb)?,
            _ => NewNode::try_new(level, base)?,
        };
        if let Some(attrs) = attrs {
            let mut none = crate::node::segment::Removed::new();
            let shift = child.node().shift();
            child.node().counts().note_meant(&(0..crate::addr::ENTRIES as u16));
            child.state().segments.insert(0..crate::addr::ENTRIES as u16, attrs.clone(), shift, &mut none);
        }
        Ok(if is_leaf {
            Child::Leaf(RegisteredLeaf::try_new::<M>(child, order)?)
        } else {
            Child::Interior(child)
        })
    }

    /// Makes the leaf at `path` this space's own, if it is shared: the last sharer takes it over as it is, others copy it.
    /// The caller walks again afterwards. RCU section open, no lock held.
    #[cold]
    pub(crate) fn unshare_leaf(&self, path: &WalkPath<'_>, order: &mut Order<'_>) -> Result<(), Stop> {
        let leaf = path.node();
        let locked = leaf.lock(order);
        match path.claim::<M>(&locked, &self.forking) {
            Claim::Again => {
                let is_large = locked.is_large();
                drop(locked);
                if is_large {
                    self.use_views();
                    self.want_view();
                }
                return Ok(());
            }
            Claim::Wait => return Err(Stop::Forking),
            Claim::Copy => {}
        }
        // Segments of a shared leaf do not change while it is shared; copy them and register outside the lock.
        let len = locked.segments.as_slice().len();
        let wanted = locked.wants_pool();
        drop(locked);
        let pool = NewPoolShare::make(wanted);
        let mut copy = NewNode::try_leaf(leaf.base(), &self.tlb)?;
        drop(copy.state().segments.adopt(SegmentList::bigger(len)?));
        let locked = leaf.lock(order);
        if !locked.is_shared() || locked.segments.as_slice().len() != len {
            return Ok(());
        }
        copy.state().segments.copy_from(locked.segments.as_slice());
        drop(locked);
        let copy = RegisteredLeaf::try_new::<M>(copy, order)?;
        self.copy_leaf(path, copy, pool, order);
        Ok(())
    }

    /// Exchanges the shared leaf at `path` for `copy`, which has the same segments and is registered.
    fn copy_leaf(
        &self,
        path: &WalkPath<'_>,
        copy: RegisteredLeaf,
        mut pool: Option<NewPoolShare>,
        order: &mut Order<'_>,
    ) {
        let leaf = path.node();
        let mut locked = leaf.lock(order);
        let busy = locked.used().any(|i| locked.entry(i).is_busy());
        // Since the segments were copied the leaf may have been taken over, changed and shared anew.
        let mut leaf_copy = copy.node().lock_below(&locked);
        let unchanged = locked.segments.same_as(&leaf_copy.segments);
        if !unchanged || !locked.is_shared() || !path.is_current::<M>(&locked) || busy {
            drop((locked, leaf_copy));
            Retired::unused::<M>(copy, order);
            sync::machine::relax();
            return;
        }
        let replaced = copy_entries::<M>(&mut locked, &mut leaf_copy, &mut pool, false);
        drop(leaf_copy);
        let exchanged = path.exchange::<M, _>(&locked, copy, |leaf| self.unlink(leaf));
        drop(locked);
        if let Some(pool) = replaced {
            pool::let_go(pool, rcu::defer_arc);
        }
        match exchanged {
            Ok((left, viewers)) => {
                // This space's CPUs may hold translations and table pointers through the old leaf: it leaves only after a flush.
                let mut gather = Gather::new(FlushCause::CopyLeaf);
                gather.add_leaf(left, &viewers);
                gather.finish::<M>(&self.tlb, order);
            }
            Err(copy) => Retired::unused::<M>(copy, order),
        }
    }
}
