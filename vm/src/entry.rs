//! What a page-table entry says. The hardware's bits are the machine's to name ([`Machine`]); all bits and values that software gives a
//! meaning to are here, and nowhere else.
//!
//! An entry with the machine's present bit leads somewhere. In a leaf that is a page of 4 KiB; above, a table. Of its bits software uses:
//!
//! | bit | name | in a leaf |
//! |---|---|---|
//! | 10 | private | the leaf has a reference to the frame, itself or through its pool: a private page |
//! | 52 | pooled | of a private page: the reference is the pool's (PooledByFamily, node/pool.rs) |
//!
//! An entry without the present bit is the software's alone. Zero is absent. Else bits 9 and 11 say of what kind it is; bits 10 and 52 are as
//! above:
//!
//! | 11 | 9 | kind | the address bits |
//! |---|---|---|---|
//! | 0 | 1 | busy: a CPU is replacing the page | the CPU's number |
//! | 1 | 0 | closed: a page that nobody may access (PROT_NONE) | the frame |
//! | 1 | 1 | in swap: a private page, of which the entry has a count of its slot (swap/mod.rs); bits 3 to 7 are the area's number. With bit 8 set reserved | the slot |
//! | 0 | 0 | none | |
//!
//! Bit 9 so says of an entry in a leaf, present or not, that no page is behind it though it is not absent ([`Entry::is_away`]).
//!
//! An entry with the machine's large bit, in the place of one that leads to a leaf, shows the leaf's block whole (node/large.rs). Such entries lie in views alone, which
//! nobody but the hardware walks, and a busy entry there is a link that was cut (`Entry::CUT`). What meets one elsewhere, or a reserved entry, stops the kernel, where debug assertions are on: a walk that took it for a table would
//! go through a program's page.
//! `vm/tests/entries.rs` holds the encoding to this.
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SHIFT, PhysAddr};
use crate::machine::Machine;
use crate::request::Prot;
use sync::{CpuId, MAX_CPUS};

/// A page-table entry in the hardware's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Entry(pub u64);

const BUSY: u64 = 1 << 9;
const PRIVATE: u64 = 1 << 10;
const CLOSED: u64 = 1 << 11;
const RESERVED: u64 = 1 << 8;
/// Swap areas that entries can tell apart.
pub const MAX_AREAS: usize = 32;
/// Where the number of a swap area is.
const AREA_SHIFT: u32 = 3;
const AREA: u64 = (MAX_AREAS as u64 - 1) << AREA_SHIFT;
const POOLED: u64 = 1 << 52;
/// What says the kind of an entry that is not present.
const KIND: u64 = BUSY | CLOSED;

/// An entry of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeafEntry {
    Absent,
    /// Its page is being replaced.
    Busy(CpuId),
    /// A page that nobody may access.
    Closed(PhysAddr),
    /// A private page that is in swap.
    InSwap(SwapPlace),
    Page(PhysAddr),
}

/// A slot of a swap area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwapPlace {
    /// Below [`MAX_AREAS`].
    pub area: u8,
    pub slot: u32,
}

/// An entry of a node above the leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpperEntry {
    Absent,
    Table(PhysAddr),
    /// In a view: the block that all entries of a leaf show.
    Large(PhysAddr),
}

/// Fails to compile where the machine's hardware looks at bits that are the software's.
pub(crate) const fn assert_fits<M: Machine>() {
    assert!(
        (BUSY | PRIVATE | POOLED) & !M::IGNORED == 0,
        "the hardware looks at a bit of present entries that vm uses"
    );
    assert!(
        (KIND | PRIVATE | POOLED | RESERVED | AREA) & (M::PRESENT | M::ADDRESS) == 0,
        "the kind of an entry is in the hardware's bits"
    );
    assert!(
        M::ACCESSED & (M::PRESENT | M::ADDRESS | M::IGNORED) == 0,
        "the hardware notes use where something else is"
    );
    assert!(
        ((MAX_CPUS as u64 - 1) << PAGE_SHIFT) & !M::ADDRESS == 0,
        "a CPU's number does not fit where an address does"
    );
    assert!(
        ((u32::MAX as u64) << PAGE_SHIFT) & !M::ADDRESS == 0,
        "a slot's number does not fit where an address does"
    );
}

impl Entry {
    pub const ABSENT: Self = Self(0);

    /// In a view, in the place of a link that showed a block and was cut: the CPU may still have that translation. To the hardware it is absent.
    pub const CUT: Self = Self(BUSY);

    /// `cpu` is replacing the page: its old translation is being flushed from other CPUs (op/fault/cow.rs). A CPU replaces one page at a time, so
    /// it knows its own busy entry from one that another CPU made there after it.
    pub fn busy(cpu: CpuId) -> Self {
        Self(BUSY | u64::from(cpu) << PAGE_SHIFT)
    }

    /// The page is in swap. The entry has a count of the slot.
    pub(crate) fn in_swap(place: SwapPlace) -> Self {
        let area = u64::from(place.area) << AREA_SHIFT & AREA;
        Self(KIND | PRIVATE | area | u64::from(place.slot) << PAGE_SHIFT)
    }

    /// The entry of a leaf that leads to `frame`; closed if `prot` is empty. The frame's address is or'ed into the rest.
    #[inline]
    pub fn page<M: Machine>(frame: PhysAddr, prot: Prot, private: bool) -> Self {
        let rest = if prot.is_empty() { CLOSED } else { M::rights(prot) };
        Self(frame.0 | rest | if private { PRIVATE } else { 0 })
    }

    /// What it says in a leaf. Panics at what is reserved. For assertions and tests.
    pub fn in_leaf<M: Machine>(self) -> LeafEntry {
        if self.0 & M::PRESENT != 0 {
            return LeafEntry::Page(self.address::<M>());
        }
        match self.0 & KIND {
            _ if self.is_absent() => LeafEntry::Absent,
            BUSY => LeafEntry::Busy((self.address::<M>().0 >> PAGE_SHIFT) as CpuId),
            CLOSED => LeafEntry::Closed(self.address::<M>()),
            KIND if self.0 & RESERVED == 0 => self.swap_place().map_or(LeafEntry::Absent, LeafEntry::InSwap),
            _ => panic!("an entry of a reserved kind: {:#x}", self.0),
        }
    }

    /// What it says above the leaves. Panics at what is reserved. For assertions and tests.
    pub fn in_upper<M: Machine>(self) -> UpperEntry {
        match self.0 & (M::PRESENT | M::LARGE) {
            _ if self.is_absent() => UpperEntry::Absent,
            present if present == M::PRESENT => UpperEntry::Table(self.address::<M>()),
            present if present == M::PRESENT | M::LARGE => UpperEntry::Large(self.address::<M>()),
            _ => panic!("an entry above a leaf that leads to no table: {:#x}", self.0),
        }
    }

    /// The table to which an entry above the leaves leads. In release builds whatever is not absent is taken for a table.
    #[inline]
    pub fn table<M: Machine>(self) -> Option<PhysAddr> {
        debug_assert!(self.is_absent() || self.in_upper::<M>() == UpperEntry::Table(self.address::<M>()));
        (!self.is_absent()).then_some(self.address::<M>())
    }

    /// The entry of a view that shows a block whole, where this is what a leaf says of the block's first page: with the same rights.
    pub fn large_page<M: Machine>(self) -> Self {
        debug_assert!(self.0 & M::PRESENT != 0 && self.owns_frame());
        Self(self.0 & !PRIVATE | M::LARGE)
    }

    /// The block that an entry of a view shows whole.
    #[inline]
    pub fn large_block<M: Machine>(self) -> Option<PhysAddr> {
        let bits = M::PRESENT | M::LARGE;
        (self.0 & bits == bits).then_some(PhysAddr(self.0 & M::ADDRESS))
    }

    #[inline]
    pub fn is_absent(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn is_busy(self) -> bool {
        self.0 & ((1 << PAGE_SHIFT) - 1) == BUSY
    }

    /// In a leaf: is no page behind it, though it is not absent? It is busy, or in swap. Asked where nobody cares which, at the price of asking for one of them.
    #[inline]
    pub fn is_away(self) -> bool {
        self.0 & BUSY != 0
    }

    /// Of a leaf's entry that is in swap: where.
    #[inline]
    pub fn swap_place(self) -> Option<SwapPlace> {
        let area = (self.0 & AREA) >> AREA_SHIFT;
        (self.0 & KIND == KIND).then_some(SwapPlace { area: area as u8, slot: (self.0 >> PAGE_SHIFT) as u32 })
    }

    /// Table or frame that the entry leads to. It is not absent, nor away.
    #[inline]
    pub fn address<M: Machine>(self) -> PhysAddr {
        PhysAddr(self.0 & M::ADDRESS)
    }

    /// Does it show a private page of the program's, or stand for one that is in swap?
    #[inline]
    pub fn is_private(self) -> bool {
        self.0 & PRIVATE != 0
    }

    /// Of a private page: is the reference to its frame the leaf's pool's, instead of the entry's?
    #[inline]
    pub fn is_pooled(self) -> bool {
        self.0 & POOLED != 0
    }

    /// Does it show a private page, and hold a reference of its own to the frame?
    #[inline]
    pub fn owns_frame(self) -> bool {
        self.0 & (PRIVATE | POOLED | BUSY) == PRIVATE
    }

    /// Does something go with it when it is taken out: a reference to a frame, or a count of a slot?
    #[inline]
    pub fn owns(self) -> bool {
        self.0 & (PRIVATE | POOLED) == PRIVATE
    }

    /// The entry of a private page when the leaf's pool has taken over its reference.
    #[inline]
    pub fn pooled(self) -> Self {
        Self(self.0 | POOLED)
    }

    /// A pooled entry when it has got a reference of its own.
    #[inline]
    pub fn owning(self) -> Self {
        Self(self.0 & !POOLED)
    }

    /// The same page with other rights.
    #[inline]
    pub fn with_prot<M: Machine>(self, prot: Prot) -> Self {
        Self(Self::page::<M>(self.address::<M>(), prot, self.is_private()).0 | self.0 & POOLED)
    }
}
