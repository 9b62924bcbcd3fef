//! System calls on descriptors: reading and writing. The rest is in the files beside this one.
#![forbid(unsafe_code)]

mod cache;
mod data;
mod descriptor;
mod dnotify;
mod lease;
mod lock;
mod make;
mod owner;
mod splice;

pub use cache::sys_cachestat;
pub use data::*;
pub use descriptor::*;
pub use lock::sys_flock;
pub use make::*;
pub use splice::*;

use alloc::vec::Vec;

use sync::TryVec;
use sync::rcu::Lent;

use crate::errno::*;
use crate::fs::file::buffer::{Input, Output, Segment};
use crate::fs::file::told;
use crate::fs::vfs::notify::{self, events};
use crate::fs::{File, OpenFlags, caller};
use crate::memory::user::UserSlice;
use crate::process::io;

/// Most that one call moves, as on Linux.
pub const TRANSFER_MAX: usize = 0x7fff_f000;
/// UIO_MAXIOV.
const SEGMENTS_MAX: usize = 1024;

pub use caller::file;

/// The same of one that is open for more than its place (O_PATH); EBADF otherwise.
#[inline]
pub fn opened(fd: i32) -> Result<Lent<File>> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    Ok(file)
}

/// The files that a call takes bytes from and puts them into. EBADF: they are not open for that.
fn source_and_target(from: i32, to: i32) -> Result<(Lent<File>, Lent<File>)> {
    let (from, to) = (file(from)?, file(to)?);
    if !from.flags().reads() || !to.flags().writes() {
        return Err(EBADF);
    }
    Ok((from, to))
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

impl Way {
    /// EBADF: `file` is not open for it; EINVAL: a file of its kind has nothing to read or write.
    fn check(self, file: &File) -> Result {
        if self == Way::Read { file.check_reads() } else { file.check_writes() }
    }
}

/// The segment of a plain read or write, at a place or at the file's own.
///
/// # Errors
/// EFAULT: it reaches out of user space; EINVAL: the range ends past all offsets. What is wrong with the file is told before.
fn segment(file: &File, way: Way, addr: usize, len: usize, at: Option<u64>) -> Result<Segment> {
    let in_memory = UserSlice::new(addr, len).check();
    let in_file = || at.map_or(Ok(()), |at| file.check_range(Some(at), len));
    if let Err(error) = in_memory.and_then(|_| in_file()) {
        if at.is_some() {
            file.check_places(way == Way::Write)?;
        }
        way.check(file)?;
        return Err(error);
    }
    Ok(Segment { addr, len: len.min(TRANSFER_MAX) })
}

/// An offset argument, which must not be negative.
fn offset(at: i64) -> Result<u64> {
    u64::try_from(at).map_err(|_| EINVAL)
}

/// Reads an array of `struct iovec`, whatever its parts point at.
///
/// # Errors
/// EINVAL: they are too many, or a length is negative. EFAULT. ENOMEM.
#[expect(clippy::arithmetic_side_effects, reason = "at most 1,024 of them")]
pub fn iovec(addr: usize, count: usize) -> Result<Vec<Segment>> {
    if count > SEGMENTS_MAX {
        return Err(EINVAL);
    }
    let mut list = Vec::new();
    for i in 0..count {
        let mut bytes = [0; 16];
        UserSlice::new(addr.wrapping_add(i * 16), 16).read(&mut bytes)?;
        let (base, len) = words(&bytes);
        if isize::try_from(len).is_err() {
            return Err(EINVAL);
        }
        list.try_push(Segment { addr: base, len })?;
    }
    Ok(list)
}

/// Reads an array of `struct iovec`. In Linux's order: no length is negative, then all lie in user space; of one that is alone only what is moved
/// has to.
///
/// # Errors
/// As `iovec`. EFAULT: a part does not lie in user space.
#[expect(clippy::arithmetic_side_effects, reason = "len is at most what is left")]
pub fn segments(addr: usize, count: usize) -> Result<Vec<Segment>> {
    let mut list = iovec(addr, count)?;
    let mut left = TRANSFER_MAX;
    for segment in &mut list {
        let reached = if count == 1 { segment.len.min(left) } else { segment.len };
        UserSlice::new(segment.addr, reached).check()?;
        segment.len = segment.len.min(left);
        left -= segment.len;
    }
    Ok(list)
}

fn words(bytes: &[u8; 16]) -> (usize, usize) {
    let word =
        |skip: usize| bytes.iter().skip(skip).take(8).rev().fold(0usize, |w, b| w << 8 | usize::from(*b));
    (word(0), word(8))
}

/// Counts a transfer, and tells those who watch the file if bytes were moved.
#[inline(always)]
fn told(file: &File, way: Way, moved: Result<usize>) -> Result<usize> {
    if way == Way::Read {
        io::note_read(&moved)
    } else {
        io::note_write(&moved)
    }
    if notify::is_used() && moved.is_ok_and(|n| n > 0) {
        told::on_file(file, if way == Way::Read { events::ACCESS } else { events::MODIFY });
    }
    moved
}

pub fn sys_read(fd: i32, addr: usize, len: usize) -> Result<usize> {
    let file = file(fd)?;
    let segment = [segment(&file, Way::Read, addr, len, None)?];
    told(&file, Way::Read, file.read(&mut Output::user(&segment)))
}

pub fn sys_write(fd: i32, addr: usize, len: usize) -> Result<usize> {
    let file = file(fd)?;
    let segment = [segment(&file, Way::Write, addr, len, None)?];
    told(&file, Way::Write, file.write(&mut Input::user(&segment)))
}

pub fn sys_pread64(fd: i32, addr: usize, len: usize, at: i64) -> Result<usize> {
    let at = offset(at)?;
    let file = file(fd)?;
    let segment = [segment(&file, Way::Read, addr, len, Some(at))?];
    told(&file, Way::Read, file.read_at(at, &mut Output::user(&segment)))
}

pub fn sys_pwrite64(fd: i32, addr: usize, len: usize, at: i64) -> Result<usize> {
    let at = offset(at)?;
    let file = file(fd)?;
    let segment = [segment(&file, Way::Write, addr, len, Some(at))?];
    told(&file, Way::Write, file.write_at(at, &mut Input::user(&segment)))
}

/// Segments without a byte among them are read and written by no file.
fn is_empty(segments: &[Segment]) -> bool {
    segments.iter().all(|segment| segment.len == 0)
}

/// RWF_HIPRI, RWF_DSYNC and RWF_SYNC ask for nothing that memory would not do.
const HIGH_PRIORITY: u32 = 1;
const WRITE_THROUGH: u32 = 2 | 4;
/// RWF_APPEND: writes at the end; RWF_NOAPPEND: at the place that is named, though the file was opened with O_APPEND.
const APPEND: u32 = 16;
const NO_APPEND: u32 = 32;

/// RWF_NOWAIT.
const NO_WAIT: u32 = 8;

/// May a transfer of `len` bytes to or from this file, at a place or at its own, have these flags? Before them the place is looked at.
fn check_flags(file: &File, way: Way, at: Option<u64>, len: usize, flags: u32) -> Result {
    if flags == 0 {
        return Ok(());
    }
    file.check_range(at, len)?;
    let refused = flags & !HIGH_PRIORITY != 0 && !file.ops().takes_flags(way == Way::Write);
    if refused || flags & !(HIGH_PRIORITY | WRITE_THROUGH | APPEND | NO_APPEND | NO_WAIT) != 0 {
        return Err(EOPNOTSUPP);
    }
    if flags & (APPEND | NO_APPEND) == APPEND | NO_APPEND {
        return Err(EINVAL);
    }
    if flags & NO_WAIT != 0 && !file.ops().takes_nowait(file) { Err(EOPNOTSUPP) } else { Ok(()) }
}

/// Is it the end of the file to which a write with these flags goes?
fn appends(file: &File, flags: u32) -> bool {
    flags & APPEND != 0 || flags & NO_APPEND == 0 && file.flags().contains(OpenFlags::APPEND)
}

/// Reads into segments, at a place or at the file's own.
fn read_vector(fd: i32, addr: usize, count: usize, at: Option<i64>, flags: u32) -> Result<usize> {
    let at = at.map(offset).transpose()?;
    let file = file(fd)?;
    if at.is_some() {
        file.check_places(false)?;
    }
    Way::Read.check(&file)?;
    let segments = segments(addr, count)?;
    if is_empty(&segments) {
        io::note_read(&Ok(0));
        accessed(&file);
        return Ok(0);
    }
    let mut out = Output::user(&segments);
    check_flags(&file, Way::Read, at, out.left(), flags)?;
    out.nowait = flags & NO_WAIT != 0;
    let n = match at {
        Some(at) => file.read_at(at, &mut out),
        None => file.read(&mut out),
    };
    io::note_read(&n);
    let n = n?;
    accessed(&file);
    Ok(n)
}

/// A vector was read: told even where no byte was, as on Linux.
fn accessed(file: &File) {
    if notify::is_used() {
        told::on_file(file, events::ACCESS);
    }
}

/// Writes from segments likewise.
fn write_vector(fd: i32, addr: usize, count: usize, at: Option<i64>, flags: u32) -> Result<usize> {
    let at = at.map(offset).transpose()?;
    let file = file(fd)?;
    if at.is_some() {
        file.check_places(true)?;
    }
    Way::Write.check(&file)?;
    let segments = segments(addr, count)?;
    if is_empty(&segments) {
        io::note_write(&Ok(0));
        return Ok(0);
    }
    let mut from = Input::user(&segments);
    check_flags(&file, Way::Write, at, from.left(), flags)?;
    from.nowait = flags & NO_WAIT != 0;
    let n = match at {
        Some(at) => file.write_at_or_append(at, &mut from, appends(&file, flags)),
        None => file.write_or_append(&mut from, appends(&file, flags)),
    };
    told(&file, Way::Write, n)
}

pub fn sys_readv(fd: i32, addr: usize, count: usize) -> Result<usize> {
    read_vector(fd, addr, count, None, 0)
}

pub fn sys_writev(fd: i32, addr: usize, count: usize) -> Result<usize> {
    write_vector(fd, addr, count, None, 0)
}

pub fn sys_preadv(fd: i32, addr: usize, count: usize, at: i64) -> Result<usize> {
    read_vector(fd, addr, count, Some(at), 0)
}

pub fn sys_pwritev(fd: i32, addr: usize, count: usize, at: i64) -> Result<usize> {
    write_vector(fd, addr, count, Some(at), 0)
}

/// The upper half of the position is zero on 64-bit machines. `at` of -1: the file's own position.
pub fn sys_preadv2(fd: i32, addr: usize, count: usize, at: i64, _high: usize, flags: u32) -> Result<usize> {
    read_vector(fd, addr, count, Some(at).filter(|&at| at != -1), flags)
}

pub fn sys_pwritev2(fd: i32, addr: usize, count: usize, at: i64, _high: usize, flags: u32) -> Result<usize> {
    write_vector(fd, addr, count, Some(at).filter(|&at| at != -1), flags)
}
