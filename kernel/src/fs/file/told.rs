//! What is done with open files, told to those who watch them (`vfs::notify`). Callers ask `notify::is_used` first.
#![forbid(unsafe_code)]

use super::{File, OpenFlags, Place};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::notify::{self, events};

/// Something was done with an open file. Nothing is done with one that is open for its place alone. May sleep.
#[cold]
pub fn on_file(file: &File, mask: u32) {
    // What goes through a pipe is told of none, as on Linux.
    let silent = mask & (events::ACCESS | events::MODIFY) != 0 && file.inode().kind == Kind::Fifo;
    if !silent && !file.flags().contains(OpenFlags::PATH) {
        match &file.place {
            Place::Named(path) => notify::on_opened(&path.dentry, mask),
            Place::Anonymous(inode, _) => notify::on_inode(inode, mask),
        }
    }
}

/// Something happened to what lies at the file's place. May sleep.
#[cold]
pub fn on_place(file: &File, mask: u32) {
    match &file.place {
        Place::Named(path) => notify::on_dentry(&path.dentry, mask),
        Place::Anonymous(inode, _) => notify::on_inode(inode, mask),
    }
}

fn closing(file: &File) -> u32 {
    if file.flags().writes() { events::CLOSE_WRITE } else { events::CLOSE_NOWRITE }
}

/// The last descriptor of the file is closed, or one goes that the kernel had open without a descriptor. It is told when the running thread goes back to
/// its program, so this may be deep in the kernel. Does not sleep.
#[cold]
pub fn on_close(file: &File) {
    if file.flags().contains(OpenFlags::PATH) {
        return;
    }
    match &file.place {
        Place::Named(path) => notify::on_closed(&path.dentry, closing(file)),
        Place::Anonymous(inode, _) => notify::on_nameless_closed(inode, closing(file)),
    }
}
