//! Moving pages that are mapped to other NUMA nodes (mbind with MPOL_MF_MOVE, migrate_pages, move_pages).
//!
//! A private page is taken out of its entry, which is busy meanwhile (protocol/busy.rs); when all CPUs have flushed nobody can write it any more, and its copy on
//! the other node takes its place. Who wants the page meanwhile waits; who unmaps it, protects it or forks is not kept: then the copy is not used, or the old page
//! goes back. The page of an object is exchanged in its slot (object/migrate.rs).
//!
//! A page that other spaces have too stays where it is, unless all that is mapped is to move: then this space gets its own copy of a private one, which a write would
//! have given it, and the others keep theirs.
//!
//! Invariants: NothingSlowUnderLeaf, CopyBeforeWrite, FreeAfterFlush, BusyWhileFlushed.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use super::pages::{MappedPage, PageKind};
use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::frame::{Frame, OwnedFrame, pin};
use crate::machine::{FlushCause, FlushRange, Machine};
use crate::node::Retired;
use crate::node::flush::Flushed;
use crate::object::migrate::AT_ONCE;
use crate::order::{self, Order};
use crate::policy::{Nodes, Place, Policy, on_node};
use crate::protocol::busy;
use crate::request::Access;
use crate::space::pieces::Piece;
use crate::space::{Space, Stop};
use arrayvec::ArrayVec;
use core::ops::Range;
use sync::rcu::{self, RcuRead};

/// Where pages go that are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Where the policy puts new ones.
    Policy(Policy),
    Node(usize),
}

/// Which pages are moved, and where.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Those on these nodes.
    pub from: Nodes,
    /// None: none is; those that would have to be are counted as failures.
    pub to: Option<Target>,
    /// Those that other spaces have too.
    pub shared: bool,
}

/// What became of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Migrated {
    /// It is on another node now, or was on none of those that it was to leave.
    Done,
    /// There is no page, or it is nobody's.
    Absent,
    /// Other spaces have it, and these keep it where it is.
    Shared,
    /// It is in use, and could not be moved.
    Busy,
    NoMemory,
}

/// A frame for the page's copy, and for whose sake it came from where it does.
struct Replacement {
    frame: OwnedFrame,
    place: Place,
}

/// What an attempt came to.
enum Attempt {
    Over(Migrated),
    Again,
    Forking,
}

impl Target {
    fn alloc(self, place: Place) -> Option<OwnedFrame> {
        match self {
            Target::Policy(policy) => Place { policy, ..place }.alloc_dirty(),
            Target::Node(node) => on_node(node),
        }
    }
}

impl Migration {
    /// Is a page on `frame` to move?
    fn concerns(&self, frame: &Frame) -> bool {
        self.from.checked_shr(frame.numa_node() as u32).unwrap_or(0) & 1 != 0
    }
}

/// Pages of one piece that are moved.
struct Batch<'a, M: Machine> {
    space: &'a Space<M>,
    how: &'a Migration,
    piece: &'a Piece,
    /// Addresses of pages of the object, which go together.
    pages: ArrayVec<usize, AT_ONCE>,
    failed: usize,
}

impl<M: Machine> Batch<'_, M> {
    /// Moves a page that was there a moment ago, or keeps it for `finish`.
    fn add(&mut self, page: &MappedPage) {
        if page.kind == PageKind::Zero || !self.how.concerns(page.frame) {
            return;
        }
        if self.how.to.is_none() {
            self.failed = self.failed.saturating_add(1);
        } else if !self.how.shared && !page.is_exclusive() {
            // Others keep it here.
        } else if page.kind == PageKind::Private {
            let result = self.space.migrate_private(page.addr, self.how);
            let has_failed = matches!(result, Migrated::Busy | Migrated::NoMemory);
            self.failed = self.failed.saturating_add(usize::from(has_failed));
        } else {
            self.pages.push(page.addr);
            if self.pages.is_full() {
                self.finish();
            }
        }
    }

    /// Moves what waits, and maps it again: who has it mapped sees no difference.
    fn finish(&mut self) {
        let (Some(object), Some(to)) = (&self.piece.attrs.object, self.how.to) else { return };
        let first = self.piece.attrs.offset;
        let number =
            |at: &usize| first.saturating_add((at.saturating_sub(self.piece.start) >> PAGE_SHIFT) as u64);
        let pages: ArrayVec<u64, AT_ONCE> = self.pages.iter().map(number).collect();
        let alloc = |page| to.alloc(object.place(page));
        let failed = object.migrate(&pages, |frame| self.how.concerns(frame), alloc);
        self.failed = self.failed.saturating_add(failed);
        let access = Access { foreign: true, ..Access::READ };
        self.pages.drain(..).for_each(|at| {
            let _ = self.space.fault(VirtAddr(at), access);
        });
    }
}

impl<M: Machine> Space<M> {
    /// Moves the pages of `range`, whole pages. Says how many could not be moved: those that others have too, if these are not to be, do not count. May sleep; a
    /// fatal signal ends it.
    pub fn migrate(&self, range: Range<usize>, how: &Migration) -> usize {
        let (mut at, mut failed) = (range.start, 0usize);
        while let Some(piece) = self.next_piece_in(at, range.end, &mut order::begin()) {
            at = piece.end.min(range.end);
            let mut batch =
                Batch { space: self, how, piece: &piece, pages: ArrayVec::new_const(), failed: 0 };
            let goes_on = self.for_each_page(piece.start..at, &mut |page| batch.add(page));
            batch.finish();
            failed = failed.saturating_add(batch.failed);
            if !goes_on {
                break;
            }
        }
        failed
    }

    /// Moves the page at `addr`, or says what keeps it. May sleep.
    pub fn migrate_at(&self, addr: VirtAddr, how: &Migration) -> Migrated {
        let start = addr.page_start().0;
        let end = start.saturating_add(PAGE_SIZE);
        let Some(piece) = self.next_piece_in(start, end, &mut order::begin()) else {
            return Migrated::Absent;
        };
        let mut result = Migrated::Absent;
        self.for_each_page(start..end, &mut |page| {
            result = match page.kind {
                PageKind::Zero => Migrated::Absent,
                _ if !how.concerns(page.frame) => Migrated::Done,
                _ if !how.shared && !page.is_exclusive() => Migrated::Shared,
                PageKind::Private => self.migrate_private(page.addr, how),
                PageKind::Object { .. } => {
                    let pages = ArrayVec::new_const();
                    let mut batch = Batch { space: self, how, piece: &piece, pages, failed: 0 };
                    batch.add(page);
                    batch.finish();
                    if batch.failed > 0 { Migrated::Busy } else { Migrated::Done }
                }
            };
        });
        result
    }

    fn migrate_private(&self, addr: usize, how: &Migration) -> Migrated {
        let mut spare = None;
        let order = &mut order::begin();
        loop {
            let attempt = {
                let rcu = rcu::read();
                self.try_migrate(addr, how, &mut spare, order, &rcu)
            };
            match attempt {
                Ok(Attempt::Over(result)) => return result,
                Ok(Attempt::Again) => {}
                Ok(Attempt::Forking) => self.wait_for_fork(),
                Err(_) => return Migrated::NoMemory,
            }
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "addresses in a leaf")]
    fn try_migrate(
        &self,
        addr: usize,
        how: &Migration,
        spare: &mut Option<Replacement>,
        order: &mut Order<'_>,
        rcu: &RcuRead,
    ) -> Result<Attempt, VmError> {
        let Some(path) = self.reach(addr, false, order, rcu)? else {
            return Ok(Attempt::Over(Migrated::Absent));
        };
        let leaf = path.node();
        let index = leaf.index(addr);
        let Some(mut locked) = path.enter::<M>(order) else { return Ok(Attempt::Again) };
        let shown = locked.look(index);
        if shown.is_busy() {
            drop(locked);
            sync::machine::relax();
            return Ok(Attempt::Again);
        }
        let Some(source) = shown.frame::<M>().filter(|_| shown.is_private()) else {
            return Ok(Attempt::Over(Migrated::Absent));
        };
        if !how.concerns(source) {
            return Ok(Attempt::Over(Migrated::Done));
        }
        let is_shared = shown.is_pooled() || source.refs() > 1 || locked.is_shared();
        if is_shared && !how.shared {
            return Ok(Attempt::Over(Migrated::Shared));
        }
        let (Some(segment), Some(to)) = (locked.segments.find(index), how.to) else {
            return Ok(Attempt::Over(Migrated::Absent));
        };
        let place = segment.place(index, leaf.address(index));
        if !path.is_exclusive::<M>(&locked) {
            drop(locked);
            return match self.unshare_leaf(&path, order) {
                Ok(()) => Ok(Attempt::Again),
                Err(Stop::Forking | Stop::GiveWay) => Ok(Attempt::Forking),
                Err(Stop::Failed(e)) => Err(e),
            };
        }
        if spare.as_ref().is_none_or(|spare| spare.place != place) {
            drop(locked);
            *spare = None;
            let frame = to.alloc(place).ok_or(VmError::NoMemory)?;
            *spare = Some(Replacement { frame, place });
            return Ok(Attempt::Again);
        }
        self.split(&mut locked);
        let viewers = locked.viewers();
        let cpu = sync::cpu_id();
        let old = locked.make_busy::<M>(index, cpu);
        drop(locked);
        let mut range = FlushRange::EMPTY;
        range.add(leaf.address(index), leaf.address(index + 1));
        let flush = || Flushed::by_flushing::<M>(&self.tlb, range, &viewers, false, FlushCause::Move);
        let proof = busy::copy_unwritten(flush, || {
            if let Some(spare) = spare {
                pin::copy(source, &mut spare.frame, rcu);
            }
        });
        let mut locked = leaf.lock(order);
        if !busy::is_own(locked.entry(index), cpu) {
            // Unmapped meanwhile.
            drop(locked);
            Retired::entry::<M>(old, proof);
            return Ok(Attempt::Over(Migrated::Absent));
        }
        let mapped = locked.segments.find(index).map(|segment| segment.attrs.prot);
        let is_own = path.is_current::<M>(&locked) && path.is_writable::<M>();
        match (mapped, spare.take()) {
            (Some(prot), Some(new)) if is_own => {
                let _busy = locked.replace::<M>(index, new.frame, prot);
                drop(locked);
                Retired::entry::<M>(old, proof);
                Ok(Attempt::Over(Migrated::Done))
            }
            (Some(prot), unused) if !locked.is_stray() => {
                // Shared by a fork meanwhile.
                locked.put_back::<M>(index, old, prot);
                drop(locked);
                drop(unused);
                Ok(Attempt::Again)
            }
            (_, unused) => {
                let _busy = locked.take::<M>(index);
                drop(locked);
                drop(unused);
                Retired::entry::<M>(old, proof);
                Ok(Attempt::Over(Migrated::Absent))
            }
        }
    }
}
