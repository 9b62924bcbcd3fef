//! Glue between `vm` and this machine: the kernel heap, the address space of a program, typed user memory.
#![forbid(unsafe_code)]

pub mod commit;
#[cfg(target_os = "none")]
mod heap;
mod held;
pub mod user;

pub use held::HeldSpace;

/// A program's address space.
pub type Space = vm::Space<crate::arch::Machine>;
