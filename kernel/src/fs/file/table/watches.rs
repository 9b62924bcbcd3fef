//! The watches that a table's open directories tell by signals of (`vfs::notify::signals`): a watch goes with whatever descriptor of its file is closed.
#![forbid(unsafe_code)]

use core::ptr;

use super::FileTable;
use crate::fs::file::File;
use crate::fs::vfs::notify::{self, signals::Opening};

impl FileTable {
    /// The file as this table has it open.
    pub fn opening(&self, file: &File) -> Opening {
        Opening { table: self.address(), file: ptr::from_ref(file).addr() }
    }

    /// The table's watch by way of this file ends, if there is one, and no signal comes of it any more. May sleep.
    #[cold]
    pub fn end_watch(&self, file: &File) {
        notify::end_signal_and_wait(file.inode(), self.opening(file));
    }

    /// Nobody has the table any more, which lay at `table`: all its watches end, as by `end_watch`. May sleep, and gives way.
    #[cold]
    pub(super) fn end_watches(&self, table: usize) {
        self.for_each_watched(true, |file| {
            let opening = Opening { table, file: ptr::from_ref(file).addr() };
            notify::end_signal_and_wait(file.inode(), opening);
        });
    }

    /// The same where the table is dropped, and nobody may sleep.
    #[cold]
    pub(super) fn drop_watches(&self) {
        self.for_each_watched(false, |file| notify::end_signal(file.inode(), self.opening(file)));
    }

    fn for_each_watched(&self, sleeps: bool, f: impl Fn(&File)) {
        let mut from = 0;
        while let Some(fd) = self.search(from, sleeps, |_, file| file.inode().watched.is_signalled()) {
            if let Ok(file) = self.get(fd as i32) {
                f(&file);
            }
            from = fd.saturating_add(1);
        }
    }
}
