//! /proc/darter/contention: waits for locks by class and caller, which are counted while somebody has switched that on. Root writes `on`, which begins from
//! zero, or `off`. The first line says the version of the format; then, with the class to the end of each line:
//!
//!     counted on|off LOST NS                                                 waits that found no place in the tables; the monotonic time
//!     taken ACQUISITIONS CLASS                                               since boot, on all CPUs, switched on or not
//!     waits CPU SPINS SPUN LONGEST SLEEPS SLEPT LONGEST HOLDER FILE:LINE:COLUMN CLASS
//!
//! SPINS are waits that spun, SLEEPS those in which the thread slept; SPUN, SLEPT and LONGEST are nanoseconds. HOLDER is the CPU that held the lock when the
//! longest wait began, `-` where the lock does not say (those that sleep do not). A row is what one CPU waited.
//!
//! Switched off, a wait costs one look at the switch, and a lock that is free nothing.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;
use sync::lock::contention;
use sync::lock::stats::{Sums, for_each_class};

use crate::arch;
use crate::errno::{EINTR, EINVAL, ENOMEM, Result};
use crate::procfs::darter::cpus::ns_of;
use crate::procfs::entry::Setting;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub static CONTENTION: Setting = Setting { read, write: Some(set) };

fn read(out: &mut Vec<u8>) -> Result {
    let state = if contention::is_on() { "on" } else { "off" };
    put!(out, "version 1\ncounted {state} {} {}\n", contention::lost(), arch::time::now());
    let mut outcome = Ok(());
    for_each_class(|name, stats| {
        let taken = Sums::of(stats).acquisitions;
        if outcome.is_ok() && taken != 0 {
            outcome = writeln!(Text(out), "taken {taken} {name}");
        }
    });
    for cpu in 0..sync::cpus() {
        contention::by_caller(cpu, |found| {
            if outcome.is_ok() {
                outcome = row(cpu, &found, out);
            }
        });
        if sync::machine::give_way() {
            return Err(EINTR);
        }
    }
    outcome.map_err(|_| ENOMEM)
}

fn row(cpu: sync::CpuId, found: &contention::ByCaller, out: &mut Vec<u8>) -> core::fmt::Result {
    let [spun, longest] = [found.spun, found.longest_spin].map(ns_of);
    write!(Text(out), "waits {cpu} {} {spun} {longest} ", found.spins)?;
    let [slept, longest] = [found.slept, found.longest_sleep].map(ns_of);
    write!(Text(out), "{} {slept} {longest} ", found.sleeps)?;
    match found.holder {
        Some(holder) => write!(Text(out), "{holder} ")?,
        None => write!(Text(out), "- ")?,
    }
    let place = found.caller;
    writeln!(Text(out), "{}:{}:{} {}", place.file(), place.line(), place.column(), found.class)
}

/// # Errors
/// EINVAL: neither `on` nor `off`; ENOMEM.
fn set(data: &[u8]) -> Result {
    match data.trim_ascii() {
        b"on" => contention::switch_on().map_err(|_| ENOMEM),
        b"off" => {
            contention::switch_off();
            Ok(())
        }
        _ => Err(EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_switch_is_refused() {
        for text in [&b""[..], b"1", b"on off", b"ON", b"\xff"] {
            assert_eq!(set(text).err(), Some(EINVAL));
        }
    }

    #[test]
    fn each_line_says_what_it_is() {
        set(b"on\n").unwrap();
        let mut out = Vec::new();
        read(&mut out).unwrap();
        set(b"off").unwrap();
        let text = core::str::from_utf8(&out).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("version 1"));
        assert!(lines.next().is_some_and(|line| line.starts_with("counted on ")));
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "taken" => assert!(words[1].parse::<u64>().is_ok() && words.len() >= 3, "{line}"),
                "waits" => assert!(words[1..8].iter().all(|word| word.parse::<u64>().is_ok()), "{line}"),
                _ => panic!("{line}"),
            }
        }
    }
}
