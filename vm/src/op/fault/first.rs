//! The commonest fault, the first write to a page of private memory whose tables are there, on a way of its own: what other faults want is not carried along.
//!
//! It changes nothing where it is another fault after all, and that goes the way of all. So each condition is one that the other way looks at too.
//!
//! Invariants: LeafOwns, NothingSlowUnderLeaf.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use super::FAULTS;
use crate::frame::OwnedFrame;
use crate::machine::Machine;
use crate::node::{WalkPath, index_of};
use crate::order;
use crate::policy::{Place, Policy};
use crate::request::Prot;
use crate::space::Space;
use crate::token;
use sync::rcu;

impl<M: Machine> Space<M> {
    /// Puts a page of zeros at `addr`, which is written, if that is all that is to be done. An error: nothing is changed; a page of zeros that was taken for
    /// it serves the other way.
    #[inline(always)]
    pub(super) fn fill_at_first_write(&self, addr: usize) -> Result<(), Option<OwnedFrame>> {
        if addr >= M::USER_END || token::is_on() {
            return Err(None);
        }
        if self.has_views() {
            self.want_view();
        }
        let mut order = order::begin();
        let rcu = rcu::read();
        let path = WalkPath::to_leaf::<M>(self.root(), addr, &rcu).ok_or(None)?;
        let leaf = path.node();
        let index = index_of(addr, 0);
        if !leaf.peek(index).is_absent() || !path.is_writable::<M>() {
            return Err(None);
        }
        // Before there is any: it may become a large one, or is a file's, of which the page of zeros would not be wanted.
        if leaf.counts().private() == 0 && (leaf.maps_objects() || self.may_want_large()) {
            return Err(None);
        }
        // What is mapped there is known only under the lock; most likely it is private memory without a policy of its own.
        let frame = Place::of_anonymous(addr).alloc_zeroed().ok_or(None)?;
        let Some(mut locked) = path.enter::<M>(&mut order) else { return Err(Some(frame)) };
        if self.has_views() && !self.link(&path, &mut locked, &rcu) {
            return Err(Some(frame));
        }
        let Some(segment) = locked.segments.find_quickly(index) else { return Err(Some(frame)) };
        let attrs = &segment.attrs;
        let prot = attrs.prot;
        let is_private = attrs.object.is_none() && !attrs.is_quarantine() && attrs.policy == Policy::NONE;
        if !is_private || !prot.contains(Prot::WRITE) {
            return Err(Some(frame));
        }
        if !path.is_writable::<M>() || !locked.entry(index).is_absent() {
            return Err(Some(frame));
        }
        locked.fill_owned::<M>(index, frame, prot);
        FAULTS.this().zero_fill.add(1);
        Ok(())
    }
}
