//! The interrupt descriptor table (SDM vol. 3, 7.14.1), one for all CPUs.

use core::arch::asm;

use super::super::boot::command_line;
use super::super::cpu::BootCell;
use super::super::cpu::gdt::{KERNEL_CODE, STAR};
use super::super::cpu::reg;
use super::entry;

#[repr(C, align(4096))]
struct Idt([[u64; 2]; 256]);

static IDT: BootCell<Idt> = BootCell::new(Idt([[0; 2]; 256]));

/// Which flags SYSCALL clears: all that a program could have set against the kernel (as Linux).
const SYSCALL_FLAG_MASK: u64 = 0x0025_7fd5;

/// An interrupt gate: interrupts are off when the handler begins.
fn gate(handler: usize, ist: u64, privilege: u64) -> [u64; 2] {
    let handler = handler as u64;
    let low = (handler & 0xffff)
        | u64::from(KERNEL_CODE) << 16
        | ist << 32
        | 0xe << 40
        | privilege << 45
        | 1 << 47
        | (handler >> 16 & 0xffff) << 48;
    [low, handler >> 32]
}

/// Fills the table.
///
/// # Safety
/// Once, on the boot CPU, alone, when the loader's words are known.
pub unsafe fn init() {
    // SAFETY: as the caller says.
    let idt = unsafe { &mut IDT.get_mut().0 };
    for (vector, slot) in idt.iter_mut().enumerate() {
        // Exception stacks, in the order of `percpu`: double fault, NMI, machine check, debug. A program may raise
        // breakpoint and overflow by instruction.
        let (ist, privilege) = match vector {
            8 => (1, 0),
            2 => (2, 0),
            18 => (3, 0),
            1 => (4, 0),
            3 | 4 => (0, 3),
            _ => (0, 0),
        };
        *slot = gate(entry::stub(vector), ist, privilege);
    }
    let fault = match super::plant::is_wanted(command_line()) {
        false => entry::page_fault_entry as *const (),
        true => entry::planted_page_fault_entry as *const (),
    };
    idt[14] = gate(fault as usize, 0, 0);
}

/// Loads the table and the SYSCALL registers on this CPU. SYSENTER stays invalid (its CS register is zero).
///
/// # Safety
/// After [`init`], with this CPU's descriptors loaded.
pub unsafe fn load() {
    #[repr(C, packed)]
    struct Pointer {
        limit: u16,
        base: u64,
    }
    let pointer = Pointer { limit: (size_of::<Idt>() - 1) as u16, base: IDT.get() as *const Idt as u64 };
    // SAFETY: the table is filled and lives for good; the registers exist on every 64-bit processor.
    unsafe {
        asm!("lidt [{}]", in(reg) &raw const pointer, options(readonly, nostack, preserves_flags));
        reg::wrmsr(reg::IA32_STAR, STAR);
        reg::wrmsr(reg::IA32_LSTAR, entry::syscall_entry as *const () as u64);
        reg::wrmsr(reg::IA32_FMASK, SYSCALL_FLAG_MASK);
    }
}
