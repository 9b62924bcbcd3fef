//! The metadata of one frame: one cache line.
//!
//! Who may write what: `next`, `prev`, `order` belong to the list the frame is on (that list's lock); `refs` to those who
//! hold references; `kind` and the owner's words to the owner.

use super::{__darter_direct_map_base, __darter_frame_table, poison};
use crate::addr::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::protocol::refs::Refs;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use sync::CpuId;

/// What a frame is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Not handed to the allocator (firmware, kernel image, frame table).
    Reserved = 0,
    /// In a magazine, on a colour list or in the buddy. A frame that was used keeps its last kind beside this (`FREED`).
    Free,
    /// A page of a program's own.
    Page,
    /// A page-table page; the owner's words hold its metadata.
    Table,
    /// A page of slab objects; the owner's words hold the slab's header.
    Slab,
    /// First page of a block of the heap.
    Block,
    /// The shared page of zeros.
    Zero,
    /// A page of an object: of a file, or of memory that programs share.
    Object,
    /// A page of a kernel stack.
    Stack,
    /// A page that a device reaches: a queue's table, or a request's buffer.
    Device,
    /// A page that the host has taken back ([`super::Balloon`]).
    Balloon,
}

impl FrameKind {
    /// What pages of each kind are, in the order of the numbers, for tools that look at memory from outside. The flags of a page
    /// table are its level (0: leaf), those of a block log2 of its pages.
    pub const NAMES: [&'static str; 11] = [
        "page outside the allocator",
        "free page",
        "program page",
        "page table",
        "slab",
        "heap block",
        "page of zeros",
        "object page",
        "kernel stack",
        "page for a device",
        "page in the balloon",
    ];
}

/// Set beside the last kind of a frame that is free since, for tools that ask what a line was used for.
const FREED: u8 = 0x80;

/// Set beside the order of a free block that the host was told of.
const TOLD: u8 = 0x80;

/// Where a tool that looks at memory from outside finds what a frame is: offsets in [`Frame`], in bytes.
pub struct FrameLayout {
    pub size: usize,
    pub kind: usize,
    pub flags: usize,
    pub words: usize,
}

pub const LAYOUT: FrameLayout = FrameLayout {
    size: size_of::<Frame>(),
    kind: offset_of!(Frame, kind),
    flags: offset_of!(Frame, flags),
    words: offset_of!(Frame, words),
};

/// Metadata of one physical page: 64 bytes, one cache line.
#[repr(C, align(64))]
pub struct Frame {
    refs: Refs,
    kind: AtomicU8,
    order: AtomicU8,
    numa_node: AtomicU8,
    flags: AtomicU8,
    next: AtomicU32,
    prev: AtomicU32,
    words: [AtomicU64; 6],
}

const _: () = assert!(size_of::<Frame>() == 64);

/// The word of a program's page that says which CPU copied a leaf with it last. Means something only while several leaves have it.
const COPIER: usize = 0;

impl Frame {
    /// The frame with page number `number`. For the allocator: the numbers that its lists and magazines hold are those of frames which it
    /// was given ([`super::add_region`]), and nobody else writes there.
    #[inline]
    pub(super) fn by_number(number: u32) -> &'static Frame {
        let table = __darter_frame_table() as *const Frame;
        // SAFETY: the frame table covers all memory of the machine, for ever, and only such numbers are ever stored.
        unsafe { &*table.add(number as usize) }
    }

    /// Metadata of the page that holds `addr`.
    ///
    /// # Safety
    /// The page was given to the allocator once ([`super::add_region`]): the address comes from a frame, or from an entry or a slot that a
    /// frame's address was put into.
    #[inline]
    pub unsafe fn of(addr: PhysAddr) -> &'static Frame {
        Self::by_number((addr.0 >> PAGE_SHIFT) as u32)
    }

    /// The frame whose page the direct map shows at `address`.
    ///
    /// # Safety
    /// As [`Self::of`].
    #[inline]
    pub unsafe fn of_direct(address: usize) -> &'static Frame {
        // SAFETY: as the caller says.
        unsafe { Self::of(PhysAddr((address - __darter_direct_map_base()) as u64)) }
    }

    #[inline]
    pub(crate) fn number(&self) -> u32 {
        // It does not wrap: every frame lies in the table.
        let offset = (core::ptr::from_ref(self) as usize).wrapping_sub(__darter_frame_table());
        (offset / size_of::<Frame>()) as u32
    }

    /// Physical address of the page.
    #[inline]
    pub fn addr(&self) -> PhysAddr {
        PhysAddr(u64::from(self.number()) << PAGE_SHIFT)
    }

    /// The page itself, in the direct map. Using the pointer is the caller's affair.
    #[inline]
    pub fn bytes_ptr(&self) -> *mut u8 {
        super::direct_map(self.addr())
    }

    /// NUMA node of the page.
    #[inline]
    pub fn numa_node(&self) -> usize {
        self.numa_node.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub fn kind(&self) -> FrameKind {
        match self.kind.load(Ordering::Relaxed) {
            1 => FrameKind::Free,
            2 => FrameKind::Page,
            3 => FrameKind::Table,
            4 => FrameKind::Slab,
            5 => FrameKind::Block,
            6 => FrameKind::Zero,
            7 => FrameKind::Object,
            8 => FrameKind::Stack,
            9 => FrameKind::Device,
            10 => FrameKind::Balloon,
            FREED.. => FrameKind::Free,
            _ => FrameKind::Reserved,
        }
    }

    /// By the owner. The kind is told to tools and checked by tests; nothing here goes by it.
    #[inline]
    pub(crate) fn set_kind(&self, kind: FrameKind) {
        self.kind.store(kind as u8, Ordering::Relaxed);
    }

    /// Eight bits for the owner, zero at allocation.
    ///
    /// # Safety
    /// As [`Self::words`].
    pub(crate) unsafe fn flags(&self) -> &AtomicU8 {
        &self.flags
    }

    /// Bytes of [`Self::words`].
    pub(super) const OWNERS_BYTES: usize = size_of::<[AtomicU64; 6]>();

    /// The owner's words as plain memory.
    pub(super) fn owners_bytes(&self) -> *mut u8 {
        core::ptr::from_ref(&self.words).cast_mut().cast()
    }

    /// 48 bytes for the owner; unspecified at allocation.
    ///
    /// # Safety
    /// The owner's room alone writes them: it takes what they hold for addresses (of a node, of a cache).
    #[inline]
    pub(crate) unsafe fn words(&self) -> &[AtomicU64; 6] {
        &self.words
    }

    /// References to the page: leaves that map it, object slots, pins. 1 at allocation.
    #[inline]
    pub fn refs(&self) -> u32 {
        self.refs.count()
    }

    /// Takes one more reference. The caller holds one, or the lock under which one is held. Where that is not so, a frame may stay for good, no
    /// more: references are dropped by `unsafe` functions alone.
    #[inline]
    pub(crate) fn get(&self) {
        self.refs.get();
    }

    /// As [`Self::get`], for a copy of a leaf. Says whether others than the leaf referred to the frame before, and whether another CPU took
    /// the last reference of this kind then.
    #[inline]
    pub(crate) fn get_for_copy(&self, cpu: CpuId) -> (bool, bool) {
        let before = self.refs.get();
        let last = self.words[COPIER].load(Ordering::Relaxed);
        self.words[COPIER].store(u64::from(cpu), Ordering::Relaxed);
        (before > 1, before > 1 && last != u64::from(cpu))
    }

    /// Drops one reference; true if it was the last, and the caller now owns the frame alone.
    #[inline]
    pub(super) fn put(&self) -> bool {
        self.refs.put()
    }

    pub(super) fn set_home(&self, numa_node: u8) {
        self.numa_node.store(numa_node, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn mark_taken(&self) {
        debug_assert_eq!(self.kind(), FrameKind::Free, "frame {:#x} handed out twice", self.number());
        if poison::ON {
            self.check_poison();
        }
        self.refs.begin();
        self.kind.store(FrameKind::Page as u8, Ordering::Relaxed);
        self.flags.store(0, Ordering::Relaxed);
    }

    /// By the owner, who gives the frame back.
    #[inline]
    pub(crate) fn mark_free(&self) {
        debug_assert_ne!(self.kind(), FrameKind::Free, "frame {:#x} freed twice", self.number());
        self.kind.store(self.kind.load(Ordering::Relaxed) | FREED, Ordering::Relaxed);
    }

    /// Fills the page, which is free from now on.
    pub(super) fn poison(&self) {
        self.kind.fetch_or(FREED, Ordering::Relaxed);
        // SAFETY: the page is in the direct map, and nobody's.
        unsafe { poison::fill(self.bytes_ptr(), PAGE_SIZE) };
    }

    /// Has nobody written the page since it was given back?
    pub(super) fn check_poison(&self) {
        let kind = self.kind.load(Ordering::Relaxed);
        if kind & FREED == 0 {
            // It was never in use.
            return;
        }
        // SAFETY: as in `poison`.
        if let Some((offset, word)) = unsafe { poison::find(self.bytes_ptr(), PAGE_SIZE) } {
            let was = FrameKind::NAMES.get(usize::from(kind & !FREED)).copied().unwrap_or_default();
            panic!("written after free: frame {:#x} ({was}) has {word:#x} at {offset:#x}", self.addr().0);
        }
    }

    pub(super) fn next(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    pub(super) fn set_next(&self, number: u32) {
        self.next.store(number, Ordering::Relaxed);
    }

    pub(super) fn prev(&self) -> u32 {
        self.prev.load(Ordering::Relaxed)
    }

    pub(super) fn set_prev(&self, number: u32) {
        self.prev.store(number, Ordering::Relaxed);
    }

    /// Order of the free block that begins here plus one; 0: none does.
    pub(super) fn block(&self) -> u8 {
        self.order.load(Ordering::Relaxed) & !TOLD
    }

    /// Was the host told that the block which begins here is free, or the larger one of which it was a part?
    pub(super) fn is_told(&self) -> bool {
        self.order.load(Ordering::Relaxed) & TOLD != 0
    }

    pub(super) fn set_block(&self, order_plus_one: u8, is_told: bool) {
        self.order.store(order_plus_one | if is_told { TOLD } else { 0 }, Ordering::Relaxed);
    }

    /// The host drops what the page holds: who takes it finds no pattern.
    pub(super) fn forget_poison(&self) {
        self.set_kind(FrameKind::Free);
    }
}
