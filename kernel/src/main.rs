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
mod fs;
mod memory;
mod panic;
mod process;
mod sched;
mod syscall;

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
    start_scheduling();
    arch::start_cpus(other_cpu);
    info!(
        "Darter {}: {} CPUs, {} nodes, {} ms",
        env!("CARGO_PKG_VERSION"),
        arch::cpus(),
        arch::nodes(),
        arch::time::now() / 1_000_000
    );
    fs::init(arch::initramfs());
    if let Err(errno) = process::start_init() {
        panic!("no first process: {errno:?}");
    }
    sched::idle_main()
}

/// What the other CPUs do.
fn other_cpu() -> ! {
    start_scheduling();
    sched::idle_main()
}

/// Makes the code that runs on this CPU its idle task.
fn start_scheduling() {
    sync::rcu::idle_exit();
    if let Err(errno) = sched::init_cpu() {
        panic!("no idle task: {errno:?}");
    }
}
