//! Servers of files (9P over virtio; Virtio 1.2, 5.12 gives the number, QEMU and Linux the rest): a message goes to the server, and its answer comes back in the
//! same request. What the messages say is `fs::ninep`'s; here is where they lie, and that no two under way have one number.
//!
//! A share is found by its tag, the name that its configuration says. One client has it at a time.
//!
//! **A number is free again when the *device* is done with the message**, not when who waits is killed: it goes with the memory of the request ([`Tag`]).
//!
//! ```text
//! page 0                                        pages 1..
//! | message | … | head of the answer | … |      | data of the answer, or of the message, if it has any |
//!  0              HEAD
//! ```
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::virtio::{Transport, Width, transport};
use sync::{AllocError, TryVec, try_box};
use vm::frame::OwnedFrame;
use vm::{OnceBox, PAGE_SIZE};

use super::request::Kept;
use super::{Device, Failure, Memory};
use crate::arch::Registers;
use crate::sched::{Deadline, Sleep, WaitQueue};

#[cfg(test)]
mod tests;

/// VIRTIO_9P_MOUNT_TAG: the configuration says a tag. A device without it cannot be found.
pub const FEATURES: u64 = 1;
/// Bytes of a tag: more than QEMU allows (32).
const TAG_MOST: u32 = 255;
/// Shares that there are at most.
const MOST: usize = 16;
/// Messages under way at once: 64 times a word.
const WORDS: usize = 4;
/// Where the answer's head lies in the first page.
const HEAD: usize = 2048;
/// Pages of data in an answer, at the most: 512 KiB.
const DATA_MOST: u16 = 128;
/// Bytes before the data of an answer: size, kind, tag, and how many there are.
pub const DATA_HEAD: usize = 11;

pub struct Share {
    device: &'static Device,
    tag: Vec<u8>,
    /// A client has it.
    is_claimed: AtomicBool,
    /// Numbers of messages under way.
    numbers: [AtomicU64; WORDS],
    /// Who waits for a number, or for the share.
    free: WaitQueue,
}

static SHARES: [OnceBox<Share>; MOST] = [const { OnceBox::new() }; MOST];

/// The first share with that tag.
pub fn find(tag: &[u8]) -> Option<&'static Share> {
    SHARES.iter().map_while(OnceBox::get).find(|share| share.tag == tag)
}

/// The device is up.
pub(super) fn begin(device: &'static Device, features: u64) -> Result<(), transport::Error> {
    let share = try_box(Share::try_new(device, features)?).map_err(|_| transport::Error::Memory)?;
    let free = SHARES.iter().find(|place| place.get().is_none()).ok_or(transport::Error::Memory)?;
    free.get_or_try(|| Ok::<_, transport::Error>(share)).map(|_| ())
}

fn read_tag(transport: &Transport<Registers>) -> Result<Vec<u8>, transport::Error> {
    let [len] = transport.configuration([(0, Width::Half)])?;
    if !(1..=TAG_MOST).contains(&len) {
        return Err(transport::Error::Configuration);
    }
    let mut tag = Vec::new();
    for n in 0..len as usize {
        let [byte] = transport.configuration([(n.saturating_add(2), Width::Byte)])?;
        tag.try_push(byte as u8).map_err(|_| transport::Error::Memory)?;
    }
    Ok(tag)
}

/// The number of a message under way, until this is dropped.
pub struct Tag {
    share: &'static Share,
    number: u16,
}

impl Drop for Tag {
    fn drop(&mut self) {
        let (word, bit) = (usize::from(self.number) / 64, self.number % 64);
        if let Some(word) = self.share.numbers.get(word) {
            word.fetch_and(!(1u64 << bit), Ordering::Release);
        }
        self.share.free.wake_one();
    }
}

/// A message and room for its answer.
pub struct Exchange {
    memory: Memory,
    /// Bytes of room for data, or of data.
    data: usize,
    /// The data is the message's.
    is_sent: bool,
}

impl Exchange {
    /// With room for `data` bytes of data behind the answer's head; without: all of the answer lies in the head's place, 2 KiB.
    pub fn try_new(data: usize) -> Result<Exchange, AllocError> {
        let mut memory = Memory::try_new(data.div_ceil(PAGE_SIZE).saturating_add(1))?;
        // What a server says that it wrote and did not is zeros, not what the pages held before.
        for n in 0..=data.div_ceil(PAGE_SIZE) {
            memory.page(n).fill(0);
        }
        Ok(Exchange { memory, data, is_sent: false })
    }

    /// For a message that goes on with what `fill` puts where it is shown: up to `most` bytes, a page at a time, until it puts fewer than there is
    /// room for. `fill` may sleep. The answer is as short as without data.
    ///
    /// # Errors
    /// No memory.
    pub fn try_new_sent(
        most: usize,
        mut fill: impl FnMut(&mut [u8]) -> usize,
    ) -> Result<Exchange, AllocError> {
        let pages = most.div_ceil(PAGE_SIZE);
        let mut memory = Memory::try_new(pages.saturating_add(1))?;
        memory.page(0).fill(0);
        let mut data = 0usize;
        for n in 1..=pages {
            let room = most.saturating_sub(data).min(PAGE_SIZE);
            let put = memory.page(n).get_mut(..room).map_or(0, &mut fill).min(room);
            data = data.saturating_add(put);
            if put < room {
                break;
            }
        }
        Ok(Exchange { memory, data, is_sent: true })
    }

    /// Bytes of the message that are not in its head.
    pub fn sent(&self) -> usize {
        if self.is_sent { self.data } else { 0 }
    }

    /// Has `out` take the message's data from byte `from` on, a page at a time.
    pub fn sent_from(&mut self, from: usize, mut out: impl FnMut(&[u8])) {
        let mut at = from;
        while at < self.sent() {
            let (n, start) = ((at / PAGE_SIZE).saturating_add(1), at % PAGE_SIZE);
            let len = PAGE_SIZE.saturating_sub(start).min(self.sent().saturating_sub(at));
            out(self.memory.page(n).get(start..start.saturating_add(len)).unwrap_or(&[]));
            at = at.saturating_add(len);
        }
    }

    /// Where the message is written.
    pub fn message(&mut self) -> &mut [u8] {
        self.memory.page(0).get_mut(..HEAD).unwrap_or(&mut [])
    }

    /// The head of the answer.
    pub fn head(&mut self) -> &[u8] {
        let len = self.head_len();
        self.memory.page(0).get(HEAD..HEAD.saturating_add(len)).unwrap_or(&[])
    }

    fn head_len(&self) -> usize {
        if self.data > 0 && !self.is_sent { DATA_HEAD } else { HEAD }
    }

    /// Appends the first `len` bytes of the answer to `out`.
    pub fn copy(&mut self, len: usize, out: &mut Vec<u8>) -> Result<(), AllocError> {
        let head = self.head();
        out.try_extend_from_slice(head.get(..len.min(head.len())).unwrap_or(&[]))?;
        let room = if self.is_sent { 0 } else { self.data };
        let mut left = len.saturating_sub(self.head_len()).min(room);
        let mut n = 1;
        while left > 0 {
            let part = left.min(PAGE_SIZE);
            out.try_extend_from_slice(self.memory.page(n).get(..part).unwrap_or(&[]))?;
            left = left.saturating_sub(part);
            n = n.saturating_add(1);
        }
        Ok(())
    }

    /// The pages of data, of which the server wrote the first `len` bytes; what follows these is set to zero.
    pub fn into_pages(mut self, len: usize) -> Vec<OwnedFrame> {
        let (whole, rest) = (len / PAGE_SIZE, len % PAGE_SIZE);
        if let Some(unwritten) = self.memory.page(whole.saturating_add(1)).get_mut(rest..) {
            unwritten.fill(0);
        }
        let mut pages = self.memory.into_pages(1);
        pages.truncate(len.div_ceil(PAGE_SIZE));
        pages
    }

    /// Keeps something as long as the server may be at the message.
    pub fn keep(&mut self, what: Arc<dyn Any + Send + Sync>) -> Result<(), AllocError> {
        self.memory.keep(Kept::Thing(what))
    }

    #[cfg(test)]
    pub fn answer(&mut self, bytes: &[u8]) {
        let len = self.head_len();
        let room = if self.is_sent { len } else { len + self.data };
        for (n, &byte) in bytes.iter().take(room).enumerate() {
            match n.checked_sub(len) {
                None => self.memory.page(0)[HEAD + n] = byte,
                Some(at) => self.memory.page(1 + at / PAGE_SIZE)[at % PAGE_SIZE] = byte,
            }
        }
    }

    fn add_parts(&mut self, len: usize) -> Result<(), AllocError> {
        self.memory.add(0, 0..len.min(HEAD), false)?;
        // First all that the device reads.
        if self.is_sent {
            self.add_data(false)?;
        }
        let head = self.head_len();
        self.memory.add(0, HEAD..HEAD.saturating_add(head), true)?;
        if self.is_sent { Ok(()) } else { self.add_data(true) }
    }

    fn add_data(&mut self, writable: bool) -> Result<(), AllocError> {
        let (mut left, mut n) = (self.data, 1);
        while left > 0 {
            let part = left.min(PAGE_SIZE);
            self.memory.add(n, 0..part, writable)?;
            left = left.saturating_sub(part);
            n = n.saturating_add(1);
        }
        Ok(())
    }
}

impl Share {
    pub(super) fn try_new(device: &'static Device, features: u64) -> Result<Share, transport::Error> {
        if features & FEATURES == 0 {
            return Err(transport::Error::Configuration);
        }
        Ok(Share {
            device,
            tag: read_tag(&device.transport)?,
            is_claimed: AtomicBool::new(false),
            numbers: [const { AtomicU64::new(0) }; WORDS],
            free: WaitQueue::new(),
        })
    }

    /// For a client that has it alone. It is waited for until `deadline`: who had it before may still have something to say.
    ///
    /// # Errors
    /// Woken: somebody else has it; or a fatal signal came.
    pub fn claim(&'static self, deadline: Deadline) -> Result<(), Failure> {
        let claimed = || (!self.is_claimed.swap(true, Ordering::AcqRel)).then_some(());
        self.free.wait_shared(Sleep::Killable, Some(deadline), claimed).map_err(Failure::Woken)
    }

    pub fn disclaim(&self) {
        self.is_claimed.store(false, Ordering::Release);
        self.free.wake_all();
    }

    /// The most bytes of data in an answer: a power of two of pages, so that three such fit into the queue at once.
    pub fn data_most(&self) -> usize {
        let third = (self.device.most_parts() / 3).saturating_sub(2).clamp(1, DATA_MOST);
        usize::from(1u16 << third.ilog2()).saturating_mul(PAGE_SIZE)
    }

    /// A number that no message under way has. May sleep, killably.
    ///
    /// # Errors
    /// Woken: a fatal signal came.
    pub fn tag(&'static self, deadline: Option<Deadline>) -> Result<Tag, Failure> {
        self.free.wait_until(Sleep::Killable, deadline, || self.try_tag()).map_err(Failure::Woken)
    }

    fn try_tag(&'static self) -> Option<Tag> {
        for (n, word) in self.numbers.iter().enumerate() {
            let mut seen = word.load(Ordering::Relaxed);
            while seen != u64::MAX {
                let bit = seen.trailing_ones();
                let new = seen | 1u64.checked_shl(bit)?;
                match word.compare_exchange_weak(seen, new, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => {
                        let number = n.saturating_mul(64).saturating_add(bit as usize) as u16;
                        return Some(Tag { share: self, number });
                    }
                    Err(now) => seen = now,
                }
            }
        }
        None
    }

    /// Asks the server: a message of `len` bytes, in which `tag` stands, and its answer, of so many bytes. May sleep, killably.
    ///
    /// # Errors
    /// See [`Device::ask`].
    pub fn ask(
        &'static self,
        mut exchange: Exchange,
        len: usize,
        tag: Option<Tag>,
        deadline: Option<Deadline>,
    ) -> Result<(Exchange, usize), Failure> {
        exchange.add_parts(len)?;
        if let Some(tag) = tag {
            exchange.memory.keep(Kept::Tag(tag))?;
        }
        let Exchange { memory, data, is_sent } = exchange;
        let (mut memory, written) = self.device.ask(memory, Sleep::Killable, deadline)?;
        memory.reuse();
        Ok((Exchange { memory, data, is_sent }, written as usize))
    }
}

impl Tag {
    pub fn number(&self) -> u16 {
        self.number
    }
}
