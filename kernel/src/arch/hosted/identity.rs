//! What the processor calls itself.

pub fn vendor() -> &'static str {
    "hosted"
}

pub fn model() -> &'static str {
    "hosted test"
}

pub fn flags() -> impl Iterator<Item = &'static str> {
    ["fpu", "tsc"].into_iter()
}

pub fn version() -> (u32, u32, u32) {
    (6, 1, 1)
}

pub fn address_bits() -> (u32, u32) {
    (36, 48)
}

pub fn flush_line() -> u32 {
    64
}

pub fn level() -> u32 {
    1
}

pub fn tlb_entries() -> Option<u32> {
    None
}

pub fn is_amd() -> bool {
    false
}
