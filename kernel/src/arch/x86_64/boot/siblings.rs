//! Which CPUs share a core, a package and a cache: bits of their APIC ids (SDM vol. 3, 11.9; vol. 2, CPUID leaves 4, 0Bh and 1Fh; AMD APM vol. 3, leaves
//! 80000005h, 80000006h and 8000001Dh). All CPUs of a machine are taken to be alike, so what this one says holds for all.
#![forbid(unsafe_code)]

use super::super::cpu::features::{self, cpuid};
use super::super::cpu::identity;
use super::topology::apic_id;
use crate::arch::seat::{Cache, CacheKind, Seat};

/// How many low bits of an APIC id tell the threads of a core apart, and the threads of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    core: u32,
    package: u32,
}

/// Bits that tell `n` things apart.
fn bits(n: u32) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros()
}

/// CPUs whose APIC ids differ in so many low bits at most are threads of one core.
pub fn thread_bits() -> u32 {
    levels().core
}

fn levels() -> Bits {
    const THREADS: u32 = 1;
    for leaf in [0x1f, 0xb] {
        if features::max_leaf() < leaf || cpuid(leaf, 0).ebx & 0xffff == 0 {
            continue;
        }
        let mut found = Bits { core: 0, package: 0 };
        // Kinds of levels that there are, and one for the end.
        for level in 0..8 {
            let words = cpuid(leaf, level);
            let kind = words.ecx >> 8 & 0xff;
            if kind == 0 {
                break;
            }
            found.package = words.eax & 0x1f;
            if kind == THREADS {
                found.core = found.package;
            }
        }
        return found;
    }
    // Of old ones: threads of a package, each taken for a core.
    let leaf = cpuid(1, 0);
    let several = leaf.edx >> 28 & 1 != 0;
    Bits { core: 0, package: if several { bits(leaf.ebx >> 16 & 0xff) } else { 0 } }
}

/// Where `cpu` sits.
pub fn seat(cpu: u32) -> Seat {
    let (id, bits) = (apic_id(cpu), levels());
    let in_package = id & !(u32::MAX.checked_shl(bits.package).unwrap_or(0));
    let shifted = |id: u32, by: u32| id.checked_shr(by).unwrap_or(0);
    Seat {
        place: id,
        core: shifted(id, bits.core),
        core_in_package: shifted(in_package, bits.core),
        package: shifted(id, bits.package),
    }
}

/// The `index`th cache of each CPU.
pub fn cache(index: u32) -> Option<Cache> {
    let amd = identity::is_amd();
    let highest = cpuid(0x8000_0000, 0).eax;
    // TOPOEXT.
    if amd && highest >= 0x8000_001d && cpuid(0x8000_0001, 0).ecx >> 22 & 1 != 0 {
        counted(0x8000_001d, index)
    } else if amd && highest >= 0x8000_0006 {
        listed(index)
    } else if !amd && features::max_leaf() >= 4 {
        counted(4, index)
    } else {
        None
    }
}

/// From a leaf that has caches one after the other.
fn counted(leaf: u32, index: u32) -> Option<Cache> {
    let words = cpuid(leaf, index);
    let kind = match words.eax & 0x1f {
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        3 => CacheKind::Unified,
        _ => return None,
    };
    let share = bits((words.eax >> 14 & 0xfff) + 1);
    Some(Cache {
        level: words.eax >> 5 & 7,
        kind,
        line: (words.ebx & 0xfff) + 1,
        partitions: (words.ebx >> 12 & 0x3ff) + 1,
        ways: (words.ebx >> 22) + 1,
        sets: words.ecx.saturating_add(1),
        share,
        numbered: share,
    })
}

/// From AMD's older leaves, which have a word for each cache.
fn listed(index: u32) -> Option<Cache> {
    /// Ways by their code, where they are not as many.
    const WAYS: [u32; 16] = [0, 1, 2, 3, 4, 6, 8, 0, 16, 0, 32, 48, 64, 96, 128, 0];
    let (first, second, shared) = (cpuid(0x8000_0005, 0), cpuid(0x8000_0006, 0), levels());
    let own = |word: u32| (word >> 24, word >> 16 & 0xff, shared.core);
    let coded = |word: u32| WAYS.get(word as usize >> 12 & 15).copied().unwrap_or(0);
    let (level, kind, word, (kib, ways, share)) = match index {
        0 => (1, CacheKind::Data, first.ecx, own(first.ecx)),
        1 => (1, CacheKind::Instruction, first.edx, own(first.edx)),
        2 => (2, CacheKind::Unified, second.ecx, (second.ecx >> 16, coded(second.ecx), shared.core)),
        3 => {
            (3, CacheKind::Unified, second.edx, ((second.edx >> 18) * 512, coded(second.edx), shared.package))
        }
        _ => return None,
    };
    let line = word & 0xff;
    let sets = (kib * 1024).checked_div(line * ways)?;
    Some(Cache { level, kind, line, partitions: 1, ways, sets, share, numbered: 0 })
}
