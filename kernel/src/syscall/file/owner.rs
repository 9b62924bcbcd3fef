//! The owner of a file and the signal that tells it of input and output: F_SETOWN and its kin (fcntl(2)).
#![forbid(unsafe_code)]

use crate::errno::*;
use crate::fs::File;
use crate::fs::caller::{Owner, OwnerKind};
use crate::memory::user::UserPtr;

/// F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP.
const KINDS: [OwnerKind; 3] = [OwnerKind::Thread, OwnerKind::Process, OwnerKind::Group];

fn describe(file: &File) -> (OwnerKind, u32) {
    file.async_io().map_or((OwnerKind::Thread, 0), |io| io.owner().describe())
}

/// F_GETOWN: a group is below zero.
pub fn get(file: &File) -> usize {
    match describe(file) {
        (OwnerKind::Group, number) => (number as usize).wrapping_neg(),
        (_, number) => number as usize,
    }
}

/// F_SETOWN.
///
/// # Errors
/// EINVAL, ESRCH, ENOMEM.
pub fn set(file: &File, who: i32) -> Result {
    let kind = match who {
        i32::MIN => return Err(EINVAL),
        who if who < 0 => OwnerKind::Group,
        _ => OwnerKind::Process,
    };
    let io = file.need_async_io()?;
    io.set_owner(Owner::find(kind, who.unsigned_abs())?);
    Ok(())
}

/// F_GETOWN_EX: struct f_owner_ex, kind and number.
///
/// # Errors
/// EFAULT.
pub fn get_ex(file: &File, to: usize) -> Result {
    let (kind, number) = describe(file);
    let kind = KINDS.iter().position(|k| *k == kind).unwrap_or(0);
    UserPtr::<[u32; 2]>::new(to).write(&[kind as u32, number])
}

/// F_SETOWN_EX.
///
/// # Errors
/// EFAULT, EINVAL: no such kind; ESRCH, ENOMEM.
pub fn set_ex(file: &File, from: usize) -> Result {
    let [kind, number] = UserPtr::<[u32; 2]>::new(from).read()?;
    let kind = *KINDS.get(kind as usize).ok_or(EINVAL)?;
    let io = file.need_async_io()?;
    io.set_owner(Owner::find(kind, number)?);
    Ok(())
}

/// F_GETOWNER_UIDS: real and effective user of who named the owner.
///
/// # Errors
/// EFAULT.
pub fn get_ids(file: &File, to: usize) -> Result {
    let ids = file.async_io().map_or([0, 0], |io| {
        let owner = io.owner();
        [owner.uid, owner.euid]
    });
    UserPtr::<[u32; 2]>::new(to).write(&ids)
}

/// F_GETSIG.
pub fn signal(file: &File) -> usize {
    file.async_io().map_or(0, |io| io.signal() as usize)
}

/// F_SETSIG; 0: SIGIO, which then says no more.
///
/// # Errors
/// EINVAL, ENOMEM.
pub fn set_signal(file: &File, signal: i32) -> Result {
    let signal = u32::try_from(signal).ok().filter(|n| *n <= 64).ok_or(EINVAL)?;
    file.need_async_io()?.set_signal(signal);
    Ok(())
}
