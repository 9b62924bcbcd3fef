//! Kernel panic: print what happened and where, then end the virtual machine with a status of its own.

use core::panic::PanicInfo;

/// What `isa-debug-exit` gets after a panic; the host program turns it into status 125.
const PANIC_STATUS: u8 = 0x31;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    error!("kernel panic: {info}");
    crate::arch::exit_vm(PANIC_STATUS)
}
