//! The tables of a view: one CPU's own way to the leaves of a space (space/view.rs).
//!
//! They are nobody else's, and go with this value. Their entries that lead to leaves do not own them; they are made and cut with the leaf
//! locked (LinkUnderLeaf, protocol/view.rs).

use super::{Locked, NewNode, Node, Root, WalkPath, cell, index_of};
use crate::addr::PhysAddr;
use crate::error::VmError;
use crate::frame::LargeFrame;
use crate::machine::{Entry, Machine};
use crate::order::Order;
use crate::protocol::{leaf, view as protocol};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::CpuId;
use sync::rcu::RcuRead;

/// Upper tables of one CPU. Whoever has a CPU load them keeps them until it has left (FreeAfterFlush).
pub struct ViewTables<M: Machine> {
    root: Root,
    machine: PhantomData<M>,
}

impl<M: Machine> ViewTables<M> {
    pub fn try_new() -> Result<Self, VmError> {
        Ok(Self { root: Root::try_new::<M>()?, machine: PhantomData })
    }

    /// Physical address of the root.
    #[inline]
    pub fn table(&self) -> PhysAddr {
        self.root.table()
    }

    /// Makes the tables above the leaf of `addr`.
    pub fn widen(&self, addr: usize, order: &mut Order<'_>, rcu: &RcuRead) -> Result<(), VmError> {
        let mut node = self.root.node();
        while node.level() > 1 {
            let index = node.index(addr);
            if let Some(next) = node.child::<M>(index, rcu) {
                node = next;
                continue;
            }
            let new = NewNode::try_new(node.level() - 1, node.address(index))?;
            let mut locked = node.lock(order);
            if locked.entry(index).is_absent() {
                locked.fill_node::<M>(index, new);
            }
        }
        Ok(())
    }

    /// Makes the view, which is that of `cpu`, this one, link to the leaf at `path`, which is locked and entered. False: there are no tables above
    /// it yet.
    /// `flush` drops what the CPU has cached of the leaf's addresses.
    #[inline(always)]
    pub fn link(
        &self,
        path: &WalkPath<'_>,
        leaf: &mut Locked<'_>,
        cpu: CpuId,
        rcu: &RcuRead,
        flush: impl FnOnce(),
    ) -> bool {
        let Some(upper) = path.upper else { return true };
        let Some(place) = self.place(leaf.node(), rcu) else { return false };
        if leaf.is_large() || !protocol::is_linked(place, upper) {
            Self::link_anew(place, upper, leaf, cpu, flush);
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn link_anew(
        place: &AtomicU64,
        upper: &AtomicU64,
        leaf: &mut Locked<'_>,
        cpu: CpuId,
        flush: impl FnOnce(),
    ) {
        match leaf.link_to_block::<M>(Entry(upper.load(Ordering::Relaxed))) {
            None => protocol::link(place, upper, || leaf.viewers.insert(cpu), flush),
            Some(entry) => protocol::link_block::<M>(place, entry, || leaf.viewers.insert(cpu), flush),
        }
    }

    /// Cuts the link to a locked leaf.
    pub fn cut(&self, leaf: &Locked<'_>, rcu: &RcuRead) {
        if let Some(place) = self.place(leaf.node(), rcu) {
            protocol::cut::<M>(place, leaf.node().table(), leaf.large.as_ref().map(LargeFrame::addr));
        }
    }

    /// The entry for `leaf`, if there are tables so far.
    #[inline]
    fn place<'g>(&'g self, leaf: &Node, _rcu: &'g RcuRead) -> Option<&'g AtomicU64> {
        let mut table = self.root.table();
        let mut level = self.root.node().level();
        while level > 1 {
            // SAFETY: the root's table, or one that an entry led to within this section.
            let next = leaf::look(unsafe { cell(table, index_of(leaf.base(), level)) });
            table = next.table::<M>()?;
            level -= 1;
        }
        // SAFETY: as above.
        Some(unsafe { cell(table, index_of(leaf.base(), 1)) })
    }
}

impl<M: Machine> Drop for ViewTables<M> {
    fn drop(&mut self) {
        free_interior::<M>(self.root.as_new());
    }
}

/// Frees the interior nodes below `node`, down to those that link to leaves: these are not the view's.
fn free_interior<M: Machine>(node: &mut NewNode) {
    if node.node().level() == 1 {
        return;
    }
    for index in node.node().counts().upper_used_from(0) {
        let entry = Entry(node.node().cell(index).swap(0, Ordering::Relaxed));
        if !entry.is_absent() {
            // SAFETY: a view alone has its interior nodes, and this one has just been taken out.
            free_interior::<M>(&mut unsafe { NewNode::unpublish::<M>(entry) });
        }
    }
}
