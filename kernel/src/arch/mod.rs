//! The door to the machine. Nothing above this module names a register: another architecture is a new folder here.

#[cfg(not(target_os = "none"))]
mod hosted;
#[cfg(target_os = "none")]
mod x86_64;

#[cfg(not(target_os = "none"))]
pub use hosted::*;
#[cfg(target_os = "none")]
pub use x86_64::*;
