//! `vm::Machine` for x86-64: page-table entries (SDM vol. 3, 5.5), roots with PCIDs (5.10.1), flushes (5.10.4).

use core::arch::asm;

use vm::{Asid, CpuSet, Entry, FlushRange, FlushRequest, PhysAddr, Prot};

use super::cpu::{features, reg};
use super::memory::tables::{kernel_half, kernel_root};
use super::{ipi, irq, kvm};
use crate::arch::entry::{self, ACCESSED, ADDRESS, IGNORED, LARGE, PRESENT, USER_END};

/// The machine that the kernel's address spaces live on.
pub struct Machine;

/// CR3: keep the translations of the PCID that is loaded.
const KEEP: u64 = 1 << 63;

/// The answer of a CPU that is asked to flush; `request` is the asker's `FlushRequest`.
fn answer(request: usize) {
    // SAFETY: the asker keeps the request until this CPU has answered.
    let request = unsafe { &*(request as *const FlushRequest<'_>) };
    request.answer::<Machine>();
}

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

    #[inline]
    fn table(table: PhysAddr, writable: bool) -> Entry {
        entry::table(table, writable)
    }

    #[inline]
    fn rights(prot: Prot) -> u64 {
        entry::rights(prot)
    }

    #[inline]
    fn is_writable(entry: Entry) -> bool {
        entry::is_writable(entry)
    }

    #[inline]
    fn read_only(entry: Entry) -> Entry {
        entry::read_only(entry)
    }

    unsafe fn kernel_entries(root: *mut u64) {
        let half = kernel_half();
        // SAFETY: `root` is a page-table page of 512 entries, as the caller promises; the kernel's half is the upper one, 256 entries.
        unsafe { root.add(256).copy_from_nonoverlapping(half.as_ptr(), half.len()) };
    }

    #[inline]
    unsafe fn load_root(root: PhysAddr, asid: Asid) {
        let mut value = root.0;
        if features::get().pcid {
            value |= u64::from(asid.number) | if asid.flush { 0 } else { KEEP };
        }
        // SAFETY: the caller's promise.
        unsafe { reg::set_cr3(value) };
    }

    #[inline]
    fn load_kernel_root() {
        super::load_kernel_root();
    }

    fn flush_local(_asid: Asid, range: &FlushRange) {
        if range.pages() <= Self::SINGLE_FLUSHES {
            let mut address = range.start.0;
            while address < range.end.0 {
                // INVLPG also drops the paging-structure caches of the current PCID (5.10.4.1).
                // SAFETY: only cached translations go.
                unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
                address += 4096;
            }
            return;
        }
        // Without bit 63 the load drops all non-global translations of this PCID.
        // SAFETY: the same root again.
        unsafe { reg::set_cr3(reg::cr3() & !KEEP) };
    }

    fn flush_remote(cpus: &CpuSet, request: &FlushRequest<'_>) {
        let only_drops = request.only_drops();
        // A root that is to be left must be left by the CPU itself. And a CPU that the host flushed stays among those of the space.
        let running = cpus.iter().filter(|cpu| !only_drops || !kvm::leave_flush(*cpu));
        ipi::call_others_by(running, answer, core::ptr::from_ref(request) as usize, irq::FLUSH);
    }
}

/// See [`vm::Machine::load_kernel_root`].
pub fn kernel_root_value() -> u64 {
    kernel_root() | if features::get().pcid { KEEP } else { 0 }
}
