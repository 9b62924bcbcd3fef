//! Where a guest program's output goes on our side: a file that may be slow or closed, or a function.
#![forbid(unsafe_code)]

use std::os::fd::BorrowedFd;

use anyhow::{Context, Result};

/// Output that waits for a slow reader; beyond it the guest has to wait.
const KEPT: usize = 64 << 10;
/// A pipe that polls writable takes this much without blocking (PIPE_BUF).
const WRITE_SIZE: usize = 4096;

/// Takes output as it comes.
pub type Handler<'a> = Box<dyn FnMut(&[u8]) + 'a>;

/// Where a stream of the program goes.
pub enum Sink<'a> {
    /// A file of ours, which may be slow or closed.
    Fd(BorrowedFd<'a>),
    /// Kept, or handled at once.
    Call(Handler<'a>),
}

pub struct Output<'a> {
    pub sink: Sink<'a>,
    pub pending: Vec<u8>,
    /// Its reader has gone.
    closed: bool,
}

impl<'a> Output<'a> {
    pub fn new(sink: Sink<'a>) -> Self {
        Self { sink, pending: Vec::new(), closed: false }
    }

    pub fn take(&mut self, data: &[u8]) {
        match &mut self.sink {
            _ if self.closed => {}
            Sink::Call(call) => call(data),
            Sink::Fd(_) => self.pending.extend_from_slice(data),
        }
    }

    pub fn is_full(&self) -> bool {
        self.pending.len() >= KEPT
    }

    /// Writes a piece; true when the reader turns out to have gone.
    pub fn flush_some(&mut self) -> Result<bool> {
        let Sink::Fd(fd) = &self.sink else { return Ok(false) };
        let piece = &self.pending[..self.pending.len().min(WRITE_SIZE)];
        match rustix::io::write(fd, piece) {
            Ok(n) => {
                self.pending.drain(..n);
                Ok(false)
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
            // EIO: a terminal that has hung up.
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::IO | rustix::io::Errno::CONNRESET) => {
                self.pending.clear();
                self.closed = true;
                Ok(true)
            }
            Err(e) => Err(e).context("cannot write the program's output"),
        }
    }
}
