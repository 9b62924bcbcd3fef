//! epoll (epoll(7)).
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::ptr;

use sync::TryVec;

use super::{after, deadline_and_mask, temporary_mask};
use crate::errno::*;
use crate::fs::anon::epoll::{Epoll, Event, Round};
use crate::fs::caller;
use crate::memory::user::UserSlice;
use crate::syscall::file::opened;

/// `struct epoll_event` has no padding on x86-64: events, then data.
const EVENT_SIZE: usize = 12;

/// So many events need no memory.
const FEW: usize = 8;
/// So many are collected at once, where there may be more.
const MANY: usize = 512;

pub fn sys_epoll_ctl(epoll: i32, operation: i32, fd: i32, address: usize) -> Result<usize> {
    const ADD: i32 = 1;
    const DELETE: i32 = 2;
    const MODIFY: i32 = 3;
    let mut event = Event::default();
    if operation != DELETE {
        let mut bytes = [0; EVENT_SIZE];
        UserSlice::new(address, EVENT_SIZE).read(&mut bytes)?;
        let number = |skip: usize, len: usize| {
            bytes.iter().skip(skip).take(len).rev().fold(0u64, |n, b| n << 8 | u64::from(*b))
        };
        event = Event { events: number(0, 4) as u32, data: number(4, 8) };
    }
    let (holder, target) = (opened(epoll)?, opened(fd)?);
    if !target.can_be_watched() {
        return Err(EPERM);
    }
    if ptr::eq(&*holder, &*target) {
        return Err(EINVAL);
    }
    let epoll = holder.downcast::<Epoll>().ok_or(EINVAL)?;
    match operation {
        ADD => epoll.add(fd, target.into_counted(), event)?,
        DELETE => epoll.remove(fd, &target)?,
        MODIFY => epoll.modify(fd, &target, event)?,
        _ => return Err(EINVAL),
    }
    Ok(0)
}

#[expect(clippy::arithmetic_side_effects, reason = "most is checked against EVENTS_MAX")]
fn epoll_wait(epoll: i32, address: usize, most: i32, deadline: Option<u64>) -> Result<usize> {
    let most =
        usize::try_from(most).ok().filter(|&n| n > 0 && n <= i32::MAX as usize / EVENT_SIZE).ok_or(EINVAL)?;
    UserSlice::new(address, most * EVENT_SIZE).check()?;
    let holder = opened(epoll)?;
    let epoll = holder.downcast::<Epoll>().ok_or(EINVAL)?;
    let (mut few, mut many) = ([Event::default(); FEW], Vec::new());
    let events = match few.get_mut(..most) {
        Some(few) => few,
        None => {
            many.try_resize(most.min(MANY), Event::default())?;
            &mut many
        }
    };
    let mut round = Round::default();
    let mut n = epoll.wait_round(&holder, &mut round, events, deadline)?;
    let mut told = 0;
    loop {
        put(address + told * EVENT_SIZE, events.iter().take(n))?;
        told += n;
        // Nothing waits for others from here on.
        let room = (most - told).min(events.len());
        if n < events.len() || room == 0 {
            return Ok(told);
        }
        n = events.get_mut(..room).map_or(0, |events| epoll.more(&mut round, events));
        if n == 0 {
            return Ok(told);
        }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "within a range that was checked")]
fn put<'a>(address: usize, events: impl Iterator<Item = &'a Event>) -> Result {
    for (i, event) in events.enumerate() {
        let at = UserSlice::new(address + i * EVENT_SIZE, EVENT_SIZE);
        at.take(4).write(&event.events.to_ne_bytes())?;
        at.skip(4).write(&event.data.to_ne_bytes())?;
    }
    Ok(())
}

#[expect(clippy::arithmetic_side_effects, reason = "milliseconds of 32 bits")]
pub fn sys_epoll_wait(epoll: i32, address: usize, most: i32, timeout: i32) -> Result<usize> {
    let deadline = u64::try_from(timeout).ok().map(|ms| after(ms * 1_000_000));
    epoll_wait(epoll, address, most, deadline)
}

pub fn sys_epoll_pwait(
    epoll: i32,
    address: usize,
    most: i32,
    timeout: i32,
    mask: usize,
    size: usize,
) -> Result<usize> {
    temporary_mask(mask, size)?;
    finish_epoll(sys_epoll_wait(epoll, address, most, timeout))
}

pub fn sys_epoll_pwait2(
    epoll: i32,
    address: usize,
    most: i32,
    timeout: usize,
    mask: usize,
    size: usize,
) -> Result<usize> {
    let deadline = deadline_and_mask(timeout, mask, size)?;
    finish_epoll(epoll_wait(epoll, address, most, deadline))
}

/// epoll_wait is never restarted.
fn finish_epoll(result: Result<usize>) -> Result<usize> {
    if result != Err(EINTR) {
        caller::end_temporary_mask();
    }
    result
}
