//! Pools: references to frames that leaves have together.
//!
//! A page that processes on several CPUs have from one ancestor and do not write would be counted at each copy of a leaf: its
//! metadata would go round among the CPUs that fork. So where a copy finds that other CPUs count the same frames, the leaf's references
//! move to a list at the next copy, and the leaf's family counts that list as one thing, by a two-level count: a leaf counts a [`PoolShare`] of the
//! CPU that copies, and shares count the list. Forking again and again writes neither a frame nor a line of another CPU.
//!
//! Invariants: PooledByFamily, FreeAfterFlush (protocol/pool.rs, with what the grace period is for). Let go at once, a page could be freed
//! while it is copied; used anew in its old place, and pooled again there, it would even pass for unchanged, and what was written to it
//! meanwhile would be lost.
//!
//! Stale translations need no grace period: who clears a pooled entry of a leaf of its own flushes, and so does fork before anybody copies
//! the leaf; a leaf ends after a flush; a visit of the reverse map, which clears entries of shared leaves too, has a reference until it
//! has flushed.
//!
//! The price: what a leaf has pooled stays in memory until all leaves of its family are gone, though each may have a copy by now.
//! Lock order: the leaf alone; a pool is made before the lock is taken.
//!
//! A low room: the last reference to a frame goes here.

use super::NodeState;
use crate::frame::{self, Frame};
use crate::protocol::pool;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::rcu::RcuHead;
use sync::{CpuId, TryVec, slab_arc};

/// References to frames, one each.
struct PooledFrames(Vec<&'static Frame>);

crate::slab_type!(PooledFrames, "pooled-frames", Arc);

impl Drop for PooledFrames {
    fn drop(&mut self) {
        for frame in self.0.drain(..) {
            // SAFETY: the list's own reference. No entry counts on the list any more, since a grace period (PooledByFamily, FreeAfterFlush).
            unsafe { frame::release(frame) };
        }
    }
}

/// A count of the leaves that have a list of frames: of those that one CPU made by copying.
pub struct PoolShare {
    frames: Arc<PooledFrames>,
    cpu: CpuId,
    rcu: RcuHead,
}

crate::slab_type!(PoolShare, "pool-share", Arc);

sync::rcu_object!(PoolShare);

/// What the copy of a leaf could use.
pub enum Wanted {
    Nothing,
    /// A list with room for so many frames, and for all that this one has, whose place it takes.
    List(usize, Option<Arc<PoolShare>>),
    /// A count of this CPU's own, in place of this one.
    Count(Arc<PoolShare>),
}

impl NodeState {
    /// What a copy of this leaf could use. It is made, if there is memory for it, when the leaf is unlocked.
    pub fn wants_pool(&self) -> Wanted {
        match &self.pool {
            old if self.foreign > 0 => Wanted::List(usize::from(self.foreign), old.clone()),
            Some(old) if old.cpu != sync::cpu_id() => Wanted::Count(old.clone()),
            _ => Wanted::Nothing,
        }
    }
}

/// A pool that no leaf has yet.
pub struct NewPoolShare {
    pool: Arc<PoolShare>,
    /// It can take the place of this one only.
    old: Option<Arc<PoolShare>>,
    /// Frames that it can take over from entries.
    room: Option<usize>,
}

impl NewPoolShare {
    /// None: nothing is wanted, or there is no memory; then frames are counted one by one.
    pub fn make(wanted: Wanted) -> Option<Self> {
        let (frames, old, room) = match wanted {
            Wanted::Nothing => return None,
            Wanted::List(room, old) => {
                let pooled = old.as_ref().map_or(0, |pool| pool.frames.0.len());
                (slab_arc(PooledFrames(sync::heap::try_vec(pooled + room).ok()?)).ok()?, old, Some(room))
            }
            Wanted::Count(old) => (old.frames.clone(), Some(old), None),
        };
        let pool = slab_arc(PoolShare { frames, cpu: sync::cpu_id(), rcu: RcuHead::new() }).ok()?;
        Some(Self { pool, old, room })
    }

    /// May it take the place of the pool of `leaf`?
    pub(super) fn fits(&self, leaf: &NodeState) -> bool {
        pool::fits(self.old.as_ref(), leaf.pool.as_ref())
    }

    /// The list, if it is a new one, which takes the references to frames that are put in.
    pub(super) fn list(&mut self) -> Option<PoolFill<'_>> {
        let room = self.room?;
        let frames = &mut Arc::get_mut(&mut Arc::get_mut(&mut self.pool)?.frames)?.0;
        Some(PoolFill { frames, room })
    }

    /// Has it taken nothing?
    pub(super) fn is_empty(&self) -> bool {
        self.pool.frames.0.is_empty()
    }

    /// Gives `leaf` and its copy the pool. What it replaced goes by `pool::let_go`.
    pub(super) fn give(self, leaf: &mut NodeState, copy: &mut NodeState) -> Option<Arc<PoolShare>> {
        pool::give(self.pool, &mut leaf.pool, &mut copy.pool)
    }
}

/// A list that is being filled.
pub struct PoolFill<'a> {
    frames: &'a mut Vec<&'static Frame>,
    room: usize,
}

impl PoolFill<'_> {
    /// Takes over an entry's reference to `frame`. False: there is no room, and the entry keeps it.
    #[inline]
    pub fn take(&mut self, frame: &'static Frame) -> bool {
        let Some(room) = self.room.checked_sub(1) else { return false };
        self.room = room;
        self.frames.push_reserved(frame).is_ok()
    }

    /// Takes one more reference to `frame`, which the list before has. There is room for all of those; if there were none, the frame would
    /// stay for good, so that its pooled entry stays true.
    pub fn add_again(&mut self, frame: &'static Frame) {
        frame.get();
        let fits = self.frames.push_reserved(frame);
        debug_assert!(fits.is_ok());
    }
}
