//! What a name of /proc is: who makes what it shows.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::manner::Manner;
use super::space::Row;
use super::task::who::Who;
use crate::errno::Result;
use crate::process::{Process, Thread};

/// Makes a text about the machine.
pub type Make = fn(&mut Vec<u8>) -> Result;
/// Makes a text about a thread of a process.
pub type MakeOf = fn(&Arc<Process>, &Arc<Thread>, &mut Vec<u8>) -> Result;

/// One name of a fixed directory.
pub struct Entry {
    pub name: &'static str,
    pub what: What,
}

#[derive(Clone, Copy)]
pub enum What {
    Text(Make),
    /// A text that only root reads. The first is done when it is opened, with no lock held; locks of the file are held where its text is made.
    Secret(fn(), Make),
    /// The locks of files.
    Locks,
    /// What the kernel has said.
    Log,
    Link(Make),
    Dir(&'static [Entry]),
    Setting(&'static Setting),
    /// The same, whose mode says that nobody writes it.
    Restored(&'static Setting),
    /// One that root alone sees.
    Hidden(&'static Setting),
    /// One that is only written: it asks for something to be done.
    Asked(&'static Setting),
}

/// A name in the directory of a process or thread.
pub struct Of {
    pub name: &'static str,
    pub mode: u32,
    pub what: WhatOf,
    /// Of a text.
    pub manner: Manner,
}

#[derive(Clone, Copy)]
pub enum WhatOf {
    Text(MakeOf),
    /// A text about a process as a whole, which its threads do not have.
    Whole(MakeOf),
    /// A text about a thread alone, which the directory of its process does not have.
    Part(MakeOf),
    /// A text about what is in the process, for those who may look into it.
    Inner(MakeOf),
    Link(MakeOf, LinkTo),
    /// A directory that is the same for all, whose entries' numbers begin there.
    Fixed(&'static [Entry], u64),
    /// A text about its mappings, for the same.
    Rows(Row),
    /// Its memory itself.
    Memory,
    /// What its page table says.
    Pagemap,
    /// Links to the files that it maps.
    MapFiles,
    Fds,
    FdInfos,
    Tasks,
    /// The namespaces that it is in.
    Spaces,
}

impl WhatOf {
    /// Does the directory of this process or thread have it?
    pub(super) fn is_of(self, who: Who) -> bool {
        match self {
            WhatOf::Tasks | WhatOf::Whole(_) | WhatOf::MapFiles => who.tid == 0,
            WhatOf::Part(_) => who.tid != 0,
            _ => true,
        }
    }
}

#[derive(Clone, Copy)]
pub enum LinkTo {
    Exe,
    Cwd,
    Root,
    Namespace,
}

/// A file below /proc/sys.
pub struct Setting {
    pub read: fn(&mut Vec<u8>) -> Result,
    pub write: Option<fn(&[u8]) -> Result>,
}
