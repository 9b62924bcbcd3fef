//! A split virtqueue (Virtio 1.2, 2.7), as its driver keeps it.
//!
//! Three tables lie in memory that the device reaches: descriptors, the available ring (written by the driver), the used ring (written by the device). What the
//! driver needs to know of them it keeps apart, in memory of its own: which descriptors are free, which chains are in flight, what each may write. So a
//! device that overwrites the tables changes nothing that the driver acts on; of the used ring each word is read once and checked:
//!
//! | the device writes | and if it is wrong |
//! |---|---|
//! | how many chains it has used | more than are in flight: `Broken` |
//! | a chain's number | not that of a chain in flight (no descriptor's, one used before, the middle of a chain): `Broken` |
//! | how many bytes it has written | more than the chain's writable buffers hold: `Broken` |
//!
//! A queue that is broken stays so: nothing is put in, nothing comes out. Its owner resets the device, and only then takes what was in flight
//! ([`Queue::take_all`]): until then the device may write there.
//!
//! What is in flight has a token: whatever the owner wants back, and in particular what owns the buffers' memory.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use sync::AllocError;
use sync::heap::TryVec;

/// The most descriptors that a queue has. A device may offer fewer.
pub const MOST: u16 = 256;
/// Words of each table, in its own width, for a queue of `MOST`.
pub const DESCRIPTOR_WORDS: usize = 2 * MOST as usize;
pub const AVAILABLE_WORDS: usize = 3 + MOST as usize;
pub const USED_WORDS: usize = 2 + 2 * MOST as usize;

const NEXT: u64 = 1;
const WRITABLE: u64 = 2;
/// The device says that it needs no notification (used ring's flags).
const NO_NOTIFY: u32 = 1;

/// The tables. Each is accessed in one width only, zero at first, and stays where it is as long as this exists.
pub trait QueueMemory: Send {
    /// Two words a descriptor: its address; length, flags and next.
    fn descriptors(&self) -> &[AtomicU64];
    /// Flags, index, ring.
    fn available(&self) -> &[AtomicU16];
    /// Flags and index in one word; then two words an element: chain, length.
    fn used(&self) -> &[AtomicU32];
    /// Where the device finds descriptors, available ring and used ring.
    fn addresses(&self) -> [u64; 3];
}

/// A piece of memory for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Where the device finds it.
    pub address: u64,
    pub len: u32,
    /// The device writes it, else it reads it.
    pub writable: bool,
}

/// What a device has written that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// More chains were used than were in flight.
    UsedIndex,
    /// A chain that is not in flight.
    Chain(u32),
    /// More bytes than there was room for.
    Length(u32),
    /// The driver's own knowledge of the queue does not fit together.
    Driver,
    /// It broke before.
    Before,
}

/// Why a request was not put in; the token comes back.
#[derive(Debug)]
pub enum NotPushed<T> {
    /// No room until something comes out.
    Full(T),
    /// It never fits: no buffer, more buffers than the queue has descriptors, an empty one, or a readable one behind a writable one.
    Unfit(T),
    Broken(T),
}

impl<T> NotPushed<T> {
    pub fn token(self) -> T {
        match self {
            NotPushed::Full(token) | NotPushed::Unfit(token) | NotPushed::Broken(token) => token,
        }
    }
}

/// What the driver knows of a descriptor.
struct Slot<T> {
    /// The next free one, or the next of its chain; `MOST`: none.
    next: u16,
    /// Of the first of a chain in flight.
    flight: Option<Flight<T>>,
}

struct Flight<T> {
    token: T,
    /// Descriptors.
    count: u16,
    /// Bytes that the device may write.
    room: u32,
}

/// See the head of the file.
pub struct Queue<M, T> {
    memory: M,
    slots: Vec<Slot<T>>,
    first_free: u16,
    free: u16,
    in_flight: u16,
    /// Free-running: chains put in, chains taken out.
    available: u16,
    used: u16,
    /// Chains ever put in.
    asked: u64,
    is_broken: bool,
}

impl<M: QueueMemory, T> Queue<M, T> {
    /// A queue of `size` descriptors, a power of two of at most `MOST`; what `memory` has room for is less if it is smaller than that.
    ///
    /// # Errors
    /// No memory, or `size` is none that a queue may have.
    pub fn try_new(memory: M, size: u16) -> Result<Self, AllocError> {
        if !size.is_power_of_two() || size > MOST {
            return Err(AllocError);
        }
        let mut slots = Vec::new();
        for n in 1..=size {
            slots.try_push(Slot { next: n, flight: None })?;
        }
        Ok(Self {
            memory,
            slots,
            first_free: 0,
            free: size,
            in_flight: 0,
            available: 0,
            used: 0,
            asked: 0,
            is_broken: false,
        })
    }

    pub fn size(&self) -> u16 {
        self.slots.len() as u16
    }

    pub fn addresses(&self) -> [u64; 3] {
        self.memory.addresses()
    }

    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Requests that have not come out.
    pub fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Requests that were ever put in.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Where in a ring a free-running index stands.
    fn place(&self, index: u16) -> usize {
        // Power of two.
        usize::from(index & self.size().wrapping_sub(1))
    }

    /// Puts a request in: first what the device reads, then what it writes. It is the device's from here on until it comes out of
    /// [`pop`](Self::pop) or [`take_all`](Self::take_all). True: the device wants to be told.
    pub fn push(&mut self, buffers: &[Buffer], token: T) -> Result<bool, NotPushed<T>> {
        if self.is_broken {
            return Err(NotPushed::Broken(token));
        }
        let is_in_order = buffers.is_sorted_by_key(|buffer| buffer.writable);
        let count = buffers.len();
        let room = buffers
            .iter()
            .filter(|buffer| buffer.writable)
            .try_fold(0u32, |sum, buffer| sum.checked_add(buffer.len));
        let (Some(room), true) = (room, is_in_order && buffers.iter().all(|buffer| buffer.len > 0)) else {
            return Err(NotPushed::Unfit(token));
        };
        if count == 0 || count > usize::from(self.size()) {
            return Err(NotPushed::Unfit(token));
        }
        if count > usize::from(self.free) {
            return Err(NotPushed::Full(token));
        }
        let head = self.first_free;
        let mut at = head;
        for (n, buffer) in buffers.iter().enumerate() {
            let is_last = n.checked_add(1) == Some(count);
            let Some(next) = self.slots.get(usize::from(at)).map(|slot| slot.next) else {
                self.is_broken = true;
                return Err(NotPushed::Broken(token));
            };
            let flags = if is_last { 0 } else { NEXT } | if buffer.writable { WRITABLE } else { 0 };
            let word = u64::from(buffer.len) | flags << 32 | u64::from(if is_last { 0 } else { next }) << 48;
            let place = usize::from(at).saturating_mul(2);
            self.put_descriptor(place, buffer.address, word);
            at = next;
        }
        let count = count as u16;
        if let Some(slot) = self.slots.get_mut(usize::from(head)) {
            slot.flight = Some(Flight { token, count, room });
        }
        self.first_free = at;
        self.free = self.free.saturating_sub(count);
        self.in_flight = self.in_flight.saturating_add(1);
        self.asked = self.asked.wrapping_add(1);
        self.publish(head);
        Ok(self.wants_notification())
    }

    fn put_descriptor(&self, place: usize, address: u64, word: u64) {
        let table = self.memory.descriptors();
        if let (Some(first), Some(second)) = (table.get(place), table.get(place.saturating_add(1))) {
            first.store(address, Ordering::Relaxed);
            second.store(word, Ordering::Relaxed);
        }
    }

    /// Shows the device a chain.
    fn publish(&mut self, head: u16) {
        let ring = self.memory.available();
        if let Some(entry) = ring.get(self.place(self.available).saturating_add(2)) {
            entry.store(head, Ordering::Relaxed);
        }
        self.available = self.available.wrapping_add(1);
        if let Some(index) = ring.get(1) {
            // What the chain says, and the caller's own writes into its buffers, come first.
            index.store(self.available, Ordering::Release);
        }
    }

    fn used_word(&self, at: usize, order: Ordering) -> u32 {
        self.memory.used().get(at).map_or(0, |word| word.load(order))
    }

    /// The device looks at the index after it has said that it wants to be told again; so the driver looks at that after it has written the index.
    fn wants_notification(&self) -> bool {
        fence(Ordering::SeqCst);
        self.used_word(0, Ordering::Relaxed) & NO_NOTIFY == 0
    }

    /// Has the device used something that nobody has taken out? Only a hint without the queue's lock.
    pub fn is_ready(&self) -> bool {
        !self.is_broken && (self.used_word(0, Ordering::Relaxed) >> 16) as u16 != self.used
    }

    /// The next request that the device is done with, and how many bytes it says that it wrote, from the first writable buffer on.
    ///
    /// # Errors
    /// The device lies, or the queue is broken already.
    pub fn pop(&mut self) -> Result<Option<(T, u32)>, Broken> {
        if self.is_broken {
            return Err(Broken::Before);
        }
        let popped = self.pop_checked();
        self.is_broken = popped.is_err();
        popped
    }

    fn pop_checked(&mut self) -> Result<Option<(T, u32)>, Broken> {
        // What the device wrote before it wrote the index is seen after this.
        let index = (self.used_word(0, Ordering::Acquire) >> 16) as u16;
        let ready = index.wrapping_sub(self.used);
        if ready > self.in_flight {
            return Err(Broken::UsedIndex);
        }
        if ready == 0 {
            return Ok(None);
        }
        let at = self.place(self.used).saturating_mul(2).saturating_add(1);
        let chain = self.used_word(at, Ordering::Relaxed);
        let written = self.used_word(at.saturating_add(1), Ordering::Relaxed);
        let head = u16::try_from(chain).map_err(|_| Broken::Chain(chain))?;
        let slot = self.slots.get_mut(usize::from(head)).ok_or(Broken::Chain(chain))?;
        let room = slot.flight.as_ref().ok_or(Broken::Chain(chain))?.room;
        if written > room {
            // Still in flight: who owns it waits for the reset.
            return Err(Broken::Length(written));
        }
        let Some(flight) = slot.flight.take() else { return Err(Broken::Driver) };
        self.used = self.used.wrapping_add(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.recycle(head, flight.count);
        Ok(Some((flight.token, written)))
    }

    /// The `count` descriptors of the chain at `head` are free again.
    fn recycle(&mut self, head: u16, count: u16) {
        let mut last = head;
        for _ in 1..count {
            last = self.slots.get(usize::from(last)).map_or(last, |slot| slot.next);
        }
        if let Some(slot) = self.slots.get_mut(usize::from(last)) {
            slot.next = self.first_free;
            self.first_free = head;
            self.free = self.free.saturating_add(count);
        }
    }

    /// Nothing is put in or comes out any more.
    pub fn stop(&mut self) {
        self.is_broken = true;
    }

    /// One of the requests that were in flight when the queue broke. Only when the device has been reset, and so writes no more.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> {
        self.is_broken = true;
        self.in_flight = 0;
        self.slots.iter_mut().filter_map(|slot| slot.flight.take()).map(|flight| flight.token)
    }
}
