//! How the virtual memory system meets the machine: the hardware's bits in page-table entries, loading a root, flushing translations.
//!
//! `kernel::arch` implements [`Machine`] for x86-64; the tests implement it with a software MMU whose per-CPU TLBs keep stale
//! entries for as long as hardware may.

use crate::addr::{PAGE_SIZE, PhysAddr, VirtAddr};
pub use crate::entry::Entry;
use crate::request::Prot;
use crate::tlb::FlushRequest;
use sync::{CpuId, MAX_CPUS};

/// Number of an address-space id (PCID on x86) on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asid {
    /// 1..=`Machine::ASIDS`; 0 is the kernel's own.
    pub number: u16,
    /// Translations cached under this number belong to another space: drop them while loading.
    pub flush: bool,
}

/// The pages whose translations go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushRange {
    pub start: VirtAddr,
    /// Exclusive.
    pub end: VirtAddr,
}

impl FlushRange {
    pub const EMPTY: Self = Self { start: VirtAddr(usize::MAX), end: VirtAddr(0) };
    pub const ALL: Self = Self { start: VirtAddr(0), end: VirtAddr(usize::MAX) };

    pub fn is_empty(&self) -> bool {
        self.start.0 >= self.end.0
    }

    /// Pages in the range.
    pub fn pages(&self) -> usize {
        self.end.0.saturating_sub(self.start.0) / PAGE_SIZE
    }

    /// Grows to hold `start..end` too.
    #[inline]
    pub fn add(&mut self, start: usize, end: usize) {
        self.start.0 = self.start.0.min(start);
        self.end.0 = self.end.0.max(end);
    }
}

/// Why translations are flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushCause {
    /// Pages were unmapped, or others mapped in their place.
    Unmap,
    /// Rights changed, or what else is said of a mapping (mprotect, mlock, mbind).
    Protect,
    /// Pages went, and the mapping stays (madvise).
    Discard,
    /// Pages moved (mremap), or went to another node.
    Move,
    /// A page was copied for a write.
    CopyPage,
    /// A leaf was copied after a fork.
    CopyLeaf,
    /// Leaves are shared with a child.
    Fork,
    /// An object lost pages, or they are to be looked at again.
    Object,
    /// The space ends.
    Exit,
}

impl FlushCause {
    /// All, in the order of their numbers, with the names that /proc gives them.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Unmap, "unmap"),
        (Self::Protect, "protect"),
        (Self::Discard, "discard"),
        (Self::Move, "move"),
        (Self::CopyPage, "copy_page"),
        (Self::CopyLeaf, "copy_leaf"),
        (Self::Fork, "fork"),
        (Self::Object, "object"),
        (Self::Exit, "exit"),
    ];
}

/// A set of CPUs that one CPU reads and writes, or that lies under a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuSet(pub(crate) [u64; CpuSet::WORDS]);

impl CpuSet {
    pub(crate) const WORDS: usize = MAX_CPUS / 64;
    pub const EMPTY: Self = Self([0; Self::WORDS]);

    fn place(cpu: CpuId) -> (usize, u64) {
        (cpu as usize / 64 % Self::WORDS, 1 << (cpu % 64))
    }

    #[inline]
    pub fn insert(&mut self, cpu: CpuId) {
        let (word, bit) = Self::place(cpu);
        self.0[word] |= bit;
    }

    #[inline]
    pub fn remove(&mut self, cpu: CpuId) {
        let (word, bit) = Self::place(cpu);
        self.0[word] &= !bit;
    }

    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        self.0[word] & bit != 0
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Adds the members of `other`.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        for (to, from) in self.0.iter_mut().zip(&other.0) {
            *to |= from;
        }
    }

    /// The members, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.0.iter().enumerate().flat_map(|(i, w)| members(i, *w))
    }
}

/// The members in word `i` of a set.
fn members(i: usize, word: u64) -> impl Iterator<Item = CpuId> {
    let mut rest = word;
    core::iter::from_fn(move || {
        let bit = rest.checked_ilog2().map(|_| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(i as CpuId * 64 + bit)
    })
}

/// What the kernel keeps with a space.
pub trait Attached {
    /// The space ends: nothing is mapped in it any more. `sleeps`: the caller may sleep.
    fn end(&mut self, _sleeps: bool) {}
}

impl Attached for () {}

/// The machine. A zero-sized type; all functions are small and inlined.
pub trait Machine: Sized + Send + Sync + 'static {
    /// What else a space has, from its beginning to its end (`Space::attached`).
    type Attached: Attached + Default + Send + Sync;
    /// First address above what a program may use, a multiple of the page size.
    const USER_END: usize;
    /// Levels of the page table; 4 on x86-64.
    const LEVELS: u8 = 4;
    /// Address-space ids to use on each CPU, 1..=[`crate::tlb::MAX_ASIDS`]. 1: every change of space flushes.
    const ASIDS: usize;

    /// The most pages that [`Self::flush_local`] flushes one by one; of more it flushes the whole space.
    const SINGLE_FLUSHES: usize;

    /// The bit of an entry that says: the hardware may use it.
    const PRESENT: u64;
    /// The bit of a present entry above the leaves that says: it leads to a large page, and to no table.
    const LARGE: u64;
    /// The bit of a present entry by which the hardware notes that it was used. Others may set it beforehand.
    const ACCESSED: u64;
    /// Where in an entry the address of a table or frame is.
    const ADDRESS: u64;
    /// Bits of a present entry that the hardware neither looks at nor writes. What software does with them says `vm::entry`, which asserts
    /// that it uses no others. Of an entry that is not present the hardware looks at nothing but the present bit.
    const IGNORED: u64;

    /// Entry of an upper level that leads to `table`.
    fn table(table: PhysAddr, writable: bool) -> Entry;
    /// The bits of a present entry of a leaf that give these rights, of which there is one at least.
    fn rights(prot: Prot) -> u64;
    /// Does the hardware let the program write through this entry (at this level)?
    fn is_writable(entry: Entry) -> bool;
    /// The same entry without write permission.
    fn read_only(entry: Entry) -> Entry;

    /// Fills the kernel's half of a new, zeroed root table, which the direct map shows at `root`.
    ///
    /// # Safety
    /// `root` is such a table, and the caller's alone.
    unsafe fn kernel_entries(root: *mut u64);
    /// Makes this CPU translate through `root`. Interrupts are disabled.
    ///
    /// # Safety
    /// `root` is a root table with the kernel's half, and stays one until this CPU has loaded another.
    unsafe fn load_root(root: PhysAddr, asid: Asid);
    /// Makes this CPU translate through the kernel's own root, in which no user address is mapped. Interrupts are disabled.
    fn load_kernel_root();
    /// Drops this CPU's translations of `range` under `asid`, which is loaded, paging-structure caches included.
    fn flush_local(asid: Asid, range: &FlushRange);
    /// Has each of `cpus` (this CPU is not among them) call [`FlushRequest::answer`] and returns when all have. No leaf is
    /// locked and interrupts are enabled.
    fn flush_remote(cpus: &CpuSet, request: &FlushRequest);
}
