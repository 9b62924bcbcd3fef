//! Nodes that are on their way out.

use super::flush::{DebugOnly, Moment};
use super::{Node, OwnedInterior};

/// A leaf to which an entry led that is gone now. Whoever took it out has it leave the space, after a flush; once, since that uses it up:
///
/// ```compile_fail,E0382
/// use vm::node::{DetachedLeaf, Retired, flush::Flushed};
/// fn twice<M: vm::Machine>(leaf: DetachedLeaf<'_>, proof: Flushed<'_>) {
///     let order = &mut vm::order::begin();
///     Retired::leave_leaf::<M>(leaf, proof, order);
///     Retired::leave_leaf::<M>(leaf, proof, order);
/// }
/// ```
#[must_use = "the leaf is never freed"]
pub struct DetachedLeaf<'r>(&'r Node, DebugOnly<Moment>);

/// An interior node to which an entry led that is gone now. It is freed after a flush; and as other spaces may use a leaf, no leaf is freed so:
///
/// ```compile_fail,E0308
/// use vm::node::{DetachedLeaf, Retired, flush::Flushed};
/// fn free(leaf: DetachedLeaf<'_>, proof: Flushed<'_>) {
///     Retired::interior(leaf, proof);
/// }
/// ```
#[must_use = "the node is never freed"]
pub struct DetachedInterior<'r>(&'r Node);

/// Either.
#[must_use = "the node is never freed"]
pub enum Detached<'r> {
    Leaf(DetachedLeaf<'r>),
    Interior(DetachedInterior<'r>),
}

impl<'r> Detached<'r> {
    /// `node` was taken out just now.
    #[inline]
    pub(super) fn new(node: &'r Node) -> Self {
        if node.is_leaf() {
            Self::Leaf(DetachedLeaf::new(node))
        } else {
            Self::Interior(DetachedInterior(node))
        }
    }
}

impl<'r> DetachedLeaf<'r> {
    /// `node`, a leaf, was taken out just now.
    #[inline]
    pub(super) fn new(node: &'r Node) -> Self {
        debug_assert!(node.is_leaf());
        Self(node, DebugOnly::new(Moment::now))
    }

    pub(super) fn taken(&self) -> DebugOnly<Moment> {
        self.1
    }

    #[inline]
    pub fn node(&self) -> &'r Node {
        self.0
    }
}

impl<'r> DetachedInterior<'r> {
    /// The node beyond the RCU section in which it was found.
    #[inline]
    pub fn own(self) -> OwnedInterior {
        OwnedInterior::new(self)
    }

    pub(super) fn node(&self) -> &'r Node {
        self.0
    }
}
