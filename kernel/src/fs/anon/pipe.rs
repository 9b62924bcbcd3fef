//! Pipes: 64 KiB of bytes between writers and readers. Writes of up to PIPE_BUF bytes are not mixed with others'. What is written with O_DIRECT comes as
//! packets: a read takes one, and what it does not want of it is gone (pipe(2)).
//!
//! The counts of bytes and ends are atomics beside the ring, so that a sleeper's condition takes no lock.
//! Lock order: `ring` (sleeping, held across user copies and while a splice writes to a file) is outermost; two by address.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Release, SeqCst},
};

use crate::lock_order as level;
use sync::quota::UNLIMITED;
use sync::{Mutex, SpinLock, lock_class, slab_arc, slab_box};

use super::ring::{PAGE, Ring};
use crate::account::{Charge, Denied, Kind, limits};
use crate::errno::{EAGAIN, EBADF, EFAULT, EINVAL, ENFILE, ENOMEM, ENOTTY, EPERM, EPIPE, Errno, Result};
use crate::fs::caller;
use crate::fs::file::async_io::AsyncQueues;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, Pace, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::fs::vfs::inode::Kind as FileKind;

lock_class! {
    static PIPE: LockClass = ("pipe", level::Pipe);
    static CHARGE: LockClass = ("pipe charge", level::PipeCharge);
}

/// Pages of a new pipe.
const PAGES: usize = 16;
/// Those of a pipe whose user has many.
const FEW_PAGES: usize = 2;
/// Most that splice(2) holds in a buffer at a time.
const CHUNK: usize = 64 << 10;
/// Largest size that can be asked for.
const SIZE_MAX: usize = 1 << 31;
const PIPE_BUF: usize = 4096;

/// Two lines go to and fro between who writes and who reads: the ring's, with what is in it, and that of those who wait for bytes. What they only read lies apart.
#[repr(C, align(64))]
pub struct Pipe {
    ring: Mutex<Ring, level::Pipe>,
    /// Bytes in the ring, as its `len` says; in the upper half those of them that stay free. Written under its lock.
    filled: AtomicU64,
    /// Both kinds of end wait here: for bytes, for room, for the other side.
    pub readable: PollQueue,
    capacity: AtomicUsize,
    pub readers: AtomicU32,
    pub writers: AtomicU32,
    /// Opens so far, by which an open of a fifo sees that the other side came, be it gone again.
    pub reader_opens: AtomicU32,
    pub writer_opens: AtomicU32,
    pub writable: PollQueue,
    /// Its pages, counted for who made it. Changed under `ring`.
    charge: SpinLock<Charge, level::PipeCharge>,
}

const _: () = assert!(core::mem::offset_of!(Pipe, readable) == 64, "a ring and what is in it are a line");
const _: () = assert!(core::mem::offset_of!(Pipe, capacity) >= 128, "those who wait for bytes are a line");

/// How many pages the caller's user may have in pipes, and how many before they become small. The administrator may have any.
fn user_limits() -> (u64, u64) {
    if caller::may_use_resources() {
        return (UNLIMITED, UNLIMITED);
    }
    (limits::PIPE_PAGES_HARD.limit(), limits::PIPE_PAGES_SOFT.limit())
}

/// The pages of a new pipe.
///
/// # Errors
/// ENFILE: its user has as many as may be.
fn new_charge() -> Result<Charge> {
    let uid = caller::uid();
    let (hard, soft) = user_limits();
    let most =
        if caller::may_use_resources() { PAGES } else { PAGES.min(limits::PIPE_SIZE.get() as usize / PAGE) };
    let charge = |pages: usize, limit| Charge::try_new(uid, Kind::PipePages, pages as u64, limit);
    let charged = match charge(most.max(1), hard.min(soft)) {
        Err(Denied::Full) if soft <= hard => charge(FEW_PAGES, hard),
        charged => charged,
    };
    charged.map_err(|e| if e == Denied::Full { ENFILE } else { ENOMEM })
}

vm::slab_type!(Pipe, "pipe", Arc);

impl Pipe {
    /// # Errors
    /// ENFILE: its user has as many pages as may be.
    pub fn try_new() -> Result<Arc<Pipe>> {
        let charge = new_charge()?;
        let pages = charge.n() as usize;
        Ok(slab_arc(Pipe {
            ring: Mutex::new(Ring::try_new(pages)?, &PIPE),
            filled: AtomicU64::new(0),
            reader_opens: AtomicU32::new(0),
            readable: PollQueue::new(),
            capacity: AtomicUsize::new(pages.saturating_mul(PAGE)),
            readers: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            writer_opens: AtomicU32::new(0),
            writable: PollQueue::new(),
            charge: SpinLock::new(charge, &CHARGE),
        })?)
    }

    /// Bytes in it, with what stays free between packets.
    #[inline]
    fn len(&self) -> usize {
        self.filled.load(SeqCst) as u32 as usize
    }

    /// Bytes that can be read.
    fn bytes_left(&self) -> u32 {
        let filled = self.filled.load(SeqCst);
        (filled as u32).saturating_sub((filled >> 32) as u32)
    }

    /// Reads what is there. `file`: who waits for a byte, and is open meanwhile; None: nobody.
    ///
    /// # Errors
    /// EAGAIN, EFAULT; of who waits EBADF (`File::keep_open`), or a signal.
    pub fn read(&self, out: &mut Output<'_>, file: Option<&File>) -> Result<usize> {
        if out.left() == 0 {
            return Ok(0);
        }
        let mut kept = None;
        loop {
            let (n, left) = self.take_some(out);
            if left > 0 {
                // Of those who sleep for bytes one was woken, perhaps this one.
                self.readable.wake_next();
            }
            if n > 0 {
                self.writable.wake_for_io_and_give_way();
                return Ok(n);
            }
            if out.faulted() {
                return Err(EFAULT);
            }
            if self.writers.load(SeqCst) == 0 && self.len() == 0 {
                return Ok(0);
            }
            // Whoever finds nothing tells the other side, too, as on Linux.
            self.writable.signal_owners();
            if kept.is_none() {
                kept = Some(file.ok_or(EAGAIN)?.keep_open()?);
            }
            self.readable.wait_alone(|| (self.len() > 0 || self.writers.load(SeqCst) == 0).then_some(()))?;
        }
    }

    /// Reads what is there: bytes read, and bytes left. Who finds nothing takes no lock.
    #[inline]
    fn take_some(&self, out: &mut Output<'_>) -> (usize, usize) {
        if self.len() == 0 {
            return (0, 0);
        }
        let mut ring = self.ring.lock();
        let n = ring.read(out);
        if n > 0 {
            self.publish(&ring);
        }
        (n, ring.len())
    }

    /// `file`: as for `read`.
    pub fn write(&self, from: &mut Input<'_>, file: Option<&File>) -> Result<usize> {
        self.write_as::<false>(from, file)
    }

    /// The same, in packets (O_DIRECT): each has at most a page, and is there as a whole or not at all.
    #[cold]
    #[inline(never)]
    pub fn write_packets(&self, from: &mut Input<'_>, file: Option<&File>) -> Result<usize> {
        self.write_as::<true>(from, file)
    }

    #[inline(always)]
    #[expect(clippy::arithmetic_side_effects, reason = "the ring holds no more than its capacity")]
    fn write_as<const PACKETS: bool>(&self, from: &mut Input<'_>, file: Option<&File>) -> Result<usize> {
        if from.left() == 0 {
            return Ok(0);
        }
        let (mut done, mut kept, mut begins) = (0, None, true);
        let ended = |done: usize, error: Errno| if done > 0 { Ok(done) } else { Err(error) };
        loop {
            if self.readers.load(SeqCst) == 0 {
                // SIGPIPE comes with a part written, too.
                crate::fs::caller::signal_pipe();
                return ended(done, EPIPE);
            }
            let whole = if done == 0 && from.left() <= PIPE_BUF { from.left() } else { 1 };
            let mut ring = self.ring.lock();
            let (n, has_room) = if PACKETS {
                let merged = if begins { ring.write_to_last(from) } else { 0 };
                begins = false;
                let packet = if from.left() > 0 { ring.write_packet(from) } else { 0 };
                (merged + packet, ring.has_room_for_packet())
            } else {
                let has_room = ring.capacity() - ring.len() >= whole;
                (if has_room { ring.write(from) } else { 0 }, has_room)
            };
            let seen = (ring.len(), ring.capacity());
            self.publish(&ring);
            drop(ring);
            done += n;
            if n > 0 {
                self.readable.wake_one_for_io_and_give_way();
            }
            if from.faulted() {
                return ended(done, EFAULT);
            }
            if from.left() == 0 {
                return Ok(done);
            }
            if n > 0 {
                continue;
            }
            if has_room {
                // There was room, but no memory for it.
                return ended(done, ENOMEM);
            }
            if done == 0 {
                self.readable.signal_owners();
            }
            if kept.is_none() {
                match file.ok_or(EAGAIN).and_then(File::keep_open) {
                    Ok(open) => kept = Some(open),
                    Err(e) => return ended(done, e),
                }
            }
            let woken = self.writable.wait(None, || {
                let (len, capacity) = (self.len(), self.capacity.load(SeqCst));
                // How many packets fit, the ring knows.
                let room =
                    if PACKETS { (len, capacity) != seen } else { capacity.saturating_sub(len) >= whole };
                (room || self.readers.load(SeqCst) == 0).then_some(())
            });
            if let Err(e) = woken {
                return ended(done, e);
            }
        }
    }

    /// Waits for a byte; false at the end of the pipe. `file`: as for `read`.
    pub fn wait_data(&self, file: Option<&File>) -> Result<bool> {
        let some = || match self.len() {
            0 if self.writers.load(SeqCst) == 0 => Some(false),
            0 => None,
            _ => Some(true),
        };
        match some() {
            Some(result) => Ok(result),
            None => {
                let _kept = file.ok_or(EAGAIN)?.keep_open()?;
                self.readable.wait(None, some)
            }
        }
    }

    /// Waits until there is something else in it than `seen` bytes, or nobody reads. `file`: as for `read`.
    fn wait_change(&self, seen: usize, file: Option<&File>) -> Result {
        let _kept = file.ok_or(EAGAIN)?.keep_open()?;
        self.writable.wait(None, || (self.len() != seen || self.readers.load(SeqCst) == 0).then_some(()))
    }

    /// Waits for room, and returns how much there is. EPIPE if nobody reads. `file`: as for `read`.
    pub fn wait_room(&self, file: Option<&File>) -> Result<usize> {
        let room = || {
            let room = self.capacity.load(SeqCst).saturating_sub(self.len());
            (room > 0 || self.readers.load(SeqCst) == 0).then_some(room)
        };
        let found = match room() {
            Some(found) => found,
            None => {
                let _kept = file.ok_or(EAGAIN)?.keep_open()?;
                self.writable.wait(None, room)?
            }
        };
        if self.readers.load(SeqCst) == 0 {
            crate::fs::caller::signal_pipe();
            return Err(EPIPE);
        }
        Ok(found)
    }

    /// The ring changed under its lock. Giving that back is the fence between this and the look for sleepers.
    fn publish(&self, ring: &Ring) {
        self.filled.store(ring.len() as u64 | (ring.unused() as u64) << 32, Release);
    }

    /// Bytes were taken: whoever else waits for bytes looks whether there are more, and a writer whether there is room.
    fn tell_of_room(&self) {
        if self.len() > 0 {
            self.readable.wake_next();
        }
        self.writable.wake_for_io_and_give_way();
    }

    /// The pages count while there is an end: the pipe itself may wait for a grace period. (A fifo's may be opened once more meanwhile.)
    fn count_pages(&self) {
        let mut charge = self.charge.lock();
        let open = self.readers.load(SeqCst) > 0 || self.writers.load(SeqCst) > 0;
        let to = match (open, charge.n()) {
            (true, 0) => (self.capacity.load(SeqCst) / PAGE) as u64,
            (true, _) => return,
            (false, _) => 0,
        };
        // Nobody is refused here.
        let _ = charge.set(to, UNLIMITED);
    }

    fn wake_all(&self, pace: &mut Pace) {
        self.readable.wake_at(pace);
        self.writable.wake_at(pace);
    }
}

/// One end of a pipe, or both (a fifo opened for reading and writing).
pub struct End {
    pub pipe: Arc<Pipe>,
    reads: bool,
    writes: bool,
    released: AtomicBool,
}

vm::slab_type!(End, "pipe-end", Box);

impl End {
    /// Counts itself until it is released or dropped.
    pub fn try_new(pipe: Arc<Pipe>, reads: bool, writes: bool) -> Result<Box<End>> {
        let end = slab_box(End { pipe, reads, writes, released: AtomicBool::new(true) })?;
        if reads {
            end.pipe.readers.fetch_add(1, SeqCst);
            end.pipe.reader_opens.fetch_add(1, SeqCst);
        }
        if writes {
            end.pipe.writers.fetch_add(1, SeqCst);
            end.pipe.writer_opens.fetch_add(1, SeqCst);
        }
        end.released.store(false, SeqCst);
        end.pipe.count_pages();
        end.pipe.wake_all(&mut Pace::resting());
        Ok(end)
    }

    fn leave(&self, pace: &mut Pace) {
        if self.released.swap(true, SeqCst) {
            return;
        }
        if self.reads {
            self.pipe.readers.fetch_sub(1, SeqCst);
        }
        if self.writes {
            self.pipe.writers.fetch_sub(1, SeqCst);
        }
        self.pipe.count_pages();
        self.pipe.wake_all(pace);
        if (self.pipe.readers.load(SeqCst) == 0) != (self.pipe.writers.load(SeqCst) == 0) {
            self.pipe.readable.signal_owners();
            self.pipe.writable.signal_owners();
        }
    }

    /// F_GETPIPE_SZ.
    pub fn capacity(&self) -> usize {
        self.pipe.capacity.load(SeqCst)
    }

    /// F_SETPIPE_SZ.
    ///
    /// # Errors
    /// EINVAL; EPERM: more than the caller may have; EBUSY: what is in the pipe does not fit; ENOMEM.
    pub fn set_capacity(&self, size: usize) -> Result<usize> {
        let size = rounded(size).ok_or(EINVAL)?;
        let pages = (size / PAGE) as u64;
        let mut ring = self.pipe.ring.lock();
        let had = self.pipe.charge.lock().n();
        if pages > had {
            if size as u64 > limits::PIPE_SIZE.get() && !caller::may_use_resources() {
                return Err(EPERM);
            }
            let (hard, soft) = user_limits();
            let charged = self.pipe.charge.lock().set(pages, hard.min(soft));
            charged.map_err(|e| if e == Denied::Full { EPERM } else { ENOMEM })?;
        }
        let resized = ring.resize(size / PAGE);
        // Fewer are never refused.
        let _ = self.pipe.charge.lock().set(if resized.is_ok() { pages } else { had }, UNLIMITED);
        resized?;
        self.pipe.capacity.store(size, SeqCst);
        drop(ring);
        self.pipe.wake_all(&mut Pace::resting());
        Ok(size)
    }
}

/// The size that a pipe gets which `size` is asked for: a power of two.
pub fn rounded(size: usize) -> Option<usize> {
    (size <= SIZE_MAX).then(|| size.max(PAGE).next_power_of_two())
}

impl Drop for End {
    fn drop(&mut self) {
        self.leave(&mut Pace::hurried());
    }
}

impl FileOps for End {
    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        if !self.reads {
            return Err(EBADF);
        }
        let waits = !(file.nonblocking() || out.nowait);
        self.pipe.read(out, waits.then_some(file))
    }

    fn write(&self, file: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        if !self.writes {
            return Err(EBADF);
        }
        let waits = !(file.nonblocking() || from.nowait);
        if file.flags().contains(OpenFlags::DIRECT) {
            return self.pipe.write_packets(from, waits.then_some(file));
        }
        self.pipe.write(from, waits.then_some(file))
    }

    /// Not what was opened by a name, as on Linux.
    fn takes_nowait(&self, file: &File) -> bool {
        file.path().is_none()
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        let pipe = &self.pipe;
        let mut events = 0;
        if self.reads {
            poller.add(&pipe.readable);
            if pipe.len() > 0 {
                events |= poll::IN | poll::RDNORM;
            }
            // A fifo that never had a writer is not hung up, only empty.
            if pipe.writers.load(SeqCst) == 0 && pipe.writer_opens.load(SeqCst) > 0 {
                events |= poll::HUP;
            }
        }
        if self.writes {
            poller.add(&pipe.writable);
            if pipe.capacity.load(SeqCst).saturating_sub(pipe.len()) >= PIPE_BUF {
                events |= poll::OUT | poll::WRNORM;
            }
            if pipe.readers.load(SeqCst) == 0 {
                events |= poll::ERR;
            }
        }
        events
    }

    fn ioctl(&self, _: &File, command: u32, argument: usize) -> Result<usize> {
        match command {
            crate::fs::file::ioctl::FIONREAD => {
                crate::fs::file::ioctl::put_u32(argument, self.pipe.bytes_left())
            }
            _ => Err(ENOTTY),
        }
    }

    fn async_queues(&self) -> Option<AsyncQueues<'_>> {
        let (input, output) =
            (self.reads.then_some(&self.pipe.readable), self.writes.then_some(&self.pipe.writable));
        Some(AsyncQueues { input, output, owner: None })
    }

    fn held_pages(&self, _: &File) -> u64 {
        self.pipe.len().div_ceil(PAGE) as u64
    }

    fn release(&self, _: &File) {
        self.leave(&mut Pace::resting());
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// pipe2(2): the end to read from and the end to write to. Packets are the matter of who writes.
pub fn pair(flags: OpenFlags) -> Result<(Arc<File>, Arc<File>)> {
    let inode = super::inode(FileKind::Fifo, 0o600)?;
    let pipe = Pipe::try_new()?;
    let reader = End::try_new(pipe.clone(), true, false)?;
    let writer = End::try_new(pipe, false, true)?;
    let reader = File::try_anonymous(inode.clone(), "pipe", reader, flags.difference(OpenFlags::DIRECT))?;
    let writer = File::try_anonymous(inode, "pipe", writer, flags | OpenFlags::WRITE_ONLY)?;
    Ok((reader, writer))
}

mod splice;
pub use splice::Given;

#[cfg(test)]
mod tests;
