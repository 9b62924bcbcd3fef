//! A process's descriptors in /proc: how `fd` and `fdinfo` list them, and what a file of `fdinfo` tells.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use crate::errno::{ENOENT, ENOMEM, Result};
use crate::fs::Shown;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::operations::DirEntry;
use crate::process::Thread;
use crate::procfs::Source;
use crate::procfs::manner::Manner;
use crate::procfs::nodes::NUMBERS;
use crate::procfs::task::who::{PER_NAME, Who, number_of};

/// A number as text, on the stack.
pub(in crate::procfs) struct Decimal([u8; 10], usize);

impl Decimal {
    #[expect(clippy::arithmetic_side_effects, reason = "ten digits hold every number")]
    pub(in crate::procfs) fn new(mut n: u32) -> Self {
        let mut text = Decimal([0; 10], 10);
        loop {
            text.1 -= 1;
            if let Some(slot) = text.0.get_mut(text.1) {
                *slot = b'0' + (n % 10) as u8;
            }
            n /= 10;
            if n == 0 || text.1 == 0 {
                return text;
            }
        }
    }

    pub(in crate::procfs) fn bytes(&self) -> &[u8] {
        self.0.get(self.1..).unwrap_or(&[])
    }
}

/// A descriptor's inode number leaves room for all descriptors.
fn inode_from(who: Who, name: u64, fd: i32) -> u64 {
    let place = u64::from(fd.cast_unsigned()).wrapping_add(1).wrapping_mul(PER_NAME);
    number_of(who.pid, who.tid, name).wrapping_add(place)
}

pub(in crate::procfs) fn inode_of_fd(who: Who, fd: i32) -> u64 {
    inode_from(who, 64, fd)
}

pub(in crate::procfs) fn inode_of_info(who: Who, fd: i32) -> u64 {
    inode_from(who, 1 << 22, fd)
}

/// `infos`: as files of text, not as links.
#[expect(clippy::arithmetic_side_effects, reason = "numbers of descriptors are small")]
pub(in crate::procfs) fn list_descriptors(
    files: Shown<'_>,
    who: Who,
    infos: bool,
    position: u64,
    emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
) {
    let mut from = position.saturating_sub(NUMBERS) as usize;
    while let Some(fd) = files.next_used(from) {
        let n = fd.cast_unsigned();
        from = n as usize + 1;
        let (name, next) = (Decimal::new(n), NUMBERS + u64::from(n) + 1);
        let (kind, number) = if infos {
            (Kind::Regular, inode_of_info(who, fd))
        } else {
            (Kind::Symlink, inode_of_fd(who, fd))
        };
        if !emit(&DirEntry { name: name.bytes(), number, kind, next }) || crate::sched::give_way() {
            return;
        }
    }
}

/// The open file that a thread's descriptor refers to.
pub(in crate::procfs) fn file_of(thread: &Thread, fd: i32) -> Result<Arc<File>> {
    thread.with_files(|files| files.get(fd)).ok_or(ENOENT)?.map_err(|_| ENOENT)
}

/// A file of `fdinfo`.
pub(in crate::procfs) struct InfoOf {
    pub who: Who,
    pub fd: i32,
}

impl Source for InfoOf {
    fn manner(&self) -> Manner {
        Manner::Lines
    }

    fn text(&self, out: &mut Vec<u8>) -> Result {
        let (_, thread) = self.who.find().map_err(|_| ENOENT)?;
        let look = |files: Shown<'_>| -> Result<_> {
            Ok((files.get(self.fd)?, files.close_on_exec(self.fd)?, files.lock_owner()))
        };
        let found = thread.with_files(look).ok_or(ENOENT)?;
        let (file, close_on_exec, owner) = found.map_err(|_| ENOENT)?;
        let mut flags = file.flags_told();
        flags.set(OpenFlags::CLOEXEC, close_on_exec);
        let inode = file.inode();
        let written = write!(
            Text(out),
            "pos:\t{}\nflags:\t0{:o}\nmnt_id:\t{}\nino:\t{}\n",
            file.position_seen(),
            flags.bits(),
            file.path().map_or(0, |path| path.mount.id),
            inode.number,
        );
        written.map_err(|_| ENOMEM)?;
        inode.locks.tell(inode, file.lock_holder(), owner, out)?;
        if file.flags().contains(OpenFlags::PATH) { Ok(()) } else { file.ops().tell(&file, out) }
    }
}
