//! devtmpfs: a tmpfs that holds a node for every device. There is one instance, so every mount shows the same nodes.
#![forbid(unsafe_code)]

pub mod devices;
mod hwrng;
pub mod kmsg;
pub mod random;

use alloc::sync::Arc;

use crate::lock_order as level;
use sync::{Mutex, lock_class};

use crate::device::virtio::{console, entropy};
use crate::errno::Result;
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::create::{self, Making};
use crate::fs::vfs::dentry::Name;
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::{Kind, NewInode};
use crate::fs::vfs::mount;
use crate::fs::vfs::parameters::Parameters;
use crate::fs::vfs::superblock::{FsType, Mounting, SuperBlock};
use crate::fs::{block, tmpfs, tty};

lock_class! { static DEVTMPFS_LOCK: LockClass = ("devtmpfs", level::Devtmpfs); }

pub static DEVTMPFS: FsType = FsType {
    name: "devtmpfs",
    magic: tmpfs::MAGIC,
    nodev: true,
    mount: instance,
    parameters: Parameters::Text,
};

static INSTANCE: Mutex<Option<Arc<SuperBlock>>, level::Devtmpfs> = Mutex::new(None, &DEVTMPFS_LOCK);

/// Terminals of virtio consoles, those that there are.
pub const HVCS: [&str; console::MOST] = ["hvc0", "hvc1", "hvc2", "hvc3", "hvc4", "hvc5", "hvc6", "hvc7"];

fn instance(kind: &'static FsType, asked: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    // Those of tmpfs, which change nothing here.
    tmpfs::options::Options::parse(asked.options)?;
    let mut instance = INSTANCE.lock();
    if let Some(superblock) = &*instance {
        return Ok(superblock.clone());
    }
    let root = NewInode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
    let superblock = tmpfs::instance(kind, &root)?;
    let dir = mount::Path { mount: mount::detached(superblock.clone())?, dentry: superblock.root()? };
    let hwrng = entropy::is_there().then_some(&devices::HWRNG);
    for &(name, major, minor, mode) in devices::NODES.iter().chain(hwrng) {
        make(&dir, name, Kind::Character, mode, device_number::number(major, minor), "")?;
    }
    for (name, n) in HVCS.iter().zip(0..) {
        if tty::find_console(n).is_some() {
            make(&dir, name, Kind::Character, 0o660, device_number::number(tty::HVC_MAJOR, n as u64), "")?;
        }
    }
    for (n, _, name) in block::names() {
        make(&dir, name, Kind::Block, 0o600, block::number(n), "")?;
    }
    make(&dir, "fd", Kind::Symlink, 0o777, 0, "/proc/self/fd")?;
    make(&dir, "stdin", Kind::Symlink, 0o777, 0, "/proc/self/fd/0")?;
    make(&dir, "stdout", Kind::Symlink, 0o777, 0, "/proc/self/fd/1")?;
    make(&dir, "stderr", Kind::Symlink, 0o777, 0, "/proc/self/fd/2")?;
    *instance = Some(superblock.clone());
    Ok(superblock)
}

/// The major number of virtio consoles' terminals, if there are any.
pub fn console_major() -> Option<u64> {
    (0..console::MOST).any(|n| tty::find_console(n).is_some()).then_some(tty::HVC_MAJOR)
}

fn make(dir: &mount::Path, name: &str, kind: Kind, mode: u32, rdev: u64, target: &str) -> Result {
    let making = Making { kind, mode, rdev, target: target.as_bytes() };
    create::make(dir, &Name::try_new(name.as_bytes())?, &Cred::root(), &making, 0)?;
    Ok(())
}
