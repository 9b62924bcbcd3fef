//! mprotect.
//!
//! Invariants: LeafOwns. Taking a right away flushes; giving one does not: a stale translation causes a spurious fault.
//! Pages become writable at the next write, when the fault sees who else holds them (CopyBeforeWrite).
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::Locked;
use crate::node::flush::Gather;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::order::{self, Order};
use crate::request::Prot;
use crate::space::Space;
use crate::space::pieces::between_pieces;
use crate::space::range::RangeOp;
use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// `implied`: with reading goes executing, but where that is never allowed (READ_IMPLIES_EXEC).
struct ProtectOp {
    prot: Prot,
    implied: bool,
}

impl ProtectOp {
    fn prot_of(&self, attrs: &MappingAttrs) -> Prot {
        if self.implied && !attrs.flags.contains(SegFlags::NO_EXEC) {
            self.prot | Prot::EXEC
        } else {
            self.prot
        }
    }
}

impl<M: Machine> RangeOp<M> for ProtectOp {
    const CAUSE: FlushCause = FlushCause::Protect;
    const CLEARS: bool = false;
    const DETACHES: bool = false;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, _gather: &mut Gather<'_>) {
        node.update_mapped(range, |m| m.prot = self.prot_of(m));
    }

    #[expect(clippy::arithmetic_side_effects, reason = "places in a leaf")]
    fn entries(&mut self, leaf: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        for index in leaf.used_in(&range) {
            let old = leaf.look(index);
            if old.is_absent() || old.is_away() {
                continue;
            }
            let prot = match leaf.segments.find(index) {
                Some(segment) if self.implied => self.prot_of(&segment.attrs),
                _ => self.prot,
            };
            old.protect::<M>(prot);
            gather.touched(leaf, index..index + 1);
        }
    }
}

/// Changes nothing, and flushes what is mapped.
struct FlushOp;

impl<M: Machine> RangeOp<M> for FlushOp {
    const CAUSE: FlushCause = FlushCause::Discard;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_ENTRIES: bool = false;
    const CHANGES_SEGMENTS: bool = false;

    #[expect(clippy::arithmetic_side_effects, reason = "places in a leaf")]
    fn entries(&mut self, leaf: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        for index in leaf.used_in(&range) {
            let entry = leaf.look(index);
            if !(entry.is_absent() || entry.is_away()) {
                gather.touched(leaf, index..index + 1);
            }
        }
    }
}

impl<M: Machine> Space<M> {
    /// As `protect_with`, with no more rights than `prot`.
    pub fn protect(&self, start: VirtAddr, len: usize, prot: Prot) -> Result<(), VmError> {
        self.protect_with(start, len, prot, false)
    }

    /// Sets the protection of `start..start + len`; `implied`: what may be read may be executed too, if that is ever allowed there. `Access` (EACCES) at the first
    /// part that must not be made so; `NoSpace` (ENOMEM) at the first hole; what lies before is changed then, as on Linux. May sleep.
    pub fn protect_with(
        &self,
        start: VirtAddr,
        len: usize,
        prot: Prot,
        implied: bool,
    ) -> Result<(), VmError> {
        let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(VmError::NoSpace)?;
        if !start.is_page_aligned() {
            return Err(VmError::Invalid);
        }
        if len == 0 {
            return Ok(());
        }
        let end = start.0.checked_add(len).filter(|e| *e <= M::USER_END).ok_or(VmError::NoSpace)?;
        let order = &mut order::begin();
        let mut change = ProtectOp { prot, implied: implied && prot.contains(Prot::READ) };
        let (reached, is_same, stop) = self.may_protect_until(start.0, end, &change, order);
        if reached <= start.0 {
            return stop;
        }
        if is_same {
            // What has the protection already is left as it is; but another thread may have changed it just now and not flushed yet, for which this one
            // waits by flushing too.
            if self.multithreaded.load(Ordering::Relaxed) {
                self.flush_unchanged(start.0, reached, order)?;
            }
        } else {
            let range = start.0..reached;
            let refused = |count, limit| self.is_change_refused(count, limit, &range);
            self.counted(2, refused, |tally| {
                tally.of(self, range.clone(), || self.apply(range.start, range.end, &mut change, order))
            })?;
            if prot.contains(Prot::WRITE) && self.has_parts.load(Ordering::Relaxed) {
                // What is locked stays in memory: pages that a write would copy are copied now.
                let _ = self.populate_locked(start.0, reached, true);
            }
        }
        stop
    }

    /// Flushes what is mapped in the range. Not in the frame of who changes it otherwise: what is gathered takes some KiB of the stack.
    #[inline(never)]
    fn flush_unchanged(&self, start: usize, end: usize, order: &mut Order<'_>) -> Result<(), VmError> {
        self.apply(start, end, &mut FlushOp, order)
    }

    /// How far `start..end` can be changed so, whether all that has the protection already, and why no further.
    fn may_protect_until(
        &self,
        start: usize,
        end: usize,
        change: &ProtectOp,
        order: &mut Order<'_>,
    ) -> (usize, bool, Result<(), VmError>) {
        let &ProtectOp { prot, implied } = change;
        let is_same = Cell::new(true);
        let mut forbidden = SegFlags::empty();
        forbidden.set(SegFlags::NO_WRITE, prot.contains(Prot::WRITE));
        forbidden.set(SegFlags::NO_EXEC, prot.contains(Prot::EXEC));
        let is_allowed = |attrs: &MappingAttrs| {
            is_same.set(is_same.get() && attrs.prot == change.prot_of(attrs));
            !attrs.flags.intersects(forbidden) && self.allows_change(attrs, prot, implied)
        };
        let reached = self.mapped_while(start, end, &is_allowed, order);
        let stop = if reached == end {
            Ok(())
        } else if self.mapped_until(reached, reached.saturating_add(PAGE_SIZE), order) > reached {
            Err(VmError::Access)
        } else {
            Err(VmError::NoSpace)
        };
        (reached, is_same.get(), stop)
    }

    /// PROT_GROWSDOWN: where a change of `start..end` begins that is to go down to the start of the mapping, which grows downwards. `NoSpace` (ENOMEM):
    /// nothing is mapped there; `Invalid` (EINVAL): it does not grow. May sleep.
    pub fn start_of_stack(&self, start: usize, end: usize) -> Result<usize, VmError> {
        let order = &mut order::begin();
        let piece = self.next_piece_in(start, end, order).ok_or(VmError::NoSpace)?;
        if !piece.attrs.flags.contains(SegFlags::GROWSDOWN) {
            return Err(VmError::Invalid);
        }
        let mut lowest = piece.start;
        while let Some(below) = self.previous_piece(lowest, order)
            && below.end == lowest
            && below.attrs.continued_by(&piece.attrs, 0)
        {
            lowest = below.start;
            between_pieces();
        }
        Ok(lowest)
    }
}
