//! What is asked of a device, and who waits for it.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Range;

use ::virtio::Buffer;
use sync::{AllocError, SpinLock, TryVec, lock_class, try_arc, try_box};
use vm::PAGE_SIZE;
use vm::frame::idle::Out;
use vm::frame::{self, FrameKind, OwnedFrame};

use super::disk::Hold;
use super::share::Tag;
use super::{Device, Failure};
use crate::lock_order as level;
use crate::sched::{Deadline, Sleep, WaitQueue};

lock_class! { static DONE_CLASS: LockClass = ("device request", level::DeviceRequest); }

/// What goes with a request, and ends when the device is done with it, whoever waits.
#[expect(dead_code, reason = "what it is for is its end")]
pub enum Kept {
    /// A place of a disk that nobody else writes to.
    Place(Hold),
    /// The number of a message to a server of files.
    Tag(Tag),
    /// Free memory of which the device is told.
    Idle(Box<Out>),
    /// Whatever else.
    Thing(Arc<dyn Any + Send + Sync>),
}

/// Pages that a device may reach while it has a request, and which parts of them the request is made of.
pub struct Memory {
    pages: Vec<OwnedFrame>,
    parts: Vec<Buffer>,
    /// What nobody else gets until the device is done.
    holds: Vec<Kept>,
}

impl Memory {
    /// `pages` pages with unspecified contents; no part is the device's yet.
    pub fn try_new(pages: usize) -> Result<Memory, AllocError> {
        let mut memory = Memory { pages: sync::try_vec(pages)?, parts: Vec::new(), holds: Vec::new() };
        for _ in 0..pages {
            let page = frame::alloc_dirty().ok_or(AllocError)?;
            page.set_kind(FrameKind::Device);
            memory.pages.try_push(page)?;
        }
        Ok(memory)
    }

    /// Idle memory, all of which the device may write: what it does with it is its affair.
    pub(super) fn of_idle(out: Out) -> Result<Memory, AllocError> {
        let mut memory = Memory { pages: Vec::new(), parts: Vec::new(), holds: Vec::new() };
        for (address, len) in out.ranges() {
            memory.parts.try_push(Buffer { address: address.0, len, writable: true })?;
        }
        memory.holds.try_push(Kept::Idle(try_box(out)?))?;
        Ok(memory)
    }

    /// The device is done with idle memory.
    pub(super) fn into_idle(mut self) -> Option<Out> {
        self.holds.pop().and_then(|kept| if let Kept::Idle(out) = kept { Some(*out) } else { None })
    }

    /// Page `n`; empty if there is none.
    pub fn page(&mut self, n: usize) -> &mut [u8] {
        self.pages.get_mut(n).map_or(&mut [], |page| page.bytes())
    }

    /// The next part of the request: bytes of page `n`, which the device reads, or writes. First all that it reads.
    pub fn add(&mut self, n: usize, part: Range<usize>, writable: bool) -> Result<(), AllocError> {
        let page = self.pages.get(n).filter(|_| part.end <= PAGE_SIZE).ok_or(AllocError)?;
        let len = u32::try_from(part.len()).map_err(|_| AllocError)?;
        let address = page.addr().0.checked_add(part.start as u64).ok_or(AllocError)?;
        self.parts.try_push(Buffer { address, len, writable })
    }

    /// Keeps something until the device is done and [`reuse`](Self::reuse) is called, or this is dropped.
    pub(super) fn keep(&mut self, what: Kept) -> Result<(), AllocError> {
        self.holds.try_push(what)
    }

    /// Makes it ready for another request: no part is the device's, no place is kept.
    pub(super) fn reuse(&mut self) {
        self.parts.clear();
        self.holds.clear();
    }

    pub(super) fn parts(&self) -> &[Buffer] {
        &self.parts
    }

    /// The first part has so many bytes from now on, no more than its page has behind its begin. False: there is none.
    pub(super) fn set_len(&mut self, len: usize) -> bool {
        let Some(part) = self.parts.first_mut() else { return false };
        let begin = part.address as usize % PAGE_SIZE;
        let (true, Ok(len)) = (begin.saturating_add(len) <= PAGE_SIZE, u32::try_from(len)) else {
            return false;
        };
        part.len = len;
        true
    }

    pub(super) fn take_parts(&mut self) -> Vec<Buffer> {
        core::mem::take(&mut self.parts)
    }

    pub(super) fn put_parts(&mut self, parts: Vec<Buffer>) {
        self.parts = parts;
    }

    /// The pages, in their order, from page `first` on.
    pub fn into_pages(mut self, first: usize) -> Vec<OwnedFrame> {
        drop(self.pages.drain(..first.min(self.pages.len())));
        self.pages
    }
}

/// Somebody waits for this.
pub struct Request {
    done: SpinLock<Option<Outcome>, level::DeviceRequest>,
    waiter: WaitQueue,
}

/// The memory comes back, but from a device that failed.
type Outcome = Result<(Memory, u32), Failure>;

impl Request {
    pub fn try_new() -> Result<Arc<Request>, AllocError> {
        try_arc(Request { done: SpinLock::new(None, &DONE_CLASS), waiter: WaitQueue::new() })
    }

    fn end(&self, outcome: Outcome) {
        *self.done.lock() = Some(outcome);
        self.waiter.wake_all();
    }

    pub fn wait(&self, how: Sleep, deadline: Option<Deadline>) -> Outcome {
        let taken = self.waiter.wait_shared(how, deadline, || self.done.lock().take());
        taken.unwrap_or_else(|woken| Err(Failure::Woken(woken)))
    }
}

/// Called when a device is done with what nobody waits for: the device, which of its lines, the memory, how many bytes it says that it wrote. With
/// interrupts on and no lock held, where nobody may sleep.
pub type Call = fn(&'static Device, usize, Memory, u32);

/// Who is told that a device is done.
pub enum Whom {
    Waiter(Arc<Request>),
    /// With the number of the line.
    Call(Call, usize),
}

/// What a queue keeps of a request while the device has it.
pub struct Token {
    pub whom: Whom,
    pub memory: Memory,
}

impl Token {
    /// The device is done.
    pub fn end(self, device: &'static Device, written: u32) {
        match self.whom {
            Whom::Waiter(request) => request.end(Ok((self.memory, written))),
            Whom::Call(call, line) => call(device, line, self.memory, written),
        }
    }

    /// It never will be. Only what was reset can reach the memory no more; else that is lost.
    pub fn fail(self, is_reset: bool) {
        if !is_reset {
            core::mem::forget(self.memory);
        }
        if let Whom::Waiter(request) = self.whom {
            request.end(Err(Failure::Broken));
        }
    }
}
