//! /proc/latency: the longest time that each CPU did not give way, by what it did (`sched::latency`).
//!
//! The first line is the version of this form, the second how much a figure may lack: the time between two ticks. Then a line for each CPU
//! and kind: CPU, nanoseconds, the address where the last tick found it (0: it had none), the kind, which is `call` with its number, or a word.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use crate::errno::{ENOMEM, Result};
use crate::sched::latency::{figures, tick_ns};

pub fn text(out: &mut Vec<u8>) -> Result {
    let mut outcome = writeln!(Text(out), "latency 1\nlacks {}", tick_ns());
    for cpu in 0..sync::cpus() {
        figures(cpu, |figure| {
            if outcome.is_ok() {
                outcome = writeln!(Text(out), "{cpu} {} {:#x} {}", figure.ns, figure.pc, figure.kind);
            }
        });
    }
    outcome.map_err(|_| ENOMEM)
}
