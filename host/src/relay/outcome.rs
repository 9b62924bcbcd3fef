//! How a run ended.
#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::protocol;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum End {
    /// The program ended with this wait4 status word.
    Program(u32),
    TimeLimit,
    /// We were told to end and ended the machine.
    Interrupted(i32),
    /// The machine ended, or never came up: why, and the kernel's last words.
    Machine {
        why: String,
        last_words: String,
    },
}

pub struct Outcome {
    pub end: End,
    /// From the start of QEMU to init.
    pub boot: Option<Duration>,
    /// From init to the program's end.
    pub program: Option<Duration>,
    /// What the kernel said of a CPU or a grace period that did not get on.
    pub stall: Option<String>,
}

/// The exit status for an end, as a shell would see it.
pub fn status_of(end: &End) -> u8 {
    match end {
        End::Program(word) => protocol::exit_status(*word),
        End::TimeLimit => crate::exit::TIME_LIMIT,
        End::Interrupted(signal) => 128u8.wrapping_add(*signal as u8),
        End::Machine { .. } => crate::exit::MACHINE,
    }
}
