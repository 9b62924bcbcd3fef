//! Files: path lookup, mounts, open files and descriptor tables, and the file systems.
//!
//! From names to bytes: `vfs` walks names to an inode, `file` opens it and numbers what is open. What files are made of is below
//! these two and known to them only by traits: `tmpfs`, `devfs`, `block` (disks), `ninep` (files of the host), `overlay` (changes in memory over what is only read), `tty` (with devpts), `anon` (files without a name) and, beside this
//! room, `procfs`. `initramfs` fills the first root. `caller` is the one door to the process that calls.
//!
//! What every CPU can do at once without a common line: look up, open, read, close and exec one shared file; make, write and
//! remove files in directories of its own. References to mounts and dentries are counted per CPU, tables of names are read
//! under RCU, inode numbers come in blocks per CPU.
//!
//! Lock order: mounts → rename → file position → directories (upper first) → inode write lock → vm objects; the rest is in
//! `lock_order`. Names are claimed (`vfs::cache`) before any directory is locked. User memory is copied under sleeping locks only.
#![deny(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod anon;
pub mod block;
pub mod caller;
pub mod devfs;
pub mod file;
mod initramfs;
pub mod ninep;
pub mod overlay;
pub mod tmpfs;
pub mod tty;
pub mod vfs;

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

pub use file::table::{FileTable, Shown};
pub use file::{File, Mapping, OpenFlags};
pub use vfs::context::FsContext;
pub use vfs::lookup::Start;
pub use vfs::mount::Path;
pub use vfs::seals::Seals;
use vfs::superblock::Mounting;

use crate::errno::{EACCES, ENOENT, ENOMEM, ENOTDIR, Result};

/// What opens device nodes and fifos.
static SPECIAL: file::special::Special =
    file::special::Special { device: devfs::devices::open, fifo: anon::fifo::open };

/// Mounts the root file system and unpacks the initramfs into it. `types` are the file systems that can be mounted.
pub fn init(types: &'static vfs::superblock::Types, initramfs: &[u8]) {
    vfs::superblock::register(types);
    file::special::register(&SPECIAL);
    vm::register_shedder(&vfs::cache::shrink::SHEDDER);
    if let Err(e) = try_init(initramfs) {
        panic!("no root file system: {e:?}");
    }
}

fn try_init(initramfs: &[u8]) -> Result {
    let superblock = (tmpfs::ROOTFS.mount)(&tmpfs::ROOTFS, &Mounting::default())?;
    let path = vfs::mount::mount_root(superblock.clone())?;
    let context = FsContext::try_new(path.clone(), path, 0)?;
    let count = initramfs::unpack(&context, initramfs);
    crate::info!("initramfs: {count} files, {} KiB", initramfs.len() / 1024);
    tmpfs::limit_root(&superblock);
    tty::init()?;
    Ok(())
}

/// What the first process begins with: the root, also as working directory.
pub fn first_context() -> Result<Arc<FsContext>> {
    let root = vfs::mount::root()?;
    FsContext::try_new(root.clone(), root, 0o022)
}

/// What the first process begins with: /dev/console three times over.
pub fn first_files() -> Result<Arc<FileTable>> {
    let context = first_context()?;
    let files = FileTable::try_new()?;
    let flags = OpenFlags::READ_WRITE;
    let console =
        match file::open::open(&context, &vfs::access::Cred::root(), Start::Cwd, b"/dev/console", flags, 0) {
            Ok(file) => file,
            Err(_) => {
                crate::warn!("no /dev/console in the initramfs; the console is opened without it");
                let inode = anon::made_by(&vfs::access::Cred::root(), vfs::inode::Kind::Character, 0o600)?;
                File::try_anonymous(inode, "/dev/console", tty::open_console()?, flags)?
            }
        };
    for _ in 0..3 {
        files.install(console.clone(), 0, 3, false)?;
    }
    Ok(files)
}

/// What exec is to run.
#[derive(Clone, Copy)]
pub enum Executable<'a> {
    /// The file at `path`: from the directory that `dir` has open, or without it from the working directory. `follow`: a symbolic
    /// link at its end is followed.
    At { dir: Option<i32>, path: &'a [u8], follow: bool },
    /// What a descriptor has open.
    Open(i32),
}

impl<'a> Executable<'a> {
    /// The file at `path`, as execve takes it.
    pub const fn named(path: &'a [u8]) -> Self {
        Self::At { dir: None, path, follow: true }
    }

    /// What the program learns as its name, and the interpreter of a script opens: what is found from a descriptor lies in /dev/fd.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn name(&self) -> Result<Cow<'a, [u8]>> {
        let (fd, path) = match *self {
            Self::At { dir: Some(dir), path, .. } if path.first() != Some(&b'/') => (dir, Some(path)),
            Self::At { path, .. } => return Ok(Cow::Borrowed(path)),
            Self::Open(fd) => (fd, None),
        };
        let mut name = Vec::new();
        write!(Text(&mut name), "/dev/fd/{fd}").map_err(|_| ENOMEM)?;
        if let Some(path) = path {
            name.try_push(b'/')?;
            name.try_extend_from_slice(path)?;
        }
        Ok(Cow::Owned(name))
    }

    /// Does its name lead through a descriptor that exec closes? Then no interpreter finds it.
    pub fn is_closed_by_exec(&self) -> bool {
        let fd = match *self {
            Self::At { dir: Some(dir), path, .. } if path.first() != Some(&b'/') => dir,
            Self::At { .. } => return false,
            Self::Open(fd) => fd,
        };
        caller::files().close_on_exec(fd).unwrap_or(false)
    }
}

/// Opens a program, for exec.
///
/// # Errors
/// As execveat(2).
pub fn open_exec(what: Executable<'_>) -> Result<Arc<File>> {
    let context = caller::context();
    match what {
        Executable::Open(fd) => {
            let file = caller::files().get(fd)?;
            let found = match &file.place {
                file::Place::Named(path) => path.clone(),
                file::Place::Anonymous(inode, _) if inode.kind == vfs::inode::Kind::Regular => {
                    return Ok(file);
                }
                file::Place::Anonymous(..) => return Err(EACCES),
            };
            file::open::may_exec(&found, &vfs::access::Cred::current())?;
            Ok(file::open::opened_for_exec(File::try_open(found, OpenFlags::empty())?))
        }
        Executable::At { path: b"", .. } => Err(ENOENT),
        Executable::At { dir: Some(dir), path, follow } if path.first() != Some(&b'/') => {
            let file = caller::file(dir)?;
            let start = file.path().filter(|p| p.dentry.inode.is_dir()).ok_or(ENOTDIR)?;
            file::open::open_exec(&context, Start::At(start), path, follow)
        }
        Executable::At { path, follow, .. } => file::open::open_exec(&context, Start::Cwd, path, follow),
    }
}

/// Makes the file of a core dump, at `path` from the running thread's working directory: a new one, its user's own, that nobody else may read. A file
/// that was there is removed first; a link is not followed.
///
/// # Errors
/// As open(2); EPERM: it is not such a file.
pub fn create_core(path: &[u8]) -> Result<Arc<File>> {
    let (context, cred) = (caller::context(), vfs::access::Cred::current());
    let _ = vfs::remove::unlink_at(&context, &cred, Start::Cwd, path);
    create_fresh_core(&context, &cred, path)
}

/// The same for a process whose core is root's: seen from `context`, and no file gives way to it.
///
/// # Errors
/// As open(2).
pub fn create_core_for_root(context: &FsContext, path: &[u8]) -> Result<Arc<File>> {
    let group = caller::current().ids().fsgid;
    create_fresh_core(context, &vfs::access::Cred::root_for(group), path)
}

fn create_fresh_core(context: &FsContext, cred: &vfs::access::Cred, path: &[u8]) -> Result<Arc<File>> {
    let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::READ_WRITE | OpenFlags::NOFOLLOW;
    let file = file::open::open(context, cred, Start::Cwd, path, flags, 0o600)?;
    let inode = file.inode();
    let good = inode.kind == vfs::inode::Kind::Regular
        && inode.links() == 1
        && inode.uid() == cred.uid
        && inode.mode() & 0o677 == 0o600;
    file.set_undescribed();
    if good { Ok(file) } else { Err(crate::errno::EPERM) }
}

/// May the running thread read the file, whatever it is open for?
pub fn may_read(file: &File) -> bool {
    vfs::access::check(file.inode(), &vfs::access::Cred::current(), vfs::access::READ).is_ok()
}

/// For AT_RANDOM.
pub fn random_bytes() -> [u8; 16] {
    devfs::random::half()
}

/// What lies behind a link of /proc to a file that has no place in the tree (a pipe): a place of its own, by which it can
/// be opened again.
pub fn reopen(file: &File) -> Result<Path> {
    let file::Place::Anonymous(inode, _) = &file.place else { return Err(ENOENT) };
    anon::fifo::show(file)?;
    let root = vfs::mount::root()?;
    let name = file::describe::file(file, &root)?;
    let dentry = vfs::dentry::Dentry::try_unowned(inode.clone(), None, &name)?;
    let mount = root.mount;
    Ok(Path { mount, dentry })
}
