//! Views: with several threads, each CPU translates through upper tables of its own, which link to a leaf from the CPU's first fault
//! in it on. So a leaf knows which CPUs may hold translations of its pages, and who unmaps interrupts only those: nobody, where
//! only one CPU has touched the leaf.
//!
//! The tree under the space's root stays what all operations walk; a view is only looked at by the hardware. A CPU that finds no
//! memory for a view goes on with the space's root, and is in the mask of all flushes (tlb.rs).
//!
//! Invariant LinkUnderLeaf (protocol/view.rs): who changes a leaf's entries under its lock finds every CPU that may have seen the old ones
//! in `viewers`.
//!
//! A view's tables grow while the space lives and go with it, when every CPU has left (FreeAfterFlush).
//! Lock order: a view's own nodes are locked alone; links are made and cut with the leaf locked.
#![forbid(unsafe_code)]

use super::Space;
use crate::addr::PhysAddr;
use crate::error::VmError;
use crate::machine::{CpuSet, Machine};
use crate::node::{Locked, NewNode, Node, WalkPath, fill_kernel_half};
use crate::once::OnceBox;
use crate::order::Order;
use crate::protocol::view as protocol;
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;
use sync::rcu::{self, RcuRead};
use sync::{CpuId, machine, try_box};

/// Upper tables of one CPU.
struct View<M: Machine> {
    root: NewNode,
    machine: PhantomData<M>,
}

impl<M: Machine> View<M> {
    fn try_new() -> Result<Box<Self>, VmError> {
        let root = NewNode::try_new(M::LEVELS - 1, 0)?;
        fill_kernel_half::<M>(&root);
        Ok(try_box(Self { root, machine: PhantomData })?)
    }

    /// Makes the tables above the leaf of `addr`.
    fn widen(&self, addr: usize, order: &mut Order<'_>, rcu: &RcuRead) -> Result<(), VmError> {
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
}

impl<M: Machine> Drop for View<M> {
    fn drop(&mut self) {
        self.root.free_interior::<M>();
    }
}

/// The views of a space, by CPU; allocated with the first.
pub(crate) struct Views<M: Machine>(OnceBox<Box<[OnceBox<View<M>>]>>);

impl<M: Machine> Views<M> {
    pub const fn new() -> Self {
        Self(OnceBox::new())
    }

    #[inline]
    fn of(&self, cpu: CpuId) -> Option<&View<M>> {
        self.0.get()?.get(cpu as usize)?.get()
    }

    /// The view of `cpu`, made if there is none.
    fn make(&self, cpu: CpuId) -> Result<Option<&View<M>>, VmError> {
        let all = self.0.get_or_try(|| {
            let all = sync::heap::try_box_slice(machine::cpus() as usize, |_| OnceBox::new())?;
            try_box(all)
        });
        match all?.get(cpu as usize) {
            Some(place) => place.get_or_try(View::try_new).map(Some),
            None => Ok(None),
        }
    }
}

impl<M: Machine> Space<M> {
    /// What this CPU translates through.
    pub(crate) fn root_here(&self) -> PhysAddr {
        let cpu = machine::cpu_id();
        let view = if self.tlb.has_view(cpu) { self.views.of(cpu) } else { None };
        view.map_or(self.root().table(), |v| v.root.node().table())
    }

    /// Gives this CPU a view, if the space is loaded here and there is memory for one.
    #[inline]
    pub(crate) fn want_view(&self) {
        if !self.tlb.has_view(machine::cpu_id()) {
            self.enter_view();
        }
    }

    #[cold]
    fn enter_view(&self) {
        let cpu = machine::cpu_id();
        if self.tlb.is_loaded()
            && let Ok(Some(view)) = self.views.make(cpu)
            && cpu == machine::cpu_id()
        {
            self.tlb.enter_view::<M>(view.root.node().table());
        }
    }

    /// Makes this CPU's view, if it has one, link to the leaf at `path`, which is locked and entered. False: it has no tables there yet.
    #[inline]
    pub(crate) fn link(&self, path: &WalkPath<'_>, leaf: &mut Locked<'_>, rcu: &RcuRead) -> bool {
        let cpu = machine::cpu_id();
        if !self.tlb.has_view(cpu) {
            return true;
        }
        let (Some(view), Some(upper)) = (self.views.of(cpu), path.upper) else { return true };
        let place = WalkPath::entry_of_leaf::<M>(view.root.node(), leaf.node().base(), rcu);
        let Some(place) = place else { return false };
        protocol::link(place, upper, || leaf.viewers.insert(cpu));
        true
    }

    /// Makes the tables that `link` missed.
    #[cold]
    pub(crate) fn widen_view(
        &self,
        addr: usize,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Result<(), VmError> {
        self.views.of(machine::cpu_id()).map_or(Ok(()), |view| view.widen(addr, order, rcu))
    }

    /// Do views of other CPUs link to the leaf of `addr`?
    pub(crate) fn is_seen_elsewhere(&self, addr: usize, order: &mut Order<'_>) -> bool {
        let rcu = rcu::read();
        let node = WalkPath::walk::<M>(self.root(), addr, &rcu).node;
        let mut viewers = if node.is_leaf() { node.lock(order).viewers } else { CpuSet::EMPTY };
        viewers.remove(machine::cpu_id());
        !viewers.is_empty()
    }

    /// Cuts all links of this space's views to a locked leaf. Returns the CPUs that have to flush before the leaf is used otherwise.
    #[inline]
    pub(crate) fn unlink(&self, leaf: &Locked<'_>) -> CpuSet {
        if self.multithreaded.load(Ordering::Relaxed) { self.cut_links(leaf) } else { CpuSet::EMPTY }
    }

    #[cold]
    fn cut_links(&self, leaf: &Locked<'_>) -> CpuSet {
        let rcu = rcu::read();
        for view in leaf.viewers.iter().filter_map(|cpu| self.views.of(cpu)) {
            if let Some(place) = WalkPath::entry_of_leaf::<M>(view.root.node(), leaf.node().base(), &rcu) {
                protocol::cut::<M>(place, leaf.node().table());
            }
        }
        leaf.viewers
    }

    /// The same for a leaf that the tree does not lead to any more.
    #[inline]
    pub(crate) fn unlink_detached(&self, leaf: &Node, above: &Locked<'_>) -> CpuSet {
        if !self.multithreaded.load(Ordering::Relaxed) {
            return CpuSet::EMPTY;
        }
        self.unlink(&leaf.lock_below(above))
    }
}
