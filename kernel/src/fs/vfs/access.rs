//! Who may do what with an inode: owner, group, others, and the superuser.
#![forbid(unsafe_code)]

use super::inode::{Inode, Kind, STICKY};
use super::mount::Mount;
use crate::errno::{EACCES, EPERM, EROFS, Result};
use crate::fs::caller::{self, Caller};

pub const EXEC: u32 = 1;
pub const WRITE: u32 = 2;
pub const READ: u32 = 4;

/// The ids by which files are judged, taken once per call.
pub struct Cred {
    pub uid: u32,
    pub gid: u32,
    /// Whose groups count; `None`: the kernel's own.
    who: Option<Caller>,
}

impl Cred {
    /// The caller's file-system ids.
    pub fn current() -> Cred {
        let who = caller::current();
        let c = who.ids();
        Cred { uid: c.fsuid, gid: c.fsgid, who: Some(who) }
    }

    /// The caller's real ids, which access(2) asks with.
    pub fn real() -> Cred {
        let who = caller::current();
        let c = who.ids();
        Cred { uid: c.uid, gid: c.gid, who: Some(who) }
    }

    /// The kernel itself.
    pub const fn root() -> Cred {
        Cred { uid: 0, gid: 0, who: None }
    }

    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.who.is_some_and(|who| who.has_group(gid))
    }

    /// Owner of the inode, or the superuser.
    pub fn owns(&self, inode: &Inode) -> bool {
        self.uid == inode.uid() || self.is_root()
    }
}

/// May `cred` do all of `want` (READ, WRITE, EXEC)? EACCES if not.
#[inline]
pub fn check(inode: &Inode, cred: &Cred, want: u32) -> Result<()> {
    let mode = inode.mode();
    if cred.is_root() {
        // The superuser searches every directory but executes only what somebody may execute.
        if want & EXEC == 0 || inode.is_dir() || mode & 0o111 != 0 {
            return Ok(());
        }
        return Err(EACCES);
    }
    let bits = if cred.uid == inode.uid() {
        mode >> 6
    } else if cred.in_group(inode.gid()) {
        mode >> 3
    } else {
        mode
    };
    if bits & want == want { Ok(()) } else { Err(EACCES) }
}

/// As `check`, and EROFS when writing on a read-only mount (not for devices, fifos and sockets).
pub fn check_on(mount: &Mount, inode: &Inode, cred: &Cred, want: u32) -> Result<()> {
    let contents = matches!(inode.kind, Kind::Regular | Kind::Directory | Kind::Symlink);
    if want & WRITE != 0 && contents && mount.is_read_only() {
        return Err(EROFS);
    }
    check(inode, cred, want)
}

/// May `cred` remove or move `victim` out of `dir`? Write and search permission, and in a sticky directory only the
/// owner of either.
pub fn check_remove(mount: &Mount, dir: &Inode, victim: &Inode, cred: &Cred) -> Result<()> {
    check_on(mount, dir, cred, WRITE | EXEC)?;
    if dir.mode() & STICKY != 0 && !cred.owns(victim) && cred.uid != dir.uid() {
        return Err(EPERM);
    }
    Ok(())
}
