//! KVM's paravirtual clock: a scale from the time-stamp counter to nanoseconds, from which follows how fast the counter runs. It is read once, on
//! the boot CPU; the page is taken back, since the counter itself is the clock.

use super::super::cpu::reg;
use super::super::memory::physical_of_image;
use super::{CLOCK, CLOCK_STABLE, ENABLED};

const MSR_KVM_SYSTEM_TIME_NEW: u32 = 0x4b56_4d01;

/// In `flags`: the counters of all CPUs are one clock. The host keeps the flag where it offers [`CLOCK_STABLE`].
const STABLE: u8 = 1;

#[repr(C, align(32))]
#[derive(Clone, Copy)]
struct Page {
    version: u32,
    pad: u32,
    tsc: u64,
    system: u64,
    multiplier: u32,
    shift: i8,
    flags: u8,
    pad2: [u8; 2],
}

/// What the host says of the time-stamp counter.
pub struct Counter {
    pub hz: u64,
    /// It runs together with those of the other CPUs.
    pub together: bool,
}

/// Asks the host. On the boot CPU, alone.
pub fn counter() -> Option<Counter> {
    static mut PAGE: Page =
        Page { version: 0, pad: 0, tsc: 0, system: 0, multiplier: 0, shift: 0, flags: 0, pad2: [0; 2] };
    if !super::offers(CLOCK) {
        return None;
    }
    let address = physical_of_image(&raw const PAGE as usize);
    // SAFETY: KVM offers the register; the page is the kernel's, aligned, and only read here, after KVM filled it.
    let page = unsafe {
        reg::wrmsr(MSR_KVM_SYSTEM_TIME_NEW, address | ENABLED);
        let page = (&raw const PAGE).read_volatile();
        reg::wrmsr(MSR_KVM_SYSTEM_TIME_NEW, 0);
        page
    };
    let together = super::offers(CLOCK_STABLE) && page.flags & STABLE != 0;
    Some(Counter { hz: frequency(page.multiplier, page.shift)?, together })
}

/// Of a counter of which `(cycles << shift) * multiplier >> 32` are nanoseconds.
fn frequency(multiplier: u32, shift: i8) -> Option<u64> {
    let hz = (1_000_000_000u128 << 32).checked_div(u128::from(multiplier))?;
    let by = u32::from(shift.unsigned_abs()).min(32);
    u64::try_from(if shift < 0 { hz << by } else { hz >> by }).ok()
}
