//! The facade through which [`crate::protocol`] sees atomics, waiting and parking.
//!
//! Here it is `core` and the machine. `tests/models` has a module of the same name and shape over loom, and includes the
//! protocol's files below it, so what is modelled is the source that runs. `site` names an ordering and `step` an action:
//! here both are nothing; in the models each name in turn is weakened or left out, and the model must then fail.
#![forbid(unsafe_code)]

pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    compiler_fence, fence,
};

pub use crate::machine::{park, park_token, relax};

/// What `park_token` gives.
pub type Token = usize;

/// The ordering `order`, under a name by which the models weaken it.
#[inline(always)]
pub const fn site(_name: &'static str, order: Ordering) -> Ordering {
    order
}

/// Whether the step called `name` is taken: always, but in a model that leaves it out.
#[inline(always)]
pub const fn step(_name: &'static str) -> bool {
    true
}

/// A full fence called `name`.
#[inline(always)]
pub fn fence_at(_name: &'static str) {
    fence(Ordering::SeqCst);
}

/// A fence of this order called `name`.
#[inline(always)]
pub fn fence_with(_name: &'static str, order: Ordering) {
    fence(order);
}

/// A full fence called `name`, right behind a read-modify-write. On x86 that is one already (SDM vol. 3, 10.2.2: locked
/// instructions have a total order, and loads and stores do not pass them), so that only the compiler has to be told.
#[inline(always)]
pub fn fence_after_rmw(_name: &'static str) {
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Declares constructors `const` where the atomics' own are (loom's are not).
#[macro_export]
#[doc(hidden)]
macro_rules! __const_new {
    ($(#[$m:meta])* pub fn $name:ident($($a:ident : $t:ty),*) -> Self $body:block) => {
        $(#[$m])* #[inline] pub const fn $name($($a: $t),*) -> Self $body
    };
}
pub use crate::__const_new as const_new;

/// Who holds a spinning lock: this CPU, never zero.
#[inline(always)]
pub fn holder() -> u32 {
    crate::machine::cpu_id().wrapping_add(1)
}

/// Wakes the thread that took `token`.
#[inline]
pub fn unpark(token: &Token) {
    crate::machine::unpark(*token);
}
