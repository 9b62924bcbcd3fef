//! The end of a space: every leaf is left. A shared leaf costs one removal from a list.
//!
//! Invariants: FreeAfterFlush — first every CPU that has the root loaded takes the kernel's (none but this one, as a rule, so
//! no interrupt); address-space ids die with the space. Tables wait for an RCU grace period.
//! Lock order: one node at a time.
#![forbid(unsafe_code)]

use crate::machine::{Attached, Machine};
use crate::node::flush::Flushed;
use crate::node::{Detached, Ending, Retired};
use crate::order::{self, Order};
use crate::space::Space;
use crate::token;
use alloc::sync::Arc;
use sync::machine::{give_way, should_give_way};
use sync::rcu;

impl<M: Machine> Space<M> {
    /// If nobody else has the space, drops it and says how many of its pages were in memory (ru_maxrss); else gives it back. May sleep.
    pub fn try_end(mut space: Arc<Self>) -> Result<usize, Arc<Self>> {
        let ended = Arc::get_mut(&mut space).map(|space| {
            let _token = token::hold();
            space.exit(true)
        });
        ended.ok_or(space)
    }

    /// Gives a reference up; the last one ends the space. May sleep, which dropping a reference does not.
    pub fn let_go(space: Arc<Self>) {
        // Of several that are given up at once, one is the last.
        if let Err(space) = Self::try_end(space)
            && let Some(mut last) = Arc::into_inner(space)
        {
            let _token = token::hold();
            last.exit(true);
        }
    }

    /// Drops everything that is mapped. This CPU and any other that has the space's root loaded go over to the kernel's root; none comes any more,
    /// since the space is the caller's alone until it is dropped. Returns how many pages were in memory. `sleeps`: the caller may sleep.
    pub(crate) fn exit(&mut self, sleeps: bool) -> usize {
        if core::mem::replace(&mut self.exited, true) {
            return 0;
        }
        let proof = Flushed::by_leaving::<M>(&mut self.tlb);
        let pages = strip::<M>(self.root.end(), proof, &mut order::begin(), sleeps);
        self.attached.end(sleeps);
        pages
    }
}

/// Takes everything out of an interior node; returns how many pages the leaves below mapped.
#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
fn strip<M: Machine>(node: Ending<'_>, proof: Flushed<'_>, order: &mut Order<'_>, sleeps: bool) -> usize {
    let mut mapped = 0;
    let node = node.make_stray(order);
    for index in node.entries() {
        let rcu = rcu::read();
        let child = match node.take::<M>(index, &rcu) {
            None => None,
            Some(Detached::Leaf(leaf)) => {
                mapped += Retired::leave_leaf::<M>(leaf, proof, order);
                None
            }
            Some(Detached::Interior(child)) => Some(child.own()),
        };
        drop(rcu);
        if let Some(mut child) = child {
            mapped += strip::<M>(child.end(), proof, order, sleeps);
            Retired::interior(child, proof);
        }
        if sleeps && should_give_way() {
            sync::lock::order::assert_may_sleep();
            let _ = give_way();
        }
    }
    mapped
}
