//! One CPU: ports and registers, features, descriptor tables, per-CPU area.

pub mod port;
pub mod reg;
