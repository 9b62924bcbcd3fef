//! Where a read puts its bytes and where a write takes them: a program's memory, in one or several segments, or the
//! kernel's. Files see only these two types, so that a file's code is the same for read, readv, pread, sendfile and
//! for exec's own reads.
//!
//! A fault on the program's memory ends the transfer: the bytes before it count, and only a transfer that moved
//! nothing fails with EFAULT, as on Linux. Copies to a program may sleep (a fault may read a file), so no spin lock
//! is held across `put` and `take`. So they give the CPU up now and then, whoever calls them, and a killed program's transfer ends there.
#![forbid(unsafe_code)]

use crate::arch;
use crate::errno::{EFAULT, Result};
use crate::sched::give_way;
use vm::frame::{SharedBytes, SharedBytesMut};
use vm::{Sink, Source};

/// One piece of a program's memory, as in `struct iovec`.
#[derive(Clone, Copy, Default)]
pub struct Segment {
    pub addr: usize,
    pub len: usize,
}

/// Zeros are put a page at a time.
const PIECE: usize = 4096;

/// Bytes after which a transfer gives way.
const TURN: usize = 64 << 10;

/// How far a transfer is.
#[derive(Default)]
struct Progress {
    left: usize,
    done: usize,
    /// Of the bytes done, for how many the transfer has given way.
    turns: usize,
    fault: bool,
}

impl Progress {
    fn new(left: usize) -> Self {
        Progress { left, ..Self::default() }
    }

    /// Bytes that can still be moved; none after a fault.
    fn left(&self) -> usize {
        if self.fault { 0 } else { self.left }
    }

    /// `n` bytes were moved. Gives way now and then; a killed program's transfer ends there.
    #[inline]
    fn moved(&mut self, n: usize) {
        self.count(n);
        self.rest();
    }

    /// `n` bytes were moved by who must not give way.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "n is at most what is left")]
    fn count(&mut self, n: usize) {
        self.done += n;
        self.left -= n;
    }

    /// Gives way if there were many bytes since the last time.
    #[inline]
    fn rest(&mut self) {
        let turns = self.done / TURN;
        if core::mem::replace(&mut self.turns, turns) != turns && give_way() {
            self.left = 0;
        }
    }

    /// What the call returns: the bytes moved, or EFAULT if a fault came before the first.
    fn result(&self) -> Result<usize> {
        if self.fault && self.done == 0 { Err(EFAULT) } else { Ok(self.done) }
    }
}

/// Walks the segments of a program's memory.
struct Cursor<'a> {
    segments: &'a [Segment],
    offset: usize,
}

impl Cursor<'_> {
    /// The next piece, of at most `want` bytes.
    #[expect(clippy::arithmetic_side_effects, reason = "the offset is inside the piece")]
    fn piece(&mut self, want: usize) -> Option<Segment> {
        loop {
            let first = self.segments.first()?;
            if self.offset >= first.len {
                self.segments = self.segments.get(1..)?;
                self.offset = 0;
                continue;
            }
            let addr = first.addr.wrapping_add(self.offset);
            let len = (first.len - self.offset).min(want);
            return Some(Segment { addr, len });
        }
    }

    /// Bytes left in the segment that comes next, of `left` in all. One that is used up is passed.
    fn next_segment(&mut self, left: usize) -> usize {
        if let Some((first, rest)) = self.segments.split_first()
            && self.offset > 0
            && self.offset >= first.len
        {
            (self.segments, self.offset) = (rest, 0);
        }
        self.segments.first().map_or(0, |first| first.len.saturating_sub(self.offset).min(left))
    }
}

/// Do all segments begin and end at multiples of `unit`, a power of two?
fn are_aligned(segments: &[Segment], unit: usize) -> bool {
    segments.iter().all(|s| s.addr.is_multiple_of(unit) && s.len.is_multiple_of(unit))
}

fn total(segments: &[Segment]) -> usize {
    segments.iter().fold(0, |sum: usize, s| sum.saturating_add(s.len))
}

/// Copies move words; what lies between the last whole word and the fault goes byte by byte, so that the count is exact.
#[expect(clippy::arithmetic_side_effects, reason = "inside the caller's buffer, which does not wrap")]
fn copy_out(addr: usize, from: SharedBytes<'_>) -> usize {
    let mut n = arch::user::copy_to_user_partial(addr, from);
    while let Some(byte) = from.get(n..n + 1)
        && arch::user::copy_to_user_partial(addr + n, byte) == 1
    {
        n += 1;
    }
    n
}

#[expect(clippy::arithmetic_side_effects, reason = "inside the caller's buffer, which does not wrap")]
fn copy_in(mut to: SharedBytesMut<'_>, addr: usize) -> usize {
    let len = to.len();
    let mut n = to.get_mut(0..len).map_or(0, |to| arch::user::copy_from_user_partial(to, addr));
    while let Some(byte) = to.get_mut(n..n + 1)
        && arch::user::copy_from_user_partial(byte, addr + n) == 1
    {
        n += 1;
    }
    n
}

enum Target<'a> {
    User(Cursor<'a>),
    Kernel(&'a mut [u8]),
}

/// Where a read puts its bytes.
pub struct Output<'a> {
    target: Target<'a>,
    progress: Progress,
    /// What would wait is EAGAIN (RWF_NOWAIT).
    pub nowait: bool,
}

impl<'a> Output<'a> {
    pub fn user(segments: &'a [Segment]) -> Self {
        let progress = Progress::new(total(segments));
        Output { target: Target::User(Cursor { segments, offset: 0 }), progress, nowait: false }
    }

    pub fn kernel(buffer: &'a mut [u8]) -> Self {
        let progress = Progress::new(buffer.len());
        Output { target: Target::Kernel(buffer), progress, nowait: false }
    }

    /// Does all memory begin and end at multiples of `unit`, a power of two? The kernel's own is what a device needs.
    pub fn is_aligned(&self, unit: usize) -> bool {
        match &self.target {
            Target::User(cursor) => are_aligned(cursor.segments, unit),
            Target::Kernel(_) => true,
        }
    }

    /// Bytes that can still be put; none after a fault.
    pub fn left(&self) -> usize {
        self.progress.left()
    }

    /// Bytes left in the program's segment that comes next, which may be empty: what is read a segment at a time ends with each.
    pub fn next_segment(&mut self) -> usize {
        let left = self.left();
        match &mut self.target {
            Target::User(cursor) => cursor.next_segment(left),
            Target::Kernel(_) => left,
        }
    }

    /// Puts as much of `data` as there is room for and returns how much that was.
    pub fn put(&mut self, data: &[u8]) -> usize {
        self.put_shared(data.into())
    }

    /// The same for bytes that others may write meanwhile.
    #[expect(clippy::arithmetic_side_effects, reason = "what was moved is within the buffer")]
    pub fn put_shared(&mut self, data: SharedBytes<'_>) -> usize {
        let mut done = 0;
        while done < data.len() && self.left() > 0 {
            let Some(rest) = data.get(done..data.len()) else { break };
            let taken = match &mut self.target {
                Target::Kernel(buffer) => {
                    let n = rest.len().min(self.progress.left);
                    match buffer.get_mut(self.progress.done..self.progress.done + n) {
                        Some(to) => rest.copy_to(to),
                        None => return done,
                    }
                }
                Target::User(cursor) => {
                    let Some(piece) = cursor.piece(rest.len().min(self.progress.left)) else { break };
                    let Some(from) = rest.get(0..piece.len) else { break };
                    let n = copy_out(piece.addr, from);
                    self.progress.fault = n < piece.len;
                    cursor.offset += n;
                    n
                }
            };
            done += taken;
            self.progress.moved(taken);
        }
        done
    }

    /// As `put_shared`, as far as that goes without sleeping.
    #[expect(clippy::arithmetic_side_effects, reason = "what was moved is within the buffer")]
    fn put_shared_now(&mut self, data: SharedBytes<'_>) -> usize {
        let Target::User(cursor) = &mut self.target else { return 0 };
        let mut done = 0;
        while let Some(piece) = cursor.piece((data.len() - done).min(self.progress.left()))
            && piece.len > 0
            && let Some(from) = data.get(done..done + piece.len)
        {
            let n = arch::user::copy_to_user_nofault(piece.addr, from);
            cursor.offset += n;
            done += n;
            self.progress.count(n);
            if n < piece.len {
                break;
            }
        }
        done
    }

    /// Puts `len` zero bytes, or as many as there is room for.
    #[expect(clippy::arithmetic_side_effects, reason = "what was moved is within the buffer")]
    pub fn put_zeros(&mut self, len: usize) -> usize {
        const ZEROS: [u8; PIECE] = [0; PIECE];
        let mut done = 0;
        while done < len {
            let n = self.put(ZEROS.get(..(len - done).min(PIECE)).unwrap_or(&[]));
            if n == 0 {
                break;
            }
            done += n;
        }
        done
    }

    /// What the call returns: the bytes put, or EFAULT.
    pub fn result(&self) -> Result<usize> {
        self.progress.result()
    }

    /// The same for files of records: what is torn by a fault does not count.
    pub fn whole_records(&self, size: usize) -> Result<usize> {
        match self.progress.done.checked_next_multiple_of(size) {
            Some(end) if end != self.progress.done => end.checked_sub(size).filter(|&n| n > 0).ok_or(EFAULT),
            _ => self.result(),
        }
    }

    pub fn faulted(&self) -> bool {
        self.progress.fault
    }
}

impl Sink for Output<'_> {
    fn put_now(&mut self, bytes: SharedBytes<'_>) -> usize {
        self.put_shared_now(bytes)
    }

    fn put(&mut self, bytes: SharedBytes<'_>) -> usize {
        self.put_shared(bytes)
    }

    fn rest(&mut self) {
        self.progress.rest();
    }
}

impl Source for Input<'_> {
    fn take_now(&mut self, bytes: SharedBytesMut<'_>) -> usize {
        self.take_shared_now(bytes)
    }

    fn take(&mut self, bytes: SharedBytesMut<'_>) -> usize {
        self.take_shared(bytes)
    }

    fn rest(&mut self) {
        self.progress.rest();
    }
}

enum Origin<'a> {
    User(Cursor<'a>),
    Kernel(&'a [u8]),
}

/// Where a write takes its bytes.
pub struct Input<'a> {
    origin: Origin<'a>,
    progress: Progress,
    /// What would wait is EAGAIN (RWF_NOWAIT).
    pub nowait: bool,
}

impl<'a> Input<'a> {
    pub fn user(segments: &'a [Segment]) -> Self {
        let progress = Progress::new(total(segments));
        Input { origin: Origin::User(Cursor { segments, offset: 0 }), progress, nowait: false }
    }

    pub fn kernel(data: &'a [u8]) -> Self {
        Input { progress: Progress::new(data.len()), origin: Origin::Kernel(data), nowait: false }
    }

    pub fn left(&self) -> usize {
        self.progress.left()
    }

    /// As `Output::is_aligned`.
    pub fn is_aligned(&self, unit: usize) -> bool {
        match &self.origin {
            Origin::User(cursor) => are_aligned(cursor.segments, unit),
            Origin::Kernel(_) => true,
        }
    }

    /// Bytes left in the program's segment that comes next, which may be empty: files whose writes are messages take each as one.
    pub fn next_segment(&mut self) -> usize {
        let left = self.left();
        let Origin::User(cursor) = &mut self.origin else { return left };
        cursor.next_segment(left)
    }

    pub fn done(&self) -> usize {
        self.progress.done
    }

    pub fn limit(&mut self, most: usize) {
        self.progress.left = self.progress.left.min(most);
    }

    /// Fills as much of `into` as there is left and returns how much that was.
    pub fn take(&mut self, into: &mut [u8]) -> usize {
        self.take_shared(into.into())
    }

    /// The same for bytes that others may read and write meanwhile.
    #[expect(clippy::arithmetic_side_effects, reason = "what was moved is within the buffer")]
    pub fn take_shared(&mut self, mut into: SharedBytesMut<'_>) -> usize {
        let mut done = 0;
        while done < into.len() && self.left() > 0 {
            let len = into.len();
            let Some(mut rest) = into.get_mut(done..len) else { break };
            let taken = match &mut self.origin {
                Origin::Kernel(data) => {
                    let n = rest.len().min(self.progress.left);
                    match data.get(self.progress.done..self.progress.done + n) {
                        Some(from) => rest.copy_from(from.into()),
                        None => return done,
                    }
                }
                Origin::User(cursor) => {
                    let Some(piece) = cursor.piece(rest.len().min(self.progress.left)) else { break };
                    let Some(to) = rest.get_mut(0..piece.len) else { break };
                    let n = copy_in(to, piece.addr);
                    self.progress.fault = n < piece.len;
                    cursor.offset += n;
                    n
                }
            };
            done += taken;
            self.progress.moved(taken);
        }
        done
    }

    /// As `take_shared`, as far as that goes without sleeping.
    #[expect(clippy::arithmetic_side_effects, reason = "what was moved is within the buffer")]
    fn take_shared_now(&mut self, mut into: SharedBytesMut<'_>) -> usize {
        let Origin::User(cursor) = &mut self.origin else { return 0 };
        let mut done = 0;
        while let Some(piece) = cursor.piece((into.len() - done).min(self.progress.left()))
            && piece.len > 0
            && let Some(to) = into.get_mut(done..done + piece.len)
        {
            let n = arch::user::copy_from_user_nofault(to, piece.addr);
            cursor.offset += n;
            done += n;
            self.progress.count(n);
            if n < piece.len {
                break;
            }
        }
        done
    }

    /// Drops what is left, for devices that swallow everything.
    #[expect(clippy::arithmetic_side_effects, reason = "what was moved is within the buffer")]
    pub fn skip(&mut self) -> usize {
        let n = self.left();
        self.progress.done += n;
        self.progress.left = 0;
        n
    }

    pub fn result(&self) -> Result<usize> {
        self.progress.result()
    }

    pub fn faulted(&self) -> bool {
        self.progress.fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BAD_ADDRESS, Memory, check, in_process};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// Segments of one memory that lie behind each other with gaps, and what is put into them in pieces.
    fn transfers() -> impl Strategy<Value = (Vec<(usize, usize)>, Vec<usize>)> {
        let gaps_and_lengths = prop::collection::vec((0usize..50, 0usize..300), 0..6);
        (gaps_and_lengths, prop::collection::vec(0usize..200, 1..12))
    }

    fn segments(start: usize, parts: &[(usize, usize)]) -> Vec<Segment> {
        let mut addr = start;
        let place = |&(gap, len): &(usize, usize)| {
            addr += gap;
            let segment = Segment { addr, len };
            addr += len;
            segment
        };
        parts.iter().map(place).collect()
    }

    #[test]
    fn pieces_fill_segments_one_after_the_other() {
        in_process(|| {
            check(200, &transfers(), |(parts, pieces)| {
                let memory = Memory::new(4096);
                let segments = segments(memory.address, &parts);
                let room = total(&segments);
                let data: Vec<u8> = (0..pieces.iter().sum()).map(|n: usize| n as u8 | 1).collect();
                let mut out = Output::user(&segments);
                let (mut from, mut put) = (0, 0);
                for piece in &pieces {
                    let n = out.put(&data[from..from + piece]);
                    assert_eq!(n, (*piece).min(room - put));
                    // What did not fit is lost to this transfer: it is full.
                    from += n;
                    put += n;
                    assert_eq!(out.left(), room - put);
                }
                assert_eq!(out.result(), Ok(put));
                let bytes = memory.bytes(4096);
                let inside: Vec<u8> = segments
                    .iter()
                    .flat_map(|s| bytes[s.addr - memory.address..][..s.len].to_vec())
                    .collect();
                assert_eq!(&inside[..put], &data[..put]);
                assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), put, "a gap was written");

                let mut input = Input::user(&segments);
                let mut taken: Vec<u8> = Vec::new();
                for piece in &pieces {
                    let mut buffer = vec![0; *piece];
                    let n = input.take(&mut buffer);
                    taken.extend(&buffer[..n]);
                }
                assert_eq!(taken, &inside[..taken.len()]);
                assert_eq!(input.result(), Ok(taken.len()));
            });
        });
    }

    #[test]
    fn a_fault_ends_a_transfer_and_what_came_before_counts() {
        in_process(|| {
            let memory = Memory::new(1);
            for room in [0, 1, 7, 8, 63, 64, 100] {
                let segment = [Segment { addr: memory.end(room), len: 200 }];
                let mut out = Output::user(&segment);
                assert_eq!(out.put(&[7; 200]), room);
                assert!(out.faulted());
                assert_eq!(out.left(), 0, "nothing comes after a fault");
                assert_eq!(out.result(), if room == 0 { Err(EFAULT) } else { Ok(room) });
                let mut input = Input::user(&segment);
                assert_eq!(input.take(&mut [0; 200]), room);
                assert_eq!(input.result(), if room == 0 { Err(EFAULT) } else { Ok(room) });
            }
        });
    }

    #[test]
    fn a_bad_segment_matters_only_when_it_is_reached() {
        in_process(|| {
            let memory = Memory::new(1);
            let segments = [
                Segment { addr: memory.address, len: 4 },
                Segment { addr: BAD_ADDRESS, len: 0 },
                Segment { addr: BAD_ADDRESS, len: 4 },
            ];
            let mut out = Output::user(&segments);
            assert_eq!(out.put(b"abcd"), 4);
            assert!(!out.faulted());
            assert_eq!(out.put(b"e"), 0);
            assert!(out.faulted());
            assert_eq!(out.result(), Ok(4));
        });
    }

    #[test]
    fn the_kernels_own_memory_is_filled_and_taken_in_order() {
        let mut buffer = [9; 6];
        let mut out = Output::kernel(&mut buffer);
        assert_eq!((out.put(b"ab"), out.put_zeros(2), out.put(b"cdefg"), out.put_zeros(1)), (2, 2, 2, 0));
        assert_eq!(out.result(), Ok(6));
        assert_eq!(&buffer, b"ab\0\0cd");
        let mut input = Input::kernel(b"abcdef");
        input.limit(4);
        let mut two = [0; 2];
        assert_eq!((input.take(&mut two), input.done(), input.left()), (2, 2, 2));
        assert_eq!(&two, b"ab");
        assert_eq!((input.skip(), input.left(), input.result()), (2, 0, Ok(4)));
    }

    #[test]
    fn lengths_that_overflow_are_as_long_as_can_be() {
        let segments = [Segment { addr: 0, len: usize::MAX }, Segment { addr: 0, len: 2 }];
        assert_eq!(Output::user(&segments).left(), usize::MAX);
    }
}
