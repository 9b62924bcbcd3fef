//! What a file system does for its inodes, and what it does as a whole: the two traits that it stands behind the VFS with.
//!
//! An implementer reads the section of what it makes: *every inode*, *directories*, *symbolic links*, *contents*. A method that is left
//! out gives the error that Linux's VFS gives for an inode without it.
//!
//! **May sleep**: every method, unless its text says that it does not. It holds no spinning lock and is in no RCU section while it does,
//! and it ends early, with ERESTARTSYS or EINTR, when a signal (at least a fatal one) comes. Whatever it returns, nothing has to be
//! undone: on an error the name, or the inode, is as it was, as far as the file system can tell.
//!
//! **Locks**: a method that changes names is called with the lock of each directory that it changes (`Directory::names`), and those names
//! are claimed: nobody else asks for them, changes them or enters them in the cache until it returns. `rename` of a directory, or over one,
//! between two directories holds the super block's rename lock besides. `lookup` and `revalidate` hold the claim of the one name alone, so names of one directory are
//! asked for in parallel. `set_attributes` holds the inode's lock of writes, and is shown it ([`Writing`]). All others are called with no
//! lock of the VFS.
//!
//! **Names and the cache** are the VFS's: a method says what the file system did, and the VFS enters, moves and drops names when it
//! succeeds. Attributes (link counts, times, sizes) are the file system's: it changes those of the inodes it was given.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use super::attributes::Changes;
use super::dentry::Dentry;
use super::inode::{Inode, Kind, NewInode};
use super::mount::Path;
use super::seals::Seals;
use super::superblock::{Mounting, StatFs, SuperBlock};
use super::xattr::store::Xattrs;
use crate::errno::{EACCES, EINVAL, ENOENT, ENOTDIR, EOPNOTSUPP, EPERM, Errno, Result};
use crate::fs::file::{FileOps, OpenFlags};
use crate::lock_order as level;
use sync::level::Held;
use vm::{BudgetRef, ObjectRef, Pager};

/// One entry of a directory as `InodeOps::read_dir` reports it.
pub struct DirEntry<'a> {
    pub name: &'a [u8],
    pub number: u64,
    pub kind: Kind,
    /// The position after this entry.
    pub next: u64,
}

/// What `rename` is to do. All names are in one file system.
pub struct Moving<'a> {
    pub old_dir: &'a Inode,
    pub old_name: &'a [u8],
    pub old: &'a Inode,
    pub new_dir: &'a Inode,
    pub new_name: &'a [u8],
    /// What has the new name now; it is replaced, or with `exchange` gets the old name.
    pub target: Option<&'a Inode>,
    pub exchange: bool,
    /// The VFS has looked; for names that change elsewhere the file system looks again.
    pub no_replace: bool,
}

/// What became of a name that the cache has, asked by `revalidate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// It still leads there; the inode's attributes are fresh.
    Valid,
    /// It leads elsewhere, or nowhere. What the cache has below it goes with it.
    Stale,
}

/// What `set_xattr` does if the attribute is there, or is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    Any,
    /// EEXIST if it is there.
    Create,
    /// ENODATA if it is not.
    Replace,
    /// Both.
    CreateAndReplace,
}

/// The inode's lock of writes is held: what a method locks next comes after it.
pub type Writing<'a> = Held<'a, level::InodeWrite>;

/// Makes a link's text for the running thread: appends it.
pub type LinkText = fn(&mut Vec<u8>) -> Result;

/// What a file system does for one inode.
pub trait InodeOps: Send + Sync + Any {
    // Every inode.

    /// Size in bytes. Does not sleep.
    fn size(&self, _inode: &Inode) -> u64 {
        0
    }

    /// 512-byte blocks in use. Does not sleep.
    fn blocks(&self, _inode: &Inode) -> u64 {
        0
    }

    /// Brings the inode's attributes up to date before they are shown or judged. Called only where they are `Attributes::Elsewhere`.
    fn refresh(&self, _inode: &Inode) -> Result {
        Ok(())
    }

    /// The VFS has changed the inode's times here, after a read or a write of its contents: they are to be written down some time. Called
    /// only where attributes are `Attributes::WrittenBack`. After a write the lock of writes is held, and perhaps the file's position.
    /// Does not sleep.
    fn times_changed(&self, _inode: &Inode) {}

    /// The VFS is about to change the mode, or an access control list, in memory. Asked only where attributes are `Attributes::Elsewhere`, with the inode's lock of writes.
    ///
    /// # Errors
    /// Nothing is changed then.
    fn begin_change(&self, _inode: &Inode) -> Result {
        Ok(())
    }

    /// Makes all of the changes, or none. Permissions are checked. Without it they are made in memory, but no size is set.
    ///
    /// # Errors
    /// EPERM: these attributes cannot be changed; EINVAL: it has no size to set; ENOSPC, EIO and the like.
    fn set_attributes(&self, inode: &Inode, changes: &Changes, _locked: Writing<'_>) -> Result {
        if changes.size.is_some() {
            return Err(EINVAL);
        }
        inode.apply(changes);
        Ok(())
    }

    /// Why nobody may write here, who may write everywhere else too. Asked only where attributes are `Attributes::Elsewhere`.
    fn refuses_writing(&self) -> Option<Errno> {
        None
    }

    /// May the caller do everything here, whatever the mode says? Asked only where attributes are `Attributes::Elsewhere`.
    fn grants(&self) -> bool {
        false
    }

    /// Appends the attribute's value to `out`.
    ///
    /// # Errors
    /// ENODATA: there is none of that name; EOPNOTSUPP.
    fn get_xattr(&self, _inode: &Inode, name: &[u8], out: &mut Vec<u8>) -> Result {
        self.xattrs().map_or(Err(EOPNOTSUPP), |(xattrs, _)| xattrs.get(name, out))
    }

    /// The inode's lock of writes is held.
    fn set_xattr(&self, _inode: &Inode, name: &[u8], value: &[u8], mode: XattrMode) -> Result {
        self.xattrs().map_or(Err(EOPNOTSUPP), |(xattrs, budget)| xattrs.set(name, value, mode, budget))
    }

    /// Appends the names to `out`, a NUL after each, unless they are longer than `xattr::SIZE_MAX`; gives their length. `all`: trusted ones too.
    fn list_xattr(&self, _inode: &Inode, all: bool, out: &mut Vec<u8>) -> Result<usize> {
        self.xattrs().map_or(Err(EOPNOTSUPP), |(xattrs, _)| xattrs.list(all, out))
    }

    /// The inode's lock of writes is held.
    fn remove_xattr(&self, _inode: &Inode, name: &[u8]) -> Result {
        self.xattrs().map_or(Err(EOPNOTSUPP), |(xattrs, _)| xattrs.remove(name))
    }

    /// Where they are kept in memory, and in which budget they count; for the four above, which others make otherwise.
    fn xattrs(&self) -> Option<(&Xattrs, Option<&BudgetRef>)> {
        None
    }

    /// Does the file system have access control lists of it? They are kept with the inode, in memory.
    fn keeps_acls(&self) -> bool {
        false
    }

    // Directories: finding names. Not called where the cache is the directory.

    /// Finds a name that the cache does not hold. An inode that has a number of its own comes from the super block's `InodeTable`, so that
    /// all names of a file, and the same name later, lead to one inode.
    ///
    /// # Errors
    /// ENOENT: there is none, which the cache remembers; all others it does not.
    fn lookup(&self, _dir: &Inode, _name: &[u8]) -> Result<Arc<Inode>> {
        Err(ENOENT)
    }

    /// Makes the text of a link of that name, if it is one that needs no inode to be followed. Where names are made up. Does not sleep.
    fn link_at(&self, _name: &[u8]) -> Option<LinkText> {
        None
    }

    /// Does the name still lead to `child` (`None`: nowhere)? Asked at each use that comes later than `lifetime` after the last answer.
    ///
    /// # Errors
    /// The use of the name fails with it, and the cache stays as it is.
    fn revalidate(&self, _dir: &Inode, _name: &[u8], _child: Option<&Inode>) -> Result<Validity> {
        Ok(Validity::Stale)
    }

    /// For how many nanoseconds an answer about the name is believed, beginning now. Does not sleep.
    fn lifetime(&self, _dir: &Inode, _child: Option<&Inode>) -> u64 {
        0
    }

    /// Lists names from `position` on until `emit` refuses one. Positions 0 and 1 are `.` and `..`, which the VFS lists. A position is
    /// a cursor: what is inserted or removed elsewhere in the directory neither repeats nor hides the names after it.
    /// `emit` does not sleep.
    fn read_dir(&self, _dir: &Inode, _position: u64, _emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
        Err(ENOTDIR)
    }

    /// Do all of the directory's names come from the kernel? Then a name that is not there is ENOENT to whoever would make it, before
    /// anything else is asked.
    fn names_are_given(&self) -> bool {
        false
    }

    // Directories: changing names. Each has found that the names are there, or are not, and checked permissions.

    /// Makes a regular file. EEXIST if somebody made the name elsewhere meanwhile; so do the next three.
    fn create(&self, _dir: &Inode, _name: &[u8], _new: &NewInode) -> Result<Arc<Inode>> {
        Err(EACCES)
    }

    fn mkdir(&self, _dir: &Inode, _name: &[u8], _new: &NewInode) -> Result<Arc<Inode>> {
        Err(EPERM)
    }

    /// Makes a device node, a fifo or a socket. What opens it is the VFS's (`file::special`).
    fn mknod(&self, _dir: &Inode, _name: &[u8], _new: &NewInode) -> Result<Arc<Inode>> {
        Err(EPERM)
    }

    fn symlink(&self, _dir: &Inode, _name: &[u8], _new: &NewInode, _target: &[u8]) -> Result<Arc<Inode>> {
        Err(EPERM)
    }

    /// Makes a regular file that has no name and no link (O_TMPFILE). No directory lock is held.
    fn make_unnamed(&self, _dir: &Inode, _new: &NewInode) -> Result<Arc<Inode>> {
        Err(EOPNOTSUPP)
    }

    /// Gives `inode`, which is no directory, one more name.
    fn link(&self, _dir: &Inode, _name: &[u8], _inode: &Inode) -> Result {
        Err(EPERM)
    }

    /// Removes a name of `victim`, which is no directory.
    fn unlink(&self, _dir: &Inode, _name: &[u8], _victim: &Inode) -> Result {
        Err(EPERM)
    }

    /// Removes an empty directory, whose own lock is held too. Where the cache is the directory the VFS has found it empty.
    ///
    /// # Errors
    /// ENOTEMPTY.
    fn rmdir(&self, _dir: &Inode, _name: &[u8], _victim: &Inode) -> Result {
        Err(EPERM)
    }

    /// Can a name that is moved leave a mark of its going (RENAME_WHITEOUT)?
    fn leaves_marks(&self) -> bool {
        false
    }

    /// Moves a name; called on the old directory. A directory that is replaced is locked, and empty as for `rmdir`.
    fn rename(&self, _moving: &Moving<'_>) -> Result {
        Err(EPERM)
    }

    // Symbolic links.

    /// The text.
    fn read_link(&self, _inode: &Inode) -> Result<Vec<u8>> {
        Err(EINVAL)
    }

    /// Where a link leads that no text describes: an open file, a process's root. `None`: where its text says.
    fn follow(&self, _inode: &Inode) -> Option<Result<Path>> {
        None
    }

    // Contents: regular files, and directories once they are open.

    /// What an open file reads and writes through; `None`: its object, the directory's names, or for device nodes and fifos what opens
    /// them in every file system (`file::special`). Permissions are checked.
    fn open(&self, _dentry: &Dentry, _flags: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        Ok(None)
    }

    /// The pages of a regular file. Does not sleep.
    fn object(&self) -> Option<ObjectRef> {
        None
    }

    /// Gives back up to `most` pages of memory, or a few more, whose contents can be had again; says how many. Called where memory is scarce: what was used since the
    /// last call may stay. Locks of inodes' writes and of layouts are held.
    fn shed(&self, most: u64) -> u64 {
        self.object().map_or(0, |object| object.shed(most))
    }

    /// What reads the pages of a regular file, for a file system above that keeps pages of its own. Does not sleep.
    fn pager(&self) -> Result<Option<Box<dyn Pager>>> {
        Ok(None)
    }

    /// May a file system lie above that calls these operations directly? Then all names are found by `lookup`, all contents read by `pager`, and `open` may be shown a
    /// dentry of that file system.
    fn can_lie_below(&self) -> bool {
        false
    }

    /// May there be leases of a regular file (fcntl(2))? Not where others than this kernel open it.
    fn takes_leases(&self) -> bool {
        true
    }

    /// Of a memory file.
    fn seals(&self) -> Option<&Seals> {
        None
    }

    /// Writes back what has changed: the contents, and with `data_only` no more of the attributes than finding them again needs.
    fn fsync(&self, _inode: &Inode, _data_only: bool) -> Result {
        Ok(())
    }
}

/// What a file system does as a whole.
pub trait SuperOps: Send + Sync + Any {
    /// Sizes, as statfs(2) shows them.
    fn statfs(&self, _superblock: &SuperBlock) -> Result<StatFs> {
        Ok(StatFs::default())
    }

    /// Where files end at the latest. sendfile goes no further, and other calls know better.
    fn largest_file(&self) -> u64 {
        i64::MAX as u64
    }

    /// Are its files found by handles (`handles`)? All its names are in memory then.
    fn has_handles(&self, _superblock: &SuperBlock) -> bool {
        false
    }

    /// Changes the options that the file system was mounted with, as mount(2) with MS_REMOUNT gives them.
    ///
    /// # Errors
    /// EINVAL: it has no such option, or it cannot be changed, and perhaps why; nothing is changed then.
    fn remount(
        &self,
        _superblock: &SuperBlock,
        asked: &Mounting<'_>,
    ) -> core::result::Result<(), (Errno, &'static str)> {
        if asked.options.is_empty() { Ok(()) } else { Err((EINVAL, "")) }
    }

    /// Appends the options as /proc/mounts shows them, a comma before each.
    fn show_options(&self, _superblock: &SuperBlock, _out: &mut Vec<u8>) -> Result {
        Ok(())
    }

    /// Writes back what has changed; with `wait` returns when it is done.
    fn sync(&self, _superblock: &SuperBlock, _wait: bool) -> Result {
        Ok(())
    }
}

/// Operations of an inode that has none: an empty directory that nobody changes, a device node, a fifo.
pub struct Plain;

impl InodeOps for Plain {}

/// A file system that has no sizes to show and nothing to write back.
impl SuperOps for Plain {}
