//! Stack mode: every instruction from `Marker::Begin` to `Marker::End`, on all CPUs, by the calls that led to it.
//!
//! QEMU adds each instruction to its CPU's number before it executes, and calls back at the beginning of each block. What the number has grown by since the
//! last block belongs to that block, where its calls were then; so the counts' sum is the growth, whatever a block was left by.
//!
//! How a block follows another says whether it was called, returned to, or interrupted (`flow`). A frame is pushed with the stack pointer at the callee's
//! first instruction, and popped when the stack pointer is above: a return, a long jump and an exception that unwinds need no word of their own. Each of the
//! kernel's stacks has its frames and those of the program that entered the kernel on it: a thread (`threads`). What runs on a stack for exceptions is counted where it
//! came between.
//!
//! In transfer mode calls are followed alike, and lines that CPUs take from each other are counted instead (`transfers`).
//!
//! What a program is, and where its files lie, is read from what it is given when it is executed, and from its calls of open(2) and mmap(2) (`program`).
//!
//! Lock order: a CPU's `Walker`, then `Shared`.
#![forbid(unsafe_code)]

pub mod flow;
mod forks;
mod program;
mod threads;
pub mod transfers;
pub mod tree;

use flow::{Block, End, Placed};
use forks::{Fork, Forks};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use threads::{Frame, Left, Thread, stack_of};
use transfers::{Sites, Transfers};
use tree::{Executed, Node, Tree};

use crate::code;

/// Frames of one stack that are told apart.
const DEEPEST: usize = 250;
/// A register that stack mode reads, in the order of `NAMES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    Rax,
    Rsp,
    Rdi,
    Rsi,
    Rdx,
    R8,
    R9,
    Rbx,
    Rbp,
    R12,
    R13,
    R14,
    R15,
    Cr3,
    Rip,
}

/// What QEMU calls them.
pub const NAMES: [&std::ffi::CStr; 15] = [
    c"rax", c"rsp", c"rdi", c"rsi", c"rdx", c"r8", c"r9", c"rbx", c"rbp", c"r12", c"r13", c"r14", c"r15",
    c"cr3", c"rip",
];

/// The CPU that a callback is of.
pub trait Machine {
    fn register(&mut self, register: Register) -> u64;
    /// The guest's memory as the CPU sees it; none where it is not mapped.
    fn memory(&mut self, address: u64, bytes: usize) -> Option<Vec<u8>>;
}

/// A hash of numbers that no one chooses to collide.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Numbers<V> = HashMap<(Node, u64), V, BuildHasherDefault<Mix>>;

/// What all CPUs share.
#[derive(Default)]
pub struct Shared {
    tree: Tree,
    /// Those that no CPU runs.
    threads: HashMap<u64, Thread>,
    forks: Forks,
    sites: Sites,
}

/// A CPU's way through the code.
#[derive(Default)]
pub struct Walker {
    counts: Numbers<u64>,
    children: Numbers<Node>,
    thread: Thread,
    /// What of the kernel an exception with a stack of its own has interrupted.
    aside: Option<Left>,
    node: Node,
    last: Option<Placed>,
    /// The CPU's number of instructions at the last block, and when counting began, which may be within that block.
    counted: u64,
    began: u64,
    open: bool,
    /// What was counted between.
    all: u64,
    pub transfers: Transfers,
}

/// The page table in use. The bits below are the processor's number for it, another one on each CPU.
fn table(machine: &mut impl Machine) -> u64 {
    machine.register(Register::Cr3) & 0x000f_ffff_ffff_f000
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Walker {
    /// Counting begins, at this number of instructions.
    pub fn open(&mut self, now: u64) {
        (self.began, self.open) = (now, true);
    }

    /// Counting ends.
    pub fn close(&mut self, now: u64) {
        if self.open {
            self.count(now);
            (self.open, self.all) = (false, now.wrapping_sub(self.began));
        }
    }

    /// What this CPU, which is about to execute a program's code, executes is `file`.
    pub fn is_program(&mut self, shared: &Mutex<Shared>, machine: &mut impl Machine, file: &str) {
        let executed = Executed { file: file.to_owned(), ..Executed::default() };
        self.thread.program = lock(shared).tree.executed(table(machine), executed);
        self.node = self.root(shared);
    }

    fn count(&mut self, now: u64) -> u64 {
        let grown = now.wrapping_sub(self.counted);
        self.counted = now;
        let counts = if self.open { grown.min(now.wrapping_sub(self.began)) } else { 0 };
        if counts > 0 {
            *self.counts.entry((self.node, self.last.map_or(0, |last| last.start()))).or_default() += counts;
        }
        grown
    }

    /// A block is about to be executed; `now`: how many instructions the CPU has executed.
    pub fn block(
        &mut self,
        block: &'static Block,
        now: u64,
        shared: &Mutex<Shared>,
        machine: &mut impl Machine,
    ) {
        let grown = self.count(now);
        let block = self.place(block, machine);
        let Some(last) = self.last.replace(block) else {
            return self.begin(block, shared, machine);
        };
        let left = Left { block: last, whole: grown >= last.block.instructions };
        match (last.in_kernel(), block.in_kernel()) {
            (false, true) => self.enter(left, block, shared, machine),
            (true, false) => self.leave(block, shared, machine),
            (true, true) => self.follow_in_kernel(left, block, shared, machine),
            (false, false) => self.follow(left, block, shared, machine),
        }
    }

    /// Where a block is executed, of which QEMU may have the addresses in another program.
    fn place(&self, block: &'static Block, machine: &mut impl Machine) -> Placed {
        let shift = match self.last {
            _ if block.in_kernel() => 0,
            Some(last) if !last.in_kernel() => {
                let here = Placed { block: last.block, shift: 0 };
                let goes_on = matches!(last.ends(), End::Plain | End::Jump(_)) && here.leads_to(block.start);
                if goes_on { last.shift } else { machine.register(Register::Rip).wrapping_sub(block.start) }
            }
            _ => machine.register(Register::Rip).wrapping_sub(block.start),
        };
        Placed { block, shift }
    }

    fn begin(&mut self, block: Placed, shared: &Mutex<Shared>, machine: &mut impl Machine) {
        if block.in_kernel() {
            self.base(shared);
            self.look_at_stack(shared, machine);
        } else {
            self.find_program(block, machine.register(Register::Rsp), shared, machine);
        }
    }

    /// Within a program, or within what a block of the kernel leads to by itself.
    fn follow(&mut self, left: Left, block: Placed, shared: &Mutex<Shared>, machine: &mut impl Machine) {
        if !left.whole {
            return;
        }
        let called = left.calls(block.start());
        if !called && !matches!(left.ends(), End::Return | End::Indirect) {
            return;
        }
        let kernel = left.block.in_kernel();
        let sp = if kernel {
            let Some(sp) = self.look_at_stack(shared, machine) else { return };
            sp
        } else {
            machine.register(Register::Rsp)
        };
        if called {
            self.push(left.block.end(), sp, None, shared);
        } else {
            self.pop(sp, kernel);
            self.at_top(shared);
        }
    }

    fn follow_in_kernel(
        &mut self,
        left: Left,
        block: Placed,
        shared: &Mutex<Shared>,
        machine: &mut impl Machine,
    ) {
        if left.ends() == End::Leave && left.whole && !block.block.is_entry() {
            let Some(sp) = self.look_at_stack(shared, machine) else { return };
            let interrupted = self.pop(sp, true);
            if let Some(interrupted) = self.aside.take().or(interrupted) {
                self.at_top(shared);
                // What the interrupt came between.
                self.follow(interrupted, block, shared, machine);
            } else {
                self.at_top(shared);
            }
            return;
        }
        let goes_elsewhere = matches!(left.ends(), End::Call(_) | End::Return | End::Indirect);
        let expected = if left.whole && goes_elsewhere {
            matches!(left.ends(), End::Return | End::Indirect) || left.calls(block.start())
        } else {
            left.block.leads_to(block.start())
        };
        if block.block.is_entry() || !expected {
            block.block.entry.store(true, Relaxed);
            let Some(sp) = self.look_at_stack(shared, machine) else {
                self.aside.get_or_insert(left);
                return;
            };
            self.aside = None;
            // The place itself, as that of a call is taken to be behind it.
            self.push(left.block.start().wrapping_add(1), sp, Some(left), shared);
        } else {
            self.follow(left, block, shared, machine);
        }
    }

    /// From a program into the kernel.
    fn enter(&mut self, left: Left, block: Placed, shared: &Mutex<Shared>, machine: &mut impl Machine) {
        self.thread.left = Some(left);
        self.thread.kernel.clear();
        self.thread.base = self.child(self.node, left.block.start(), shared);
        self.node = self.thread.base;
        self.thread.asked = None;
        if left.ends() == End::Syscall && left.whole {
            // The kernel has no stack yet.
            let number = machine.register(Register::Rax);
            if let Some(sp) = forks::forks(number, machine) {
                let user = &self.thread.user;
                let user = if sp == machine.register(Register::Rsp) { user.clone() } else { Vec::new() };
                let fork = Fork { program: self.thread.program, user };
                lock(shared).forks.begins(left.block.end(), sp, fork, machine);
            } else {
                self.thread.asked = self.thread.files.asked(number, machine);
            }
        } else {
            block.block.entry.store(true, Relaxed);
            self.look_at_stack(shared, machine);
        }
    }

    /// From the kernel to a program.
    fn leave(&mut self, block: Placed, shared: &Mutex<Shared>, machine: &mut impl Machine) {
        let sp = machine.register(Register::Rsp);
        let left = self.thread.left.take();
        let asked = self.thread.asked.take();
        self.thread.kernel.clear();
        self.pop(sp, false);
        let back = left.is_some_and(|left| left.ends() == End::Syscall && left.block.end() == block.start());
        if back {
            let mapping = asked.and_then(|asked| self.thread.files.answered(asked, machine));
            if let Some(mapping) = mapping {
                lock(shared).tree.mapped(self.thread.program, mapping);
            }
        } else if left.is_none_or(|left| left.ends() == End::Syscall)
            && let Some(executed) = program::executed(sp, block.start(), machine)
        {
            self.thread.user.clear();
            self.thread.files = program::Files::default();
            let table = table(machine);
            self.thread.program = lock(shared).tree.executed(table, executed);
        }
        if self.thread.program == 0 {
            self.find_program(block, sp, shared, machine);
        }
        self.node = self.user_top(shared);
        if let Some(left) = left.filter(|left| left.calls(block.start())) {
            self.push(left.block.end(), sp, None, shared);
        }
    }

    /// Which program a thread is of that comes from nowhere: the other thread of a call that returns twice, or one that was there before.
    fn find_program(&mut self, block: Placed, sp: u64, shared: &Mutex<Shared>, machine: &mut impl Machine) {
        let table = table(machine);
        let mut state = lock(shared);
        let Shared { tree, forks, .. } = &mut *state;
        self.thread.program = match forks.returns(block.start(), sp, machine) {
            Some(Fork { program, user }) => {
                self.thread.user = user;
                tree.copied(table, program);
                program
            }
            None => tree.with_table(table),
        };
        drop(state);
        self.node = self.user_top(shared);
    }

    /// Finds out which of the kernel's stacks is in use; another one than before is another thread. None: one for exceptions, or a program's.
    fn look_at_stack(&mut self, shared: &Mutex<Shared>, machine: &mut impl Machine) -> Option<u64> {
        let sp = machine.register(Register::Rsp);
        let stack = stack_of(sp)?;
        if stack == self.thread.stack {
            return Some(sp);
        }
        if self.thread.stack == 0 {
            self.thread.stack = stack;
            return Some(sp);
        }
        let pc = self.last.map_or(0, |last| last.start());
        {
            let mut state = lock(shared);
            let next = state.threads.remove(&stack).filter(|thread| thread.goes_on(pc, sp));
            let old = std::mem::replace(&mut self.thread, next.unwrap_or_else(|| Thread::on(stack)));
            state.threads.insert(old.stack, old);
        }
        if self.thread.kernel.is_empty() {
            self.base(shared);
        }
        self.pop(sp, true);
        self.at_top(shared);
        Some(sp)
    }

    /// The kernel runs, for itself as far as is known.
    fn base(&mut self, shared: &Mutex<Shared>) {
        self.thread.base = self.child(0, 0, shared);
        self.node = self.thread.base;
    }

    fn push(&mut self, place: u64, sp: u64, interrupted: Option<Left>, shared: &Mutex<Shared>) {
        let kernel = code::in_kernel(place);
        // What is below is over.
        self.pop(sp.wrapping_add(1), kernel);
        let top = if kernel { self.kernel_top() } else { self.user_top(shared) };
        let frames = if kernel { &self.thread.kernel } else { &self.thread.user };
        if frames.len() >= DEEPEST {
            return;
        }
        let node = self.child(top, place, shared);
        let frames = if kernel { &mut self.thread.kernel } else { &mut self.thread.user };
        let returns_to = interrupted.filter(|left| left.whole && matches!(left.ends(), End::Call(_)));
        let returns_to = returns_to.map_or(place, |left| left.block.end());
        frames.push(Frame { node, sp, returns_to, interrupted });
        self.node = node;
    }

    /// Takes frames off that the stack pointer is above; says what the outermost of them had interrupted.
    fn pop(&mut self, sp: u64, kernel: bool) -> Option<Left> {
        let frames = if kernel { &mut self.thread.kernel } else { &mut self.thread.user };
        let mut interrupted = None;
        while let Some(frame) = frames.pop_if(|frame| frame.sp < sp) {
            interrupted = frame.interrupted;
        }
        interrupted
    }

    fn at_top(&mut self, shared: &Mutex<Shared>) {
        let kernel = self.last.is_some_and(|last| last.in_kernel());
        self.node = if kernel { self.kernel_top() } else { self.user_top(shared) };
    }

    fn kernel_top(&self) -> Node {
        self.thread.kernel.last().map_or(self.thread.base, |frame| frame.node)
    }

    fn user_top(&mut self, shared: &Mutex<Shared>) -> Node {
        match self.thread.user.last() {
            // Frames of a program that it was before it was executed anew would be below another root.
            Some(frame) => frame.node,
            None => self.root(shared),
        }
    }

    fn root(&mut self, shared: &Mutex<Shared>) -> Node {
        self.child(0, u64::from(self.thread.program), shared)
    }

    fn child(&mut self, node: Node, place: u64, shared: &Mutex<Shared>) -> Node {
        *self.children.entry((node, place)).or_insert_with(|| lock(shared).tree.child(node, place))
    }
}

/// The file: how many instructions there were, who ran, the tree, and what was counted where in it.
pub fn document(walkers: &mut [impl std::ops::DerefMut<Target = Walker>], shared: &Mutex<Shared>) -> String {
    let all: u64 = walkers.iter().map(|walker| walker.all).sum();
    let mut text = format!(
        "{{\"format\":\"darter-lines/1\",\"mode\":\"stacks\",\"instructions\":{all},{},\"counts\":[",
        lock(shared).tree.fields()
    );
    let mut counts: Vec<((Node, u64), u64)> =
        walkers.iter_mut().flat_map(|walker| std::mem::take(&mut walker.counts)).collect();
    counts.sort_unstable();
    for (index, ((node, place), count)) in counts.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}[{node},{place},{count}]");
    }
    text + "]}\n"
}

#[cfg(test)]
mod tests;
