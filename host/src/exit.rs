//! The exit statuses that are darter's own, and errors that carry one.
//!
//! A program's own status goes through unchanged; these say that there is none.
#![forbid(unsafe_code)]

use std::fmt;

/// Wrong use of the command line.
pub const USAGE: u8 = 2;
/// The time limit was reached.
pub const TIME_LIMIT: u8 = 124;
/// The virtual machine or its kernel failed, or something that they need is missing.
pub const MACHINE: u8 = 125;

/// An error with an exit status other than [`MACHINE`], which every other error has.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A usage error, for `return Err(usage(...))`.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Usage(text.into()))
}

/// The status with which darter ends for this error.
pub fn status_of(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<Usage>().is_some() { USAGE } else { MACHINE }
}
