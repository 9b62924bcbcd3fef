//! The walk that map, unmap, protect and advise share: apply a change to every node that a range covers.
//!
//! Interior entries that lie whole in the range are changed where they are; leaves under them are detached or visited,
//! as the operation wants; at the ends the walk goes down. A change is atomic for each leaf. What can fail comes first (`prepare`):
//! an operation that finds no memory leaves the space as it was.
//!
//! Invariants: LeafOwns, NothingSlowUnderLeaf (room is made outside the lock and the step tried again), FreeAfterFlush.
//! Lock order: one node at a time.
#![forbid(unsafe_code)]

use super::{Space, Stop};
use crate::addr::LEAF_SPAN;
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::flush::Gather;
use crate::node::segment::SegmentList;
use crate::node::{Locked, Node};
use crate::object::ObjectRef;
use crate::order::Order;
use core::ops::Range;
use sync::rcu::{self, RcuRead};

/// A change to a range of addresses.
pub(crate) trait RangeOp<M: Machine> {
    /// Nodes are made where nothing is mapped.
    const CREATES: bool = false;
    /// Entries are cleared before the segments change.
    const CLEARS: bool;
    /// Leaves that lie whole in the range are detached; else they are visited.
    const DETACHES: bool;
    /// Segments change.
    const RENAMES: bool = true;

    /// The object whose segments are put in; leaves register with it first.
    fn object(&self) -> Option<&ObjectRef> {
        None
    }

    /// Changes what `range` of `node` means.
    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>);

    /// Changes the entries of `range` of a leaf, where they are not cleared.
    fn entries(&mut self, _leaf: &mut Locked<'_>, _range: Range<u16>, _gather: &mut Gather<'_>) {}
}

impl<M: Machine> Space<M> {
    /// Applies `op` to `start..end`, whole pages below `USER_END`. No lock but the layout is held. May sleep unless the layout
    /// is locked.
    pub(crate) fn apply<O: RangeOp<M>>(
        &self,
        start: usize,
        end: usize,
        op: &mut O,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        loop {
            let result = {
                let rcu = rcu::read();
                let mut gather = Gather::new();
                // Within one leaf everything happens under one lock, or not at all.
                let prepared = if start / LEAF_SPAN == (end - 1) / LEAF_SPAN {
                    Ok(())
                } else {
                    self.prepare(self.root(), start, end, op, order, &rcu)
                };
                let result =
                    prepared.and_then(|()| self.visit(self.root(), start..end, op, &mut gather, order, &rcu));
                gather.finish::<M>(&self.tlb, order);
                result
            };
            match result {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(e)) => return Err(e),
                Err(Stop::Forking) => self.wait_for_fork(),
            }
        }
    }

    /// After this, `apply` of `op` finds all the memory that it needs, if no other thread changes the range meanwhile.
    pub(crate) fn reserve<O: RangeOp<M>>(
        &self,
        start: usize,
        end: usize,
        op: &O,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        loop {
            let rcu = rcu::read();
            match self.prepare(self.root(), start, end, op, order, &rcu) {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(e)) => return Err(e),
                Err(Stop::Forking) => {}
            }
            drop(rcu);
            self.wait_for_fork();
        }
    }

    /// Does everything that `visit` may find no memory for, so that an operation that fails has changed nothing: tables at the
    /// ends, leaves of the space's own, room for segments, places on the object's list. Goes the way of `visit`. (Another thread
    /// that changes the same nodes meanwhile may use the room up.)
    fn prepare<'g, O: RangeOp<M>>(
        &'g self,
        node: &'g Node,
        start: usize,
        end: usize,
        op: &O,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<(), Stop> {
        if node.is_leaf() {
            return self.prepare_leaf(start, end, op, order, rcu);
        }
        let span = node.span();
        let low = start.next_multiple_of(span).max(node.base());
        let high = end & !(span - 1);
        if low < high && O::RENAMES {
            let whole = node.index(low)..node.index(high - 1) + 1;
            while !node.lock(order).segments.has_room(&whole, O::CREATES) {
                make_room(node, order)?;
            }
        }
        let first = node.index(start);
        let last = node.index(end - 1);
        for index in first..=last {
            let from = node.address(index);
            let (from, to) = (from.max(start), (from + span).min(end));
            let whole = to - from == span;
            if whole && node.level() == 1 && O::DETACHES {
                continue;
            }
            let child = loop {
                match node.child::<M>(index, rcu) {
                    None if !whole && self.grow_tree(node, from, O::CREATES, order)? => {}
                    child => break child,
                }
            };
            if let Some(child) = child {
                self.prepare(child, from, to, op, order, rcu)?;
            }
        }
        Ok(())
    }

    fn prepare_leaf<'g, O: RangeOp<M>>(
        &'g self,
        start: usize,
        end: usize,
        op: &O,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<(), Stop> {
        while let Some(arrival) = self.reach(start, O::CREATES, order, rcu)? {
            let leaf = arrival.node;
            let Some(locked) = arrival.enter::<M>(order) else { continue };
            let range = leaf.index(start)..leaf.index(end - 1) + 1;
            let own = arrival.is_exclusive::<M>(&locked);
            let room = !O::RENAMES || locked.segments.has_room(&range, O::CREATES);
            let object = op.object().filter(|o| !locked.is_registered(o));
            drop(locked);
            match object {
                _ if !own => self.own_leaf(&arrival, order)?,
                _ if !room => make_room(leaf, order)?,
                Some(object) => self.register_leaf(&arrival, object, order)?,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn visit<'g, O: RangeOp<M>>(
        &'g self,
        node: &'g Node,
        range: Range<usize>,
        op: &mut O,
        gather: &mut Gather<'g>,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<(), Stop> {
        let Range { start, end } = range;
        let span = node.span();
        // Entries that lie whole in the range.
        let low = start.next_multiple_of(span).max(node.base());
        let high = end & !(span - 1);
        if low < high {
            let whole = node.index(low)..node.index(high - 1) + 1;
            if O::RENAMES {
                self.change_whole(node, whole.clone(), op, gather, order, rcu)?;
            }
            if node.level() > 1 || !O::DETACHES {
                // Without the lock: threads that work under neighbouring entries would pass its line around.
                for index in whole {
                    if node.child::<M>(index, rcu).is_some() {
                        let from = node.address(index);
                        self.descend(node, from..from + span, op, gather, order, rcu)?;
                    }
                }
            }
        }
        // The ends.
        if low >= high && start / span == (end - 1) / span {
            return self.descend(node, start..end, op, gather, order, rcu);
        }
        if !start.is_multiple_of(span) {
            self.descend(node, start..start.next_multiple_of(span), op, gather, order, rcu)?;
        }
        if !end.is_multiple_of(span) {
            self.descend(node, high..end, op, gather, order, rcu)?;
        }
        Ok(())
    }

    /// Goes on below the entry of `node` in which `start..end` lies.
    fn descend<'g, O: RangeOp<M>>(
        &'g self,
        node: &'g Node,
        range: Range<usize>,
        op: &mut O,
        gather: &mut Gather<'g>,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<(), Stop> {
        let Range { start, end } = range;
        if node.level() == 1 {
            return self.change_leaf(start, end, op, gather, order, rcu);
        }
        loop {
            if let Some(child) = node.child::<M>(node.index(start), rcu) {
                return self.visit(child, start..end, op, gather, order, rcu);
            }
            if !self.grow_tree(node, start, O::CREATES, order)? {
                return if O::CREATES { Err(VmError::Fault.into()) } else { Ok(()) };
            }
        }
    }

    /// Changes entries of an interior node that lie whole in the range.
    fn change_whole<'g, O: RangeOp<M>>(
        &self,
        node: &'g Node,
        whole: Range<u16>,
        op: &mut O,
        gather: &mut Gather<'g>,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<(), Stop> {
        let mut at = whole.start;
        while at < whole.end {
            let mut locked = node.lock(order);
            if locked.stray {
                return Err(VmError::Fault.into());
            }
            let mut upto = match self.part::<O>(&locked, &(at..whole.end), at == whole.start, gather) {
                Part::UpTo(upto) => upto,
                Part::Full => {
                    drop(locked);
                    gather.removed.let_go();
                    continue;
                }
                Part::NoRoom => {
                    drop(locked);
                    make_room(node, order)?;
                    continue;
                }
            };
            if O::DETACHES && node.level() == 1 {
                for index in locked.used_in(&(at..upto)) {
                    if locked.entry(index).is_absent() {
                        continue;
                    }
                    if gather.is_full() {
                        upto = index;
                        break;
                    }
                    if let Some(leaf) = locked.detach::<M>(index, rcu) {
                        let viewers = self.unlink_detached(leaf.node(), &locked);
                        gather.add_leaf(leaf, &viewers);
                    }
                }
            }
            op.segments(&mut locked, at..upto, gather);
            drop(locked);
            if gather.is_full() {
                gather.finish::<M>(&self.tlb, order);
            }
            at = upto;
        }
        Ok(())
    }

    /// How much of `range` can be changed now; `first`: it is where the operation begins in this node.
    #[inline]
    fn part<O: RangeOp<M>>(
        &self,
        locked: &Locked<'_>,
        range: &Range<u16>,
        first: bool,
        gather: &Gather<'_>,
    ) -> Part {
        if !O::RENAMES {
            return Part::UpTo(range.end);
        }
        let segments = &locked.segments;
        if !(segments.has_room(range, O::CREATES) || !first && segments.has_room_for_more()) {
            return Part::NoRoom;
        }
        match segments.reach(range, gather.removed.room()) {
            upto if upto > range.start => Part::UpTo(upto),
            _ => Part::Full,
        }
    }

    /// Changes entries of one leaf.
    fn change_leaf<'g, O: RangeOp<M>>(
        &'g self,
        start: usize,
        end: usize,
        op: &mut O,
        gather: &mut Gather<'g>,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<(), Stop> {
        let mut at = start;
        while at < end {
            let Some(arrival) = self.reach(at, O::CREATES, order, rcu)? else {
                return if O::CREATES { Err(VmError::Fault.into()) } else { Ok(()) };
            };
            let leaf = arrival.node;
            let Some(mut locked) = arrival.enter::<M>(order) else { continue };
            if !arrival.is_exclusive::<M>(&locked) {
                drop(locked);
                self.own_leaf(&arrival, order)?;
                continue;
            }
            let mut range = leaf.index(at)..leaf.index(end - 1) + 1;
            match self.part::<O>(&locked, &range, at == start, gather) {
                Part::UpTo(upto) => range.end = upto,
                Part::Full => {
                    drop(locked);
                    gather.removed.let_go();
                    continue;
                }
                Part::NoRoom => {
                    drop(locked);
                    make_room(leaf, order)?;
                    continue;
                }
            }
            if let Some(object) = op.object().filter(|o| !locked.is_registered(o)) {
                drop(locked);
                self.register_leaf(&arrival, object, order)?;
                continue;
            }
            let mut upto = range.end;
            if O::CLEARS {
                upto = clear::<M>(&mut locked, range.clone(), gather);
            } else {
                op.entries(&mut locked, range.clone(), gather);
            }
            op.segments(&mut locked, range.start..upto, gather);
            drop(locked);
            if gather.is_full() {
                gather.finish::<M>(&self.tlb, order);
            }
            at = leaf.address(upto);
        }
        Ok(())
    }
}

/// Clears entries, those that own their frame into `gather`, until that is full; says how far it came. Pages of objects are not the
/// leaf's: only their translations have to go.
fn clear<M: Machine>(leaf: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) -> u16 {
    let mut cleared = range.end..range.start;
    let mut reached = range.end;
    for index in leaf.used_in(&range) {
        if leaf.entry(index).is_absent() {
            continue;
        }
        if gather.is_full() {
            reached = index;
            break;
        }
        let old = leaf.take::<M>(index);
        cleared = cleared.start.min(index)..index + 1;
        if old.owns_frame() {
            gather.add_page(old);
        }
        if leaf.present() == 0 {
            break;
        }
    }
    if !cleared.is_empty() {
        gather.touched(leaf, cleared);
    }
    reached
}

/// How much of a node can be changed under one lock.
enum Part {
    UpTo(u16),
    /// Nothing until `Removed` has let go what it holds.
    Full,
    /// Nothing until the node's list of segments is larger.
    NoRoom,
}

/// Makes room for one change of the segments of `node`. No lock is held.
#[cold]
fn make_room(node: &Node, order: &mut Order<'_>) -> Result<(), VmError> {
    let len = node.lock(order).segments.as_slice().len();
    let spare = SegmentList::bigger(len)?;
    let spare = node.lock(order).segments.adopt(spare);
    drop(spare);
    Ok(())
}
