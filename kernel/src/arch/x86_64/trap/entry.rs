//! The way in and out of the kernel (SDM vol. 3, 6.8.8 SYSCALL and SYSRET; 7.12 to 7.14 interrupts in 64-bit mode).
//!
//! Every entry leaves a full [`UserRegs`](super::frame::UserRegs) on the stack, whose lowest word RSP points at.
//! From user mode that is the top of the thread's kernel stack.
//!
//! GS discipline: in user mode GS base is the program's and KERNEL_GS_BASE this CPU's area; SWAPGS on every crossing,
//! decided by the saved CS. NMI, machine check, double fault and debug can arrive between a crossing and its SWAPGS, so
//! they run on stacks of their own whose topmost word is the CPU's area: they put that into GS base and put back
//! whatever was there.
//!
//! AC (which lifts SMAP) and DF can be set by a program: SYSCALL clears them through FMASK, the other entries do it
//! themselves. CLAC is replaced by a NOP on a processor without SMAP (`patch_smap`).

use core::arch::global_asm;

use super::super::cpu::gdt::{USER_CODE, USER_DATA};
use super::super::cpu::percpu::{KERNEL_STACK, USER_SP};
use super::frame::{CS, RIP, SIZE, VECTOR, VECTOR_SYSCALL, VECTOR_SYSRET};

global_asm!(
    r#"
    .macro SAVE_REST rax=rax        // everything below the vector
        push rdi
        push rsi
        push rdx
        push rcx
        push \rax
        push r8
        push r9
        push r10
        push r11
        push rbx
        push rbp
        push r12
        push r13
        push r14
        push r15
    .endm
    .macro RESTORE_REST
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbp
        pop rbx
        pop r11
        pop r10
        pop r9
        pop r8
        pop rax
        pop rcx
        pop rdx
        pop rsi
        pop rdi
    .endm
    // An exception or interrupt whose error code and vector are pushed; \user and \kernel: who serves it, by the mode it came from.
    .macro EXCEPTION user, kernel
        SAVE_REST
        cld
        CLEAR_AC
        mov rdi, rsp
        test byte ptr [rsp + {cs}], 3
        jz 2f
        swapgs
        xor ebp, ebp
        call \user
        jmp return_full
    2:  call \kernel
        RESTORE_REST
        add rsp, 16
        iretq
    .endm
    // A page fault; \user: who serves one of user mode.
    .macro PAGE_FAULT user
        push 14
        EXCEPTION \user, {kernel_fault}
    .endm
    .macro CLEAR_AC
    991:
        clac
        .pushsection .smap_sites, "a"
        .quad 991b
        .popsection
    .endm

    // Tools that name addresses take functions alone.
    .irp name, syscall_entry, return_full, page_fault_entry, planted_page_fault_entry, common_entry, paranoid_entry, vector_stubs
    .type \name, @function
    .endr

    .text
    .balign 64
    .global syscall_entry
syscall_entry:
    swapgs
    mov gs:[{user_sp}], rsp
    mov rsp, gs:[{kernel_stack}]
    push {user_data}
    push qword ptr gs:[{user_sp}]
    push r11
    push {user_code}
    push rcx
    push rax
    push {vector_syscall}
    SAVE_REST rax=-38               // -ENOSYS, for a number that nobody takes
    xor ebp, ebp                    // ends backtraces
    mov rdi, rsp
    sti
    call {syscall}                  // returns with interrupts off
    cmp qword ptr [rsp + {vector}], {vector_syscall}
    jne 7f
    // The frame is as SYSCALL made it: RBX, RBP and R12 to R15 still hold the program's values but for RBP.
6:  mov rcx, [rsp + {rip}]
    bt rcx, 47
    jc return_full
    mov rbp, [rsp + 4 * 8]
    mov r10, [rsp + 7 * 8]
    mov r9,  [rsp + 8 * 8]
    mov r8,  [rsp + 9 * 8]
    mov rax, [rsp + 10 * 8]
    mov rdx, [rsp + 12 * 8]
    mov rsi, [rsp + 13 * 8]
    mov rdi, [rsp + 14 * 8]
    mov r11, [rsp + 19 * 8]
    mov rsp, [rsp + 20 * 8]
    swapgs
    sysretq
    // After sigreturn they do not.
7:  cmp qword ptr [rsp + {vector}], {vector_sysret}
    jne return_full
    mov r15, [rsp]
    mov r14, [rsp + 1 * 8]
    mov r13, [rsp + 2 * 8]
    mov r12, [rsp + 3 * 8]
    mov rbx, [rsp + 5 * 8]
    jmp 6b

    // Interrupts off, a whole user frame at RSP.
    .global return_full
return_full:
    RESTORE_REST
    add rsp, 16
    swapgs
    iretq

    // Page faults have an entry of their own, the shortest.
    .balign 64
    .global page_fault_entry
page_fault_entry:
    PAGE_FAULT {user_fault}

    // The same with a counter that all CPUs share, see `plant`.
    .balign 64
    .global planted_page_fault_entry
planted_page_fault_entry:
    PAGE_FAULT {planted_fault}

    // Other exceptions and interrupts. The stubs below have pushed an error code (or 0) and the vector.
    .balign 64
common_entry:
    EXCEPTION {user_trap}, {kernel_trap}

    // NMI, machine check, double fault, debug: on an exception stack, GS unknown.
    .balign 64
paranoid_entry:
    SAVE_REST
    cld
    CLEAR_AC
    mov ecx, 0xc0000101             // IA32_GS_BASE
    rdmsr
    shl rdx, 32
    or rax, rdx
    mov r12, rax                    // what GS base was
    mov rax, [rsp + {size}]         // this CPU's area
    mov rdx, rax
    shr rdx, 32
    wrmsr
    mov rdi, rsp
    test byte ptr [rsp + {cs}], 3
    jz 2f
    cmp qword ptr [rsp + {vector}], 1
    je debug_from_user
2:  call {paranoid_trap}
    mov ecx, 0xc0000101
    mov rax, r12
    mov rdx, r12
    shr rdx, 32
    wrmsr
    RESTORE_REST
    add rsp, 16
    iretq

    // A debug trap of a program may sleep and schedule: move its frame to the thread's kernel stack. The program's GS
    // base goes where SWAPGS would have put it.
debug_from_user:
    mov ecx, 0xc0000102             // IA32_KERNEL_GS_BASE
    mov rax, r12
    mov rdx, r12
    shr rdx, 32
    wrmsr
    mov rsi, rsp
    mov rdi, gs:[{kernel_stack}]
    sub rdi, {size}
    mov rdx, rdi
    mov ecx, {size} / 8
    rep movsq
    mov rsp, rdx
    mov rdi, rsp
    xor ebp, ebp
    call {user_trap}
    jmp return_full

    // One stub per vector, 16 bytes each.
    .balign 16
    .global vector_stubs
vector_stubs:
    .set v, 0
    .rept 256
    .balign 16
    .if (v == 8) || (v >= 10 && v <= 14) || (v == 17) || (v == 21) || (v == 29) || (v == 30)
    .else
        push 0
    .endif
        .byte 0x68                  // push imm32: the assembler would take a symbol for an address
        .long v
    .if (v == 1) || (v == 2) || (v == 8) || (v == 18)
        jmp paranoid_entry
    .else
        jmp common_entry
    .endif
    .set v, v + 1
    .endr
    "#,
    user_sp = const USER_SP,
    kernel_stack = const KERNEL_STACK,
    user_data = const USER_DATA,
    user_code = const USER_CODE,
    vector_syscall = const VECTOR_SYSCALL,
    vector_sysret = const VECTOR_SYSRET,
    vector = const VECTOR,
    rip = const RIP,
    cs = const CS,
    size = const SIZE,
    syscall = sym super::syscall,
    user_fault = sym super::user_fault,
    planted_fault = sym super::plant::planted_fault,
    kernel_fault = sym super::kernel_fault,
    user_trap = sym super::user_trap,
    kernel_trap = sym super::kernel_trap,
    paranoid_trap = sym super::paranoid_trap,
);

unsafe extern "C" {
    pub fn syscall_entry();
    pub fn page_fault_entry();
    pub fn planted_page_fault_entry();
    static vector_stubs: u8;
    fn return_full() -> !;
    static __smap_sites_start: u64;
    static __smap_sites_end: u64;
}

/// The address of a vector's stub.
pub fn stub(vector: usize) -> usize {
    &raw const vector_stubs as usize + vector * 16
}

/// Replaces STAC and CLAC by NOPs where the processor lacks SMAP (there they are invalid instructions).
///
/// # Safety
/// On the boot CPU, alone, while text is still writable (first page tables).
pub unsafe fn patch_smap() {
    let mut site = &raw const __smap_sites_start;
    while site < &raw const __smap_sites_end {
        // SAFETY: the linker gathered the addresses of three-byte instructions; text is writable, as the caller says.
        unsafe {
            (site.read() as *mut [u8; 3]).write_volatile([0x0f, 0x1f, 0x00]);
            site = site.add(1);
        }
    }
}

/// Leaves the kernel with `regs`, which lie at the top of the current kernel stack.
///
/// # Safety
/// Interrupts off; `regs` is the frame at the top of the current thread's kernel stack, and valid for IRET.
pub unsafe fn return_to_user(regs: *const super::UserRegs) -> ! {
    // SAFETY: as the caller says; everything below the frame is abandoned.
    unsafe {
        core::arch::asm!("mov rsp, {}", "jmp {}", in(reg) regs, sym return_full, options(noreturn));
    }
}
