//! One CPU: ports and registers, features, descriptor tables, per-CPU area.

mod boot_cell;
pub mod features;
pub mod flaws;
pub mod gdt;
pub mod identity;
pub mod percpu;
pub mod port;
pub mod reg;

pub use boot_cell::BootCell;
