//! Giving an object pages before they are written, for fallocate.
#![forbid(unsafe_code)]

use super::slots::MAX_PAGES;
use super::{BudgetKind, Object};
use crate::error::VmError;
use crate::frame;
use sync::machine;

impl Object {
    /// Makes the pages `first..end` resident, wherever the object ends. Where it is plain that they do not fit, none is; where memory or the
    /// budget ends in the midst, or `stop` says so (then the answer is false), those made so far stay: a program may have written them. May sleep.
    ///
    /// # Errors
    /// `Full`, `NoMemory`, `Overflow`.
    pub fn allocate(&self, first: u64, end: u64, stop: &dyn Fn() -> bool) -> Result<bool, VmError> {
        if end > MAX_PAGES {
            return Err(VmError::Overflow);
        }
        // No file of a budget is larger than that; this bounds the counting.
        let limit = self.budget().and_then(|budget| budget.limit(BudgetKind::Pages));
        if limit.is_some_and(|limit| end.saturating_sub(first) > limit) {
            return Err(VmError::Full);
        }
        let missing = self.missing(first, end);
        let left = limit.zip(self.budget()).map(|(limit, b)| limit.saturating_sub(b.used(BudgetKind::Pages)));
        if missing > frame::free_frames() || left.is_some_and(|left| missing > left) {
            return Err(VmError::Full);
        }
        for page in first..end {
            if self.frame(page).is_none() {
                self.check_scarcity(page)?;
                self.bring_in(page)?;
            }
            if page.is_multiple_of(64) && (machine::give_way() || stop()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Pages of `first..end` that are not resident.
    fn missing(&self, first: u64, end: u64) -> u64 {
        let mut there = 0_u64;
        self.slots
            .each(first, end, &mut |_, slot| there = there.saturating_add(u64::from(slot.frame().is_some())));
        end.saturating_sub(first).saturating_sub(there)
    }
}
