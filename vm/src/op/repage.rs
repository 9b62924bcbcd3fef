//! remap_file_pages(2): other pages of the same object in the place of shared ones. Since Linux 4.0 this is mmap of what is mapped there already.
//!
//! Invariants: those of `map`. A run is looked up before it is mapped anew, and no lock is held in between: who changes the same addresses meanwhile
//! finds one after the other.
//! Lock order: layout → node.
#![forbid(unsafe_code)]

use super::map::MapOp;
use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::object::Object;
use crate::object::slots::MAX_PAGES;
use crate::order;
use crate::request::{Access, Prot};
use crate::space::Space;
use crate::space::pieces::Found;
use crate::space::seals::is_sealed;

/// A run of addresses of one object that is shared with write permission allowed.
pub struct SharedRun {
    start: usize,
    len: usize,
    attrs: MappingAttrs,
}

impl SharedRun {
    pub fn object(&self) -> Option<&Object> {
        self.attrs.object.as_deref()
    }

    pub fn prot(&self) -> Prot {
        self.attrs.prot
    }

    pub fn is_locked(&self) -> bool {
        self.attrs.flags.contains(SegFlags::LOCKED)
    }

    /// Does `other` differ from it in nothing but its place in the object?
    fn is_like(&self, other: &MappingAttrs) -> bool {
        let same = |a: &Object, b: &Object| core::ptr::eq(a, b);
        other.prot == self.attrs.prot
            && other.flags == self.attrs.flags
            && self.object().zip(other.object.as_deref()).is_some_and(|(a, b)| same(a, b))
    }
}

impl<M: Machine> Space<M> {
    /// The run of `len` bytes, whole pages, at `start`. May sleep, and ends early with what it was asked for where a fatal signal comes.
    ///
    /// # Errors
    /// `Invalid`: part of it is not mapped, is private, may never be written, or is of another object or another kind than the rest.
    pub fn shared_run(&self, start: VirtAddr, len: usize) -> Result<SharedRun, VmError> {
        let start = start.0;
        let end = start.checked_add(len).filter(|end| *end > start && *end <= M::USER_END);
        let end = end.ok_or(VmError::Invalid)?;
        let order = &mut order::begin();
        let first = |(range, attrs, pages): Found<'_>| {
            let is_ours = range.start <= start
                && attrs.is_shared()
                && attrs.object.is_some()
                && !attrs.flags.contains(SegFlags::NO_WRITE);
            is_ours.then(|| attrs.advanced(pages))
        };
        let attrs = self.look_at_next(start, start.saturating_add(1), order, first).flatten();
        let run = SharedRun { start, len, attrs: attrs.ok_or(VmError::Invalid)? };
        let mut at = start;
        while at < end {
            let next =
                |(range, attrs, _): Found<'_>| (range.start <= at && run.is_like(attrs)).then_some(range.end);
            let reached = self.look_at_next(at, at.saturating_add(1), order, next).flatten();
            at = reached.ok_or(VmError::Invalid)?;
            if sync::machine::give_way() {
                break;
            }
        }
        Ok(run)
    }

    /// Maps the object's pages from `page` on in the place of the run, and faults them in with `populate` or where they are locked. May sleep.
    ///
    /// # Errors
    /// `Overflow`: no object is so long. `Sealed`. `NoMemory`; `NoSpace`: there would be too many mappings.
    pub fn map_run(&self, run: SharedRun, page: u64, populate: bool) -> Result<(), VmError> {
        let SharedRun { start, len, mut attrs } = run;
        let pages = (len >> PAGE_SHIFT) as u64;
        if page.checked_add(pages).is_none_or(|end| end > MAX_PAGES) {
            return Err(VmError::Overflow);
        }
        attrs.offset = page;
        let (prot, locked) = (attrs.prot, attrs.flags.contains(SegFlags::LOCKED));
        let end = start.saturating_add(len.next_multiple_of(PAGE_SIZE));
        let refused = |count, limit| count > limit || self.is_hole_refused(count, limit, &(start..end));
        let mut op = MapOp::new(start, attrs);
        self.counted(2, refused, |tally| {
            tally.of(self, start..end, || {
                self.unless_sealed(&(start..end), &is_sealed, |heeds| {
                    op.heeds_seals = heeds;
                    self.apply(start, end, &mut op, &mut order::begin())
                })
            })
        })?;
        // As with mmap, failing to populate is no error.
        if locked {
            let _ = self.populate_locked(start, end, true);
        } else if populate {
            let access = if prot.contains(Prot::WRITE) { Access::WRITE } else { Access::READ };
            let _ = self.populate(VirtAddr(start), len, access);
        }
        Ok(())
    }
}
