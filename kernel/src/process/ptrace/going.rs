//! How a traced thread goes on until its next stop.
#![forbid(unsafe_code)]

/// How a thread goes on until its next stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Going {
    On = 0,
    /// To the beginning or the end of a system call.
    ToCall = 1,
    /// One instruction.
    Step = 2,
    /// To the beginning of a system call, which is not made.
    Emulated = 3,
    /// One instruction, or to the beginning of a system call, which is not made.
    EmulatedStep = 4,
}

impl Going {
    pub(super) fn of(word: u8) -> Going {
        [Going::On, Going::ToCall, Going::Step, Going::Emulated, Going::EmulatedStep]
            .into_iter()
            .find(|going| *going as u8 == word)
            .unwrap_or(Going::On)
    }

    pub(super) fn steps(self) -> bool {
        matches!(self, Going::Step | Going::EmulatedStep)
    }

    pub(super) fn stops_at_calls(self) -> bool {
        matches!(self, Going::ToCall | Going::Emulated | Going::EmulatedStep)
    }

    pub(super) fn makes_no_call(self) -> bool {
        matches!(self, Going::Emulated | Going::EmulatedStep)
    }
}
