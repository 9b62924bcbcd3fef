//! mseal: mappings that stay as they are until the space ends. `space::seals` says how that goes beside changes by other threads.
//!
//! A seal is a property of a segment: it splits and joins with it, and a child of fork inherits it.
//!
//! Invariants: LeafOwns. What is sealed stays mapped and sealed; no operation clears the flag.
//! Lock order: `exact` → moving → sealing → layout → node.
#![forbid(unsafe_code)]

use super::unmap::FlagsOp;
use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::segment::SegFlags;
use crate::order;
use crate::space::Space;
use crate::space::seals::is_sealed;

impl<M: Machine> Space<M> {
    /// Seals what is mapped in `start..start + len`. May sleep, with several threads for a grace period.
    ///
    /// # Errors
    /// `Invalid`: no such range. `NoSpace`: not all of it is mapped. `TooMany`, `NoMemory`. Then nothing is sealed.
    pub fn seal(&self, start: VirtAddr, len: usize) -> Result<(), VmError> {
        let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(VmError::Invalid)?;
        let end = start.0.checked_add(len).ok_or(VmError::Invalid)?;
        if !start.is_page_aligned() {
            return Err(VmError::Invalid);
        }
        if len == 0 {
            return Ok(());
        }
        if end > M::USER_END {
            return Err(VmError::NoSpace);
        }
        let range = start.0..end;
        let order = &mut order::begin();
        // What was seen sealed stays so: where all was, all is.
        if self.seals.are_there() && self.mapped_while(range.start, range.end, &is_sealed, order) == end {
            return Ok(());
        }
        let refused = |count, limit| self.is_change_refused(count, limit, &range);
        self.counted(2, refused, |tally| {
            let _standing = self.stop_moving();
            let _sealing = self.start_sealing();
            if !self.is_mapped(range.start, range.end, order) {
                return Err(VmError::NoSpace);
            }
            let mut op = FlagsOp { set: SegFlags::SEALED, clear: SegFlags::empty(), heeds_seals: false };
            tally.of(self, range.clone(), || self.apply(range.start, range.end, &mut op, order))
        })
    }
}
