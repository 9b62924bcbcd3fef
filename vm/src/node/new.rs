//! Nodes that are being made.

use super::{Counts, Detached, DetachedInterior, NODE, Node, NodeState, Sharer, UpperUsed, node_of};
use crate::addr::PhysAddr;
use crate::error::VmError;
use crate::frame::{self, Frame, FrameKind};
use crate::machine::{Entry, Machine};
use crate::order::Order;
use crate::protocol::leaf;
use crate::tlb::OwnTlb;
use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sync::rcu::{RcuHead, RcuRead};
use sync::{SpinLock, slab_box};

/// A node that nobody else knows yet. Dropped, it is freed at once.
pub struct NewNode(Box<Node>);

impl NewNode {
    /// An empty node of `level` that begins at `base`.
    pub fn try_new(level: u8, base: usize) -> Result<Self, VmError> {
        let table = frame::alloc_zeroed().ok_or(VmError::NoMemory)?;
        let node = slab_box(Node {
            state: SpinLock::new(NodeState::new(), &NODE),
            counts: Counts::new(level),
            table,
            base,
            rcu: RcuHead::new(),
        })?;
        node.table.set_kind(FrameKind::Table);
        // SAFETY: the table is the node's.
        let (flags, words) = unsafe { (node.table.frame().flags(), node.table.frame().words()) };
        flags.store(level, Ordering::Relaxed);
        words[0].store(0, Ordering::Relaxed);
        Ok(Self(node))
    }

    /// An empty leaf that begins at `base` and that the space with `tlb` will use.
    pub fn try_leaf(base: usize, tlb: &OwnTlb) -> Result<Self, VmError> {
        let mut leaf = Self::try_new(0, base)?;
        leaf.state().sharers.push(Sharer::new(tlb));
        Ok(leaf)
    }

    /// The contents, without the lock that nobody contends for.
    pub fn state(&mut self) -> &mut NodeState {
        self.0.state.get_mut()
    }

    pub fn node(&self) -> &Node {
        &self.0
    }

    /// Makes the node reachable: gives the entry to store (with release order) in its parent.
    pub(super) fn publish<M: Machine>(self, writable: bool) -> Entry {
        let entry = M::table(self.0.table(), writable);
        // SAFETY: the table is the node's.
        let words = unsafe { self.0.table.frame().words() };
        // The table's word leads back to the node; `retire` makes it a box again.
        words[0].store(Box::into_raw(self.0) as u64, Ordering::Relaxed);
        entry
    }

    /// The node of an entry of [`Self::publish`].
    ///
    /// # Safety
    /// The entry is stored nowhere, and nobody refers to the node.
    pub(super) unsafe fn unpublish<M: Machine>(entry: Entry) -> Self {
        // SAFETY: the entry leads to a node's table.
        let words = unsafe { Frame::of(entry.address::<M>()).words() };
        let node = words[0].load(Ordering::Relaxed) as *mut Node;
        // SAFETY: `publish` leaked this box; the rest is the caller's promise.
        Self(unsafe { Box::from_raw(node) })
    }

    pub(super) fn from_box(node: Box<Node>) -> Self {
        Self(node)
    }

    pub(super) fn into_box(self) -> Box<Node> {
        self.0
    }
}

/// The root of a space's tree, or of a view: a table with the kernel's half.
pub struct Root(NewNode);

impl Root {
    pub fn try_new<M: Machine>() -> Result<Self, VmError> {
        let root = NewNode::try_new(M::LEVELS - 1, 0)?;
        // SAFETY: a new node's table, which is nobody else's yet.
        unsafe { M::kernel_entries(root.0.table.frame().bytes_ptr().cast()) };
        Ok(Self(root))
    }

    #[inline]
    pub fn node(&self) -> &Node {
        self.0.node()
    }

    /// Physical address of the table.
    #[inline]
    pub fn table(&self) -> PhysAddr {
        self.node().table()
    }

    /// The space ends.
    #[inline]
    pub fn end(&mut self) -> Ending<'_> {
        Ending(&self.0.0)
    }

    pub(super) fn as_new(&mut self) -> &mut NewNode {
        &mut self.0
    }
}

/// An interior node that was taken out of a space that ends. Nobody frees it before it is retired, so no RCU section has to keep it meanwhile.
#[must_use = "the node is never freed"]
pub struct OwnedInterior(NonNull<Node>);

impl OwnedInterior {
    pub(super) fn new(node: DetachedInterior<'_>) -> Self {
        Self(NonNull::from(node.node()))
    }

    /// The space ends.
    #[inline]
    pub fn end(&mut self) -> Ending<'_> {
        Ending(self.node())
    }

    pub(super) fn node(&self) -> &Node {
        // SAFETY: a detached node is freed by `Retired::interior` alone, which takes this.
        unsafe { self.0.as_ref() }
    }
}

/// An interior node of a space that ends.
pub struct Ending<'g>(pub(super) &'g Node);

impl<'g> Ending<'g> {
    /// From here on nobody puts anything in.
    #[inline]
    pub fn make_stray(self, order: &mut Order<'_>) -> Stray<'g> {
        let node = self.0;
        let mut locked = node.lock(order);
        locked.stray = true;
        let segments = locked.segments.clear();
        let (used, present) = (locked.upper_used_from(0), locked.present());
        drop(locked);
        drop(segments);
        Stray { node, used, present }
    }
}

/// An interior node of a space that has gone. Nobody puts anything in any more.
pub struct Stray<'g> {
    node: &'g Node,
    used: UpperUsed,
    present: u16,
}

impl Stray<'_> {
    /// Entries that lead to something. That may be exchanged meanwhile, but none is added.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = u16> {
        self.node.entries(self.used.clone()).map(|(index, _)| index).take(usize::from(self.present))
    }

    /// Takes out what is under entry `index`.
    #[inline]
    pub fn take<'r, M: Machine>(&self, index: u16, rcu: &'r RcuRead) -> Option<Detached<'r>> {
        let cell = self.node.cell(index);
        if leaf::look(cell).is_absent() {
            return None;
        }
        // What is there when the entry goes is left: a shared leaf may be exchanged by a remote fault until then.
        let old = leaf::exchange(cell, Entry::ABSENT);
        // SAFETY: an entry of a node that was reached within this section.
        old.table::<M>().map(|table| Detached::new(unsafe { node_of(table, rcu) }))
    }
}
