//! A message, or a piece of a stream: bytes, who sent them, and the files that go with them.
//!
//! The bytes lie in pages, so that no message needs a large block of memory. `size` is what Linux counts for one against SO_SNDBUF: programs
//! see by it how much a socket takes before it is full.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::{TryVec, slab_box};

use super::Socket;
use super::rights::Rights;
use crate::errno::{EFAULT, Result};
use crate::fs::caller;
use crate::fs::file::buffer::{Input, Output};

const PAGE: usize = 4096;

/// Who sent it (struct ucred). A process of number 0 is nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Sender {
    /// What a message without any tells: ids that mean nobody.
    pub const NOBODY: Sender = Sender { pid: 0, uid: 65_534, gid: 65_534 };

    /// The running thread.
    pub fn current() -> Sender {
        let (pid, uid, gid) = caller::sender();
        Sender { pid, uid, gid }
    }
}

pub struct Message {
    first: Vec<u8>,
    more: Vec<Vec<u8>>,
    pub len: usize,
    /// Of a stream: how much has been read.
    pub consumed: usize,
    /// Counted against the sender's buffer.
    pub size: usize,
    pub sender: Option<Sender>,
    pub rights: Option<Box<Rights>>,
    /// Of a datagram: whose buffer it is counted against, and whose name is told. Of a stream that is the peer.
    pub from: Option<Arc<Socket>>,
    /// The next in its queue.
    pub(super) next: Option<Box<Message>>,
}

vm::slab_type!(Message, "message", Box);

impl Message {
    /// Takes `len` bytes of `from`.
    ///
    /// # Errors
    /// ENOMEM, EFAULT.
    pub fn try_new(len: usize, size: usize, from: &mut Input<'_>) -> Result<Box<Message>> {
        let first = piece(len.min(PAGE), from)?;
        let mut more = Vec::new();
        let mut left = len.saturating_sub(first.len());
        while left > 0 {
            let next = piece(left.min(PAGE), from)?;
            left = left.saturating_sub(next.len());
            more.try_push(next)?;
        }
        let message = Message {
            first,
            more,
            len,
            consumed: 0,
            size,
            sender: None,
            rights: None,
            from: None,
            next: None,
        };
        Ok(slab_box(message)?)
    }

    /// Puts out what lies from `at` on, and returns how much that was.
    pub fn put(&self, at: usize, out: &mut Output<'_>) -> usize {
        let (mut at, mut done) = (at, 0usize);
        while at < self.len && out.left() > 0 {
            let (page, offset) = (at / PAGE, at % PAGE);
            let bytes = if page == 0 { Some(&self.first) } else { self.more.get(page.saturating_sub(1)) };
            let Some(bytes) = bytes.and_then(|bytes| bytes.get(offset..)) else { break };
            let taken = out.put(bytes);
            at = at.saturating_add(taken);
            done = done.saturating_add(taken);
            if taken < bytes.len() {
                break;
            }
        }
        done
    }

    /// Bytes that are left to read.
    pub fn left(&self) -> usize {
        self.len.saturating_sub(self.consumed)
    }
}

fn piece(len: usize, from: &mut Input<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_resize(len, 0)?;
    if from.take(&mut bytes) < len { Err(EFAULT) } else { Ok(bytes) }
}

/// What Linux keeps of a buffer behind its bytes (struct skb_shared_info), and for the buffer itself.
const BEHIND: usize = 320;
const OBJECT: usize = 256;
/// The least block with bytes.
const LEAST: usize = 512;
/// Bytes of a message that do not lie in pages of their own: of a stream, and of a datagram. Of that no more lie in pages than a buffer has places for.
const STREAM_HEAD: usize = PAGE - BEHIND;
const DATAGRAM_HEAD: usize = 4 * PAGE - BEHIND;
const DATAGRAM_PAGES: usize = 17 * PAGE;
/// Most that one piece of a stream holds.
pub const PIECE_MAX: usize = STREAM_HEAD + (32 << 10);

/// What Linux counts for `head` bytes in one block and `pages` bytes in pages.
fn counted(head: usize, pages: usize) -> usize {
    let wanted = head.next_multiple_of(64).saturating_add(BEHIND);
    let block = wanted.max(LEAST).next_power_of_two();
    block.saturating_add(OBJECT).saturating_add(pages.next_multiple_of(PAGE))
}

/// Is a datagram with `len` bytes too long for any buffer? Its part in one block takes more than the largest block there is (KMALLOC_MAX_SIZE).
pub fn is_too_long(len: usize) -> bool {
    const LARGEST: usize = 4 << 20;
    len.saturating_sub(DATAGRAM_PAGES).next_multiple_of(64).saturating_add(BEHIND) > LARGEST
}

/// What Linux counts for a piece of a stream with `len` bytes.
pub fn stream_size(len: usize) -> usize {
    let pages = len.saturating_sub(STREAM_HEAD).next_multiple_of(PAGE).min(len);
    counted(len.saturating_sub(pages), pages)
}

/// What Linux counts for a datagram with `len` bytes.
pub fn datagram_size(len: usize) -> usize {
    let pages = len.saturating_sub(DATAGRAM_HEAD).min(DATAGRAM_PAGES).next_multiple_of(PAGE).min(len);
    counted(len.saturating_sub(pages), pages)
}
