//! The world of the models: a format of entries, leaves with a lock, and the TLB of a CPU.

use crate::protocol::leaf;
use crate::protocol::refs::Refs;
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
    type Attached = ();
    const USER_END: usize = 1 << 47;
    const PRESENT: u64 = PRESENT;
    const LARGE: u64 = LARGE;
    const ACCESSED: u64 = 1 << 5;
    const ADDRESS: u64 = ADDRESS;
    const IGNORED: u64 = IGNORED;
    const ASIDS: usize = 1;
    const SINGLE_FLUSHES: usize = 1;

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

/// A leaf. `S`: what the lock guards besides.
pub struct Leaf<S> {
    pub table: PhysAddr,
    pub cells: Vec<AtomicU64>,
    state: Mutex<S>,
}

impl<S> Leaf<S> {
    pub fn new(n: u64, entries: &[Entry], state: S) -> Self {
        let cells = entries.iter().map(|entry| AtomicU64::new(entry.0)).collect();
        Self { table: address(n), cells, state: Mutex::new(state) }
    }

    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap()
    }

    /// Locks the leaf, if it is attached to `upper`, and until the guard goes.
    pub fn enter(&self, upper: &AtomicU64) -> Option<MutexGuard<'_, S>> {
        leaf::enter::<Format, _>(upper, self.table, self.lock())
    }
}

/// The entries of a leaf, which its lock allows to change.
pub struct Locked<'a, S> {
    leaf: &'a Leaf<S>,
    pub state: MutexGuard<'a, S>,
}

impl<'a, S> Locked<'a, S> {
    pub fn new(leaf: &'a Leaf<S>, state: MutexGuard<'a, S>) -> Self {
        Self { leaf, state }
    }
}

impl<S> Locked<'_, S> {
    pub fn entry(&self, index: u16) -> Entry {
        Entry(self.leaf.cells[usize::from(index)].load(Ordering::Relaxed))
    }

    pub fn exchange(&mut self, index: u16, entry: Entry) -> Entry {
        leaf::exchange(&self.leaf.cells[usize::from(index)], entry)
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
        // The hardware finds no page in a busy entry, and remembers nothing.
        if held.is_busy() {
            *held = Entry::ABSENT;
        }
        *held
    }

    /// A write: says whether it was allowed, in which case `store` was called with the entry.
    pub fn write(&self, walk: impl FnOnce() -> Entry, store: impl FnOnce(Entry)) -> bool {
        let mut held = self.0.lock().unwrap();
        if !Format::is_writable(*held) {
            *held = walk();
        }
        if Format::is_writable(*held) {
            store(*held);
        }
        Format::is_writable(*held)
    }

    pub fn flush(&self) {
        *self.0.lock().unwrap() = Entry::ABSENT;
    }

    /// Nothing is remembered.
    pub fn assert_empty(&self) {
        assert!(self.0.lock().unwrap().is_absent(), "a CPU kept the translation of a freed frame");
    }
}

/// What frames 1 to 4 hold, two words each, and who refers to them.
pub struct Frames {
    refs: [Refs; 4],
    words: [[AtomicU64; 2]; 4],
}

/// What an untouched word holds, and one of a frame that is free.
pub const OLD: u64 = 100;
pub const FREE: u64 = 999;

impl Frames {
    /// With so many references.
    pub fn new(refs: [u32; 4]) -> Self {
        let words = refs.map(|_| [(); 2].map(|()| AtomicU64::new(OLD)));
        Self { refs: refs.map(Refs::new), words }
    }

    fn number(entry: Entry) -> usize {
        (entry.address::<Format>().0 >> 12) as usize - 1
    }

    pub fn refs(&self, entry: Entry) -> &Refs {
        &self.refs[Self::number(entry)]
    }

    pub fn word(&self, entry: Entry, word: usize) -> &AtomicU64 {
        &self.words[Self::number(entry)][word]
    }

    pub fn read(&self, entry: Entry, word: usize) -> u64 {
        self.word(entry, word).load(Ordering::Relaxed)
    }

    pub fn copy(&self, from: Entry, to: Entry) {
        for word in 0..2 {
            self.word(to, word).store(self.read(from, word), Ordering::Relaxed);
        }
    }

    /// Drops a reference, and frees the frame with the last.
    pub fn put(&self, entry: Entry) {
        if self.refs(entry).put() {
            for word in &self.words[Self::number(entry)] {
                assert_ne!(word.swap(FREE, Ordering::Relaxed), FREE, "a frame is freed twice");
            }
        }
    }

    pub fn is_free(&self, entry: Entry) -> bool {
        self.read(entry, 0) == FREE
    }
}

/// What the hardware reads.
pub fn walk(cell: &AtomicU64) -> Entry {
    Entry(cell.load(Ordering::Acquire))
}
