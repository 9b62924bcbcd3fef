//! `vm::Machine` in software: entries in x86-64's format, and a walk for every access. There is no TLB, so a flush has nothing to
//! drop; it waits until the other CPU is at no access (interrupts enabled). What stale translations do is tested in vm/tests/soft.

use core::sync::atomic::{AtomicU64, Ordering};

use super::cpu;
use crate::arch::entry::{self, ACCESSED, ADDRESS, DIRTY, IGNORED, LARGE, PRESENT, USER_END, WRITABLE};
use crate::arch::interrupts::FLUSH_INTERRUPTS;
use sync::machine::hosted::interrupt;
use vm::frame::Frame;
use vm::{Asid, CpuSet, Entry, FlushRange, FlushRequest, LEAF_SPAN, PAGE_SIZE, PhysAddr, Prot};

/// The machine that the address spaces of hosted tests live on.
pub struct Machine;

impl vm::Machine for Machine {
    type Attached = crate::ipc::attach::Attached;
    const USER_END: usize = USER_END;
    const PRESENT: u64 = PRESENT;
    const LARGE: u64 = LARGE;
    const ACCESSED: u64 = ACCESSED;
    const ADDRESS: u64 = ADDRESS;
    const IGNORED: u64 = IGNORED;
    const ASIDS: usize = 6;
    const SINGLE_FLUSHES: usize = 32;

    fn table(table: PhysAddr, writable: bool) -> Entry {
        entry::table(table, writable)
    }

    fn rights(prot: Prot) -> u64 {
        entry::rights(prot)
    }

    fn is_writable(entry: Entry) -> bool {
        entry::is_writable(entry)
    }

    fn read_only(entry: Entry) -> Entry {
        entry::read_only(entry)
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
            FLUSH_INTERRUPTS.of(cpu).add(1);
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
        // SAFETY: a table page, whose address `vm` has loaded or put into an entry, is 512 words, and is given back only after a flush, which
        // waits for this access.
        let entry = unsafe { &*Frame::of(PhysAddr(table)).bytes_ptr().cast::<AtomicU64>().add(index) };
        let value = entry.load(Ordering::Acquire);
        if value & PRESENT == 0 || (write && value & WRITABLE == 0) {
            return None;
        }
        if level == 0 || (level == 1 && value & LARGE != 0) {
            let marked = value | ACCESSED | if write { DIRTY } else { 0 };
            // Lost to a change of the entry: as if the access came after it.
            if entry.compare_exchange(value, marked, Ordering::AcqRel, Ordering::Acquire).is_err() {
                return translate(address, write);
            }
        }
        table = value & ADDRESS;
        if level == 1 && value & LARGE != 0 {
            table += (address & (LEAF_SPAN - 1) & !(PAGE_SIZE - 1)) as u64;
            break;
        }
    }
    // SAFETY: inside the page.
    Some(unsafe { Frame::of(PhysAddr(table)).bytes_ptr().add(address % PAGE_SIZE) })
}
