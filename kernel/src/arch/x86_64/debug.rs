//! The debug registers (SDM vol. 3, 18.2): what a CPU watches for a program, and what it says of a debug exception.
//!
//! They are loaded when a thread that has any goes on in user mode on this CPU, and stay when it is switched away from: what they then meet is a stranger's, who
//! clears them. They lead into the user half alone, so the kernel meets them only where it copies from or to a program's memory (`paranoid_trap`).

use core::arch::asm;

use super::cpu::features;
use super::{disable_interrupts, enable_interrupts};
use crate::arch::{USER_END, Watches};

/// DR6 while nothing has come: bits that are always set, or are set where others are not.
const QUIET: u64 = 0xffff_0ff0;

/// What the last debug exception was: bits of DR6, each set where it holds. Clears DR6, which nothing else does.
pub fn take_debug_status() -> u32 {
    let status: u64;
    // SAFETY: reads the debug status register, and writes its reset value.
    unsafe {
        asm!("mov {0}, dr6", "mov dr6, {1}", out(reg) status, in(reg) QUIET, options(nomem, nostack, preserves_flags));
    };
    (status ^ QUIET) as u32
}

/// This CPU watches nothing any more.
pub fn unload_watches() {
    // SAFETY: turns all breakpoints off; bit 10 is always set.
    unsafe { asm!("mov dr7, {}", in(reg) 1u64 << 10, options(nostack, preserves_flags)) };
}

/// This CPU watches `watches` from now on. An address that is no program's is left out. `steps`: the program is stepped, by TF; then QEMU's emulator would never end
/// an instruction that touches data which is watched (10.0), and such data is left out there.
pub fn load_watches(watches: &Watches, steps: bool) {
    let data = !(steps && features::is_emulated());
    let was = disable_interrupts();
    unload_watches();
    let [a, b, c, d] = watches.addresses.map(|address| if address < USER_END as u64 { address } else { 0 });
    let mut control = 1 << 10;
    for (n, address) in watches.addresses.iter().enumerate() {
        // An enable bit, and above them kind and length.
        let (enable, kind) = (2u64 << (n * 2), 0xf_u64 << (16 + n * 4));
        let is_left_out = !data && watches.control & (3 << (16 + n * 4)) != 0;
        if watches.control & (3 << (n * 2)) != 0 && *address < USER_END as u64 && !is_left_out {
            control |= enable | watches.control & kind;
        }
    }
    // SAFETY: addresses of the user half, none of which the kernel's own data or code has; the control word has enable bits, kinds and lengths alone.
    unsafe {
        asm!("mov dr0, {}", "mov dr1, {}", "mov dr2, {}", "mov dr3, {}", in(reg) a, in(reg) b, in(reg) c, in(reg) d, options(nostack, preserves_flags));
        asm!("mov dr7, {}", in(reg) control, options(nostack, preserves_flags));
    }
    if was {
        enable_interrupts();
    }
}
