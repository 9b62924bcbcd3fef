//! x86-64 in a virtual machine: boot, traps, interrupts, page-table entries, context switch, user copies, time.
//!
//! "SDM" in comments is the Intel 64 and IA-32 Architectures Software Developer's Manual; "APM" is AMD's.

mod boot;
mod cpu;
mod exit;

pub use boot::early_init;
pub use cpu::port;
pub use exit::exit_vm;

/// CPUs present.
pub fn cpus() -> u32 {
    1
}
