//! The virtual memory system of Darter.
//!
//! `frame` owns physical pages, `slab` small kernel objects. Nothing here knows of x86, of processes or of files: the
//! machine is met through link-time hooks (`frame`) and the `Machine` trait (spaces), so that the same code runs in the
//! kernel and under `cargo test` with a software MMU.
//!
//! From the top: `op` has a file for every operation on an address space. They stand on `space`: the tree and the walks over it.
//! A `space` is made of `node`s, the page-table pages with their locks and segments; what maps files and shared memory is an
//! `object`; what goes out of memory, to an area of `swap`. `order` has the order of locks, `tlb` what a CPU may still translate. The steps whose order matters are in `protocol`, which
//! the models in tests/models explore.
#![no_std]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]

extern crate alloc;

pub mod addr;
#[cfg(all(debug_assertions, target_os = "none"))]
pub mod audit;
pub mod entry;
mod error;
pub mod frame;
pub mod large;
pub mod machine;
pub mod node;
pub mod object;
mod once;
mod op;
pub mod order;
pub mod policy;
mod protocol;
mod request;
pub mod slab;
mod small;
mod space;
pub mod swap;
pub mod tlb;
pub mod token;

use sync::atomic;

pub use addr::{ENTRIES, LEAF_SPAN, PAGE_SHIFT, PAGE_SIZE, PhysAddr, VirtAddr};
pub use error::{FaultError, VmError};
pub use machine::{Asid, Attached, CpuSet, Entry, FlushCause, FlushRange, Machine};
pub use object::pager::{Asked, Pager, Shedder, may_grow, register_shedder, shed};
pub use object::{
    Budget, BudgetKind, BudgetOwner, BudgetRef, Label, Object, ObjectOwner, ObjectPages, ObjectRef, Sink,
    Source,
};
pub use once::OnceBox;
pub use op::collapse::Collapsed;
pub use op::fault::{FAULTS, FaultCounts};
pub use op::lock::Lock;
pub use op::migrate::{Migrated, Migration, Target};
pub use op::page_out::Aged;
pub use op::pages::{MappedPage, PageKind};
pub use op::policy::Coverage;
pub use op::remap::MremapFlags;
pub use op::report::{FutexKey, MappingInfo, Usage};
pub use request::{Access, Advice, Backing, MapFlags, MapRequest, Prot};
pub use space::count::{max_mappings, set_max_mappings};
pub use space::{ExecGain, Placement, Space, USER_START};
pub use tlb::{FlushRequest, SpaceTlb};
