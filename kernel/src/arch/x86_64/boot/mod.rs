//! From the loader to a machine that the rest of the kernel can use.

mod entry;
pub mod siblings;
pub mod smbios;
pub mod smp;
mod start_info;
pub mod topology;

use super::acpi::MachineTables;
use super::cpu::{features, percpu};
use super::memory::{direct_map, early, frames, tables};
use super::{apic, exit, kvm, pci, time, trap, user};
pub use start_info::{PhysRange, boot_info};

/// End of what the first page tables reach.
const BOOT_REACH: u64 = 1 << 32;

/// Brings up this machine on the boot CPU: console, memory map, ACPI, per-CPU area, traps, final page tables, frames,
/// interrupt controllers, clock. Interrupts are on afterwards.
///
/// # Safety
/// Once, on the boot CPU, alone, on the first page tables; `start_info` is the physical address of the loader's `hvm_start_info`.
pub unsafe fn early_init(start_info: usize) {
    super::upcall::early_console();
    // SAFETY: as the caller says, and each step is done once, in the order that they ask for.
    unsafe {
        start_info::read(start_info);
        features::detect();
        kvm::detect();
        if !features::get().smap {
            trap::patch_smap();
        }
        user::sort_fixups();
        let machine = MachineTables::find(boot_info().rsdp);
        topology::init(&machine);
        early::init(topology::split_by_node);
        percpu::allocate(0, BOOT_REACH);
        percpu::load(0);
        trap::init();
        trap::load();
        crate::log::configure(boot_info().command_line());
        tables::init();
        smbios::find();
        features::enable();
        features::measure_xsave();
        percpu::set_online();
        sync::rcu::idle_exit();
        apic::init();
        apic::init_cpu();
        kvm::init_cpu();
        exit::init(&machine);
        apic::io::init(&machine);
        pci::init(&machine);
        time::init(machine.pm_timer());
        smp::prepare();
        frames::init();
    }
    super::enable_interrupts();
    topology::show();
    kvm::show();
}

/// The initramfs, where the loader put it: it stays there for good.
pub fn initramfs() -> &'static [u8] {
    let Some(range) = boot_info().initramfs else { return &[] };
    // SAFETY: kept out of the free memory; mapped by the direct map; nobody writes it.
    unsafe { core::slice::from_raw_parts(direct_map(range.start), (range.end - range.start) as usize) }
}

/// Ordinary memory as the firmware's map has it: first and last address of each range, in its order.
pub fn memory_ranges() -> impl Iterator<Item = (u64, u64)> {
    boot_info().usable().iter().map(|range| (range.start, range.end.saturating_sub(1)))
}

/// The kernel command line.
pub fn command_line() -> &'static str {
    boot_info().command_line()
}
