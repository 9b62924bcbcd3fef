//! A machine in software: page-table entries in x86-64's format, per-CPU TLBs that keep entries and pointers to tables for as
//! long as hardware may, and user accesses that go through them. A flush that is missing shows as a wrong byte.
#![allow(dead_code)]

pub mod requests;
pub mod swap;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use sync::machine::hosted::interrupt;
use vm::frame::{Frame, FrameKind};
use vm::{
    Access, Asid, CpuSet, Entry, FaultError, FlushRange, FlushRequest, Machine, PAGE_SIZE, PhysAddr, Prot,
    Space, VirtAddr,
};

pub const CPUS: usize = 64;

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const IGNORED: u64 = 0b111 << 9 | 0x7f << 52;
const NO_EXEC: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// What a CPU remembers.
#[derive(Default)]
struct Cpu {
    root: u64,
    asid: u16,
    /// Translations: address-space id and page to frame and rights.
    pages: HashMap<(u16, usize), u64>,
    /// Paging-structure cache: address-space id and 2 MiB region to leaf table and rights.
    tables: HashMap<(u16, usize), u64>,
    /// Translations of large pages: address-space id and 2 MiB region to block and rights, and the pages of it that were flushed one by one. Of a translation that
    /// is kept in pieces, a flush of one drops that piece, if the tables say something else by then.
    large: HashMap<(u16, usize), (u64, HashSet<usize>)>,
}

static MACHINES: [Mutex<Option<Box<Cpu>>>; CPUS] = [const { Mutex::new(None) }; CPUS];
pub static REMOTE_FLUSHES: AtomicU64 = AtomicU64::new(0);
pub static LOCAL_FLUSHES: AtomicU64 = AtomicU64::new(0);

/// What comes between two flushes.
static ON_FLUSH: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Calls `f` after each flush of other CPUs.
pub fn on_flush(f: Box<dyn Fn() + Send>) {
    *ON_FLUSH.lock().unwrap_or_else(PoisonError::into_inner) = Some(f);
}

thread_local! {
    static ACTING: Cell<Option<usize>> = const { Cell::new(None) };
}

fn me() -> usize {
    ACTING.get().unwrap_or_else(|| sync::cpu_id() as usize)
}

fn with_cpu<R>(f: impl FnOnce(&mut Cpu) -> R) -> R {
    let mut slot: MutexGuard<'_, _> = MACHINES[me()].lock().unwrap_or_else(PoisonError::into_inner);
    f(slot.get_or_insert_default())
}

/// The frame of a page of the arena, whose address an entry had.
fn frame_of(page: u64) -> &'static Frame {
    // SAFETY: `vm` puts no other addresses into entries.
    unsafe { Frame::of(PhysAddr(page)) }
}

fn cell(table: u64, index: usize) -> &'static AtomicU64 {
    let frame = frame_of(table);
    assert_eq!(frame.kind(), FrameKind::Table, "the hardware walks through a page that is no table any more");
    // SAFETY: a table page is 512 words, in the arena for ever.
    unsafe { &*frame.bytes_ptr().cast::<AtomicU64>().add(index) }
}

pub struct Soft;

impl Machine for Soft {
    type Attached = ();
    const USER_END: usize = 0x7fff_ffff_f000;
    const PRESENT: u64 = PRESENT;
    const LARGE: u64 = LARGE;
    const ACCESSED: u64 = ACCESSED;
    const ADDRESS: u64 = ADDRESS;
    const IGNORED: u64 = IGNORED;
    const ASIDS: usize = 3;
    const SINGLE_FLUSHES: usize = 32;

    fn table(table: PhysAddr, writable: bool) -> Entry {
        Entry(table.0 | PRESENT | USER | if writable { WRITE } else { 0 })
    }

    fn rights(prot: Prot) -> u64 {
        let write = if prot.contains(Prot::WRITE) { WRITE } else { 0 };
        let execute = if prot.contains(Prot::EXEC) { 0 } else { NO_EXEC };
        PRESENT | USER | write | execute
    }

    fn is_writable(entry: Entry) -> bool {
        entry.0 & (PRESENT | WRITE) == PRESENT | WRITE
    }

    fn read_only(entry: Entry) -> Entry {
        Entry(entry.0 & !WRITE)
    }

    unsafe fn kernel_entries(_root: *mut u64) {}

    unsafe fn load_root(root: PhysAddr, asid: Asid) {
        with_cpu(|c| {
            c.root = root.0;
            c.asid = asid.number;
            if asid.flush {
                c.pages.retain(|(a, _), _| *a != asid.number);
                c.tables.retain(|(a, _), _| *a != asid.number);
                c.large.retain(|(a, _), _| *a != asid.number);
            }
        });
    }

    fn load_kernel_root() {
        with_cpu(|c| {
            c.root = 0;
            c.asid = 0;
        });
    }

    fn flush_local(asid: Asid, range: &FlushRange) {
        LOCAL_FLUSHES.fetch_add(1, Ordering::Relaxed);
        with_cpu(|c| {
            c.pages.retain(|(a, page), entry| {
                let stays = *a != asid.number
                    || *page * PAGE_SIZE < range.start.0
                    || *page * PAGE_SIZE >= range.end.0;
                let kind = frame_of(*entry & ADDRESS).kind();
                assert!(
                    stays || kind != FrameKind::Free,
                    "a frame was freed before the flush (FreeAfterFlush)"
                );
                stays
            });
            c.tables.retain(|(a, _), _| *a != asid.number);
            let flushed = range.start.0 / PAGE_SIZE..range.end.0.div_ceil(PAGE_SIZE);
            c.large.retain(|(a, region), (entry, gone)| {
                if *a != asid.number {
                    return true;
                }
                for n in 0..512 {
                    if flushed.contains(&(*region * 512 + n)) && gone.insert(n) {
                        let kind = frame_of((*entry & ADDRESS) + ((n * PAGE_SIZE) as u64)).kind();
                        assert_ne!(
                            kind,
                            FrameKind::Free,
                            "a frame was freed before the flush (FreeAfterFlush)"
                        );
                    }
                }
                gone.len() < 512
            });
        });
    }

    fn flush_remote(cpus: &CpuSet, request: &FlushRequest) {
        REMOTE_FLUSHES.fetch_add(1, Ordering::Relaxed);
        for cpu in cpus.iter() {
            interrupt(cpu, || {
                ACTING.set(Some(cpu as usize));
                request.answer_as::<Soft>(cpu);
                ACTING.set(None);
            });
        }
        // What `f` does may flush too; that is not followed by another.
        let f = ON_FLUSH.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(f) = f {
            f();
            ON_FLUSH.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(f);
        }
    }
}

/// Loads the space's root on this CPU.
pub fn switch_to(space: &Space<Soft>) {
    space.switch_in();
}

/// What the hardware makes of an access: `f` on the frame's address, or a fault. An instruction is whole: no interrupt comes
/// between the translation and the access.
fn translate<R>(addr: usize, write: bool, exec: bool, f: impl Fn(u64) -> R) -> Result<R, ()> {
    with_cpu(|c| {
        assert_ne!(c.root, 0, "a program runs without a root");
        let page = addr / PAGE_SIZE;
        let allowed = |e: u64| (!write || e & WRITE != 0) && (!exec || e & NO_EXEC == 0);
        let large = c.large.get(&(c.asid, page / 512)).filter(|(_, gone)| !gone.contains(&(page % 512)));
        if let Some((e, _)) = large {
            if allowed(*e) {
                return Ok(f((e & ADDRESS) + (page % 512 * PAGE_SIZE) as u64));
            }
            c.large.remove(&(c.asid, page / 512));
            return Err(());
        }
        if let Some(e) = c.pages.get(&(c.asid, page)) {
            if allowed(*e) {
                return Ok(f(e & ADDRESS));
            }
            // A fault drops what caused it.
            c.pages.remove(&(c.asid, page));
            c.tables.remove(&(c.asid, page / 512));
            return Err(());
        }
        let leaf = match c.tables.get(&(c.asid, page / 512)) {
            Some(t) => *t,
            None => {
                let mut table = c.root | WRITE;
                for level in (1..4).rev() {
                    let entry = cell(table & ADDRESS, (page >> (9 * level)) & 511);
                    let e = entry.load(Ordering::Acquire);
                    if e & PRESENT == 0 {
                        return Err(());
                    }
                    if e & LARGE != 0 {
                        assert_eq!(level, 1, "a large page of another size");
                        assert_eq!(e & ADDRESS & 0x1f_ffff, 0, "a large page that is not aligned");
                        let rights = if table & WRITE == 0 { e & !WRITE } else { e };
                        if !allowed(rights) {
                            return Err(());
                        }
                        let region = page / 512 * 512..page / 512 * 512 + 512;
                        let is_small = |(a, page): &(u16, usize)| *a == c.asid && region.contains(page);
                        assert!(!c.pages.keys().any(is_small), "translations of both sizes");
                        let marked = e | ACCESSED | if write { DIRTY } else { 0 };
                        if entry.compare_exchange(e, marked, Ordering::AcqRel, Ordering::Acquire).is_err() {
                            // It was cut just now. Hardware would walk again, and may as well fault.
                            return Err(());
                        }
                        c.large.insert((c.asid, page / 512), (rights, HashSet::new()));
                        return Ok(f((e & ADDRESS) + (page % 512 * PAGE_SIZE) as u64));
                    }
                    table = (e & ADDRESS) | (table & e & WRITE);
                }
                c.tables.insert((c.asid, page / 512), table);
                table
            }
        };
        let entry = cell(leaf & ADDRESS, page & 511);
        loop {
            let e = entry.load(Ordering::Acquire);
            let rights = if leaf & WRITE == 0 { e & !WRITE } else { e };
            if e & PRESENT == 0 || !allowed(rights) {
                c.tables.remove(&(c.asid, page / 512));
                return Err(());
            }
            let marked = e | ACCESSED | if write { DIRTY } else { 0 };
            if entry.compare_exchange(e, marked, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                assert!(!c.large.contains_key(&(c.asid, page / 512)), "translations of both sizes");
                c.pages.insert((c.asid, page), rights);
                return Ok(f(e & ADDRESS));
            }
        }
    })
}

/// The word at `addr`, accessed by a program of the space that is loaded on this CPU.
fn access<R>(
    space: &Space<Soft>,
    addr: usize,
    access: Access,
    f: impl Fn(&AtomicU64) -> R,
) -> Result<R, FaultError> {
    loop {
        let done = translate(addr, access.write, access.exec, |frame| {
            let frame = frame_of(frame);
            assert_ne!(frame.kind(), FrameKind::Free, "a program uses a frame that is free");
            assert_ne!(frame.kind(), FrameKind::Table, "a program uses a page table");
            assert!(!access.write || frame.kind() != FrameKind::Zero, "a program writes the page of zeros");
            // SAFETY: an aligned word inside the page, in the arena for ever; all users of such words are atomic.
            let word = unsafe { &*frame.bytes_ptr().add((addr % PAGE_SIZE) & !7).cast::<AtomicU64>() };
            f(word)
        });
        if let Ok(result) = done {
            return Ok(result);
        }
        space.fault(VirtAddr(addr), access)?;
    }
}

pub fn read(space: &Space<Soft>, addr: usize) -> Result<u64, FaultError> {
    access(space, addr, Access::READ, |w| w.load(Ordering::SeqCst))
}

pub fn write(space: &Space<Soft>, addr: usize, value: u64) -> Result<(), FaultError> {
    access(space, addr, Access::WRITE, |w| w.store(value, Ordering::SeqCst))
}

pub fn add(space: &Space<Soft>, addr: usize, value: u64) -> Result<u64, FaultError> {
    access(space, addr, Access::WRITE, |w| w.fetch_add(value, Ordering::SeqCst))
}

/// Starts memory and lets `n` CPUs be present.
pub fn start(n: u32) {
    vm::frame::hosted::start(64 * 1024, 1);
    sync::machine::hosted::set_cpus(n);
}

/// Free frames, when all callbacks of this thread have run.
pub fn free_frames() -> u64 {
    sync::rcu::drain();
    vm::frame::free_frames()
}

/// Free frames, of which there are to be as many again as there were `before`: threads that were joined may yet have callbacks to run.
pub fn free_frames_again(before: u64) -> u64 {
    if free_frames() != before {
        sync::machine::hosted::wait_for_others();
    }
    free_frames()
}

/// The frame that a program reads at `addr`.
pub fn frame_at(space: &Space<Soft>, addr: usize) -> &'static Frame {
    read(space, addr).unwrap();
    translate(addr, false, false, frame_of).unwrap()
}

/// Does this CPU translate `addr` by a large page, now that a program has read there?
pub fn shows_block(addr: usize) -> bool {
    with_cpu(|c| c.large.contains_key(&(c.asid, addr / PAGE_SIZE / 512)))
}
