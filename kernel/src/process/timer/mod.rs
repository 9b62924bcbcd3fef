//! Timers of a process.
//!
//! * `interval`  setitimer(2), alarm(2)
//! * `posix`     timer_create(2)
//! * `number`    the numbers of those
//! * `clock`     the clocks of processor time that both may run on
#![deny(unsafe_code)]

pub mod clock;
pub mod interval;
mod number;
pub mod posix;
#[cfg(test)]
mod tests;

use crate::fs::anon::timerfd::TimerFile;

/// The wall clock was set: whoever waits for a time on it waits longer or less. A walk over all processes and their
/// files, so that no list of timers has to be kept for an event that hardly ever comes.
pub fn clock_was_set() {
    super::walk_processes(|process| {
        process.timers.clock_was_set();
        process.walk_files(|file| {
            if let Some(timer) = file.downcast::<TimerFile>() {
                timer.clock_was_set();
            }
        });
        true
    });
}
