//! The virtual memory system of Darter.
//!
//! `frame` owns physical pages, `slab` small kernel objects. Nothing here knows of x86, of processes or of files: the
//! machine is met through link-time hooks (`frame`) and the `Machine` trait (spaces), so that the same code runs in the
//! kernel and under `cargo test` with a software MMU.
//!
//! `space` is an address space; every operation on it has a file: `map` `unmap` `protect` `remap` `fault` (with `cow` and `stack`) `fork`
//! (with `inherit`) `exit` `brk` `remote` `report`. They stand on `range` (the walk over what a range covers), `walk` (getting to a
//! leaf), `pieces` (looking without changing), `view` (what each CPU of several threads translates through), `flush` and `tlb`, and
//! on the nodes (`node`) and their `segment`s. `object` is what files and shared memory are made of. `order` has the order of locks.
#![no_std]

extern crate alloc;

pub mod addr;
mod address;
mod brk;
mod cow;
mod error;
mod exit;
pub mod fault;
pub mod flush;
mod fork;
pub mod frame;
mod inherit;
pub mod machine;
mod map;
pub mod node;
pub mod object;
mod once;
pub mod order;
mod pieces;
mod pin;
mod protect;
mod range;
mod remap;
mod remote;
mod report;
mod request;
mod segment;
pub mod slab;
mod small;
mod space;
mod spans;
mod stack;
pub mod tlb;
mod unmap;
mod view;
mod walk;

pub use addr::{ENTRIES, LEAF_SPAN, PAGE_SHIFT, PAGE_SIZE, PhysAddr, VirtAddr};
pub use error::{FaultError, VmError};
pub use machine::{Asid, CpuMask, CpuSet, Entry, FlushRange, Machine};
pub use object::{Object, ObjectKind, ObjectOwner, ObjectRef, Pager};
pub use remap::MremapFlags;
pub use report::{FutexKey, MappingInfo, Usage};
pub use request::{Access, Advice, Backing, MapFlags, MapRequest, Prot};
pub use space::{Space, USER_START};
pub use tlb::{FlushRequest, SpaceTlb};
