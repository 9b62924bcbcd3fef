//! Models of the protocols in `src/protocol`, under loom: every interleaving up to a bound on preemptions, and every value that a load may
//! give under the C++ memory model.
//!
//! The protocols are the very files that the kernel compiles, included below a facade over loom's atomics (that of `sync`'s models). What a
//! model brings itself is the world around them: a leaf's lock, frames, TLBs, and threads that fault, fork, unmap and evict.
//! Each argument rests on named orderings and steps; each name has a test here in which it is weakened or left out, and which passes only if
//! the model then fails.
//!
//! | file | invariants | names |
//! |---|---|---|
//! | leaf.rs | LeafOwns | leaf.enter, leaf.last, leaf.look, leaf.fill, leaf.take |
//! | view.rs | LinkUnderLeaf | view.note, view.cut, leaf.enter |
//! | mask.rs | MaskBeforeRoot | mask.come, mask.flush, mask.view, mask.reload |

#![allow(clippy::disallowed_methods)] // A test may die when memory is out.

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../../../sync/tests/models/atomic.rs"]
mod atomic;
#[path = "../../../sync/tests/models/explore.rs"]
mod explore;
#[allow(dead_code)]
#[path = "../../src/protocol/mod.rs"]
mod protocol;

/// What the protocols use of `vm` besides.
mod addr {
    pub use vm::PhysAddr;
}
mod machine {
    pub use vm::{Entry, Machine};
}

mod held;
mod leaf;
mod mask;
mod old;
mod view;
mod world;
