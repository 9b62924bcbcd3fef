//! splice(2), tee(2) and vmsplice(2). Bytes are copied, where Linux may move pages; a program sees no difference.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;

use super::{file, opened, segments, source_and_target};
use crate::errno::*;
use crate::fs::anon::pipe::{End, Given};
use crate::fs::file::buffer::{Input, Output, Segment};
use crate::fs::file::told;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::notify::{self, events};
use crate::memory::user::UserPtr;
use crate::net;
use vm::addr::PAGE_SIZE;

const NONBLOCK: u32 = 2;
/// SPLICE_F_MOVE, NONBLOCK, MORE, GIFT.
const KNOWN: u32 = 15;
/// Most that goes into a pipe at once: as much as one of an ordinary user holds.
const GATHERED: usize = 1 << 20;

/// Tells those who watch the files that bytes went from one to the other; of the other first, as on Linux.
fn told(from: &File, to: &File, moved: usize) -> usize {
    if notify::is_used() && moved > 0 {
        told::on_file(to, events::MODIFY);
        told::on_file(from, events::ACCESS);
    }
    moved
}

/// A place in a file that the program may have given.
struct Position {
    pointer: UserPtr<i64>,
    given: Option<i64>,
}

impl Position {
    fn read(address: usize) -> Result<Position> {
        let pointer = UserPtr::<i64>::new(address);
        Ok(Position { pointer, given: pointer.non_null().map(UserPtr::read).transpose()? })
    }

    /// Where `len` bytes go in a file that is no pipe.
    ///
    /// # Errors
    /// EINVAL: the file has no places, or the range none of its own.
    fn check(&self, file: &File, writing: bool, len: usize) -> Result<Option<u64>> {
        if self.given.is_some() && !file.ops().takes_places(writing) {
            return Err(EINVAL);
        }
        let at = self.given.map(|at| u64::try_from(at).map_err(|_| EINVAL)).transpose()?;
        file.check_range(at, len)?;
        Ok(at)
    }

    fn advance(&self, n: usize) -> Result {
        if let Some(at) = self.given {
            self.pointer.write(&at.saturating_add_unsigned(n as u64))?;
        }
        Ok(())
    }
}

pub fn sys_splice(
    in_fd: i32,
    in_offset: usize,
    out_fd: i32,
    out_offset: usize,
    len: usize,
    flags: u32,
) -> Result<usize> {
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let (from, to) = (opened(in_fd)?, opened(out_fd)?);
    let (source, target) = (from.downcast::<End>(), to.downcast::<End>());
    // A place in a pipe is told before what the descriptors are open for.
    if source.is_some() && in_offset != 0 || target.is_some() && out_offset != 0 {
        return Err(ESPIPE);
    }
    let (out_position, in_position) = (Position::read(out_offset)?, Position::read(in_offset)?);
    if !from.flags().reads() || !to.flags().writes() {
        return Err(EBADF);
    }
    if source.is_none() && target.is_none() {
        return Err(EINVAL);
    }
    if let (Some(a), Some(b)) = (source, target)
        && alloc::sync::Arc::ptr_eq(&a.pipe, &b.pipe)
    {
        return Err(EINVAL);
    }
    if to.flags().contains(OpenFlags::APPEND) && target.is_none() {
        return Err(EINVAL);
    }
    let in_at = if source.is_none() { in_position.check(&from, false, len)? } else { None };
    let out_at = if target.is_none() { out_position.check(&to, true, len)? } else { None };
    if target.is_none() && !to.ops().takes_spliced() {
        return Err(EINVAL);
    }
    let wait = flags & NONBLOCK == 0;
    let moved = match (source, target) {
        (Some(source), Some(target)) => {
            let waits = wait && !from.nonblocking() && !to.nonblocking();
            let moved = source.pipe.give(&target.pipe, len, Given::Moved, waits.then_some((&from, &to)))?;
            return Ok(told(&from, &to, moved));
        }
        (Some(source), None) => {
            let waits = wait && !from.nonblocking();
            let mut at = out_at;
            source.pipe.splice_to(len, waits.then_some(&from), |data| match &mut at {
                Some(place) => {
                    let written = to.write_at(*place, data)?;
                    *place = place.saturating_add(written as u64);
                    Ok(written)
                }
                None => to.write(data),
            })?
        }
        (None, Some(target)) => into_pipe((&from, wait), in_at, target, &to, len, wait && !to.nonblocking())?,
        (None, None) => return Err(EINVAL),
    };
    told(&from, &to, moved);
    in_position.advance(moved)?;
    out_position.advance(moved)?;
    Ok(moved)
}

/// From a file into the pipe of `to`: no more is read than there is room for, since what was read must arrive. `waits`: for room. Whether it
/// waits for bytes, a socket is told; other files know only how they are open, as on Linux.
fn into_pipe(
    (from, waits_for_bytes): (&File, bool),
    at: Option<u64>,
    target: &End,
    to: &File,
    len: usize,
    waits: bool,
) -> Result<usize> {
    let room = target.pipe.wait_room(waits.then_some(to))?;
    if !from.ops().splices() {
        return Err(EINVAL);
    }
    let mut buffer: Vec<u8> = Vec::new();
    buffer.try_resize(len.min(room).min(GATHERED), 0)?;
    let mut out = Output::kernel(&mut buffer);
    out.nowait = !waits_for_bytes && net::of_file(from).is_some();
    let n = match at {
        Some(at) => from.read_at(at, &mut out)?,
        None => from.read(&mut out)?,
    };
    // Another writer may have been faster: then this waits, asked to or not.
    target.pipe.write(&mut Input::kernel(buffer.get(..n).unwrap_or(&[])), Some(to))
}

fn ends<'a>(from: &'a File, to: &'a File) -> Result<(&'a End, &'a End)> {
    match (from.downcast::<End>(), to.downcast::<End>()) {
        (Some(a), Some(b)) if !alloc::sync::Arc::ptr_eq(&a.pipe, &b.pipe) => Ok((a, b)),
        _ => Err(EINVAL),
    }
}

pub fn sys_tee(in_fd: i32, out_fd: i32, len: usize, flags: u32) -> Result<usize> {
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let (from, to) = source_and_target(in_fd, out_fd)?;
    let (source, target) = ends(&from, &to)?;
    let wait = flags & NONBLOCK == 0 && !from.nonblocking() && !to.nonblocking();
    let moved = source.pipe.give(&target.pipe, len, Given::Copied, wait.then_some((&from, &to)))?;
    if notify::is_used() && moved > 0 {
        told::on_file(&from, events::ACCESS);
        told::on_file(&to, events::MODIFY);
    }
    Ok(moved)
}

/// As many bytes of `segments` as a pipe with `room` takes: on Linux each page of the program's takes one of the pipe's, however little of it is
/// given.
fn fitting(segments: &[Segment], room: usize) -> usize {
    let (mut pages, mut bytes) = ((room / PAGE_SIZE).max(1), 0usize);
    for segment in segments.iter().filter(|segment| segment.len > 0) {
        let skipped = segment.addr % PAGE_SIZE;
        let wanted = skipped.saturating_add(segment.len).div_ceil(PAGE_SIZE);
        if wanted >= pages {
            let last = pages.saturating_mul(PAGE_SIZE).saturating_sub(skipped);
            return bytes.saturating_add(last.min(segment.len));
        }
        pages = pages.saturating_sub(wanted);
        bytes = bytes.saturating_add(segment.len);
    }
    bytes
}

/// Whether the open file waits is not asked, as on Linux: the flag alone says it.
pub fn sys_vmsplice(fd: i32, address: usize, count: usize, flags: u32) -> Result<usize> {
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    let file = file(fd)?;
    if !file.flags().writes() && !file.flags().reads() {
        return Err(EBADF);
    }
    let segments = segments(address, count)?;
    let wait = flags & NONBLOCK == 0;
    if !file.flags().writes() {
        let mut out = Output::user(&segments);
        if out.left() == 0 {
            return Ok(0);
        }
        let read = file.downcast::<End>().ok_or(EBADF)?.pipe.read(&mut out, wait.then_some(&file));
        return super::told(&file, super::Way::Read, read);
    }
    let mut from = Input::user(&segments);
    if from.left() == 0 {
        return Ok(0);
    }
    let pipe = &file.downcast::<End>().ok_or(EBADF)?.pipe;
    // It waits for room once, and takes what fits then: more than the pipe holds never arrives. Bytes before a fault count, unlike
    // those of a write, so they are gathered first.
    let waits = wait.then_some(&*file);
    let mut room = pipe.wait_room(waits)?;
    let mut gathered = Vec::new();
    gathered.try_resize(from.left().min(fitting(&segments, room)).min(GATHERED), 0)?;
    let len = from.take(&mut gathered);
    from.result()?;
    loop {
        let mut data = Input::kernel(gathered.get(..len).unwrap_or(&[]));
        data.limit(room);
        match pipe.write(&mut data, None) {
            // Another writer was faster.
            Err(EAGAIN) if wait => room = pipe.wait_room(waits)?,
            written => return super::told(&file, super::Way::Write, written),
        }
    }
}
