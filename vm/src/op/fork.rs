//! Fork: the child gets the same leaves. Upper entries are copied, write permission is taken away one level up, and the child
//! is put on each leaf's list of sharers. No page and no frame is touched. A leaf in which all is shared memory stays writable and
//! is one leaf for all until somebody changes what it means: a thousand processes use one set of tables.
//!
//! Invariants: CopyBeforeWrite (protocol/share.rs) — an upper entry loses its write permission under the leaf's lock, together with
//! the new sharer's coming; before fork returns, and before any page below is copied, every CPU of the parent has flushed.
//! Lock order: layout → parent's interior node → leaf.
#![forbid(unsafe_code)]

use crate::addr::ENTRIES;
use crate::error::VmError;
use crate::machine::{Entry, Machine};
use crate::node::flush::Flushed;
use crate::node::segment::SegmentList;
use crate::node::{Locked, NewNode, Node, Sharer};
use crate::order::Order;
use crate::protocol::{leaf::leads_to, share as protocol};
use crate::small::SmallList;
use crate::space::Space;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::level::Held;
use sync::rcu::{self, RcuRead};

impl<M: Machine> Space<M> {
    /// A space with the same contents. May sleep.
    pub fn fork(&self) -> Result<Arc<Self>, VmError> {
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        let (layout, order) = layout.split();
        let child = Self::with_layout(*layout)?;
        child.stack_limit.store(self.stack_limit.load(Ordering::Relaxed), Ordering::Relaxed);
        let share = || {
            let rcu = rcu::read();
            let shared = self.share(self.root(), child.root(), &child, order, &rcu);
            child.has_parts.store(self.has_parts.load(Ordering::SeqCst), Ordering::Relaxed);
            shared
        };
        let flush = || _ = Flushed::by_flushing_all::<M>(&self.tlb);
        protocol::fork(&self.forking, share, flush).map(|()| child)
    }

    /// Fills `copy`, an empty interior node of `child`, with what `node` has.
    fn share(
        &self,
        node: &Node,
        copy: &Node,
        child: &Arc<Self>,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Result<(), VmError> {
        // Segments first: leaves that are made while this runs come from them, and are not the child's.
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
            if let Some(room) = room {
                drop(new.segments.adopt(room));
            }
            new.segments.inherit_from(segments, self.has_parts.load(Ordering::Relaxed));
            break;
        }
        let used = node.lock(order).used();
        if node.level() == 1 {
            // Nobody else knows the child's nodes yet: locked once for all leaves.
            let mut locked = copy.lock(order);
            for index in used {
                while !self.share_leaf(node, &mut locked, index, child, rcu)? {
                    drop(locked);
                    self.give_part(node, copy, index, child, order, rcu)?;
                    locked = copy.lock(order);
                }
            }
            return Ok(());
        }
        for index in used {
            if let Some(next) = node.child::<M>(index, rcu) {
                let new = NewNode::try_new(next.level(), next.base())?;
                copy.lock(order).fill_node::<M>(index, new);
                let Some(new) = copy.child::<M>(index, rcu) else { continue };
                self.share(next, new, child, order, rcu)?;
            }
        }
        Ok(())
    }

    /// Makes the leaf under entry `index` of `node` the child's too. False: the child gets only a part of it.
    fn share_leaf(
        &self,
        node: &Node,
        copy: &mut Locked<'_>,
        index: u16,
        child: &Arc<Self>,
        rcu: &RcuRead,
    ) -> Result<bool, VmError> {
        let cell = node.cell(index);
        if !copy.entry(index).is_absent() {
            return Ok(true);
        }
        loop {
            let Some(leaf) = node.child::<M>(index, rcu) else { return Ok(true) };
            let mut locked = leaf.lock_below(copy);
            let now = Entry(cell.load(Ordering::Relaxed));
            if !leads_to::<M>(now, leaf.table()) {
                continue;
            }
            if self.has_parts.load(Ordering::Relaxed)
                && locked.segments.as_slice().iter().any(|s| s.attrs.differs_in_child())
            {
                return Ok(false);
            }
            if !locked.sharers.has_capacity(1) {
                let len = locked.sharers.len();
                drop(locked);
                let spare = SmallList::<Sharer, 2>::bigger(len)?;
                drop(leaf.lock_below(copy).sharers.adopt(spare));
                continue;
            }
            // Where all is the same shared mapping in both spaces, one table will do for good, for writing too.
            let common = || locked.segments.as_slice().iter().all(|s| s.attrs.is_shared());
            // Who has to flush does so at fork's end.
            let unlink = || _ = self.unlink(&locked);
            let Some(entry) = protocol::protect::<M>(cell, now, leaf.table(), common, unlink) else {
                continue;
            };
            locked.sharers.push(Sharer::new(&child.tlb));
            drop(locked);
            copy.fill::<M>(index, entry);
            return Ok(true);
        }
    }
}

const _: () = assert!(ENTRIES == 512);
