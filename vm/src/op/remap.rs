//! mremap: shrinking, growing in place, moving.
//!
//! A move maps the new addresses with the same attributes, makes every table that will be needed, moves private pages over in
//! batches (cleared, flushed, put in), and unmaps the old addresses. Pages of objects are not moved: they are found again. A page that is
//! being replaced by its copy is waited for (protocol/busy.rs). With several threads the old addresses are first put into quarantine: an
//! access to them faults as it will after the move, and makes no page that would be lost. Another thread may unmap or map anew where the pages go: they are put in
//! only where the mapping that they belong to still is, with what it allows by then.
//!
//! Invariants: LeafOwns, FreeAfterFlush — an entry is put in at its new place only after the old translation is gone everywhere.
//! Lock order: moving (where there are several threads: no fork and no mseal meanwhile) → layout → node; an object's `change` → layout, while pages that belong to its size are moved.
#![forbid(unsafe_code)]

use super::map::MapOp;
use super::unmap::VacateOp;
use crate::addr::{ENTRIES, LEAF_SPAN, PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::flush::Gather;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::node::{Locked, OwnPage, WalkPath};
use crate::order::{self, Order};
use crate::protocol::busy;
use crate::space::Space;
use crate::space::address::{STACK_GUARD, guarded_start};
use crate::space::count::Tally;
use crate::space::pieces::{Found, Piece};
use crate::space::range::RangeOp;
use crate::space::seals::is_sealed;
use arrayvec::ArrayVec;
use bitflags::bitflags;
use core::ops::Range;
use core::sync::atomic::Ordering;
use sync::machine::give_way;
use sync::rcu;

bitflags! {
    /// How mremap may go about it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct MremapFlags: u8 {
        /// The mapping may move.
        const MAYMOVE = 1;
        /// It has to, to the given address.
        const FIXED = 2;
        /// The old addresses stay mapped, without their pages.
        const DONTUNMAP = 4;
        /// The caller may map below [`crate::USER_START`].
        const LOW = 8;
    }
}

/// Pages moved at a time.
const BATCH: usize = 32;

/// Private pages on their way, with their offsets from the start of the range.
type Pages = ArrayVec<(usize, OwnPage), BATCH>;

/// Changes nothing, but shared leaves are this space's own afterwards.
struct UnshareOp;

impl<M: Machine> RangeOp<M> for UnshareOp {
    const CAUSE: FlushCause = FlushCause::CopyLeaf;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_ENTRIES: bool = false;
    const CHANGES_SEGMENTS: bool = false;
}

/// Takes the private pages of a range of one leaf out.
struct TakeOut<'a> {
    base: usize,
    /// The mapping at `base`; None: it is in quarantine already.
    attrs: Option<&'a MappingAttrs>,
    /// A page is being replaced by its copy: it has to be looked for again.
    again: bool,
    pages: &'a mut Pages,
}

impl<M: Machine> RangeOp<M> for TakeOut<'_> {
    const CAUSE: FlushCause = FlushCause::Move;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_SEGMENTS: bool = false;

    #[expect(clippy::arithmetic_side_effects, reason = "offsets in the moved range, places in a leaf")]
    fn entries(&mut self, leaf: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        let node = leaf.node();
        for index in leaf.used_in(&range) {
            self.again |= busy::must_wait(leaf.entry(index));
            let offset = node.address(index) - self.base;
            let page = (offset >> PAGE_SHIFT) as u64;
            let moves = leaf.segments.find(index).is_some_and(|s| match self.attrs {
                Some(attrs) => s.shows(index, attrs, page),
                None => s.attrs.is_quarantine(),
            });
            if !moves || self.pages.is_full() {
                continue;
            }
            let Some(old) = leaf.take_private::<M>(index) else { continue };
            let fits = self.pages.try_push((offset, old));
            debug_assert!(fits.is_ok());
            gather.touched(leaf, index..index + 1);
        }
    }
}

/// Puts them in elsewhere.
struct PutIn<'a> {
    base: usize,
    /// The mapping at `base`, as it was made.
    attrs: &'a MappingAttrs,
    pages: &'a mut Pages,
}

impl<M: Machine> RangeOp<M> for PutIn<'_> {
    const CAUSE: FlushCause = FlushCause::Move;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_SEGMENTS: bool = false;

    #[expect(clippy::arithmetic_side_effects, reason = "offsets in the moved range, places in a leaf")]
    fn entries(&mut self, leaf: &mut Locked<'_>, range: Range<u16>, _gather: &mut Gather<'_>) {
        let node = leaf.node();
        let base = self.base;
        let here = |offset: usize| {
            let addr = base + offset;
            (node.base()..node.end()).contains(&addr) && range.contains(&node.index(addr))
        };
        let mut i = 0;
        while let Some(offset) = self.pages.get(i).map(|(offset, _)| *offset) {
            if !here(offset) {
                i += 1;
                continue;
            }
            let index = node.index(base + offset);
            let page = (offset >> PAGE_SHIFT) as u64;
            let mapped = leaf.segments.find(index).filter(|s| s.shows(index, self.attrs, page));
            match mapped.map(|segment| segment.attrs.prot) {
                // Writable again at the next write, when the fault sees who else holds the page.
                Some(prot) if leaf.entry(index).is_absent() => {
                    leaf.fill_own::<M>(index, self.pages.swap_remove(i).1, prot);
                }
                // Another thread touched the new place, or mapped something else there, before mremap returned: this page stays behind.
                _ => i += 1,
            }
        }
    }
}

impl<M: Machine> Space<M> {
    /// mremap; returns where the mapping is. `Fault` if the old range is not one mapping; `Sealed` if it or what is replaced is. May sleep.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "both ranges were checked to lie in user memory; lengths were compared"
    )]
    pub fn remap(
        &self,
        old: VirtAddr,
        old_len: usize,
        new_len: usize,
        flags: MremapFlags,
        new_addr: VirtAddr,
    ) -> Result<VirtAddr, VmError> {
        // A length that is rounded up past the last address is none.
        let round = |len: usize| len.checked_next_multiple_of(PAGE_SIZE).unwrap_or(0);
        let resized = old_len != new_len;
        let (old_len, new_len) = (round(old_len), round(new_len));
        let fixed = flags.contains(MremapFlags::FIXED);
        let keep = flags.contains(MremapFlags::DONTUNMAP);
        let may_move = flags.contains(MremapFlags::MAYMOVE);
        if !old.is_page_aligned() || new_len == 0 || (fixed && !may_move) || (keep && (!may_move || resized))
        {
            return Err(VmError::Invalid);
        }
        let order = &mut order::begin();
        if !fixed && !keep && old_len == new_len {
            let limit = old.0.saturating_add(PAGE_SIZE).min(M::USER_END);
            let look = |(_, attrs, _): Found<'_>| (!attrs.is_quarantine()).then(|| is_sealed(attrs));
            return match self.look_at_next(old.0, limit, order, look).flatten() {
                Some(false) => Ok(old),
                Some(true) => Err(VmError::Sealed),
                None => Err(VmError::Fault),
            };
        }
        let piece = self.mapping_at(old.0, order).ok_or(VmError::Fault)?;
        if is_sealed(&piece.attrs) {
            return Err(VmError::Sealed);
        }
        let grows = !fixed && !keep && old_len < new_len;
        let past = if grows { VmError::Fault } else { VmError::Invalid };
        let old_end = old.0.checked_add(old_len).filter(|e| *e <= M::USER_END).ok_or(past)?;
        if old_len == 0 && !piece.attrs.is_shared() {
            return Err(VmError::Invalid);
        }
        if fixed {
            let low = self.check_range(new_addr.0, new_len, flags.contains(MremapFlags::LOW));
            let overlap = new_addr.0 < old_end && old.0 < new_addr.0.saturating_add(new_len);
            match low {
                Err(VmError::Permission) if !overlap => return Err(VmError::Permission),
                Ok(()) if !overlap => {}
                _ => return Err(VmError::Invalid),
            }
            self.check_unsealed(new_addr.0..new_addr.0 + new_len, order)?;
        }
        let used = old_len.min(new_len);
        let is_one = piece.end >= old.0 + used;
        // One that moves as well is cut when nothing can be sealed any more.
        if old_len > new_len && (!fixed || !is_one) {
            self.unmap(VirtAddr(old.0 + new_len), old_len - new_len)?;
            if !fixed {
                return Ok(old);
            }
        }
        if !is_one {
            return Err(VmError::Fault);
        }
        if !fixed && !keep && old_len > 0 {
            let more = new_len - old_len;
            let grow = || self.grow_in_place(&piece, old_end, more);
            let end = old_end.saturating_add(more);
            if self.counted(0, |_, _| false, |tally| tally.of(self, old_end..end, grow))? {
                return Ok(old);
            }
        }
        if !may_move {
            return Err(VmError::NoSpace);
        }
        // Three more at the worst, and Linux asks for as much room.
        let more = if fixed || keep { 5 } else { 3 };
        let refused = |count: usize, limit: usize| count >= limit.saturating_sub(more);
        self.counted(4, refused, |tally| {
            self.move_mapping((old.0, old_len), (new_addr, new_len), &piece.attrs, flags, tally)
        })
    }

    /// Moves what `remap` has found to be one mapping, with `attrs`, elsewhere; returns where it is.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "both ranges were checked to lie in user memory; lengths were compared"
    )]
    fn move_mapping(
        &self,
        (old, old_len): (usize, usize),
        (new_addr, new_len): (VirtAddr, usize),
        attrs: &MappingAttrs,
        flags: MremapFlags,
        tally: &mut Tally,
    ) -> Result<VirtAddr, VmError> {
        let order = &mut order::begin();
        let (fixed, keep) = (flags.contains(MremapFlags::FIXED), flags.contains(MremapFlags::DONTUNMAP));
        let used = old_len.min(new_len);
        // A child would not have the pages that are on their way, and a leaf that a fork has shared meanwhile would need memory anew.
        let _moving = self.start_moving();
        // Who seals waits for moves and keeps new ones from beginning, so what is not sealed now is not before this is over.
        self.check_unsealed(old..old + old_len.max(PAGE_SIZE), order)?;
        if fixed {
            self.check_unsealed(new_addr.0..new_addr.0 + new_len, order)?;
        }
        if old_len > used {
            tally.of(self, old + used..old + old_len, || self.unmap_counted(old + used, old + old_len))?;
        }
        let target = if fixed {
            let (start, end) = (new_addr.0, new_addr.0 + new_len);
            tally.of(self, start..end, || {
                self.remove(start, end, false, order)?;
                self.apply(start, end, &mut MapOp::new(start, attrs.clone()), order)
            })?;
            new_addr
        } else {
            let mut op = MapOp::new(0, attrs.clone());
            self.map_somewhere(0, new_len, &mut op, false)?;
            tally.mapped(self, op.start..op.start + new_len);
            VirtAddr(op.start)
        };
        let mut is_moved = false;
        let moved = tally.of(self, old..old + used, || {
            if !keep && used > 0 {
                self.prepare_removal(old, old + used, order)?;
            }
            self.move_pages(old, target.0, used, attrs, keep, order)?;
            is_moved = true;
            if !keep && old_len > 0 {
                self.unmap_counted(old, old + used)
            } else if keep && attrs.flags.contains(SegFlags::LOCKED) {
                // The lock moved with the pages.
                self.set_flags(old, old + old_len, SegFlags::empty(), SegFlags::OF_PARENT, order)
            } else {
                Ok(())
            }
        });
        if moved.is_err() && !is_moved {
            let (start, end) = (target.0, target.0 + new_len);
            tally.of(self, start..end, || self.unmap_counted(start, end))?;
        }
        moved.map(|()| target)
    }

    /// Is nothing in `range` sealed?
    ///
    /// # Errors
    /// `Sealed`.
    fn check_unsealed(&self, range: Range<usize>, order: &mut Order<'_>) -> Result<(), VmError> {
        if self.seals.are_there() && self.find_piece(range.start, range.end, &is_sealed, order).is_some() {
            return Err(VmError::Sealed);
        }
        Ok(())
    }

    /// Does one mapping hold all of `start..end`?
    pub fn is_one_mapping(&self, start: usize, end: usize) -> bool {
        self.mapping_at(start, &mut order::begin()).is_some_and(|piece| piece.end >= end)
    }

    /// The mapping that holds `addr`, from there on.
    fn mapping_at(&self, addr: usize, order: &mut Order<'_>) -> Option<Piece> {
        self.next_mapping(addr, order).filter(|p| p.start == addr)
    }

    /// Extends the mapping that ends at `end`, where the addresses after it are free.
    #[expect(clippy::arithmetic_side_effects, reason = "the range was checked to lie in user memory")]
    fn grow_in_place(&self, piece: &Piece, end: usize, more: usize) -> Result<bool, VmError> {
        let Some(new_end) = end.checked_add(more).filter(|e| *e <= M::USER_END) else { return Ok(false) };
        // No mapping from there on is in the way, be it one that grows downwards.
        let limit = new_end.saturating_add(STACK_GUARD);
        let order = &mut order::begin();
        let is_free = piece.end == end
            && self.next_extent_in(end, limit, order).is_none_or(|p| guarded_start(&p) >= new_end);
        if !is_free {
            return Ok(false);
        }
        let attrs = piece.attrs.advanced(((end - piece.start) >> PAGE_SHIFT) as u64);
        match self.map_free(&mut MapOp::new(end, attrs), new_end, order) {
            Err(VmError::Exists) => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Moves the private pages of `from..from + len` to `to`, which is mapped as `from` was, with `attrs`. An error comes before the
    /// first page is moved. Unless the old addresses stay mapped (`keep`), they cannot be used any more, where others might.
    #[expect(clippy::arithmetic_side_effects, reason = "both ranges were checked to lie in user memory")]
    fn move_pages(
        &self,
        from: usize,
        to: usize,
        len: usize,
        attrs: &MappingAttrs,
        keep: bool,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        // First every table, so that nothing can fail half way.
        let batches = |f: &mut dyn FnMut(usize, usize) -> Result<(), VmError>| -> Result<(), VmError> {
            let mut done = 0;
            while done < len {
                let at = from + done;
                done = match self.absent_until(at) {
                    Some(end) => end - from,
                    None => {
                        let leaf_end = (at + 1).next_multiple_of(LEAF_SPAN);
                        let end = (at + BATCH * PAGE_SIZE).min(leaf_end).min(from + len);
                        f(done, end - at)?;
                        end - from
                    }
                };
                // What has begun is made whole, whatever signal has come.
                let _ = give_way();
            }
            Ok(())
        };
        batches(&mut |offset, len| {
            let rcu = rcu::read();
            self.reach(to + offset, true, order, &rcu)?;
            self.reach(to + offset + len - 1, true, order, &rcu)?;
            drop(rcu);
            // Makes the old leaf this space's own, which may need memory too.
            self.apply(from + offset, from + offset + len, &mut UnshareOp, order)
        })?;
        // A page on its way between two leaves is found by no visit of the reverse map.
        let _size = attrs.object.as_ref().filter(|_| !attrs.is_shared()).map(|object| object.lock_size());
        // What another thread wrote there from now on would be lost.
        let vacated = !keep && len > 0 && self.multithreaded.load(Ordering::Relaxed);
        if vacated {
            self.vacate(from, len, order)?;
        }
        let here = (!vacated).then_some(attrs);
        batches(&mut |offset, len| {
            // Others may replace pages here for as long as they like.
            while self.move_batch((from, to), offset, len, (here, attrs), order)? && !give_way() {
                sync::machine::relax();
            }
            Ok(())
        })
    }

    /// Moves the private pages of one leaf that lie `offset..offset + len` after `from` to the same place after `to`. True: one is being replaced by its
    /// copy, and the caller comes again. The mappings are `here` and `there`.
    #[inline(never)]
    fn move_batch(
        &self,
        (from, to): (usize, usize),
        offset: usize,
        len: usize,
        (here, there): (Option<&MappingAttrs>, &MappingAttrs),
        order: &mut Order<'_>,
    ) -> Result<bool, VmError> {
        let mut pages = ArrayVec::new_const();
        let again = self.take_out(from, offset, len, here, &mut pages, order)?;
        if !pages.is_empty() {
            let put_in = self.put_in(to, offset, len, there, &mut pages, order);
            self.drop_rest(from, pages, order);
            put_in?;
        }
        Ok(again)
    }

    /// Not inlined, as the next two: what they need of the stack is not needed at once.
    #[inline(never)]
    #[expect(clippy::arithmetic_side_effects, reason = "both ranges were checked to lie in user memory")]
    fn take_out(
        &self,
        base: usize,
        offset: usize,
        len: usize,
        attrs: Option<&MappingAttrs>,
        pages: &mut Pages,
        order: &mut Order<'_>,
    ) -> Result<bool, VmError> {
        let mut op = TakeOut { base, attrs, again: false, pages };
        self.apply(base + offset, base + offset + len, &mut op, order)?;
        Ok(op.again)
    }

    #[inline(never)]
    #[expect(clippy::arithmetic_side_effects, reason = "both ranges were checked to lie in user memory")]
    fn put_in(
        &self,
        base: usize,
        offset: usize,
        len: usize,
        attrs: &MappingAttrs,
        pages: &mut Pages,
        order: &mut Order<'_>,
    ) -> Result<(), VmError> {
        self.apply(base + offset, base + offset + len, &mut PutIn { base, attrs, pages }, order)
    }

    /// What found no place (unmapped or touched by another thread meanwhile) is dropped; it was flushed already.
    #[inline(never)]
    #[expect(clippy::arithmetic_side_effects, reason = "both ranges were checked to lie in user memory")]
    fn drop_rest(&self, base: usize, mut pages: Pages, order: &mut Order<'_>) {
        if pages.is_empty() {
            return;
        }
        let mut gather = Gather::new(FlushCause::Move);
        for (offset, page) in pages.drain(..) {
            gather.range.add(base + offset, base + offset + PAGE_SIZE);
            gather.add_page(page.into_taken());
        }
        gather.finish::<M>(&self.tlb, order);
    }

    #[inline(never)]
    #[expect(clippy::arithmetic_side_effects, reason = "both ranges were checked to lie in user memory")]
    fn vacate(&self, from: usize, len: usize, order: &mut Order<'_>) -> Result<(), VmError> {
        self.apply(from, from + len, &mut VacateOp, order)
    }

    /// Where the run without leaves ends in which `addr` lies, as far as one table tells; None: there is a leaf.
    #[expect(clippy::arithmetic_side_effects, reason = "an address of user memory")]
    fn absent_until(&self, addr: usize) -> Option<usize> {
        let rcu = rcu::read();
        let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
        let node = path.node();
        (!node.is_leaf()).then(|| (addr + 1).next_multiple_of(node.span()))
    }
}

const _: () = assert!(BATCH <= ENTRIES);
