//! How much a process weighs when memory is out, and what may be said about that beforehand (oom_score_adj, proc(5)).
//!
//! As on Linux a process weighs what it has in memory and its page tables, and for each point of its adjustment a thousandth of memory more or less;
//! one with the least adjustment is never chosen. What its user holds in the kernel beside weighs in the choice (`choice`), not in oom_score.
#![forbid(unsafe_code)]

use crate::errno::{EACCES, EINVAL, Result};
use crate::process::Process;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Never chosen.
pub const LEAST: i32 = -1000;
pub const MOST: i32 = 1000;

/// What is said of a process. A child begins with the same.
pub struct Adjustment {
    now: AtomicI32,
    /// The privileged have set this: others may go down to it and no further.
    least: AtomicI32,
}

impl Adjustment {
    pub const fn new() -> Self {
        Self { now: AtomicI32::new(0), least: AtomicI32::new(0) }
    }

    pub fn copy(&self) -> Self {
        Self { now: AtomicI32::new(self.now.load(Relaxed)), least: AtomicI32::new(self.least.load(Relaxed)) }
    }

    pub fn get(&self) -> i32 {
        self.now.load(Relaxed)
    }

    /// `privileged`: the writer may use CAP_SYS_RESOURCE.
    ///
    /// # Errors
    /// EINVAL: beyond the ends; EACCES: lower than the writer may.
    pub fn set(&self, to: i32, privileged: bool) -> Result {
        if !(LEAST..=MOST).contains(&to) {
            return Err(EINVAL);
        }
        if !privileged && to < self.least.load(Relaxed) {
            return Err(EACCES);
        }
        self.now.store(to, Relaxed);
        if privileged {
            self.least.store(to, Relaxed);
        }
        Ok(())
    }

    /// The same on the scale of oom_adj, -17 to 15. Nobody goes lower than it is without privilege.
    ///
    /// # Errors
    /// As `set`.
    pub fn set_coarse(&self, to: i32, privileged: bool) -> Result {
        let fine = match to {
            15 => MOST,
            -17..15 => to.saturating_mul(MOST) / 17,
            _ => return Err(EINVAL),
        };
        if fine < self.get() && !privileged {
            return Err(EACCES);
        }
        self.set(fine, privileged)
    }

    pub fn get_coarse(&self) -> i32 {
        match self.get() {
            MOST => 15,
            n => (n.saturating_mul(17) / MOST).min(15),
        }
    }
}

/// What the process weighs, in pages; None: it is never chosen.
pub fn weight(process: &Process) -> Option<i64> {
    let adjustment = i64::from(process.adjustment.get());
    if adjustment == i64::from(LEAST) {
        return None;
    }
    let usage = process.space()?.usage();
    let pages = i64::try_from(usage.resident_pages.saturating_add(usage.tables)).unwrap_or(i64::MAX);
    Some(pages.saturating_add(adjustment.saturating_mul(total().saturating_div(1000))))
}

fn total() -> i64 {
    i64::try_from(vm::frame::total_frames()).unwrap_or(i64::MAX).max(1)
}

/// oom_score: 0 to 2000 at most, where an empty process has 666.
pub fn score(process: &Process) -> i64 {
    weight(process).map_or(0, |weight| {
        let thousandths = weight.saturating_mul(1000).checked_div(total()).unwrap_or(0);
        thousandths.saturating_add(1000).saturating_mul(2).saturating_div(3).max(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_go_no_lower_than_the_privileged_have_set() {
        let adjustment = Adjustment::new();
        assert_eq!(adjustment.set(1001, true), Err(EINVAL));
        assert_eq!(adjustment.set(-1, false), Err(EACCES));
        assert_eq!(adjustment.set(300, false), Ok(()));
        assert_eq!(adjustment.set(0, false), Ok(()));
        assert_eq!(adjustment.set(-500, true), Ok(()));
        let child = adjustment.copy();
        assert_eq!(child.get(), -500);
        assert_eq!(child.set(7, false), Ok(()));
        assert_eq!(child.set(-500, false), Ok(()));
        assert_eq!(child.set(-501, false), Err(EACCES));
    }

    #[test]
    fn the_coarse_scale_is_the_fine_one_in_seventeenths() {
        let adjustment = Adjustment::new();
        for (coarse, fine, back) in [(15, 1000, 15), (-17, -1000, -17), (1, 58, 0), (8, 470, 7), (0, 0, 0)] {
            assert_eq!(adjustment.set_coarse(coarse, true), Ok(()));
            assert_eq!((adjustment.get(), adjustment.get_coarse()), (fine, back));
        }
        assert_eq!(adjustment.set_coarse(16, true), Err(EINVAL));
        assert_eq!(adjustment.set_coarse(-1, false), Err(EACCES));
    }
}
