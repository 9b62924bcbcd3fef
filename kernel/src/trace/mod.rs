//! What is counted for those who watch the kernel at work: /proc/darter/cpus, /proc/darter/contention and /proc/darter/samples show it.
//!
//! Most counts lie where they are made: waits for locks in `sync::lock`, faults, flushes and frames in `vm`, interrupts in `arch`, times in `sched`. Here is
//! what belongs to none of these: how many processes began, executed and ended on each CPU (`Events`), and the samples (`sample`).
//!
//! CountLocal: a CPU writes its own figures alone, and who reads writes nothing. No locks.
#![forbid(unsafe_code)]

pub mod sample;

use sync::{Count, per_cpu};

/// What processes did on one CPU.
#[repr(align(64))]
pub struct Events {
    pub forks: Count,
    pub execs: Count,
    pub exits: Count,
}

per_cpu! {
    /// Processes that began, executed a program, and ended, by the CPU on which it was done. Threads are none.
    pub static EVENTS: Events = Events { forks: Count::new(), execs: Count::new(), exits: Count::new() };
}
