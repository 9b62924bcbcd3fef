//! Views: with several threads, or with large pages (node/large.rs), each CPU translates through upper tables of its own, which link to a leaf from the CPU's first fault
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
//!
//! A low room: it loads roots.

use super::Space;
use crate::addr::PhysAddr;
use crate::error::VmError;
use crate::machine::{CpuSet, FlushRange, Machine};
use crate::node::{Locked, Node, ViewTables, WalkPath};
use crate::once::OnceBox;
use crate::order::Order;
use alloc::boxed::Box;
use core::sync::atomic::Ordering;
use sync::rcu::{self, RcuRead};
use sync::{CpuId, machine, try_box};

/// The views of a space, by CPU; allocated with the first.
pub(crate) struct Views<M: Machine>(OnceBox<Box<[OnceBox<ViewTables<M>>]>>);

impl<M: Machine> Views<M> {
    pub const fn new() -> Self {
        Self(OnceBox::new())
    }

    #[inline]
    fn of(&self, cpu: CpuId) -> Option<&ViewTables<M>> {
        self.0.get()?.get(cpu as usize)?.get()
    }

    /// The view of `cpu`, made if there is none.
    fn make(&self, cpu: CpuId) -> Result<Option<&ViewTables<M>>, VmError> {
        let all = self.0.get_or_try(|| {
            let all = sync::heap::try_box_slice(machine::cpus() as usize, |_| OnceBox::new())?;
            try_box(all)
        });
        match all?.get(cpu as usize) {
            Some(place) => place.get_or_try(|| Ok(try_box(ViewTables::try_new()?)?)).map(Some),
            None => Ok(None),
        }
    }
}

impl<M: Machine> Space<M> {
    /// Makes this CPU translate through this space (MaskBeforeRoot). Before it runs the space's code. Nobody need say when a CPU goes on to something
    /// else: one that goes idle keeps the root loaded, and one that goes to another space keeps its translations under their address-space id.
    pub fn switch_in(&self) {
        // SAFETY: root and views stay until `exit` has made all CPUs leave. That takes a `&mut Space`, so it comes after this.
        unsafe { self.tlb.switch_in::<M>(self.root_here()) };
    }

    /// What this CPU translates through.
    fn root_here(&self) -> PhysAddr {
        let cpu = machine::cpu_id();
        let view = if self.tlb.has_view(cpu) { self.views.of(cpu) } else { None };
        view.map_or(self.root().table(), |v| v.table())
    }

    /// May CPUs have views? They come with the second thread, and with the first large page.
    #[inline]
    pub(crate) fn has_views(&self) -> bool {
        self.has_views.load(Ordering::Relaxed)
    }

    /// From now on CPUs get views.
    pub(crate) fn use_views(&self) {
        if !self.has_views() {
            self.has_views.store(true, Ordering::SeqCst);
        }
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
            // SAFETY: as in `switch_in`; what is in a `OnceBox` stays.
            unsafe { self.tlb.enter_view::<M>(view.table()) };
        }
    }

    /// Makes this CPU's view, if it has one, link to the leaf at `path`, which is locked and entered. False: it has no tables there yet.
    #[inline(always)]
    pub(crate) fn link(&self, path: &WalkPath<'_>, leaf: &mut Locked<'_>, rcu: &RcuRead) -> bool {
        let cpu = machine::cpu_id();
        if !self.tlb.has_view(cpu) {
            return true;
        }
        let node = leaf.node();
        let flush = || {
            let mut range = FlushRange::EMPTY;
            range.add(node.base(), node.end());
            self.tlb.flush_here::<M>(range);
        };
        self.views.of(cpu).is_none_or(|view| view.link(path, leaf, cpu, rcu, flush))
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
        let node = WalkPath::walk::<M>(self.root(), addr, &rcu).node();
        let mut viewers = if node.is_leaf() { node.lock(order).viewers() } else { CpuSet::EMPTY };
        viewers.remove(machine::cpu_id());
        !viewers.is_empty()
    }

    /// Cuts all links of this space's views to a locked leaf. Returns the CPUs that have to flush before the leaf is used otherwise.
    #[inline]
    pub(crate) fn unlink(&self, leaf: &Locked<'_>) -> CpuSet {
        if self.has_views() { self.cut_links(leaf) } else { CpuSet::EMPTY }
    }

    #[cold]
    fn cut_links(&self, leaf: &Locked<'_>) -> CpuSet {
        let rcu = rcu::read();
        let viewers = leaf.viewers();
        for view in viewers.iter().filter_map(|cpu| self.views.of(cpu)) {
            view.cut(leaf, &rcu);
        }
        viewers
    }

    /// The same for a leaf that the tree does not lead to any more.
    #[inline]
    pub(crate) fn unlink_detached(&self, leaf: &Node, above: &Locked<'_>) -> CpuSet {
        if !self.has_views() {
            return CpuSet::EMPTY;
        }
        self.unlink(&leaf.lock_below(above))
    }
}
