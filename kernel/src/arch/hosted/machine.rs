//! `vm::Machine` in software: entries in x86-64's format, and a walk for every access. There is no TLB, so a flush has nothing to
//! drop; it waits until the other CPU is at no access (interrupts enabled). What stale translations do is tested in vm/tests/soft.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{cpu, irq};
use sync::machine::hosted::interrupt;
use vm::frame::Frame;
use vm::{Asid, CpuSet, Entry, FlushRange, FlushRequest, PAGE_SIZE, PhysAddr, Prot};

/// First address above the user half.
pub const USER_END: usize = 0x7fff_ffff_f000;

/// The machine that the address spaces of hosted tests live on.
pub struct Machine;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
/// As on x86-64.
const IGNORED: u64 = 0b111 << 9 | 0x7f << 52;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

impl vm::Machine for Machine {
    const USER_END: usize = USER_END;
    const PRESENT: u64 = PRESENT;
    const LARGE: u64 = LARGE;
    const ADDRESS: u64 = ADDRESS;
    const IGNORED: u64 = IGNORED;
    const ASIDS: usize = 6;

    fn table(table: PhysAddr, writable: bool) -> Entry {
        Entry(table.0 | PRESENT | USER | ACCESSED | if writable { WRITABLE } else { 0 })
    }

    fn rights(prot: Prot) -> u64 {
        let write = if prot.contains(Prot::WRITE) { WRITABLE } else { 0 };
        let execute = if prot.contains(Prot::EXEC) { 0 } else { NO_EXECUTE };
        // "Accessed" beforehand: the page is mapped because it is being touched, and the processor need not write.
        PRESENT | USER | ACCESSED | write | execute
    }

    fn is_writable(entry: Entry) -> bool {
        entry.0 & (PRESENT | WRITABLE) == PRESENT | WRITABLE
    }

    fn read_only(entry: Entry) -> Entry {
        Entry(entry.0 & !WRITABLE)
    }

    unsafe fn kernel_entries(_root: *mut u64) {}

    unsafe fn load_root(root: PhysAddr, _asid: Asid) {
        cpu::load_root(root.0);
    }

    fn load_kernel_root() {
        cpu::load_kernel_root();
    }

    fn flush_local(_asid: Asid, _range: &FlushRange) {}

    fn flush_remote(cpus: &CpuSet, request: &FlushRequest<'_>) {
        for cpu in cpus.iter() {
            irq::FLUSH_INTERRUPTS.of(cpu).add(1);
            interrupt(cpu, || cpu::acting_as(cpu, || request.answer_as::<Machine>(cpu)));
        }
    }
}

/// Runs `f` on the byte at `address` of the program that this CPU has loaded, and what follows in its page. None: the processor would
/// fault. Nothing is flushed meanwhile, so the page stays.
pub fn access<R>(address: usize, write: bool, f: impl FnOnce(*mut u8) -> R) -> Option<R> {
    let interrupts = sync::machine::irq_save();
    let found = translate(address, write).map(f);
    sync::machine::irq_restore(interrupts);
    found
}

fn translate(address: usize, write: bool) -> Option<*mut u8> {
    let mut table = match cpu::root() {
        0 => return None,
        root => root,
    };
    for level in (0..4).rev() {
        let index = (address >> (12 + 9 * level)) & 511;
        // SAFETY: a table page is 512 words, and is given back only after a flush, which waits for this access.
        let entry = unsafe { &*Frame::of(PhysAddr(table)).bytes_ptr().cast::<AtomicU64>().add(index) };
        let value = entry.load(Ordering::Acquire);
        if value & PRESENT == 0 || (write && value & WRITABLE == 0) {
            return None;
        }
        if level == 0 {
            let marked = value | ACCESSED | if write { DIRTY } else { 0 };
            // Lost to a change of the entry: as if the access came after it.
            if entry.compare_exchange(value, marked, Ordering::AcqRel, Ordering::Acquire).is_err() {
                return translate(address, write);
            }
        }
        table = value & ADDRESS;
    }
    // SAFETY: inside the page.
    Some(unsafe { Frame::of(PhysAddr(table)).bytes_ptr().add(address % PAGE_SIZE) })
}
