//! Timers of a process.
//!
//! * `interval`  setitimer(2), alarm(2)
//! * `posix`     timer_create(2)
//! * `number`    those by their numbers
//! * `clock`     the clocks of processor time that both may run on
#![deny(unsafe_code)]

pub mod clock;
pub mod interval;
mod number;
pub mod posix;
#[cfg(test)]
mod tests;
