//! Models of the protocols in `src/protocol`, under loom: every interleaving up to a bound on preemptions, and every value that a load may
//! give under the C++ memory model.
//!
//! The protocols are the very files that the kernel compiles, included below a facade over loom's atomics (that of `sync`'s models). What a
//! model brings itself is the world around them: a leaf's lock, frames, TLBs, and threads that fault, fork, unmap and evict.
//! Each argument rests on named orderings and steps; each name has a test here in which it is weakened or left out, and which passes only if
//! the model then fails.
//!
//! Loom explores less than everything in one respect: see `explore::in_turn`.
//!
//! | file | invariants | names |
//! |---|---|---|
//! | leaf.rs | LeafOwns | leaf.enter, leaf.last, leaf.look, leaf.fill, leaf.take |
//! | view.rs | LinkUnderLeaf | view.note, view.cut, view.small, view.large, leaf.enter |
//! | mask.rs | MaskBeforeRoot | mask.come, mask.flush, mask.view, mask.reload, mask.mark, mask.ask, mask.stale, mask.between, mask.rest, mask.there, mask.seen |
//! | moving.rs | (no fork finds a page on its way) | moving.note, moving.announce, moving.look, moving.over, moving.end |
//! | refs.rs | (what "the only reference" means) | refs.sole, refs.put, refs.last |
//! | share.rs | CopyBeforeWrite | share.protect, share.flush, share.flushed, share.over, share.forking, share.alone, share.count, share.old, share.copy, share.replace, share.sole |
//! | pool.rs | PooledByFamily, FreeAfterFlush | pool.fits, pool.keep, pool.mark, pool.grace, leaf.grace, share.pooled |
//! | evict.rs | ReadSlotUnderLeaf, RegisterBeforeMap, MatchBeforeClear, DirtyBeforeWritable | slot.fill, slot.look, slot.put, evict.begin, evict.tag, evict.register, evict.visit, evict.first, evict.named, evict.match, evict.again, evict.grace, evict.clean, evict.protect, evict.clear, evict.dirty, evict.let_go, evict.marks, exchange.grace, slot.exchange |
//! | busy.rs | BusyWhileFlushed | busy.unchanged, busy.others, busy.mark, busy.own, busy.quiet, busy.rights, busy.wait, mask.flush |
//! | swap.rs | SlotCounted | swap.hold, swap.same, swap.count, swap.forget, swap.over, swap.late, swap.taken, swap.close, busy.mark |

#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

extern crate alloc;

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
    pub use vm::{PAGE_SHIFT, PhysAddr};
}
mod machine {
    pub use vm::{Entry, Machine};
}
mod request {
    pub use vm::Prot;
}

mod busy;
mod clean;
mod evict;
mod leaf;
mod mask;
mod moving;
mod pool;
mod refs;
mod share;
mod swap;
mod view;
mod world;

/// The sources of the protocols, and of their models.
macro_rules! sources {
    ($($name:literal)*) => {
        [$((concat!("../../src/protocol/", $name), include_str!(concat!("../../src/protocol/", $name)), include_str!($name))),*]
    };
}

#[test]
fn each_name_is_broken_in_a_model_and_listed() {
    let sources = sources!["busy.rs" "evict.rs" "pool.rs" "leaf.rs" "mask.rs" "moving.rs" "refs.rs" "share.rs" "swap.rs" "view.rs"];
    let list = include_str!("main.rs");
    for (file, protocol, _) in &sources {
        let calls = ["site(\"", "step(\"", "fence_at(\"", "fence_after_rmw(\"", "after_readers(\""];
        let names = calls
            .iter()
            .flat_map(|call| protocol.split(call).skip(1))
            .filter_map(|rest| rest.split('"').next());
        for name in names {
            // That of cleaning (evict.rs) has a file of its own.
            let mut models = sources.iter().map(|(_, _, model)| *model).chain([include_str!("clean.rs")]);
            let broken = models.any(|model| model.contains(&format!(": \"{name}\"")));
            assert!(broken, "no model in which {name} of {file} is broken");
            assert!(list.contains(name), "{name} of {file} is not listed in main.rs");
        }
    }
}
