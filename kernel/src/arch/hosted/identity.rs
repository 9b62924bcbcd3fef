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
