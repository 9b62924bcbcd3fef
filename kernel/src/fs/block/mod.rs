//! Block devices: disks as files, /dev/vda and the like.
//!
//! Reads and writes go to the device at once and not through a page cache (`device::virtio::disk`): what was written is read by everybody, and fsync has
//! the device write it down. The price: each read is a request, and a disk cannot be mapped. O_DIRECT therefore changes nothing but what it refuses.
//!
//! Errors are Linux's: past the end reads nothing, writing there is ENOSPC; writing to a disk that is read-only is EPERM, though it can be opened.
#![forbid(unsafe_code)]

mod ioctl;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;

use sync::heap::Text;
use sync::try_box;

use super::caller;
use super::file::buffer::{Input, Output};
use super::file::{File, FileOps, OpenFlags, Order};
use super::vfs::device_number;
use crate::device::virtio::disk::{self, Disk, Error, WINDOW};
use crate::errno::{
    EBUSY, EINVAL, EIO, ENOMEM, ENOSPC, ENXIO, EOPNOTSUPP, EPERM, ERESTARTSYS, Errno, Result,
};

/// The major number that Linux gives the first kind of disk whose number is not fixed.
pub const MAJOR: u64 = 254;
/// Minor numbers of each disk: itself and its partitions, of which nobody asks.
pub const MINORS: u64 = 16;

/// The number of disk `n`.
pub fn number(n: usize) -> u64 {
    device_number::number(MAJOR, minor(n))
}

pub fn minor(n: usize) -> u64 {
    (n as u64).saturating_mul(MINORS)
}

/// The names of the disks that there are, with their places.
pub fn names() -> impl Iterator<Item = (usize, &'static Disk, &'static str)> {
    const NAMES: [&str; disk::MOST] = [
        "vda", "vdb", "vdc", "vdd", "vde", "vdf", "vdg", "vdh", "vdi", "vdj", "vdk", "vdl", "vdm", "vdn",
        "vdo", "vdp", "vdq", "vdr", "vds", "vdt", "vdu", "vdv", "vdw", "vdx", "vdy", "vdz",
    ];
    disk::all().zip(NAMES).enumerate().map(|(n, (disk, name))| (n, disk, name))
}

/// What a disk has done, in the columns of Linux's iostats.txt. Requests are not merged here, and the time with requests under way is the sum of theirs.
pub fn columns(disk: &Disk, out: &mut Vec<u8>) -> Result {
    let ms = |ns: u64| ns / 1_000_000;
    let [reads, writes, discards, flushes] = disk.sums();
    let all = [reads, writes, discards, flushes].iter().fold(0u64, |sum, kind| sum.saturating_add(kind[2]));
    let kind = |[requests, sectors, ns]: disk::Sums, out: &mut Vec<u8>| {
        write!(Text(out), "{requests} 0 {sectors} {} ", ms(ns)).map_err(|_| ENOMEM)
    };
    kind(reads, out)?;
    kind(writes, out)?;
    let under_way = disk.requests_under_way();
    write!(Text(out), "{under_way} {} {} ", ms(all), ms(all)).map_err(|_| ENOMEM)?;
    kind(discards, out)?;
    write!(Text(out), "{} {}", flushes[0], ms(flushes[2])).map_err(|_| ENOMEM)
}

/// Opens a block device by its number. ENXIO: there is none. EBUSY: it is to be opened exclusively, and somebody has.
pub fn open(device: u64, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    let minor = device_number::minor(device);
    let is_disk = device_number::major(device) == MAJOR && minor.is_multiple_of(MINORS);
    let n = usize::try_from(minor / MINORS).map_err(|_| ENXIO)?;
    let disk = disk::get(n).filter(|_| is_disk).ok_or(ENXIO)?;
    let is_exclusive = flags.contains(OpenFlags::EXCLUSIVE);
    if is_exclusive && !disk.claim() {
        return Err(EBUSY);
    }
    let opened = try_box(Block { disk, is_exclusive });
    if opened.is_err() && is_exclusive {
        disk.disclaim();
    }
    Ok(opened?)
}

struct Block {
    disk: &'static Disk,
    is_exclusive: bool,
}

fn errno_of(error: Error) -> Errno {
    match error {
        Error::Io => EIO,
        Error::Unsupported => EOPNOTSUPP,
        Error::NoMemory => ENOMEM,
        Error::Killed => ERESTARTSYS,
    }
}

/// What came before an error counts.
fn result(done: usize, failure: Option<Errno>) -> Result<usize> {
    failure.filter(|_| done == 0).map_or(Ok(done), Err)
}

impl Block {
    /// How much of `len` bytes at `at` lies on the disk.
    fn within(&self, at: u64, len: usize) -> usize {
        let left = self.disk.shape.bytes().saturating_sub(at);
        usize::try_from(left).map_or(len, |left| left.min(len))
    }

    /// O_DIRECT: whole blocks alone, to memory that the device could reach itself.
    fn check_direct(
        &self,
        file: &File,
        at: u64,
        len: usize,
        is_aligned: impl FnOnce(usize) -> bool,
    ) -> Result {
        if !file.flags().contains(OpenFlags::DIRECT) {
            return Ok(());
        }
        let block = self.disk.shape.block as usize;
        let whole = at.is_multiple_of(block as u64) && len.is_multiple_of(block);
        if whole && is_aligned(block) { Ok(()) } else { Err(EINVAL) }
    }

    /// The end of the window that holds `at`, or `to` if that comes first.
    fn turn(at: u64, to: u64) -> u64 {
        (at / WINDOW).saturating_add(1).saturating_mul(WINDOW).min(to)
    }
}

impl FileOps for Block {
    fn read(&self, file: &File, at: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let len = self.within(at, out.left());
        if len == 0 {
            return Ok(0);
        }
        self.check_direct(file, at, len, |block| out.is_aligned(block))?;
        let end = at.saturating_add(len as u64);
        let (mut now, mut failure) = (at, None);
        while now < end && out.left() > 0 {
            let to = Self::turn(now, end);
            let wanted = to.saturating_sub(now);
            match self.disk.read(now, to) {
                Ok(mut blocks) => {
                    let put = blocks.each(now, to, |piece| out.put(piece)) as u64;
                    caller::note_disk(false, put);
                    now = now.saturating_add(put);
                    if put < wanted {
                        break;
                    }
                }
                Err(error) => {
                    failure = Some(errno_of(error));
                    break;
                }
            }
        }
        // A fault before the first byte.
        out.result().and_then(|done| result(done, failure))
    }

    fn write(&self, file: &File, at: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        if self.disk.shape.read_only {
            return Err(EPERM);
        }
        if from.left() == 0 {
            return Ok(0);
        }
        let len = self.within(at, from.left());
        if len == 0 {
            return Err(ENOSPC);
        }
        from.limit(len);
        self.check_direct(file, at, len, |block| from.is_aligned(block))?;
        let end = at.saturating_add(len as u64);
        let (mut now, mut failure) = (at, None);
        while now < end && from.left() > 0 {
            let to = Self::turn(now, end);
            let fill = |blocks: &mut disk::Blocks| blocks.each(now, to, |piece| from.take(piece));
            match self.disk.write(now, to, fill) {
                Ok(0) => break,
                Ok(n) => {
                    caller::note_disk(true, n as u64);
                    now = now.saturating_add(n as u64);
                }
                Err(error) => {
                    failure = Some(errno_of(error));
                    break;
                }
            }
        }
        let done = usize::try_from(now.saturating_sub(at)).unwrap_or(usize::MAX);
        if done > 0 && file.flags().intersects(OpenFlags::DSYNC.union(OpenFlags::SYNC)) {
            self.disk.flush().map_err(errno_of)?;
        }
        if done == 0 && failure.is_none() { from.result() } else { result(done, failure) }
    }

    fn takes_flags(&self, writing: bool) -> bool {
        !writing
    }

    fn seeks(&self) -> bool {
        true
    }

    /// There is no place behind the end, and there are no holes.
    fn seek(&self, _: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        let size = self.disk.shape.bytes();
        let base = match whence {
            0 => 0,
            1 => now,
            2 => size,
            _ => return Err(EINVAL),
        };
        base.checked_add_signed(offset).filter(|&at| at <= size).ok_or(EINVAL)
    }

    fn has_no_size(&self) -> (Errno, Errno) {
        (EINVAL, EOPNOTSUPP)
    }

    fn can_be_watched(&self) -> bool {
        false
    }

    fn ioctl(&self, file: &File, command: u32, argument: usize) -> Result<usize> {
        ioctl::ioctl(self.disk, file, command, argument)
    }

    fn sync_device(&self) -> Result {
        self.disk.flush().map_err(errno_of)
    }

    fn release(&self, _: &File) {
        if self.is_exclusive {
            self.disk.disclaim();
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
