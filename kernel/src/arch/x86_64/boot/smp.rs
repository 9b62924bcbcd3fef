//! Starting the other processors, all at once.
//!
//! The start-up code (`trampoline`, copied below 1 MiB) takes each from real mode through the first page tables to
//! `ap_entry`, which finds out by its APIC id which CPU it is, and takes that CPU's stack. Nothing is calibrated per CPU, and
//! nobody waits for anybody but the boot CPU for the last to report.

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::super::cpu::percpu::{self, MAX_CPUS};
use super::super::cpu::{BootCell, features};
use super::super::memory::{direct_map, tables};
use super::super::{apic, kvm, stack, time, trap};
use super::topology;

/// Where the start-up code runs; conventional memory that no firmware table uses.
const TRAMPOLINE: u64 = 0x8000;
/// How long the boot CPU waits for the others.
const PATIENCE_NS: u64 = 30_000_000_000;

// What `ap_entry` reads.
#[unsafe(no_mangle)]
static AP_APIC_IDS: BootCell<[u32; MAX_CPUS]> = BootCell::new([0; MAX_CPUS]);
#[unsafe(no_mangle)]
static AP_STACKS: BootCell<[usize; MAX_CPUS]> = BootCell::new([0; MAX_CPUS]);
#[unsafe(no_mangle)]
static AP_COUNT: BootCell<u64> = BootCell::new(0);
#[unsafe(no_mangle)]
static AP_ROOT: BootCell<u64> = BootCell::new(0);
/// What a started CPU runs, once it is ready.
static ENTRY: AtomicUsize = AtomicUsize::new(0);

global_asm!(
    r#"
    .section .rodata
    .global trampoline_start
    .global trampoline_end
    .balign 16
    .code16
trampoline_start:
    jmp 2f
    .balign 8
trampoline_gdt_pointer:                 // at offset 8
    .word 15
    .long {trampoline} + trampoline_gdt - trampoline_start
2:  cli
    cld
    mov ax, cs
    mov ds, ax
    // Operands are relative to the page that this was copied to.
    lgdt [8]
    mov eax, cr4
    or eax, 0x20                        // PAE
    mov cr4, eax
    mov eax, offset boot_pml4
    mov cr3, eax
    mov ecx, 0xc0000080
    rdmsr
    or eax, 0x900                       // LME, NXE
    wrmsr
    mov eax, cr0
    or eax, 0x80010001                  // PG, WP, PE: straight into long mode (SDM vol. 3, 11.8.5)
    and eax, 0x9fffffff                 // CD and NW are set at reset
    mov cr0, eax
    .byte 0x66, 0xea                    // far jump, 32-bit offset
    .long {trampoline} + trampoline_64 - trampoline_start
    .word 0x08
    .code64
trampoline_64:
    mov rax, offset ap_entry
    jmp rax
    .balign 8
trampoline_gdt:
    .quad 0
    .quad 0x00af9b000000ffff
trampoline_end:

    .text
    .code64
ap_entry:
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov rax, [rip + AP_ROOT]
    mov cr3, rax
    xor eax, eax
    cpuid
    cmp eax, 0xb
    jb 2f
    mov eax, 0xb
    xor ecx, ecx
    cpuid
    test ebx, ebx
    jz 2f
    mov r8d, edx
    jmp 3f
2:  mov eax, 1
    cpuid
    shr ebx, 24
    mov r8d, ebx
3:  xor ecx, ecx
    lea rsi, [rip + AP_APIC_IDS]
4:  cmp rcx, [rip + AP_COUNT]
    jae 6f
    cmp [rsi + rcx * 4], r8d
    je 5f
    inc ecx
    jmp 4b
5:  lea rsi, [rip + AP_STACKS]
    mov rsp, [rsi + rcx * 8]
    mov edi, ecx
    xor ebp, ebp
    call {main}
    // Not one of ours: stays parked.
6:  cli
    hlt
    jmp 6b
    "#,
    trampoline = const TRAMPOLINE,
    main = sym ap_main,
);

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
}

/// Makes areas for all CPUs but the first, and stacks for all.
///
/// # Safety
/// Once, on the boot CPU, alone, while early memory lasts.
pub unsafe fn prepare() {
    // SAFETY: boot CPU, alone, in this block.
    unsafe {
        *AP_ROOT.get_mut() = tables::kernel_root();
        *AP_COUNT.get_mut() = u64::from(topology::cpus());
        AP_STACKS.get_mut()[0] = stack::boot_stack(0);
        for cpu in 1..topology::cpus() {
            percpu::allocate(cpu, u64::MAX);
            AP_APIC_IDS.get_mut()[cpu as usize] = topology::apic_id(cpu);
            AP_STACKS.get_mut()[cpu as usize] = stack::boot_stack(cpu);
        }
        // The boot CPU's id must not be found.
        AP_APIC_IDS.get_mut()[0] = u32::MAX;
    }
}

/// The top of the boot CPU's own kernel stack.
pub fn boot_cpu_stack() -> usize {
    AP_STACKS.get()[0]
}

/// Starts all other CPUs and waits until they are ready; each then runs `entry`, as does nobody else.
/// Interrupts must be on, so that the wait costs nothing.
///
/// # Safety
/// Once, on the boot CPU, after [`prepare`].
pub unsafe fn start(entry: fn() -> !) {
    let count = topology::cpus();
    if count == 1 {
        return;
    }
    let code = &raw const trampoline_start;
    let size = &raw const trampoline_end as usize - code as usize;
    ENTRY.store(entry as usize, Ordering::Release);
    // SAFETY: the page is conventional memory outside the allocator, seen through the direct map; the code fits a page.
    unsafe {
        core::ptr::copy_nonoverlapping(code, direct_map(TRAMPOLINE), size);
        apic::start_others((TRAMPOLINE >> 12) as u8);
    }
    let deadline = time::now() + PATIENCE_NS;
    let mut again = time::now() + 200_000_000;
    while percpu::online() < count {
        let now = time::now();
        if now > deadline {
            panic!("only {} of {count} CPUs have started", percpu::online());
        }
        if now > again {
            // A lost STARTUP: those that run ignore another.
            // SAFETY: as above.
            unsafe { apic::start_others_again((TRAMPOLINE >> 12) as u8) };
            again = now + 1_000_000_000;
        }
        // Sleep rather than spin: under emulation the others may need this very host CPU.
        // The timer is armed with interrupts off: its interrupt must not come before the HLT that it is to end.
        super::super::idle_wait(|| {
            time::set_deadline(now + 500_000);
            percpu::online() >= count
        });
    }
    time::set_deadline(u64::MAX);
}

extern "C" fn ap_main(cpu: u32) -> ! {
    // SAFETY: this CPU's own, once, in the order of the boot CPU.
    unsafe {
        features::enable();
        percpu::load(cpu);
        trap::load();
        apic::init_cpu();
        kvm::init_cpu();
    }
    percpu::set_online();
    let entry = ENTRY.load(Ordering::Acquire);
    // SAFETY: the boot CPU stored a `fn() -> !` before it started this one.
    let entry: fn() -> ! = unsafe { core::mem::transmute::<usize, fn() -> !>(entry) };
    entry()
}
