//! Who may do what with an inode: owner, whom a list names, group, others, and who has the capability.
#![forbid(unsafe_code)]

use super::acl::kept;
use super::inode::{Inode, Kind, SET_GROUP_ID, SET_USER_ID, STICKY};
use super::mount::Mount;
use crate::account::limits;
use crate::errno::{EACCES, EPERM, EROFS, Result};
use crate::fs::caller::{self, Caller, Capability, SecureBits};

pub const EXEC: u32 = 1;
pub const WRITE: u32 = 2;
pub const READ: u32 = 4;

/// The ids by which files are judged, taken once per call.
pub struct Cred {
    pub uid: u32,
    pub gid: u32,
    capabilities: Capability,
    /// Whose groups count; `None`: the kernel's own.
    who: Option<Caller>,
}

impl Cred {
    /// The caller's file-system ids.
    pub fn current() -> Cred {
        let who = caller::current();
        let (c, capabilities) = who.ids_in_effect();
        Cred { uid: c.fsuid, gid: c.fsgid, capabilities, who: Some(who) }
    }

    /// The caller's real ids, which access(2) asks with. User 0 has what it may have, anybody else nothing, unless user 0 means nothing.
    pub fn real() -> Cred {
        let who = caller::current();
        let (c, sets) = (who.ids(), who.capabilities());
        let capabilities = match c.uid {
            _ if sets.secure.contains(SecureBits::NO_SETUID_FIXUP) => sets.effective,
            0 => sets.permitted,
            _ => Capability::empty(),
        };
        Cred { uid: c.uid, gid: c.gid, capabilities, who: Some(who) }
    }

    /// The kernel itself.
    pub const fn root() -> Cred {
        Cred { uid: 0, gid: 0, capabilities: Capability::ALL, who: None }
    }

    /// The kernel, for a process of this group.
    pub const fn root_for(gid: u32) -> Cred {
        Cred { uid: 0, gid, capabilities: Capability::ALL, who: None }
    }

    /// A user of one group, without capabilities.
    #[cfg(test)]
    pub fn of(uid: u32, gid: u32) -> Cred {
        Cred { uid, gid, capabilities: Capability::empty(), who: None }
    }

    pub fn capable(&self, what: Capability) -> bool {
        self.capabilities.contains(what)
    }

    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.who.is_some_and(|who| who.has_group(gid))
    }

    /// Is it the inode's owner, or as good as that?
    pub fn owns(&self, inode: &Inode) -> bool {
        self.uid == inode.uid() || self.capable(Capability::FOWNER)
    }

    /// May it leave set-group-id on what belongs to this group?
    pub fn keeps_group_id(&self, gid: u32) -> bool {
        self.in_group(gid) || self.capable(Capability::FSETID)
    }
}

/// May `cred` do all of `want` (READ, WRITE, EXEC)? EACCES if not.
#[inline(always)]
pub fn check(inode: &Inode, cred: &Cred, want: u32) -> Result<()> {
    let mode = inode.mode();
    let bits = if cred.uid == inode.uid() {
        mode >> 6
    } else if !inode.acls.is_empty() {
        others_with_list(inode, cred, mode, want)
    } else if cred.in_group(inode.gid()) {
        mode >> 3
    } else {
        mode
    };
    if bits & want == want || overrides(inode, mode, cred, want) || inode.grants() {
        Ok(())
    } else {
        Err(EACCES)
    }
}

/// What who is not the owner may do, as far as it is wanted, where there is a list. It is not asked where the mode gives the group nothing, as on Linux.
#[cold]
fn others_with_list(inode: &Inode, cred: &Cred, mode: u32, want: u32) -> u32 {
    let by_list = if mode & 0o070 == 0 { None } else { kept::permits(inode, cred, want) };
    match by_list {
        Some(true) => want,
        Some(false) => 0,
        None if cred.in_group(inode.gid()) => mode >> 3,
        None => mode,
    }
}

/// Does a capability give what the mode refuses? It searches every directory but executes only what somebody may execute.
fn overrides(inode: &Inode, mode: u32, cred: &Cred, want: u32) -> bool {
    let reads = if inode.is_dir() { want & WRITE == 0 } else { want == READ };
    (reads && cred.capable(Capability::DAC_READ_SEARCH))
        || ((inode.is_dir() || want & EXEC == 0 || mode & 0o111 != 0)
            && cred.capable(Capability::DAC_OVERRIDE))
}

/// As `check`, and EROFS when writing on a read-only mount (not for devices, fifos and sockets), and what the file system says of those who
/// write what nobody may.
pub fn check_on(mount: &Mount, inode: &Inode, cred: &Cred, want: u32) -> Result<()> {
    if want & WRITE != 0 {
        let contents = matches!(inode.kind, Kind::Regular | Kind::Directory | Kind::Symlink);
        if contents && mount.is_read_only() {
            return Err(EROFS);
        }
        inode.check_writing()?;
    }
    check(inode, cred, want)
}

/// May `cred` follow the link `link` of `dir`, the last of a path (fs.protected_symlinks)? In a sticky directory that all write, somebody else may have put it there.
///
/// # Errors
/// EACCES.
pub fn check_follow(dir: &Inode, link: &Inode, cred: &Cred) -> Result<()> {
    const SHARED: u32 = STICKY | 0o002;
    let is_own = || cred.uid == link.uid() || dir.uid() == link.uid();
    if dir.mode() & SHARED != SHARED || limits::PROTECTED_SYMLINKS.get() == 0 || is_own() {
        Ok(())
    } else {
        Err(EACCES)
    }
}

/// May `cred` open by O_CREAT what is in `dir` already (fs.protected_fifos, fs.protected_regular)? In a sticky directory that others write, somebody may have put it
/// there for who meant to make it.
///
/// # Errors
/// EACCES.
pub fn check_opened_to_make(dir: &Inode, found: &Inode, cred: &Cred) -> Result<()> {
    let mode = dir.mode();
    if mode & STICKY == 0 {
        return Ok(());
    }
    let protected = match found.kind {
        Kind::Regular => limits::PROTECTED_REGULAR.get(),
        Kind::Fifo => limits::PROTECTED_FIFOS.get(),
        // Where all write Linux does not ask for these.
        _ => 1,
    };
    if protected == 0 || found.uid() == dir.uid() || found.uid() == cred.uid {
        return Ok(());
    }
    if mode & 0o002 != 0 || mode & 0o020 != 0 && protected >= 2 { Err(EACCES) } else { Ok(()) }
}

/// May `cred` give the file another name? With fs.protected_hardlinks not somebody else's that is no plain file, changes who runs it, or could not be read and
/// written. EPERM.
pub fn check_link(inode: &Inode, cred: &Cred) -> Result<()> {
    if limits::PROTECTED_HARDLINKS.get() == 0 {
        return Ok(());
    }
    const GROUP_RUNS: u32 = SET_GROUP_ID | 0o010;
    let mode = inode.mode();
    let harmless = inode.kind == Kind::Regular && mode & SET_USER_ID == 0 && mode & GROUP_RUNS != GROUP_RUNS;
    if cred.owns(inode) || harmless && check(inode, cred, READ | WRITE).is_ok() { Ok(()) } else { Err(EPERM) }
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
