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

/// Is it made by AMD, or as AMD's are?
pub fn is_amd() -> bool {
    matches!(vendor_words(), AMD | HYGON)
}

pub fn vendor() -> Name {
    name(vendor_words())
}

/// A register of an answer.
#[derive(Clone, Copy)]
enum Word {
    A,
    B,
    C,
    D,
}

/// Bits and their names.
type Names = &'static [(u32, &'static str)];

/// The names of features, as Linux has them and in its order: by leaf, sub-leaf, register and bit. None of what a kernel has to
/// switch on for programs, and this one does not.
const FEATURES: [(u32, u32, Word, Names); 11] = [
    (
        1,
        0,
        Word::D,
        &[
            (0, "fpu"),
            (1, "vme"),
            (2, "de"),
            (3, "pse"),
            (4, "tsc"),
            (5, "msr"),
            (6, "pae"),
            (7, "mce"),
            (8, "cx8"),
            (9, "apic"),
            (11, "sep"),
            (12, "mtrr"),
            (13, "pge"),
            (14, "mca"),
            (15, "cmov"),
            (16, "pat"),
            (17, "pse36"),
            (18, "pn"),
            (19, "clflush"),
            (21, "dts"),
            (22, "acpi"),
            (23, "mmx"),
            (24, "fxsr"),
            (25, "sse"),
            (26, "sse2"),
            (27, "ss"),
            (28, "ht"),
            (29, "tm"),
            (30, "ia64"),
            (31, "pbe"),
        ],
    ),
    (
        0x8000_0001,
        0,
        Word::D,
        &[
            (11, "syscall"),
            (19, "mp"),
            (20, "nx"),
            (22, "mmxext"),
            (25, "fxsr_opt"),
            (26, "pdpe1gb"),
            (27, "rdtscp"),
            (29, "lm"),
            (30, "3dnowext"),
            (31, "3dnow"),
        ],
    ),
    (
        1,
        0,
        Word::C,
        &[
            (0, "pni"),
            (1, "pclmulqdq"),
            (2, "dtes64"),
            (3, "monitor"),
            (4, "ds_cpl"),
            (5, "vmx"),
            (6, "smx"),
            (7, "est"),
            (8, "tm2"),
            (9, "ssse3"),
            (10, "cid"),
            (11, "sdbg"),
            (12, "fma"),
            (13, "cx16"),
            (14, "xtpr"),
            (15, "pdcm"),
            (17, "pcid"),
            (18, "dca"),
            (19, "sse4_1"),
            (20, "sse4_2"),
            (21, "x2apic"),
            (22, "movbe"),
            (23, "popcnt"),
            (24, "tsc_deadline_timer"),
            (25, "aes"),
            (26, "xsave"),
            (28, "avx"),
            (29, "f16c"),
            (30, "rdrand"),
            (31, "hypervisor"),
        ],
    ),
    (
        0x8000_0001,
        0,
        Word::C,
        &[
            (0, "lahf_lm"),
            (1, "cmp_legacy"),
            (2, "svm"),
            (3, "extapic"),
            (4, "cr8_legacy"),
            (5, "abm"),
            (6, "sse4a"),
            (7, "misalignsse"),
            (8, "3dnowprefetch"),
            (9, "osvw"),
            (10, "ibs"),
            (11, "xop"),
            (12, "skinit"),
            (13, "wdt"),
            (15, "lwp"),
            (16, "fma4"),
            (17, "tce"),
            (19, "nodeid_msr"),
            (21, "tbm"),
            (22, "topoext"),
            (23, "perfctr_core"),
            (24, "perfctr_nb"),
            (26, "bpext"),
            (27, "ptsc"),
            (28, "perfctr_llc"),
            (29, "mwaitx"),
        ],
    ),
    (
        7,
        0,
        Word::B,
        &[
            (0, "fsgsbase"),
            (1, "tsc_adjust"),
            (2, "sgx"),
            (3, "bmi1"),
            (4, "hle"),
            (5, "avx2"),
            (7, "smep"),
            (8, "bmi2"),
            (9, "erms"),
            (10, "invpcid"),
            (11, "rtm"),
            (12, "cqm"),
            (15, "rdt_a"),
            (16, "avx512f"),
            (17, "avx512dq"),
            (18, "rdseed"),
            (19, "adx"),
            (20, "smap"),
            (21, "avx512ifma"),
            (23, "clflushopt"),
            (24, "clwb"),
            (25, "intel_pt"),
            (26, "avx512pf"),
            (27, "avx512er"),
            (28, "avx512cd"),
            (29, "sha_ni"),
            (30, "avx512bw"),
            (31, "avx512vl"),
        ],
    ),
    (0xd, 1, Word::A, &[(0, "xsaveopt"), (1, "xsavec"), (2, "xgetbv1"), (3, "xsaves")]),
    (0x8000_0008, 0, Word::B, &[(0, "clzero"), (1, "irperf"), (2, "xsaveerptr"), (9, "wbnoinvd")]),
    (6, 0, Word::A, &[(2, "arat")]),
    (0x8000_000a, 0, Word::D, &[(0, "npt"), (1, "lbrv"), (3, "nrip_save"), (16, "vgif")]),
    (
        7,
        0,
        Word::C,
        &[
            (1, "avx512vbmi"),
            (2, "umip"),
            (5, "waitpkg"),
            (6, "avx512_vbmi2"),
            (8, "gfni"),
            (9, "vaes"),
            (10, "vpclmulqdq"),
            (11, "avx512_vnni"),
            (12, "avx512_bitalg"),
            (14, "avx512_vpopcntdq"),
            (16, "la57"),
            (22, "rdpid"),
            (25, "cldemote"),
            (27, "movdiri"),
            (28, "movdir64b"),
        ],
    ),
    (
        7,
        0,
        Word::D,
        &[
            (2, "avx512_4vnniw"),
            (3, "avx512_4fmaps"),
            (4, "fsrm"),
            (8, "avx512_vp2intersect"),
            (14, "serialize"),
        ],
    ),
];

/// Is there such a leaf?
fn has_leaf(leaf: u32) -> bool {
    cpuid(leaf & 0x8000_0000, 0).eax >= leaf
}

/// What the processor can do, as words.
pub fn flags() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().filter(|(leaf, ..)| has_leaf(*leaf)).flat_map(|(leaf, sub, word, names)| {
        let answer = cpuid(*leaf, *sub);
        let word = match word {
            Word::A => answer.eax,
            Word::B => answer.ebx,
            Word::C => answer.ecx,
            Word::D => answer.edx,
        };
        names.iter().filter(move |(bit, _)| word >> bit & 1 != 0).map(|(_, name)| *name)
    })
}

/// Family, model and stepping (SDM vol. 2, CPUID leaf 1).
pub fn version() -> (u32, u32, u32) {
    let word = cpuid(1, 0).eax;
    let (family, model) = (word >> 8 & 15, word >> 4 & 15);
    let long_family = if family == 15 { family + (word >> 20 & 255) } else { family };
    let long_model = if family >= 6 { model | (word >> 16 & 15) << 4 } else { model };
    (long_family, long_model, word & 15)
}

/// The highest basic leaf.
pub fn level() -> u32 {
    cpuid(0, 0).eax
}

/// Bytes that CLFLUSH takes.
pub fn flush_line() -> u32 {
    (cpuid(1, 0).ebx >> 8 & 255) * 8
}

/// Bits of physical and of virtual addresses.
pub fn address_bits() -> (u32, u32) {
    const WITHOUT: (u32, u32) = (36, 48);
    if !has_leaf(0x8000_0008) {
        return WITHOUT;
    }
    let word = cpuid(0x8000_0008, 0).eax;
    (word & 255, word >> 8 & 255)
}

/// Entries of the TLB for 4 KiB pages, of data and code, where the vendor says so (AMD's manual vol. 3, appendix E.4.5).
pub fn tlb_entries() -> Option<u32> {
    let says = is_amd() && has_leaf(0x8000_0006);
    let word = says.then(|| cpuid(0x8000_0006, 0).ebx)?;
    Some((word >> 16 & 0xfff) + (word & 0xfff))
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
