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

/// Begins in Rust on the boot CPU, on the boot stack, with the first page tables and interrupts off.
/// `start_info` is the physical address of the loader's `hvm_start_info`.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(start_info: usize) -> ! {
    arch::early_init(start_info);
    arch::leave_boot_stack(boot)
}

/// The rest of the boot, on a stack with a guard page, with interrupts on.
extern "C" fn boot() -> ! {
    arch::late_init();
    arch::start_cpus(idle);
    info!(
        "Darter {}: {} CPUs, {} nodes, {} ms",
        env!("CARGO_PKG_VERSION"),
        arch::cpus(),
        arch::nodes(),
        arch::time::now() / 1_000_000
    );
    arch::exit_vm(0x10)
}

/// What the other CPUs do.
fn idle() -> ! {
    sync::rcu::idle_exit();
    loop {
        arch::idle_wait(|| false);
    }
}
