//! Files: path lookup, mounts, open files and descriptor tables, and the file systems.
//!
//! From names to bytes: `lookup` walks `dentry`s through their `directory` tables and across `mount`s to an `inode`;
//! `open` makes a `file` of it, which a `table` numbers. Contents are `vm::Object`s. The VFS names no file system: each is
//! a `superblock::FsType` and an implementation of `inode::InodeOps`.
//!
//! What every CPU can do at once without a common line: look up, open, read, close and exec one shared file; make, write and
//! remove files in directories of its own. References to mounts and dentries are counted per CPU, tables of names are read
//! under RCU, inode numbers come in blocks per CPU.
//!
//! Lock order: mounts → rename → directories (upper first) → file position → inode write lock → vm objects; everything
//! else is innermost. User memory is copied under sleeping locks only.
#![forbid(unsafe_code)]

/// Gives a type an `rcu` field's head for deferred drops.
macro_rules! rcu_object {
    ($name:ty) => {
        impl sync::rcu::RcuObject for $name {
            fn rcu_head(&self) -> &sync::rcu::RcuHead {
                &self.rcu
            }
        }
    };
}

pub mod access;
mod anonymous;
pub mod caller;
pub mod buffer;
pub mod clock;
pub mod context;
pub mod cpio;
pub mod dentry;
pub mod describe;
pub mod devfs;
pub mod devices;
pub mod directory;
pub mod epoll;
pub mod eventfd;
mod fifo;
pub mod file;
mod initramfs;
pub mod inode;
pub mod ioctl;
pub mod locks;
pub mod lookup;
pub mod mount;
pub mod names;
mod numbers;
pub mod open;
pub mod pipe;
pub mod poll;
pub mod procfs;
pub mod random;
pub mod regular;
pub mod rename;
mod ring;
pub mod superblock;
pub mod table;
pub mod tmpfs;
pub mod truncate;
pub mod tty;

use alloc::sync::Arc;

use sync::rcu::{RcuArc, RcuHead};
use sync::try_arc;

pub use context::FsContext;
pub use file::{File, Mapping, OpenFlags};
pub use lookup::Start;
pub use mount::Path;
pub use open::open_exec;
pub use table::FileTable;

use crate::errno::{ENOENT, Result};

/// The root of everything, kept for those who have no root of their own.
struct Root {
    path: Path,
    rcu: RcuHead,
}

rcu_object!(Root);

static ROOT: RcuArc<Root> = RcuArc::empty();

pub fn root() -> Result<Path> {
    let read = sync::rcu::read();
    ROOT.load(&read).map(|r| r.path.clone()).ok_or(ENOENT)
}

/// Mounts the root file system and unpacks the initramfs into it.
pub fn init(initramfs: &[u8]) {
    if let Err(e) = try_init(initramfs) {
        panic!("no root file system: {e:?}");
    }
}

fn try_init(initramfs: &[u8]) -> Result {
    let superblock = (tmpfs::ROOTFS.mount)(&tmpfs::ROOTFS, &[])?;
    let path = mount::mount_root(superblock)?;
    ROOT.swap(Some(try_arc(Root { path: path.clone(), rcu: RcuHead::new() })?));
    let context = FsContext::try_new(path.clone(), path, 0)?;
    let count = initramfs::unpack(&context, initramfs);
    crate::info!("initramfs: {count} files, {} KiB", initramfs.len() / 1024);
    tty::init()?;
    Ok(())
}

/// What the first process begins with: root and working directory, and /dev/console three times over.
pub fn first_context() -> Result<(Arc<FsContext>, Arc<FileTable>)> {
    let root = root()?;
    let context = FsContext::try_new(root.clone(), root, 0o022)?;
    let files = FileTable::try_new()?;
    let cred = access::Cred::root();
    let flags = OpenFlags::READ_WRITE;
    let console = match open::open(&context, &cred, Start::Cwd, b"/dev/console", flags, 0) {
        Ok(file) => file,
        Err(_) => {
            crate::warn!("no /dev/console in the initramfs; the console is opened without it");
            let inode = anonymous::inode(inode::Kind::Character, 0o600)?;
            File::try_anonymous(inode, "/dev/console", tty::open_console(flags | OpenFlags::NO_CTTY)?, flags)?
        }
    };
    for _ in 0..3 {
        files.install(console.clone(), 0, 3, false)?;
    }
    Ok((context, files))
}

/// A file that only memory holds (memfd_create).
pub fn memory_file() -> Result<Arc<File>> {
    File::try_regular(anonymous::regular()?, "/memfd: (deleted)", OpenFlags::READ_WRITE | OpenFlags::LARGEFILE)
}
