//! The operations on an address space, a file each. All are walks over leaves in the same words (`space::walk`, `space::range`).
#![forbid(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod brk;
pub mod collapse;
mod dump;
mod exit;
pub mod fault;
mod fork;
mod fresh;
pub mod lock;
pub(crate) mod map;
pub mod migrate;
mod page_in;
pub mod page_out;
pub mod pages;
pub mod policy;
mod protect;
pub mod remap;
mod remote;
pub mod repage;
pub mod report;
mod unmap;
