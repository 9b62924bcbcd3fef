//! capget(2), capset(2), and what prctl(2) does to capabilities.
#![forbid(unsafe_code)]

use super::change;
use crate::errno::{Errno, Result};
use crate::memory::user::UserPtr;
use crate::process::capabilities::{SecureBits, Sets};
use crate::process::{self, Capability, ids};

/// The version that a program without one is told to use.
const NEWEST: u32 = 0x2008_0522;

/// Where the words of a set lie in it.
const SHIFTS: [u32; 2] = [0, 32];

/// How many words of 32 bits a set has, by the version in the header.
///
/// # Errors
/// EINVAL: the version is not known, and the newest is written to the header. EFAULT.
fn words(header: usize) -> Result<usize> {
    match UserPtr::<u32>::new(header).read()? {
        0x1998_0330 => Ok(1),
        0x2007_1026 | NEWEST => Ok(2),
        _ => {
            UserPtr::<u32>::new(header).write(&NEWEST)?;
            Err(Errno::EINVAL)
        }
    }
}

/// The thread that the header names.
fn thread_number(header: usize) -> Result<i32> {
    UserPtr::<i32>::new(header).at(1)?.read()
}

/// capget(2).
pub fn sys_capget(header: usize, data: usize) -> Result<usize> {
    let words = match words(header) {
        // Nobody wants the sets: the caller asks for the version.
        Err(Errno::EINVAL) | Ok(_) if data == 0 => return Ok(0),
        words => words?,
    };
    let sets = match thread_number(header)? {
        tid if tid < 0 => return Err(Errno::EINVAL),
        0 => process::current().capabilities(),
        tid => {
            let look = |thread: &process::Thread| thread.look_at_credentials(|theirs| theirs.sets);
            ids::look_at_thread(tid.unsigned_abs(), look).flatten().ok_or(Errno::ESRCH)?
        }
    };
    let sets = [sets.effective, sets.permitted, sets.inheritable].map(|set| set.bits());
    for (n, shift) in SHIFTS.into_iter().enumerate().take(words) {
        let part = sets.map(|set| (set >> shift) as u32);
        UserPtr::<[u32; 3]>::new(data).at(n)?.write(&part)?;
    }
    Ok(0)
}

/// capset(2): the caller's own.
pub fn sys_capset(header: usize, data: usize) -> Result<usize> {
    let words = words(header)?;
    let tid = thread_number(header)?;
    if tid != 0 && tid != process::current().tid() as i32 {
        return Err(Errno::EPERM);
    }
    let mut sets = [0; 3];
    for (n, shift) in SHIFTS.into_iter().enumerate().take(words) {
        let part = UserPtr::<[u32; 3]>::new(data).at(n)?.read()?;
        for (set, word) in sets.iter_mut().zip(part) {
            *set |= u64::from(word) << shift;
        }
    }
    let [effective, permitted, inheritable] = sets.map(Capability::from_bits_retain);
    change_sets(|sets| sets.set(effective, permitted, inheritable))
}

fn change_sets(by: impl FnOnce(&mut Sets) -> Result) -> Result<usize> {
    change(|credentials| by(&mut credentials.sets))
}

/// PR_CAPBSET_READ.
pub fn read_bound(number: usize) -> Result<usize> {
    let asked = Capability::numbered(number)?;
    Ok(usize::from(process::current().capabilities().bounding.contains(asked)))
}

/// PR_CAPBSET_DROP.
pub fn drop_bound(number: usize) -> Result<usize> {
    if !process::current().capable(Capability::SETPCAP) {
        return Err(Errno::EPERM);
    }
    let dropped = Capability::numbered(number)?;
    change_sets(|sets| {
        sets.bounding.remove(dropped);
        Ok(())
    })
}

/// PR_CAP_AMBIENT.
pub fn ambient(operation: usize, number: usize, unused: [usize; 2]) -> Result<usize> {
    const IS_SET: usize = 1;
    const RAISE: usize = 2;
    const LOWER: usize = 3;
    const CLEAR_ALL: usize = 4;
    if unused != [0, 0] || (operation == CLEAR_ALL && number != 0) {
        return Err(Errno::EINVAL);
    }
    let meant = Capability::numbered(number)?;
    match operation {
        CLEAR_ALL => change_sets(|sets| {
            sets.ambient = Capability::empty();
            Ok(())
        }),
        IS_SET => Ok(usize::from(process::current().capabilities().ambient.contains(meant))),
        RAISE => change_sets(|sets| sets.raise_ambient(meant)),
        LOWER => change_sets(|sets| {
            sets.ambient.remove(meant);
            Ok(())
        }),
        _ => Err(Errno::EINVAL),
    }
}

/// PR_GET_KEEPCAPS.
pub fn keeps() -> bool {
    process::current().capabilities().secure.contains(SecureBits::KEEP)
}

/// PR_SET_KEEPCAPS.
pub fn set_keeps(value: usize) -> Result<usize> {
    if value > 1 {
        return Err(Errno::EINVAL);
    }
    change_sets(|sets| {
        if sets.secure.contains(SecureBits::KEEP_LOCKED) {
            return Err(Errno::EPERM);
        }
        sets.secure.set(SecureBits::KEEP, value == 1);
        Ok(())
    })
}

/// PR_SET_SECUREBITS.
pub fn set_secure_bits(bits: usize) -> Result<usize> {
    change_sets(|sets| sets.set_secure_bits(bits))
}

/// PR_GET_SECUREBITS.
pub fn secure_bits() -> Result<usize> {
    Ok(process::current().capabilities().secure.bits() as usize)
}
