//! Who somebody is and was, in /proc/PID: the maps of the one user namespace that there is (user_namespaces(7)), and who logged in (loginuid, sessionid).
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use crate::errno::{EINVAL, ENOMEM, EPERM, ERANGE, Result};
use crate::fs::caller::{self, Capability};
use crate::process::{NOBODY, Process, Thread};

/// uid_map, gid_map and projid_map: all numbers mean themselves.
pub fn id_map(_: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    writeln!(Text(out), "{:>10} {:>10} {:>10}", 0, 0, u32::MAX).map_err(|_| ENOMEM)
}

/// setgroups: the call may be made.
pub fn setgroups(_: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    Ok(out.try_extend_from_slice(b"allow\n")?)
}

/// What is so may be written again; a namespace whose numbers are mapped never denies it.
///
/// # Errors
/// EPERM: it is to be denied; EINVAL: that is no word.
pub fn set_setgroups(data: &[u8]) -> Result {
    match data.trim_ascii_end() {
        _ if data.len() > 7 => Err(EINVAL),
        b"allow" => Ok(()),
        b"deny" => Err(EPERM),
        _ => Err(EINVAL),
    }
}

/// loginuid: the user who logged in, from whom the thread comes.
pub fn loginuid(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    write!(Text(out), "{}", thread.attributes.login().0).map_err(|_| ENOMEM)
}

/// sessionid: the number of that login.
pub fn sessionid(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    write!(Text(out), "{}", thread.attributes.login().1).map_err(|_| ENOMEM)
}

/// Only the thread itself says who logged in: once, or with CAP_AUDIT_CONTROL again.
///
/// # Errors
/// EPERM; EINVAL and ERANGE: that is no user.
pub fn set_loginuid(thread: &Thread, data: &[u8]) -> Result {
    if caller::tid() != thread.tid() {
        return Err(EPERM);
    }
    let text = data.strip_suffix(b"\n").unwrap_or(data);
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(EINVAL);
    }
    let user = core::str::from_utf8(digits).map_err(|_| EINVAL)?.parse().map_err(|_| ERANGE)?;
    if thread.attributes.login().0 != NOBODY && !caller::capable(Capability::AUDIT_CONTROL) {
        return Err(EPERM);
    }
    thread.attributes.set_login(user);
    Ok(())
}
