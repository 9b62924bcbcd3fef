//! /proc/ioports, consoles, tty/drivers, modules and misc: what Darter drives. It has no modules, and no device of the kind `misc`.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use crate::device::serial;
use crate::errno::{ENOMEM, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::tty::pty;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// The first serial port has the kernel's messages; programs read and write all of them.
const PORTS: usize = 4;

/// I/O ports that drivers use, which who may not know them sees as 0. In the order of their numbers, which is not that of the serial ports.
pub fn ioports(out: &mut Vec<u8>) -> Result {
    let shows = caller::capable(Capability::SYS_ADMIN);
    for n in [3, 1, 2, 0] {
        if let Some(port) = serial::port(n) {
            let (first, last) = if shows { port.io_ports() } else { (0, 0) };
            put!(out, "{first:04x}-{last:04x} : serial\n");
        }
    }
    Ok(())
}

/// It is written alone (W), takes messages (EC), keeps those of before its time (p) and is no boot console.
pub fn consoles(out: &mut Vec<u8>) -> Result {
    if serial::port(0).is_some() {
        put!(out, "{:<20} -W- (EC  p  )    4:64\n", "ttyS0");
    }
    Ok(())
}

/// Name, path, major number, minor numbers and kind of the terminals that there are.
pub fn drivers(out: &mut Vec<u8>) -> Result {
    let last = pty::MOST.saturating_sub(1);
    put!(out, "{:<20} {:<15} 5       0 system:/dev/tty\n", "/dev/tty", "/dev/tty");
    put!(out, "{:<20} {:<15} 5       1 system:console\n", "/dev/console", "/dev/console");
    put!(out, "{:<20} {:<15} 5       2 system\n", "/dev/ptmx", "/dev/ptmx");
    if serial::port(0).is_some() {
        put!(out, "{:<20} {:<15} 4 64-{} serial\n", "serial", "/dev/ttyS", PORTS.saturating_add(63));
    }
    put!(out, "{:<20} {:<13} 136 0-{last} pty:slave\n", "pty_slave", "/dev/pts");
    put!(out, "{:<20} {:<13} 128 0-{last} pty:master\n", "pty_master", "/dev/ptm");
    Ok(())
}

/// Nothing.
pub fn nothing(_: &mut Vec<u8>) -> Result {
    Ok(())
}
