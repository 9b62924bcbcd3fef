//! A descriptor table, as it is shown to other processes and threads: they take nothing out of it, so a thread that has it alone need not count what
//! it looks at (`Current::file`).
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::FileTable;
use crate::errno::Result;
use crate::fs::file::File;
use crate::fs::vfs::locks::Owner;

/// See the head of the file.
#[derive(Clone, Copy)]
pub struct Shown<'a>(&'a FileTable);

impl FileTable {
    pub fn show(&self) -> Shown<'_> {
        Shown(self)
    }
}

impl Shown<'_> {
    /// Tells tables apart.
    pub fn address(self) -> usize {
        self.0.address()
    }

    pub fn get(self, fd: i32) -> Result<Arc<File>> {
        self.0.get(fd)
    }

    /// Tells files apart.
    pub fn place_of_file(self, fd: u32) -> Option<usize> {
        self.0.place_of_file(fd)
    }

    pub fn close_on_exec(self, fd: i32) -> Result<bool> {
        self.0.close_on_exec(fd)
    }

    pub fn next_used(self, from: usize) -> Option<i32> {
        self.0.next_used(from)
    }

    pub fn for_each(self, f: impl FnMut(i32)) {
        self.0.for_each(f);
    }

    pub fn size(self) -> usize {
        self.0.size()
    }

    pub fn lock_owner(self) -> Owner {
        self.0.lock_owner()
    }

    pub fn come_by(self, walk: u64) -> bool {
        self.0.come_by(walk)
    }
}
