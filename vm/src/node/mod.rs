//! Nodes: page-table pages with their metadata. The page is a frame of kind `Table`; the first of the frame's words leads
//! back to the node, so a walk reads nothing but table entries until it has arrived.
//!
//! Invariants:
//! * LeafOwns (protocol/leaf.rs): entries and segments of a node change only under its lock ([`Locked`]). One exception: the entry that
//!   leads to a leaf is exchanged by compare-and-swap under *that leaf's* lock when the leaf is shared, copied or taken over; the
//!   entry is removed by an atomic swap under the lock of the node it lies in.
//! * A node is reached under RCU and freed a grace period after it was detached from every space (FreeAfterFlush).
//! * Interior nodes belong to one space and live as long as it does; leaves may have several sharers.
//!
//! Lock order: interior node before leaf, both of level Leaf; never two leaves. Nothing is allocated under the lock.
//!
//! This is a low room: page-table memory is raw, so there is `unsafe` here and a safe interface above.

pub mod flush;
mod locked;
mod pool;
mod retire;
pub mod segment;

pub use locked::{Detached, Locked, LockedEntry, NodeState, Registration, Sharer, Taken};
pub use pool::{NewPoolShare, PoolFill, PoolShare};
pub use retire::Retired;

use crate::addr::{ENTRIES, PAGE_SHIFT, PhysAddr};
use crate::error::VmError;
use crate::frame::{self, Frame, FrameKind, OwnedFrame};
use crate::machine::{Entry, Machine};
use crate::order::Leaf;
use crate::protocol::{leaf, share};
use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::level::{Before, Held};
use sync::rcu::{RcuHead, RcuRead};
use sync::{SpinLock, lock_class, slab_box};

lock_class! {
    static NODE: LockClass = ("vm node", Leaf);
}

/// log2 of the entries of a node.
const INDEX_BITS: u32 = ENTRIES.trailing_zeros();

/// One page-table page.
pub struct Node {
    state: SpinLock<NodeState, Leaf>,
    table: OwnedFrame,
    /// First address that the node translates.
    base: usize,
    /// 0: leaf.
    level: u8,
    /// A hint for the fault: some segment of the leaf may name an object.
    maps_objects: AtomicBool,
    rcu: RcuHead,
}

crate::slab_type!(Node, "page-table-node", Box);

sync::rcu_object!(Node);

impl Node {
    #[inline]
    pub fn maps_objects(&self) -> bool {
        self.maps_objects.load(Ordering::Relaxed)
    }

    pub fn set_maps_objects(&self) {
        self.maps_objects.store(true, Ordering::Relaxed);
    }

    /// log2 of the pages that one entry spans.
    #[inline]
    pub fn shift(&self) -> u32 {
        u32::from(self.level) * INDEX_BITS
    }

    /// Bytes that one entry spans.
    #[inline]
    pub fn span(&self) -> usize {
        1 << (PAGE_SHIFT + self.shift())
    }

    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    pub fn level(&self) -> u8 {
        self.level
    }

    pub fn base(&self) -> usize {
        self.base
    }

    /// First address above the node.
    pub fn end(&self) -> usize {
        self.base + (self.span() << INDEX_BITS)
    }

    /// Entry that translates `addr`, which lies in the node.
    #[inline]
    pub fn index(&self, addr: usize) -> u16 {
        index_of(addr, self.level)
    }

    /// First address of entry `index`.
    #[inline]
    pub fn address(&self, index: u16) -> usize {
        self.base + (usize::from(index) << (PAGE_SHIFT + self.shift()))
    }

    /// Physical address of the table.
    #[inline]
    pub fn table(&self) -> PhysAddr {
        self.table.addr()
    }

    /// The entry's memory.
    #[inline]
    pub fn cell(&self, index: u16) -> &AtomicU64 {
        cell(self.table.frame(), index)
    }

    /// The memory of up to `len` entries from `first` on.
    #[inline]
    fn cells(&self, first: u16, len: usize) -> &[AtomicU64] {
        let first = usize::from(first) % ENTRIES;
        let start = self.table.frame().bytes_ptr().cast::<AtomicU64>();
        // SAFETY: as in `cell`, for entries that end with the table.
        unsafe { core::slice::from_raw_parts(start.add(first), len.min(ENTRIES - first)) }
    }

    /// What entry `index` says now; unlocked.
    #[inline]
    pub fn peek(&self, index: u16) -> Entry {
        leaf::look(self.cell(index))
    }

    /// The node that entry `index` of this interior node leads to.
    #[inline]
    pub fn child<'g, M: Machine>(&'g self, index: u16, rcu: &'g RcuRead) -> Option<&'g Node> {
        debug_assert!(self.level > 0);
        self.peek(index).table::<M>().map(|table| node_of(Frame::of(table), rcu))
    }

    /// Takes what is there out of entry `index` of a stray interior node, in which nobody puts anything any more.
    pub fn strip<'r, M: Machine>(&self, index: u16, rcu: &'r RcuRead) -> Option<Detached<'r>> {
        debug_assert!(self.level > 0);
        let old = leaf::exchange(self.cell(index), Entry::ABSENT);
        old.table::<M>().map(|table| Detached(node_of(Frame::of(table), rcu)))
    }

    #[inline]
    #[track_caller]
    pub fn lock<'g, H: Before<Leaf>>(&'g self, held: &'g mut Held<'_, H>) -> Locked<'g> {
        Locked::new(self, self.state.lock_in(held))
    }

    /// Locks a second node: a leaf below an interior node, or a copy that nobody else locks after another node (a new leaf is
    /// known only to visits of the reverse map, which lock one leaf at a time).
    #[inline]
    pub fn lock_below<'g>(&'g self, _above: &Locked<'_>) -> Locked<'g> {
        Locked::new(self, self.state.lock_nested())
    }
}

/// Index of `addr` in a node of `level`.
#[inline]
pub fn index_of(addr: usize, level: u8) -> u16 {
    (addr >> (PAGE_SHIFT + u32::from(level) * INDEX_BITS)) as u16 & (ENTRIES as u16 - 1)
}

/// Entry `index` of the table in `table`.
#[inline]
fn cell(table: &Frame, index: u16) -> &AtomicU64 {
    debug_assert_eq!(table.kind(), FrameKind::Table);
    let first = table.bytes_ptr().cast::<AtomicU64>();
    // SAFETY: the page holds 512 aligned words, only ever accessed as atomics (and by the hardware) while it is a table; it
    // stays one for as long as the node is reachable, which the caller's borrow or RCU section guarantees.
    unsafe { &*first.add(usize::from(index) % ENTRIES) }
}

/// The node whose table is in `table`.
#[inline]
fn node_of<'g>(table: &'static Frame, _rcu: &'g RcuRead) -> &'g Node {
    let node = table.words()[0].load(Ordering::Relaxed) as *const Node;
    // SAFETY: the address of the table came from a table entry read with acquire order within this RCU section; entries
    // are published with release order after the word was written, and the node is freed a grace period after no entry
    // leads to it any more.
    unsafe { &*node }
}

/// The way from the root to the deepest table that translates an address, without a lock and without touching nodes.
pub struct WalkPath<'g> {
    /// The entry that leads to `node`; none for the root.
    pub upper: Option<&'g AtomicU64>,
    pub node: &'g Node,
}

impl<'g> WalkPath<'g> {
    /// Walks from `root` to the leaf of `addr`, or to the interior node whose entry is absent.
    #[inline]
    pub fn walk<M: Machine>(root: &'g Node, addr: usize, rcu: &'g RcuRead) -> Self {
        let mut table: &'static Frame = root.table.frame();
        let mut upper = None;
        let mut level = root.level;
        while level > 0 {
            let entry = cell(table, index_of(addr, level));
            let Some(next) = leaf::look(entry).table::<M>() else { break };
            table = Frame::of(next);
            upper = Some(entry);
            level -= 1;
        }
        let node = if upper.is_some() { node_of(table, rcu) } else { root };
        Self { upper, node }
    }

    /// The entry under `root` for the leaf of `addr`, if there are tables so far.
    #[inline]
    pub fn entry_of_leaf<M: Machine>(
        root: &'g Node,
        addr: usize,
        _rcu: &'g RcuRead,
    ) -> Option<&'g AtomicU64> {
        let mut table: &'static Frame = root.table.frame();
        let mut level = root.level;
        while level > 1 {
            let next = leaf::look(cell(table, index_of(addr, level)));
            table = Frame::of(next.table::<M>()?);
            level -= 1;
        }
        Some(cell(table, index_of(addr, 1)))
    }

    /// Locks the node, if it is still where it was found: None, and the walk begins anew, if it is stray.
    #[inline]
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
}

/// A node that nobody else knows yet. Dropped, it is freed at once.
pub struct NewNode(Box<Node>);

impl NewNode {
    /// An empty node of `level` that begins at `base`.
    pub fn try_new(level: u8, base: usize) -> Result<Self, VmError> {
        let table = frame::alloc_zeroed().ok_or(VmError::NoMemory)?;
        let node = slab_box(Node {
            state: SpinLock::new(NodeState::new(), &NODE),
            table,
            base,
            level,
            maps_objects: AtomicBool::new(false),
            rcu: RcuHead::new(),
        })?;
        let frame = node.table.frame();
        frame.set_kind(FrameKind::Table);
        frame.flags().store(level, Ordering::Relaxed);
        frame.words()[0].store(0, Ordering::Relaxed);
        Ok(Self(node))
    }

    /// The contents, without the lock that nobody contends for.
    pub fn state(&mut self) -> &mut NodeState {
        self.0.state.get_mut()
    }

    pub fn node(&self) -> &Node {
        &self.0
    }

    /// Makes the node reachable: gives the entry to store (with release order) in its parent.
    fn publish<M: Machine>(self, writable: bool) -> Entry {
        let entry = M::table(self.0.table(), writable);
        let table = self.0.table.frame();
        // The table's word leads back to the node; `retire` makes it a box again.
        table.words()[0].store(Box::into_raw(self.0) as u64, Ordering::Relaxed);
        entry
    }

    /// Puts this leaf into `upper` in place of `old`, which is locked and shared; `unlink` cuts the links of views to it. If `upper` does not lead to `old`
    /// any more, gives the new leaf back.
    pub fn exchange_for<'r, M: Machine, R>(
        self,
        upper: &AtomicU64,
        old: &'r Node,
        unlink: impl FnOnce() -> R,
    ) -> Result<(Detached<'r>, R), Self> {
        let entry = self.publish::<M>(true);
        match share::replace::<M, R>(upper, old.table(), entry, unlink) {
            Some(unlinked) => Ok((Detached(old), unlinked)),
            // SAFETY: just published, and stored nowhere.
            None => Err(unsafe { Self::unpublish::<M>(entry) }),
        }
    }

    /// Frees the interior nodes below this one, which is the root of a view, down to those that link to leaves: these are not the view's.
    /// No CPU translates through the view any more (FreeAfterFlush).
    pub fn free_interior<M: Machine>(&mut self) {
        if self.0.level == 1 {
            return;
        }
        for index in self.state().used() {
            let entry = Entry(self.0.cell(index).swap(0, Ordering::Relaxed));
            if !entry.is_absent() {
                // SAFETY: a view alone has its interior nodes, and this one has just been taken out.
                unsafe { Self::unpublish::<M>(entry) }.free_interior::<M>();
            }
        }
    }

    /// The node of an entry of [`Self::publish`].
    ///
    /// # Safety
    /// The entry is stored nowhere, and nobody refers to the node.
    unsafe fn unpublish<M: Machine>(entry: Entry) -> Self {
        let node = Frame::of(entry.address::<M>()).words()[0].load(Ordering::Relaxed) as *mut Node;
        // SAFETY: `publish` leaked this box; the rest is the caller's promise.
        Self(unsafe { Box::from_raw(node) })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.table.frame().words()[0].store(0, Ordering::Relaxed);
    }
}

/// Fills the kernel's half of `root`.
pub fn fill_kernel_half<M: Machine>(root: &NewNode) {
    // SAFETY: a new node's table, which is nobody else's yet.
    unsafe { M::kernel_entries(root.0.table.frame().bytes_ptr().cast()) };
}

/// A node on an object's list of leaves that map it.
pub struct NodeRef(NonNull<Node>);

// SAFETY: a reference to a `Node`, which is `Sync`.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

impl NodeRef {
    pub(crate) fn new(node: &Node) -> Self {
        Self(NonNull::from(node))
    }

    /// The node. It leaves its lists before its grace period begins, and the reference is not copied off a list; so what is found on a list
    /// within an RCU section lives until the section ends.
    pub(crate) fn get<'g>(&self, _rcu: &'g RcuRead) -> &'g Node {
        // SAFETY: see above.
        unsafe { self.0.as_ref() }
    }
}
