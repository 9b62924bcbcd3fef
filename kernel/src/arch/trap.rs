//! What a program's exceptions are.

/// An exception that a program caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    DivideError,
    /// Bits of DR6, each set where it holds (SDM vol. 3, 18.2.3).
    Debug(u32),
    Breakpoint,
    Overflow,
    Bounds,
    InvalidOpcode,
    /// The coprocessor is not there; cannot happen with CR0.TS clear, but the processor has the vector.
    DeviceNotAvailable,
    SegmentNotPresent(u32),
    StackFault(u32),
    Protection(u32),
    PageFault(PageFault),
    FloatingPoint,
    Alignment,
    SimdFloatingPoint,
    /// Control protection, virtualization and others that are not expected.
    Other(u8),
}

/// What a CPU watches for a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watches {
    pub addresses: [u64; 4],
    /// As DR7: which of them are in effect, and their kinds and lengths (SDM vol. 3, 18.2.4).
    pub control: u64,
}

/// What the processor says of a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    pub addr: usize,
    pub write: bool,
    pub exec: bool,
    /// A translation was present: the access itself was refused.
    pub present: bool,
}
