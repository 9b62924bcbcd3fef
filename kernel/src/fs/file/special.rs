//! Device nodes and fifos: they are opened alike whatever file system they lie in. Who opens them stands above this room, and registers
//! a door here at boot, as file systems do.
//!
//! No locks.
#![forbid(unsafe_code)]

use alloc::boxed::Box;

use once_cell::race::OnceRef;

use super::{FileOps, OpenFlags};
use crate::errno::{ENXIO, Result};
use crate::fs::vfs::inode::{Inode, Kind};

/// Opens what its number or its inode tells apart. May sleep (a fifo waits for its other end), interruptibly.
pub struct Special {
    /// A character or block device by its number. ENXIO if there is none.
    pub device: fn(Kind, u64, OpenFlags) -> Result<Box<dyn FileOps>>,
    pub fifo: fn(&Inode, OpenFlags) -> Result<Box<dyn FileOps>>,
}

static SPECIAL: OnceRef<'static, Special> = OnceRef::new();

/// Says what opens device nodes and fifos. Once, at boot, before the first is opened.
pub fn register(special: &'static Special) {
    if SPECIAL.set(special).is_err() {
        crate::warn!("devices and fifos are registered already");
    }
}

/// Opens a device node, a fifo or a socket.
///
/// # Errors
/// ENXIO: nothing answers there.
#[inline(never)] // Opening a regular file pays nothing for it.
pub fn open(inode: &Inode, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    let special = SPECIAL.get().ok_or(ENXIO)?;
    match inode.kind {
        Kind::Character | Kind::Block => (special.device)(inode.kind, inode.rdev, flags),
        Kind::Fifo => (special.fifo)(inode, flags),
        _ => Err(ENXIO),
    }
}
