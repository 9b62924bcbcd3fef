//! The boot sequence.
//!
//! Order: this CPU's early state and the console → what the machine has (memory map, ACPI) → frames and heap →
//! functions of PCI → the other CPUs → scheduler → file systems with the initramfs → the first process.

use crate::{FILE_SYSTEMS, arch, device, fs, process, sched, syscall, sysfs};

/// Begins in Rust on the boot CPU, on the boot stack, with the first page tables and interrupts off.
/// `start_info` is the physical address of the loader's `hvm_start_info`.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(start_info: usize) -> ! {
    // SAFETY: the boot CPU, alone, once; nothing is on its stack that is used later.
    unsafe {
        arch::early_init(start_info);
        arch::leave_boot_stack(boot)
    }
}

/// The rest of the boot, on a stack with a guard page, with interrupts on. This code becomes the boot CPU's idle task, so it
/// must not sleep; what may sleep runs in a thread.
extern "C" fn boot() -> ! {
    // SAFETY: once, in this order, before and after the boot CPU schedules.
    unsafe { arch::late_init() };
    sched::latency::configure(arch::command_line());
    start_scheduling();
    device::pci::find();
    device::virtio::find_functions();
    // SAFETY: as above.
    unsafe { arch::start_cpus(other_cpu) };
    sched::pending::set_handler(sched::Pending::Serial, device::serial::drain);
    sched::pending::set_handler(sched::Pending::Device, device::virtio::look);
    sched::pending::set_handler(sched::Pending::Memory, device::virtio::balloon::look);
    sched::pending::set_handler(sched::Pending::Log, fs::devfs::kmsg::tell);
    device::serial::init();
    info!(
        "Darter {}: {} CPUs, {} nodes, {} MiB free, {} ms",
        env!("CARGO_PKG_VERSION"),
        arch::cpus(),
        arch::nodes(),
        vm::frame::free_frames() / 256,
        arch::time::now() / 1_000_000
    );
    if let Err(errno) = sched::spawn(None, finish_boot, 0) {
        panic!("no memory for the first thread: {errno:?}");
    }
    sched::idle_main()
}

/// Who gives memory back before a process is killed for it.
static RELIEF: process::Relief = process::Relief(device::virtio::balloon::relieve);

/// The part of the boot that may sleep: the root file system and the first process.
fn finish_boot(_: usize) {
    syscall::trace::configure(arch::command_line());
    sysfs::configure(arch::command_line());
    vm::token::configure(arch::command_line());
    #[cfg(feature = "lockdep")]
    crate::lock_order::plant_inversion(arch::command_line());
    #[cfg(debug_assertions)]
    vm::frame::poison::plant(arch::command_line());
    #[cfg(feature = "lockdep")]
    sched::depth::plant(arch::command_line());
    sched::plant(arch::command_line());
    #[cfg(feature = "lockdep")]
    crate::audit::plant(arch::command_line());
    device::virtio::init(arch::command_line());
    device::pci::note_registers();
    process::set_relief(&RELIEF);
    fs::devfs::random::seed_from_device();
    fs::init(&FILE_SYSTEMS, arch::initramfs());
    if let Err(errno) = fs::devfs::kmsg::start_console() {
        warn!("no thread that shows messages on the console: {errno:?}");
    }
    if let Err(errno) = process::signal::errand::start() {
        panic!("no memory for the thread that sends signals: {errno:?}");
    }
    if let Err(errno) = fs::vfs::mount::namespace::start() {
        panic!("no thread that ends namespaces: {errno:?}");
    }
    if let Err(errno) = fs::vfs::notify::start() {
        panic!("no memory for the thread that tells of closed files: {errno:?}");
    }
    sched::booted();
    if let Err(errno) = process::start_init() {
        panic!("no first process: {errno:?}");
    }
}

/// What the other CPUs do.
fn other_cpu() -> ! {
    start_scheduling();
    sched::idle_main()
}

/// Makes the code that runs on this CPU its idle task.
fn start_scheduling() {
    sync::rcu::idle_exit();
    // SAFETY: each CPU comes here once, first of all, on the stack that it idles on.
    if let Err(errno) = unsafe { sched::init_cpu() } {
        panic!("no idle task: {errno:?}");
    }
}
