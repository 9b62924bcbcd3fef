//! mmap: giving a run of addresses attributes. Writes a few words per node at the ends and one segment between.
//!
//! Invariants: LeafOwns, RegisterBeforeMap; with `FIXED` the old mapping is replaced atomically for each leaf.
//! Lock order: layout → node.
#![forbid(unsafe_code)]

use crate::addr::{ENTRIES, LEAF_SPAN, PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::Locked;
use crate::node::flush::Gather;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::object::slots::MAX_PAGES;
use crate::object::{ObjectRef, Pages};
use crate::order;
use crate::policy::Policy;
use crate::request::{Access, Backing, MapFlags, MapRequest, Prot};
use crate::space::range::RangeOp;
use crate::space::seals::is_sealed;
use crate::space::{Space, USER_START};
use core::ops::Range;
use sync::machine::give_way;

/// Puts `attrs`, which holds at `start`, over the range.
pub(crate) struct MapOp {
    pub start: usize,
    pub attrs: MappingAttrs,
    /// See [`RangeOp::heeds_seals`].
    pub heeds_seals: bool,
}

impl MapOp {
    /// Over what is free, or what the caller may replace.
    pub fn new(start: usize, attrs: MappingAttrs) -> Self {
        Self { start, attrs, heeds_seals: false }
    }
}

impl<M: Machine> RangeOp<M> for MapOp {
    const CAUSE: FlushCause = FlushCause::Unmap;
    const CREATES: bool = true;
    const CLEARS: bool = true;
    const DETACHES: bool = true;

    #[inline]
    fn heeds_seals(&self) -> bool {
        self.heeds_seals
    }

    #[inline]
    fn object(&self, start: usize, end: usize) -> Option<(&ObjectRef, Pages)> {
        // No sum wraps: the mapping lies in user memory and in what an object can hold.
        let page = |addr: usize| {
            self.attrs.offset.wrapping_add((addr.wrapping_sub(self.start) >> PAGE_SHIFT) as u64)
        };
        Some((self.attrs.object.as_ref()?, Pages { start: page(start), end: page(end) }))
    }

    /// Programs are mapped piece by piece, and privately; they are not cut. So a leaf registers once, for all that the file has for it.
    #[cold]
    #[inline(never)]
    #[expect(clippy::arithmetic_side_effects, reason = "places in a leaf; pages of an object")]
    fn registered(&self, start: usize, pages: Pages) -> Pages {
        match &self.attrs.object {
            Some(object) if !self.attrs.is_shared() => {
                let before = ((start % LEAF_SPAN) >> PAGE_SHIFT) as u64;
                let after = ENTRIES as u64 - before;
                let end = object.pages().min(pages.start + after).max(pages.end);
                Pages::new(pages.start.saturating_sub(before), end)
            }
            _ => pages,
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "at is not before start")]
    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        let at = node.node().address(range.start);
        let shift = node.node().shift();
        let attrs = self.attrs.advanced(((at - self.start) >> PAGE_SHIFT) as u64);
        node.segments.insert(range, attrs, shift, &mut gather.removed);
    }
}

impl<M: Machine> Space<M> {
    /// Maps what `request` says; returns where. May sleep.
    #[expect(clippy::arithmetic_side_effects, reason = "the range was checked to lie in user memory")]
    pub fn map(&self, request: &MapRequest) -> Result<VirtAddr, VmError> {
        let len = request.len.checked_next_multiple_of(PAGE_SIZE).ok_or(VmError::NoSpace)?;
        if len == 0 {
            return Err(VmError::Invalid);
        }
        if len > M::USER_END {
            return Err(VmError::NoSpace);
        }
        let mut attrs = attrs_of(request, len)?;
        let flags = request.flags;
        attrs.flags |= self.future_flags();
        let locked = attrs.flags.contains(SegFlags::LOCKED);
        if locked {
            self.note_parts();
        }
        let fixed = flags.intersects(MapFlags::FIXED | MapFlags::NOREPLACE);
        let hint = request.hint.0;
        let refused = |count, limit| {
            count > limit || (fixed && self.is_hole_refused(count, limit, &(hint..hint.saturating_add(len))))
        };
        let mut op = MapOp::new(hint, attrs);
        let start = self.counted(1 + usize::from(fixed), refused, |tally| {
            if !fixed {
                self.map_somewhere(hint, len, &mut op, flags.contains(MapFlags::LOW_2G))?;
                tally.mapped(self, op.start..op.start + len);
                return Ok(op.start);
            }
            self.check_range(hint, len, flags.contains(MapFlags::LOW))?;
            tally.of(self, hint..hint + len, || self.map_at(&mut op, len, flags))?;
            Ok(hint)
        })?;
        // As on Linux, failing to populate is not an error of mmap.
        if locked {
            let _ = self.populate_locked(start, start.saturating_add(len), true);
        } else if flags.contains(MapFlags::POPULATE) {
            let access = if request.prot.contains(Prot::WRITE) { Access::WRITE } else { Access::READ };
            let _ = self.populate(VirtAddr(start), len, access);
        }
        Ok(VirtAddr(start))
    }

    /// Maps `len` bytes, a checked range, in place of what is there; with NOREPLACE only if nothing is.
    #[expect(clippy::arithmetic_side_effects, reason = "the range was checked to lie in user memory")]
    fn map_at(&self, op: &mut MapOp, len: usize, flags: MapFlags) -> Result<(), VmError> {
        let start = op.start;
        if !flags.contains(MapFlags::NOREPLACE) {
            let range = start..start + len;
            return self.unless_sealed(&range, &is_sealed, |heeds| {
                op.heeds_seals = heeds;
                self.apply(range.start, range.end, op, &mut order::begin())
            });
        }
        // Who is refused makes no table.
        let order = &mut order::begin();
        if !self.is_free(start, start + len, order) {
            return Err(VmError::Exists);
        }
        self.map_free(op, start + len, order)
    }

    /// Is `start..start + len` a run of whole pages that a program may have? Below `USER_START` only with `low`.
    pub(crate) fn check_range(&self, start: usize, len: usize, low: bool) -> Result<(), VmError> {
        if !start.is_multiple_of(PAGE_SIZE) || len == 0 {
            return Err(VmError::Invalid);
        }
        match start.checked_add(len) {
            Some(end) if end <= M::USER_END && (low || start >= USER_START) => Ok(()),
            Some(end) if end <= M::USER_END => Err(VmError::Permission),
            _ => Err(VmError::NoSpace),
        }
    }

    /// Faults in every page of the range, or those before a fatal signal comes. May sleep.
    pub fn populate(&self, start: VirtAddr, len: usize, access: Access) -> Result<(), VmError> {
        for page in (start.0..start.0.saturating_add(len)).step_by(PAGE_SIZE) {
            self.fault(VirtAddr(page), access)?;
            if give_way() {
                break;
            }
        }
        Ok(())
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "a page is not of no bytes")]
fn attrs_of(request: &MapRequest, len: usize) -> Result<MappingAttrs, VmError> {
    let mut flags = SegFlags::empty();
    flags.set(SegFlags::GROWSDOWN, request.flags.contains(MapFlags::GROWSDOWN));
    flags.set(SegFlags::LOCKED, request.flags.contains(MapFlags::LOCKED));
    flags.set(SegFlags::NO_EXEC, request.flags.contains(MapFlags::NO_EXEC));
    let (object, offset) = match &request.backing {
        Backing::Anonymous => (None, 0),
        Backing::Object { object, offset } => {
            if offset % PAGE_SIZE as u64 != 0 {
                return Err(VmError::Invalid);
            }
            if offset.checked_add(len as u64).is_none_or(|end| end > MAX_PAGES << PAGE_SHIFT) {
                return Err(VmError::Overflow);
            }
            flags.set(SegFlags::SHARED, request.flags.contains(MapFlags::SHARED));
            flags.set(SegFlags::NO_WRITE, request.flags.contains(MapFlags::SHARED | MapFlags::NO_WRITE));
            flags.set(SegFlags::TRACKED, flags.contains(SegFlags::SHARED) && object.is_tracked());
            (Some(object.clone()), offset >> PAGE_SHIFT)
        }
    };
    Ok(MappingAttrs { prot: request.prot, flags, policy: Policy::NONE, object, offset })
}
