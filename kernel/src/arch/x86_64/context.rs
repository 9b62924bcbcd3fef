//! Switching between kernel stacks. A context is a stack pointer: what the C calling convention lets a callee keep
//! (RBX, RBP, R12 to R15) lies on the stack itself.

use core::arch::{global_asm, naked_asm};

use super::stack::KernelStack;

/// A thread that is not running, from the processor's point of view.
#[repr(C)]
pub struct Context {
    sp: usize,
}

impl Context {
    /// A place for a thread that runs now; `switch` fills it.
    pub const fn running() -> Context {
        Context { sp: 0 }
    }

    /// A thread that will call `entry(arg)` on `stack`, with interrupts off, when it is first switched to. The frame of
    /// a user program at the top of the stack stays free.
    pub fn new(stack: &KernelStack, entry: extern "C" fn(usize) -> !, arg: usize) -> Context {
        let top = super::user_regs(stack) as usize;
        let words = [
            0,              // r15
            0,              // r14
            arg,            // r13
            entry as usize, // r12
            0,              // rbp: ends backtraces
            0,              // rbx
            context_start as *const () as usize,
            0,
        ];
        let sp = top - size_of_val(&words);
        for (i, word) in words.into_iter().enumerate() {
            // SAFETY: inside the stack, which belongs to a thread that has not run.
            unsafe { ((sp + i * 8) as *mut usize).write(word) };
        }
        Context { sp }
    }
}

/// Stores the running thread in `prev` and continues `next`. Returns when somebody switches to `prev`, maybe on another
/// CPU.
///
/// # Safety
/// Interrupts off. `prev` is the running thread's context, `next` one that nobody runs, on a stack that is alive.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(prev: *mut Context, next: *const Context) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, [rsi]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    );
}

global_asm!(
    r#"
    .text
context_start:
    mov rdi, r13
    call r12
    ud2
    "#
);

unsafe extern "C" {
    fn context_start();
}
