//! A QEMU plugin that measures a kernel from outside, by windows that the measured program opens and closes with marker
//! instructions that are NOPs everywhere else.
//!
//! - instruction mode: exact counts of executed instructions, user and kernel apart (`instructions`), and of those that cost more than others (`expensive`);
//! - line mode: cache lines that CPUs take from each other (`directory`), and lines that more than one CPU uses while one of them
//!   writes (`recorder`, `sharing`), with what the guest's memory says of their pages (`guest`);
//! - stack mode: instructions by the calls that led to them (`stacks`);
//! - block mode: which of the kernel's code was executed, and by which program first (`blocks`).
//!
//! `hooks`, `walks`, `reading` and `abi` meet QEMU and hold all `unsafe`; the rest is plain code with its tests beside it. They are left out of
//! the test program, because QEMU's functions exist only inside QEMU.

#[cfg(not(test))]
mod abi;
#[cfg_attr(test, allow(dead_code))]
mod blocks;
#[cfg_attr(test, allow(dead_code))]
mod cache;
#[cfg_attr(test, allow(dead_code))]
mod code;
#[cfg_attr(test, allow(dead_code))]
mod directory;
mod expensive;
#[cfg_attr(test, allow(dead_code))]
mod guest;
#[cfg(not(test))]
mod hooks;
mod instructions;
#[cfg_attr(test, allow(dead_code))]
mod options;
#[cfg(not(test))]
mod reading;
mod recorder;
mod sharing;
mod spread;
#[cfg_attr(test, allow(dead_code))]
mod stacks;
#[cfg(not(test))]
mod walks;
#[cfg_attr(test, allow(dead_code))]
mod window;
