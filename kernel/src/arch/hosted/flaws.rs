//! Nothing is known of the host's processor.

pub const COUNT: usize = 1;

pub fn flaw(n: usize) -> Option<(&'static str, &'static str)> {
    (n < COUNT).then_some(("spectre_v1", "Vulnerable"))
}
