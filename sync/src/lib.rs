//! Locks that count their collisions, per-CPU data, RCU and fallible allocation for the Darter kernel.
//!
//! The crate knows nothing of x86, of processes or of memory management: it meets the machine through the link-time
//! hooks of [`machine`], and provides hosted versions of them wherever there is an operating system, so that the very
//! same code runs under `cargo test`. The protocols that need an argument about memory order live in [`protocol`] and are written
//! against the facade [`atomic`]; `tests/models` compiles them a second time against loom, once whole and once for
//! each ordering weakened.
//!
//! Tests: `cargo test -p darter-sync` (units, models and the doctests that must not compile), and the units under Miri with
//! `MIRIFLAGS=-Zmiri-ignore-leaks cargo +nightly miri test -p darter-sync --lib` (per-CPU counter pages are never given back).
//!
//! Invariants kept here (DESIGN.md): CountLocal, LockOrder, and the grace-period half of FreeAfterFlush.

#![no_std]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod atomic;
pub mod heap;
pub mod level;
pub mod lock;
pub mod machine;
pub mod percpu;
pub mod percpu_ref;
pub mod private;
pub mod protocol;
pub mod quota;
pub mod rcu;

pub use heap::{AllocError, TryString, TryVec, slab_arc, slab_arc_of, slab_box, try_arc, try_box, try_vec};
pub use level::{Before, Held, Level};
pub use lock::{IrqSpinGuard, IrqSpinLock, LockClass, Mutex, MutexGuard, SpinGuard, SpinLock};
pub use machine::{CpuId, MAX_CPUS, cpu_id, cpus};
pub use percpu::{Count, LocalCell, PerCpu};
pub use private::Private;
pub use quota::{GlobalQuota, Quota};
