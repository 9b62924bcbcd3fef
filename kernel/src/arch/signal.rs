//! What the signal code and the frame on a program's stack tell each other.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::TrapRecord;

/// `stack_t`.
#[derive(Clone, Copy, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalStack {
    pub sp: u64,
    pub flags: u32,
    pub pad: u32,
    pub size: u64,
}

/// What the handler is to find.
pub struct Delivery<'a> {
    pub signal: u32,
    /// Address of the handler.
    pub handler: usize,
    /// `sa_restorer`: where the handler returns to. Linux demands SA_RESTORER on x86-64.
    pub restorer: usize,
    /// `siginfo_t`.
    pub info: &'a [u8; 128],
    /// The signal mask to return to.
    pub mask: u64,
    /// The alternate stack as `sigaltstack` would report it.
    pub stack: SignalStack,
    /// The handler wants the alternate stack, it is enabled, and the program is not on it yet.
    pub switch_stack: bool,
    /// The last exception, for the context.
    pub trap: TrapRecord,
}

/// What sigreturn gives back to the signal code.
pub struct Returned {
    pub mask: u64,
    pub stack: SignalStack,
    /// The processor would not go on in the segments that the frame names: SIGSEGV. Its handler is shown them (`UserRegs::mend_segments`).
    pub trap: Option<TrapRecord>,
    /// False: the vector registers could not be had. SIGSEGV, once the mask is the frame's.
    pub whole: bool,
}
