//! System calls on paths: opening, and where a process is in the tree. Attributes and names are in the files beside this one.
#![forbid(unsafe_code)]

mod attributes;
mod fsconfig;
mod handles;
mod inotify;
mod mounts;
mod names;
mod openat2;
mod setattr;
mod statmount;
mod trees;
mod xattr;

pub use attributes::*;
pub use fsconfig::*;
pub use handles::*;
pub use inotify::*;
pub use mounts::*;
pub use names::*;
pub use openat2::*;
pub use setattr::*;
pub use statmount::*;
pub use trees::*;
pub use xattr::*;

use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::TryVec;
use sync::rcu::Lent;

use crate::errno::*;
use crate::fs::Start;
use crate::fs::caller::{self, Capability};
use crate::fs::file::open;
use crate::fs::file::told;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::lookup::{self, Found, PATH_MAX};
use crate::fs::vfs::mount::{self, MountRef, Path};
use crate::fs::vfs::notify;
use crate::memory::user::{UserSlice, UserStr};

pub const AT_FDCWD: i32 = -100;
pub const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
pub const AT_REMOVEDIR: u32 = 0x200;
pub const AT_EACCESS: u32 = 0x200;
pub const AT_SYMLINK_FOLLOW: u32 = 0x400;
pub const AT_NO_AUTOMOUNT: u32 = 0x800;
pub const AT_EMPTY_PATH: u32 = 0x1000;
pub const AT_STATX_SYNC_TYPE: u32 = 0x6000;

/// A path read from the program: most are short and never touch the heap.
pub enum PathText {
    Short([u8; SHORT], usize),
    Long(Vec<u8>),
}

const SHORT: usize = 128;

impl PathText {
    /// EFAULT, or ENAMETOOLONG. Inlined, so that the text is read to where it stays.
    #[inline(always)]
    pub fn read(address: usize) -> Result<PathText> {
        let mut short = [0; SHORT];
        match UserStr::new(address).read(&mut short) {
            Ok(text) => {
                let len = text.len();
                Ok(PathText::Short(short, len))
            }
            Err(ENAMETOOLONG) => PathText::read_long(address),
            Err(e) => Err(e),
        }
    }

    #[cold]
    fn read_long(address: usize) -> Result<PathText> {
        let mut long = Vec::new();
        long.try_resize(PATH_MAX, 0)?;
        let len = UserStr::new(address).read(&mut long)?.len();
        long.truncate(len);
        Ok(PathText::Long(long))
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            PathText::Short(text, len) => text.get(..*len).unwrap_or(&[]),
            PathText::Long(text) => text,
        }
    }
}

/// What most calls need: the caller's ids and context, and where a relative path starts.
pub struct At {
    pub cred: Cred,
    pub context: caller::Context,
    dir: Option<Lent<File>>,
}

impl At {
    /// ENOENT if `path` is empty; EBADF or ENOTDIR if it is relative and `fd` no directory.
    pub fn new(fd: i32, path: &[u8]) -> Result<At> {
        let absolute = *path.first().ok_or(ENOENT)? == b'/';
        let dir = if absolute || fd == AT_FDCWD { None } else { Some(caller::file(fd)?) };
        if let Some(dir) = &dir
            && !dir.inode().is_dir()
        {
            return Err(ENOTDIR);
        }
        Ok(At { cred: Cred::current(), context: caller::context(), dir })
    }

    /// As `new`, where an absolute path starts at `fd` too.
    pub fn rooted(fd: i32) -> Result<At> {
        At::new(fd, b".")
    }

    pub fn start(&self) -> Start<'_> {
        match self.dir.as_ref().and_then(|d| d.path()) {
            Some(path) => Start::At(path),
            None => Start::Cwd,
        }
    }

    pub fn resolve(&self, path: &[u8], follow: bool) -> Result<Path> {
        lookup::resolve(&self.context, &self.cred, self.start(), path, follow)
    }

    /// As `resolve`, for a call that asks nothing of the last name; with the rights of `cred`.
    pub fn find(&self, cred: &Cred, path: &[u8], follow: bool) -> Result<Target> {
        Ok(match lookup::find(&self.context, cred, self.start(), path, follow)? {
            Found::Place(path) => Target::Path(path),
            Found::Inode(mount, inode) => Target::Inode(mount, inode),
        })
    }
}

/// What a path with flags leads to: a place in the tree, or (AT_EMPTY_PATH) any open file.
pub enum Target {
    Path(Path),
    /// A place whose name nobody asked for.
    Inode(MountRef, Arc<Inode>),
    File(Lent<File>),
}

impl Target {
    pub fn inode(&self) -> &Inode {
        match self {
            Target::Path(path) => &path.dentry.inode,
            Target::Inode(_, inode) => inode,
            Target::File(file) => file.inode(),
        }
    }

    /// The mount; files without a place have none.
    pub fn mount(&self) -> Option<&MountRef> {
        match self {
            Target::Path(path) => Some(&path.mount),
            Target::Inode(mount, _) => Some(mount),
            Target::File(file) => file.path().map(|path| &path.mount),
        }
    }

    /// Tells those who watch it.
    pub fn tell(&self, mask: u32) {
        if notify::is_used() {
            match self {
                Target::Path(path) => notify::on_dentry(&path.dentry, mask),
                Target::Inode(_, inode) => notify::on_inode(inode, mask),
                Target::File(file) => told::on_place(file, mask),
            }
        }
    }

    /// Is it the root of its mount?
    pub fn is_mount_root(&self) -> bool {
        let path = match self {
            Target::Path(path) => Some(path),
            Target::Inode(..) => None,
            Target::File(file) => file.path(),
        };
        path.is_some_and(|path| core::ptr::eq(&*path.mount.root, &*path.dentry))
    }
}

/// Finds what `fd` and the path at `address` mean. With AT_EMPTY_PATH an empty path (or none) means `fd` itself.
pub fn target(fd: i32, address: usize, follow: bool, empty: bool) -> Result<Target> {
    meant(fd, address, empty, |at, path| at.find(&at.cred, path, follow))
}

#[inline(always)]
fn meant(
    fd: i32,
    address: usize,
    empty: bool,
    find: impl FnOnce(&At, &[u8]) -> Result<Target>,
) -> Result<Target> {
    let text = if empty && address == 0 { None } else { Some(PathText::read(address)?) };
    let bytes = text.as_ref().map_or(&[][..], |t| t.bytes());
    if bytes.is_empty() && empty {
        return if fd == AT_FDCWD {
            Ok(Target::Path(caller::context().cwd()?))
        } else {
            Ok(Target::File(caller::file(fd)?))
        };
    }
    find(&At::new(fd, bytes)?, bytes)
}

pub fn sys_open(path: usize, flags: u32, mode: u32) -> Result<usize> {
    sys_openat(AT_FDCWD, path, flags, mode)
}

pub fn sys_creat(path: usize, mode: u32) -> Result<usize> {
    let flags = OpenFlags::CREATE | OpenFlags::WRITE_ONLY | OpenFlags::TRUNCATE;
    sys_openat(AT_FDCWD, path, flags.bits(), mode)
}

pub fn sys_openat(fd: i32, path: usize, flags: u32, mode: u32) -> Result<usize> {
    let known = OpenFlags::from_bits_truncate(flags) | OpenFlags::LARGEFILE;
    open::check_flags(known)?;
    let text = PathText::read(path)?;
    if text.bytes().is_empty() {
        return Err(ENOENT);
    }
    // Before all that the path says, and before anything is made.
    let limit = caller::descriptor_limit();
    caller::files().check_room(limit)?;
    let at = At::new(fd, text.bytes())?;
    let file = open::open(&at.context, &at.cred, at.start(), text.bytes(), known, mode & 0o7777)?;
    enter(file, known, limit)
}

/// Gives a file that was opened a descriptor.
fn enter(file: Arc<File>, flags: OpenFlags, limit: usize) -> Result<usize> {
    let close_on_exec = flags.contains(OpenFlags::CLOEXEC);
    Ok(caller::files().install_new(file, limit, close_on_exec)? as usize)
}

pub fn sys_chdir(path: usize) -> Result<usize> {
    let text = PathText::read(path)?;
    let at = At::new(AT_FDCWD, text.bytes())?;
    let found = at.resolve(text.bytes(), true)?;
    lookup::check_directory(&found, &at.cred)?;
    at.context.set_cwd(found)?;
    Ok(0)
}

pub fn sys_fchdir(fd: i32) -> Result<usize> {
    let file = caller::file(fd)?;
    let path = file.path().ok_or(ENOTDIR)?;
    lookup::check_directory(path, &Cred::current())?;
    caller::context().set_cwd(path.clone())?;
    Ok(0)
}

pub fn sys_chroot(path: usize) -> Result<usize> {
    let text = PathText::read(path)?;
    let at = At::new(AT_FDCWD, text.bytes())?;
    let found = at.resolve(text.bytes(), true)?;
    lookup::check_directory(&found, &at.cred)?;
    if !at.cred.capable(Capability::SYS_CHROOT) {
        return Err(EPERM);
    }
    at.context.set_root(found)?;
    Ok(0)
}

/// Returns the length with the NUL.
pub fn sys_getcwd(address: usize, len: usize) -> Result<usize> {
    let context = caller::context();
    let (cwd, root) = (context.cwd()?, context.root()?);
    if cwd.dentry.is_removed() {
        return Err(ENOENT);
    }
    let (mut text, reached) = mount::text_of(&cwd, &root)?;
    if !reached {
        let mut longer = Vec::try_from_slice(b"(unreachable)")?;
        longer.try_extend_from_slice(&text)?;
        text = longer;
    }
    text.try_push(0)?;
    if text.len() > lookup::PATH_MAX {
        return Err(ENAMETOOLONG);
    }
    if text.len() > len {
        return Err(ERANGE);
    }
    UserSlice::new(address, text.len()).write(&text)?;
    Ok(text.len())
}

pub fn sys_umask(mask: u32) -> Result<usize> {
    Ok(caller::context().set_umask(mask) as usize)
}

#[cfg(test)]
mod tests;
