//! Disks (Virtio 1.2, 5.2): sectors of 512 bytes are read and written, in blocks of the size that the device says.
//!
//! **Transfers are direct**: a write is with the device when it returns, so a read on any CPU sees it. What the device keeps in a cache of its own
//! [`flush`](Disk::flush) has it write down.
//!
//! **Stripes.** A write of part of a block reads the block, changes it and writes it whole, and a write of whole blocks must not come between. So whoever writes
//! holds the stripe of its window (64 KiB, `WINDOW`): one of 64, so writers of different places share no line. A stripe is given back when the *device* is done with the write, not
//! when the writer is killed: a write that nobody waits for any more does not overtake the next one to the same place. Stripes are waited for killably.
//! Who discards or zeroes holds all of them, taken in order.
//!
//! What is counted of a disk (/proc/diskstats) each CPU counts in a line of its own.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::virtio::{Transport, Width, transport};
use sync::{heap::try_box_slice, try_box};
use vm::OnceBox;

use super::request::Kept;
use super::{Device, Failure, Memory};
use crate::arch::{self, Registers};
use crate::sched::{Sleep, WaitQueue};

/// Bytes of a sector, whatever a block is.
pub const SECTOR: u64 = 512;
const PAGE: u64 = 4096;
/// A transfer lies in one of these, and so holds one stripe.
pub const WINDOW: u64 = 64 << 10;
/// Pages of data in a request: a window's.
const DATA_PAGES: usize = 16;
const STRIPES: u64 = 64;
/// Disks that there are at most.
pub const MOST: usize = 26;

/// Features (5.2.3).
mod feature {
    pub const SIZE_MOST: u64 = 1 << 1;
    pub const PARTS_MOST: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLOCK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const QUEUES: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const ZEROES: u64 = 1 << 14;
}

pub const FEATURES: u64 = feature::SIZE_MOST
    | feature::PARTS_MOST
    | feature::READ_ONLY
    | feature::BLOCK_SIZE
    | feature::FLUSH
    | feature::TOPOLOGY
    | feature::QUEUES
    | feature::DISCARD
    | feature::ZEROES;

/// Requests (5.2.6).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Read = 0,
    Write = 1,
    Flush = 4,
    Discard = 11,
    Zeroes = 13,
}

/// Why a transfer failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The device says so, or it is broken.
    Io,
    /// It does not do that.
    Unsupported,
    NoMemory,
    /// The thread is killed.
    Killed,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Broken => Error::Io,
            Failure::NoMemory => Error::NoMemory,
            Failure::Woken(_) => Error::Killed,
        }
    }
}

impl From<sync::AllocError> for Error {
    fn from(_: sync::AllocError) -> Self {
        Error::NoMemory
    }
}

/// What a disk is, as the device said when it came up.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub sectors: u64,
    /// Bytes that are read and written as a whole: a power of two, a sector to a page.
    pub block: u32,
    /// The same of the medium, which writes smaller ones more slowly.
    pub physical_block: u32,
    pub read_only: bool,
    /// What is written may lie in a cache of the device's until it is flushed.
    pub has_cache: bool,
    /// Sectors of one request; 0: it does not do that.
    pub discard_most: u32,
    zeroes_most: u32,
}

impl Shape {
    pub fn bytes(&self) -> u64 {
        // Checked when it was read.
        self.sectors.saturating_mul(SECTOR)
    }
}

/// A place in the configuration (5.2.4).
type Field = (usize, Width);

fn shape_of(transport: &Transport<Registers>, features: u64) -> Result<Shape, transport::Error> {
    let one = |field: Field| transport.configuration([field]).map(|[value]| value);
    let has = |feature| features & feature != 0;
    let wrong = Err(transport::Error::Configuration);
    let [low, high] = transport.configuration([(0, Width::Word), (4, Width::Word)])?;
    let sectors = u64::from(low) | u64::from(high) << 32;
    let block = if has(feature::BLOCK_SIZE) { one((20, Width::Word))? } else { SECTOR as u32 };
    if !block.is_power_of_two() || !(SECTOR as u32..=PAGE as u32).contains(&block) {
        return wrong;
    }
    // What no file offset can say, and half a block at the end, are not there.
    let sectors =
        sectors.min(i64::MAX as u64 / SECTOR) / (u64::from(block) / SECTOR) * (u64::from(block) / SECTOR);
    // A request is a page for each part.
    let parts = if has(feature::PARTS_MOST) { one((12, Width::Word))? } else { DATA_PAGES as u32 };
    let size = if has(feature::SIZE_MOST) { one((8, Width::Word))? } else { PAGE as u32 };
    if (parts as usize) < DATA_PAGES || u64::from(size) < PAGE {
        return wrong;
    }
    let exponent = if has(feature::TOPOLOGY) { one((24, Width::Byte))? } else { 0 };
    let physical =
        block.checked_shl(exponent).filter(|&size| size >= block && size <= 1 << 20).unwrap_or(block);
    Ok(Shape {
        sectors,
        block,
        physical_block: physical,
        read_only: has(feature::READ_ONLY),
        has_cache: has(feature::FLUSH),
        discard_most: if has(feature::DISCARD) { one((36, Width::Word))? } else { 0 },
        zeroes_most: if has(feature::ZEROES) { one((48, Width::Word))? } else { 0 },
    })
}

/// How many queues the device has.
pub fn queues(transport: &Transport<Registers>, features: u64) -> Result<u16, transport::Error> {
    match features & feature::QUEUES {
        0 => Ok(1),
        _ => transport.configuration([(34, Width::Half)]).map(|[count]| count as u16),
    }
}

/// A place that one at a time writes to.
#[repr(align(128))]
struct Stripe {
    is_held: AtomicBool,
    free: WaitQueue,
}

/// A stripe, until this is dropped.
pub struct Hold(&'static Stripe);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.is_held.store(false, Ordering::Release);
        self.0.free.wake_one();
    }
}

impl Stripe {
    fn hold(&'static self) -> Result<Hold, Error> {
        // Made only when it is held: dropping it lets go.
        let try_hold = || (!self.is_held.swap(true, Ordering::Acquire)).then(|| Hold(self));
        self.free.wait_until(Sleep::Killable, None, try_hold).map_err(|_| Error::Killed)
    }
}

/// What is counted: requests, sectors, nanoseconds of each kind.
#[derive(Default)]
#[repr(align(128))]
struct Counts {
    kinds: [[AtomicU64; 3]; 4],
}

/// The kinds that are counted, in the order of /proc/diskstats.
#[derive(Clone, Copy)]
enum Counted {
    Reads = 0,
    Writes = 1,
    Discards = 2,
    Flushes = 3,
}

/// Sums over all CPUs: requests, sectors, nanoseconds.
pub type Sums = [u64; 3];

pub struct Disk {
    device: &'static Device,
    pub shape: Shape,
    /// Somebody has it opened exclusively.
    is_claimed: AtomicBool,
    stripes: Box<[Stripe]>,
    counts: Box<[Counts]>,
}

static DISKS: [OnceBox<Disk>; MOST] = [const { OnceBox::new() }; MOST];

/// Disk `n`, from 0 on without gaps.
pub fn get(n: usize) -> Option<&'static Disk> {
    DISKS.get(n)?.get()
}

pub fn all() -> impl Iterator<Item = &'static Disk> {
    DISKS.iter().map_while(OnceBox::get)
}

/// The device is up.
pub(super) fn begin(device: &'static Device, features: u64) -> Result<(), transport::Error> {
    let disk = try_box(Disk::try_new(device, features)?).map_err(|_| transport::Error::Memory)?;
    let free = DISKS.iter().find(|place| place.get().is_none()).ok_or(transport::Error::Memory)?;
    free.get_or_try(|| Ok::<_, transport::Error>(disk)).map(|_| ())
}

/// Blocks of one window in memory, to be read into or written from.
pub struct Blocks {
    memory: Memory,
    /// Sectors.
    first: u64,
    count: u64,
}

/// The page with the request's header, what is to be discarded, and its status.
const HEAD: usize = 0;
const HEADER: core::ops::Range<usize> = 0..16;
const RANGE: core::ops::Range<usize> = 16..32;
const STATUS: usize = 32;

impl Blocks {
    /// Blocks that hold the bytes `from..to`, which lie in one window. Their contents are unspecified.
    fn try_new(disk: &Disk, from: u64, to: u64) -> Result<Self, Error> {
        let block = u64::from(disk.shape.block);
        let first = from / block * block;
        let end = to.div_ceil(block) * block;
        let pages = (end - first).div_ceil(PAGE) as usize;
        debug_assert!(pages <= DATA_PAGES);
        let memory = Memory::try_new(pages + 1)?;
        Ok(Blocks { memory, first: first / SECTOR, count: (end - first) / SECTOR })
    }

    /// The byte of the disk with which they begin.
    pub fn start(&self) -> u64 {
        self.first * SECTOR
    }

    pub fn end(&self) -> u64 {
        (self.first + self.count) * SECTOR
    }

    /// Sets the bytes `from..to` of the disk to zero here; how many.
    fn clear(&mut self, from: u64, to: u64) -> usize {
        self.each(from, to, |piece| {
            piece.fill(0);
            piece.len()
        })
    }

    /// Calls `f` with the pieces, a page or less each, of the bytes `from..to` of the disk, until it takes less than a piece; how many bytes it took.
    pub fn each(&mut self, from: u64, to: u64, mut f: impl FnMut(&mut [u8]) -> usize) -> usize {
        let (mut at, mut done) = (from.max(self.start()), 0);
        let end = to.min(self.end());
        while at < end {
            let offset = at - self.start();
            let begin = (offset % PAGE) as usize;
            let len = (PAGE as usize - begin).min((end - at) as usize);
            let page = self.memory.page(1 + (offset / PAGE) as usize);
            let taken = page.get_mut(begin..begin + len).map_or(0, &mut f);
            done += taken;
            at += taken as u64;
            if taken < len {
                break;
            }
        }
        done
    }
}

impl Disk {
    /// The number of its device on the bus.
    pub fn bus_number(&self) -> Option<u32> {
        super::bus::number_of(self.device)
    }

    pub(super) fn try_new(device: &'static Device, features: u64) -> Result<Disk, transport::Error> {
        let memory = |_| transport::Error::Memory;
        let stripe = |_| Stripe { is_held: AtomicBool::new(false), free: WaitQueue::new() };
        Ok(Disk {
            device,
            shape: shape_of(&device.transport, features)?,
            is_claimed: AtomicBool::new(false),
            stripes: try_box_slice(STRIPES as usize, stripe).map_err(memory)?,
            counts: try_box_slice(sync::cpus() as usize, |_| Counts::default()).map_err(memory)?,
        })
    }

    /// For who opens it exclusively. False: somebody else has it.
    pub fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    pub fn disclaim(&self) {
        self.is_claimed.store(false, Ordering::Release);
    }

    pub fn requests_under_way(&self) -> u64 {
        self.device.in_flight()
    }

    fn stripe(&'static self, at: u64) -> Result<Hold, Error> {
        let n = (at / WINDOW % STRIPES) as usize;
        self.stripes.get(n).ok_or(Error::Io)?.hold()
    }

    /// Reads the blocks that hold the bytes `from..to`, which lie on the disk and in one window. May sleep, killably.
    pub fn read(&'static self, from: u64, to: u64) -> Result<Blocks, Error> {
        let blocks = Blocks::try_new(self, from, to)?;
        self.transfer(Kind::Read, blocks)
    }

    /// Writes the bytes `from..to`, which lie on the disk and in one window; `fill` puts them into memory and says how many it had, which is returned. May
    /// sleep, killably; so may `fill`.
    pub fn write(
        &'static self,
        from: u64,
        to: u64,
        fill: impl FnOnce(&mut Blocks) -> usize,
    ) -> Result<usize, Error> {
        let mut new = Blocks::try_new(self, from, to)?;
        let filled = fill(&mut new);
        if filled == 0 {
            return Ok(0);
        }
        let end = from + filled as u64;
        let hold = self.stripe(from)?;
        let block = u64::from(self.shape.block);
        let is_whole = from.is_multiple_of(block) && end.is_multiple_of(block);
        if is_whole {
            // What was not filled is not written.
            new.count = (end - new.start()) / SECTOR;
        } else {
            new = self.merged(new, from, end)?;
        }
        new.memory.keep(Kept::Place(hold))?;
        self.transfer(Kind::Write, new)?;
        Ok(filled)
    }

    /// The blocks as they are on the disk, with the bytes `from..to` of `new`.
    fn merged(&'static self, mut new: Blocks, from: u64, to: u64) -> Result<Blocks, Error> {
        let mut old = self.read(from, to)?;
        let mut at = from;
        old.each(from, to, |into| {
            let len = into.len() as u64;
            let mut done = 0;
            new.each(at, at + len, |piece| {
                let to = into.get_mut(done..done + piece.len());
                to.map_or(0, |to| {
                    to.copy_from_slice(piece);
                    done += piece.len();
                    piece.len()
                })
            });
            at += len;
            done
        });
        Ok(old)
    }

    fn transfer(&'static self, kind: Kind, mut blocks: Blocks) -> Result<Blocks, Error> {
        let (first, count) = (blocks.first, blocks.count);
        let is_read = kind == Kind::Read;
        let mut memory = blocks.memory;
        head(&mut memory, kind, first)?;
        let mut left = count * SECTOR;
        let mut page = 1;
        while left > 0 {
            let part = left.min(PAGE);
            memory.add(page, 0..part as usize, is_read)?;
            left -= part;
            page += 1;
        }
        let counted = if is_read { Counted::Reads } else { Counted::Writes };
        let (memory, written) = self.finish(memory, counted, count)?;
        // All that was asked for, and the status.
        if is_read && u64::from(written) != count * SECTOR + 1 {
            return Err(Error::Io);
        }
        blocks.memory = memory;
        Ok(blocks)
    }

    /// Asks the device, and looks at the status that it gives.
    fn finish(
        &'static self,
        mut memory: Memory,
        kind: Counted,
        sectors: u64,
    ) -> Result<(Memory, u32), Error> {
        memory.add(HEAD, STATUS..STATUS + 1, true)?;
        let began = arch::time::now();
        let (mut memory, written) = self.device.ask(memory, Sleep::Killable, None)?;
        let status = memory.page(HEAD).get(STATUS).copied();
        memory.reuse();
        match status {
            Some(0) => {}
            Some(2) => return Err(Error::Unsupported),
            _ => return Err(Error::Io),
        }
        self.count(kind, sectors, arch::time::now().saturating_sub(began));
        Ok((memory, written))
    }

    /// Has what was written before written down for good. May sleep, killably.
    pub fn flush(&'static self) -> Result<(), Error> {
        if !self.shape.has_cache {
            return Ok(());
        }
        let mut memory = Memory::try_new(1)?;
        head(&mut memory, Kind::Flush, 0)?;
        self.finish(memory, Counted::Flushes, 0).map(|_| ())
    }

    /// Discards sectors, which lie on the disk: what is read there afterwards is anything. May sleep, killably.
    ///
    /// # Errors
    /// Unsupported: the device does not.
    pub fn discard(&'static self, first: u64, count: u64) -> Result<(), Error> {
        self.change(Kind::Discard, self.shape.discard_most, first, count)
    }

    /// Sets sectors, which lie on the disk, to zero. May sleep, killably.
    pub fn zero(&'static self, first: u64, count: u64) -> Result<(), Error> {
        match self.change(Kind::Zeroes, self.shape.zeroes_most, first, count) {
            Err(Error::Unsupported) => self.write_zeros(first, count),
            done => done,
        }
    }

    fn write_zeros(&'static self, first: u64, count: u64) -> Result<(), Error> {
        let (mut at, end) = (first * SECTOR, (first + count) * SECTOR);
        while at < end {
            let to = (at / WINDOW * WINDOW + WINDOW).min(end);
            self.write(at, to, |blocks| blocks.clear(at, to))?;
            at = to;
        }
        Ok(())
    }

    fn change(&'static self, kind: Kind, most: u32, first: u64, count: u64) -> Result<(), Error> {
        let blocks = self.shape.block / SECTOR as u32;
        let most = u64::from(most / blocks * blocks);
        if most == 0 {
            return Err(Error::Unsupported);
        }
        let (mut at, mut left) = (first, count);
        while left > 0 {
            let now = left.min(most);
            self.change_once(kind, at, now as u32)?;
            at += now;
            left -= now;
            if crate::sched::give_way() {
                return Err(Error::Killed);
            }
        }
        Ok(())
    }

    fn change_once(&'static self, kind: Kind, first: u64, count: u32) -> Result<(), Error> {
        let mut memory = Memory::try_new(1)?;
        head(&mut memory, kind, 0)?;
        if let Some(range) = memory.page(HEAD).get_mut(RANGE) {
            let said = first.to_le_bytes().into_iter().chain(count.to_le_bytes()).chain([0; 4]);
            range.iter_mut().zip(said).for_each(|(byte, value)| *byte = value);
        }
        memory.add(HEAD, RANGE, false)?;
        for stripe in &self.stripes {
            memory.keep(Kept::Place(stripe.hold()?))?;
        }
        let counted = if kind == Kind::Discard { Counted::Discards } else { Counted::Writes };
        self.finish(memory, counted, u64::from(count)).map(|_| ())
    }

    fn count(&self, kind: Counted, sectors: u64, ns: u64) {
        let Some(counts) = self.counts.get(arch::cpu_id() as usize) else { return };
        let Some(counts) = counts.kinds.get(kind as usize) else { return };
        for (count, more) in counts.iter().zip([1, sectors, ns]) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Reads, writes, discards, flushes.
    pub fn sums(&self) -> [Sums; 4] {
        let mut sums = [[0u64; 3]; 4];
        for counts in &self.counts {
            for (sums, counts) in sums.iter_mut().zip(&counts.kinds) {
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
                }
            }
        }
        sums
    }
}

/// The request's header: its kind and first sector. The status is no answer of the device's yet.
fn head(memory: &mut Memory, kind: Kind, sector: u64) -> Result<(), Error> {
    let page = memory.page(HEAD);
    let said = (kind as u32).to_le_bytes().into_iter().chain([0; 4]).chain(sector.to_le_bytes());
    page.iter_mut().zip(said).for_each(|(byte, value)| *byte = value);
    if let Some(status) = page.get_mut(STATUS) {
        *status = u8::MAX;
    }
    Ok(memory.add(HEAD, HEADER, false)?)
}
