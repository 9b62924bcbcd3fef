//! Small kernel objects: caches of equal-sized objects, in slabs that each belong to one CPU.
//!
//! ```text
//!   magazine (per CPU and cache)  <-- batches -->  the CPU's own slabs  <-- pages -->  the CPU's frames
//!   outbox (per CPU)  -- chains -->  inbox of the CPU whose slab an object is from
//! ```
//!
//! * CountLocal: a CPU that allocates and frees its own objects writes its magazine, its slabs' metadata and the objects, nothing that
//!   another CPU uses.
//! * OwnSlab: what a CPU hands out is from a slab of its own, and every object has cache lines of its own, so that no two share one.
//! * An object freed on another CPU goes home: it waits in that CPU's outbox, and then, in a chain with others, in the inbox of the
//!   slab's owner, who takes it in when a magazine next runs empty or over. Nothing of a slab is written by anybody but its owner.
//! * Memory is bounded: per CPU and cache a magazine and [`SPARE`] wholly free slabs; further free slabs are frames again at once. When memory
//!   is out, every CPU gives all of that back too ([`give_back`]).
//!
//! # For readers of a memory image
//! Every page of a slab has `FrameKind::Slab`, and in its metadata (`Frame`, see `page`) the address of its [`Cache`] in word 4, which says name, type and
//! size at fixed places; object n begins n times the size after the slab's start.
//!
//! No locks. Nothing here sleeps. Interrupt handlers neither allocate nor free.

mod cache;
mod heap;
mod mail;
mod own;
mod page;
mod typed;

pub use cache::{Cache, CacheInfo, Container, Registration, for_each_cache, give_back};
#[cfg(all(debug_assertions, target_os = "none"))]
pub(crate) use cache::{cache_of, each_cache};
pub use heap::KernelHeap;
pub use own::OwnSlabs;
#[doc(hidden)]
pub use typed::__private;

#[cfg(test)]
mod tests;
