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
    (6, 6, 3)
}

pub fn level() -> u32 {
    13
}

pub fn flush_line() -> u32 {
    64
}

pub fn address_bits() -> (u32, u32) {
    (40, 48)
}

pub fn tlb_entries() -> Option<u32> {
    None
}

pub fn is_amd() -> bool {
    false
}
