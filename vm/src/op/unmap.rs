//! munmap, and madvise's dropping of pages.
//!
//! Invariants: FreeAfterFlush. An address is given to a later mmap only after every CPU has flushed: with several threads the
//! range is first put into quarantine (mapped by nobody, yet taken), flushed, and then set free. A single-threaded space has
//! nobody who could map it meanwhile.
#![forbid(unsafe_code)]

use crate::addr::{LEAF_SPAN, PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::Locked;
use crate::node::flush::Gather;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::order::{self, Order};
use crate::request::{Access, Advice, Prot};
use crate::space::Space;
use crate::space::range::RangeOp;
use crate::token;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// Removes what is mapped.
struct UnmapOp;

impl<M: Machine> RangeOp<M> for UnmapOp {
    const CAUSE: FlushCause = FlushCause::Unmap;
    const CLEARS: bool = true;
    const DETACHES: bool = true;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        let shift = node.node().shift();
        node.segments.remove(range, shift, &mut gather.removed);
    }
}

/// Makes what is mapped inaccessible, but keeps the addresses taken. Holes stay holes: another thread's mmap may take them.
#[derive(Default)]
struct QuarantineOp {
    /// Something was mapped or taken, or a leaf detached.
    found: bool,
}

impl<M: Machine> RangeOp<M> for QuarantineOp {
    const CAUSE: FlushCause = FlushCause::Unmap;
    const CLEARS: bool = true;
    const DETACHES: bool = true;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        self.found |= node.segments.any_in(&range);
        put_into_quarantine(node, range, gather);
    }
}

fn put_into_quarantine(node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
    node.update_mapped(range, |m| {
        gather.removed.take_object(m);
        *m = MappingAttrs { flags: SegFlags::QUARANTINE, ..MappingAttrs::nothing() };
    });
}

/// Puts the range into quarantine and leaves its private pages to mremap, which takes them out next. No fault adds a page that would be lost.
pub(super) struct VacateOp;

impl<M: Machine> RangeOp<M> for VacateOp {
    const CAUSE: FlushCause = FlushCause::Move;
    const CLEARS: bool = false;
    const DETACHES: bool = false;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        put_into_quarantine(node, range, gather);
    }

    #[expect(clippy::arithmetic_side_effects, reason = "places in a leaf")]
    fn entries(&mut self, leaf: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        for index in leaf.used_in(&range) {
            let entry = leaf.entry(index);
            if !(entry.is_absent() || entry.is_away() || entry.is_private()) {
                let _borrowed = leaf.take_page::<M>(index);
                gather.touched(leaf, index..index + 1);
            }
        }
    }
}

/// Ends the quarantine.
struct ReleaseOp;

impl<M: Machine> RangeOp<M> for ReleaseOp {
    const CAUSE: FlushCause = FlushCause::Unmap;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_ENTRIES: bool = false;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        let shift = node.node().shift();
        let mut at = range.start;
        while at < range.end {
            let Some(next) = node.segments.as_slice().iter().find(|s| s.end > at && s.attrs.is_quarantine())
            else {
                return;
            };
            let (start, end) = (next.start.max(at), next.end.min(range.end));
            if start >= range.end {
                return;
            }
            node.segments.remove(start..end, shift, &mut gather.removed);
            at = end;
        }
    }
}

/// Changes properties of what is mapped.
struct FlagsOp {
    set: SegFlags,
    clear: SegFlags,
}

impl<M: Machine> RangeOp<M> for FlagsOp {
    const CAUSE: FlushCause = FlushCause::Protect;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_ENTRIES: bool = false;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, _gather: &mut Gather<'_>) {
        node.update_mapped(range, |m| m.flags = m.flags.difference(self.clear).union(self.set));
    }
}

/// Drops the pages and keeps the mapping.
struct DropPagesOp;

impl<M: Machine> RangeOp<M> for DropPagesOp {
    const CAUSE: FlushCause = FlushCause::Discard;
    const CLEARS: bool = true;
    const DETACHES: bool = false;
    const CHANGES_SEGMENTS: bool = false;
}

impl<M: Machine> Space<M> {
    /// Unmaps `start..start + len`; holes are no error. May sleep.
    pub fn unmap(&self, start: VirtAddr, len: usize) -> Result<(), VmError> {
        let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(VmError::Invalid)?;
        let end = start.0.checked_add(len).ok_or(VmError::Invalid)?;
        if !start.is_page_aligned() || len == 0 || end > M::USER_END {
            return Err(VmError::Invalid);
        }
        let range = start.0..end;
        let refused = |count, limit| self.is_hole_refused(count, limit, &range);
        self.counted(1, refused, |tally| tally.of(self, range.clone(), || self.unmap_counted(start.0, end)))
    }

    /// As `unmap`, of a checked range, and for who sees to the number of mappings.
    pub(crate) fn unmap_counted(&self, start: usize, end: usize) -> Result<(), VmError> {
        let mut order = order::begin();
        if self.remove_what_is(start, end, &mut order)? {
            self.note_free(start, end);
        }
        Ok(())
    }

    /// Unmaps a checked range without telling the address allocator.
    pub(crate) fn remove(&self, start: usize, end: usize, order: &mut Order<'_>) -> Result<(), VmError> {
        self.remove_what_is(start, end, order).map(|_| ())
    }

    /// The same. False: there was nothing. Not asked by who has one thread.
    #[inline(always)]
    #[expect(clippy::arithmetic_side_effects, reason = "the range is not empty")]
    fn remove_what_is(&self, start: usize, end: usize, order: &mut Order<'_>) -> Result<bool, VmError> {
        if self.multithreaded.load(Ordering::Relaxed) {
            // Leaves that lie whole in the range are detached, and their segments not shown.
            let detaches = end - start >= LEAF_SPAN || start / LEAF_SPAN != (end - 1) / LEAF_SPAN;
            let mut quarantine = QuarantineOp { found: detaches };
            self.apply(start, end, &mut quarantine, order)?;
            if quarantine.found {
                self.apply(start, end, &mut ReleaseOp, order)?;
            }
            Ok(quarantine.found)
        } else {
            self.apply(start, end, &mut UnmapOp, order)?;
            Ok(true)
        }
    }

    /// After this, `remove` of the range finds all the memory that it needs.
    pub(crate) fn prepare_removal(
        &self,
        start: usize,
        end: usize,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        if self.multithreaded.load(Ordering::Relaxed) {
            self.reserve(start, end, &QuarantineOp::default(), order)
        } else {
            self.reserve(start, end, &UnmapOp, order)
        }
    }

    /// madvise. `NoSpace` (ENOMEM) where part of the range is not mapped. May sleep.
    pub fn advise(&self, start: VirtAddr, len: usize, advice: Advice) -> Result<(), VmError> {
        let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(VmError::Invalid)?;
        let end = start.0.checked_add(len).ok_or(VmError::Invalid)?;
        if !start.is_page_aligned() || end > M::USER_END {
            return Err(VmError::Invalid);
        }
        if len == 0 {
            return Ok(());
        }
        let order = &mut order::begin();
        let none = SegFlags::empty();
        match advice {
            Advice::DontNeed | Advice::Free | Advice::Cold | Advice::PageOut => {
                let _token = token::hold();
                let mut until = self.unlocked_until(start.0, end);
                if advice == Advice::Free {
                    let of_object = |m: &MappingAttrs| m.object.is_some();
                    until = self.find_piece(start.0, until, &of_object, order).unwrap_or(until);
                }
                if advice == Advice::PageOut {
                    self.page_out(start.0..until);
                } else if until > start.0 && advice != Advice::Cold {
                    self.apply(start.0, until, &mut DropPagesOp, order)?;
                }
                if until < end {
                    return Err(VmError::Invalid);
                }
            }
            Advice::DontNeedLocked => {
                let _token = token::hold();
                self.apply(start.0, end, &mut DropPagesOp, order)?;
            }
            Advice::WillNeed => self.read_ahead(start.0..end),
            Advice::PopulateRead => self.populate_allowed(start.0..end, Access::READ, Prot::READ)?,
            Advice::PopulateWrite => self.populate_allowed(start.0..end, Access::WRITE, Prot::WRITE)?,
            Advice::Large => {
                self.note_large_asked();
                return self.advise_flags(start.0..end, SegFlags::LARGE, SegFlags::NO_LARGE, order);
            }
            Advice::NoLarge => {
                return self.advise_flags(start.0..end, SegFlags::NO_LARGE, SegFlags::LARGE, order);
            }
            Advice::WipeOnFork if self.find_piece(start.0, end, &|m| m.object.is_some(), order).is_some() => {
                return Err(VmError::Invalid);
            }
            Advice::DontFork => return self.advise_flags(start.0..end, SegFlags::NO_FORK, none, order),
            Advice::DoFork => return self.advise_flags(start.0..end, none, SegFlags::NO_FORK, order),
            Advice::DontDump => return self.advise_flags(start.0..end, SegFlags::NO_DUMP, none, order),
            Advice::DoDump => return self.advise_flags(start.0..end, none, SegFlags::NO_DUMP, order),
            Advice::WipeOnFork => {
                return self.advise_flags(start.0..end, SegFlags::WIPE_ON_FORK, none, order);
            }
            Advice::KeepOnFork => {
                return self.advise_flags(start.0..end, none, SegFlags::WIPE_ON_FORK, order);
            }
        }
        if self.is_mapped(start.0, end, order) { Ok(()) } else { Err(VmError::NoSpace) }
    }

    /// Sets and clears flags of what is mapped, unless it is so already.
    fn advise_flags(
        &self,
        range: Range<usize>,
        set: SegFlags,
        clear: SegFlags,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        let (start, end) = (range.start, range.end);
        let is_so = |m: &MappingAttrs| m.flags.contains(set) && !m.flags.intersects(clear);
        if self.mapped_while(start, end, &is_so, order) == end {
            return Ok(());
        }
        self.change_flags(range, set, clear)?;
        if self.is_mapped(start, end, order) { Ok(()) } else { Err(VmError::NoSpace) }
    }

    /// Faults pages in up to the first mapping that has not the right `needs`, though the hardware may allow the access there.
    fn populate_allowed(&self, range: Range<usize>, access: Access, needs: Prot) -> Result<(), VmError> {
        let refuses = |m: &MappingAttrs| !m.prot.contains(needs);
        let refused = self.find_piece(range.start, range.end, &refuses, &mut order::begin());
        let until = refused.unwrap_or(range.end);
        self.populate(VirtAddr(range.start), until.saturating_sub(range.start), access)?;
        if until < range.end { Err(VmError::Invalid) } else { Ok(()) }
    }

    /// Changes flags of what is mapped, which may make more mappings of it. May sleep.
    ///
    /// # Errors
    /// `TooMany`, `NoMemory`.
    pub(crate) fn change_flags(
        &self,
        range: Range<usize>,
        set: SegFlags,
        clear: SegFlags,
    ) -> Result<(), VmError> {
        let refused = |count, limit| self.is_change_refused(count, limit, &range);
        self.counted(2, refused, |tally| {
            tally.of(self, range.clone(), || {
                self.set_flags(range.start, range.end, set, clear, &mut order::begin())
            })
        })
    }

    /// The same, for who sees to the number of mappings.
    pub(crate) fn set_flags(
        &self,
        start: usize,
        end: usize,
        set: SegFlags,
        clear: SegFlags,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        if set.intersects(SegFlags::PARTS) {
            self.note_parts();
        }
        self.apply(start, end, &mut FlagsOp { set, clear }, order)
    }
}
