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

mod copy;
mod counts;
mod detached;
mod entry;
pub mod flush;
mod large;
mod locked;
mod new;
mod path;
mod pool;
mod registered;
mod retire;
pub mod segment;
mod sharer;
mod state;
mod view;

pub use copy::copy_entries;
pub use counts::{Sizes, UpperUsed, Used};
pub use detached::{Detached, DetachedInterior, DetachedLeaf};
pub use entry::{LockedEntry, OwnPage, Taken};
pub use large::TakenBlock;
pub use locked::{Locked, MapObject};
pub use new::{Ending, NewNode, OwnedInterior, Root, Stray};
pub use path::{Shared, WalkPath};
pub use pool::{NewPoolShare, PoolShare};
pub use registered::{NodeRef, RegisteredLeaf, Registration};
pub use retire::Retired;
pub use state::NodeState;
pub use view::ViewTables;

use counts::Counts;
use sharer::Sharer;

use crate::addr::{ENTRIES, PAGE_SHIFT, PhysAddr};
use crate::frame::{self, Frame, FrameKind, OwnedFrame};
use crate::machine::{Entry, Machine};
use crate::order::{Leaf, Order};
use crate::protocol::leaf;
use crate::small::SmallList;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::level::{Before, Held};
use sync::rcu::{RcuHead, RcuRead};
use sync::{AllocError, SpinLock, lock_class};

lock_class! {
    static NODE: LockClass = ("vm node", Leaf);
}

/// log2 of the entries of a node.
const INDEX_BITS: u32 = ENTRIES.trailing_zeros();

/// One page-table page.
pub struct Node {
    state: SpinLock<NodeState, Leaf>,
    /// What is read without the lock.
    counts: Counts,
    table: OwnedFrame,
    /// First address that the node translates.
    base: usize,
    rcu: RcuHead,
}

crate::slab_type!(Node, "page-table-node", Box);

sync::rcu_object!(Node);

impl Node {
    #[inline]
    pub fn maps_objects(&self) -> bool {
        self.counts.maps_objects()
    }

    fn set_maps_objects(&self) {
        self.counts.set_maps_objects();
    }

    /// log2 of the pages that one entry spans.
    #[inline]
    pub fn shift(&self) -> u32 {
        u32::from(self.level()) * INDEX_BITS
    }

    /// Bytes that one entry spans.
    #[inline]
    pub fn span(&self) -> usize {
        1 << (PAGE_SHIFT + self.shift())
    }

    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    #[inline]
    pub fn level(&self) -> u8 {
        self.counts.level()
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
        index_of(addr, self.level())
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
    fn cell(&self, index: u16) -> &AtomicU64 {
        // SAFETY: the node has its table as long as it is there.
        unsafe { cell_in(self.table.frame().bytes_ptr(), index) }
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

    /// Those of `used` that are not absent when they are looked at, with what they say; unlocked.
    #[inline]
    pub fn entries(&self, used: impl Iterator<Item = u16>) -> impl Iterator<Item = (u16, Entry)> {
        let cells = self.cells(0, ENTRIES);
        used.filter_map(move |index| {
            let entry = leaf::look(cells.get(usize::from(index))?);
            (!entry.is_absent()).then_some((index, entry))
        })
    }

    /// The node that entry `index` of this interior node leads to.
    #[inline]
    pub fn child<'g, M: Machine>(&'g self, index: u16, rcu: &'g RcuRead) -> Option<&'g Node> {
        debug_assert!(self.level() > 0);
        // SAFETY: an interior node's entry, read within this section.
        self.peek(index).table::<M>().map(|table| unsafe { node_of(table, rcu) })
    }

    /// How many entries of this leaf are in swap; unlocked, as `counts`. Who has none pays nothing.
    #[inline]
    pub fn swapped_pages(&self) -> usize {
        #[cold]
        fn count(node: &Node) -> usize {
            node.entries(node.counts.used()).filter(|(_, entry)| entry.swap_place().is_some()).count()
        }
        if self.counts.may_have_swapped() { count(self) } else { 0 }
    }

    /// How many entries are in use; unlocked, so what comes or goes meanwhile is counted or not.
    #[inline]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Calls `f` with the nodes that the entries of this interior node lead to, until it breaks; unlocked.
    #[inline]
    pub fn each_child<M: Machine, B>(
        &self,
        rcu: &RcuRead,
        mut f: impl FnMut(&Node) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        debug_assert!(self.level() > 0);
        for (_, entry) in self.entries(self.counts.upper_used_from(0)) {
            if let Some(table) = entry.table::<M>() {
                // SAFETY: an interior node's entry, read within this section.
                f(unsafe { node_of(table, rcu) })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Makes room for one more sharer of this leaf, with nothing locked.
    pub fn make_room_for_sharer(&self, order: &mut Order<'_>) -> Result<(), AllocError> {
        let len = self.lock(order).sharers.len();
        crate::order::assert_no_node_locked();
        let spare = SmallList::<Sharer, 2>::bigger(len)?;
        let spare = self.lock(order).sharers.adopt(spare);
        drop(spare);
        Ok(())
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

/// Entry `index` of the table at `table`.
///
/// # Safety
/// The page is a table, and stays one for `'g`: the caller has borrowed the node, or found the table within an RCU section.
#[inline]
unsafe fn cell<'g>(table: PhysAddr, index: u16) -> &'g AtomicU64 {
    // SAFETY: a table's address is a frame's.
    debug_assert_eq!(unsafe { Frame::of(table) }.kind(), FrameKind::Table);
    // SAFETY: as the caller says.
    unsafe { cell_in(frame::direct_map(table), index) }
}

/// Entry `index` of the table that the direct map shows at `table`.
///
/// # Safety
/// As [`cell`].
#[inline]
unsafe fn cell_in<'g>(table: *mut u8, index: u16) -> &'g AtomicU64 {
    let first = table.cast::<AtomicU64>();
    // SAFETY: the page holds 512 aligned words, only ever accessed as atomics (and by the hardware) while it is a table.
    unsafe { &*first.add(usize::from(index) % ENTRIES) }
}

/// The node whose table is at `table`.
///
/// # Safety
/// The address came from an entry of an interior node, which was read with acquire order within the RCU section.
#[inline]
unsafe fn node_of(table: PhysAddr, _rcu: &RcuRead) -> &Node {
    // SAFETY: a table's address is a frame's.
    let words = unsafe { Frame::of(table).words() };
    let node = words[0].load(Ordering::Relaxed) as *const Node;
    // SAFETY: entries are published with release order after the word was written, and the node is freed a grace period after no entry
    // leads to it any more.
    unsafe { &*node }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: the table is the node's.
        let words = unsafe { self.table.frame().words() };
        words[0].store(0, Ordering::Relaxed);
    }
}
