//! The folders of sysfs: which there are, what each is called, which it lies in, and how a link leads from one to another.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::{self, Write};

use sync::TryVec;
use virtio::pci::Place;

use super::devices;
use super::disks;
use super::firmware;
use crate::device::pci;
use crate::device::virtio::bus::{self, Where};
use crate::errno::Result;

/// What devices hang on, as /sys/bus has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bus {
    Clocksource,
    Cpu,
    Memory,
    Node,
    Pci,
    Virtio,
}

impl Bus {
    pub const ALL: [Bus; 6] = [Bus::Clocksource, Bus::Cpu, Bus::Memory, Bus::Node, Bus::Pci, Bus::Virtio];

    fn name(self) -> &'static str {
        match self {
            Bus::Clocksource => "clocksource",
            Bus::Cpu => "cpu",
            Bus::Memory => "memory",
            Bus::Node => "node",
            Bus::Pci => "pci",
            Bus::Virtio => "virtio",
        }
    }
}

/// Devices that do the same for programs, as /sys/class has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Block,
    Dmi,
    Mem,
    Misc,
    Tty,
}

impl Class {
    /// Those that this machine has.
    pub fn all() -> impl Iterator<Item = Class> {
        let all = [Class::Block, Class::Dmi, Class::Mem, Class::Misc, Class::Tty];
        all.into_iter().filter(|class| *class != Class::Dmi || firmware::is_there())
    }

    fn name(self) -> &'static str {
        match self {
            Class::Block => "block",
            Class::Dmi => "dmi",
            Class::Mem => "mem",
            Class::Misc => "misc",
            Class::Tty => "tty",
        }
    }
}

/// A folder; numbers are those of CPUs, caches of each CPU, nodes, blocks of memory, functions of PCI, virtio devices, disks and devices of characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folder {
    Root,
    Devices,
    System,
    Cpus,
    Cpu(u32),
    Topology(u32),
    Caches(u32),
    Cache(u32, u32),
    Nodes,
    Node(u32),
    Memory,
    MemoryBlock(u32),
    /// Threads of one core.
    Smt,
    Flaws,
    Clocks,
    Clock,
    /// Links to all disks, by name; by number.
    Block,
    Dev,
    DevBlock,
    DevChar,
    Buses,
    Bus(Bus),
    BusDevices(Bus),
    BusDrivers(Bus),
    /// One that drives virtio devices, by the first of them; the one that drives virtio's functions of PCI.
    VirtioDriver(u32),
    PciDriver,
    Classes,
    Class(Class),
    PciRoot,
    Function(u32),
    MappedRoot,
    Mapped(u32),
    Virtio(u32),
    VirtioBlock(u32),
    Disk(u32),
    DiskQueue(u32),
    /// Whatever a disk is part of, or is made of: nothing.
    Holders(u32),
    Slaves(u32),
    Virtual,
    VirtualClass(Class),
    Platform,
    Serial,
    SerialTtys,
    Char(u32),
    /// The machine, as the firmware describes it.
    Machine,
    Firmware,
    FirmwareDmi,
    FirmwareTables,
    Kernel,
    Mm,
    LargePages,
    Numa,
    /// Pages in a row that nodes get where a policy weighs them.
    Policies,
    Weights,
}

/// A short name.
pub struct Name {
    bytes: [u8; 32],
    len: usize,
}

impl Name {
    pub fn of(text: fmt::Arguments<'_>) -> Self {
        let mut name = Name { bytes: [0; 32], len: 0 };
        // None is longer; one that were would be cut.
        let _ = name.write_fmt(text);
        name
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let len = text.len().min(room.len());
        room.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        self.len = self.len.saturating_add(len);
        Ok(())
    }
}

/// `0000:00:02.0`: there is one domain.
pub fn place_name(place: Place) -> Name {
    let Place { bus, device, function } = place;
    Name::of(format_args!("0000:{bus:02x}:{device:02x}.{function}"))
}

/// Folders from the root to one, both among them.
struct Chain {
    folders: [Folder; Self::MOST],
    len: usize,
}

impl Chain {
    /// Bridges before a function are cut where they are more.
    const MOST: usize = 20;

    fn to(folder: Folder) -> Self {
        let mut chain = Chain { folders: [Folder::Root; Self::MOST], len: 0 };
        let mut next = Some(folder);
        while let Some(folder) = next {
            if let Some(place) = chain.folders.get_mut(chain.len) {
                *place = folder;
                chain.len = chain.len.saturating_add(1);
                next = folder.parent();
            } else {
                next = None;
            }
        }
        if let Some(known) = chain.folders.get_mut(..chain.len) {
            known.reverse();
        }
        chain
    }

    fn folders(&self) -> &[Folder] {
        self.folders.get(..self.len).unwrap_or(&[])
    }
}

/// What a link in `from` says to lead to `to`: up to the last folder that both lie in, and down. A link to a folder that it lies
/// in itself goes down by one, as Linux's does.
pub fn relative(from: Folder, to: Folder, out: &mut Vec<u8>) -> Result {
    let (from, to) = (Chain::to(from), Chain::to(to));
    let above = to.folders().split_last().map_or(&[][..], |(_, above)| above);
    let common = from.folders().iter().zip(above).take_while(|(a, b)| a == b).count();
    let up = from.folders().len().saturating_sub(common);
    for _ in 0..up {
        out.try_extend_from_slice(b"../")?;
    }
    for (n, folder) in to.folders().iter().skip(common).enumerate() {
        out.try_extend_from_slice(if n == 0 { b"" } else { b"/" })?;
        out.try_extend_from_slice(folder.name().bytes())?;
    }
    Ok(())
}

impl Folder {
    /// What it lies in. None: it is the root.
    pub fn parent(self) -> Option<Folder> {
        Some(match self {
            Folder::Root => return None,
            Folder::Devices | Folder::Block | Folder::Dev | Folder::Buses => Folder::Root,
            Folder::Classes | Folder::Firmware | Folder::Kernel => Folder::Root,
            Folder::System | Folder::PciRoot | Folder::MappedRoot => Folder::Devices,
            Folder::Virtual | Folder::Platform => Folder::Devices,
            Folder::Cpus | Folder::Nodes | Folder::Memory | Folder::Clocks => Folder::System,
            Folder::Cpu(_) | Folder::Smt | Folder::Flaws => Folder::Cpus,
            Folder::Topology(cpu) | Folder::Caches(cpu) => Folder::Cpu(cpu),
            Folder::Cache(cpu, _) => Folder::Caches(cpu),
            Folder::Node(_) => Folder::Nodes,
            Folder::MemoryBlock(_) => Folder::Memory,
            Folder::Clock => Folder::Clocks,
            Folder::DevBlock | Folder::DevChar => Folder::Dev,
            Folder::Bus(_) => Folder::Buses,
            Folder::BusDevices(bus) | Folder::BusDrivers(bus) => Folder::Bus(bus),
            Folder::VirtioDriver(_) => Folder::BusDrivers(Bus::Virtio),
            Folder::PciDriver => Folder::BusDrivers(Bus::Pci),
            Folder::Class(_) => Folder::Classes,
            Folder::Function(n) => match pci::functions().get(n as usize).and_then(|own| own.bridge) {
                Some(bridge) => Folder::Function(u32::try_from(bridge).unwrap_or(u32::MAX)),
                None => Folder::PciRoot,
            },
            Folder::Mapped(_) => Folder::MappedRoot,
            Folder::Virtio(n) => match bus::members().get(n as usize).map(|member| member.place) {
                Some(Where::Function(n)) => Folder::Function(n),
                Some(Where::Mapped(n)) => Folder::Mapped(n),
                None => Folder::Devices,
            },
            Folder::VirtioBlock(n) => Folder::Virtio(n),
            Folder::Disk(n) => Folder::VirtioBlock(disks::bus_number(n)),
            Folder::DiskQueue(n) | Folder::Holders(n) | Folder::Slaves(n) => Folder::Disk(n),
            Folder::VirtualClass(_) => Folder::Virtual,
            Folder::Serial => Folder::Platform,
            Folder::SerialTtys => Folder::Serial,
            Folder::Char(n) => match devices::get(n) {
                Some(device) if device.is_serial() => Folder::SerialTtys,
                Some(device) => Folder::VirtualClass(device.class),
                None => Folder::Virtual,
            },
            Folder::Machine => Folder::VirtualClass(Class::Dmi),
            Folder::FirmwareDmi => Folder::Firmware,
            Folder::FirmwareTables => Folder::FirmwareDmi,
            Folder::Mm => Folder::Kernel,
            Folder::LargePages | Folder::Numa | Folder::Policies => Folder::Mm,
            Folder::Weights => Folder::Policies,
        })
    }

    /// What it is called in the one it lies in.
    pub fn name(self) -> Name {
        let word = match self {
            Folder::Root => "",
            Folder::Devices | Folder::BusDevices(_) => "devices",
            Folder::BusDrivers(_) => "drivers",
            Folder::System => "system",
            Folder::Cpus => "cpu",
            Folder::Topology(_) => "topology",
            Folder::Caches(_) => "cache",
            Folder::Nodes => "node",
            Folder::Memory => "memory",
            Folder::Smt => "smt",
            Folder::Flaws => "vulnerabilities",
            Folder::Clocks => "clocksource",
            Folder::Clock => "clocksource0",
            Folder::Block | Folder::DevBlock | Folder::VirtioBlock(_) => "block",
            Folder::Dev => "dev",
            Folder::DevChar => "char",
            Folder::Buses => "bus",
            Folder::Bus(bus) => bus.name(),
            Folder::VirtioDriver(n) => {
                bus::members().get(n as usize).and_then(bus::Member::driver).unwrap_or("virtio")
            }
            Folder::PciDriver => "virtio-pci",
            Folder::Classes => "class",
            Folder::Class(class) | Folder::VirtualClass(class) => class.name(),
            Folder::PciRoot => "pci0000:00",
            Folder::MappedRoot => "virtio-mmio-cmdline",
            Folder::Disk(n) => disks::name(n),
            Folder::DiskQueue(_) => "queue",
            Folder::Holders(_) => "holders",
            Folder::Slaves(_) => "slaves",
            Folder::Virtual => "virtual",
            Folder::Platform => "platform",
            Folder::Serial => "serial8250",
            Folder::SerialTtys => "tty",
            Folder::Char(n) => devices::get(n).map_or("", |device| device.name),
            Folder::Machine => "id",
            Folder::Firmware => "firmware",
            Folder::FirmwareDmi => "dmi",
            Folder::FirmwareTables => "tables",
            Folder::Kernel => "kernel",
            Folder::Mm => "mm",
            Folder::LargePages => "transparent_hugepage",
            Folder::Numa => "numa",
            Folder::Policies => "mempolicy",
            Folder::Weights => "weighted_interleave",
            Folder::Cpu(n) => return Name::of(format_args!("cpu{n}")),
            Folder::Cache(_, n) => return Name::of(format_args!("index{n}")),
            Folder::Node(n) => return Name::of(format_args!("node{n}")),
            Folder::MemoryBlock(n) => return Name::of(format_args!("memory{n}")),
            Folder::Mapped(n) => return Name::of(format_args!("virtio-mmio.{n}")),
            Folder::Virtio(n) => return Name::of(format_args!("virtio{n}")),
            Folder::Function(n) => match pci::functions().get(n as usize) {
                Some(function) => return place_name(function.place),
                None => "",
            },
        };
        Name::of(format_args!("{word}"))
    }

    /// The inode number of the `n`th entry.
    pub fn number(self, n: u64) -> u64 {
        let (kind, a, b) = match self {
            Folder::Root => (1, 0, 0),
            Folder::Devices => (2, 0, 0),
            Folder::System => (3, 0, 0),
            Folder::Cpus => (4, 0, 0),
            Folder::Cpu(cpu) => (5, cpu, 0),
            Folder::Topology(cpu) => (6, cpu, 0),
            Folder::Caches(cpu) => (7, cpu, 0),
            Folder::Cache(cpu, cache) => (8, cpu, cache),
            Folder::Nodes => (9, 0, 0),
            Folder::Node(node) => (10, node, 0),
            Folder::Block => (11, 0, 0),
            Folder::Dev => (12, 0, 0),
            Folder::DevBlock => (13, 0, 0),
            Folder::Virtio(device) => (14, device, 0),
            Folder::VirtioBlock(device) => (15, device, 0),
            Folder::Disk(disk) => (16, disk, 0),
            Folder::DiskQueue(disk) => (17, disk, 0),
            Folder::Holders(disk) => (18, disk, 0),
            Folder::Slaves(disk) => (19, disk, 0),
            Folder::Smt => (20, 0, 0),
            Folder::Clocks => (21, 0, 0),
            Folder::Clock => (22, 0, 0),
            Folder::Memory => (23, 0, 0),
            Folder::MemoryBlock(block) => (24, block, 0),
            Folder::Flaws => (25, 0, 0),
            Folder::DevChar => (26, 0, 0),
            Folder::Buses => (27, 0, 0),
            Folder::Bus(bus) => (28, bus as u32, 0),
            Folder::BusDevices(bus) => (29, bus as u32, 0),
            Folder::BusDrivers(bus) => (30, bus as u32, 0),
            Folder::VirtioDriver(device) => (31, device, 0),
            Folder::PciDriver => (32, 0, 0),
            Folder::Classes => (33, 0, 0),
            Folder::Class(class) => (34, class as u32, 0),
            Folder::PciRoot => (35, 0, 0),
            Folder::Function(function) => (36, function, 0),
            Folder::MappedRoot => (37, 0, 0),
            Folder::Mapped(mapped) => (38, mapped, 0),
            Folder::Virtual => (39, 0, 0),
            Folder::VirtualClass(class) => (40, class as u32, 0),
            Folder::Platform => (41, 0, 0),
            Folder::Serial => (42, 0, 0),
            Folder::SerialTtys => (43, 0, 0),
            Folder::Char(device) => (44, device, 0),
            Folder::Kernel => (45, 0, 0),
            Folder::Mm => (46, 0, 0),
            Folder::LargePages => (47, 0, 0),
            Folder::Numa => (48, 0, 0),
            Folder::Policies => (49, 0, 0),
            Folder::Weights => (50, 0, 0),
            Folder::Machine => (51, 0, 0),
            Folder::Firmware => (52, 0, 0),
            Folder::FirmwareDmi => (53, 0, 0),
            Folder::FirmwareTables => (54, 0, 0),
        };
        kind << 52 | u64::from(a) << 32 | u64::from(b) << 24 | n
    }
}
