//! Leaving the virtual machine.

use super::acpi::MachineTables;
use super::cpu::BootCell;
use super::memory::tables;
use super::port::{outb, outw};

/// QEMU's `isa-debug-exit` device: the byte written ends QEMU with status `(byte << 1) | 1`.
const DEBUG_EXIT: u16 = 0xf4;

/// Ends the virtual machine with `status`; where the exit device is absent, powers off or halts for good.
pub fn exit_vm(status: u8) -> ! {
    // SAFETY: the exit device's port; without the device the write goes nowhere.
    unsafe { outb(DEBUG_EXIT, status) };
    power_off()
}

/// How this machine is turned off (ACPI 6.5, 4.8.3.2 and 4.8.3.7).
struct PowerOff {
    /// The PM1a control port; 0: there is none.
    pm1a: u16,
    /// The sleep control register of a machine with reduced hardware (QEMU's microvm), mapped; 0: there is none.
    sleep: usize,
}

static POWER_OFF: BootCell<PowerOff> = BootCell::new(PowerOff { pm1a: 0, sleep: 0 });

/// Notes how to turn the machine off.
///
/// # Safety
/// Once, on the boot CPU, alone, on the final page tables.
pub unsafe fn init(machine: &MachineTables) {
    // SAFETY: as the caller says; the register is the one that the FADT names.
    unsafe {
        let off = POWER_OFF.get_mut();
        off.pm1a = machine.pm1a_control().unwrap_or(0);
        off.sleep = machine.sleep_control().map_or(0, |address| tables::map_device(address, 1) as usize);
    }
}

/// Powers the machine off, or at least resets it, which ends a QEMU that was told not to reboot.
pub fn power_off() -> ! {
    let off = POWER_OFF.get();
    // SLP_EN with the sleep type of S5. The type stands in AML; QEMU's is 0 on PCs and 5 with reduced hardware.
    // SAFETY: the registers that the FADT names.
    unsafe {
        if off.pm1a != 0 {
            outw(off.pm1a, 1 << 13);
        }
        if off.sleep != 0 {
            (off.sleep as *mut u8).write_volatile(1 << 5 | 5 << 2);
        }
    }
    reset()
}

/// Resets the machine.
pub fn reset() -> ! {
    // SAFETY: the keyboard controller's reset line, harmless where absent; a breakpoint without an interrupt table ends in a triple fault, which resets the machine.
    unsafe {
        outb(0x64, 0xfe);
        let nothing = [0u16; 5];
        core::arch::asm!("lidt [{}]", "int3", in(reg) nothing.as_ptr());
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
