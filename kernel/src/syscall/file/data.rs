//! Moving within files and between them: lseek, getdents64, sendfile, copy_file_range, syncing.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;
use zerocopy::{Immutable, IntoBytes};

use super::{TRANSFER_MAX, file};
use crate::errno::*;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::told;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::mount;
use crate::fs::vfs::notify::{self, events};
use crate::fs::vfs::operations::DirEntry;
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::io;

pub fn sys_lseek(fd: i32, offset: i64, whence: u32) -> Result<usize> {
    Ok(file(fd)?.seek(offset, whence)? as usize)
}

/// Entries are gathered here and copied out afterwards, so that no fault is taken under a directory's lock.
const LISTING_MAX: usize = 32 << 10;
/// Bytes of them for which room is made first.
const LISTING_FIRST: usize = 512;

/// What a record of a directory's entry looks like.
#[derive(Clone, Copy)]
enum Record {
    /// `struct linux_dirent`: inode, next position, size of the record, name with its NUL; the record's last byte is the type.
    Old,
    /// `struct linux_dirent64`: inode, next position, size of the record, type, name with its NUL.
    New,
}

impl Record {
    /// How large it is with a name of `len` bytes.
    #[expect(clippy::arithmetic_side_effects, reason = "names are short")]
    fn size(self, len: usize) -> usize {
        // Before a name there is a type, or behind it.
        (match self {
            Record::Old => 18 + len + 2,
            Record::New => 19 + len + 1,
        })
        .next_multiple_of(8)
    }

    /// Appends that of `entry` to `list`.
    #[expect(clippy::arithmetic_side_effects, reason = "names are short, and the list is below its limit")]
    fn put(self, entry: &DirEntry<'_>, list: &mut Vec<u8>) -> Result {
        let (start, size) = (list.len(), self.size(entry.name.len()));
        list.try_resize(start + size, 0)?;
        let record = list.get_mut(start..).unwrap_or(&mut []);
        let Some((head, rest)) = record.split_first_chunk_mut::<{ size_of::<Head>() }>() else {
            return Ok(());
        };
        *head = zerocopy::transmute!(Head { number: entry.number, next: entry.next, size: size as u16 });
        let (kind, name) = match self {
            Record::Old => rest.split_last_mut(),
            Record::New => rest.split_first_mut(),
        }
        .unzip();
        if let Some(kind) = kind {
            *kind = entry.kind.dirent_type();
        }
        if let Some(name) = name.and_then(|name| name.get_mut(..entry.name.len())) {
            name.copy_from_slice(entry.name);
        }
        Ok(())
    }
}

/// What each record begins with.
#[derive(IntoBytes, Immutable)]
#[repr(C, packed)]
struct Head {
    number: u64,
    next: u64,
    size: u16,
}

pub fn sys_getdents(fd: i32, addr: usize, len: u32) -> Result<usize> {
    list(Record::Old, fd, addr, len as usize)
}

pub fn sys_getdents64(fd: i32, addr: usize, len: u32) -> Result<usize> {
    list(Record::New, fd, addr, len as usize)
}

#[expect(clippy::arithmetic_side_effects, reason = "names are short, and the list is below its limit")]
fn list(record: Record, fd: i32, addr: usize, len: usize) -> Result<usize> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    if !file.inode().is_dir() {
        return Err(ENOTDIR);
    }
    let room = len.min(LISTING_MAX);
    let mut list: Vec<u8> = Vec::new();
    // A small directory takes no more; whether there is memory is found out below.
    let _ = list.try_reserve(room.min(LISTING_FIRST));
    let mut full = false;
    let mut failed = false;
    let start = *file.position.lock();
    file.read_dir(&mut |entry| {
        if list.len() + record.size(entry.name.len()) > room {
            full = true;
            return false;
        }
        failed = record.put(entry, &mut list).is_err();
        !failed
    })?;
    if list.is_empty() && failed {
        return Err(ENOMEM);
    }
    if list.is_empty() && full {
        return Err(EINVAL);
    }
    if let Err(e) = UserSlice::new(addr, list.len()).write(&list) {
        *file.position.lock() = start;
        return Err(e);
    }
    Ok(list.len())
}

/// Always succeeds, as on Linux; what could not be written is said by fsync.
pub fn sys_sync() -> Result<usize> {
    let mounts = mount::everywhere()?;
    for wait in [false, true] {
        for mount in &mounts {
            if let Err(error) = mount.superblock.ops.sync(&mount.superblock, wait) {
                crate::warn!("sync of {}: {error:?}", mount.superblock.kind.name);
            }
        }
    }
    Ok(0)
}

pub fn sys_fsync(fd: i32) -> Result<usize> {
    write_back(fd, false)
}

pub fn sys_fdatasync(fd: i32) -> Result<usize> {
    write_back(fd, true)
}

fn write_back(fd: i32, data_only: bool) -> Result<usize> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    match file.inode().kind {
        Kind::Regular | Kind::Directory => {
            file.ops().sync(&file, data_only)?;
            Ok(0)
        }
        Kind::Block => file.ops().sync_device().map(|()| 0),
        _ => Err(EINVAL),
    }
}

pub fn sys_syncfs(fd: i32) -> Result<usize> {
    if let Some(path) = file(fd)?.path() {
        path.mount.superblock.ops.sync(&path.mount.superblock, true)?;
    }
    Ok(0)
}

/// sync_file_range(2). What lies in memory alone has nothing to wait for; who wants a promise asks fsync.
pub fn sys_sync_file_range(fd: i32, start: i64, len: i64, flags: u32) -> Result<usize> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    let end = start.wrapping_add(len);
    if flags & !7 != 0 || start < 0 || end < start {
        return Err(EINVAL);
    }
    match file.inode().kind {
        Kind::Block | Kind::Directory => Ok(0),
        _ if file.ops().is_regular(&file) => Ok(0),
        _ => Err(ESPIPE),
    }
}

pub fn sys_fadvise64(fd: i32, _start: i64, len: i64, advice: i32) -> Result<usize> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    if file.inode().kind == Kind::Fifo {
        return Err(ESPIPE);
    }
    if len >= 0 && (0..=5).contains(&advice) { Ok(0) } else { Err(EINVAL) }
}

pub fn sys_readahead(fd: i32, _start: i64, len: usize) -> Result<usize> {
    let file = file(fd)?;
    if !file.flags().reads() {
        return Err(EBADF);
    }
    let negative = isize::try_from(len).is_err();
    if file.ops().is_regular(&file) && !negative { Ok(0) } else { Err(EINVAL) }
}

/// Bytes that go through the kernel at a time.
const CHUNK: usize = 16 << 10;

/// A place in a file: a position given by the caller, or the file's own.
struct Side<'a> {
    file: &'a File,
    at: Option<u64>,
}

/// Copies up to `len` bytes. What was read and could not be written is given back.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "done is at most len; files end at 2^63, where they are read and written no further"
)]
fn copy(from: &mut Side<'_>, to: &mut Side<'_>, len: usize) -> Result<usize> {
    let mut buffer: Vec<u8> = Vec::new();
    buffer.try_resize(CHUNK.min(len.max(1)), 0)?;
    let mut done = 0;
    while done < len {
        let want = (len - done).min(buffer.len());
        let Some(part) = buffer.get_mut(..want) else { break };
        let mut out = Output::kernel(part);
        let read = match from.at {
            Some(at) => from.file.read_at(at, &mut out),
            None => from.file.read(&mut out),
        };
        let n = match read {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        };
        let mut input = Input::kernel(part.get(..n).unwrap_or(&[]));
        let written = match to.at {
            _ if !to.file.ops().takes_spliced() => Err(EINVAL),
            Some(at) => to.file.write_at(at, &mut input),
            None => to.file.write(&mut input),
        };
        let written_count = *written.as_ref().unwrap_or(&0);
        let back = (n - written_count.min(n)) as u64;
        if from.at.is_none() && back > 0 {
            let mut position = from.file.position.lock();
            *position = position.saturating_sub(back);
        }
        if let Some(at) = &mut from.at {
            *at += written_count as u64;
        }
        if let Some(at) = &mut to.at {
            *at += written_count as u64;
        }
        done += written_count;
        match written {
            Ok(w) if w == n => {}
            Err(e) if done == 0 => return Err(e),
            _ => break,
        }
        if crate::sched::give_way() {
            break;
        }
    }
    io::note_read(&Ok(done));
    io::note_write(&Ok(done));
    if notify::is_used() && done > 0 {
        told::on_file(from.file, events::ACCESS);
        told::on_file(to.file, events::MODIFY);
    }
    Ok(done)
}

/// Where files end at the latest on the file's file system.
fn largest(file: &File) -> u64 {
    file.path().map_or(i64::MAX as u64, |path| path.mount.superblock.ops.largest_file())
}

pub fn sys_sendfile(out_fd: i32, in_fd: i32, offset: usize, len: usize) -> Result<usize> {
    // In this order, for the errors: the place, where it is taken from, where it goes.
    let position = UserPtr::<i64>::new(offset);
    let given = position.non_null().map(UserPtr::read).transpose()?;
    let from = file(in_fd)?;
    if !from.flags().reads() {
        return Err(EBADF);
    }
    let at = match given {
        Some(at) => {
            from.check_places(false)?;
            Some(u64::try_from(at).map_err(|_| EINVAL)?)
        }
        None => None,
    };
    let start = at.unwrap_or_else(|| if from.ops().seeks() { *from.position.lock() } else { 0 });
    if start.checked_add(len as u64).is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(EINVAL);
    }
    let to = file(out_fd)?;
    if !to.flags().writes() {
        return Err(EBADF);
    }
    // What lies past the end of either file system's files is not asked for.
    let last = largest(&from).min(largest(&to));
    let len = if start.saturating_add(len as u64) > last {
        let left = last.checked_sub(start).filter(|&left| left > 0).ok_or(EOVERFLOW)?;
        usize::try_from(left).unwrap_or(usize::MAX)
    } else {
        len
    };
    if !from.ops().seeks() || to.flags().contains(OpenFlags::APPEND) {
        return Err(EINVAL);
    }
    if len > 0 && !from.ops().splices() {
        return Err(EINVAL);
    }
    let mut from = Side { file: &from, at };
    let n = copy(&mut from, &mut Side { file: &to, at: None }, len.min(TRANSFER_MAX))?;
    if let Some(at) = from.at {
        position.write(&at.cast_signed())?;
    }
    Ok(n)
}

pub fn sys_copy_file_range(
    in_fd: i32,
    in_offset: usize,
    out_fd: i32,
    out_offset: usize,
    len: usize,
    flags: u32,
) -> Result<usize> {
    let (from, to) = (file(in_fd)?, file(out_fd)?);
    if [&from, &to].iter().any(|file| file.flags().contains(OpenFlags::PATH)) {
        return Err(EBADF);
    }
    let given = |address| -> Result<Option<i64>> {
        UserPtr::<i64>::new(address).non_null().map(UserPtr::read).transpose()
    };
    let (in_at, out_at) = (given(in_offset)?, given(out_offset)?);
    if flags != 0 {
        return Err(EINVAL);
    }
    if from.inode().is_dir() || to.inode().is_dir() {
        return Err(EISDIR);
    }
    if !from.ops().is_regular(&from) || !to.ops().is_regular(&to) {
        return Err(EINVAL);
    }
    if !from.flags().reads() || !to.flags().writes() || to.flags().contains(OpenFlags::APPEND) {
        return Err(EBADF);
    }
    if from.inode().device != to.inode().device {
        return Err(EXDEV);
    }
    if [in_at, out_at].into_iter().flatten().any(|at| at.cast_unsigned().checked_add(len as u64).is_none()) {
        return Err(EOVERFLOW);
    }
    let place = |at: Option<i64>| at.map(|at| u64::try_from(at).map_err(|_| EINVAL)).transpose();
    let (in_at, out_at) = (place(in_at)?, place(out_at)?);
    let start = in_at.unwrap_or(*from.position.lock());
    let there = from.inode().size().saturating_sub(start);
    let len = len.min(TRANSFER_MAX).min(usize::try_from(there).unwrap_or(usize::MAX));
    if core::ptr::eq(from.inode(), to.inode()) {
        let a = start;
        let b = out_at.unwrap_or(*to.position.lock());
        if a < b.saturating_add(len as u64) && b < a.saturating_add(len as u64) {
            return Err(EINVAL);
        }
    }
    if len == 0 {
        return Ok(0);
    }
    let (mut source, mut target) = (Side { file: &from, at: in_at }, Side { file: &to, at: out_at });
    let n = copy(&mut source, &mut target, len)?;
    for (address, at) in [(in_offset, source.at), (out_offset, target.at)] {
        if let Some(at) = at {
            UserPtr::<i64>::new(address).write(&at.cast_signed())?;
        }
    }
    Ok(n)
}
