//! LockOrder as types: space → object → leaf.
//!
//! Whoever takes a lock of the order shows an [`Order`] or the guard of an earlier lock and cannot use it again until the lock is
//! free, so neither a wrong order nor a second leaf under a leaf compiles:
//!
//! ```compile_fail,E0499
//! # use vm::node::Node;
//! fn two_leaves(a: &Node, b: &Node) {
//!     let mut order = vm::order::begin();
//!     let first = a.lock(&mut order);
//!     let second = b.lock(&mut order); // `order` is borrowed until the first leaf is unlocked
//!     drop((first, second));
//! }
//! ```
//!
//! ```compile_fail,E0277
//! # use vm::node::Node;
//! # use sync::{Mutex, level::{Held, Leaf, Space}};
//! fn space_under_leaf(layout: &Mutex<u32, Space>, held: &mut Held<'_, Leaf>) {
//!     drop(layout.lock_in(held)); // LockOrder: a lock of level `Space` cannot be taken while one of level `Leaf` is held
//! }
//! ```
//!
//! ```
//! # use vm::node::Node;
//! fn one_after_the_other(a: &Node, b: &Node) {
//!     let mut order = vm::order::begin();
//!     drop(a.lock(&mut order));
//!     drop(b.lock(&mut order));
//! }
//! ```
//!
//! Not seen by the types: a lock under a sleeping lock of level Other (an object's `change`, a CPU's span), since a chain begins
//! anew there; and a node under another (`Node::lock_below`), which takes the upper one's guard as its proof.
#![forbid(unsafe_code)]

use sync::level::{Held, Space};

/// No lock of the order is held but, perhaps, a space's layout.
pub type Order<'a> = Held<'a, Space>;

/// The start of an operation: no lock of the order is held.
#[track_caller]
#[inline(always)]
pub fn begin() -> Order<'static> {
    Held::clean().lower()
}
