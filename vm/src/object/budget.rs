//! What the objects of one file system may hold together, and how many files that has.
//!
//! Counted in a [`Quota`]: writing and removing files on several CPUs shares no line until a limit is near. An object charges a page before it has it,
//! and gives it back when it has left the slot; tables of its tree, which stay as long as the object, are counted apart, since whoever punches
//! holes into a file has tables without pages.
//!
//! Each object refers to its budget, so that lives until the last of them is gone. No locks.
#![forbid(unsafe_code)]

use crate::error::VmError;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::AllocError;
use sync::percpu_ref::{PerCpuArc, PerCpuOwner};
use sync::quota::{Quota, UNLIMITED};

/// A reference, counted on each CPU once several CPUs use it.
pub type BudgetRef = PerCpuArc<Budget>;
/// The budget's owner, a file system.
pub type BudgetOwner = PerCpuOwner<Budget>;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetKind {
    Pages,
    /// Files and names, as the file system counts them.
    Files,
    /// Tables of objects' trees.
    Tables,
}

/// Tables that a page can need: those of the deepest tree.
const TABLES_PER_PAGE: u64 = 6;

/// Counts and limits.
pub struct Budget {
    quota: Quota<3>,
    /// The largest number of each kind.
    limits: [AtomicU64; 3],
}

impl Budget {
    /// Nothing is limited.
    ///
    /// # Errors
    /// No memory.
    pub fn try_new() -> Result<BudgetOwner, AllocError> {
        PerCpuOwner::try_new(Self {
            quota: Quota::try_new()?,
            limits: [const { AtomicU64::new(UNLIMITED) }; 3],
        })
    }

    /// The limit; None: there is none.
    pub fn limit(&self, what: BudgetKind) -> Option<u64> {
        let limit = self.raw_limit(what);
        (limit != UNLIMITED).then_some(limit)
    }

    #[inline]
    fn raw_limit(&self, what: BudgetKind) -> u64 {
        self.limits.get(what as usize).map_or(0, |limit| limit.load(Relaxed))
    }

    /// Sets the limit of pages or files. What is used already stays.
    pub fn set_limit(&self, what: BudgetKind, limit: Option<u64>) {
        let set = |what: BudgetKind, to: u64| {
            if let Some(limit) = self.limits.get(what as usize) {
                limit.store(to, Relaxed);
            }
        };
        set(what, limit.unwrap_or(UNLIMITED));
        if what == BudgetKind::Pages {
            set(BudgetKind::Tables, limit.map_or(UNLIMITED, |pages| pages.saturating_mul(TABLES_PER_PAGE)));
        }
    }

    /// Counts `n` more.
    ///
    /// # Errors
    /// `Full`.
    #[inline]
    pub fn charge(&self, what: BudgetKind, n: u64) -> Result<(), VmError> {
        self.quota.charge(what as usize, n, self.raw_limit(what)).map_err(|_| VmError::Full)
    }

    /// Counts `n` less, which were charged.
    #[inline]
    pub fn give_back(&self, what: BudgetKind, n: u64) {
        self.quota.give_back(what as usize, n);
    }

    /// How many there are: exact when nobody charges or gives back meanwhile.
    pub fn used(&self, what: BudgetKind) -> u64 {
        self.quota.used(what as usize)
    }
}
