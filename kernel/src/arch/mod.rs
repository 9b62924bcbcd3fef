//! The door to the machine. Nothing above this module names a register: another architecture is a new folder here.

mod x86_64;

pub use x86_64::*;
