//! What a thread has called and not left yet, in its program and in the kernel.
//!
//! A thread is known by its kernel stack. A dead one's stack is given to a new one, so a thread goes on only where it was left: behind the call that the
//! stack was left by. One that begins elsewhere on the same stack is another.
#![forbid(unsafe_code)]

use super::flow::{End, Placed};
use super::program;
use super::tree::{Node, Program};

/// Where the kernel's stacks lie, and bits of an address within the slot of one (kernel/src/arch/x86_64/memory/mod.rs, kernel/src/arch/x86_64/stack.rs). Those for exceptions lie elsewhere.
const STACKS: std::ops::Range<u64> = 0xffff_d000_0000_0000..0xffff_d080_0000_0000;
const STACK_BITS: u32 = 15;

/// Which of the kernel's stacks this stack pointer is in; none: one for exceptions, or a program's.
pub fn stack_of(sp: u64) -> Option<u64> {
    // The first byte above a stack is its own.
    let last = sp.wrapping_sub(1);
    STACKS.contains(&last).then_some(last >> STACK_BITS)
}

/// A block that something else came after.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    pub block: Placed,
    /// It had come to its end.
    pub whole: bool,
}

impl Left {
    pub fn ends(&self) -> End {
        self.block.ends()
    }

    /// Has it called what begins at `next`?
    pub fn calls(&self, next: u64) -> bool {
        self.whole && self.block.calls(next)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub node: Node,
    /// The stack pointer when it began.
    pub sp: u64,
    /// Where it returns to, if it was called.
    pub returns_to: u64,
    pub interrupted: Option<Left>,
}

/// What runs on one of the kernel's stacks.
#[derive(Debug, Default)]
pub struct Thread {
    /// Which of them; 0: not known yet.
    pub stack: u64,
    pub program: Program,
    pub user: Vec<Frame>,
    pub kernel: Vec<Frame>,
    /// Where the kernel's frames begin.
    pub base: Node,
    /// What the program executed last when it entered the kernel.
    pub left: Option<Left>,
    pub asked: Option<program::Asked>,
    pub files: program::Files,
}

impl Thread {
    /// One that begins.
    pub fn on(stack: u64) -> Thread {
        Thread { stack, ..Thread::default() }
    }

    /// Does it go on at `pc`, after it was left within a call?
    pub fn goes_on(&self, pc: u64, sp: u64) -> bool {
        let returns = |frame: &Frame| frame.sp == sp.wrapping_sub(8) && frame.returns_to == pc;
        self.kernel.iter().rev().any(returns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plugin is no part of the kernel's build, so it reads its source.
    #[test]
    fn stacks_lie_where_the_kernel_has_them() {
        let memory = include_str!("../../../kernel/src/arch/x86_64/memory/mod.rs");
        let stack = include_str!("../../../kernel/src/arch/x86_64/stack.rs");
        assert!(
            memory.contains("const STACKS: usize = 0xffff_d000_0000_0000;")
                && STACKS.start == 0xffff_d000_0000_0000
        );
        assert!(stack.contains("const SLOT: usize = 32 * 1024;") && 1 << STACK_BITS == 32 * 1024);
        assert!(
            stack.contains("const SLOTS: usize = (1 << 39) / SLOT;") && STACKS.end - STACKS.start == 1 << 39
        );
    }
}
