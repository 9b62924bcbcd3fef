//! The end of a space: every leaf is left. A shared leaf costs one removal from a list.
//!
//! Invariants: FreeAfterFlush — first every CPU that has the root loaded takes the kernel's (none but this one, as a rule, so
//! no interrupt); address-space ids die with the space. Tables wait for an RCU grace period.
//! Lock order: one node at a time.
#![forbid(unsafe_code)]

use crate::machine::Machine;
use crate::node::flush::Flushed;
use crate::node::{Detached, Ending, Retired};
use crate::order::{self, Order};
use crate::space::Space;
use alloc::sync::Arc;
use sync::rcu::{self, RcuRead};

impl<M: Machine> Space<M> {
    /// If nobody else has the space, drops it and says how many of its pages were in memory (ru_maxrss); else gives it back.
    pub fn try_end(mut space: Arc<Self>) -> Result<usize, Arc<Self>> {
        let ended = Arc::get_mut(&mut space).map(Self::exit);
        ended.ok_or(space)
    }

    /// Drops everything that is mapped. This CPU and any other that has the space's root loaded go over to the kernel's root; none comes any more,
    /// since the space is the caller's alone until it is dropped. Returns how many pages were in memory.
    pub(crate) fn exit(&mut self) -> usize {
        if core::mem::replace(&mut self.exited, true) {
            return 0;
        }
        let proof = Flushed::by_leaving::<M>(&mut self.tlb);
        let rcu = rcu::read();
        strip::<M>(self.root.end(), proof, &mut order::begin(), &rcu)
    }
}

/// Takes everything out of an interior node; returns how many pages the leaves below mapped.
#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
fn strip<M: Machine>(node: Ending<'_>, proof: Flushed<'_>, order: &mut Order<'_>, rcu: &RcuRead) -> usize {
    let mut mapped = 0;
    let node = node.make_stray(order);
    for index in node.used() {
        match node.take::<M>(index, rcu) {
            None => {}
            Some(Detached::Leaf(leaf)) => mapped += Retired::leave_leaf::<M>(leaf, proof, order),
            Some(Detached::Interior(child)) => {
                mapped += strip::<M>(child.end(), proof, order, rcu);
                Retired::interior(child, proof);
            }
        }
    }
    mapped
}
