//! The CMOS clock (MC146818 data sheet): read once at boot.

use super::super::cpu::port::{inb, outb};

fn register(number: u8) -> u8 {
    // SAFETY: the CMOS index and data ports; boot CPU only.
    unsafe {
        outb(0x70, number);
        inb(0x71)
    }
}

/// Seconds since 1970 UTC; `None` if there is no such clock.
pub fn read() -> Option<u64> {
    let fields = || [0, 2, 4, 7, 8, 9, 0x32].map(register);
    let mut patience = 100_000;
    let raw = loop {
        patience -= 1;
        if patience == 0 {
            return None;
        }
        // Not while an update is in progress, and twice the same.
        if register(0xa) & 0x80 != 0 {
            continue;
        }
        let first = fields();
        if register(0xa) & 0x80 == 0 && fields() == first {
            break first;
        }
    };
    let mode = register(0xb);
    let decode =
        |v: u8| if mode & 4 != 0 { u64::from(v) } else { u64::from(v >> 4) * 10 + u64::from(v & 15) };
    let [second, minute, hour, day, month, year, century] = raw;
    let mut hours = decode(hour & 0x7f);
    if mode & 2 == 0 {
        hours = hours % 12 + if hour & 0x80 != 0 { 12 } else { 0 };
    }
    let century = Some(decode(century)).filter(|c| (19..30).contains(c)).unwrap_or(20);
    let (year, month, day) = (century * 100 + decode(year), decode(month), decode(day));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hours * 3600 + decode(minute) * 60 + decode(second))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, counting years from March.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468
}
