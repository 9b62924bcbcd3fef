//! Boot option `plant=calls:NAME,NAME`: these calls bump one counter that all CPUs share.
//!
//! That is what the gate on system calls (`darter lines --calls --gate`) exists to find, so a test plants it and expects the gate to fail
//! (tests/boot/counts/calls.sh). Nothing here runs without the option: calls that are watched go another way already (`trace`).
#![forbid(unsafe_code)]

use super::table;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const OPTION: &str = "plant=calls:";

/// A bit for each number of a call that counts.
static WHICH: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// On a line of its own, so that nothing else is blamed.
#[repr(align(64))]
struct Planted(AtomicU64);

static PLANTED_CALLS: Planted = Planted(AtomicU64::new(0));

fn bit(number: usize) -> Option<(&'static AtomicU64, u64)> {
    Some((WHICH.get(number / 64)?, 1 << (number % 64)))
}

/// Does the word of the command line plant anything?
pub fn configure(word: &str) -> bool {
    let Some(names) = word.strip_prefix(OPTION) else { return false };
    for (number, (word, bit)) in (0..).map_while(|number| Some((number, bit(number)?))) {
        if table::name(number).is_some_and(|name| names.split(',').any(|wanted| wanted == name)) {
            word.fetch_or(bit, Relaxed);
        }
    }
    true
}

/// A call that is watched, counted where it hurts.
pub fn count(number: usize) {
    if bit(number).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0) {
        PLANTED_CALLS.0.fetch_add(1, Relaxed);
    }
}
