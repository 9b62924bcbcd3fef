//! ioctl(2) of block devices: what a disk is, and sectors that are discarded or set to zero.
#![forbid(unsafe_code)]

use super::errno_of;
use crate::arch;
use crate::device::virtio::disk::{Disk, SECTOR};
use crate::errno::{EACCES, EBADF, EFAULT, EINVAL, ENOTTY, EOPNOTSUPP, EPERM, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::File;
use crate::fs::file::ioctl::put_u32;

const BLKROGET: u32 = 0x125e;
const BLKGETSIZE: u32 = 0x1260;
const BLKFLSBUF: u32 = 0x1261;
const BLKSSZGET: u32 = 0x1268;
const BLKBSZGET: u32 = 0x8008_1270;
const BLKGETSIZE64: u32 = 0x8008_1272;
const BLKDISCARD: u32 = 0x1277;
const BLKIOMIN: u32 = 0x1278;
const BLKIOOPT: u32 = 0x1279;
const BLKALIGNOFF: u32 = 0x127a;
const BLKPBSZGET: u32 = 0x127b;
const BLKDISCARDZEROES: u32 = 0x127c;
const BLKZEROOUT: u32 = 0x127f;

pub fn ioctl(disk: &'static Disk, file: &File, command: u32, argument: usize) -> Result<usize> {
    let shape = &disk.shape;
    match command {
        BLKROGET => put_u32(argument, u32::from(shape.read_only)),
        BLKGETSIZE => put_u64(argument, shape.sectors),
        BLKGETSIZE64 => put_u64(argument, shape.bytes()),
        BLKSSZGET => put_u32(argument, shape.block),
        BLKBSZGET => put_u32(argument, buffer_size(disk)),
        BLKPBSZGET | BLKIOMIN => put_u32(argument, shape.physical_block),
        BLKIOOPT | BLKALIGNOFF | BLKDISCARDZEROES => put_u32(argument, 0),
        // Nothing is kept here that would have to be written or forgotten.
        BLKFLSBUF if caller::capable(Capability::SYS_ADMIN) => Ok(0),
        BLKFLSBUF => Err(EACCES),
        BLKDISCARD => discard(disk, file, argument),
        BLKZEROOUT => zero(disk, file, argument),
        _ => Err(ENOTTY),
    }
}

/// What Linux's buffer cache would use: the largest power of two up to a page that the disk's size is a multiple of.
fn buffer_size(disk: &Disk) -> u32 {
    let bytes = disk.shape.bytes();
    let mut size = disk.shape.block;
    while size < 4096 && bytes.is_multiple_of(u64::from(size).saturating_mul(2)) {
        size = size.saturating_mul(2);
    }
    size
}

fn put_u64(address: usize, value: u64) -> Result<usize> {
    arch::user::copy_to_user(address, &value.to_ne_bytes()).map_err(|_| EFAULT)?;
    Ok(0)
}

/// The first byte, and how many.
fn get_range(address: usize) -> Result<(u64, u64)> {
    let mut words = [[0; 8]; 2];
    arch::user::copy_from_user(words.as_flattened_mut(), address).map_err(|_| EFAULT)?;
    let [start, len] = words.map(u64::from_ne_bytes);
    Ok((start, len))
}

fn discard(disk: &'static Disk, file: &File, argument: usize) -> Result<usize> {
    if !file.flags().writes() {
        return Err(EBADF);
    }
    if disk.shape.discard_most == 0 {
        return Err(EOPNOTSUPP);
    }
    if disk.shape.read_only {
        return Err(EPERM);
    }
    let (start, len) = get_range(argument)?;
    let block = u64::from(disk.shape.block);
    let is_inside = start.checked_add(len).is_some_and(|end| end <= disk.shape.bytes());
    if len == 0 || !start.is_multiple_of(block) || !len.is_multiple_of(block) || !is_inside {
        return Err(EINVAL);
    }
    disk.discard(start / SECTOR, len / SECTOR).map_err(errno_of)?;
    Ok(0)
}

fn zero(disk: &'static Disk, file: &File, argument: usize) -> Result<usize> {
    if !file.flags().writes() {
        return Err(EBADF);
    }
    let (start, len) = get_range(argument)?;
    let is_whole = start.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR);
    let is_inside = start.checked_add(len).is_some_and(|end| end <= disk.shape.bytes());
    if !is_whole || len == 0 || !is_inside {
        return Err(EINVAL);
    }
    if disk.shape.read_only {
        return Err(EPERM);
    }
    let block = u64::from(disk.shape.block);
    if !start.is_multiple_of(block) || !len.is_multiple_of(block) {
        return Err(EINVAL);
    }
    disk.zero(start / SECTOR, len / SECTOR).map_err(errno_of)?;
    Ok(0)
}
