//! personality(2): what a thread wants to be different for old programs. A thread's own, inherited by its children, kept over exec.
//!
//! | flag                | carried out by                                                                                    |
//! |---------------------|---------------------------------------------------------------------------------------------------|
//! | ADDR_NO_RANDOMIZE   | exec: nothing is placed by chance                                                                 |
//! | ADDR_COMPAT_LAYOUT  | exec: mappings go upward from a third of the addresses                                            |
//! | MMAP_PAGE_ZERO      | exec: page 0 is mapped, for those who may map it                                                  |
//! | READ_IMPLIES_EXEC   | mmap, mprotect, brk; programs of x86-64 begin without it                                          |
//! | STICKY_TIMEOUTS     | select, pselect6 and ppoll leave the timeout as it is, and are not restarted                      |
//! | UNAME26             | uname: the release is 2.6.                                                                        |
//! | PER_LINUX32         | uname: the machine is i686                                                                        |
//!
//! All else is only remembered, as on Linux with programs of x86-64: FDPIC_FUNCPTRS, SHORT_INODE, WHOLE_SECONDS change nothing in any call, and
//! ADDR_LIMIT_32BIT and ADDR_LIMIT_3GB speak of 32-bit programs.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

pub const UNAME26: u32 = 0x002_0000;
pub const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
pub const MMAP_PAGE_ZERO: u32 = 0x010_0000;
pub const ADDR_COMPAT_LAYOUT: u32 = 0x020_0000;
pub const READ_IMPLIES_EXEC: u32 = 0x040_0000;
pub const STICKY_TIMEOUTS: u32 = 0x400_0000;
/// The low byte: which system's programs it runs.
const KIND: u32 = 0xff;
const LINUX32: u32 = 0x08;

/// Flags that would make a program easier to attack (PER_CLEAR_ON_SETID).
const CLEARED_AT_SECURE_EXEC: u32 =
    READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | MMAP_PAGE_ZERO;

/// A thread's, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Persona(pub u32);

impl Persona {
    pub fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    pub fn is_linux32(self) -> bool {
        self.0 & KIND == LINUX32
    }

    /// What a program of x86-64 begins with; `secure`: it has more rights than who executes it.
    pub fn after_exec(self, secure: bool) -> Self {
        Self(self.0 & !READ_IMPLIES_EXEC & !if secure { CLEARED_AT_SECURE_EXEC } else { 0 })
    }
}

/// The thread's own word; written by itself alone.
#[derive(Default)]
pub struct Personality(AtomicU32);

impl Personality {
    pub fn new(persona: Persona) -> Self {
        Self(AtomicU32::new(persona.0))
    }

    pub fn get(&self) -> Persona {
        Persona(self.0.load(Ordering::Relaxed))
    }

    pub fn set(&self, to: Persona) {
        self.0.store(to.0, Ordering::Relaxed);
    }
}
