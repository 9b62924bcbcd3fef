//! What getsockopt and setsockopt know of a socket.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::account::limits;

/// Flags that are kept and told. What they do: `PASS_*` are carried out; the others concern protocols that these sockets do not have, as on
/// Linux.
pub const PASS_CREDENTIALS: u32 = 1;
pub const PASS_PIDFD: u32 = 1 << 1;
pub const REUSE_ADDRESS: u32 = 1 << 2;
pub const KEEP_ALIVE: u32 = 1 << 4;
pub const BROADCAST: u32 = 1 << 5;
pub const OOB_INLINE: u32 = 1 << 6;
pub const NO_ROUTE: u32 = 1 << 7;

/// The least sizes of buffers, as on Linux.
pub const SEND_LEAST: usize = 4608;
pub const RECEIVE_LEAST: usize = 2304;

pub struct Options {
    send_buffer: AtomicU32,
    pub receive_buffer: AtomicU32,
    flags: AtomicU32,
    /// Nanoseconds; 0: without end. u64::MAX: it does not wait at all.
    pub send_timeout: AtomicU64,
    pub receive_timeout: AtomicU64,
    /// SO_RCVLOWAT.
    low_mark: AtomicI32,
    /// SO_PEEK_OFF; negative: off.
    peek_offset: AtomicI32,
    /// SO_PRIORITY and SO_LINGER, which are told and no more.
    pub priority: AtomicU32,
    pub linger: AtomicU64,
}

impl Options {
    pub fn new() -> Options {
        Options {
            send_buffer: AtomicU32::new(limits::SEND_DEFAULT.get() as u32),
            receive_buffer: AtomicU32::new(limits::RECEIVE_DEFAULT.get() as u32),
            flags: AtomicU32::new(0),
            send_timeout: AtomicU64::new(0),
            receive_timeout: AtomicU64::new(0),
            low_mark: AtomicI32::new(1),
            peek_offset: AtomicI32::new(-1),
            priority: AtomicU32::new(0),
            linger: AtomicU64::new(0),
        }
    }

    /// Bytes that may be under way, as `message` counts them.
    #[inline]
    pub fn send_buffer(&self) -> usize {
        self.send_buffer.load(Relaxed) as usize
    }

    pub fn set_send_buffer(&self, to: u32) {
        self.send_buffer.store(to, Relaxed);
    }

    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    pub fn set(&self, flag: u32, on: bool) {
        if on {
            self.flags.fetch_or(flag, Relaxed);
        } else {
            self.flags.fetch_and(!flag, Relaxed);
        }
    }

    /// Is it told who sends?
    #[inline]
    pub fn wants_credentials(&self) -> bool {
        self.has(PASS_CREDENTIALS | PASS_PIDFD)
    }

    pub fn low_mark(&self) -> usize {
        usize::try_from(self.low_mark.load(Relaxed)).unwrap_or(0).max(1)
    }

    pub fn set_low_mark(&self, to: i32) {
        self.low_mark.store(if to < 0 { i32::MAX } else { to.max(1) }, Relaxed);
    }

    pub fn peek_offset(&self) -> i32 {
        self.peek_offset.load(Relaxed)
    }

    pub fn set_peek_offset(&self, to: i32) {
        self.peek_offset.store(to, Relaxed);
    }

    /// From where a look (MSG_PEEK) begins.
    pub fn peek_at(&self) -> usize {
        usize::try_from(self.peek_offset()).unwrap_or(0)
    }

    /// `n` bytes were looked at: the next look begins behind them.
    pub fn peeked(&self, n: usize) {
        self.move_peek(|offset| offset.saturating_add(i32::try_from(n).unwrap_or(i32::MAX)));
    }

    /// `n` bytes were taken out.
    #[inline]
    pub fn peeked_back(&self, n: usize) {
        self.move_peek(|offset| offset.saturating_sub(i32::try_from(n).unwrap_or(i32::MAX)).max(0));
    }

    #[inline]
    fn move_peek(&self, to: impl Fn(i32) -> i32) {
        let offset = self.peek_offset();
        if offset >= 0 {
            self.set_peek_offset(to(offset));
        }
    }
}
