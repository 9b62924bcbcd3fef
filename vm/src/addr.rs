//! Addresses and page geometry. Plain numbers with a type each, so that a physical address is never used as a virtual one.
#![forbid(unsafe_code)]

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// log2 of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = 12;
/// Entries in one page-table page.
pub const ENTRIES: usize = 512;
/// Bytes of address space under one leaf (a last-level page-table page).
pub const LEAF_SPAN: usize = PAGE_SIZE * ENTRIES;

/// An address in physical memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

/// An address in some address space. Never trusted to be mapped, canonical or aligned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct VirtAddr(pub usize);

impl PhysAddr {
    /// Number of the page that holds this address.
    pub const fn page_number(self) -> u64 {
        self.0 >> PAGE_SHIFT
    }

    pub const fn is_page_aligned(self) -> bool {
        self.0 & (PAGE_SIZE as u64 - 1) == 0
    }
}

impl VirtAddr {
    pub const fn page_number(self) -> usize {
        self.0 >> PAGE_SHIFT
    }

    pub const fn is_page_aligned(self) -> bool {
        self.0 & (PAGE_SIZE - 1) == 0
    }

    /// The start of the page that holds this address.
    pub const fn page_start(self) -> Self {
        Self(self.0 & !(PAGE_SIZE - 1))
    }

    /// Offset within the page.
    pub const fn page_offset(self) -> usize {
        self.0 & (PAGE_SIZE - 1)
    }

    pub const fn checked_add(self, bytes: usize) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl core::fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "phys {:#x}", self.0)
    }
}

impl core::fmt::Debug for VirtAddr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "virt {:#x}", self.0)
    }
}
