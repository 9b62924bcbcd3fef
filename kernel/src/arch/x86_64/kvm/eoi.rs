//! MSR_KVM_EOI_EN: the host says with each interrupt whether it wants to see the end of it at once. Mostly it does not: then it is enough that
//! the guest clears the host's bit, which the host looks at when the guest leaves next.
//!
//! The host sets the bit for edge-triggered interrupts with no other one waiting behind. A level-triggered line, of which an I/O APIC must hear,
//! is left to the APIC's own register; so is all where the bit is not set, and it would always be right to write that.

use core::arch::asm;
use core::cell::UnsafeCell;

use sync::per_cpu;

use super::EOI;

const MSR_KVM_EOI_EN: u32 = 0x4b56_4d04;

/// On a line of its own: only the CPU and its host write here.
#[repr(align(64))]
struct Word(UnsafeCell<u32>);

// SAFETY: written by its own CPU in one instruction, and by the host while that CPU stands still.
unsafe impl Sync for Word {}

per_cpu! {
    static WORD: Word = Word(UnsafeCell::new(0));
}

/// # Safety
/// Each CPU once, with its area loaded.
pub unsafe fn init_cpu() {
    if super::offers(EOI) {
        // SAFETY: offered; the host writes the first four bytes alone, which are zero now.
        unsafe { super::share(MSR_KVM_EOI_EN, WORD.this()) };
    }
}

/// True if the interrupt has ended by this, and the APIC need not be told. Interrupts are off.
#[inline]
pub fn end_of_interrupt() -> bool {
    if !super::offers(EOI) {
        return false;
    }
    let was_set: u8;
    // One instruction reads and clears the bit: the host may take it back between any two, and never within one. So no LOCK is needed, as the
    // host changes it only while this CPU stands still.
    // SAFETY: a word of this CPU, four bytes.
    unsafe {
        asm!("btr dword ptr [{}], 0", "setc {}", in(reg) WORD.this().0.get(), out(reg_byte) was_set, options(nostack));
    }
    was_set != 0
}
