//! Which virtio devices there are: functions of PCI, and those over memory-mapped registers that words of the command line name as QEMU and Linux write
//! them, `virtio_mmio.device=SIZE@ADDRESS:INTERRUPT`.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use ::virtio::pci::{self, Config, Layout, Message, Place, Window};
use ::virtio::transport::Error;
use ::virtio::{Kind, Transport, queue};
use sync::{CpuId, TryVec, try_box};
use vm::OnceBox;

use super::bus::{Members, Where};
use super::line::Line;
use super::{Device, Event, balloon, console, disk, entropy, share};
use crate::arch::{self, Registers, pci::Pci};
use crate::device::pci::register;

/// PCI functions that are looked at.
const MOST_FUNCTIONS: usize = super::MOST;

/// A virtio function of PCI, and where its registers lie if it is driven.
struct Function {
    place: Place,
    kind: u32,
    vendor: u32,
    driver: Option<&'static Driver>,
    layout: Option<Layout>,
}

static FUNCTIONS: OnceBox<Vec<Function>> = OnceBox::new();

/// Looks for functions of PCI and turns them on. On the boot CPU, before there are others: where a function's memory is measured, the machine's map of
/// memory changes under all CPUs. (QEMU without KVM ends the machine, seldom, when another CPU uses the map just then.)
pub fn functions() {
    let config = Pci::new();
    let mut functions = Vec::new();
    pci::each_function(&config, &mut |place, vendor, device| {
        let is_bridge = config.read(place, register::HEADER) >> 16 & 0x7f != 0;
        if let Some(kind) = pci::virtio_kind(&config, place, vendor, device).filter(|_| !is_bridge)
            && functions.len() < MOST_FUNCTIONS
        {
            let vendor = config.read(place, register::SUBSYSTEM) & 0xffff;
            // Without memory it is not driven.
            let _ =
                functions.try_push(Function { place, kind, vendor, driver: driver_of(kind), layout: None });
        }
    });
    for function in functions.iter_mut().filter(|function| function.driver.is_some()) {
        function.layout = pci::layout(&config, function.place);
    }
    let _ = FUNCTIONS.get_or_try(|| try_box(functions));
}

/// Brings up all devices.
pub fn all(command_line: &str) {
    let config = Pci::new();
    let mut members = Members::new();
    for Function { place, kind, vendor, driver, layout } in FUNCTIONS.get().into_iter().flatten() {
        let up = driver.map(|driver| bring_up_function(&config, *place, driver, layout.as_ref()));
        if let Some(Err(error)) = &up {
            warn!(
                "virtio device at {:02x}:{:02x}.{}: {error:?}; it is not used",
                place.bus, place.device, place.function
            );
        }
        let number = crate::device::pci::number_of(*place).and_then(|n| u32::try_from(n).ok());
        if let Some(n) = number {
            members.add(Where::Function(n), *kind, *vendor, up.and_then(Result::ok));
        }
    }
    let mut named = 0;
    for word in command_line.split_ascii_whitespace() {
        let Some(said) = word.strip_prefix("virtio_mmio.device=") else { continue };
        match parse(said) {
            Some((window, interrupt)) => {
                let place = Where::Mapped(named);
                named = named.saturating_add(1);
                if let Err(error) = bring_up_mapped(window, interrupt, place, &mut members) {
                    warn!("virtio device at {:#x}: {error:?}; it is not used", window.address);
                }
            }
            None => warn!("virtio_mmio.device={said}: not SIZE@ADDRESS:INTERRUPT"),
        }
    }
    members.done();
}

/// Which queues of a device are used.
pub(super) enum Queues {
    /// One for each CPU, as far as the device has them, and this is the most.
    Each(u16),
    /// These, by their numbers, in ascending order: each has a purpose of its own. All interrupt the boot CPU, and so does a change of the configuration.
    These([Option<u16>; 4]),
}

/// Why a device interrupts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Queue,
    Changed,
}

/// What drives a kind of device.
pub(super) struct Driver {
    name: &'static str,
    /// As Linux calls it, among the bus's drivers.
    module: &'static str,
    /// Features that are taken where they are offered.
    features: u64,
    /// Which queues are used.
    queues: fn(&Transport<Registers>, u64) -> Result<Queues, Error>,
    /// It is told of what happens to the device.
    event: fn(&'static Device, Event),
    /// The device is up.
    begin: fn(&'static Device, u64) -> Result<(), Error>,
}

#[cfg(test)]
impl Driver {
    /// A device that a test plays is up.
    pub(super) fn begin_for_test(&self, device: &'static Device, features: u64) {
        /// Tests run beside each other; the kernel looks for devices in one thread.
        static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (self.begin)(device, features).unwrap();
    }
}

const ENTROPY: Driver = Driver {
    name: "virtio entropy device",
    module: "virtio_rng",
    features: 0,
    queues: |_, _| Ok(Queues::Each(1)),
    event: |_, _| {},
    begin: |device, _| {
        entropy::set(device);
        Ok(())
    },
};

pub(super) const DISK: Driver = Driver {
    name: "virtio disk",
    module: "virtio_blk",
    features: disk::FEATURES,
    queues: |transport, features| disk::queues(transport, features).map(Queues::Each),
    event: |_, _| {},
    begin: disk::begin,
};

pub(super) const SHARE: Driver = Driver {
    name: "virtio 9p device",
    module: "9pnet_virtio",
    features: share::FEATURES,
    queues: |_, _| Ok(Queues::Each(1)),
    event: |_, _| {},
    begin: share::begin,
};

pub(super) const BALLOON: Driver = Driver {
    name: "virtio balloon",
    module: "virtio_balloon",
    features: balloon::FEATURES,
    queues: |transport, _| Ok(Queues::These(balloon::queues(transport.offered()))),
    event: balloon::event,
    begin: balloon::begin,
};

pub(super) const CONSOLE: Driver = Driver {
    name: "virtio console",
    module: "virtio_console",
    features: console::FEATURES,
    queues: |_, _| Ok(Queues::These(console::queues())),
    event: console::event,
    begin: console::begin,
};

fn driver_of(kind: u32) -> Option<&'static Driver> {
    match kind {
        _ if kind == Kind::Entropy as u32 => Some(&ENTROPY),
        _ if kind == Kind::Block as u32 => Some(&DISK),
        _ if kind == Kind::Share as u32 => Some(&SHARE),
        _ if kind == Kind::Console as u32 => Some(&CONSOLE),
        _ if kind == Kind::Balloon as u32 => Some(&BALLOON),
        _ => None,
    }
}

fn bring_up_function(
    config: &Pci,
    place: Place,
    driver: &Driver,
    layout: Option<&Layout>,
) -> Result<&'static Device, Error> {
    let layout = layout.ok_or(Error::NotModern)?;
    let map = |window: Window| Registers::map(window).ok_or(Error::Memory);
    let device = layout.device.map(map).transpose()?;
    let transport = Transport::pci(layout, map(layout.common)?, map(layout.notify)?, device);
    let table = map(layout.msi_x.table)?;
    bring_up(transport, driver, |n, cpu, cause| {
        let message = match cause {
            Cause::Queue => arch::device_message(cpu),
            Cause::Changed => arch::device_change_message(cpu),
        };
        let message = message.ok_or(Error::Vector)?;
        set_vector(config, place, layout, &table, n, message)
    })
}

/// Entry `n` of the table of MSI-X.
fn set_vector(
    config: &impl Config,
    place: Place,
    layout: &Layout,
    table: &Registers,
    n: u16,
    message: Message,
) -> Result<(), Error> {
    if !layout.msi_x.set(table, n, message) {
        return Err(Error::Vector);
    }
    layout.msi_x.enable(config, place);
    Ok(())
}

/// Registers at a place that the command line names. Nothing is there: no error.
fn bring_up_mapped(window: Window, interrupt: u32, place: Where, members: &mut Members) -> Result<(), Error> {
    let registers = Registers::map(window).ok_or(Error::Memory)?;
    let Some((transport, kind, vendor)) = Transport::mmio(registers)? else { return Ok(()) };
    let route = |_, _, _| if arch::route_device_line(interrupt) { Ok(()) } else { Err(Error::Vector) };
    let up = driver_of(kind).map(|driver| bring_up(transport, driver, route)).transpose();
    members.add(place, kind, vendor, up.as_ref().ok().copied().flatten());
    up.map(|_| ())
}

/// Brings a device up and hands it to its driver.
fn bring_up(
    transport: Transport<Registers>,
    driver: &Driver,
    interrupt: impl FnMut(u16, CpuId, Cause) -> Result<(), Error>,
) -> Result<&'static Device, Error> {
    let (device, features) = start(transport, driver, interrupt)?;
    let device = try_box(device).ok().and_then(super::keep).ok_or(Error::Memory)?;
    (driver.begin)(device, features)?;
    Ok(device)
}

/// Brings a device up; `interrupt` has entry n of MSI-X come to a CPU, for a cause. The device, and the features that were taken.
pub(super) fn start(
    mut transport: Transport<Registers>,
    driver: &Driver,
    mut interrupt: impl FnMut(u16, CpuId, Cause) -> Result<(), Error>,
) -> Result<(Device, u64), Error> {
    let features = transport.begin(driver.features)?;
    let lines = make_lines(&mut transport, driver, features, &mut interrupt);
    let lines = match lines {
        Ok(lines) => lines,
        Err(error) => {
            // It may have been told of tables that are freed now. It was not told to go, so it uses none.
            if !transport.stop() {
                warn!("{}: it does not reset", driver.name);
            }
            return Err(error);
        }
    };
    transport.go();
    let Driver { name, module, event, .. } = *driver;
    let device = Device {
        name,
        driver: module,
        features,
        transport,
        lines,
        event,
        has_failed: false.into(),
        is_lost: false.into(),
    };
    Ok((device, features))
}

fn make_lines(
    transport: &mut Transport<Registers>,
    driver: &Driver,
    features: u64,
    interrupt: &mut impl FnMut(u16, CpuId, Cause) -> Result<(), Error>,
) -> Result<Vec<Line>, Error> {
    match (driver.queues)(transport, features)? {
        Queues::Each(most) => make_line_of_each(transport, most, interrupt),
        Queues::These(numbers) => make_these(transport, numbers, interrupt),
    }
}

/// Entries of MSI-X of a device whose queues have a purpose each.
const CHANGED_ENTRY: u16 = 0;
const QUEUES_ENTRY: u16 = 1;

/// Queues with a purpose each. All of them are needed.
fn make_these(
    transport: &mut Transport<Registers>,
    numbers: [Option<u16>; 4],
    interrupt: &mut impl FnMut(u16, CpuId, Cause) -> Result<(), Error>,
) -> Result<Vec<Line>, Error> {
    let boot = 0;
    interrupt(CHANGED_ENTRY, boot, Cause::Changed)?;
    interrupt(QUEUES_ENTRY, boot, Cause::Queue)?;
    transport.set_configuration_vector(Some(CHANGED_ENTRY))?;
    let mut lines = sync::try_vec(numbers.len()).map_err(|_| Error::Memory)?;
    for n in numbers.into_iter().flatten() {
        let size = transport.queue_size(n, queue::MOST)?;
        let line = Line::try_new(n, size, boot).map_err(|_| Error::Memory)?;
        transport.set_queue(n, size, line.addresses(), QUEUES_ENTRY)?;
        lines.try_push(line).map_err(|_| Error::Memory)?;
    }
    Ok(lines)
}

/// A queue for each CPU if the device has so many and can tell each CPU.
fn make_line_of_each(
    transport: &mut Transport<Registers>,
    most: u16,
    interrupt: &mut impl FnMut(u16, CpuId, Cause) -> Result<(), Error>,
) -> Result<Vec<Line>, Error> {
    let cpus = sync::cpus();
    let wanted = if transport.is_pci() { most } else { 1 };
    // A change of the configuration is nobody's affair.
    let _ = transport.set_configuration_vector(None);
    let count = u32::from(wanted.max(1)).min(cpus) as u16;
    let mut lines = sync::try_vec(usize::from(count)).map_err(|_| Error::Memory)?;
    for n in 0..count {
        let cpu = CpuId::from(n);
        let set = transport.queue_size(n, queue::MOST).and_then(|size| {
            let line = Line::try_new(n, size, cpu).map_err(|_| Error::Memory)?;
            interrupt(n, cpu, Cause::Queue)?;
            transport.set_queue(n, size, line.addresses(), n)?;
            Ok(line)
        });
        match set {
            Ok(line) => lines.try_push(line).map_err(|_| Error::Memory)?,
            // Fewer do as well.
            Err(Error::Vector | Error::Queue) if n > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(lines)
}

/// `SIZE@ADDRESS:INTERRUPT`, with anything after another colon; numbers as Linux's memparse takes them.
fn parse(said: &str) -> Option<(Window, u32)> {
    let (size, rest) = said.split_once('@')?;
    let mut parts = rest.split(':');
    let address = number(parts.next()?)?;
    let interrupt = u32::try_from(number(parts.next()?)?).ok()?;
    Some((Window { address, len: number(size)? }, interrupt))
}

fn number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len().checked_sub(1)?)?, 10),
        b'm' | b'M' => (text.get(..text.len().checked_sub(1)?)?, 20),
        _ => (text, 0),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok()?,
        None => digits.parse().ok()?,
    };
    value.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_devices_as_linux_takes_them() {
        let window = |address, len| Window { address, len };
        assert_eq!(parse("512@0xfeb00e00:12"), Some((window(0xfeb0_0e00, 512), 12)));
        assert_eq!(parse("0x200@4K:0x18:3"), Some((window(4096, 512), 24)));
        assert_eq!(parse("1K@1M:5"), Some((window(1 << 20, 1024), 5)));
        for wrong in [
            "",
            "512",
            "512@",
            "512@x:1",
            "512@1",
            "@1:1",
            "512@1:",
            "1@1:4294967296",
            "99999999999999999999@1:1",
            "17592186044416M@1:1",
            "K@1:1",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
