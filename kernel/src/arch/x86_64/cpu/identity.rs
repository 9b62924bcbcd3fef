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

pub fn vendor() -> Name {
    let leaf = cpuid(0, 0);
    name([leaf.ebx, leaf.edx, leaf.ecx])
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
