//! A QEMU plugin that measures a kernel from outside, by windows that the measured program opens and closes with marker
//! instructions that are NOPs everywhere else.
//!
//! - instruction mode: exact counts of executed instructions, user and kernel apart, and of those that cost more than others (`instructions`);
//! - line mode: cache lines that CPUs take from each other, and lines that they share (`lines`);
//! - stack mode: instructions by the calls that led to them (`stacks`);
//! - transfer mode: lines that CPUs take from each other by the calls that led there (`stacks::transfers`);
//! - block mode: which of the kernel's code was executed, and by which program first (`blocks`).
//!
//! `qemu` meets QEMU and holds all `unsafe` but that of the directory's table; the rest is plain code with its tests beside it. `qemu` is left out of
//! the test program, because QEMU's functions exist only inside QEMU.

#[cfg_attr(test, allow(dead_code))]
mod blocks;
#[cfg_attr(test, allow(dead_code))]
mod code;
mod instructions;
#[cfg_attr(test, allow(dead_code))]
mod lines;
#[cfg_attr(test, allow(dead_code))]
mod options;
#[cfg(not(test))]
mod qemu;
#[cfg_attr(test, allow(dead_code))]
mod stacks;
#[cfg_attr(test, allow(dead_code))]
mod window;
