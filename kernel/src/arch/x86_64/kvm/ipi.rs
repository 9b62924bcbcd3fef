//! KVM_HC_SEND_IPI: one call of the host interrupts up to 128 CPUs, where each would take a write of the command register, and an exit.
//!
//! A single CPU is interrupted by the register: that is one exit as well, and the host's faster way. (The logical destinations of an x2APIC would do the same
//! for 16 CPUs.)

use core::arch::asm;

use super::super::apic;
use super::super::boot::topology;
use super::super::cpu::reg;
use super::{KVM, SEND_IPI};
use crate::arch::apic_ids::ApicIds;

const KVM_HC_SEND_IPI: u64 = 10;

/// One interrupt for several CPUs, of which each is interrupted by [`Self::send`] at the latest.
pub struct Interrupts {
    vector: u8,
    waiting: ApicIds,
}

impl Interrupts {
    pub fn new(vector: u8) -> Self {
        Self { vector, waiting: ApicIds::new() }
    }

    #[inline]
    pub fn add(&mut self, cpu: u32) {
        if !super::offers(SEND_IPI) {
            return apic::send(cpu, self.vector);
        }
        let id = topology::apic_id(cpu);
        if !self.waiting.insert(id) {
            self.send();
            // None waits, so it fits.
            self.waiting.insert(id);
        }
    }

    #[inline]
    pub fn send(&mut self) {
        if !self.waiting.is_empty() {
            let ids = core::mem::replace(&mut self.waiting, ApicIds::new());
            send(ids, self.vector);
        }
    }
}

fn send(ids: ApicIds, vector: u8) {
    if ids.len() > 1 && by_hypercall(&ids, vector) {
        return;
    }
    ids.iter().for_each(|id| apic::send_to(id, vector));
}

/// False if the host refuses.
fn by_hypercall(ids: &ApicIds, vector: u8) -> bool {
    let (first, bits) = ids.window();
    let (low, high) = (bits as u64, (bits >> 64) as u64);
    // The command's delivery mode 0: fixed.
    let command = u64::from(vector);
    let result: i64;
    // The fence is for the stores before it, as at the command register.
    // SAFETY: the host reads the registers alone, and changes RAX. RBX, which the compiler keeps for itself, is put back.
    unsafe {
        reg::mfence();
        if KVM.get().amd {
            asm!("xchg {low}, rbx", "vmmcall", "xchg {low}, rbx", low = inout(reg) low => _,
                 inout("rax") KVM_HC_SEND_IPI => result, in("rcx") high, in("rdx") u64::from(first), in("rsi") command, options(nostack));
        } else {
            asm!("xchg {low}, rbx", "vmcall", "xchg {low}, rbx", low = inout(reg) low => _,
                 inout("rax") KVM_HC_SEND_IPI => result, in("rcx") high, in("rdx") u64::from(first), in("rsi") command, options(nostack));
        }
    }
    result >= 0
}
