//! From the loader to Rust: the PVH entry and what the loader hands over.

mod entry;

/// The first Rust code: console.
pub fn early_init(start_info: usize) {
    let _ = start_info;
    crate::device::serial::early_init();
}
