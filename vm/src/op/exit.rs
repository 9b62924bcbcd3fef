//! The end of a space: every leaf is left. A shared leaf costs one removal from a list.
//!
//! Invariants: FreeAfterFlush — first every CPU that has the root loaded takes the kernel's (none but this one, as a rule, so
//! no interrupt); address-space ids die with the space. Tables wait for an RCU grace period.
//! Lock order: one node at a time.
#![forbid(unsafe_code)]

use crate::machine::Machine;
use crate::node::flush::Flushed;
use crate::node::{Node, Retired};
use crate::order::{self, Order};
use crate::space::Space;
use core::sync::atomic::Ordering;
use sync::rcu::{self, RcuRead};

impl<M: Machine> Space<M> {
    /// Drops everything that is mapped. This CPU and any other that has the space's root loaded go over to the kernel's root.
    /// The space can be switched to no more; faults in it fail. Returns how many pages were in memory (ru_maxrss).
    pub fn exit(&self) -> usize {
        if self.exited.swap(true, Ordering::AcqRel) {
            return 0;
        }
        let proof = Flushed::by_leaving::<M>(&self.tlb);
        let rcu = rcu::read();
        self.strip(self.root(), proof, &mut order::begin(), &rcu)
    }

    /// Takes everything out of an interior node; returns how many pages the leaves below mapped.
    fn strip(&self, node: &Node, proof: Flushed<'_>, order: &mut Order<'_>, rcu: &RcuRead) -> usize {
        let mut mapped = 0;
        let mut locked = node.lock(order);
        locked.stray = true;
        let segments = locked.segments.clear();
        let used = locked.used();
        drop(locked);
        drop(segments);
        // Stray: nobody puts anything in any more.
        for index in used {
            if node.peek(index).is_absent() {
                continue;
            }
            // What is there when the entry goes is left: a shared leaf may be exchanged by a remote fault until then.
            let Some(child) = node.strip::<M>(index, rcu) else { continue };
            if child.node().is_leaf() {
                mapped += Retired::leave_leaf::<M>(child, proof, order);
            } else {
                mapped += self.strip(child.node(), proof, order, rcu);
                Retired::node(child, proof);
            }
        }
        mapped
    }
}
