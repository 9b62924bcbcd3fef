//! Leaving the virtual machine.

use super::port::{inb, outb, outw};

/// QEMU's `isa-debug-exit` device: the byte written ends QEMU with status `(byte << 1) | 1`.
const DEBUG_EXIT: u16 = 0xf4;

/// Ends the virtual machine with `status`; where the exit device is absent, powers off or halts for good.
pub fn exit_vm(status: u8) -> ! {
    // SAFETY: the exit device's port; without the device the write goes nowhere.
    unsafe { outb(DEBUG_EXIT, status) };
    power_off()
}

/// Powers the machine off as QEMU's q35 does it (ACPI PM1a control at 0x604: SLP_EN with SLP_TYP 0), then halts.
pub fn power_off() -> ! {
    // SAFETY: the ACPI control port of QEMU's q35 and the keyboard controller's reset line; both harmless when absent.
    unsafe {
        outw(0x604, 0x2000);
        if inb(0x64) != 0xff {
            outb(0x64, 0xfe);
        }
    }
    halt_forever()
}

/// Stops this CPU with interrupts off.
pub fn halt_forever() -> ! {
    loop {
        // SAFETY: stops the CPU; nothing is touched.
        unsafe { core::arch::asm!("cli", "hlt", options(nomem, nostack)) };
    }
}
