//! Consoles (Virtio 1.2, 5.3): a line of bytes each way, without ports (VIRTIO_CONSOLE_F_MULTIPORT is not taken, so the device has one). What is typed and
//! shown there is the terminal's affair (`fs::tty`), which says by [`Ends`] who takes it.
//!
//! **Input**: eight pages lie with the device; what comes in is handed on where interrupts are on, in parts of 256 bytes, and the page goes back. Whoever is
//! handed it keeps as much as he likes.
//!
//! **Output** waits for nobody: it gathers in a page ([`Console::append`]) of sixteen, which goes to the device when it is full or the writer is done
//! ([`Console::flush`]). Where there is no page left, nothing is taken, and whoever writes waits until the device is done with one. So a device that takes
//! nothing stops writers, and nobody else.
//!
//! **Size**: with VIRTIO_CONSOLE_F_SIZE the configuration has columns and rows, and each change is told.
//!
//! Lock order: the pages (DeviceBuffers) → nothing: they are let go of before the queue is locked.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ::virtio::Width;
use ::virtio::transport::Error;
use arrayvec::ArrayVec;
use once_cell::race::OnceRef;
use sync::{AllocError, SpinLock, lock_class, try_box};
use vm::{OnceBox, PAGE_SIZE};

use super::{Device, Event, Memory};
use crate::lock_order as level;

lock_class! { static PAGES_CLASS: LockClass = ("console pages", level::DeviceBuffers); }

/// VIRTIO_CONSOLE_F_SIZE.
const SIZE: u64 = 1 << 0;
pub const FEATURES: u64 = SIZE;
/// Consoles that there are at most: hvc0 to hvc7.
pub const MOST: usize = 8;

const RECEIVE: usize = 0;
const SEND: usize = 1;
/// Pages that the device has for input, and pages of output.
const INPUT_PAGES: usize = 8;
const OUTPUT_PAGES: usize = 16;
/// What is handed on at a time.
const PIECE: usize = 256;
/// The most that is appended at once. There is room while a page has so much left.
pub const APPEND_MOST: usize = 1024;

/// Queues, by their numbers.
pub(super) fn queues() -> [Option<u16>; 4] {
    [Some(0), Some(1), None, None]
}

/// Who is at this end of the line. All are called with the console's number, interrupts on and no lock held, where nobody may sleep.
pub struct Ends {
    /// Takes what came in.
    pub receive: fn(usize, &[u8]),
    /// There is room for output.
    pub room: fn(usize),
    /// The window has so many rows and columns.
    pub resized: fn(usize, u16, u16),
    /// The device is used no more.
    pub failed: fn(usize),
}

struct Output {
    /// Pages that are the driver's.
    free: ArrayVec<Memory, OUTPUT_PAGES>,
    /// The page that output gathers in, and how many bytes it has.
    open: Option<(Memory, usize)>,
}

pub struct Console {
    device: &'static Device,
    number: usize,
    has_size: bool,
    ends: OnceRef<'static, Ends>,
    output: SpinLock<Output, level::DeviceBuffers>,
    /// Pages of output that are free, for who looks without the lock.
    free: AtomicUsize,
}

static CONSOLES: [OnceBox<Console>; MOST] = [const { OnceBox::new() }; MOST];

/// Console `n`, if the machine has it.
pub fn console(n: usize) -> Option<&'static Console> {
    CONSOLES.get(n)?.get()
}

fn of(device: &'static Device) -> Option<&'static Console> {
    CONSOLES.iter().filter_map(OnceBox::get).find(|console| core::ptr::eq(console.device, device))
}

/// A page, all of which is a part of a request.
fn page(writable: bool) -> Result<Memory, AllocError> {
    let mut memory = Memory::try_new(1)?;
    // What a device says that it wrote and did not is zeros, not what the page held before.
    memory.page(0).fill(0);
    memory.add(0, 0..PAGE_SIZE, writable)?;
    Ok(memory)
}

/// `device` is up, with these features.
pub(super) fn begin(device: &'static Device, features: u64) -> Result<(), Error> {
    let mut free = ArrayVec::new();
    while !free.is_full() {
        free.push(page(false).map_err(|_| Error::Memory)?);
    }
    // Tests come here at once.
    let mut output = Some(Output { free, open: None });
    for (number, place) in CONSOLES.iter().enumerate() {
        let make = || {
            let output = output.take().ok_or(AllocError)?;
            let output = SpinLock::new(output, &PAGES_CLASS);
            let has_size = features & SIZE != 0;
            try_box(Console {
                device,
                number,
                has_size,
                ends: OnceRef::new(),
                output,
                free: AtomicUsize::new(OUTPUT_PAGES),
            })
        };
        let _ = place.get_or_try(make);
        if output.is_none() {
            return if of(device).is_some() { Ok(()) } else { Err(Error::Memory) };
        }
    }
    // One more is not used.
    Ok(())
}

pub(super) fn event(device: &'static Device, what: Event) {
    let Some(console) = of(device) else { return };
    match what {
        Event::Changed => console.tell_size(),
        Event::Failed => {
            if let Some(ends) = console.ends.get() {
                (ends.failed)(console.number);
            }
        }
    }
}

impl Console {
    /// Says who is at this end, once: from now on input comes, and the window's size is told. In a thread.
    pub fn attach(&self, ends: &'static Ends) {
        if self.ends.set(ends).is_err() {
            return;
        }
        self.tell_size();
        for _ in 0..INPUT_PAGES {
            // With fewer it works as well, more slowly.
            if let Ok(page) = page(true) {
                let _ = self.device.put(RECEIVE, page, received);
            }
        }
    }

    fn tell_size(&self) {
        if let Some(ends) = self.ends.get().filter(|_| self.has_size)
            && let Ok([columns, rows]) =
                self.device.transport.configuration([(0, Width::Half), (2, Width::Half)])
        {
            (ends.resized)(self.number, rows as u16, columns as u16);
        }
    }

    /// The device is used no more.
    pub fn has_failed(&self) -> bool {
        self.device.has_failed()
    }

    /// Is there room for [`APPEND_MOST`] bytes? Who writes alone then finds it. Of a device that has failed: yes.
    pub fn has_room(&self) -> bool {
        self.free.load(Relaxed) > 0 || self.has_failed() || self.output.lock().has_open_room(APPEND_MOST)
    }

    /// Adds up to [`APPEND_MOST`] bytes to the output, all or none; false: there is no room. They go to the device with the next [`flush`](Self::flush), or
    /// before. Never sleeps. One writer at a time, or bytes mix.
    pub fn append(&self, bytes: &[u8]) -> bool {
        if !self.output.lock().has_open_room(bytes.len()) {
            self.flush();
        }
        let mut output = self.output.lock();
        if output.open.is_none() {
            output.open = output.free.pop().map(|page| (page, 0));
            self.free.store(output.free.len(), Relaxed);
        }
        let Some((page, len)) = &mut output.open else { return false };
        let end = len.saturating_add(bytes.len());
        let Some(place) = page.page(0).get_mut(*len..end) else { return false };
        place.copy_from_slice(bytes);
        *len = end;
        true
    }

    /// Gives the device what has gathered. Never sleeps.
    pub fn flush(&self) {
        let Some((mut page, len)) = self.output.lock().open.take() else { return };
        if len == 0 || !page.set_len(len) {
            return self.put_back(page);
        }
        // It has room for all pages there are, or has failed.
        if let Err(page) = self.device.put(SEND, page, sent) {
            self.put_back(page);
        }
    }

    fn put_back(&self, page: Memory) {
        let mut output = self.output.lock();
        // There are never more than there were.
        let _ = output.free.try_push(page);
        self.free.store(output.free.len(), Relaxed);
    }
}

impl Output {
    fn has_open_room(&self, bytes: usize) -> bool {
        self.open.as_ref().is_some_and(|(_, len)| len.saturating_add(bytes) <= PAGE_SIZE)
    }
}

/// The device has sent a page.
fn sent(device: &'static Device, _: usize, page: Memory, _: u32) {
    let Some(console) = of(device) else { return };
    console.put_back(page);
    if let Some(ends) = console.ends.get() {
        (ends.room)(console.number);
    }
}

/// The device has put something into a page.
fn received(device: &'static Device, line: usize, mut page: Memory, written: u32) {
    let Some(console) = of(device) else { return };
    // The queue has seen to it that this is no more than a page.
    let bytes = page.page(0).get_mut(..written as usize).unwrap_or(&mut []);
    if let Some(ends) = console.ends.get() {
        bytes.chunks(PIECE).for_each(|piece| (ends.receive)(console.number, piece));
    }
    bytes.fill(0);
    // The queue has room for it, or has failed.
    let _ = device.put(line, page, received);
}
