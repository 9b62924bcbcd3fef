//! The virtual memory system of Darter.
//!
//! `frame` owns physical pages, `slab` small kernel objects. Nothing here knows of x86, of processes or of files: the
//! machine is met through link-time hooks (`frame`) and the `Machine` trait (spaces), so that the same code runs in the
//! kernel and under `cargo test` with a software MMU.
#![no_std]

extern crate alloc;

pub mod addr;
pub mod frame;
pub mod slab;
