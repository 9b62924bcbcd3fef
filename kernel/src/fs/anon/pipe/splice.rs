//! splice(2) and tee(2) out of a pipe. Bytes leave it only when they have arrived: they are looked at under its lock, given away, and then
//! taken. So a write that fails loses nothing, and nobody who reads meanwhile sees them, as on Linux.
//!
//! Lock order: two pipes by address; the file that bytes go to is written under the pipe's lock.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;

use sync::TryVec;
use sync::level::Held;

use super::{CHUNK, Pipe};
use crate::errno::{EAGAIN, ENOMEM, ERESTARTSYS, Result};
use crate::fs::anon::ring::Ring;
use crate::fs::caller;
use crate::fs::file::File;
use crate::fs::file::buffer::{Input, Output};

/// What becomes of bytes that another pipe got.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// splice(2).
    Moved,
    /// tee(2).
    Copied,
}

impl Pipe {
    /// Gives up to `len` bytes to `write`, which says how many it took; those are taken out. Waits for the first byte: `file` as for
    /// `read`. Goes on while there are bytes and `write` takes them all. 0: the end of the pipe.
    ///
    /// # Errors
    /// Those of `write` and ENOMEM if nothing was moved; EAGAIN; of who waits EBADF, or a signal.
    pub fn splice_to(
        &self,
        len: usize,
        file: Option<&File>,
        mut write: impl FnMut(&mut Input<'_>) -> Result<usize>,
    ) -> Result<usize> {
        let mut buffer: Vec<u8> = Vec::new();
        buffer.try_resize(len.min(CHUNK), 0)?;
        loop {
            if caller::is_interrupted() {
                return Err(ERESTARTSYS);
            }
            if !self.wait_data(file)? {
                return Ok(0);
            }
            let mut ring = self.ring.lock();
            if ring.len() == 0 {
                // Another reader was faster.
                continue;
            }
            let moved = pour(&mut ring, len, &mut buffer, &mut write);
            self.publish(&ring);
            drop(ring);
            self.tell_of_room();
            return moved;
        }
    }

    /// Moves or copies up to `len` bytes to another pipe. Waits for the first byte here and then for room there: `files` as for `read` and
    /// `write`. 0: the end of the pipe.
    ///
    /// # Errors
    /// EPIPE with SIGPIPE: nobody reads there; ENOMEM; EAGAIN; of who waits EBADF, or a signal.
    pub fn give(&self, to: &Pipe, len: usize, given: Given, files: Option<(&File, &File)>) -> Result<usize> {
        let (from_file, to_file) = files.unzip();
        loop {
            if !self.wait_data(from_file)? {
                return Ok(0);
            }
            to.wait_room(to_file)?;
            let (moved, missing, seen) = self.with_both(to, |source, target| {
                let moved = source.copy_to(target, len);
                let missing = source.fits_into(target);
                if given == Given::Moved {
                    source.skip(moved);
                    self.publish(source);
                }
                to.publish(target);
                (moved, missing, target.len())
            });
            if moved > 0 {
                if given == Given::Moved {
                    self.tell_of_room();
                }
                to.readable.wake_one_for_io_and_give_way();
                return Ok(moved);
            }
            if missing {
                // There was room, but no memory for it.
                return Err(ENOMEM);
            }
            if files.is_none() {
                return Err(EAGAIN);
            }
            if self.len() > 0 && seen < to.capacity.load(SeqCst) {
                // There is room, but for no packet.
                to.wait_change(seen, to_file)?;
            }
        }
    }

    /// Both rings, locked by address.
    fn with_both<R>(&self, to: &Pipe, f: impl FnOnce(&mut Ring, &mut Ring) -> R) -> R {
        let upwards = ptr::from_ref(self).addr() < ptr::from_ref(to).addr();
        let (first, second) = if upwards { (self, to) } else { (to, self) };
        let mut clean = Held::clean();
        let mut first = first.ring.lock_in(&mut clean);
        let (first, order) = first.split();
        let mut second = second.ring.lock_nested_in(order);
        if upwards { f(first, &mut second) } else { f(&mut second, first) }
    }
}

/// Gives bytes of `ring` to `write` until `len` are gone, none is left, or `write` takes less than it got.
#[expect(clippy::arithmetic_side_effects, reason = "no more is done than len")]
fn pour(
    ring: &mut Ring,
    len: usize,
    buffer: &mut [u8],
    write: &mut impl FnMut(&mut Input<'_>) -> Result<usize>,
) -> Result<usize> {
    let mut done = 0;
    while done < len && ring.len() > 0 {
        let most = buffer.len().min(len - done);
        let Some(part) = buffer.get_mut(..most) else { break };
        let n = ring.peek(&mut Output::kernel(part));
        match write(&mut Input::kernel(part.get(..n).unwrap_or(&[]))) {
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
            Ok(taken) => {
                let taken = taken.min(n);
                ring.skip(taken);
                done += taken;
                if taken < n || caller::is_interrupted() {
                    break;
                }
            }
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{nonblocking, read, write};
    use super::super::{End, PAGES};
    use super::*;
    use crate::errno::{EFBIG, ENOSPC};
    use crate::fs::anon::ring::PAGE;
    use crate::testing::in_process;
    use std::vec;

    fn pipe(file: &File) -> &Pipe {
        &file.downcast::<End>().unwrap().pipe
    }

    #[test]
    fn what_a_file_does_not_take_stays_in_order() {
        in_process(|| {
            let (reader, writer) = nonblocking();
            let bytes: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
            assert_eq!(write(&writer, &bytes), Ok(bytes.len()));
            assert_eq!(pipe(&reader).splice_to(9000, None, |_| Err(ENOSPC)), Err(ENOSPC));
            let mut got = vec![0; 9000];
            let some = pipe(&reader).splice_to(9000, None, |from| Ok(from.take(&mut got[..4999])));
            assert_eq!((some, &got[..4999]), (Ok(4999), &bytes[..4999]));
            assert_eq!(read(&reader, 20_000), Ok(bytes[4999..].to_vec()));
            assert_eq!(pipe(&reader).splice_to(1, None, |_| Ok(1)), Err(EAGAIN));
        });
    }

    #[test]
    fn more_than_a_buffer_goes_in_pieces_and_ends_where_one_fails() {
        in_process(|| {
            let (reader, writer) = nonblocking();
            writer.downcast::<End>().unwrap().set_capacity(CHUNK * 4).unwrap();
            assert_eq!(write(&writer, &vec![7; CHUNK * 3]), Ok(CHUNK * 3));
            let mut pieces = Vec::new();
            let moved = pipe(&reader).splice_to(usize::MAX, None, |from| {
                pieces.push(from.left());
                if pieces.len() < 3 { Ok(from.left()) } else { Err(EFBIG) }
            });
            assert_eq!((moved, pieces), (Ok(CHUNK * 2), vec![CHUNK; 3]));
            assert_eq!(read(&reader, CHUNK * 4), Ok(vec![7; CHUNK]));
        });
    }

    #[test]
    fn between_pipes_only_what_fits_leaves() {
        in_process(|| {
            let (reader, writer) = nonblocking();
            let (far, full) = nonblocking();
            assert_eq!(write(&full, &vec![1; PAGES * PAGE - 100]), Ok(PAGES * PAGE - 100));
            assert_eq!(write(&writer, &[2; 300]), Ok(300));
            assert_eq!(pipe(&reader).give(pipe(&full), 1000, Given::Copied, None), Ok(100));
            assert_eq!(pipe(&reader).give(pipe(&full), 1000, Given::Moved, None), Err(EAGAIN));
            assert_eq!(
                read(&far, PAGES * PAGE - 50),
                Ok([vec![1; PAGES * PAGE - 100], vec![2; 50]].concat())
            );
            assert_eq!(pipe(&reader).give(pipe(&full), 40, Given::Moved, None), Ok(40));
            assert_eq!(read(&far, 1000), Ok(vec![2; 90]));
            assert_eq!(read(&reader, 1000), Ok(vec![2; 260]));
        });
    }

    #[test]
    fn without_memory_nothing_leaves() {
        in_process(|| {
            let (reader, writer) = nonblocking();
            let (_far, near) = nonblocking();
            assert_eq!(write(&writer, b"abc"), Ok(3));
            let moved =
                sync::heap::hosted::fail_after(0, || pipe(&reader).give(pipe(&near), 3, Given::Moved, None));
            assert_eq!(moved, Err(ENOMEM));
            assert_eq!(read(&reader, 9), Ok(b"abc".to_vec()));
        });
    }
}
