//! Small kernel objects: caches of equal-sized objects with a magazine per CPU.
//!
//! * CountLocal: the fast path writes this CPU's magazine and the object, nothing else.
//! * An object freed on another CPU goes into that CPU's magazine; surplus goes back to the object's own slab in batches.
//! * LockOrder: a cache's lock is taken alone; frames are allocated with it released.
//!
//! Nothing here sleeps. Interrupt handlers neither allocate nor free.

mod cache;
mod heap;

pub use cache::{Cache, CacheInfo, for_each_cache};
pub use heap::KernelHeap;

#[cfg(test)]
mod tests;
