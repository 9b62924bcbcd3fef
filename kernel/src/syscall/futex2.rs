//! The calls on futexes that came after futex(2): one for each command, and a wait on several. Decodes and calls `sched::futex`.
//!
//! Words have 32 bits, as on Linux so far.
#![forbid(unsafe_code)]

use crate::errno::{ERESTARTSYS, Errno, Result};
use crate::memory::user::UserPtr;
use crate::process;
use crate::sched::futex::several::{self, Part};
use crate::sched::futex::{self, Key};
use crate::sched::{Deadline, TimeClock};
use crate::syscall::time::{read_timespec, sleep_on_clock};
use alloc::vec::Vec;
use linux_raw_sys::general as abi;
use sync::TryVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// FUTEX2_SIZE_U32, in FUTEX2_SIZE_MASK.
const SIZE_32: u32 = 2;
/// FUTEX2_PRIVATE.
const PRIVATE: u32 = 128;

/// Most futexes of one wait (FUTEX_WAITV_MAX).
const MOST: u32 = 128;

/// struct futex_waitv.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Is it a futex that only threads of one space wait on?
///
/// # Errors
/// EINVAL: there is no such kind of futex.
fn is_private(flags: u32) -> Result<bool> {
    if flags & !PRIVATE == SIZE_32 { Ok(flags & PRIVATE != 0) } else { Err(Errno::EINVAL) }
}

/// The value of a word, or a mask of bits.
///
/// # Errors
/// EINVAL: it does not fit into a word.
fn word(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| Errno::EINVAL)
}

/// The moment up to which a wait goes, on a clock that programs can set or one that they cannot.
///
/// # Errors
/// EINVAL: neither, or no time. EFAULT.
fn deadline(timeout: usize, clock: i32) -> Result<Option<Deadline>> {
    if timeout == 0 {
        return Ok(None);
    }
    let clock = match u32::try_from(clock) {
        Ok(abi::CLOCK_REALTIME) => TimeClock::Realtime,
        Ok(abi::CLOCK_MONOTONIC) => TimeClock::Monotonic,
        _ => return Err(Errno::EINVAL),
    };
    Ok(Some(sleep_on_clock(clock, read_timespec(timeout)?, false)))
}

/// `count` waiters at `address`: address, whether it is private, value.
///
/// # Errors
/// EINVAL, EFAULT: of the first that is wrong. ENOMEM.
fn waiters(address: usize, count: usize) -> Result<Vec<(usize, bool, u32)>> {
    let mut list = Vec::new();
    for n in 0..count {
        let waiter = UserPtr::<Waiter>::new(address).at(n)?.read()?;
        let private = is_private(waiter.flags)?;
        if waiter.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        list.try_push((waiter.address as usize, private, word(waiter.value as usize)?))?;
    }
    Ok(list)
}

/// A wait that a signal ended is as good when it is made again: its end is a moment.
fn restarted(errno: Errno) -> Errno {
    if errno == Errno::EINTR { ERESTARTSYS } else { errno }
}

/// futex_waitv(2).
pub fn sys_futex_waitv(list: usize, count: u32, flags: u32, timeout: usize, clock: i32) -> Result<usize> {
    if flags != 0 || !(1..=MOST).contains(&count) || list == 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = deadline(timeout, clock)?;
    let list = waiters(list, count as usize)?;
    let current = process::current();
    let mut parts = Vec::new();
    for (address, private, expected) in list {
        parts.try_push(Part {
            key: Key::of(current.space(), address, private)?,
            address,
            expected,
            bits: futex::ANY,
        })?;
    }
    several::wait_any(&parts, deadline).map_err(restarted)
}

/// futex_wake(2).
pub fn sys_futex_wake(address: usize, mask: usize, count: i32, flags: u32) -> Result<usize> {
    let private = is_private(flags)?;
    let bits = word(mask)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let current = process::current();
    let key = Key::of(current.space(), address, private)?;
    if count == 0 {
        return Ok(0);
    }
    // Linux wakes one waiter even when asked for less than none.
    Ok(futex::wake(key, count.max(1).cast_unsigned(), bits)? as usize)
}

/// futex_wait(2).
pub fn sys_futex_wait(
    address: usize,
    value: usize,
    mask: usize,
    flags: u32,
    timeout: usize,
    clock: i32,
) -> Result<usize> {
    let private = is_private(flags)?;
    let (value, bits) = (word(value)?, word(mask)?);
    let deadline = deadline(timeout, clock)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let current = process::current();
    let key = Key::of(current.space(), address, private)?;
    // One of several: of `futex::wait` there is one copy then, in futex(2), which programs wait by.
    several::wait_any(&[Part { key, address, expected: value, bits }], deadline).map_err(restarted)
}

/// futex_requeue(2): the first of two waiters says from where and what is to be there, the second where to. Both are of one kind, as on Linux so far.
#[expect(clippy::arithmetic_side_effects, reason = "counts of tasks")]
pub fn sys_futex_requeue(list: usize, flags: u32, count: i32, moved: i32) -> Result<usize> {
    if flags != 0 || list == 0 {
        return Err(Errno::EINVAL);
    }
    let list = waiters(list, 2)?;
    let &[(from, private, expected), (to, also_private, _)] = list.as_slice() else {
        return Err(Errno::EINVAL);
    };
    let (Ok(count), Ok(moved)) = (u32::try_from(count), u32::try_from(moved)) else {
        return Err(Errno::EINVAL);
    };
    if private != also_private {
        return Err(Errno::EINVAL);
    }
    let current = process::current();
    let key = |address| Key::of(current.space(), address, private);
    let (source, target) = (key(from)?, key(to)?);
    let (woken, moved) = futex::requeue(source, target, count, moved, from, Some(expected))?;
    Ok(woken as usize + moved as usize)
}
