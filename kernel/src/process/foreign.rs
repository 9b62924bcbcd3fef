//! Another process's memory, copied from and to (process_vm_readv(2), /proc/PID/mem).
//!
//! A page of another space is looked at under its leaf's lock, and copied there as far as the caller's own memory is in its page table. What has to be faulted in first
//! is copied through a buffer. Whoever copies keeps the space, so it lasts to the end of the call though its process may exit meanwhile. Nothing is written that belongs
//! to neither space.
#![forbid(unsafe_code)]

use super::access::{self, By};
use super::{Current, Thread, current, ids};
use crate::errno::{Errno, Result};
use crate::fs::file::buffer::{Input, Output, Segment};
use crate::memory::{HeldSpace, Space};
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::ops::Range;
use core::ptr;
use sync::TryVec;
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::{FaultError, Sink, Source};

/// The memory of the thread with some number.
pub enum Memory {
    /// The caller's own, which is not counted for it.
    Own(Current),
    Other(HeldSpace),
}

impl Memory {
    /// The memory of thread `tid`, if the caller may look into it and change it.
    ///
    /// # Errors
    /// ESRCH: there is no such thread, or it has no memory any more. EPERM.
    pub fn of(tid: u32) -> Result<Memory> {
        let caller = current();
        let found = ids::look_at_thread(tid, |thread| {
            if ptr::eq(&*thread.process, &*caller.process) {
                return None;
            }
            Some((thread.space_of(), access::may_inspect_thread(&caller, thread, By::RealIds)))
        });
        match found {
            None | Some(Some((None, _))) => Err(Errno::ESRCH),
            Some(None) => Ok(Memory::Own(caller)),
            Some(Some((Some(space), may))) => {
                let space = HeldSpace::new(space);
                // Who has the same memory may always.
                let may = may || ptr::eq(&*space, caller.space());
                if may { Ok(Memory::Other(space)) } else { Err(Errno::EPERM) }
            }
        }
    }

    fn space(&self) -> &Space {
        match self {
            Memory::Own(caller) => caller.space(),
            Memory::Other(space) => space,
        }
    }

    /// Copies from `segments` of this memory, one after the other, to `out`, until either ends, or something is not there. Returns the bytes copied. Gives way;
    /// a fatal signal ends it.
    ///
    /// # Errors
    /// EFAULT: not even the first byte is there. ENOMEM.
    pub fn read(&self, segments: &[Segment], out: &mut Output<'_>) -> Result<usize> {
        let mut buffer = Vec::new();
        let copied = for_each_piece(segments, |at, most| {
            let most = most.min(out.left());
            let mut done = 0;
            self.space().show_to_other(at, most, &mut |bytes| done = out.put_now(bytes)).map_err(fault)?;
            out.rest();
            if done == most {
                return Ok(out.left() > 0);
            }
            // The caller's own page has to be brought in.
            let (at, left) = (VirtAddr(at.0.wrapping_add(done)), most.saturating_sub(done));
            let piece = room(&mut buffer, left)?;
            self.space().read_for_other(at, piece).map_err(fault)?;
            Ok(out.put(piece) == left && out.left() > 0)
        });
        match (copied, out.result()) {
            (Err(errno), Ok(0)) => Err(errno),
            (_, result) => result,
        }
    }

    /// Copies from `input` to `segments` of this memory likewise.
    ///
    /// # Errors
    /// As `read`.
    pub fn write(&self, segments: &[Segment], input: &mut Input<'_>) -> Result<usize> {
        let (mut buffer, mut written) = (Vec::new(), 0usize);
        let copied = for_each_piece(segments, |at, most| {
            let most = most.min(input.left());
            let mut done = 0;
            self.space().lend_to_other(at, most, &mut |bytes| done = input.take_now(bytes)).map_err(fault)?;
            written = written.saturating_add(done);
            input.rest();
            if done == most {
                return Ok(input.left() > 0);
            }
            let (at, left) = (VirtAddr(at.0.wrapping_add(done)), most.saturating_sub(done));
            let piece = room(&mut buffer, left)?;
            let taken = input.take(piece);
            self.space().write_for_other(at, piece.get(..taken).unwrap_or(&[])).map_err(fault)?;
            written = written.saturating_add(taken);
            Ok(taken == left && input.left() > 0)
        });
        match copied.and_then(|()| input.result()) {
            Err(errno) if written == 0 => Err(errno),
            _ => Ok(written),
        }
    }
}

/// Memory that a file has opened, and does not keep: when its last program has gone, there is nothing to be read or written.
pub struct Opened(Weak<Space>);

impl Opened {
    /// The memory of `thread`, if the caller may look into it and change it.
    ///
    /// # Errors
    /// ESRCH: it has none any more. EACCES.
    pub fn of(thread: &Thread) -> Result<Opened> {
        let space = HeldSpace::new(thread.space_of().ok_or(Errno::ESRCH)?);
        let caller = current();
        let may = ptr::eq(&*space, caller.space()) || access::may_inspect_thread(&caller, thread, By::FsIds);
        if may { Ok(Opened(space.downgrade())) } else { Err(Errno::EACCES) }
    }

    fn space(&self) -> Option<HeldSpace> {
        self.0.upgrade().map(HeldSpace::new)
    }

    /// Reads at address `at`, whatever the program itself may read, until something is not there. A segment that cannot be filled does not count. Gives way; a
    /// fatal signal ends it.
    ///
    /// # Errors
    /// EIO: not even the first byte is there. EFAULT. ENOMEM.
    pub fn read(&self, mut at: usize, out: &mut Output<'_>) -> Result<usize> {
        let Some(space) = self.space() else { return Ok(0) };
        let (mut buffer, mut done) = (Vec::new(), 0usize);
        while out.left() > 0 {
            let before = done;
            let mut rest = whole_if_empty(out.next_segment(), out.left());
            while rest > 0 && out.left() > 0 {
                let piece = room(&mut buffer, rest.min(PAGE_SIZE))?;
                let there = each_page(at, piece.len(), |at, part| {
                    space.read_for_tracer(at, piece.get_mut(part).unwrap_or(&mut []))
                });
                if there == 0 {
                    return some(done, Errno::EIO);
                }
                let put = out.put(piece.get(..there).unwrap_or(&[]));
                if out.faulted() {
                    return some(before, Errno::EFAULT);
                }
                (at, done, rest) = (at.wrapping_add(put), done.saturating_add(put), rest.saturating_sub(put));
            }
        }
        Ok(done)
    }

    /// Writes there likewise, private memory also where its program may not.
    ///
    /// # Errors
    /// As `read`.
    pub fn write(&self, mut at: usize, input: &mut Input<'_>) -> Result<usize> {
        let Some(space) = self.space() else { return Ok(0) };
        let (mut buffer, mut done) = (Vec::new(), 0usize);
        while input.left() > 0 {
            let before = done;
            let mut rest = whole_if_empty(input.next_segment(), input.left());
            while rest > 0 && input.left() > 0 {
                let piece = room(&mut buffer, rest.min(PAGE_SIZE))?;
                let taken = input.take(piece);
                if input.faulted() {
                    return some(before, Errno::EFAULT);
                }
                let there = each_page(at, taken, |at, part| {
                    space.write_for_tracer(at, piece.get(part).unwrap_or(&[]))
                });
                done = done.saturating_add(there);
                if there < taken {
                    return some(done, Errno::EIO);
                }
                (at, rest) = (at.wrapping_add(taken), rest.saturating_sub(taken));
            }
        }
        Ok(done)
    }
}

/// Of a segment that is empty the next ones are taken together.
fn whole_if_empty(segment: usize, left: usize) -> usize {
    if segment == 0 { left } else { segment }
}

/// So many bytes, if there are any.
fn some(done: usize, otherwise: Errno) -> Result<usize> {
    if done == 0 { Err(otherwise) } else { Ok(done) }
}

/// Calls `f` with the address and the part of the `len` bytes at `at` that lie in one page, a page after the other, until one is not there. How many were.
fn each_page(
    at: usize,
    len: usize,
    mut f: impl FnMut(VirtAddr, Range<usize>) -> core::result::Result<(), FaultError>,
) -> usize {
    let mut done = 0;
    while done < len {
        let here = at.wrapping_add(done);
        let end = done.saturating_add(PAGE_SIZE.saturating_sub(here % PAGE_SIZE)).min(len);
        if f(VirtAddr(here), done..end).is_err() {
            break;
        }
        done = end;
    }
    done
}

/// As Linux has it, whatever kept a page of the other's from being there.
fn fault(_: FaultError) -> Errno {
    Errno::EFAULT
}

/// The first `len` bytes of a buffer, a page at the most, which is made when it is first needed.
fn room(buffer: &mut Vec<u8>, len: usize) -> Result<&mut [u8]> {
    if buffer.is_empty() {
        buffer.try_resize(PAGE_SIZE, 0)?;
    }
    buffer.get_mut(..len).ok_or(Errno::EFAULT)
}

/// Calls `f` with the place of each piece of `segments`, and how many bytes it has: none reaches over a page. False ends it.
fn for_each_piece(segments: &[Segment], mut f: impl FnMut(VirtAddr, usize) -> Result<bool>) -> Result {
    for segment in segments {
        let (mut at, mut left) = (segment.addr, segment.len);
        while left > 0 {
            let piece = left.min(PAGE_SIZE.saturating_sub(at % PAGE_SIZE));
            if !f(VirtAddr(at), piece)? {
                return Ok(());
            }
            (at, left) = (at.wrapping_add(piece), left.saturating_sub(piece));
        }
    }
    Ok(())
}
