//! Devices of characters: nodes of /dev that drivers stand behind.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text as Out;

use super::folder::Class;
use crate::device::serial;
use crate::device::virtio::{console, entropy};
use crate::errno::{ENOMEM, Result};
use crate::fs::devfs::devices::{HWRNG, NODES};
use crate::fs::tty;

/// One of them.
#[derive(Clone, Copy)]
pub struct Device {
    pub class: Class,
    pub name: &'static str,
    /// Of its node in /dev, which may have another name.
    node: &'static str,
    pub major: u64,
    pub minor: u64,
    mode: u32,
}

/// Places of a list that has gaps where a device is not there: nodes that all machines may have, the source of entropy, terminals of virtio consoles.
const NODES_END: u32 = NODES.len() as u32;
const HVCS: u32 = NODES_END + 1;
pub const END: u32 = HVCS + console::MOST as u32;

/// The device in a place below [`END`], if it is there.
pub fn get(n: u32) -> Option<Device> {
    if n == NODES_END {
        let (node, major, minor, mode) = HWRNG;
        let device = Device { class: Class::Misc, name: "hw_random", node, major, minor, mode };
        return entropy::is_there().then_some(device);
    }
    if let Some(&(name, major, minor, mode)) = NODES.get(n as usize) {
        let class = if major == 1 { Class::Mem } else { Class::Tty };
        let device = Device { class, name, node: name, major, minor, mode };
        let line = minor.checked_sub(64).and_then(|line| usize::try_from(line).ok());
        let is_there = !device.is_serial() || line.is_some_and(|line| serial::port(line).is_some());
        return is_there.then_some(device);
    }
    let hvc = n.checked_sub(HVCS)? as usize;
    tty::find_console(hvc)?;
    let name = *crate::fs::devfs::HVCS.get(hvc)?;
    let (class, minor) = (Class::Tty, hvc as u64);
    Some(Device { class, name, node: name, major: tty::HVC_MAJOR, minor, mode: 0o600 })
}

/// All that are there, with their places.
pub fn all() -> impl Iterator<Item = (u32, Device)> {
    (0..END).filter_map(|n| Some((n, get(n)?)))
}

impl Device {
    /// Is it a serial port's terminal?
    pub fn is_serial(&self) -> bool {
        self.major == 4
    }

    /// Which terminals /dev/console leads to, if this is that.
    pub fn is_console(&self) -> bool {
        (self.major, self.minor) == (5, 1)
    }

    /// What a program is told of it that makes the node. Nodes that nobody but root may use have no mode there.
    pub fn uevent(&self, out: &mut Vec<u8>) -> Result {
        let Device { node, major, minor, mode, .. } = self;
        write!(Out(out), "MAJOR={major}\nMINOR={minor}\nDEVNAME={node}").map_err(|_| ENOMEM)?;
        if mode & 0o044 != 0 {
            write!(Out(out), "\nDEVMODE={mode:04o}").map_err(|_| ENOMEM)?;
        }
        Ok(())
    }
}

/// The terminals that /dev/console leads to, by name.
pub fn consoles(out: &mut Vec<u8>) -> Result {
    let (word, n) = tty::console_name();
    write!(Out(out), "{word}{n}").map_err(|_| ENOMEM)
}
