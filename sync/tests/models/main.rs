//! Models of the protocols in `src/protocol`, under loom: every interleaving (up to a bound on preemptions), and every value that a
//! load may give under the C++ memory model.
//!
//! The protocols are the very files that the kernel compiles, included below a facade over loom's atomics. Each argument there rests on
//! named orderings and steps; each name has a test here in which it is weakened or left out, and which passes only if the model then fails.
//! Not every name can have one: loom orders the stores to one place as it executes them, so an ordering that only keeps two stores to one place
//! apart is not missed. Those are not named in the protocols.

#![allow(clippy::disallowed_methods)] // A test may die when memory is out.

#[allow(dead_code, unused_imports)]
mod atomic;
mod explore;
#[allow(dead_code)]
#[path = "../../src/protocol/mod.rs"]
mod protocol;

mod attendance;
mod bandwidth;
mod call;
mod chain;
mod count;
mod home;
mod idle;
mod inbox;
mod list;
mod locks;
mod mask;
mod membership;
mod offer;
mod period;
mod pi;
mod preempted;
mod presence;
mod quota;
mod readers;
mod saved;
mod sequence;
mod share;
mod visit;
