//! /proc/lockstat: for each class of locks how often they were taken, and what was lost waiting for them.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;
use sync::lock::stats::{Sums, for_each_class};

use crate::errno::{ENOMEM, Result};

pub fn text(out: &mut Vec<u8>) -> Result {
    let mut outcome = writeln!(
        Text(out),
        "{:<24} {:>14} {:>12} {:>10} {:>16} {:>14}  longest by",
        "class",
        "acquisitions",
        "collisions",
        "sleeps",
        "waited (cycles)",
        "longest"
    );
    for_each_class(|name, stats| {
        let sums = Sums::of(stats);
        if outcome.is_err() || sums.acquisitions == 0 {
            return;
        }
        outcome = write!(
            Text(out),
            "{name:<24} {:>14} {:>12} {:>10} {:>16} {:>14}",
            sums.acquisitions,
            sums.collisions,
            sums.sleeps,
            sums.waited,
            sums.longest
        );
        if let Some(place) = sums.longest_caller {
            outcome = outcome.and(write!(Text(out), "  {}:{}", place.file(), place.line()));
        }
        outcome = outcome.and(writeln!(Text(out)));
    });
    outcome.map_err(|_| ENOMEM)
}
