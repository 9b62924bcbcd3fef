//! /proc/darter/tlb: flushes of other CPUs' translations by cause. The first line says the version of the format, the second names the columns; then a line for each CPU
//! that began any and each cause: how many flushes interrupted others, how many CPUs these asked, and how many CPUs had not to be asked.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;
use vm::FlushCause;
use vm::tlb::TLB_COUNTS;

use crate::errno::{ENOMEM, Result};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub fn text(out: &mut Vec<u8>) -> Result {
    put!(out, "version 1\ncpu cause sent asked spared\n");
    for cpu in 0..sync::cpus() {
        let counts = &TLB_COUNTS.of(cpu).causes;
        for ((_, name), counts) in FlushCause::ALL.iter().zip(counts) {
            let [sent, asked, spared] = [&counts.sent, &counts.asked, &counts.spared].map(sync::Count::get);
            if sent | spared != 0 {
                put!(out, "{cpu} {name} {sent} {asked} {spared}\n");
            }
        }
    }
    Ok(())
}

/// Lines of /proc/vmstat, as a Linux with CONFIG_DEBUG_TLBFLUSH has them.
#[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
pub fn vmstat(out: &mut Vec<u8>) -> Result {
    let [mut sent, mut received, mut all, mut pages] = [0; 4];
    for counts in TLB_COUNTS.iter() {
        sent += counts.causes.iter().map(|cause| cause.sent.get()).sum::<u64>();
        received += counts.received.get();
        all += counts.local_all.get();
        pages += counts.local_pages.get();
    }
    put!(out, "nr_tlb_remote_flush {sent}\nnr_tlb_remote_flush_received {received}\n");
    put!(out, "nr_tlb_local_flush_all {all}\nnr_tlb_local_flush_one {pages}\n");
    Ok(())
}
