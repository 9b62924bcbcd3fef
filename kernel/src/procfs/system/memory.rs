//! /proc/buddyinfo, zoneinfo and iomem: the machine's memory by nodes and addresses.
//!
//! Memory is not split into zones by what devices reach: each node has one, which is told as Linux's `Normal`.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;
use sync::machine;
use vm::frame;

use crate::arch;
use crate::errno::{ENOMEM, Result};
use crate::fs::caller::{self, Capability};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// Free blocks of 1, 2, 4 … pages.
pub fn buddyinfo(out: &mut Vec<u8>) -> Result {
    for (node, memory) in nodes() {
        put!(out, "Node {node}, zone {:>8} ", "Normal");
        for count in memory.blocks {
            put!(out, "{count:>6} ");
        }
        put!(out, "\n");
    }
    Ok(())
}

/// What is known of each node's memory.
pub fn zoneinfo(out: &mut Vec<u8>) -> Result {
    for (node, memory) in nodes() {
        put!(out, "Node {node}, zone {:>8}\n  pages free     {}\n", "Normal", memory.free);
        put!(out, "        present  {}\n        managed  {}\n", memory.total, memory.total);
        put!(out, "      nr_free_pages {}\n", memory.free);
    }
    Ok(())
}

fn nodes() -> impl Iterator<Item = (u32, frame::NumaNode)> {
    (0..machine::nodes()).filter_map(|node| Some((node, frame::numa_node(node)?)))
}

/// Ranges of addresses, which who may not know them sees as 0.
pub fn iomem(out: &mut Vec<u8>) -> Result {
    let shows = caller::capable(Capability::SYS_ADMIN);
    for (first, last) in arch::memory_ranges() {
        let (first, last) = if shows { (first, last) } else { (0, 0) };
        put!(out, "{first:08x}-{last:08x} : System RAM\n");
    }
    Ok(())
}
