//! Whether private memory comes in large pages (2 MiB), for the whole machine, and how often it did.
//!
//! Linux's names and meanings: Documentation/admin-guide/mm/transhuge.rst. A mapping may have a wish of its own (madvise(2), MADV_HUGEPAGE and
//! MADV_NOHUGEPAGE), and a space may refuse (prctl(2), PR_SET_THP_DISABLE).
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use sync::{Count, per_cpu};

/// Which mappings get large pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LargePages {
    Never,
    /// Those that ask for them.
    Asked,
    /// All but those that refuse them.
    Always,
}

/// Events of one CPU.
pub struct LargeCounts {
    /// Large pages that were made at a fault; faults that would have made one and found no block.
    pub made: Count,
    pub lacked: Count,
    /// Blocks that were taken to gather the pages of a leaf in; times when there was none.
    pub gathered: Count,
    pub gather_lacked: Count,
    /// Leaves that were large and are split.
    pub split: Count,
}

per_cpu! {
    /// What became of large pages, for /proc.
    pub static LARGE_COUNTS: LargeCounts = LargeCounts {
        made: Count::new(),
        lacked: Count::new(),
        gathered: Count::new(),
        gather_lacked: Count::new(),
        split: Count::new(),
    };
}

static MODE: AtomicU8 = AtomicU8::new(LargePages::Asked as u8);

/// What holds now.
#[inline]
pub fn large_pages() -> LargePages {
    match MODE.load(Relaxed) {
        0 => LargePages::Never,
        1 => LargePages::Asked,
        _ => LargePages::Always,
    }
}

/// Sets what holds from now on. Pages that are there stay as they are.
pub fn set_large_pages(mode: LargePages) {
    MODE.store(mode as u8, Relaxed);
}
