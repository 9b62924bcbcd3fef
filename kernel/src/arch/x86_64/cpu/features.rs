//! What this processor offers (SDM vol. 2, CPUID), found once on the boot CPU; all CPUs of a machine are alike.

use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

use super::BootCell;
use super::reg::*;

#[derive(Clone, Copy, Default)]
pub struct Features {
    pub giant_pages: bool,
    pub global_pages: bool,
    pub pcid: bool,
    pub smep: bool,
    pub smap: bool,
    pub umip: bool,
    pub fsgsbase: bool,
    pub xsave: bool,
    pub xsaveopt: bool,
    pub x2apic: bool,
    pub tsc_deadline: bool,
    pub rdtscp: bool,
    pub rdpid: bool,
    pub erms: bool,
    pub rdrand: bool,
    /// The CPU runs under a hypervisor that says so.
    pub hypervisor: bool,
    /// The feature word itself of leaf 1: CPUID leaves the guest, so nobody asks for it again.
    pub leaf_1_edx: u32,
    /// The bits of XCR0 that the kernel enables.
    pub xcr0: u64,
    /// Bytes of an XSAVE area (standard format) with those bits.
    pub xsave_size: usize,
}

static FEATURES: BootCell<Features> = BootCell::new(Features {
    giant_pages: false,
    global_pages: false,
    pcid: false,
    smep: false,
    smap: false,
    umip: false,
    fsgsbase: false,
    xsave: false,
    xsaveopt: false,
    x2apic: false,
    tsc_deadline: false,
    rdtscp: false,
    rdpid: false,
    erms: false,
    rdrand: false,
    hypervisor: false,
    leaf_1_edx: 0,
    xcr0: 3,
    xsave_size: 512,
});

/// x87, SSE, AVX, and the three AVX-512 states. Others (MPX, PKRU, AMX) stay off.
const XCR0_WANTED: u64 = 0b1110_0111;

#[inline]
pub fn get() -> &'static Features {
    FEATURES.get()
}

pub fn cpuid(leaf: u32, sub: u32) -> CpuidResult {
    __cpuid_count(leaf, sub)
}

/// Is this QEMU's emulator?
pub fn is_emulated() -> bool {
    let id = cpuid(0x4000_0000, 0);
    get().hypervisor && (id.ebx, id.ecx, id.edx) == (0x5447_4354, 0x4354_4743, 0x4743_5447)
}

/// The highest basic leaf.
pub fn max_leaf() -> u32 {
    __cpuid(0).eax
}

/// Asks the processor.
///
/// # Safety
/// Once, on the boot CPU, alone.
pub unsafe fn detect() {
    let max = max_leaf();
    let one = __cpuid(1);
    let seven = if max >= 7 { cpuid(7, 0) } else { CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 } };
    let extended = __cpuid(0x8000_0000).eax;
    let ext_one = if extended >= 0x8000_0001 {
        __cpuid(0x8000_0001)
    } else {
        CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 }
    };
    let has = |word: u32, bit: u32| word & (1 << bit) != 0;
    if !has(ext_one.edx, 20) || !has(ext_one.edx, 11) || !has(one.edx, 24) {
        panic!("this processor lacks NX, SYSCALL or FXSAVE");
    }
    let mut f = Features {
        giant_pages: has(ext_one.edx, 26),
        global_pages: has(one.edx, 13),
        pcid: has(one.ecx, 17),
        smep: has(seven.ebx, 7),
        smap: has(seven.ebx, 20),
        umip: has(seven.ecx, 2),
        fsgsbase: has(seven.ebx, 0),
        xsave: has(one.ecx, 26),
        xsaveopt: false,
        x2apic: has(one.ecx, 21),
        tsc_deadline: has(one.ecx, 24),
        rdtscp: has(ext_one.edx, 27),
        rdpid: has(seven.ecx, 22),
        erms: has(seven.ebx, 9),
        rdrand: has(one.ecx, 30),
        hypervisor: has(one.ecx, 31),
        leaf_1_edx: one.edx,
        xcr0: 3,
        xsave_size: 512,
    };
    if f.xsave && max >= 0xd {
        let leaf = cpuid(0xd, 0);
        let offered = u64::from(leaf.eax) | (u64::from(leaf.edx) << 32);
        f.xcr0 = offered & XCR0_WANTED;
        // AVX-512's three states come together, and with AVX (SDM vol. 1, 13.3).
        if f.xcr0 & 0xe0 != 0xe0 || f.xcr0 & 4 == 0 {
            f.xcr0 &= !0xe0;
        }
        f.xsaveopt = has(cpuid(0xd, 1).eax, 0);
    } else {
        f.xsave = false;
    }
    // SAFETY: boot CPU, alone.
    unsafe { *FEATURES.get_mut() = f };
}

/// The size of the XSAVE area with the states enabled now.
///
/// # Safety
/// Once, on the boot CPU, alone, after [`enable`].
pub unsafe fn measure_xsave() {
    if get().xsave {
        // SAFETY: boot CPU, alone.
        unsafe { FEATURES.get_mut() }.xsave_size = cpuid(0xd, 0).ebx as usize;
    }
}

/// Turns on, on this CPU, what the kernel uses.
///
/// # Safety
/// Each CPU once, after the final page tables are loaded.
pub unsafe fn enable() {
    let f = get();
    let mut cr4 = CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT;
    for (offered, bit) in [
        (f.global_pages, CR4_PGE),
        (f.pcid, CR4_PCIDE),
        (f.smep, CR4_SMEP),
        (f.smap, CR4_SMAP),
        (f.umip, CR4_UMIP),
        (f.fsgsbase, CR4_FSGSBASE),
        (f.xsave, CR4_OSXSAVE),
    ] {
        if offered {
            cr4 |= bit;
        }
    }
    // SAFETY: every bit is offered; CR3 holds PCID 0 (SDM vol. 3, 5.10.1 asks that before PCIDE is set).
    unsafe {
        set_cr4(cr4);
        set_cr0((cr0() | CR0_WP | CR0_MP | CR0_NE) & !(CR0_EM | CR0_TS));
        wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_SCE | EFER_NXE);
        if f.xsave {
            core::arch::asm!("xsetbv", in("ecx") 0, in("eax") f.xcr0 as u32, in("edx") (f.xcr0 >> 32) as u32,
                             options(nomem, nostack, preserves_flags));
        }
    }
}
