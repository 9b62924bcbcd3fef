//! PCI's configuration space: in memory where ACPI's MCFG says so (a bus's part is mapped when it is first looked at), else by ports 0xcf8 and 0xcfc.
//!
//! Used while devices are looked for, by one thread.

use core::cell::RefCell;

use virtio::Registers as _;
use virtio::pci::{Config, Place, Window};

use super::acpi::{ConfigSpace, MachineTables};
use super::cpu::BootCell;
use super::port::{inl, outl};
use super::registers::Registers;
use sync::{SpinLock, lock_class};

use crate::lock_order as level;

lock_class! { static PORTS_CLASS: LockClass = ("PCI ports", level::PciPorts); }

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

static SPACE: BootCell<Option<ConfigSpace>> = BootCell::new(None);
/// Who has written the address goes on to the data.
static PORTS: SpinLock<(), level::PciPorts> = SpinLock::new((), &PORTS_CLASS);

/// Notes what the tables say, while they are in reach.
///
/// # Safety
/// Once, on the boot CPU, alone.
pub unsafe fn init(machine: &MachineTables) {
    // SAFETY: as the caller says.
    unsafe { *SPACE.get_mut() = machine.config_space() };
}

/// Configuration space, with the part of the bus that was looked at last.
pub struct Pci {
    mapped: RefCell<Option<(u8, Registers)>>,
}

impl Pci {
    pub fn new() -> Self {
        Self { mapped: RefCell::new(None) }
    }

    /// Does `f` with the registers of a function's bus, if they are in memory.
    fn in_memory<R>(&self, place: Place, at: u8, f: impl FnOnce(&Registers, usize) -> R) -> Option<R> {
        let space = SPACE.get().filter(|space| place.bus <= space.last_bus)?;
        let mut mapped = self.mapped.borrow_mut();
        if mapped.as_ref().is_none_or(|(bus, _)| *bus != place.bus) {
            let address = space.address + (u64::from(place.bus) << 20);
            *mapped = Some((place.bus, Registers::map(Window { address, len: 1 << 20 })?));
        }
        let (_, registers) = mapped.as_ref()?;
        let at = usize::from(place.device) << 15 | usize::from(place.function) << 12 | usize::from(at & !3);
        Some(f(registers, at))
    }

    /// Does `f` when the address port names the register.
    fn by_ports<R>(place: Place, at: u8, f: impl FnOnce() -> R) -> R {
        let function = u32::from(place.device) << 11 | u32::from(place.function) << 8;
        let address = 1 << 31 | u32::from(place.bus) << 16 | function | u32::from(at & !3);
        let _alone = PORTS.lock();
        // SAFETY: PCI's address port, which is used under this lock alone.
        unsafe { outl(ADDRESS, address) };
        f()
    }
}

impl Config for Pci {
    fn read(&self, place: Place, at: u8) -> u32 {
        self.in_memory(place, at, |registers, at| registers.read_word(at)).unwrap_or_else(|| {
            // SAFETY: PCI's data port; reading a configuration register has no effect.
            Self::by_ports(place, at, || unsafe { inl(DATA) })
        })
    }

    fn write(&self, place: Place, at: u8, value: u32) {
        if self.in_memory(place, at, |registers, at| registers.write_word(at, value)).is_none() {
            // SAFETY: PCI's data port; the function is its driver's, who looks for it.
            Self::by_ports(place, at, || unsafe { outl(DATA, value) });
        }
    }
}
