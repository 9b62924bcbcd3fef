//! mprotect.
//!
//! Invariants: LeafOwns. Taking a right away flushes; giving one does not: a stale translation causes a spurious fault.
//! Pages become writable at the next write, when the fault sees who else holds them (CopyBeforeWrite).
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::Locked;
use crate::node::flush::Gather;
use crate::node::segment::SegFlags;
use crate::order;
use crate::request::Prot;
use crate::space::Space;
use crate::space::range::RangeOp;
use core::ops::Range;

struct ProtectOp(Prot);

impl<M: Machine> RangeOp<M> for ProtectOp {
    const CLEARS: bool = false;
    const DETACHES: bool = false;

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, _gather: &mut Gather<'_>) {
        node.update_mapped(range, |m| m.prot = self.0);
    }

    #[expect(clippy::arithmetic_side_effects, reason = "places in a leaf")]
    fn entries(&mut self, leaf: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        for index in leaf.used_in(&range) {
            let old = leaf.look(index);
            if old.is_absent() || old.is_busy() {
                continue;
            }
            old.protect::<M>(self.0);
            gather.touched(leaf, index..index + 1);
        }
    }
}

impl<M: Machine> Space<M> {
    /// Sets the protection of `start..start + len`. `Access` (EACCES) if part of it must not be writable; `NoSpace` (ENOMEM) where part of it is not mapped; what lies before the first hole
    /// is changed then, as on Linux. May sleep.
    pub fn protect(&self, start: VirtAddr, len: usize, prot: Prot) -> Result<(), VmError> {
        let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(VmError::NoSpace)?;
        if !start.is_page_aligned() {
            return Err(VmError::Invalid);
        }
        if len == 0 {
            return Ok(());
        }
        let end = start.0.checked_add(len).filter(|e| *e <= M::USER_END).ok_or(VmError::NoSpace)?;
        let order = &mut order::begin();
        let mapped = self.mapped_until(start.0, end, order);
        if prot.contains(Prot::WRITE)
            && self.any_piece(start.0, mapped, &|m| m.flags.contains(SegFlags::NO_WRITE), order)
        {
            return Err(VmError::Access);
        }
        if mapped > start.0 {
            self.apply(start.0, mapped, &mut ProtectOp(prot), order)?;
        }
        if mapped < end { Err(VmError::NoSpace) } else { Ok(()) }
    }
}
