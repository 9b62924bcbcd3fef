//! What can go wrong, in words that the kernel turns into errno values and signals.
#![forbid(unsafe_code)]

use sync::AllocError;

/// Why an operation on a space or an object failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VmError {
    /// No frame, table or kernel object could be had (ENOMEM).
    NoMemory,
    /// So little memory is left that files may not grow, or their budget is used up (ENOSPC).
    Full,
    /// Misaligned, empty or senseless arguments (EINVAL).
    Invalid,
    /// MAP_FIXED_NOREPLACE found a mapping (EEXIST).
    Exists,
    /// No room in the address space, or the range is not mapped (ENOMEM).
    NoSpace,
    /// The backing does not allow this (EACCES).
    Access,
    /// The caller may not map there (EPERM).
    Permission,
    /// The space has as many mappings as it may (ENOMEM; EAGAIN from madvise).
    TooMany,
    /// Part of the range is sealed (EPERM).
    Sealed,
    /// Locked in memory (EBUSY).
    Busy,
    /// An address is not mapped or does not allow the access (EFAULT).
    Fault,
    /// A fatal signal has come, and nobody sees the result (EINTR).
    Interrupted,
    /// Where an object's pages come from failed (EIO).
    Io,
    /// A size or offset goes past what can be represented (EOVERFLOW, EFBIG).
    Overflow,
}

/// Why an access by a program could not be made good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultError {
    /// Nothing is mapped there (SIGSEGV, SEGV_MAPERR).
    NotMapped,
    /// Something is, but it does not allow this access (SIGSEGV, SEGV_ACCERR).
    Denied,
    /// Past the end of the object (SIGBUS, BUS_ADRERR).
    Bus,
    /// No frame could be had.
    NoMemory,
    /// There are frames, but none on the nodes that a policy binds the page to.
    NoneBound,
}

impl From<AllocError> for VmError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

impl From<FaultError> for VmError {
    fn from(e: FaultError) -> Self {
        match e {
            FaultError::NoMemory | FaultError::NoneBound => Self::NoMemory,
            _ => Self::Fault,
        }
    }
}
