//! The order of vm's locks (LockOrder), as types and on one page. `sync::level` says how the types work; the kernel's page
//! (`kernel/src/lock_order.rs`) says where its own locks stand between these.
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
//! # use sync::{Mutex, level::Held};
//! # use vm::order::{Leaf, Space};
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
//! Not seen by the types but by the check at run time: locks under a sleeping lock whose holder begins a chain anew (an object's, a
//! CPU's span); and a node under another (`Node::lock_below`), which takes the upper one's guard as its proof.
#![forbid(unsafe_code)]

use sync::level::{Held, Level};
use sync::lock::order;

sync::lock_order! {
    // Sleeping locks. All of them come before all spinning locks, the kernel's as well: nobody sleeps under a spinning lock.

    /// The lock around the VM system, where it is switched on (token.rs).
    level Token = 194;
    /// The number of a space's mappings, where it is near the limit and counted: held by each change.
    level Exact;
    /// Pages of a space on their way: held by a mremap that moves (a CPU's lock), and by fork and mseal (the common one, then each CPU's in turn), in
    /// spaces with several threads.
    level Moving;
    /// Held by who seals mappings of a space, and waited for by changes of mappings that have not begun.
    level Seals;
    /// A CPU's span of a space. Its holder maps in the span, and asks the layout for another when it is full.
    level Span;
    /// A space's layout: where the heap and the stack end, which addresses are free. Held by operations that change several leaves in
    /// one step (fork, remap, brk).
    level Space;
    /// An object's change of size. Under the layout where a remap keeps the size, or a page of a file is brought in.
    level Object;
    /// From where an object's pages come. Looked at where one is made.
    level ObjectPolicy;

    // Spinning locks.

    /// A part of an object's list of leaves that map it. Truncation walks the list and locks the leaves on it.
    level ReverseMap = 500;
    /// A leaf or another node of a space's tree. A node is locked below another by `Node::lock_below`, upper first.
    level Leaf;
    /// Free lists of frames: depots, colours, the buddy. One at a time. Memory is taken and given back under the kernel's spinning locks too, but
    /// not while a node is locked ([`assert_no_node_locked`]).
    level FrameList = 800;
}

/// No spinning lock of vm is held, and none of its sleeping ones but, perhaps, a space's layout and what comes before it.
pub type Order<'a> = Held<'a, Space>;

/// NothingSlowUnderLeaf, where locks are checked: panics if a node is locked. Asked wherever memory is taken or given back, so that no leaf's
/// lock is held for what that may cost: a slab to be cut, a batch of frames, the lock of a list that other CPUs use.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_no_node_locked() {
    if order::CHECKED {
        order::held_locks(|lock| {
            assert!(
                lock.rank != Leaf::RANK,
                "NothingSlowUnderLeaf: memory is taken or given back while a node is locked at {}",
                lock.caller
            );
        });
    }
}

/// The start of an operation: a chain of locks later than a space's layout.
#[inline(always)]
pub fn begin() -> Order<'static> {
    Held::clean().lower()
}
