//! The door to the machine. Nothing above this module names a register: another architecture is a new folder here.
//!
//! The files beside this one are what both folders give the rooms above in the same form.

#[cfg(any(test, target_os = "none"))]
mod apic_ids;
mod entry;
pub mod interrupts;
pub mod seat;
mod signal;
mod trap;
mod user_fault;
#[cfg(any(test, target_os = "none"))]
mod wall_clock;

#[cfg(not(target_os = "none"))]
mod hosted;
#[cfg(target_os = "none")]
mod x86_64;

pub use entry::USER_END;
#[cfg(not(target_os = "none"))]
pub use hosted::*;
pub use trap::{PageFault, Trap, Watches};
#[cfg(target_os = "none")]
pub use x86_64::*;

/// What became of arch_prctl(2).
pub enum ArchPrctl {
    Done,
    /// The value asked for.
    Value(usize),
    /// The address is not one of a program's.
    NotPermitted,
    /// The call's result.
    Told(usize),
    /// The processor cannot.
    NoDevice,
    /// There is no such vector state that would have to be asked for.
    NotSupported,
    /// There is no such operation.
    Unknown,
}
