//! User and group ids (credentials(7)). A thread changes its own; libcs make all their threads call.
#![forbid(unsafe_code)]

pub(super) mod capability;
mod groups;

pub use groups::{sys_getgroups, sys_setgroups};

use crate::errno::{Errno, Result};
use crate::memory::user::UserPtr;
use crate::process::{self, Capability, Credentials};
use linux_raw_sys::general::RLIMIT_NPROC;

/// Changes the caller's credentials by `change`, which may refuse.
pub(super) fn change(change: impl FnOnce(&mut Credentials) -> Result) -> Result<usize> {
    let mut new = process::current().credentials().copy()?;
    change(&mut new)?;
    process::set_credentials(new)?;
    Ok(0)
}

/// Changes the caller's user ids by `change`, which may refuse. Its capabilities follow.
fn change_user(change_ids: impl FnOnce(&mut Credentials) -> Result) -> Result<usize> {
    change(|c| {
        let old = c.ids;
        change_ids(c)?;
        c.sets.follow_user_ids(&old, &c.ids);
        if c.uid != old.uid {
            // The user's limit counts at the next exec: programs that give their rights up seldom look at what this call says.
            let limit = process::limit_now(RLIMIT_NPROC);
            c.over_process_limit = process::has_as_many(c.uid, limit.saturating_add(1));
        }
        Ok(())
    })
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
    given(id).ok_or(Errno::EINVAL)?;
    change_user(|c| {
        if c.capable(Capability::SETUID) {
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
    given(id).ok_or(Errno::EINVAL)?;
    change(|c| {
        if c.capable(Capability::SETGID) {
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

/// What setreuid and setregid make of real, effective and saved id.
///
/// # Errors
/// EPERM.
fn real_and_effective(own: [u32; 3], real: u32, effective: u32, any: bool) -> Result<[u32; 3]> {
    let (real, effective) = (given(real), given(effective));
    let may = |id: Option<u32>, from: &[u32]| any || id.is_none_or(|id| from.contains(&id));
    if !may(real, &own[..2]) || !may(effective, &own) {
        return Err(Errno::EPERM);
    }
    let new_effective = effective.unwrap_or(own[1]);
    let saves = real.is_some() || effective.is_some_and(|id| id != own[0]);
    Ok([real.unwrap_or(own[0]), new_effective, if saves { new_effective } else { own[2] }])
}

/// setreuid(2).
pub fn sys_setreuid(real: u32, effective: u32) -> Result<usize> {
    change_user(|c| {
        let any = c.capable(Capability::SETUID);
        [c.uid, c.euid, c.suid] = real_and_effective([c.uid, c.euid, c.suid], real, effective, any)?;
        c.fsuid = c.euid;
        Ok(())
    })
}

/// setregid(2).
pub fn sys_setregid(real: u32, effective: u32) -> Result<usize> {
    change(|c| {
        let any = c.capable(Capability::SETGID);
        [c.gid, c.egid, c.sgid] = real_and_effective([c.gid, c.egid, c.sgid], real, effective, any)?;
        c.fsgid = c.egid;
        Ok(())
    })
}

/// Are these calls of setresuid and setresgid no change? They leave the file-system id alone too then.
fn changes_nothing(own: [u32; 4], wanted: [u32; 3]) -> bool {
    let [real, effective, saved] = wanted;
    let is = |id: u32, own: u32| given(id).is_none_or(|id| id == own);
    is(real, own[0]) && is(effective, own[1]) && is(saved, own[2]) && is(effective, own[3])
}

/// What setresuid and setresgid, which change something, make of real, effective, saved and file-system id.
///
/// # Errors
/// EPERM.
fn all_three(own: [u32; 4], wanted: [u32; 3], any: bool) -> Result<[u32; 4]> {
    let [real, effective, saved] = wanted.map(given);
    if !any && [real, effective, saved].iter().flatten().any(|id| !own[..3].contains(id)) {
        return Err(Errno::EPERM);
    }
    let effective = effective.unwrap_or(own[1]);
    Ok([real.unwrap_or(own[0]), effective, saved.unwrap_or(own[2]), effective])
}

/// setresuid(2).
pub fn sys_setresuid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    let c = process::current().ids();
    if changes_nothing([c.uid, c.euid, c.suid, c.fsuid], [real, effective, saved]) {
        return Ok(0);
    }
    change_user(|c| {
        let any = c.capable(Capability::SETUID);
        let own = [c.uid, c.euid, c.suid, c.fsuid];
        [c.uid, c.euid, c.suid, c.fsuid] = all_three(own, [real, effective, saved], any)?;
        Ok(())
    })
}

/// setresgid(2).
pub fn sys_setresgid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    let c = process::current().ids();
    if changes_nothing([c.gid, c.egid, c.sgid, c.fsgid], [real, effective, saved]) {
        return Ok(0);
    }
    change(|c| {
        let any = c.capable(Capability::SETGID);
        let own = [c.gid, c.egid, c.sgid, c.fsgid];
        [c.gid, c.egid, c.sgid, c.fsgid] = all_three(own, [real, effective, saved], any)?;
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
    let c = process::current();
    let old = c.ids();
    let may = [old.uid, old.euid, old.suid, old.fsuid].contains(&id) || c.capable(Capability::SETUID);
    if may && given(id).is_some() && id != old.fsuid {
        // Whoever calls is not told of a failure, and looks at what is the old id in the next call.
        let _ = change(|c| {
            c.fsuid = id;
            c.sets.follow_fs_user_id(old.fsuid, id);
            Ok(())
        });
    }
    Ok(old.fsuid as usize)
}

/// setfsgid(2): always the old id.
pub fn sys_setfsgid(id: u32) -> Result<usize> {
    let c = process::current();
    let old = c.ids();
    let may = [old.gid, old.egid, old.sgid, old.fsgid].contains(&id) || c.capable(Capability::SETGID);
    if may && given(id).is_some() && id != old.fsgid {
        // As setfsuid.
        let _ = change(|c| {
            c.fsgid = id;
            Ok(())
        });
    }
    Ok(old.fsgid as usize)
}
