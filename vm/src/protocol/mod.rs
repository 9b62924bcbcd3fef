//! The protocols of spaces, leaves and objects: the few steps whose order carries an argument, without trees, allocation or data.
//!
//! Each file is compiled twice: here, and in `tests/models` over loom, below a facade of the same shape as [`crate::atomic`]. So the steps
//! that the models explore are the steps that the kernel runs. A name in `site`, `step`, `fence_at` or `fence_after_rmw` says that the argument
//! rests on this ordering or step, and for each name there is a model that fails when it is weakened or left out
//! (tests/models/main.rs lists them).
//!
//! What the files use besides: the format of entries ([`crate::machine`]), which is the same in both.
#![forbid(unsafe_code)]

pub mod busy;
pub mod evict;
pub mod leaf;
pub mod mask;
pub mod moving;
pub mod pool;
pub mod refs;
pub mod share;
pub mod swap;
pub mod view;

use crate::atomic::step;

/// Has `defer` let `value` go when all read sections have ended that may have found it (FreeAfterFlush).
#[inline]
fn after_readers<T>(name: &'static str, value: T, defer: impl FnOnce(T)) {
    if step(name) {
        defer(value);
    }
}
