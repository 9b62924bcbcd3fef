//! Leaves of which a child gets a part: some of what they mean is not for children (MADV_DONTFORK), or not with its pages
//! (MADV_WIPEONFORK). Sharers of a leaf agree in its segments, so such a leaf is copied at once.
//!
//! Invariants: CopyBeforeWrite — both leaves' entries of private pages lose their write permission. Until fork has flushed, other
//! threads may still write through old translations, so a write fault on such a page waits for the fork (`forking`).
//! Lock order: parent's leaf → the child's new leaf, which only visits of the reverse map know.
#![forbid(unsafe_code)]

use crate::error::VmError;
use crate::machine::Machine;
use crate::node::segment::SegmentList;
use crate::node::{NewNode, Node, RegisteredLeaf, Retired, WalkPath, copy_entries};
use crate::order::Order;
use crate::space::Space;
use alloc::sync::Arc;
use sync::rcu::RcuRead;

impl<M: Machine> Space<M> {
    /// Puts a copy of what `child` gets of the leaf under entry `index` of `node` under the same entry of `parent`, the child's node.
    /// Nothing happens if the leaf changes meanwhile.
    pub(crate) fn give_part(
        &self,
        node: &Node,
        parent: &Node,
        index: u16,
        child: &Arc<Self>,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Result<(), VmError> {
        let Some(path) = WalkPath::below::<M>(node, index, rcu) else { return Ok(()) };
        let leaf = path.node();
        let mut copy = NewNode::try_leaf(leaf.base(), &child.tlb)?;
        let len = leaf.lock(order).segments.as_slice().len();
        drop(copy.state().segments.adopt(SegmentList::bigger(len)?));
        let locked = leaf.lock(order);
        if locked.segments.as_slice().len() != len {
            return Ok(());
        }
        copy.state().segments.inherit_from(locked.segments.as_slice(), true);
        drop(locked);
        let copy = RegisteredLeaf::try_new::<M>(copy, order)?;
        let mut locked = leaf.lock(order);
        let mut leaf_copy = copy.node().lock_below(&locked);
        let busy = locked.used().any(|i| locked.entry(i).is_busy());
        if busy || !path.is_current::<M>(&locked) || !leaf_copy.segments.inherited_from(&locked.segments) {
            drop((locked, leaf_copy));
            Retired::unused::<M>(copy, order);
            sync::machine::relax();
            return Ok(());
        }
        // Who has to flush does so at fork's end.
        self.split(&mut locked);
        // No pool is given, so none is replaced.
        let _ = copy_entries::<M>(&mut locked, &mut leaf_copy, &mut None, true);
        drop((locked, leaf_copy));
        // Put in even if it is empty: in the node above the parent's segments may speak for these addresses.
        parent.lock(order).fill_leaf::<M>(index, copy);
        Ok(())
    }
}
