//! Time as files see it: nanoseconds since 1970, read without a shared write.
#![forbid(unsafe_code)]

use crate::arch;

/// Now. File times need no better than the TSC gives.
pub fn coarse() -> i64 {
    arch::time::wall_offset().wrapping_add(arch::time::now()) as i64
}

/// Nanoseconds since boot, which no setting of the clock moves.
pub fn since_boot() -> u64 {
    arch::time::now()
}
