//! What is known of flaws of this processor's speculation, as Linux's sysfs-devices-system-cpu tells it.
//!
//! The kernel has no mitigation of any, so each is there or it is not. Intel's processors say by IA32_ARCH_CAPABILITIES which they lack (SDM vol. 4,
//! table 2-2); one that does not say so counts as having it. AMD's never had those of Intel's; which of its families have one of their own is in its
//! notices (AMD-SB-7005, 7008, 7029, 7046).

use super::features::{cpuid, max_leaf};
use super::identity;
use super::reg;

const ARCH_CAPABILITIES: u32 = 0x10a;
const NOT_AFFECTED: &str = "Not affected";
const VULNERABLE: &str = "Vulnerable";

/// Flaws of Intel's processors, and the bits of IA32_ARCH_CAPABILITIES that say that one is not there.
const INTEL: &[(&str, u64)] = &[
    ("gather_data_sampling", 1 << 26),
    ("indirect_target_selection", 1 << 62),
    ("itlb_multihit", 1 << 6),
    ("l1tf", 1 << 0),
    ("mds", 1 << 5),
    ("meltdown", 1 << 0),
    ("mmio_stale_data", 1 << 13 | 1 << 14 | 1 << 15),
    ("reg_file_data_sampling", 1 << 27),
    ("srbds", 1 << 5),
    ("tsx_async_abort", 1 << 8),
];

/// Flaws of AMD's processors, and the families that have them.
const AMD: &[(&str, &[u32])] = &[
    ("retbleed", &[0x15, 0x16, 0x17, 0x18]),
    ("spec_rstack_overflow", &[0x17, 0x18, 0x19]),
    ("tsa", &[0x19]),
    ("vmscape", &[0x17, 0x18, 0x19, 0x1a]),
];

/// Flaws that all have.
const ALL: [&str; 3] = ["spec_store_bypass", "spectre_v1", "spectre_v2"];

/// How many there are.
pub const COUNT: usize = INTEL.len() + AMD.len() + ALL.len();

/// The name of flaw `n`, below [`COUNT`], and what there is to say of it.
pub fn flaw(n: usize) -> Option<(&'static str, &'static str)> {
    let said = |is_there: bool| if is_there { VULNERABLE } else { NOT_AFFECTED };
    let is_amd = identity::is_amd();
    if let Some((name, lacks)) = INTEL.get(n) {
        return Some((name, said(!is_amd && capabilities() & lacks != *lacks)));
    }
    let n = n.checked_sub(INTEL.len())?;
    if let Some((name, families)) = AMD.get(n) {
        return Some((name, said(is_amd && families.contains(&identity::version().0))));
    }
    let name = *ALL.get(n.checked_sub(AMD.len())?)?;
    Some(match name {
        "spectre_v2" => (name, "Vulnerable; STIBP: disabled"),
        "spec_store_bypass" => (name, said(!lacks_store_bypass(is_amd))),
        _ => (name, VULNERABLE),
    })
}

/// What the processor says of what it lacks; nothing where it has no such register.
fn capabilities() -> u64 {
    let has = max_leaf() >= 7 && cpuid(7, 0).edx & 1 << 29 != 0;
    // SAFETY: CPUID says that there is such a register; reading it has no effect.
    if has { unsafe { reg::rdmsr(ARCH_CAPABILITIES) } } else { 0 }
}

fn lacks_store_bypass(is_amd: bool) -> bool {
    if is_amd {
        // Fn8000_0008_EBX[SsbNo] (AMD's manual vol. 3, appendix E.4.7).
        return cpuid(0x8000_0000, 0).eax >= 0x8000_0008 && cpuid(0x8000_0008, 0).ebx & 1 << 26 != 0;
    }
    capabilities() & 1 << 4 != 0
}
