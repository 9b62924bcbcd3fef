//! User and group ids and capabilities (credentials(7)). A thread changes its own; libcs make all their threads call.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::memory::user::UserPtr;
use crate::process::{self, Credentials};
use core::sync::atomic::Ordering;
use sync::{TryVec, try_arc};

/// Changes the caller's credentials by `change`, which may refuse.
fn change_ids(change: impl FnOnce(&mut Credentials) -> Result) -> Result<usize> {
    let thread = process::current();
    let old = thread.ids();
    let mut new = thread.credentials().copy()?;
    change(&mut new)?;
    thread.process.note_new_ids(&old, &new);
    thread.process.uid.store(new.uid, Ordering::Relaxed);
    thread.set_credentials(try_arc(new)?);
    Ok(0)
}

macro_rules! get_ids {
    ($($(#[$doc:meta])* $name:ident $field:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> Result<usize> {
            Ok(process::current().ids().$field as usize)
        }
    )*};
}
get_ids! {
    /// getuid(2).
    sys_getuid uid;
    /// geteuid(2).
    sys_geteuid euid;
    /// getgid(2).
    sys_getgid gid;
    /// getegid(2).
    sys_getegid egid;
}

/// setuid(2).
pub fn sys_setuid(id: u32) -> Result<usize> {
    change_ids(|c| {
        if c.is_root() {
            (c.uid, c.suid) = (id, id);
        } else if id != c.uid && id != c.suid {
            return Err(Errno::EPERM);
        }
        (c.euid, c.fsuid) = (id, id);
        Ok(())
    })
}

/// setgid(2).
pub fn sys_setgid(id: u32) -> Result<usize> {
    change_ids(|c| {
        if c.is_root() {
            (c.gid, c.sgid) = (id, id);
        } else if id != c.gid && id != c.sgid {
            return Err(Errno::EPERM);
        }
        (c.egid, c.fsgid) = (id, id);
        Ok(())
    })
}

/// An id argument; -1 leaves the id as it is.
fn given(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

/// setreuid(2).
pub fn sys_setreuid(real: u32, effective: u32) -> Result<usize> {
    change_ids(|c| {
        let root = c.is_root();
        let old = c.uid;
        if let Some(id) = given(real) {
            if !root && id != c.uid && id != c.euid {
                return Err(Errno::EPERM);
            }
            c.uid = id;
        }
        if let Some(id) = given(effective) {
            if !root && id != old && id != c.euid && id != c.suid {
                return Err(Errno::EPERM);
            }
            c.euid = id;
        }
        if given(real).is_some() || given(effective).is_some_and(|id| id != old) {
            c.suid = c.euid;
        }
        c.fsuid = c.euid;
        Ok(())
    })
}

/// setregid(2).
pub fn sys_setregid(real: u32, effective: u32) -> Result<usize> {
    change_ids(|c| {
        let root = c.is_root();
        let old = c.gid;
        if let Some(id) = given(real) {
            if !root && id != c.gid && id != c.egid {
                return Err(Errno::EPERM);
            }
            c.gid = id;
        }
        if let Some(id) = given(effective) {
            if !root && id != old && id != c.egid && id != c.sgid {
                return Err(Errno::EPERM);
            }
            c.egid = id;
        }
        if given(real).is_some() || given(effective).is_some_and(|id| id != old) {
            c.sgid = c.egid;
        }
        c.fsgid = c.egid;
        Ok(())
    })
}

/// setresuid(2).
pub fn sys_setresuid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    change_ids(|c| {
        let own = [c.uid, c.euid, c.suid];
        let wanted = [given(real), given(effective), given(saved)];
        if !c.is_root() && wanted.iter().flatten().any(|id| !own.contains(id)) {
            return Err(Errno::EPERM);
        }
        c.uid = wanted[0].unwrap_or(c.uid);
        c.euid = wanted[1].unwrap_or(c.euid);
        c.suid = wanted[2].unwrap_or(c.suid);
        c.fsuid = c.euid;
        Ok(())
    })
}

/// setresgid(2).
pub fn sys_setresgid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    change_ids(|c| {
        let own = [c.gid, c.egid, c.sgid];
        let wanted = [given(real), given(effective), given(saved)];
        if !c.is_root() && wanted.iter().flatten().any(|id| !own.contains(id)) {
            return Err(Errno::EPERM);
        }
        c.gid = wanted[0].unwrap_or(c.gid);
        c.egid = wanted[1].unwrap_or(c.egid);
        c.sgid = wanted[2].unwrap_or(c.sgid);
        c.fsgid = c.egid;
        Ok(())
    })
}

fn write_three(ids: [u32; 3], to: [usize; 3]) -> Result<usize> {
    for (id, to) in ids.iter().zip(to) {
        UserPtr::<u32>::new(to).write(id)?;
    }
    Ok(0)
}

/// getresuid(2).
pub fn sys_getresuid(real: usize, effective: usize, saved: usize) -> Result<usize> {
    let c = process::credentials();
    write_three([c.uid, c.euid, c.suid], [real, effective, saved])
}

/// getresgid(2).
pub fn sys_getresgid(real: usize, effective: usize, saved: usize) -> Result<usize> {
    let c = process::credentials();
    write_three([c.gid, c.egid, c.sgid], [real, effective, saved])
}

/// setfsuid(2): always the old id.
pub fn sys_setfsuid(id: u32) -> Result<usize> {
    let c = process::credentials();
    if c.is_root() || [c.uid, c.euid, c.suid, c.fsuid].contains(&id) {
        change_ids(|c| {
            c.fsuid = given(id).unwrap_or(c.fsuid);
            Ok(())
        })?;
    }
    Ok(c.fsuid as usize)
}

/// setfsgid(2): always the old id.
pub fn sys_setfsgid(id: u32) -> Result<usize> {
    let c = process::credentials();
    if c.is_root() || [c.gid, c.egid, c.sgid, c.fsgid].contains(&id) {
        change_ids(|c| {
            c.fsgid = given(id).unwrap_or(c.fsgid);
            Ok(())
        })?;
    }
    Ok(c.fsgid as usize)
}

const GROUPS_MAX: usize = 65_536;

/// getgroups(2).
pub fn sys_getgroups(size: i32, to: usize) -> Result<usize> {
    let c = process::credentials();
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    if size != 0 {
        if c.groups.len() > size {
            return Err(Errno::EINVAL);
        }
        for (n, group) in c.groups.iter().enumerate() {
            UserPtr::<u32>::new(to).at(n)?.write(group)?;
        }
    }
    Ok(c.groups.len())
}

/// setgroups(2).
pub fn sys_setgroups(size: usize, from: usize) -> Result<usize> {
    if !process::credentials().is_root() {
        return Err(Errno::EPERM);
    }
    if size > GROUPS_MAX {
        return Err(Errno::EINVAL);
    }
    let mut groups = alloc::vec::Vec::new();
    for n in 0..size {
        groups.try_push(UserPtr::<u32>::new(from).at(n)?.read()?)?;
    }
    // Linux keeps them sorted, and tells them so.
    groups.sort_unstable();
    change_ids(|c| {
        c.groups = groups;
        Ok(())
    })
}

/// capget(2): all capabilities for the superuser, none for others.
pub fn sys_capget(header: usize, data: usize) -> Result<usize> {
    let [version, pid] = UserPtr::<[u32; 2]>::new(header).read()?;
    let words = match version {
        0x1998_0330 => 1,
        0x2007_1026 | 0x2008_0522 => 2,
        _ => {
            UserPtr::<u32>::new(header).write(&0x2008_0522)?;
            return if data == 0 { Ok(0) } else { Err(Errno::EINVAL) };
        }
    };
    const ALL: [u32; 2] = [u32::MAX, 0x1ff];
    let root = match pid as i32 {
        0 => process::current().ids().is_root(),
        pid if pid < 0 => return Err(Errno::EINVAL),
        _ => {
            let thread = process::find_thread(pid).ok_or(Errno::ESRCH)?;
            thread.credentials_of().is_some_and(|credentials| credentials.is_root())
        }
    };
    for (n, all) in ALL.iter().take(words).enumerate() {
        let set = if root { *all } else { 0 };
        UserPtr::<[u32; 3]>::new(data).at(n)?.write(&[set, set, 0])?;
    }
    Ok(0)
}

/// capset(2): accepted from the superuser and without effect.
pub fn sys_capset(header: usize, _data: usize) -> Result<usize> {
    UserPtr::<[u32; 2]>::new(header).read()?;
    if process::credentials().is_root() { Ok(0) } else { Err(Errno::EPERM) }
}
