//! Extended attributes of a server's files: those of users, `trusted.` and `security.` (capabilities of programs). Access control lists the
//! server applies itself, as on Linux without the mount's option for them.
//!
//! What was said is kept as long as attributes are believed, and no longer than the file's change time is the same: short values of a few names, and
//! that there are none, or cannot be.
//!
//! Lock order: what is kept is innermost; nothing is freed under it.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::mem;

use sync::{SpinLock, TryVec, lock_class};

use super::client::Kept;
use super::inode::Node;
use super::message::Ask;
use super::remote::Change;
use crate::device::virtio::share::DATA_HEAD;
use crate::errno::{E2BIG, EINTR, EIO, ENODATA, EOPNOTSUPP, Result};
use crate::fs::vfs::clock;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::operations::XattrMode;
use crate::fs::vfs::xattr::{SIZE_MAX, is_trusted, kept_name};
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! { static ASKED: LockClass = ("remote file's attributes", level::RemoteXattrs); }

/// Names whose answers are kept for one inode.
const MOST: usize = 4;
/// Bytes of a value that is kept.
const SHORT: usize = 256;

/// Answers about one inode.
pub struct Asked(SpinLock<Answers, level::RemoteXattrs>);

struct Answers {
    /// Until when they are believed, ns since boot, and the change time of the file then.
    until: u64,
    changed: i64,
    /// The name is empty for the list. An error: ENODATA, EOPNOTSUPP.
    all: Vec<(Vec<u8>, Result<Vec<u8>>)>,
}

impl Asked {
    pub const fn new() -> Asked {
        Asked(SpinLock::new(Answers { until: 0, changed: 0, all: Vec::new() }, &ASKED))
    }

    /// What was said of the name, if that is believed yet. Appends the value to `out`.
    fn get(&self, name: &[u8], changed: i64, out: &mut Vec<u8>) -> Option<Result> {
        let answers = self.0.lock();
        if answers.changed != changed || answers.until <= clock::since_boot() {
            return None;
        }
        let (_, value) = answers.all.iter().find(|(known, _)| known == name)?;
        Some(match value {
            Ok(value) => out.try_extend_from_slice(value).map_err(Into::into),
            Err(error) => Err(*error),
        })
    }

    /// Nothing that was said holds any more.
    fn forget(&self) {
        let mut answers = self.0.lock();
        let old = mem::take(&mut answers.all);
        answers.until = 0;
        drop(answers);
        drop(old);
    }

    /// Keeps an answer until then. Without memory it is asked for again.
    fn put(&self, name: &[u8], value: Result<&[u8]>, until: u64, changed: i64) {
        let value = match value {
            Ok(value) if value.len() > SHORT => return,
            Ok(value) => match Vec::try_from_slice(value) {
                Ok(value) => Ok(value),
                Err(_) => return,
            },
            Err(error) => Err(error),
        };
        let Ok(name) = Vec::try_from_slice(name) else { return };
        let mut new = Vec::new();
        if new.try_reserve_exact(MOST).is_err() {
            return;
        }
        let mut answers = self.0.lock();
        // What is replaced is freed when the lock is given back.
        let mut old = (Vec::new(), None);
        if answers.changed != changed || answers.until != until || answers.all.len() >= MOST {
            old.0 = mem::replace(&mut answers.all, new);
            (answers.until, answers.changed) = (until, changed);
        }
        match answers.all.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => old.1 = Some(mem::replace(known, (name, value))),
            // There is room.
            None => drop(answers.all.try_push((name, value))),
        }
        drop(answers);
        drop(old);
    }
}

/// Appends the attribute's value to `out`. May sleep.
///
/// # Errors
/// ENODATA, EOPNOTSUPP; E2BIG: it is longer than any may be. Those of the server.
pub fn get(node: &Node, inode: &Inode, name: &[u8], out: &mut Vec<u8>) -> Result {
    kept_name(name)?;
    ask(node, inode, name, out)
}

fn ask(node: &Node, inode: &Inode, name: &[u8], out: &mut Vec<u8>) -> Result {
    node.refresh_old(inode)?;
    let ((_, _, changed), until) = (inode.times(), node.fresh());
    if let Some(known) = node.xattrs.get(name, changed, out) {
        return known;
    }
    let start = out.len();
    match read(node, name, out) {
        Ok(()) => node.xattrs.put(name, Ok(out.get(start..).unwrap_or(&[])), until, changed),
        Err(error @ (ENODATA | EOPNOTSUPP)) => {
            node.xattrs.put(name, Err(error), until, changed);
            return Err(error);
        }
        Err(error) => {
            out.truncate(start);
            return Err(error);
        }
    }
    Ok(())
}

fn read(node: &Node, name: &[u8], out: &mut Vec<u8>) -> Result {
    let client = &node.fs.client;
    let (fid, size) = client.xattr(&node.remote.walked(), name)?;
    let size = usize::try_from(size).ok().filter(|&size| size <= SIZE_MAX).ok_or(E2BIG)?;
    let mut got = 0usize;
    while got < size {
        let (mut answer, count) = client.read(Ask::Read, &fid, got as u64, size.saturating_sub(got))?;
        if count == 0 {
            return Err(EIO);
        }
        let mut bytes = Vec::new();
        answer.copy(DATA_HEAD.saturating_add(count), &mut bytes)?;
        out.try_extend_from_slice(bytes.get(DATA_HEAD..).unwrap_or(&[]))?;
        got = got.saturating_add(count);
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

/// Sets the attribute. The lock of writes is held. May sleep.
///
/// # Errors
/// EEXIST, ENODATA: as `mode` says. EOPNOTSUPP. Those of the server.
pub fn set(node: &Node, inode: &Inode, name: &[u8], value: &[u8], mode: XattrMode) -> Result {
    /// XATTR_CREATE and XATTR_REPLACE, by which the protocol's are called, too.
    const CREATE: u32 = 1;
    const REPLACE: u32 = 2;
    let flags = match mode {
        XattrMode::Any => 0,
        XattrMode::Create => CREATE,
        XattrMode::Replace => REPLACE,
        XattrMode::CreateAndReplace => CREATE | REPLACE,
    };
    change(node, inode, name, value, flags)
}

/// Takes the attribute away, as [`set`].
pub fn remove(node: &Node, inode: &Inode, name: &[u8]) -> Result {
    change(node, inode, name, &[], 0)
}

fn change(node: &Node, inode: &Inode, name: &[u8], value: &[u8], flags: u32) -> Result {
    kept_name(name)?;
    let change: Kept = Change::begin(&[&node.remote], &[])?;
    let said = node.fs.client.set_xattr(&node.remote.walked(), name, value, flags, &change);
    // Also where it failed it may have been done.
    node.make_known(|| {
        node.xattrs.forget();
        if said.is_ok() {
            inode.touch_changed();
        }
    });
    if said.is_err() {
        node.doubt();
    }
    drop(change);
    node.xattrs.forget();
    said
}

/// Appends the names, a NUL after each. May sleep.
///
/// # Errors
/// EIO: the server's list is none. Those of the server.
pub fn list(node: &Node, inode: &Inode, all: bool, out: &mut Vec<u8>) -> Result<usize> {
    let mut names = Vec::new();
    match ask(node, inode, b"", &mut names) {
        Ok(()) => {}
        Err(ENODATA) => return Ok(0),
        Err(error) => return Err(error),
    }
    if names.is_empty() {
        return Ok(0);
    }
    let names = names.strip_suffix(&[0]).ok_or(EIO)?;
    let mut len = 0usize;
    for name in names.split(|&byte| byte == 0) {
        if name.is_empty() {
            return Err(EIO);
        }
        // What is not read here is not told of.
        if kept_name(name) == Err(EOPNOTSUPP) || is_trusted(name) && !all {
            continue;
        }
        out.try_extend_from_slice(name)?;
        out.try_push(0)?;
        len = len.saturating_add(name.len()).saturating_add(1);
    }
    Ok(len)
}
