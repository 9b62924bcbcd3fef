//! Choosing addresses: top-down and dense, as on Linux; or bottom-up, in programs that ask for it (ADDR_COMPAT_LAYOUT).
//!
//! The search starts where the last one ended as long as the holes before are too small (`hint`, `hole`); unmapping there
//! moves the hint back. So a run of mmaps costs one step each, however much is mapped.
//!
//! With several threads, addresses come from per-CPU spans first (spans.rs).
//!
//! Lock order: layout → node.
#![forbid(unsafe_code)]

use super::pieces::{Extent, between_pieces};
use super::{AddressLayout, Placement, Space, USER_START};
use crate::addr::{LEAF_SPAN, PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::large::{LargePages, large_pages};
use crate::machine::Machine;
use crate::node::segment::SegFlags;
use crate::op::map::MapOp;
use crate::order::Order;
use crate::request::MapFlags;
use core::ops::Range;
use core::sync::atomic::Ordering;
use sync::level::Held;

/// Where MAP_32BIT places mappings.
const LOW_2G: Range<usize> = 1 << 30..2 << 30;
/// Bytes kept free below a mapping that grows downwards (Linux: stack_guard_gap, 256 pages).
pub(crate) const STACK_GUARD: usize = 256 * PAGE_SIZE;

impl AddressLayout {
    /// `start..end` is free from now on.
    fn note_free(&mut self, start: usize, end: usize) {
        let Placement { base, upward, .. } = self.placement;
        if upward {
            if start < self.hint {
                self.hint = start.max(base);
            }
        } else if end > self.hint {
            self.hint = end.min(base);
        }
        if self.hint == base {
            self.hole = 0;
        }
    }

    /// The search begins anew.
    fn forget_holes(&mut self) {
        self.hint = self.placement.base;
        self.hole = 0;
    }
}

impl<M: Machine> Space<M> {
    /// Maps `len` bytes at `hint` if that is free, else where there is room: `op.start` says where.
    #[expect(clippy::arithmetic_side_effects, reason = "the range was checked to lie in user memory")]
    pub(crate) fn map_somewhere(
        &self,
        hint: usize,
        len: usize,
        op: &mut MapOp,
        low: bool,
    ) -> Result<(), VmError> {
        let hint = hint & !(PAGE_SIZE - 1);
        if hint == 0 && !low && self.multithreaded.load(Ordering::Relaxed) && self.map_in_span(len, op)? {
            return Ok(());
        }
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        let (layout, order) = layout.split();
        loop {
            let aligned = hint == 0 && !low && may_align(len) && op.attrs.object.is_none();
            op.start = self.find(hint, len, (low, aligned), layout, order)?;
            match self.map_free(op, op.start + len, order) {
                // Another thread was faster.
                Err(VmError::Exists) => between_pieces(),
                result => return result,
            }
        }
    }

    /// `hint`, whole pages, if it is free, else where there is room; `aligned`: where large pages begin, if there is room for that.
    #[expect(clippy::arithmetic_side_effects, reason = "the range was checked to lie in user memory")]
    fn find(
        &self,
        hint: usize,
        len: usize,
        (low, aligned): (bool, bool),
        layout: &mut AddressLayout,
        order: &mut Order<'_>,
    ) -> Result<usize, VmError> {
        let wanted = hint != 0
            && (!low || hint.saturating_add(len) <= LOW_2G.end)
            && self.check_range(hint, len, false).is_ok()
            && self.is_free(hint, hint + len, order)
            && self.next_extent(hint + len, order).is_none_or(|p| guarded_start(&p) >= hint + len);
        match wanted {
            true => Ok(hint),
            false if low => self.find_low(len, order),
            false if aligned => self
                .find_gap(layout, len, LEAF_SPAN, order)
                .or_else(|_| self.find_gap(layout, len, PAGE_SIZE, order)),
            false => self.find_gap(layout, len, PAGE_SIZE, order),
        }
    }

    /// Would `map` find a place for `len` bytes, whole pages, now? For who says first what else is wrong.
    ///
    /// # Errors
    /// As `map`: `Exists`, `NoSpace`.
    pub fn check_place(&self, hint: VirtAddr, len: usize, flags: MapFlags) -> Result<(), VmError> {
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        let (layout, order) = layout.split();
        if flags.contains(MapFlags::NOREPLACE) {
            let end = hint.0.saturating_add(len);
            return if self.is_free(hint.0, end, order) { Ok(()) } else { Err(VmError::Exists) };
        }
        if flags.contains(MapFlags::FIXED) {
            return Ok(());
        }
        let hint = hint.0 & !(PAGE_SIZE - 1);
        let start = self.find(hint, len, (flags.contains(MapFlags::LOW_2G), false), layout, order)?;
        // Nothing was mapped there.
        layout.note_free(start, start.saturating_add(len));
        Ok(())
    }

    /// The lowest free run of `len` bytes where MAP_32BIT wants one.
    fn find_low(&self, len: usize, order: &mut Order<'_>) -> Result<usize, VmError> {
        let mut start = LOW_2G.start;
        loop {
            let above = self.next_extent(start, order);
            let ceiling = above.as_ref().map_or(LOW_2G.end, guarded_start).min(LOW_2G.end);
            if ceiling.saturating_sub(start) >= len {
                return Ok(start);
            }
            match above {
                Some(piece) if piece.end < LOW_2G.end => start = piece.end,
                _ => return Err(VmError::NoSpace),
            }
            between_pieces();
        }
    }

    /// The first free run of `len` bytes on the way that the placement says. It begins at a multiple of `align`; where that is more than a page the run
    /// has as much more room as that, as on Linux.
    fn find_gap(
        &self,
        layout: &mut AddressLayout,
        len: usize,
        align: usize,
        order: &mut Order<'_>,
    ) -> Result<usize, VmError> {
        if len <= layout.hole {
            layout.forget_holes();
        }
        if layout.placement.upward {
            self.find_gap_up(layout, len, align, order)
        } else {
            self.find_gap_down(layout, len, align, order)
        }
    }

    /// The lowest from the base on.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the run ends in user memory; align is a power of two"
    )]
    fn find_gap_up(
        &self,
        layout: &mut AddressLayout,
        len: usize,
        align: usize,
        order: &mut Order<'_>,
    ) -> Result<usize, VmError> {
        let padded = padded(len, align);
        let mut start = layout.hint;
        loop {
            let above = self.next_extent(start, order);
            let ceiling = above.as_ref().map_or(M::USER_END, guarded_start);
            let room = ceiling.saturating_sub(start);
            if room >= padded {
                let found = start.next_multiple_of(align);
                layout.hint = found + len;
                layout.hole = layout.hole.max(found - start);
                return Ok(found);
            }
            layout.hole = layout.hole.max(room);
            match above {
                Some(p) => start = p.end,
                None if layout.hint != layout.placement.base => {
                    layout.forget_holes();
                    start = layout.hint;
                }
                None => return Err(VmError::NoSpace),
            }
            between_pieces();
        }
    }

    /// The highest below the base.
    #[expect(clippy::arithmetic_side_effects, reason = "the gap is as long as len; align is a power of two")]
    fn find_gap_down(
        &self,
        layout: &mut AddressLayout,
        len: usize,
        align: usize,
        order: &mut Order<'_>,
    ) -> Result<usize, VmError> {
        let padded = padded(len, align);
        let mut end = layout.hint;
        loop {
            let below = self.previous_extent_in(end, 0, order);
            let floor = below.as_ref().map_or(USER_START, |p| p.end.max(USER_START));
            let room = end.saturating_sub(floor);
            if room >= padded {
                // The rest of this hole lies below the new hint, but for what is left above to begin at a multiple.
                let found = (end - len) & !(align - 1);
                layout.hint = found;
                layout.hole = layout.hole.max(end - len - found);
                return Ok(found);
            }
            layout.hole = layout.hole.max(room);
            match below {
                Some(p) => end = guarded_start(&p),
                None if layout.hint != layout.placement.base => {
                    // Once more from the base: the hint is only a hint.
                    layout.forget_holes();
                    end = layout.hint;
                }
                None => return Err(VmError::NoSpace),
            }
            between_pieces();
        }
    }

    /// Tells the allocator that `start..end` was unmapped.
    pub(crate) fn note_free(&self, start: usize, end: usize) {
        if self.multithreaded.load(Ordering::Relaxed) && self.note_free_in_span(start, end) {
            return;
        }
        self.layout.lock_in(&mut Held::clean()).note_free(start, end);
    }
}

/// The room for `len` bytes that begin at a multiple of `align`.
fn padded(len: usize, align: usize) -> usize {
    if align > PAGE_SIZE { len.saturating_add(align) } else { len }
}

/// Is a mapping of `len` bytes without a file to begin where large pages do? Linux asks for no more than that it has whole ones.
fn may_align(len: usize) -> bool {
    len >= LEAF_SPAN && len.is_multiple_of(LEAF_SPAN) && large_pages() != LargePages::Never
}

/// Where what must stay free below `extent` begins. A guard that would reach below address 0 ends there.
pub(crate) fn guarded_start(extent: &Extent) -> usize {
    let guard = if extent.flags.contains(SegFlags::GROWSDOWN) { STACK_GUARD } else { 0 };
    extent.start.saturating_sub(guard)
}
