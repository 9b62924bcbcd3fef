//! The PVH entry (Xen's x86 HVM direct boot ABI, which QEMU's `-kernel` speaks): 32-bit protected mode, paging off,
//! flat segments, EBX = physical address of `hvm_start_info`.
//!
//! Builds the first page tables in `.boot.bss`: the low 4 GiB as they are, again at the direct map's base, and the
//! low 1 GiB at -2 GiB for the kernel image; then 64-bit mode and `kernel_main`. The identity mapping goes when the
//! final tables are loaded (`memory::tables`); the first tables stay for the other CPUs' way up.

use core::arch::global_asm;

/// Size of the boot CPU's first stack; it moves to a stack with a guard page as soon as frames can be had.
const BOOT_STACK: usize = 64 * 1024;

#[repr(C, align(4096))]
struct BootStack([u8; BOOT_STACK]);

#[unsafe(no_mangle)]
static mut BOOT_STACK_MEMORY: BootStack = BootStack([0; BOOT_STACK]);

global_asm!(
    r#"
    // XEN_ELFNOTE_PHYS32_ENTRY (18): the physical address of the 32-bit entry.
    .section .note.Xen, "a", @note
    .balign 4
    .long 4
    .long 8
    .long 18
    .asciz "Xen"
    .quad boot_entry

    .section .boot.bss, "aw", @nobits
    .balign 4096
    .global boot_pml4
boot_pml4:      .skip 4096
boot_pdpt:      .skip 4096
boot_pdpt_high: .skip 4096
boot_pd:        .skip 4096 * 4
                .skip 64
boot_stack_low:

    .section .boot.text, "ax", @progbits
    .code32
    .global boot_entry
boot_entry:
    cli
    cld
    // Upper levels. Present | writable.
    mov dword ptr [boot_pml4], offset boot_pdpt + 3
    mov dword ptr [boot_pml4 + 256 * 8], offset boot_pdpt + 3
    mov dword ptr [boot_pml4 + 511 * 8], offset boot_pdpt_high + 3
    mov dword ptr [boot_pdpt], offset boot_pd + 3
    mov dword ptr [boot_pdpt + 8], offset boot_pd + 0x1003
    mov dword ptr [boot_pdpt + 16], offset boot_pd + 0x2003
    mov dword ptr [boot_pdpt + 24], offset boot_pd + 0x3003
    mov dword ptr [boot_pdpt_high + 510 * 8], offset boot_pd + 3
    // 2048 large pages: present | writable | large.
    mov edi, offset boot_pd
    mov eax, 0x83
    mov ecx, 2048
2:  mov [edi], eax
    mov dword ptr [edi + 4], 0
    add edi, 8
    add eax, 0x200000
    dec ecx
    jnz 2b
    // PAE, root, long mode with NX, paging with write protection (SDM vol. 3, 11.8.5).
    mov eax, cr4
    or eax, 0x20
    mov cr4, eax
    mov eax, offset boot_pml4
    mov cr3, eax
    mov ecx, 0xc0000080
    rdmsr
    or eax, 0x900
    wrmsr
    mov eax, cr0
    or eax, 0x80010000
    mov cr0, eax
    lgdt [boot_gdt_pointer]
    mov esp, offset boot_stack_low
    push 8
    mov eax, offset boot_long_mode
    push eax
    retf
    .code64
boot_long_mode:
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov fs, eax
    mov gs, eax
    mov rsp, offset BOOT_STACK_MEMORY + {stack}
    xor ebp, ebp
    mov edi, ebx
    mov rax, offset kernel_main
    call rax
    ud2

    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff
boot_gdt_pointer:
    .word boot_gdt_pointer - boot_gdt - 1
    .long boot_gdt

    .text
    .code64
    "#,
    stack = const BOOT_STACK,
);
