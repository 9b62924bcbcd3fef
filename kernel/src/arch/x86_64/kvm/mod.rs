//! What KVM offers its guests, where it spares them exits (Linux: Documentation/virt/kvm/x86/cpuid.rst, msr.rst, hypercalls.rst).
//!
//! * `eoi`    the end of an interrupt is a bit in memory
//! * `ipi`    one call of the host interrupts many CPUs
//! * `steal`  how long the host let a CPU wait, and whether it runs now: one that does not is flushed by the host
//! * `clock`  the frequency of the time-stamp counter
//!
//! Where the host lets guests turn off its own polling in HLT, this kernel looks for work itself before it halts (`sched::idle`).
//!
//! Not used: the kick of a halted CPU (PV unhalt) and the yield to another, since a lock that is waited for long puts its thread to sleep.

pub mod clock;
mod eoi;
mod ipi;
mod steal;

pub use eoi::end_of_interrupt;
pub use ipi::Interrupts;
pub use steal::{leave_flush, stolen_here_ns, stolen_ns};

use core::arch::x86_64::CpuidResult;

use super::cpu::features::{self, cpuid};
use super::cpu::{BootCell, identity, reg};
use super::memory::DIRECT_MAP;

/// Bits of EAX in the leaf of features.
const CLOCK: u32 = 1 << 3;
const STEAL_TIME: u32 = 1 << 5;
const EOI: u32 = 1 << 6;
const FLUSH: u32 = 1 << 9;
const SEND_IPI: u32 = 1 << 11;
const POLL_CONTROL: u32 = 1 << 12;
const CLOCK_STABLE: u32 = 1 << 24;

const MSR_KVM_POLL_CONTROL: u32 = 0x4b56_4d05;

/// The lowest bit of the registers that hold an address: it is in use.
const ENABLED: u64 = 1;

struct Kvm {
    features: u32,
    /// VMMCALL is this processor's instruction, not VMCALL.
    amd: bool,
}

/// Without KVM nothing is offered.
static KVM: BootCell<Kvm> = BootCell::new(Kvm { features: 0, amd: false });

/// Asks the hypervisor.
///
/// # Safety
/// Once, on the boot CPU, alone, after [`features::detect`].
pub unsafe fn detect() {
    let Some(base) = leaf() else { return };
    let amd = [identity::AMD, identity::HYGON].contains(&identity::vendor_words());
    // SAFETY: boot CPU, alone.
    unsafe { *KVM.get_mut() = Kvm { features: cpuid(base + 1, 0).eax, amd } };
}

/// Where KVM's leaves begin. A KVM that passes for Hyper-V as well has that one's first.
fn leaf() -> Option<u32> {
    let leaves = [0x4000_0000, 0x4000_0100];
    leaves.into_iter().take_while(|_| features::get().hypervisor).find(|leaf| {
        let CpuidResult { ebx, ecx, edx, .. } = cpuid(*leaf, 0);
        // "KVMKVMKVM"
        (ebx, ecx, edx) == (0x4b4d_564b, 0x564b_4d56, 0x4d)
    })
}

#[inline]
fn offers(features: u32) -> bool {
    KVM.get().features & features == features
}

/// This is a guest of KVM, which offers something.
pub fn is_host() -> bool {
    KVM.get().features != 0
}

/// Takes on this CPU what is each CPU's own.
///
/// # Safety
/// Each CPU once, after [`detect`], with its area loaded.
pub unsafe fn init_cpu() {
    // SAFETY: as the caller says.
    unsafe {
        eoi::init_cpu();
        steal::init_cpu();
    }
    if may_poll_idle() {
        // SAFETY: the host offers the register; 0: it does not poll where this CPU halts.
        unsafe { reg::wrmsr(MSR_KVM_POLL_CONTROL, 0) };
    }
}

/// May a CPU that idles look for work for a while before it halts? The host has been told not to.
#[inline]
pub fn may_poll_idle() -> bool {
    offers(POLL_CONTROL)
}

/// Says on the console what is used.
pub fn show() {
    if is_host() {
        let said = |features, name| if offers(features) { name } else { "" };
        info!(
            "KVM:{}{}{}{}{}",
            said(EOI, " EOI in memory"),
            said(SEND_IPI, ", IPIs by hypercall"),
            said(STEAL_TIME, ", steal time"),
            said(STEAL_TIME | FLUSH, ", flushes by the host"),
            said(POLL_CONTROL, ", polls before it halts"),
        );
    }
}

/// Gives the host `value`, a per-CPU variable, in register `msr`.
///
/// # Safety
/// KVM offers the register, and may write all of `value` from now on.
unsafe fn share<T>(msr: u32, value: &'static T) {
    // Areas of CPUs lie in the direct map.
    let address = (core::ptr::from_ref(value) as usize - DIRECT_MAP) as u64;
    // SAFETY: as the caller says; the variable stays for good.
    unsafe { reg::wrmsr(msr, address | ENABLED) };
}
