//! What the processor calls itself (SDM vol. 2, CPUID leaves 0 and 80000002h to 80000004h).
#![forbid(unsafe_code)]

use core::fmt;

use super::features::cpuid;

/// Text out of CPUID's registers, without the blanks and NULs around it.
pub struct Name {
    bytes: [u8; 48],
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.bytes.split(|&b| b == 0).next().unwrap_or(&[]).trim_ascii();
        f.write_str(core::str::from_utf8(text).unwrap_or("unknown"))
    }
}

fn name(words: impl IntoIterator<Item = u32>) -> Name {
    let mut bytes = [0; 48];
    for (to, word) in bytes.chunks_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    Name { bytes }
}

/// The words of a vendor's name, in the order of its letters.
pub const AMD: [u32; 3] = [0x6874_7541, 0x6974_6e65, 0x444d_4163];
pub const HYGON: [u32; 3] = [0x6f67_7948, 0x6e65_476e, 0x656e_6975];

pub fn vendor_words() -> [u32; 3] {
    let leaf = cpuid(0, 0);
    [leaf.ebx, leaf.edx, leaf.ecx]
}

pub fn vendor() -> Name {
    name(vendor_words())
}

/// The names that Linux gives the features of leaf 1 (EDX, ECX), leaf 7 (EBX) and leaf 80000001h (EDX), by bit; "" is none.
const LEAF_1_EDX: [&str; 32] = [
    "fpu", "vme", "de", "pse", "tsc", "msr", "pae", "mce", "cx8", "apic", "", "sep", "mtrr", "pge", "mca",
    "cmov", "pat", "pse36", "pn", "clflush", "", "dts", "acpi", "mmx", "fxsr", "sse", "sse2", "ss", "ht",
    "tm", "ia64", "pbe",
];
const LEAF_1_ECX: [&str; 32] = [
    "pni",
    "pclmulqdq",
    "dtes64",
    "monitor",
    "ds_cpl",
    "vmx",
    "smx",
    "est",
    "tm2",
    "ssse3",
    "cid",
    "sdbg",
    "fma",
    "cx16",
    "xtpr",
    "pdcm",
    "",
    "pcid",
    "dca",
    "sse4_1",
    "sse4_2",
    "x2apic",
    "movbe",
    "popcnt",
    "tsc_deadline_timer",
    "aes",
    "xsave",
    "",
    "avx",
    "f16c",
    "rdrand",
    "hypervisor",
];
const LEAF_7_EBX: [&str; 32] = [
    "fsgsbase",
    "tsc_adjust",
    "sgx",
    "bmi1",
    "hle",
    "avx2",
    "",
    "smep",
    "bmi2",
    "erms",
    "invpcid",
    "rtm",
    "cqm",
    "",
    "mpx",
    "rdt_a",
    "avx512f",
    "avx512dq",
    "rdseed",
    "adx",
    "smap",
    "avx512ifma",
    "",
    "clflushopt",
    "clwb",
    "intel_pt",
    "avx512pf",
    "avx512er",
    "avx512cd",
    "sha_ni",
    "avx512bw",
    "avx512vl",
];
const EXTENDED_EDX: [(u32, &str); 6] =
    [(11, "syscall"), (19, "mp"), (20, "nx"), (26, "pdpe1gb"), (27, "rdtscp"), (29, "lm")];

/// What the processor can do, as words.
pub fn flags() -> impl Iterator<Item = &'static str> {
    let (one, seven, extended) = (cpuid(1, 0), cpuid(7, 0), cpuid(0x8000_0001, 0));
    let named = |word: u32, names: &'static [&'static str; 32]| {
        names.iter().copied().enumerate().filter(move |(bit, name)| word >> bit & 1 != 0 && !name.is_empty())
    };
    let known =
        EXTENDED_EDX.iter().filter(move |(bit, _)| extended.edx >> bit & 1 != 0).map(|(_, name)| *name);
    named(one.edx, &LEAF_1_EDX)
        .chain(named(one.ecx, &LEAF_1_ECX))
        .chain(named(seven.ebx, &LEAF_7_EBX))
        .map(|(_, name)| name)
        .chain(known)
}

pub fn model() -> Name {
    if cpuid(0x8000_0000, 0).eax < 0x8000_0004 {
        return vendor();
    }
    name((0x8000_0002..=0x8000_0004).flat_map(|n| {
        let leaf = cpuid(n, 0);
        [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]
    }))
}
