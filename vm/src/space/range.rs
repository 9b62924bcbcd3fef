//! The walk that map, unmap, protect and advise share: apply a change to every node that a range covers.
//!
//! Interior entries that lie whole in the range are changed where they are; leaves under them are detached or visited,
//! as the operation wants; at the ends the walk goes down. A change is atomic for each leaf. What can fail comes first (`prepare`):
//! an operation that finds no memory leaves the space as it was.
//!
//! Invariants: LeafOwns, NothingSlowUnderLeaf (capacity is made outside the lock and the step tried again), FreeAfterFlush.
//! Lock order: one node at a time.
#![forbid(unsafe_code)]

use super::{Space, Stop};
use crate::addr::{ENTRIES, LEAF_SPAN};
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::flush::Gather;
use crate::node::segment::SegmentList;
use crate::node::{Locked, Node};
use crate::object::{ObjectRef, Pages};
use crate::order::Order;
use crate::protocol::evict;
use core::ops::Range;
use sync::rcu::{self, RcuRead};

/// A change to a range of addresses.
pub(crate) trait RangeOp<M: Machine> {
    /// Why translations are flushed.
    const CAUSE: FlushCause;
    /// Nodes are made where nothing is mapped.
    const CREATES: bool = false;
    /// Entries are cleared before the segments change.
    const CLEARS: bool;
    /// Leaves that lie whole in the range are detached; else they are visited.
    const DETACHES: bool;
    /// Entries of leaves change, or are cleared.
    const CHANGES_ENTRIES: bool = true;
    /// Segments change.
    const CHANGES_SEGMENTS: bool = true;
    /// What may find no memory comes first, so that an operation that fails has changed nothing.
    const PREPARES: bool = true;
    /// Lists of segments may become longer.
    const NEEDS_CAPACITY: bool = true;

    /// The object whose segments are put in at `start..end`, and which pages of it; leaves register with it first.
    fn object(&self, _start: usize, _end: usize) -> Option<(&ObjectRef, Pages)> {
        None
    }

    /// For which pages a leaf registers that is not registered for `pages`, which are to lie at `start`: for more than these, if more are likely to come.
    fn registered(&self, _start: usize, pages: Pages) -> Pages {
        pages
    }

    /// May `range` of `node` be changed? Else the operation ends with this error.
    #[inline]
    fn admits(&self, _node: &Locked<'_>, _range: &Range<u16>) -> Result<(), VmError> {
        Ok(())
    }

    /// Changes what `range` of `node` means.
    fn segments(&mut self, _node: &mut Locked<'_>, _range: Range<u16>, _gather: &mut Gather<'_>) {}

    /// Changes the entries of `range` of a leaf, where they are not cleared.
    fn entries(&mut self, _leaf: &mut Locked<'_>, _range: Range<u16>, _gather: &mut Gather<'_>) {}
}

impl<M: Machine> Space<M> {
    /// Applies `op` to `start..end`, whole pages below `USER_END`. No lock but the layout is held. May sleep unless the layout
    /// is locked.
    #[expect(clippy::arithmetic_side_effects, reason = "end is not zero")]
    pub(crate) fn apply<O: RangeOp<M>>(
        &self,
        start: usize,
        end: usize,
        op: &mut O,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        // Within one leaf everything happens under one lock, or not at all.
        let needs_none = !O::PREPARES || start / LEAF_SPAN == (end - 1) / LEAF_SPAN;
        let mut is_prepared = needs_none;
        // How far the one pass and the other have come.
        let (mut prepared, mut changed) = (start, start);
        loop {
            let result = {
                let rcu = rcu::read();
                let mut gather = Gather::new(O::CAUSE);
                let found = if is_prepared {
                    Ok(())
                } else {
                    Walk::new(self, order, &rcu, Prepare(&*op)).all(start..end, &mut prepared)
                };
                found.and_then(|()| {
                    is_prepared = true;
                    let pass = Change { op, gather: &mut gather };
                    let result = Walk::new(self, order, &rcu, pass).all(start..end, &mut changed);
                    gather.finish::<M>(&self.tlb, order);
                    result
                })
            };
            match result {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(e)) => return Err(e),
                Err(Stop::GiveWay) => give_way(),
                Err(Stop::Forking) => {
                    self.wait_for_fork();
                    // The fork has shared what was this space's own.
                    is_prepared &= needs_none;
                    prepared = changed;
                }
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
        let mut prepared = start;
        loop {
            let rcu = rcu::read();
            let result = Walk::new(self, order, &rcu, Prepare(op)).all(start..end, &mut prepared);
            drop(rcu);
            match result {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(e)) => return Err(e),
                Err(Stop::GiveWay) => give_way(),
                Err(Stop::Forking) => self.wait_for_fork(),
            }
        }
    }
}

/// Between two parts of a walk, outside of its RCU section. A change that has begun is made whole, so a fatal signal does not end it.
fn give_way() {
    sync::lock::order::assert_may_sleep();
    let _ = sync::machine::give_way();
}

/// A walk over the nodes that a range covers, in the order of addresses, and in each node first what lies whole in the range. If another thread should
/// run, it stops between two leaves ([`Stop::GiveWay`]); the next walk over the same range goes on there, and comes to nothing a second time.
struct Walk<'a, 'o, 'g, M: Machine, P> {
    space: &'g Space<M>,
    order: &'a mut Order<'o>,
    rcu: &'g RcuRead,
    pass: P,
    /// Everything below was done by walks before; then, where this one stops.
    reached: usize,
    /// This walk has done something: it may stop.
    gets_on: bool,
}

/// What is done on the way. Both passes of an operation go the same way.
trait Pass<'g, M: Machine>: Sized {
    type Op: RangeOp<M>;

    /// At entries of an interior node that lie whole in the range. Called if the operation changes segments.
    fn whole(walk: &mut Walk<'_, '_, 'g, M, Self>, node: &'g Node, whole: Range<u16>) -> Result<(), Stop>;

    /// At `start..end`, which lies in one leaf, if anything is mapped there.
    fn leaf(walk: &mut Walk<'_, '_, 'g, M, Self>, start: usize, end: usize) -> Result<(), Stop>;
}

impl<'a, 'o, 'g, M: Machine, P: Pass<'g, M>> Walk<'a, 'o, 'g, M, P> {
    fn new(space: &'g Space<M>, order: &'a mut Order<'o>, rcu: &'g RcuRead, pass: P) -> Self {
        Walk { space, order, rcu, pass, reached: 0, gets_on: false }
    }

    /// The whole range, from `reached` on, where the last walk over it stopped (at its start, if there was none).
    fn all(mut self, range: Range<usize>, reached: &mut usize) -> Result<(), Stop> {
        self.reached = *reached;
        let result = self.range(self.space.root(), range);
        *reached = self.reached;
        result
    }

    /// Stops before `at` if another thread should run. `at` is not where something begins that lies whole in the range, so whoever goes on there
    /// sees what was done.
    #[inline]
    fn may_stop(&mut self, at: usize) -> Result<(), Stop> {
        if self.gets_on && sync::machine::should_give_way() {
            self.reached = at;
            return Err(Stop::GiveWay);
        }
        Ok(())
    }

    /// `start..end`, which lies in `node`.
    #[expect(clippy::arithmetic_side_effects, reason = "spans of user memory; end is not zero")]
    fn range(&mut self, node: &'g Node, range: Range<usize>) -> Result<(), Stop> {
        let Range { start, end } = range;
        if is_part_of_entry(node, start, end) {
            return self.below(node, start..end);
        }
        let span = node.span();
        let reached = self.reached;
        // Entries that lie whole in the range.
        let low = (start + (span - 1)) & !(span - 1);
        let high = end & !(span - 1);
        if start < low && reached < low {
            self.below(node, start..low)?;
        }
        if low < high && reached < high {
            let from = node.index(low.max(reached));
            let whole = node.index(low)..node.index(high - 1) + 1;
            let is_last = P::Op::DETACHES && node.level() == 1;
            if P::Op::CHANGES_SEGMENTS && is_last {
                P::whole(self, node, from..whole.end)?;
            } else if P::Op::CHANGES_SEGMENTS && reached <= low {
                P::whole(self, node, whole.clone())?;
            }
            if !is_last {
                // Without the lock: threads that work under neighbouring entries would pass its line around.
                for index in from..whole.end {
                    if node.child::<M>(index, self.rcu).is_some() {
                        let at = node.address(index);
                        if index > whole.start {
                            self.may_stop(at)?;
                        }
                        self.below(node, at..at + span)?;
                        // Also where there is no leaf below: a program can leave as many empty tables as it likes.
                        self.gets_on = true;
                    }
                }
            }
        }
        if high < end {
            self.below(node, high..end)?;
        }
        Ok(())
    }

    /// Goes on below the entry of `node` in which `start..end` lies.
    fn below(&mut self, mut node: &'g Node, range: Range<usize>) -> Result<(), Stop> {
        let Range { start, end } = range;
        while node.level() > 1 {
            if let Some(child) = node.child::<M>(node.index(start), self.rcu) {
                if is_part_of_entry(child, start, end) {
                    node = child;
                    continue;
                }
                return self.range(child, start..end);
            }
            if !self.space.grow_tree(node, start, P::Op::CREATES, self.order)? {
                return if P::Op::CREATES { Err(VmError::Fault.into()) } else { Ok(()) };
            }
        }
        P::leaf(self, start, end)?;
        self.gets_on = true;
        Ok(())
    }
}

/// Does `start..end`, a part of `node`, lie within one of its entries, and not make it up?
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "end is not zero, and a span is a power of two")]
fn is_part_of_entry(node: &Node, start: usize, end: usize) -> bool {
    let span = node.span();
    (start ^ (end - 1)) < span && (start | end) & (span - 1) != 0
}

/// Has the leaf to come onto the object's list first, for those pages?
#[inline]
fn registers_first(leaf: &Locked<'_>, object: &ObjectRef, pages: Pages) -> bool {
    evict::registers_first(leaf.is_registered(object, pages))
}

/// Does everything that [`Change`] may find no memory for, so that an operation that fails has changed nothing: tables at the ends, leaves of
/// the space's own, capacity for segments, places on the object's list. (Another thread that changes the same nodes meanwhile may use the
/// capacity up.)
struct Prepare<'a, O>(&'a O);

impl<'g, M: Machine, O: RangeOp<M>> Pass<'g, M> for Prepare<'_, O> {
    type Op = O;

    fn whole(walk: &mut Walk<'_, '_, 'g, M, Self>, node: &'g Node, whole: Range<u16>) -> Result<(), Stop> {
        while !node.lock(walk.order).segments.has_capacity(&whole, O::CREATES) {
            make_capacity(node, walk.order)?;
        }
        Ok(())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "end is not zero; places in a leaf")]
    fn leaf(walk: &mut Walk<'_, '_, 'g, M, Self>, start: usize, end: usize) -> Result<(), Stop> {
        let Walk { space, order, rcu, pass: Prepare(op), .. } = walk;
        while let Some(path) = space.reach(start, O::CREATES, order, rcu)? {
            let leaf = path.node();
            let Some(locked) = path.enter::<M>(order) else { continue };
            let range = leaf.index(start)..leaf.index(end - 1) + 1;
            let own = path.is_exclusive::<M>(&locked);
            let has_capacity = !O::CHANGES_SEGMENTS || locked.segments.has_capacity(&range, O::CREATES);
            let object = op.object(start, end).filter(|&(o, pages)| registers_first(&locked, o, pages));
            drop(locked);
            match object {
                _ if !own => space.unshare_leaf(&path, order)?,
                _ if !has_capacity => make_capacity(leaf, order)?,
                Some((object, pages)) => path.register::<M>(object, op.registered(start, pages), order)?,
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

/// Makes the change.
struct Change<'a, 'g, O> {
    op: &'a mut O,
    gather: &'a mut Gather<'g>,
}

/// Where the part of `range` ends that can be changed now; `first`: it is where the operation begins in this node.
#[inline]
fn part<M: Machine, O: RangeOp<M>>(
    locked: &Locked<'_>,
    range: &Range<u16>,
    first: bool,
    gather: &Gather<'_>,
) -> Result<u16, Lack> {
    if !O::CHANGES_SEGMENTS {
        return Ok(range.end);
    }
    let segments = &locked.segments;
    let fits = || segments.has_capacity(range, O::CREATES) || !first && segments.has_capacity_for_more();
    if O::NEEDS_CAPACITY && !fits() {
        return Err(Lack::Segments);
    }
    match segments.reach(range, gather.removed.capacity_left()) {
        upto if upto > range.start => Ok(upto),
        _ => Err(Lack::Removed),
    }
}

impl<'g, M: Machine, O: RangeOp<M>> Pass<'g, M> for Change<'_, 'g, O> {
    type Op = O;

    fn whole(walk: &mut Walk<'_, '_, 'g, M, Self>, node: &'g Node, whole: Range<u16>) -> Result<(), Stop> {
        let is_last = O::DETACHES && node.level() == 1;
        let mut at = whole.start;
        while at < whole.end {
            if is_last && at > whole.start {
                walk.gets_on = true;
                walk.may_stop(node.address(at))?;
            }
            let Walk { space, order, rcu, pass: Change { op, gather }, .. } = walk;
            let mut locked = node.lock(order);
            if locked.is_stray() {
                return Err(VmError::Fault.into());
            }
            op.admits(&locked, &(at..whole.end))?;
            let mut upto = match part::<M, O>(&locked, &(at..whole.end), at == whole.start, gather) {
                Ok(upto) => upto,
                Err(lack) => {
                    drop(locked);
                    lack.end(space, node, gather, order)?;
                    continue;
                }
            };
            if is_last {
                for index in locked.used_in(&(at..upto)) {
                    if locked.entry(index).is_absent() {
                        continue;
                    }
                    if gather.is_full() {
                        upto = index;
                        break;
                    }
                    if let Some(leaf) = locked.detach::<M>(index, rcu) {
                        let viewers = space.unlink_detached(leaf.node(), &locked);
                        gather.add_leaf(leaf, &viewers);
                    }
                }
            }
            if O::CREATES && at < upto {
                node.counts().note_meant(&(at..upto));
            }
            op.segments(&mut locked, at..upto, gather);
            if locked.segments.as_slice().is_empty() {
                node.counts().note_nothing_meant();
            }
            drop(locked);
            gather.make_room::<M>(&space.tlb, order);
            at = upto;
        }
        Ok(())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "end is not zero; places in a leaf")]
    fn leaf(walk: &mut Walk<'_, '_, 'g, M, Self>, start: usize, end: usize) -> Result<(), Stop> {
        let Walk { space, order, rcu, pass: Change { op, gather }, .. } = walk;
        let mut at = start;
        while at < end {
            let Some(path) = space.reach(at, O::CREATES, order, rcu)? else {
                return if O::CREATES { Err(VmError::Fault.into()) } else { Ok(()) };
            };
            let leaf = path.node();
            let Some(mut locked) = path.enter::<M>(order) else { continue };
            if !path.is_exclusive::<M>(&locked) {
                drop(locked);
                space.unshare_leaf(&path, order)?;
                continue;
            }
            let mut range = leaf.index(at)..leaf.index(end - 1) + 1;
            op.admits(&locked, &range)?;
            match part::<M, O>(&locked, &range, at == start, gather) {
                Ok(upto) => range.end = upto,
                Err(lack) => {
                    drop(locked);
                    lack.end(space, leaf, gather, order)?;
                    continue;
                }
            }
            let object = op.object(at, end).filter(|&(o, pages)| registers_first(&locked, o, pages));
            if let Some((object, pages)) = object {
                drop(locked);
                path.register::<M>(object, op.registered(at, pages), order)?;
                continue;
            }
            let mut upto = range.end;
            if locked.is_large() {
                prepare_large::<M, O>(space, &mut locked, &range, gather);
            }
            if O::CLEARS {
                upto = clear::<M>(&mut locked, range.clone(), gather);
            } else {
                op.entries(&mut locked, range.clone(), gather);
            }
            let known = gather.removed.len();
            op.segments(&mut locked, range.start..upto, gather);
            gather.leave_unnamed(&mut locked, known);
            drop(locked);
            gather.make_room::<M>(&space.tlb, order);
            at = leaf.address(upto);
        }
        Ok(())
    }
}

/// Before `range` of a large leaf, which is the space's own, is changed: it is split, but where that leaves the pages as they are. Where all of them go, they
/// go at once.
#[cold]
#[inline(never)]
fn prepare_large<M: Machine, O: RangeOp<M>>(
    space: &Space<M>,
    leaf: &mut Locked<'_>,
    range: &Range<u16>,
    gather: &mut Gather<'_>,
) {
    let is_whole = range.len() == ENTRIES;
    if O::CLEARS && is_whole && gather.has_room_for_block() {
        space.clear_large(leaf, gather);
    } else if O::CHANGES_ENTRIES || (O::CHANGES_SEGMENTS && !is_whole) {
        space.split(leaf);
    }
}

/// Clears entries, those that own their frame or a count of a slot into `gather`, until that is full; says how far it came. Pages of objects are not the
/// leaf's: only their translations have to go.
#[expect(clippy::arithmetic_side_effects, reason = "places in a leaf")]
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
        let old = leaf.take_page::<M>(index);
        cleared = cleared.start.min(index)..index + 1;
        if old.owns() {
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

/// What a change of a node needs and does not have.
enum Lack {
    /// Capacity of `Removed`.
    Removed,
    /// Capacity of the node's list of segments.
    Segments,
}

impl Lack {
    /// Makes the capacity. The node is not locked.
    fn end<M: Machine>(
        self,
        space: &Space<M>,
        node: &Node,
        gather: &mut Gather<'_>,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        match self {
            Lack::Removed => {
                gather.finish::<M>(&space.tlb, order);
                Ok(())
            }
            Lack::Segments => make_capacity(node, order),
        }
    }
}

/// Gives `node` capacity for one change of its segments. No lock is held.
#[cold]
fn make_capacity(node: &Node, order: &mut Order<'_>) -> Result<(), VmError> {
    let len = node.lock(order).segments.as_slice().len();
    let spare = SegmentList::bigger(len)?;
    let spare = node.lock(order).segments.adopt(spare);
    drop(spare);
    Ok(())
}
