//! Fork: the child gets the same leaves. Upper entries are copied, write permission is taken away one level up, and the child
//! is put on each leaf's list of sharers. No page and no frame is touched. A leaf in which all is shared memory stays writable and
//! is one leaf for all until somebody changes what it means: a thousand processes use one set of tables.
//!
//! Invariants: CopyBeforeWrite (protocol/share.rs) — an upper entry loses its write permission under the leaf's lock, together with
//! the new sharer's coming; before fork returns, and before any page below is copied, every CPU of the parent has flushed.
//! Lock order: moving (where there are several threads: no mremap meanwhile) → layout → parent's interior node → leaf.
#![forbid(unsafe_code)]

mod inherit;

use crate::addr::ENTRIES;
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::flush::Flushed;
use crate::node::segment::SegmentList;
use crate::node::{Locked, NewNode, Node, Shared, WalkPath};
use crate::order::Order;
use crate::protocol::share as protocol;
use crate::space::{Space, Stop};
use crate::token;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::level::Held;
use sync::machine::{give_way, should_give_way};
use sync::rcu::{self, RcuRead};

impl<M: Machine> Space<M> {
    /// A space with the same contents. `Interrupted` where a fatal signal comes. May sleep.
    pub fn fork(&self) -> Result<Arc<Self>, VmError> {
        let token = token::hold();
        let mut clean = Held::clean();
        // While another thread's mremap moves pages, some are at neither place.
        let standing = self.stop_moving();
        let mut locked = self.layout.lock_in(&mut clean);
        let (layout, order) = locked.split();
        let child = Self::with_layout(*layout)?;
        child.brk.store(self.brk.load(Ordering::Relaxed), Ordering::Relaxed);
        child.credit.0.store(self.credit.0.load(Ordering::Relaxed), Ordering::Relaxed);
        self.hand_exec_gain_to(&child);
        child.set_limits(self.stack_limit.load(Ordering::Relaxed), self.total_limit.load(Ordering::Relaxed));
        let share = || {
            let shared = self.share_all(&child, order);
            child.has_parts.store(self.has_parts.load(Ordering::SeqCst), Ordering::Relaxed);
            child.large.inherit(&self.large);
            child.seals.inherit(&self.seals);
            shared
        };
        let flush = || _ = Flushed::by_flushing_all::<M>(&self.tlb, FlushCause::Fork);
        let forked = protocol::fork(&self.forking, share, flush);
        drop(locked);
        drop((standing, token));
        match forked {
            Ok(()) => Ok(child),
            Err(e) => {
                Self::let_go(child);
                Err(e)
            }
        }
    }

    /// Gives `child` all that is mapped. Between two leaves it gives way, outside of the read section; threads that want a leaf of their own wait on.
    fn share_all(&self, child: &Arc<Self>, order: &mut Order<'_>) -> Result<(), VmError> {
        let mut reached = 0;
        loop {
            let rcu = rcu::read();
            let shared = self.share(self.root(), child.root(), &mut reached, child, order, &rcu);
            drop(rcu);
            match shared {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(e)) => return Err(e),
                Err(Stop::GiveWay | Stop::Forking) => {
                    sync::lock::order::assert_may_sleep();
                    if give_way() {
                        return Err(VmError::Interrupted);
                    }
                }
            }
        }
    }

    /// May a leaf mean something else in a child? What another thread has in quarantine while it unmaps is free there.
    fn may_differ_in_child(&self) -> bool {
        self.has_parts.load(Ordering::Relaxed) || self.multithreaded.load(Ordering::Relaxed)
    }

    /// Fills `copy`, an interior node of `child`, with what `node` has from `reached` on; what lies before it has. If another thread should run, stops before
    /// a child that is not the first ([`Stop::GiveWay`]) and says there how far it came.
    fn share(
        &self,
        node: &Node,
        copy: &Node,
        reached: &mut usize,
        child: &Arc<Self>,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Result<(), Stop> {
        let from = *reached;
        if node.base() >= from {
            self.share_segments(node, copy, order)?;
        }
        let first = if from > node.base() { node.index(from) } else { 0 };
        let used = node.lock(order).upper_used_from(first);
        let mut is_first = true;
        let mut may_stop = |index: u16, reached: &mut usize| {
            if core::mem::replace(&mut is_first, false) || !should_give_way() {
                return Ok(());
            }
            *reached = node.address(index);
            Err(Stop::GiveWay)
        };
        if node.level() == 1 {
            // Nobody else knows the child's nodes yet: locked once for all leaves.
            let mut locked = copy.lock(order);
            for (index, _) in node.entries(used) {
                may_stop(index, reached)?;
                loop {
                    match self.share_leaf(node, &mut locked, index, child, rcu) {
                        Given::Done => break,
                        Given::NoRoom => {
                            drop(locked);
                            if let Some(leaf) = node.child::<M>(index, rcu) {
                                leaf.make_room_for_sharer(order)?;
                            }
                        }
                        Given::Part => {
                            drop(locked);
                            self.give_part(node, copy, index, child, order, rcu)?;
                        }
                    }
                    locked = copy.lock(order);
                }
            }
            return Ok(());
        }
        for (index, _) in node.entries(used) {
            let Some(next) = node.child::<M>(index, rcu) else { continue };
            may_stop(index, reached)?;
            let new = match copy.child::<M>(index, rcu) {
                Some(begun) => begun,
                None => {
                    let new = NewNode::try_new(next.level(), next.base())?;
                    copy.lock(order).fill_node::<M>(index, new);
                    match copy.child::<M>(index, rcu) {
                        Some(new) => new,
                        None => continue,
                    }
                }
            };
            self.share(next, new, reached, child, order, rcu)?;
        }
        Ok(())
    }

    /// Gives `copy`, an empty interior node of a child, the segments of `node`. They come first: leaves that are made while a fork runs come from
    /// them, and are not the child's.
    fn share_segments(&self, node: &Node, copy: &Node, order: &mut Order<'_>) -> Result<(), VmError> {
        let mut len = 0;
        loop {
            let mut room = None;
            if len > 2 {
                room = Some(SegmentList::bigger(len)?);
            }
            let locked = node.lock(order);
            let segments = locked.segments.as_slice();
            if segments.len() > len.max(2) {
                len = segments.len();
                continue;
            }
            let mut new = copy.lock_below(&locked);
            let replaced = room.map(|room| new.segments.adopt(room));
            copy.counts().note_meant_of(node.counts());
            new.segments.inherit_from(segments, self.may_differ_in_child());
            drop((new, locked));
            drop(replaced);
            return Ok(());
        }
    }

    /// Makes the leaf under entry `index` of `node` the child's too.
    fn share_leaf(
        &self,
        node: &Node,
        copy: &mut Locked<'_>,
        index: u16,
        child: &Arc<Self>,
        rcu: &RcuRead,
    ) -> Given {
        if !copy.entry(index).is_absent() {
            return Given::Done;
        }
        loop {
            let Some(path) = WalkPath::below::<M>(node, index, rcu) else { return Given::Done };
            let locked = path.node().lock_below(copy);
            if self.may_differ_in_child()
                && locked.segments.as_slice().iter().any(|s| s.attrs.differs_in_child())
            {
                return Given::Part;
            }
            // Who has to flush does so at fork's end.
            let unlink = |leaf: &Locked<'_>| _ = self.unlink(leaf);
            match path.share::<M>(locked, copy, &child.tlb, unlink) {
                Shared::Done => return Given::Done,
                Shared::NoRoom => return Given::NoRoom,
                Shared::Elsewhere => {}
            }
        }
    }
}

/// What became of a leaf of the parent's.
enum Given {
    /// The child has it, or has what it gets of it.
    Done,
    /// The child gets only a part of it.
    Part,
    /// It has no room for one more sharer.
    NoRoom,
}

const _: () = assert!(ENTRIES == 512);
