//! How the virtual memory system meets the machine: the format of page-table entries, loading a root, flushing translations.
//!
//! `kernel::arch` implements [`Machine`] for x86-64; the tests implement it with a software MMU whose per-CPU TLBs keep stale
//! entries for as long as hardware may.
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, VirtAddr};
use crate::request::Prot;
use crate::tlb::FlushRequest;
use sync::{CpuId, MAX_CPUS};

/// A page-table entry in the hardware's format. Zero is "absent" on every machine; a busy entry too has the hardware's present
/// bit clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Entry(pub u64);

impl Entry {
    pub const ABSENT: Self = Self(0);
    const BUSY: u64 = 1 << 9;
    /// A bit that no machine's hardware looks at.
    const HELD: u64 = 1 << 52;

    /// `cpu` is replacing the page: its old translation is being flushed from other CPUs (cow.rs). Never present in hardware. A CPU
    /// replaces one page at a time, so it knows its own busy entry from one that another CPU made there after it.
    pub fn busy(cpu: CpuId) -> Self {
        Self(Self::BUSY | u64::from(cpu) << PAGE_SHIFT)
    }

    #[inline]
    pub fn is_absent(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn is_busy(self) -> bool {
        self.0 & (PAGE_SIZE as u64 - 1) == Self::BUSY
    }

    /// Does it show a private page of the program's?
    #[inline]
    pub fn is_private<M: Machine>(self) -> bool {
        M::is_owned(self) && !self.is_busy()
    }

    /// Of a private page: is the reference to its frame the leaf's holder's, instead of the entry's (HeldByList, node/holder.rs)?
    #[inline]
    pub fn is_held(self) -> bool {
        self.0 & Self::HELD != 0
    }

    /// Does it show a private page, and hold a reference of its own to the frame?
    #[inline]
    pub fn owns_frame<M: Machine>(self) -> bool {
        self.is_private::<M>() && !self.is_held()
    }

    /// The entry of a private page when the leaf's holder has taken over its reference.
    #[inline]
    pub fn held(self) -> Self {
        Self(self.0 | Self::HELD)
    }

    /// A held entry when it has got a reference of its own.
    #[inline]
    pub fn owning(self) -> Self {
        Self(self.0 & !Self::HELD)
    }

    /// The same page with other rights.
    #[inline]
    pub fn with_prot<M: Machine>(self, prot: Prot) -> Self {
        Self(M::page(M::address(self), prot, M::is_owned(self)).0 | self.0 & Self::HELD)
    }
}

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

/// The machine. A zero-sized type; all functions are small and inlined.
pub trait Machine: Sized + Send + Sync + 'static {
    /// First address above what a program may use, a multiple of the page size.
    const USER_END: usize;
    /// Levels of the page table; 4 on x86-64.
    const LEVELS: u8 = 4;
    /// Address-space ids to use on each CPU, 1..=[`crate::tlb::MAX_ASIDS`]. 1: every change of space flushes.
    const ASIDS: usize;

    /// Entry of an upper level that leads to `table`.
    fn table(table: PhysAddr, writable: bool) -> Entry;
    /// Entry of the last level. `owned`: a software bit, "the leaf has a reference to this frame", itself or through its holder: a private
    /// page. An empty `prot` gives an
    /// entry that the hardware refuses to the program and to the kernel alike, but that keeps frame and `owned`.
    /// The frame's address is or'ed into the rest: `page(f, p, o)` is `page(0, p, o)` with the bits of `f`.
    fn page(frame: PhysAddr, prot: Prot, owned: bool) -> Entry;
    /// Table or frame that the entry leads to. The entry is neither absent nor busy.
    fn address(entry: Entry) -> PhysAddr;
    /// Does the hardware let the program write through this entry (at this level)?
    fn is_writable(entry: Entry) -> bool;
    fn is_owned(entry: Entry) -> bool;
    fn is_dirty(entry: Entry) -> bool;
    fn is_accessed(entry: Entry) -> bool;
    /// The same entry without write permission.
    fn read_only(entry: Entry) -> Entry;

    /// Fills the kernel's half of a new, zeroed root table, which the direct map shows at `root`.
    fn kernel_entries(root: *mut u64);
    /// Makes this CPU translate through `root`. Interrupts are disabled.
    fn load_root(root: PhysAddr, asid: Asid);
    /// Makes this CPU translate through the kernel's own root, in which no user address is mapped. Interrupts are disabled.
    fn load_kernel_root();
    /// Drops this CPU's translations of `range` under `asid`, which is loaded, paging-structure caches included.
    fn flush_local(asid: Asid, range: &FlushRange);
    /// Has each of `cpus` (this CPU is not among them) call [`FlushRequest::answer`] and returns when all have. No leaf is
    /// locked and interrupts are enabled.
    fn flush_remote(cpus: &CpuSet, request: &FlushRequest);
}
