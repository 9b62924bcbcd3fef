//! Registers of devices in memory: windows that PCI functions decode, and those that are told of by other ways.
//!
//! Where a window lies is a device's or firmware's claim. It is mapped only where the loader says that no memory is, so a false claim reaches no memory of
//! the kernel or of a program; each access is checked to lie in the window.
//!
//! Locks: the mapping's, under which pages for tables are found.

use core::ptr::NonNull;

use sync::{SpinLock, lock_class};
use virtio::Width;
use virtio::pci::Window;

use super::boot::boot_info;
use super::cpu::features;
use super::memory::tables::{self, FrameTables};
use crate::lock_order as level;

lock_class! { static MAPPING_CLASS: LockClass = ("device mappings", level::DeviceMappings); }

static MAPPING: SpinLock<(), level::DeviceMappings> = SpinLock::new((), &MAPPING_CLASS);

/// No device has larger windows that the kernel uses.
const MOST: u64 = 16 << 20;

/// A mapped window. It stays mapped for good.
pub struct Registers {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: registers are not memory of any thread; accesses are volatile and each is one instruction.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

impl Registers {
    /// Maps `window`. `None`: it is no place for registers, or there is no memory for tables.
    pub fn map(window: Window) -> Option<Registers> {
        let end = window.address.checked_add(window.len)?;
        let aligned = window.address.is_multiple_of(4);
        // No more address bits than an entry of a page table takes here (SDM vol. 3, 5.1.4).
        let reach = 1u64 << (features::cpuid(0x8000_0008, 0).eax & 0xff).clamp(32, 52);
        (aligned && window.len > 0 && window.len <= MOST && end <= reach).then_some(())?;
        let pages = window.address & !0xfff..end.checked_next_multiple_of(4096)?;
        let is_memory =
            boot_info().usable().iter().any(|range| range.start < pages.end && pages.start < range.end);
        // The local APICs' page is not a device's.
        if is_memory || pages.start <= 0xfee0_0fff && pages.end > 0xfee0_0000 {
            return None;
        }
        let _alone = MAPPING.lock();
        // SAFETY: after boot the tables of devices are changed under this lock alone; no memory lies there.
        let base = unsafe { tables::map_device_from(window.address, window.len, &mut FrameTables) }?;
        Some(Registers { base: NonNull::new(base)?, len: window.len as usize })
    }

    /// Where an access goes, if it lies in the window whole and aligned.
    fn at(&self, at: usize, width: Width) -> Option<NonNull<u8>> {
        let bytes = width as usize;
        let fits = at.is_multiple_of(bytes) && at.checked_add(bytes).is_some_and(|end| end <= self.len);
        // SAFETY: within the window.
        fits.then(|| unsafe { self.base.add(at) })
    }
}

impl virtio::Registers for Registers {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, width: Width) -> u32 {
        let Some(at) = self.at(at, width) else { return u32::MAX };
        // SAFETY: a register of a mapped window, aligned, since the window begins at a multiple of four.
        unsafe {
            match width {
                Width::Byte => u32::from(at.read_volatile()),
                Width::Half => u32::from(at.cast::<u16>().read_volatile()),
                Width::Word => at.cast::<u32>().read_volatile(),
            }
        }
    }

    fn write(&self, at: usize, width: Width, value: u32) {
        let Some(at) = self.at(at, width) else { return };
        // SAFETY: as in `read`.
        unsafe {
            match width {
                Width::Byte => at.write_volatile(value as u8),
                Width::Half => at.cast::<u16>().write_volatile(value as u16),
                Width::Word => at.cast::<u32>().write_volatile(value),
            }
        }
    }
}
