//! Giving an object pages before they are written, for fallocate.
#![forbid(unsafe_code)]

use super::slots::MAX_PAGES;
use super::{BudgetKind, Object};
use crate::error::VmError;
use crate::frame;
use sync::machine;

/// Who wants this part of memory or more asks first how much is free, which adds up what all CPUs have.
const MUCH: u64 = 1024;

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
        let Some(missing) = self.missing(first, end, stop) else { return Ok(false) };
        // Whole or not at all: charged and given back, so that nobody adds up what all CPUs use.
        if let Some(budget) = self.budget().filter(|_| missing > 0) {
            budget.charge(BudgetKind::Pages, missing)?;
            budget.give_back(BudgetKind::Pages, missing);
        }
        if missing > frame::total_frames() / MUCH && missing > frame::free_frames() {
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

    /// Pages of `first..end` that are not resident. None: `stop` says so.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    fn missing(&self, first: u64, end: u64, stop: &dyn Fn() -> bool) -> Option<u64> {
        let (mut there, mut page) = (0_u64, first);
        while page < end {
            page = match self.slots.run(page) {
                Some(run) => {
                    let left = usize::try_from(end - page).unwrap_or(usize::MAX);
                    there += run.iter().take(left).map(|slot| u64::from(slot.frame().is_some())).sum::<u64>();
                    page + run.len() as u64
                }
                None => self.slots.absent_until(page).max(page + 1),
            };
            if machine::give_way() || stop() {
                return None;
            }
        }
        Some((end - first).saturating_sub(there))
    }
}
