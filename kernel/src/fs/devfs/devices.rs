//! The devices that have nodes in /dev, and what opens them.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::any::Any;

use sync::try_box;

use super::{hwrng, kmsg, random};
use crate::device::virtio::entropy;
use crate::errno::{EINVAL, ENOSPC, ENXIO, Result};
use crate::fs::block;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::{File, FileOps, Mapping, OpenFlags, Order};
use crate::fs::tty;
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::Kind;

/// The nodes of /dev: name, major, minor, mode.
pub const NODES: &[(&str, u64, u64, u32)] = &[
    ("null", 1, 3, 0o666),
    ("zero", 1, 5, 0o666),
    ("full", 1, 7, 0o666),
    ("random", 1, 8, 0o666),
    ("urandom", 1, 9, 0o666),
    ("kmsg", 1, 11, 0o644),
    ("tty", 5, 0, 0o666),
    ("console", 5, 1, 0o600),
    ("ptmx", 5, 2, 0o666),
    ("ttyS0", 4, 64, 0o660),
    ("ttyS1", 4, 65, 0o660),
    ("ttyS2", 4, 66, 0o660),
    ("ttyS3", 4, 67, 0o660),
];

/// The machine's source of entropy, where it has one.
pub const HWRNG: (&str, u64, u64, u32) = ("hwrng", 10, 183, 0o600);

/// Opens a device. ENXIO if there is none of that number.
#[expect(clippy::arithmetic_side_effects, reason = "the pattern says that n is at least 64")]
pub fn open(kind: Kind, device: u64, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    match kind {
        Kind::Character => {}
        Kind::Block => return block::open(device, flags),
        _ => return Err(ENXIO),
    }
    let ops: Box<dyn FileOps> = match (device_number::major(device), device_number::minor(device)) {
        (1, 3) => try_box(Memory::Null)?,
        (1, 5) => try_box(Memory::Zero)?,
        (1, 7) => try_box(Memory::Full)?,
        (1, 8) => try_box(Memory::Random)?,
        (1, 9) => try_box(Memory::Urandom)?,
        (1, 11) => return kmsg::open(flags),
        (5, 0) => return tty::open_current(flags),
        (5, 1) => return tty::open_console(),
        (5, 2) => return tty::pty::open_master(),
        (10, 183) if entropy::is_there() => return hwrng::open(flags),
        (4, n @ 64..=67) => return tty::open_serial((n - 64) as usize, flags),
        (tty::HVC_MAJOR, n) => return tty::open_hvc(n as usize, flags),
        (136..=151, _) => return tty::pty::open_slave(device, flags),
        _ => return Err(ENXIO),
    };
    Ok(ops)
}

enum Memory {
    Null,
    Zero,
    Full,
    Random,
    /// As `Random`, but epoll may not watch it.
    Urandom,
}

/// Where a place means nothing every one is 0.
///
/// # Errors
/// EINVAL: no such way to seek.
pub fn seek_nowhere(whence: u32) -> Result<u64> {
    if whence > 4 { Err(EINVAL) } else { Ok(0) }
}

impl FileOps for Memory {
    fn read(&self, _: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        match self {
            Memory::Null => return Ok(0),
            Memory::Zero | Memory::Full => {
                out.put_zeros(out.left());
            }
            Memory::Random | Memory::Urandom => random::fill(out)?,
        }
        out.result()
    }

    fn write(&self, _: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        match self {
            Memory::Null | Memory::Zero => Ok(from.skip()),
            Memory::Full => Err(ENOSPC),
            Memory::Random | Memory::Urandom => {
                random::stir(from)?;
                from.result()
            }
        }
    }

    fn splices(&self) -> bool {
        !matches!(self, Memory::Null)
    }

    fn takes_spliced(&self) -> bool {
        !matches!(self, Memory::Full)
    }

    fn takes_flags(&self, writing: bool) -> bool {
        !(writing && matches!(self, Memory::Full))
    }

    fn seeks(&self) -> bool {
        true
    }

    fn moves(&self) -> bool {
        false
    }

    fn seek(&self, _: &File, _: i64, whence: u32, _: u64) -> Result<u64> {
        seek_nowhere(whence)
    }

    fn takes_nowait(&self, _: &File) -> bool {
        !matches!(self, Memory::Full)
    }

    fn can_be_watched(&self) -> bool {
        matches!(self, Memory::Random)
    }

    fn mapping(&self, _: &File) -> Result<Mapping> {
        match self {
            Memory::Zero => Ok(Mapping::Anonymous),
            _ => Err(crate::errno::ENODEV),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
