//! How fast the time-stamp counter and the APIC timer run. Asked of the hypervisor or the processor where they say,
//! else measured once, on the boot CPU, against the ACPI power-management timer or the PIT, in at most 10 ms.

use super::super::apic;
use super::super::cpu::features::{cpuid, get, max_leaf};
use super::super::cpu::port::{inb, inl, outb};
use super::super::cpu::reg::rdtsc;
use super::super::kvm;

/// Frequencies in Hz.
pub struct Rates {
    pub tsc: u64,
    pub timer: u64,
    pub source: &'static str,
}

const PM_TIMER_HZ: u64 = 3_579_545;
const PIT_HZ: u64 = 1_193_182;

pub fn measure(pm_timer: Option<u16>) -> Rates {
    let stated = stated();
    if let Some((tsc, source)) = stated
        && apic::has_deadline()
    {
        return Rates { tsc, timer: tsc, source };
    }
    apic::mask_timer(true);
    apic::set_count(u32::MAX);
    let measured = pm_timer.and_then(with_pm_timer).or_else(with_pit).or_else(with_apic);
    apic::set_count(0);
    apic::mask_timer(false);
    let mut rates = measured.unwrap_or_else(|| {
        warn!("no timer to measure the clock with: taking 1 GHz");
        Rates { tsc: 1_000_000_000, timer: 1_000_000_000, source: "nothing" }
    });
    if let Some((tsc, _)) = stated {
        rates.tsc = tsc;
    }
    rates
}

/// The counter's frequency, and who says so: the hypervisor (leaf 0x40000010, or KVM's clock) or the processor (leaf 0x15).
fn stated() -> Option<(u64, &'static str)> {
    let kvm = kvm::clock::counter();
    if kvm.as_ref().is_some_and(|counter| !counter.together) {
        warn!(
            "KVM does not vouch that the time-stamp counters of all CPUs run together: their clocks may differ"
        );
    }
    if get().hypervisor {
        let top = cpuid(0x4000_0000, 0).eax;
        if (0x4000_0010..0x4001_0000).contains(&top) {
            let khz = cpuid(0x4000_0010, 0).eax;
            if khz != 0 {
                return Some((u64::from(khz) * 1000, "the hypervisor"));
            }
        }
    }
    if let Some(counter) = kvm {
        return Some((counter.hz, "KVM's clock"));
    }
    if max_leaf() >= 0x15 {
        let leaf = cpuid(0x15, 0);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            let hz = u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax);
            return Some((hz, "the processor"));
        }
    }
    None
}

/// The counters at one moment: of several tries the one that took least.
fn sample<T>(read: impl Fn() -> T) -> (u64, u32, T) {
    let mut best: Option<(u64, u64, u32, T)> = None;
    for _ in 0..16 {
        let before = rdtsc();
        let value = read();
        let timer = apic::count();
        let took = rdtsc() - before;
        match best {
            Some((least, ..)) if least <= took => {}
            _ => best = Some((took, before + took / 2, timer, value)),
        }
    }
    match best {
        Some((_, tsc, timer, value)) => (tsc, timer, value),
        None => (rdtsc(), apic::count(), read()),
    }
}

fn with_pm_timer(port: u16) -> Option<Rates> {
    // SAFETY: the FADT says that the timer is at this port; reading has no effect. It may have 24 bits only.
    let read = || unsafe { inl(port) } & 0xff_ffff;
    let (tsc, timer, start) = sample(read);
    let mut patience = 1_000_000u32;
    // 8 ms.
    while read().wrapping_sub(start) & 0xff_ffff < (PM_TIMER_HZ * 8 / 1000) as u32 {
        patience -= 1;
        if patience == 0 {
            return None;
        }
    }
    let (tsc_end, timer_end, end) = sample(read);
    let ticks = u64::from(end.wrapping_sub(start) & 0xff_ffff);
    let rate = |count: u64| (u128::from(count) * u128::from(PM_TIMER_HZ) / u128::from(ticks.max(1))) as u64;
    Some(Rates {
        tsc: rate(tsc_end - tsc),
        timer: rate(u64::from(timer.wrapping_sub(timer_end))),
        source: "the ACPI timer",
    })
}

/// Where there is no other timer (microvm): the APIC timer of QEMU and KVM runs at 1 GHz by definition.
fn with_apic() -> Option<Rates> {
    const NS: u32 = 5_000_000;
    if !get().hypervisor {
        return None;
    }
    let (tsc, start, ()) = sample(|| ());
    let mut patience = 10_000_000u32;
    while start.wrapping_sub(apic::count()) < NS {
        patience -= 1;
        if patience == 0 {
            return None;
        }
    }
    let (tsc_end, end, ()) = sample(|| ());
    let ns = u64::from(start.wrapping_sub(end)).max(1);
    Some(Rates {
        tsc: (u128::from(tsc_end - tsc) * 1_000_000_000 / u128::from(ns)) as u64,
        timer: 1_000_000_000,
        source: "the APIC timer",
    })
}

/// PIT channel 2 (8254 data sheet), one shot of 10 ms; its output shows in bit 5 of port 0x61.
fn with_pit() -> Option<Rates> {
    const COUNT: u64 = PIT_HZ / 100;
    // SAFETY: the PIT's ports and the speaker gate; absent hardware reads as ones, which is checked.
    unsafe {
        if inb(0x61) == 0xff {
            return None;
        }
        outb(0x61, inb(0x61) & !2 | 1);
        outb(0x43, 0b1011_0000);
        outb(0x42, COUNT as u8);
        outb(0x42, (COUNT >> 8) as u8);
        let (tsc, timer) = (rdtsc(), apic::count());
        let mut patience = 10_000_000u32;
        while inb(0x61) & 0x20 == 0 {
            patience -= 1;
            if patience == 0 {
                return None;
            }
        }
        let (tsc_end, timer_end) = (rdtsc(), apic::count());
        let rate = |count: u64| count * PIT_HZ / COUNT;
        Some(Rates {
            tsc: rate(tsc_end - tsc),
            timer: rate(u64::from(timer.wrapping_sub(timer_end))),
            source: "the PIT",
        })
    }
}
