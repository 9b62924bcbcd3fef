//! Leaves on objects' lists (RegisterBeforeMap, protocol/evict.rs).
//!
//! A visit of the reverse map goes by what is on a list, so a leaf that goes while it is there would be memory that is used after it is freed. A
//! [`RegisteredLeaf`] is therefore not freed when it is dropped, only by [`Retired::unused`], which takes it off; a leaf of a tree takes
//! itself off at its end; and a place on a list is nobody's but the leaf's:
//!
//! ```compile_fail,E0277
//! fn is_copy<T: Copy>() {}
//! is_copy::<vm::object::rmap::Place>();
//! ```
//!
//! ```compile_fail,E0624
//! fn list_anything(node: &vm::node::Node) -> vm::node::NodeRef {
//!     vm::node::NodeRef::new(node)
//! }
//! ```

use super::segment::Segment;
use super::{Locked, NewNode, Node, Retired, WalkPath};
use crate::error::VmError;
use crate::machine::{Entry, Machine};
use crate::object::rmap::{Place, ReverseOps};
use crate::object::{ObjectRef, Pages};
use crate::order::Order;
use crate::small::SmallList;
use crate::tlb::OwnTlb;
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use sync::rcu::RcuRead;

/// A node on an object's list of leaves that map it.
pub struct NodeRef(NonNull<Node>);

// SAFETY: a reference to a `Node`, which is `Sync`.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

impl NodeRef {
    /// The node takes itself off the list before its grace period begins.
    fn new(node: &Node) -> Self {
        Self(NonNull::from(node))
    }

    /// A number for the leaf's place in a tree, which no program chooses.
    pub(crate) fn draw(&self) -> u32 {
        ((self.0.addr().get() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    /// The node. The reference is not copied off a list; so what is found on a list within an RCU section lives until the section ends.
    pub(crate) fn get<'g>(&self, _rcu: &'g RcuRead) -> &'g Node {
        // SAFETY: see above.
        unsafe { self.0.as_ref() }
    }
}

/// "This leaf is on that object's list, for these pages": where, so that it can be taken off.
pub struct Registration {
    object: ObjectRef,
    place: Place,
    pages: Pages,
}

impl Registration {
    /// Puts `leaf` on the list.
    fn try_new<M: Machine>(
        leaf: &Node,
        object: ObjectRef,
        pages: Pages,
        order: &mut Order<'_>,
    ) -> Result<Self, VmError> {
        let place = object.register(NodeRef::new(leaf), pages, ReverseOps::of::<M>(), order)?;
        Ok(Self { object, place, pages })
    }

    pub(super) fn pages(&self) -> Pages {
        self.pages
    }

    pub(super) fn is_of(&self, object: &ObjectRef) -> bool {
        ObjectRef::ptr_eq(&self.object, object)
    }

    /// Takes the leaf off the list.
    pub(super) fn undo(&self, order: &mut Order<'_>) {
        self.object.unregister(&self.place, order);
    }
}

/// A leaf that no tree holds yet, on the lists of all objects that its segments name. Visits of the reverse map know it.
#[must_use = "it is put into a tree, or freed by `Retired::unused`; dropped, it stays for good"]
pub struct RegisteredLeaf(ManuallyDrop<Box<Node>>);

impl RegisteredLeaf {
    /// An empty leaf, which maps nothing yet, for the space with `tlb`.
    pub fn try_empty(base: usize, tlb: &OwnTlb) -> Result<Self, VmError> {
        NewNode::try_leaf(base, tlb).map(Self::from)
    }

    /// Puts `leaf` on the lists.
    pub fn try_new<M: Machine>(mut leaf: NewNode, order: &mut Order<'_>) -> Result<Self, VmError> {
        // What it names is looked up first: registered for one object, the leaf is known to that object's visits.
        let mut objects: ArrayVec<(ObjectRef, Pages), 8> = ArrayVec::new_const();
        let segments = leaf.state().segments.as_slice();
        let mut all = true;
        for (object, pages) in segments.iter().filter_map(Segment::object_pages) {
            match objects.iter_mut().find(|(known, _)| ObjectRef::ptr_eq(known, object)) {
                Some((_, known)) => *known = known.joined(pages),
                None => all &= objects.try_push((object.clone(), pages)).is_ok(),
            }
        }
        let len = if all { objects.len() } else { segments.len() };
        if !leaf.state().registrations.has_capacity(len) {
            let bigger = SmallList::<Registration, 2>::bigger(len)?;
            drop(leaf.state().registrations.adopt(bigger));
        }
        let leaf = Self::from(leaf);
        let mut result = Ok(());
        for (object, pages) in objects {
            result = result.and_then(|()| leaf.add::<M>(object, pages, order));
        }
        let mut i = 0;
        while !all && result.is_ok() {
            // Very many objects in one leaf.
            let locked = leaf.node().lock(order);
            let Some(segment) = locked.segments.as_slice().get(i) else { break };
            let object = segment.attrs.object.clone().filter(|o| locked.registration(o).is_none());
            let object = object.and_then(|object| Some((locked.pages_of(&object)?, object)));
            drop(locked);
            result = object.map_or(Ok(()), |(pages, object)| leaf.add::<M>(object, pages, order));
            i += 1;
        }
        match result {
            Ok(()) => Ok(leaf),
            Err(e) => {
                Retired::unused::<M>(leaf, order);
                Err(e)
            }
        }
    }

    /// The leaf is on no list yet.
    fn from(leaf: NewNode) -> Self {
        Self(ManuallyDrop::new(leaf.into_box()))
    }

    /// Puts the leaf, which has room for it, on `object`'s list.
    fn add<M: Machine>(&self, object: ObjectRef, pages: Pages, order: &mut Order<'_>) -> Result<(), VmError> {
        let registration = Registration::try_new::<M>(self.node(), object, pages, order)?;
        self.node().lock(order).registrations.push(registration);
        self.node().set_maps_objects();
        Ok(())
    }

    pub fn node(&self) -> &Node {
        &self.0
    }

    pub(super) fn into_box(self) -> Box<Node> {
        ManuallyDrop::into_inner(self.0)
    }

    /// Makes the leaf reachable: gives the entry to store (with release order) in its parent.
    pub(super) fn publish<M: Machine>(self) -> Entry {
        NewNode::from_box(self.into_box()).publish::<M>(true)
    }

    /// The leaf of an entry of [`Self::publish`].
    ///
    /// # Safety
    /// The entry is stored nowhere.
    pub(super) unsafe fn unpublish<M: Machine>(entry: Entry) -> Self {
        // SAFETY: as the caller says. What visits of the reverse map found of it they found before, too: it is not freed here.
        Self::from(unsafe { NewNode::unpublish::<M>(entry) })
    }
}

impl WalkPath<'_> {
    /// Puts the leaf, which is in a tree, on `object`'s list for `pages`. It may have changed in any way when this returns.
    pub fn register<M: Machine>(
        &self,
        object: &ObjectRef,
        pages: Pages,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        let leaf = self.node();
        let locked = leaf.lock(order);
        let (len, list) = (locked.registrations.len(), locked.registration(object).map(|r| r.place.list()));
        drop(locked);
        if let Some(list) = list {
            object.widen(list, order, |held| leaf.lock(held).widen(object, list, pages));
            return Ok(());
        }
        let mut spare = SmallList::<Registration, 2>::bigger(len)?;
        let registration = Registration::try_new::<M>(leaf, object.clone(), pages, order)?;
        let mut locked = leaf.lock(order);
        if !locked.registrations.has_capacity(1) {
            spare = locked.registrations.adopt(spare);
        }
        if self.is_current::<M>(&locked)
            && locked.registration(object).is_none()
            && locked.registrations.has_capacity(1)
        {
            locked.registrations.push(registration);
            leaf.set_maps_objects();
            drop(locked);
        } else {
            // The list's lock keeps visits away from a leaf that may be on its way out.
            drop(locked);
            registration.undo(order);
        }
        drop(spare);
        Ok(())
    }
}

impl Locked<'_> {
    /// The leaf is on list `list` of the object, which is locked: says that it is there for `pages` too, and where and for which in all. None: it has left.
    fn widen(&mut self, object: &ObjectRef, list: u32, pages: Pages) -> Option<(u32, Pages)> {
        let of_it = |r: &&mut Registration| r.is_of(object) && r.place.list() == list;
        let registration = self.registrations.as_mut_slice().iter_mut().find(of_it)?;
        registration.pages = registration.pages.joined(pages);
        Some((registration.place.index(), registration.pages))
    }

    /// The pages of `object` that the leaf's segments name, and those between.
    fn pages_of(&self, object: &ObjectRef) -> Option<Pages> {
        let named = self.segments.as_slice().iter().filter_map(Segment::object_pages);
        named.filter(|(of, _)| ObjectRef::ptr_eq(of, object)).map(|(_, pages)| pages).reduce(Pages::joined)
    }
}
