//! The door to the machine. Nothing above this module names a register: another architecture is a new folder here.
//!
//! The files beside this one are what both folders give the rooms above in the same form.

mod entry;
pub mod interrupts;
mod signal;
mod trap;
mod user_fault;

#[cfg(not(target_os = "none"))]
mod hosted;
#[cfg(target_os = "none")]
mod x86_64;

pub use entry::USER_END;
#[cfg(not(target_os = "none"))]
pub use hosted::*;
pub use trap::{PageFault, Trap};
#[cfg(target_os = "none")]
pub use x86_64::*;
