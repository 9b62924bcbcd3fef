//! Where a read puts its bytes and where a write takes them: a program's memory, in one or several segments, or the
//! kernel's. Files see only these two types, so that a file's code is the same for read, readv, pread, sendfile and
//! for exec's own reads.
//!
//! A fault on the program's memory ends the transfer: the bytes before it count, and only a transfer that moved
//! nothing fails with EFAULT, as on Linux. Copies to a program may sleep (a fault may read a file), so no spin lock
//! is held across `put` and `take`.
#![forbid(unsafe_code)]

use crate::arch;
use crate::errno::{EFAULT, Result};
use vm::frame::{SharedBytes, SharedBytesMut};

/// One piece of a program's memory, as in `struct iovec`.
#[derive(Clone, Copy, Default)]
pub struct Segment {
    pub addr: usize,
    pub len: usize,
}

/// Zeros are put a page at a time.
const PIECE: usize = 4096;

/// Walks the segments of a program's memory.
struct Cursor<'a> {
    segments: &'a [Segment],
    offset: usize,
}

impl Cursor<'_> {
    /// The next piece, of at most `want` bytes.
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
}

fn total(segments: &[Segment]) -> usize {
    segments.iter().fold(0, |sum: usize, s| sum.saturating_add(s.len))
}

/// Copies move words; what lies between the last whole word and the fault goes byte by byte, so that the count is exact.
fn copy_out(addr: usize, from: SharedBytes<'_>) -> usize {
    let mut n = arch::user::copy_to_user_partial(addr, from);
    while let Some(byte) = from.get(n..n + 1)
        && arch::user::copy_to_user_partial(addr + n, byte) == 1
    {
        n += 1;
    }
    n
}

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
    left: usize,
    done: usize,
    fault: bool,
}

impl<'a> Output<'a> {
    pub fn user(segments: &'a [Segment]) -> Self {
        let left = total(segments);
        Output { target: Target::User(Cursor { segments, offset: 0 }), left, done: 0, fault: false }
    }

    pub fn kernel(buffer: &'a mut [u8]) -> Self {
        let left = buffer.len();
        Output { target: Target::Kernel(buffer), left, done: 0, fault: false }
    }

    /// Bytes that can still be put; none after a fault.
    pub fn left(&self) -> usize {
        if self.fault { 0 } else { self.left }
    }

    /// Puts as much of `data` as there is room for and returns how much that was.
    pub fn put(&mut self, data: &[u8]) -> usize {
        self.put_shared(data.into())
    }

    /// The same for bytes that others may write meanwhile.
    pub fn put_shared(&mut self, data: SharedBytes<'_>) -> usize {
        let mut done = 0;
        while done < data.len() && self.left() > 0 {
            let Some(rest) = data.get(done..data.len()) else { break };
            let taken = match &mut self.target {
                Target::Kernel(buffer) => {
                    let n = rest.len().min(self.left);
                    match buffer.get_mut(self.done..self.done + n) {
                        Some(to) => rest.copy_to(to),
                        None => return done,
                    }
                }
                Target::User(cursor) => {
                    let Some(piece) = cursor.piece(rest.len().min(self.left)) else { break };
                    let Some(from) = rest.get(0..piece.len) else { break };
                    let n = copy_out(piece.addr, from);
                    self.fault = n < piece.len;
                    cursor.offset += n;
                    n
                }
            };
            done += taken;
            self.done += taken;
            self.left -= taken;
        }
        done
    }

    /// Puts `len` zero bytes, or as many as there is room for.
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

    /// What the call returns: the bytes put, or EFAULT if a fault came before the first.
    pub fn result(&self) -> Result<usize> {
        if self.fault && self.done == 0 { Err(EFAULT) } else { Ok(self.done) }
    }

    pub fn faulted(&self) -> bool {
        self.fault
    }
}

enum Origin<'a> {
    User(Cursor<'a>),
    Kernel(&'a [u8]),
}

/// Where a write takes its bytes.
pub struct Input<'a> {
    origin: Origin<'a>,
    left: usize,
    done: usize,
    fault: bool,
}

impl<'a> Input<'a> {
    pub fn user(segments: &'a [Segment]) -> Self {
        let left = total(segments);
        Input { origin: Origin::User(Cursor { segments, offset: 0 }), left, done: 0, fault: false }
    }

    pub fn kernel(data: &'a [u8]) -> Self {
        Input { left: data.len(), origin: Origin::Kernel(data), done: 0, fault: false }
    }

    pub fn left(&self) -> usize {
        if self.fault { 0 } else { self.left }
    }

    pub fn done(&self) -> usize {
        self.done
    }

    pub fn limit(&mut self, most: usize) {
        self.left = self.left.min(most);
    }

    /// Fills as much of `into` as there is left and returns how much that was.
    pub fn take(&mut self, into: &mut [u8]) -> usize {
        self.take_shared(into.into())
    }

    /// The same for bytes that others may read and write meanwhile.
    pub fn take_shared(&mut self, mut into: SharedBytesMut<'_>) -> usize {
        let mut done = 0;
        while done < into.len() && self.left() > 0 {
            let len = into.len();
            let Some(mut rest) = into.get_mut(done..len) else { break };
            let taken = match &mut self.origin {
                Origin::Kernel(data) => {
                    let n = rest.len().min(self.left);
                    match data.get(self.done..self.done + n) {
                        Some(from) => rest.copy_from(from.into()),
                        None => return done,
                    }
                }
                Origin::User(cursor) => {
                    let Some(piece) = cursor.piece(rest.len().min(self.left)) else { break };
                    let Some(to) = rest.get_mut(0..piece.len) else { break };
                    let n = copy_in(to, piece.addr);
                    self.fault = n < piece.len;
                    cursor.offset += n;
                    n
                }
            };
            done += taken;
            self.done += taken;
            self.left -= taken;
        }
        done
    }

    /// Drops what is left, for devices that swallow everything.
    pub fn skip(&mut self) -> usize {
        let n = self.left();
        self.done += n;
        self.left = 0;
        n
    }

    pub fn result(&self) -> Result<usize> {
        if self.fault && self.done == 0 { Err(EFAULT) } else { Ok(self.done) }
    }

    pub fn faulted(&self) -> bool {
        self.fault
    }
}
