//! The world of the models: a format of entries, leaves with a lock, and the TLB of a CPU.

use crate::protocol::leaf;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Mutex, MutexGuard};
use vm::{Asid, CpuSet, Entry, FlushRange, FlushRequest, Machine, PhysAddr, Prot};

/// The format of entries. No hardware stands behind it.
pub struct Format;

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const IGNORED: u64 = 0b111 << 9 | 0x7f << 52;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

impl Machine for Format {
    const USER_END: usize = 1 << 47;
    const PRESENT: u64 = PRESENT;
    const LARGE: u64 = LARGE;
    const ADDRESS: u64 = ADDRESS;
    const IGNORED: u64 = IGNORED;
    const ASIDS: usize = 1;

    fn table(table: PhysAddr, writable: bool) -> Entry {
        Entry(table.0 | PRESENT | if writable { WRITE } else { 0 })
    }

    fn rights(prot: Prot) -> u64 {
        PRESENT | if prot.contains(Prot::WRITE) { WRITE } else { 0 }
    }

    fn is_writable(entry: Entry) -> bool {
        entry.0 & (PRESENT | WRITE) == PRESENT | WRITE
    }

    fn read_only(entry: Entry) -> Entry {
        Entry(entry.0 & !WRITE)
    }

    unsafe fn kernel_entries(_root: *mut u64) {}
    unsafe fn load_root(_root: PhysAddr, _asid: Asid) {}
    fn load_kernel_root() {}
    fn flush_local(_asid: Asid, _range: &FlushRange) {}
    fn flush_remote(_cpus: &CpuSet, _request: &FlushRequest<'_>) {}
}

/// Table or frame `n`, from 1 on.
pub fn address(n: u64) -> PhysAddr {
    PhysAddr(n << 12)
}

/// The entry of the level above for the leaf with table `n`.
pub fn table(n: u64, writable: bool) -> Entry {
    Format::table(address(n), writable)
}

/// The entry of a private page in frame `n`.
pub fn page(n: u64, writable: bool) -> Entry {
    Entry::page::<Format>(address(n), if writable { Prot::READ | Prot::WRITE } else { Prot::READ }, true)
}

/// A leaf with one entry. `S`: what the lock guards besides.
pub struct Leaf<S> {
    pub table: PhysAddr,
    pub cell: AtomicU64,
    state: Mutex<S>,
}

impl<S> Leaf<S> {
    pub fn new(n: u64, entry: Entry, state: S) -> Self {
        Self { table: address(n), cell: AtomicU64::new(entry.0), state: Mutex::new(state) }
    }

    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap()
    }

    /// Locks the leaf, if it is attached to `upper`, and until the guard goes.
    pub fn enter(&self, upper: &AtomicU64) -> Option<MutexGuard<'_, S>> {
        leaf::enter::<Format, _>(upper, self.table, self.lock())
    }
}

/// What a CPU remembers of one page. Its lock stands for this: an interrupt comes between two instructions and not within one.
pub struct Tlb(Mutex<Entry>);

impl Tlb {
    /// Remembers `entry`.
    pub fn new(entry: Entry) -> Self {
        Self(Mutex::new(entry))
    }

    /// An access: what is remembered, or else what `walk` finds.
    pub fn access(&self, walk: impl FnOnce() -> Entry) -> Entry {
        let mut held = self.0.lock().unwrap();
        if held.is_absent() {
            *held = walk();
        }
        *held
    }

    pub fn flush(&self) {
        *self.0.lock().unwrap() = Entry::ABSENT;
    }

    /// Nothing is remembered.
    pub fn assert_empty(&self) {
        assert!(self.0.lock().unwrap().is_absent(), "a CPU kept the translation of a freed frame");
    }
}

/// What the hardware reads.
pub fn walk(cell: &AtomicU64) -> Entry {
    Entry(cell.load(Ordering::Acquire))
}
