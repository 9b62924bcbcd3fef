//! The per-CPU areas: a copy of the `.percpu` image for each CPU, on its own node, with this CPU's stacks for
//! exceptions that must not use the stack they interrupt. GS base points at the area while the kernel runs.
//!
//! `CpuLocal` is arch's own part and comes first in the image, so its fields are `gs:[offset]`.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use super::super::boot::topology;
use super::super::memory::{direct_map, early};
use super::gdt::{Descriptors, Tss};
use super::reg::{self, IA32_GS_BASE, IA32_KERNEL_GS_BASE, IA32_TSC_AUX};
use super::{BootCell, features, gdt};

/// Structures are sized by the CPUs present; this bounds the few that are static.
pub const MAX_CPUS: usize = 256;

/// Bytes of each exception stack.
const EXCEPTION_STACK: usize = 8192;
/// One each for double fault, NMI, machine check and debug.
pub const EXCEPTION_STACKS: usize = 4;

/// What the entry code and arch itself need of this CPU. Field offsets are used by assembly.
#[repr(C)]
pub struct CpuLocal {
    /// What to add to the link address of a `.percpu` static for this CPU's copy.
    displacement: usize,
    /// Top of the current thread's kernel stack: where a system call begins.
    pub kernel_stack: usize,
    /// The user stack pointer, between SYSCALL and its place in the frame.
    pub user_sp: usize,
    pub cpu: u32,
    pub node: u32,
    /// This structure's own address.
    base: usize,
    pub apic_id: u32,
    // So that `rsp0` of the TSS is aligned.
    pub tss: Tss,
    pub descriptors: Descriptors,
}

/// The image's part; copies are reached through GS.
#[repr(transparent)]
struct Image(UnsafeCell<CpuLocal>);
// SAFETY: the image is only copied from.
unsafe impl Sync for Image {}

#[unsafe(link_section = ".percpu.first")]
#[used]
static LOCAL: Image = Image(UnsafeCell::new(CpuLocal {
    displacement: 0,
    kernel_stack: 0,
    user_sp: 0,
    cpu: 0,
    node: 0,
    base: 0,
    apic_id: 0,
    tss: Tss::new(),
    descriptors: Descriptors::new(),
}));

pub const KERNEL_STACK: usize = offset_of!(CpuLocal, kernel_stack);
pub const USER_SP: usize = offset_of!(CpuLocal, user_sp);
const DISPLACEMENT: usize = offset_of!(CpuLocal, displacement);
const CPU: usize = offset_of!(CpuLocal, cpu);
const RSP0: usize = offset_of!(CpuLocal, tss) + Tss::RSP0;

/// What to add to the link address of a `.percpu` static for each CPU's copy. For a CPU that is not present it is the boot CPU's: whoever
/// has the number wrong reads the wrong copy, and nothing else.
static DISPLACEMENTS: BootCell<[usize; MAX_CPUS]> = BootCell::new([0; MAX_CPUS]);
/// Base of each CPU's area, by CPU.
pub static BASES: BootCell<[usize; MAX_CPUS]> = BootCell::new([0; MAX_CPUS]);
/// CPUs that have started, boot CPU included.
static ONLINE: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    static __percpu_start: u8;
    static __percpu_end: u8;
}

/// This CPU.
#[inline(always)]
pub fn cpu_id() -> u32 {
    let cpu: u32;
    // SAFETY: reads this CPU's area. Not `nomem`: after a sleep the thread may be elsewhere, so it must be read again.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) cpu, const CPU, options(pure, readonly, nostack, preserves_flags));
    }
    cpu
}

/// See `sync::machine`.
#[inline(always)]
pub fn displacement() -> usize {
    let value: usize;
    // SAFETY: as `cpu_id`.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) value, const DISPLACEMENT, options(pure, readonly, nostack, preserves_flags));
    }
    value
}

/// The displacement of another CPU.
#[inline]
pub fn displacement_of(cpu: u32) -> usize {
    DISPLACEMENTS.get()[cpu as usize]
}

/// True once this CPU's area is in place.
pub fn ready() -> bool {
    BASES.get()[0] != 0
}

/// The area of CPU `cpu`.
///
/// # Safety
/// The area exists; fields that its CPU writes are read with that in mind.
pub unsafe fn local_of(cpu: u32) -> *mut CpuLocal {
    BASES.get()[cpu as usize] as *mut CpuLocal
}

/// Sets where this CPU's next entry from user mode puts its frame.
///
/// # Safety
/// `top` is the end of the kernel stack of the thread that enters user mode next.
#[inline(always)]
pub unsafe fn set_kernel_stack(top: usize) {
    // SAFETY: two words of this CPU's area that only entry code reads; what it does with them is the caller's promise.
    unsafe {
        asm!("mov gs:[{}], {}", const KERNEL_STACK, in(reg) top, options(nostack, preserves_flags));
        asm!("mov gs:[{}], {}", const RSP0, in(reg) top, options(nostack, preserves_flags));
    }
}

/// The top of the current thread's kernel stack.
#[inline(always)]
pub fn kernel_stack() -> usize {
    let top: usize;
    // SAFETY: as `cpu_id`.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) top, const KERNEL_STACK, options(pure, readonly, nostack, preserves_flags));
    }
    top
}

fn image_size() -> usize {
    &raw const __percpu_end as usize - &raw const __percpu_start as usize
}

/// Bytes of an area: the copy of the image, and the exception stacks.
fn area_size() -> usize {
    image_size().next_multiple_of(4096) + EXCEPTION_STACKS * EXCEPTION_STACK
}

/// Where the area of `cpu` lies, which is present.
#[cfg(feature = "lockdep")]
pub fn area(cpu: u32) -> core::ops::Range<usize> {
    let base = BASES.get()[cpu as usize];
    base..base + area_size()
}

/// Makes the area of `cpu` on its node.
///
/// # Safety
/// Boot CPU, alone, while early memory lasts; once for each CPU.
pub unsafe fn allocate(cpu: u32, limit: u64) {
    let image = &raw const __percpu_start;
    let image_size = image_size();
    let stacks = image_size.next_multiple_of(4096);
    let size = area_size();
    let (apic_id, node) = topology::cpu(cpu);
    // SAFETY: as the caller says; memory below `limit` is mapped.
    let base = direct_map(unsafe { early::allocate(size as u64, 4096, node, limit) });
    // SAFETY: the new area is at least as big as the image, and nobody else has it.
    let local = unsafe {
        core::ptr::copy_nonoverlapping(image, base, image_size);
        &mut *base.cast::<CpuLocal>()
    };
    local.displacement = (base as usize).wrapping_sub(image as usize);
    local.cpu = cpu;
    local.node = node;
    local.apic_id = apic_id;
    local.base = base as usize;
    for i in 0..EXCEPTION_STACKS {
        // The topmost 16 bytes hold the area's address, for entry code that cannot trust GS.
        let top = base as usize + stacks + (i + 1) * EXCEPTION_STACK - 16;
        // SAFETY: inside the area.
        unsafe { (top as *mut usize).write(base as usize) };
        local.tss.set_exception_stack(i, top);
    }
    // SAFETY: boot CPU, alone.
    unsafe {
        BASES.get_mut()[cpu as usize] = base as usize;
        let displacements = DISPLACEMENTS.get_mut();
        if cpu == 0 {
            displacements.fill(local.displacement);
        }
        displacements[cpu as usize] = local.displacement;
    }
}

/// Makes this processor CPU `cpu`: GS, descriptor tables, TSC_AUX (what RDTSCP and RDPID give a program).
///
/// # Safety
/// Once on each processor, whose area exists.
pub unsafe fn load(cpu: u32) {
    // SAFETY: the area exists and is this CPU's alone.
    unsafe {
        let local = local_of(cpu);
        let number = (*local).node << 12 | cpu;
        gdt::load(&raw mut (*local).descriptors, &raw const (*local).tss, number);
        // After the descriptor tables: loading the GS selector clears the base.
        reg::wrmsr(IA32_GS_BASE, local as u64);
        reg::wrmsr(IA32_KERNEL_GS_BASE, 0);
        let f = features::get();
        if f.rdtscp || f.rdpid {
            reg::wrmsr(IA32_TSC_AUX, u64::from(number));
        }
    }
}

/// Says that this CPU has started.
pub fn set_online() {
    ONLINE.fetch_add(1, Ordering::Release);
}

/// CPUs that have started.
pub fn online() -> u32 {
    ONLINE.load(Ordering::Acquire)
}
