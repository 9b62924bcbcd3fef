//! The words in which the kernel asks: protection, access, flags, backing, advice.
#![forbid(unsafe_code)]

use crate::addr::VirtAddr;
use crate::object::ObjectRef;
use bitflags::bitflags;

bitflags! {
    /// What a program may do with a page. As on x86-64 Linux, any access right lets it read.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Prot: u8 {
        const READ = 1;
        const WRITE = 2;
        const EXEC = 4;
    }
}

impl Prot {
    /// The same rights without writing. What may be written may be read too, so a page that was only writable stays readable.
    #[inline]
    pub fn without_write(self) -> Self {
        if self.contains(Self::WRITE) { self.difference(Self::WRITE) | Self::READ } else { self }
    }
}

bitflags! {
    /// How a mapping is made.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct MapFlags: u16 {
        /// At exactly the hint, replacing what is there.
        const FIXED = 1;
        /// With FIXED: fail with `Exists` instead of replacing.
        const NOREPLACE = 2;
        /// Writes go to the object.
        const SHARED = 4;
        /// Grows towards lower addresses when touched below.
        const GROWSDOWN = 8;
        /// Accepted; Darter does not reserve swap.
        const NORESERVE = 16;
        /// Fault all pages in before returning.
        const POPULATE = 32;
        /// A thread's or program's stack (only a hint).
        const STACK = 64;
        /// With SHARED: `protect` may not make it writable.
        const NO_WRITE = 128;
        /// The caller may map below [`crate::USER_START`].
        const LOW = 256;
        /// The pages are in memory when this returns, and stay there (mlock).
        const LOCKED = 512;
        /// `protect` may not make it executable.
        const NO_EXEC = 1024;
        /// In the second gigabyte of addresses (MAP_32BIT).
        const LOW_2G = 2048;
    }
}

/// What a mapping shows.
#[derive(Clone)]
pub enum Backing {
    /// Zeros, private to the space (with `SHARED` the caller makes an object instead).
    Anonymous,
    /// The object from byte `offset` on, which is a multiple of the page size.
    Object { object: ObjectRef, offset: u64 },
}

/// A request of mmap.
#[derive(Clone)]
pub struct MapRequest {
    pub hint: VirtAddr,
    /// Bytes; rounded up to pages.
    pub len: usize,
    pub prot: Prot,
    pub flags: MapFlags,
    pub backing: Backing,
}

/// What an instruction tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub write: bool,
    pub exec: bool,
    /// By another process (process_vm_readv and its kin): no stack grows for it.
    pub foreign: bool,
    /// By who traces the program (ptrace): whatever is mapped is read, and private memory is written though the program may not.
    pub forced: bool,
}

impl Access {
    pub const READ: Self = Self { write: false, exec: false, foreign: false, forced: false };
    pub const WRITE: Self = Self { write: true, exec: false, foreign: false, forced: false };
    pub const EXEC: Self = Self { write: false, exec: true, foreign: false, forced: false };

    /// Is it made whatever the protection says? Memory that is `shared` is not written so: others would see it.
    #[cold]
    pub fn is_forced_on(self, shared: bool) -> bool {
        self.forced && !(self.write && shared)
    }

    /// Does `prot` allow this access?
    #[inline]
    pub fn allowed(self, prot: Prot) -> bool {
        if self.write {
            prot.contains(Prot::WRITE)
        } else if self.exec {
            prot.contains(Prot::EXEC)
        } else {
            !prot.is_empty()
        }
    }
}

/// madvise, as far as it changes something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Drop the pages: anonymous memory reads zero afterwards, files read the file.
    DontNeed,
    /// Like `DontNeed`, at leisure, of private anonymous memory; Darter drops at once.
    Free,
    /// Not needed soon. Nothing becomes of it; but what is locked cannot be so.
    Cold,
    /// Not needed soon: private pages go to swap, if there is any.
    PageOut,
    /// Needed soon: what is in swap is read.
    WillNeed,
    /// Like `DontNeed`, of locked memory too.
    DontNeedLocked,
    /// Fault the pages in for reading or writing.
    PopulateRead,
    PopulateWrite,
    /// Whether children of fork get the mapping.
    DontFork,
    DoFork,
    /// Whether children of fork get it empty; private anonymous memory only.
    WipeOnFork,
    KeepOnFork,
    /// Whether a core dump has the mapping.
    DontDump,
    DoDump,
    /// Whether it may come in large pages.
    Large,
    NoLarge,
}
