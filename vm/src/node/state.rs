//! What a node's lock guards.
//!
//! Outside of `node` this is looked at, and segments are changed. What the end of a page depends on is private to `node`: who uses the leaf, on
//! which lists it is, who may have translations, which entries are there. So no operation can take a CPU off the leaf's viewers, or a leaf
//! off an object's list while it maps pages of the object:
//!
//! ```compile_fail,E0616
//! fn forget_viewers(leaf: &mut vm::node::Locked<'_>) {
//!     leaf.viewers = vm::CpuSet::EMPTY;
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn forget_sharers(leaf: &mut vm::node::Locked<'_>) {
//!     leaf.sharers = Default::default();
//! }
//! ```
#![forbid(unsafe_code)]

use super::segment::{Segment, SegmentList};
use super::{PoolShare, Registration, Sharer};
use crate::frame::LargeFrame;
use crate::machine::CpuSet;
use crate::object::{ObjectRef, Pages};
use crate::protocol::evict;
use crate::small::SmallList;
use alloc::sync::Arc;

/// What a node's lock guards.
pub struct NodeState {
    /// Interior nodes: the space is gone. (Leaves: see `WalkPath::enter`.)
    pub(super) stray: bool,
    pub segments: SegmentList,
    /// Spaces that use the leaf; one, unless fork shared it. Unused in interior nodes.
    pub(super) sharers: SmallList<Sharer, 2>,
    /// Objects on whose lists the leaf is, and for which pages (RegisterBeforeMap): all that its segments name.
    pub(super) registrations: SmallList<Registration, 2>,
    /// CPUs whose views (space/view.rs) link to the leaf, or did so: all CPUs with a view that may hold translations through it.
    pub(super) viewers: CpuSet,
    /// Has the references to the frames of pooled entries (PooledByFamily).
    pub(super) pool: Option<Arc<PoolShare>>,
    /// Of a large leaf (large.rs): the block that its entries show whole.
    pub(super) large: Option<LargeFrame>,
    /// Frames that this leaf and others own, as its last copy found them; 0 if no other CPU counted any of them.
    pub(super) foreign: u16,
}

impl NodeState {
    pub(super) const fn new() -> Self {
        Self {
            stray: false,
            segments: SegmentList::new(),
            sharers: SmallList::new(),
            registrations: SmallList::new(),
            viewers: CpuSet::EMPTY,
            pool: None,
            large: None,
            foreign: 0,
        }
    }

    /// Interior nodes: is the space gone?
    pub fn is_stray(&self) -> bool {
        self.stray
    }

    /// CPUs whose views link to the leaf, or did so: all CPUs with a view that may hold translations through it.
    #[inline]
    pub fn viewers(&self) -> CpuSet {
        self.viewers
    }

    /// Do the entries show one block whole (large.rs)?
    #[inline]
    pub fn is_large(&self) -> bool {
        self.large.is_some()
    }

    /// Is the leaf on `object`'s list, for those pages?
    pub fn is_registered(&self, object: &ObjectRef, pages: Pages) -> bool {
        self.registration(object).is_some_and(|r| r.pages().hold(pages))
    }

    pub(super) fn registration(&self, object: &ObjectRef) -> Option<&Registration> {
        self.registrations.as_slice().iter().find(|r| r.is_of(object))
    }

    /// Where the leaf is on `object`'s list, taken out, if no segment names the object any more.
    pub(super) fn take_unnamed(&mut self, object: &ObjectRef) -> Option<Registration> {
        let names = |s: &Segment| s.attrs.object.as_ref().is_some_and(|o| ObjectRef::ptr_eq(o, object));
        if !evict::may_leave(self.segments.as_slice().iter().any(names)) {
            return None;
        }
        let place = self.registrations.as_slice().iter().position(|r| r.is_of(object))?;
        self.registrations.swap_remove(place)
    }

    /// Spaces that use the leaf.
    pub fn sharer_count(&self) -> u32 {
        self.sharers.len().max(1) as u32
    }

    /// Is the leaf used by more than one space?
    pub fn is_shared(&self) -> bool {
        self.sharers.len() > 1
    }
}
