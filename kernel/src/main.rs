//! The Darter kernel: boot sequence.
//!
//! Order: this CPU's early state and the console → what the machine has (memory map, ACPI) → frames and heap →
//! the other CPUs → scheduler → file systems with the initramfs → the first process.
#![no_std]
#![no_main]

extern crate alloc;

#[macro_use]
mod log;

mod arch;
mod device;
mod errno;
mod memory;
mod panic;

/// Continues the boot on the boot CPU, on the boot stack, with the first page tables and interrupts off.
/// `start_info` is the physical address of the loader's `hvm_start_info`.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(start_info: usize) -> ! {
    arch::early_init(start_info);
    info!("Darter {} on {} CPUs", env!("CARGO_PKG_VERSION"), arch::cpus());
    arch::exit_vm(0x10)
}
