//! Getting to leaves: making them at first touch, and making them this space's own before a change.
//!
//! Invariants: LeafOwns, RegisterBeforeMap, CopyBeforeWrite.
//! Lock order: one node at a time, but for a new leaf that nobody knows yet.
#![forbid(unsafe_code)]

use super::{Space, Stop};
use crate::addr::PhysAddr;
use crate::error::VmError;
use crate::frame::Frame;
use crate::machine::{Entry, Machine};
use crate::node::flush::Gather;
use crate::node::segment::{SegFlags, Segment, SegmentList};
use crate::node::{
    Locked, NewNode, NewPoolShare, Node, PoolFill, PoolShare, Registration, Retired, Sharer, WalkPath,
};
use crate::object::ObjectRef;
use crate::object::rmap::ReverseOps;
use crate::order::Order;
use crate::protocol::pool;
use crate::protocol::share::{self, Claim, Pair};
use crate::small::SmallList;
use alloc::sync::Arc;
use arrayvec::ArrayVec;
use core::marker::PhantomData;
use sync::CpuId;
use sync::rcu::{self, RcuRead};

impl<M: Machine> Space<M> {
    /// The leaf of `addr`. Where there is none it is made: at the first touch of a segment that lies higher up (the segment is
    /// copied down), or, with `create`, empty. None: nothing is mapped there.
    #[inline]
    pub(crate) fn reach<'g>(
        &'g self,
        addr: usize,
        create: bool,
        order: &mut Order<'_>,
        rcu: &'g RcuRead,
    ) -> Result<Option<WalkPath<'g>>, VmError> {
        loop {
            let path = WalkPath::walk::<M>(self.root(), addr, rcu);
            if path.node.is_leaf() {
                return Ok(Some(path));
            }
            if !self.grow_tree(path.node, addr, create, order)? {
                return Ok(None);
            }
        }
    }

    /// Puts a child under the entry of `parent` for `addr`, which was absent. False: nothing is mapped there.
    #[cold]
    pub(crate) fn grow_tree(
        &self,
        parent: &Node,
        addr: usize,
        create: bool,
        order: &mut Order<'_>,
    ) -> Result<bool, VmError> {
        let index = parent.index(addr);
        let attrs_now =
            |locked: &Locked<'_>| locked.segments.find(index).map(|s| s.at(index, parent.shift()));
        let locked = parent.lock(order);
        let attrs = attrs_now(&locked);
        let stray = locked.stray;
        drop(locked);
        if stray || (attrs.is_none() && !create) {
            return Ok(false);
        }
        let mut child = NewNode::try_new(parent.level() - 1, parent.address(index))?;
        if child.node().is_leaf() {
            child.state().sharers.push(Sharer::new(&self.tlb));
        }
        if let Some(attrs) = &attrs {
            let mut none = crate::node::segment::Removed::new();
            let shift = child.node().shift();
            child.state().segments.insert(0..crate::addr::ENTRIES as u16, attrs.clone(), shift, &mut none);
            if child.node().is_leaf() {
                child = self.register_all(child, order)?;
            }
        }
        let mut locked = parent.lock(order);
        let unchanged = match (&attrs, attrs_now(&locked)) {
            (None, None) => true,
            (Some(a), Some(b)) => a.continued_by(&b, 0),
            _ => false,
        };
        if unchanged && !locked.stray && locked.entry(index).is_absent() {
            locked.fill_node::<M>(index, child);
        } else {
            drop(locked);
            Retired::unused::<M>(child, order);
        }
        Ok(true)
    }

    /// Puts a leaf that no tree holds yet, and that has room for it, on `object`'s list (RegisterBeforeMap). From then on visits of
    /// the reverse map know it.
    fn register_new(&self, leaf: &Node, object: ObjectRef, order: &mut Order<'_>) -> Result<(), VmError> {
        let place = object.register(leaf, ReverseOps::of::<M>(), order)?;
        leaf.lock(order).registrations.push(Registration { object, place });
        leaf.set_maps_objects();
        Ok(())
    }

    /// Puts an existing leaf on `object`'s list. The leaf may have changed in any way when this returns.
    pub(crate) fn register_leaf(
        &self,
        path: &WalkPath<'_>,
        object: &ObjectRef,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        let leaf = path.node;
        let mut spare = SmallList::<Registration, 2>::bigger(leaf.lock(order).registrations.len())?;
        let place = object.register(leaf, ReverseOps::of::<M>(), order)?;
        let mut locked = leaf.lock(order);
        if !locked.registrations.has_capacity(1) {
            spare = locked.registrations.adopt(spare);
        }
        if path.is_current::<M>(&locked)
            && !locked.is_registered(object)
            && locked.registrations.has_capacity(1)
        {
            locked.registrations.push(Registration { object: object.clone(), place });
            leaf.set_maps_objects();
            drop(locked);
        } else {
            // The list's lock keeps visits away from a leaf that may be on its way out.
            drop(locked);
            object.unregister(&place, order);
        }
        drop(spare);
        Ok(())
    }

    /// Makes the leaf at `path` this space's own, if it is shared: the last sharer takes it over as it is, others copy it.
    /// The caller walks again afterwards. RCU section open, no lock held.
    #[cold]
    pub(crate) fn unshare_leaf(&self, path: &WalkPath<'_>, order: &mut Order<'_>) -> Result<(), Stop> {
        let Some(upper) = path.upper else { return Ok(()) };
        let leaf = path.node;
        let locked = leaf.lock(order);
        match share::claim::<M>(upper, leaf.table(), locked.is_shared(), &self.forking) {
            Claim::Again => return Ok(()),
            Claim::Wait => return Err(Stop::Forking),
            Claim::Copy => {}
        }
        // Segments of a shared leaf do not change while it is shared; copy them and register outside the lock.
        let len = locked.segments.as_slice().len();
        let wanted = locked.wants_pool();
        drop(locked);
        let pool = NewPoolShare::make(wanted);
        let mut copy = NewNode::try_new(0, leaf.base())?;
        copy.state().sharers.push(Sharer::new(&self.tlb));
        drop(copy.state().segments.adopt(SegmentList::bigger(len)?));
        let locked = leaf.lock(order);
        if !locked.is_shared() || locked.segments.as_slice().len() != len {
            return Ok(());
        }
        copy.state().segments.copy_from(locked.segments.as_slice());
        drop(locked);
        let copy = self.register_all(copy, order)?;
        self.copy_leaf(path, copy, pool, order);
        Ok(())
    }

    /// Puts a leaf that nobody else knows yet on the lists of all objects that its segments name.
    pub(crate) fn register_all(&self, mut leaf: NewNode, order: &mut Order<'_>) -> Result<NewNode, VmError> {
        // What it names is looked up first: registered for one object, the leaf is known to that object's visits.
        let mut objects: ArrayVec<ObjectRef, 8> = ArrayVec::new_const();
        let segments = leaf.state().segments.as_slice();
        let mut all = true;
        for object in segments.iter().filter_map(|s| s.attrs.object.as_ref()) {
            if !objects.iter().any(|o| ObjectRef::ptr_eq(o, object)) {
                all &= objects.try_push(object.clone()).is_ok();
            }
        }
        let len = if all { objects.len() } else { segments.len() };
        if !leaf.state().registrations.has_capacity(len) {
            let bigger = SmallList::<Registration, 2>::bigger(len)?;
            drop(leaf.state().registrations.adopt(bigger));
        }
        let mut result = Ok(());
        for object in objects {
            result = result.and_then(|()| self.register_new(leaf.node(), object, order));
        }
        let mut i = 0;
        while !all && result.is_ok() {
            // Very many objects in one leaf.
            let locked = leaf.node().lock(order);
            let Some(segment) = locked.segments.as_slice().get(i) else { break };
            let object = segment.attrs.object.clone().filter(|o| !locked.is_registered(o));
            drop(locked);
            result = object.map_or(Ok(()), |object| self.register_new(leaf.node(), object, order));
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

    /// Exchanges the shared leaf at `path` for `copy`, which has the same segments and is registered.
    fn copy_leaf(
        &self,
        path: &WalkPath<'_>,
        copy: NewNode,
        pool: Option<NewPoolShare>,
        order: &mut Order<'_>,
    ) {
        let Some(upper) = path.upper else { return };
        let leaf = path.node;
        let mut locked = leaf.lock(order);
        let busy = locked.used().any(|i| locked.entry(i).is_busy());
        // Since the segments were copied the leaf may have been taken over, changed and shared anew.
        let mut leaf_copy = copy.node().lock_below(&locked);
        let unchanged = locked.segments.same_as(&leaf_copy.segments);
        if !unchanged || !locked.is_shared() || !path.is_current::<M>(&locked) || busy {
            drop((locked, leaf_copy));
            Retired::unused::<M>(copy, order);
            sync::machine::relax();
            return;
        }
        let replaced = copy_entries::<M>(&mut locked, &mut leaf_copy, pool, false);
        drop(leaf_copy);
        let exchanged = copy.exchange_for::<M, _>(upper, leaf, || self.unlink(&locked));
        drop(locked);
        if let Some(pool) = replaced {
            pool::let_go(pool, rcu::defer_arc);
        }
        match exchanged {
            Ok((left, viewers)) => {
                // This space's CPUs may hold translations and table pointers through the old leaf: it leaves only after a flush.
                let mut gather = Gather::new();
                gather.add_leaf(left, &viewers);
                gather.finish::<M>(&self.tlb, order);
            }
            Err(copy) => Retired::unused::<M>(copy, order),
        }
    }
}

/// Pages of an object looked up at once.
const RUN: u16 = 16;

/// Gives `copy`, a leaf without entries, those of `leaf` that its segments allow; `part`: they do not allow all. Both are locked;
/// `leaf` has no busy entries. `pool`, if it fits, takes what other leaves have too. Returns the one that it replaced.
///
/// What may not be copied: entries of an object whose slot has been emptied (ReadSlotUnderLeaf) and private copies of pages beyond
/// its end. A visit of the reverse map may have passed `copy` already, and finds them in `leaf`.
#[must_use]
pub(crate) fn copy_entries<M: Machine>(
    leaf: &mut Locked<'_>,
    copy: &mut Locked<'_>,
    pool: Option<NewPoolShare>,
    part: bool,
) -> Option<Arc<PoolShare>> {
    let doubtful = part || copy.segments.as_slice().iter().any(ends_past_object);
    let mut pool = pool.filter(|new| new.fits(leaf));
    let mut counting = Counting {
        list: pool.as_mut().and_then(NewPoolShare::list),
        cpu: sync::cpu_id(),
        common: 0,
        foreign: false,
    };
    // What the objects hold now is looked up in runs.
    let mut around = [PhysAddr(0); RUN as usize];
    let mut run = 0..0;
    let mut left = leaf.present();
    for index in leaf.used() {
        if left == 0 {
            break;
        }
        let old = leaf.entry(index);
        if old.is_absent() {
            continue;
        }
        left -= 1;
        if old.is_private() {
            let wanted = !doubtful || takes_copies(copy, index);
            let mut page = OnePage { leaf, copy, index, counting: &mut counting, machine: PhantomData::<M> };
            share::copy_private::<M>(&mut page, old, wanted);
            continue;
        }
        if !run.contains(&index) {
            let Some(segment) = copy.segments.find(index) else { continue };
            let Some((object, page)) = segment.object_page(index) else {
                // The page of zeros.
                copy.fill::<M>(index, old);
                continue;
            };
            run = index..((index | (RUN - 1)) + 1).min(segment.end);
            around = [PhysAddr(0); RUN as usize];
            object.resident(page, around.get_mut(..run.len()).unwrap_or_default(), leaf);
        }
        if around.get(usize::from(index - run.start)).is_some_and(|now| *now == old.address::<M>()) {
            copy.fill::<M>(index, old);
        }
    }
    leaf.foreign = if counting.foreign { counting.common } else { 0 };
    copy.foreign = leaf.foreign;
    match pool {
        Some(pool) => pool.give(leaf, copy),
        None => {
            copy.pool = leaf.pool.clone();
            None
        }
    }
}

/// Who counts the private pages on their way into the copy of a leaf.
struct Counting<'a> {
    /// Takes the references to those that others have too.
    list: Option<PoolFill<'a>>,
    cpu: CpuId,
    /// Of those that go on counting their references: how many others have too, and whether another CPU counted one last.
    common: u16,
    foreign: bool,
}

/// One of them, in both leaves.
struct OnePage<'a, 'l, 'c, 'h, M> {
    leaf: &'a mut Locked<'l>,
    copy: &'a mut Locked<'c>,
    index: u16,
    counting: &'a mut Counting<'h>,
    machine: PhantomData<M>,
}

impl<M: Machine> Pair for OnePage<'_, '_, '_, '_, M> {
    #[inline]
    fn restate(&mut self, entry: Entry) {
        self.leaf.restate(self.index, entry);
    }

    #[inline]
    fn fill(&mut self, entry: Entry) {
        self.copy.fill::<M>(self.index, entry);
    }

    #[inline]
    fn count(&mut self, entry: Entry) {
        let (others, other_cpu) = Frame::of(entry.address::<M>()).get_for_copy(self.counting.cpu);
        self.counting.common += u16::from(others);
        self.counting.foreign |= other_cpu;
    }

    #[inline]
    fn hand_over(&mut self, entry: Entry) -> bool {
        let Some(list) = &mut self.counting.list else { return false };
        let frame = Frame::of(entry.address::<M>());
        // What nobody else has stays the leaf's own.
        frame.refs() > 1 && list.take(frame)
    }

    #[inline]
    fn keep(&mut self, entry: Entry) {
        if let Some(list) = &mut self.counting.list {
            list.add_again(Frame::of(entry.address::<M>()));
        }
    }
}

/// Does the segment reach beyond the end of its object?
fn ends_past_object(segment: &Segment) -> bool {
    segment.object_page(segment.end - 1).is_some_and(|(object, page)| page >= object.pages())
}

/// May entry `index` hold a private page of another leaf? Not if nothing is mapped there, if it is to be empty in a child, or if it
/// stands for a page beyond the end of its object.
fn takes_copies(leaf: &Locked<'_>, index: u16) -> bool {
    leaf.segments.find(index).is_some_and(|s| {
        !s.attrs.flags.contains(SegFlags::WIPE_ON_FORK)
            && s.object_page(index).is_none_or(|(object, page)| page < object.pages())
    })
}
