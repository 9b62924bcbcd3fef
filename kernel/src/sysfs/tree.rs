//! The names of sysfs, and where each leads.
#![forbid(unsafe_code)]

use sync::machine;

use super::firmware::{self, OfFirmware};
use super::folder::{Bus, Class, Folder, Name};
use super::system::system;
use super::texts::{Set, Text};
use super::{bus, devices, disks, memory};
use crate::device::pci;
use crate::device::virtio::bus::{self as virtio_bus, Where};

/// What a name is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leads {
    Folder(Folder),
    Text(Text),
    /// From the folder that it lies in to another.
    Link(Folder, Folder),
}

pub type Each<'a> = &'a mut dyn FnMut(u64, &[u8], Leads) -> bool;

/// Numbers names while they come, until somebody has what he wants.
pub struct Names<'a> {
    pub of: Folder,
    next: u64,
    each: Each<'a>,
    ended: bool,
}

impl Names<'_> {
    fn put(&mut self, name: &[u8], leads: Leads) {
        if !self.ended {
            self.ended = !(self.each)(self.next, name, leads);
            self.next = self.next.saturating_add(1);
        }
    }

    pub fn text(&mut self, name: &str, text: Text) {
        self.put(name.as_bytes(), Leads::Text(text));
    }

    /// A text with a name that is made.
    fn text_named(&mut self, name: &[u8], text: Text) {
        self.put(name, Leads::Text(text));
    }

    pub fn folder(&mut self, folder: Folder) {
        self.put(folder.name().bytes(), Leads::Folder(folder));
    }

    pub fn folders<const N: usize>(&mut self, folders: [Folder; N]) {
        folders.into_iter().for_each(|folder| self.folder(folder));
    }

    /// A link with a name of its own.
    pub fn link(&mut self, name: &[u8], to: Folder) {
        self.put(name, Leads::Link(self.of, to));
    }

    /// A link with the name of what it leads to.
    pub fn link_to(&mut self, to: Folder) {
        self.link(to.name().bytes(), to);
    }

    /// What a device of a bus has.
    pub fn on_bus(&mut self, bus: Bus) {
        self.link(b"subsystem", Folder::Bus(bus));
    }
}

impl Folder {
    /// Calls `each` with the place, the name and the end of each entry, until it answers false.
    pub fn each(self, each: Each<'_>) {
        let mut names = Names { of: self, next: 0, each, ended: false };
        match self {
            Folder::Root => names.folders([
                Folder::Block,
                Folder::Buses,
                Folder::Classes,
                Folder::Dev,
                Folder::Devices,
                Folder::Firmware,
                Folder::Kernel,
            ]),
            Folder::Devices => devices(&mut names),
            Folder::Block => disks::all().for_each(|n| names.link_to(Folder::Disk(n))),
            Folder::Dev => names.folders([Folder::DevBlock, Folder::DevChar]),
            Folder::DevBlock => disks::all().for_each(|n| {
                let (major, minor) = disks::numbers(n);
                names.link(Name::of(format_args!("{major}:{minor}")).bytes(), Folder::Disk(n));
            }),
            Folder::DevChar => devices::all().for_each(|(n, device)| {
                let name = Name::of(format_args!("{}:{}", device.major, device.minor));
                names.link(name.bytes(), Folder::Char(n));
            }),
            Folder::Buses => Bus::ALL.into_iter().for_each(|bus| names.folder(Folder::Bus(bus))),
            Folder::Bus(bus) => names.folders([Folder::BusDevices(bus), Folder::BusDrivers(bus)]),
            Folder::BusDevices(bus) => each_of_bus(bus, &mut |folder| names.link_to(folder)),
            Folder::BusDrivers(Bus::Virtio) => drivers(&mut names),
            Folder::BusDrivers(Bus::Pci) => names.folder(Folder::PciDriver),
            Folder::BusDrivers(_) => {}
            Folder::VirtioDriver(first) => driven(first).for_each(|n| names.link_to(Folder::Virtio(n))),
            Folder::PciDriver => (0..functions())
                .filter(|n| bus::virtio_of(*n).is_some())
                .for_each(|n| names.link_to(Folder::Function(n))),
            Folder::Classes => Class::all().for_each(|class| names.folder(Folder::Class(class))),
            Folder::Class(Class::Dmi) => names.link_to(Folder::Machine),
            Folder::Class(Class::Block) => disks::all().for_each(|n| names.link_to(Folder::Disk(n))),
            Folder::Class(class) => {
                of_class(class).for_each(|n| names.link_to(Folder::Char(n)));
            }
            Folder::PciRoot => {
                names.text("uevent", Text::Silent);
                behind(None).for_each(|n| names.folder(Folder::Function(n)));
            }
            Folder::Function(n) => function(&mut names, n),
            Folder::MappedRoot => mapped().for_each(|n| names.folder(Folder::Mapped(n))),
            Folder::Mapped(n) => {
                let members = virtio_bus::members().iter().zip(0..);
                members
                    .filter(|(member, _)| member.place == Where::Mapped(n))
                    .for_each(|(_, n)| names.folder(Folder::Virtio(n)));
            }
            Folder::Virtio(n) => virtio(&mut names, n),
            Folder::VirtioBlock(n) => {
                disks::of_bus_number(n).into_iter().for_each(|n| names.folder(Folder::Disk(n)));
            }
            Folder::Disk(n) => {
                disks::FILES.iter().for_each(|(name, of)| names.text(name, Text::Disk(*of, n)));
                names.link(b"device", Folder::Virtio(disks::bus_number(n)));
                names.link(b"subsystem", Folder::Class(Class::Block));
                names.folders([Folder::Holders(n), Folder::DiskQueue(n), Folder::Slaves(n)]);
            }
            Folder::DiskQueue(n) => {
                disks::QUEUE_FILES.iter().for_each(|(name, of)| names.text(name, Text::Disk(*of, n)));
            }
            Folder::Holders(_) | Folder::Slaves(_) => {}
            Folder::Virtual => {
                let is_there = |class: &Class| *class == Class::Dmi || on_no_bus(*class).next().is_some();
                let classes = Class::all().filter(is_there);
                classes.for_each(|class| names.folder(Folder::VirtualClass(class)));
            }
            Folder::VirtualClass(Class::Dmi) => names.folder(Folder::Machine),
            Folder::VirtualClass(class) => on_no_bus(class).for_each(|n| names.folder(Folder::Char(n))),
            Folder::Platform => names.folder(Folder::Serial),
            Folder::Serial => names.folder(Folder::SerialTtys),
            Folder::SerialTtys => {
                let ports = devices::all().filter(|(_, device)| device.is_serial());
                ports.for_each(|(n, _)| names.folder(Folder::Char(n)));
            }
            Folder::Char(n) => character(&mut names, n),
            Folder::Machine => {
                firmware::identity()
                    .for_each(|(name, what)| names.text(name, Text::Firmware(OfFirmware::Identity(what))));
                names.text("modalias", Text::Firmware(OfFirmware::Modalias));
                names.link(b"subsystem", Folder::Class(Class::Dmi));
                names.text("uevent", Text::Firmware(OfFirmware::Event));
            }
            Folder::Firmware if firmware::is_there() => names.folder(Folder::FirmwareDmi),
            Folder::Firmware => {}
            Folder::FirmwareDmi => names.folder(Folder::FirmwareTables),
            Folder::FirmwareTables => {
                names.text("DMI", Text::Firmware(OfFirmware::Structures));
                names.text("smbios_entry_point", Text::Firmware(OfFirmware::Entry));
            }
            Folder::Kernel => {
                names.text("address_bits", Text::Word("64"));
                names.text("cpu_byteorder", Text::Word("little"));
                names.text("fscaps", Text::One);
                names.folder(Folder::Mm);
            }
            Folder::Mm => names.folders([Folder::Policies, Folder::Numa, Folder::LargePages]),
            Folder::Policies => names.folder(Folder::Weights),
            Folder::Weights => (0..machine::nodes()).for_each(|n| {
                names.text_named(Name::of(format_args!("node{n}")).bytes(), Text::Weight(n));
            }),
            Folder::Numa => names.text("demotion_enabled", Text::Word("false")),
            Folder::LargePages => LARGE_PAGES.iter().for_each(|(name, text)| names.text(name, *text)),
            _ => system(&mut names),
        }
    }
}

/// A fault that finds no block takes a single page at once. Only private memory comes in large pages.
const LARGE_PAGES: &[(&str, Text)] = &[
    ("defrag", Text::Word("always defer defer+madvise madvise [never]")),
    ("enabled", Text::LargePages),
    ("hpage_pmd_size", Text::Word("2097152")),
    ("shmem_enabled", Text::Word("always within_size advise [never] deny force")),
];

/// How many functions of PCI there are.
fn functions() -> u32 {
    u32::try_from(pci::functions().len()).unwrap_or(u32::MAX)
}

/// Functions behind a bridge, or behind none.
fn behind(bridge: Option<u32>) -> impl Iterator<Item = u32> {
    let bridge = bridge.map(|n| n as usize);
    pci::functions().iter().zip(0..).filter(move |(own, _)| own.bridge == bridge).map(|(_, n)| n)
}

/// Places that the command line names and something is at.
fn mapped() -> impl Iterator<Item = u32> {
    virtio_bus::members().iter().filter_map(|member| match member.place {
        Where::Mapped(n) => Some(n),
        Where::Function(_) => None,
    })
}

fn of_class(class: Class) -> impl Iterator<Item = u32> {
    devices::all().filter(move |(_, device)| device.class == class).map(|(n, _)| n)
}

/// Devices of a class that lie on no bus.
fn on_no_bus(class: Class) -> impl Iterator<Item = u32> {
    devices::all().filter(move |(_, device)| device.class == class && !device.is_serial()).map(|(n, _)| n)
}

fn devices(names: &mut Names<'_>) {
    if functions() > 0 {
        names.folder(Folder::PciRoot);
    }
    if devices::all().any(|(_, device)| device.is_serial()) {
        names.folder(Folder::Platform);
    }
    names.folder(Folder::System);
    if mapped().next().is_some() {
        names.folder(Folder::MappedRoot);
    }
    names.folder(Folder::Virtual);
}

fn function(names: &mut Names<'_>, n: u32) {
    bus::FUNCTION_FILES.iter().for_each(|(name, of)| names.text(name, Text::Function(*of, n)));
    names.text("broken_parity_status", Text::Zero);
    names.text("local_cpulist", Text::List(Set::Cpus));
    names.text("local_cpus", Text::Mask(Set::Cpus));
    names.text("msi_bus", Text::One);
    names.text("numa_node", Text::Word("-1"));
    names.on_bus(Bus::Pci);
    if let Some(device) = bus::virtio_of(n) {
        names.link(b"driver", Folder::PciDriver);
        names.folder(Folder::Virtio(device));
    }
    behind(Some(n)).for_each(|n| names.folder(Folder::Function(n)));
}

fn virtio(names: &mut Names<'_>, n: u32) {
    bus::VIRTIO_FILES.iter().for_each(|(name, of)| names.text(name, Text::Virtio(*of, n)));
    names.on_bus(Bus::Virtio);
    if let Some(first) = first_alike(n) {
        names.link(b"driver", Folder::VirtioDriver(first));
    }
    if disks::of_bus_number(n).is_some() {
        names.folder(Folder::VirtioBlock(n));
    }
}

fn driver_of(n: u32) -> Option<&'static str> {
    virtio_bus::members().get(n as usize)?.driver()
}

/// The virtio devices with the driver of `first`.
fn driven(first: u32) -> impl Iterator<Item = u32> {
    let driver = driver_of(first);
    let members = virtio_bus::members().iter().zip(0..);
    members.filter(move |(own, _)| driver.is_some() && own.driver() == driver).map(|(_, n)| n)
}

/// The first virtio device with the driver of one, if that has one.
fn first_alike(n: u32) -> Option<u32> {
    driven(n).next()
}

/// Drivers with something to drive.
fn drivers(names: &mut Names<'_>) {
    let all = 0..u32::try_from(virtio_bus::members().len()).unwrap_or(u32::MAX);
    all.filter(|n| first_alike(*n) == Some(*n)).for_each(|n| names.folder(Folder::VirtioDriver(n)));
}

/// Calls `each` with the devices on a bus.
fn each_of_bus(bus: Bus, each: &mut dyn FnMut(Folder)) {
    match bus {
        Bus::Clocksource => each(Folder::Clock),
        Bus::Cpu => (0..machine::cpus()).for_each(|n| each(Folder::Cpu(n))),
        Bus::Memory => memory::blocks().for_each(|n| each(Folder::MemoryBlock(n))),
        Bus::Node => (0..machine::nodes()).for_each(|n| each(Folder::Node(n))),
        Bus::Pci => (0..functions()).for_each(|n| each(Folder::Function(n))),
        Bus::Virtio => virtio_bus::members().iter().zip(0..).for_each(|(_, n)| each(Folder::Virtio(n))),
    }
}

fn character(names: &mut Names<'_>, n: u32) {
    let Some(device) = devices::get(n) else { return };
    if device.is_console() {
        names.text("active", Text::Consoles);
    }
    names.text("dev", Text::CharNumber(n));
    if device.is_serial() {
        names.link(b"device", Folder::Serial);
    }
    names.link(b"subsystem", Folder::Class(device.class));
    names.text("uevent", Text::CharEvent(n));
}
