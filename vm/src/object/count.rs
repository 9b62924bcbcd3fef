//! How many pages objects have, for /proc/meminfo. Counted on each CPU, so whoever fills or empties an object writes no line of another CPU.
//!
//! An object counts its pages as one of the two kinds, and changes that under its `change` lock when they become its own. No locks.
#![forbid(unsafe_code)]

use sync::{Count, per_cpu};

struct Counts {
    paged: Count,
    own: Count,
}

per_cpu! {
    static PAGES: Counts = Counts { paged: Count::new(), own: Count::new() };
}

impl Counts {
    #[inline]
    fn of(&self, is_paged: bool) -> &Count {
        if is_paged { &self.paged } else { &self.own }
    }
}

/// Pages of all objects.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ObjectPages {
    /// They can be read again from where they came.
    pub paged: u64,
    /// Files in memory, and memory that programs share.
    pub own: u64,
}

impl ObjectPages {
    /// The sums over the CPUs; what changes meanwhile may be missed.
    pub fn now() -> Self {
        let sum =
            |is_paged| PAGES.iter().fold(0, |sum: u64, counts| sum.wrapping_add(counts.of(is_paged).get()));
        // Between the two halves of a change a sum may be below zero.
        let at_least_none = |sum: u64| sum.cast_signed().max(0).cast_unsigned();
        Self { paged: at_least_none(sum(true)), own: at_least_none(sum(false)) }
    }
}

/// `n` pages have come in.
#[inline]
pub(super) fn entered(is_paged: bool, n: u64) {
    PAGES.this().of(is_paged).add(n);
}

/// `n` pages are gone.
#[inline]
pub(super) fn left(is_paged: bool, n: u64) {
    PAGES.this().of(is_paged).sub(n);
}
