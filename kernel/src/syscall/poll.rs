//! poll, select and epoll.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::TryVec;

use super::file::file;
use crate::arch;
use crate::errno::*;
use crate::fs::anon::epoll::{Epoll, Event};
use crate::fs::file::poll::{ERR, HUP, IN, NVAL, OUT, PRI, Poller, RDNORM, WRNORM};
use crate::fs::{File, caller};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process;
use crate::process::personality::STICKY_TIMEOUTS;
use crate::sched::{PollSet, Sleep, Woken};

/// One descriptor that is waited for, what for, and what came.
struct Entry {
    file: Option<Arc<File>>,
    events: u32,
    result: u32,
}

/// Waits until an entry has a result or the deadline is past (`Some(0)`: does not wait). Returns how many have.
fn wait(entries: &mut [Entry], deadline: Option<u64>) -> Result<usize> {
    let mut results: Vec<u32> = Vec::new();
    results.try_resize(entries.len(), 0)?;
    let outcome = wait_for(entries, &mut results, deadline);
    for (entry, result) in entries.iter_mut().zip(results) {
        entry.result = result;
    }
    outcome
}

fn wait_for(entries: &[Entry], results: &mut [u32], deadline: Option<u64>) -> Result<usize> {
    // Most calls find something at once and join no queue.
    let n = look(entries, results, &mut Poller::Nobody);
    if n > 0 || deadline == Some(0) {
        return Ok(n);
    }
    PollSet::with(|set| {
        loop {
            let n = look(entries, results, &mut Poller::Sleeper(set));
            if n > 0 {
                return Ok(n);
            }
            set.complete()?;
            match set.wait(Sleep::Interruptible, deadline) {
                Ok(()) => set.clear(),
                Err(Woken::Timeout) => return Ok(look(entries, results, &mut Poller::Nobody)),
                Err(Woken::Signal) => return Err(EINTR),
            }
        }
    })
}

#[expect(clippy::arithmetic_side_effects, reason = "counts of descriptors")]
fn look<'a>(entries: &'a [Entry], results: &mut [u32], poller: &mut Poller<'_, 'a>) -> usize {
    let mut n = 0;
    for (entry, result) in entries.iter().zip(results) {
        *result = match &entry.file {
            Some(file) => file.poll(poller) & (entry.events | ERR | HUP | NVAL),
            None => entry.result,
        };
        n += usize::from(*result != 0);
    }
    n
}

/// Absolute time of a timeout in nanoseconds from now.
fn after(nanos: u64) -> u64 {
    if nanos == 0 { 0 } else { arch::time::now().saturating_add(nanos) }
}

/// Reads a `struct timespec` as a deadline; no address, no deadline.
#[expect(clippy::arithmetic_side_effects, reason = "the unit is 1 or 1,000, and the part below a second")]
fn deadline(address: usize, unit: i64) -> Result<Option<u64>> {
    let Some(p) = UserPtr::<[i64; 2]>::new(address).non_null() else { return Ok(None) };
    let [seconds, part] = p.read()?;
    let limit = 1_000_000_000 / unit;
    // select takes any number of microseconds.
    let (seconds, part) = if unit == 1000 && part >= limit {
        (seconds.saturating_add(part / limit), part % limit)
    } else {
        (seconds, part)
    };
    if seconds < 0 || !(0..limit).contains(&part) {
        return Err(EINVAL);
    }
    let nanos =
        seconds.cast_unsigned().saturating_mul(1_000_000_000).saturating_add((part * unit).cast_unsigned());
    Ok(Some(after(nanos)))
}

/// The end of ppoll, select and pselect6, which write back what was left of the timeout. Where they do not, because it lies in read-only memory or
/// the program has STICKY_TIMEOUTS, a call that was interrupted is not restarted: it would wait for the whole time again.
#[expect(clippy::arithmetic_side_effects, reason = "the unit is 1 or 1,000")]
fn end(result: Result<usize>, timeout: usize, deadline: Option<u64>, unit: u64) -> Result<usize> {
    let result = end_mask(result);
    let (Some(p), Some(deadline)) = (UserPtr::<[i64; 2]>::new(timeout).non_null(), deadline) else {
        return result;
    };
    let rest = deadline.saturating_sub(arch::time::now());
    let (seconds, nanos) = (rest / 1_000_000_000, rest % 1_000_000_000);
    let sticky = process::current().personality.get().has(STICKY_TIMEOUTS);
    if sticky || p.write(&[seconds.cast_signed(), (nanos / unit).cast_signed()]).is_err() {
        return result.map_err(|e| if e == ERESTARTNOHAND { EINTR } else { e });
    }
    result
}

#[expect(clippy::arithmetic_side_effects, reason = "at most as many as descriptors, in user memory")]
fn poll(address: usize, count: u32, deadline: Option<u64>) -> Result<usize> {
    let count = count as usize;
    if count > caller::descriptor_limit() {
        return Err(EINVAL);
    }
    let mut raw: Vec<u8> = Vec::new();
    raw.try_resize(count * 8, 0)?;
    UserSlice::new(address, raw.len()).read(&mut raw)?;
    let mut entries = Vec::new();
    let files = caller::files();
    for bytes in raw.chunks_exact(8) {
        let field = |skip: usize, len: usize| {
            bytes.iter().skip(skip).take(len).rev().fold(0u32, |n, b| n << 8 | u32::from(*b))
        };
        let fd = field(0, 4).cast_signed();
        // A negative descriptor is left out.
        let found = (fd >= 0).then(|| files.get(fd));
        let result = if matches!(found, Some(Err(_))) { NVAL } else { 0 };
        entries.try_push(Entry {
            file: found.and_then(core::result::Result::ok),
            events: field(4, 2),
            result,
        })?;
    }
    let n = wait(&mut entries, deadline)?;
    for (bytes, entry) in raw.chunks_exact_mut(8).zip(&entries) {
        if let Some(to) = bytes.get_mut(6..8) {
            to.copy_from_slice(&(entry.result as u16).to_ne_bytes());
        }
    }
    // Only `revents` is written on Linux; the rest is what was read, but another thread may be changing it.
    for (i, bytes) in raw.chunks_exact(8).enumerate() {
        UserSlice::new(address + i * 8 + 6, 2).write(bytes.get(6..8).unwrap_or(&[]))?;
    }
    Ok(n)
}

#[expect(clippy::arithmetic_side_effects, reason = "milliseconds of 32 bits")]
pub fn sys_poll(address: usize, count: u32, timeout: i32) -> Result<usize> {
    let deadline = u64::try_from(timeout).ok().map(|ms| after(ms * 1_000_000));
    // Linux restarts a poll that no handler interrupted; a fixed deadline would be needed for that.
    poll(address, count, deadline).map_err(|e| if e == EINTR { ERESTARTNOHAND } else { e })
}

pub fn sys_ppoll(address: usize, count: u32, timeout: usize, mask: usize, size: usize) -> Result<usize> {
    let deadline = deadline(timeout, 1)?;
    temporary_mask(mask, size)?;
    end(poll(address, count, deadline), timeout, deadline, 1)
}

/// Ends a call that may have had a temporary mask: it is restarted only if no handler ran.
fn end_mask(result: Result<usize>) -> Result<usize> {
    match result {
        Err(EINTR) => Err(ERESTARTNOHAND),
        result => {
            caller::end_temporary_mask();
            result
        }
    }
}

/// The signal mask that holds while the call waits.
fn temporary_mask(mask: usize, size: usize) -> Result {
    if let Some(p) = UserPtr::<u64>::new(mask).non_null() {
        if size != 8 {
            return Err(EINVAL);
        }
        caller::set_temporary_mask(p.read()?);
    }
    Ok(())
}

const SETS: usize = 3;
/// FD_SETSIZE of the kernel's own making: as many as a table can have.
const SELECT_MAX: usize = crate::fs::file::table::MOST;

#[expect(clippy::arithmetic_side_effects, reason = "counts of descriptors")]
fn select(count: i32, addresses: [usize; SETS], deadline: Option<u64>) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    let files = caller::files();
    let count = count.min(files.size()).min(SELECT_MAX);
    let bytes = count.div_ceil(64) * 8;
    let mut sets: [Vec<u8>; SETS] = [Vec::new(), Vec::new(), Vec::new()];
    for (set, address) in sets.iter_mut().zip(addresses) {
        set.try_resize(bytes, 0)?;
        if address != 0 {
            UserSlice::new(address, bytes).read(set)?;
        }
    }
    const WANTED: [u32; SETS] = [IN | RDNORM | HUP | ERR, OUT | WRNORM | ERR, PRI];
    let mut entries = Vec::new();
    let mut numbers: Vec<usize> = Vec::new();
    for fd in 0..count {
        let bit = |set: &Vec<u8>| set.get(fd / 8).is_some_and(|b| b >> (fd % 8) & 1 != 0);
        let mut events = 0;
        for (set, wanted) in sets.iter().zip(WANTED) {
            if bit(set) {
                events |= wanted;
            }
        }
        if events != 0 {
            let file = files.get(fd as i32)?;
            entries.try_push(Entry { file: Some(file), events, result: 0 })?;
            numbers.try_push(fd)?;
        }
    }
    // Errors and hang-ups wake only where they count for a set.
    loop {
        wait(&mut entries, deadline)?;
        let some = entries.iter().any(|e| e.result & e.events != 0);
        if some || deadline.is_some_and(|d| d <= arch::time::now()) {
            break;
        }
        if entries.iter().all(|e| e.result == 0) {
            break;
        }
        crate::sched::yield_now();
    }
    let mut n = 0;
    for (set, wanted) in sets.iter_mut().zip(WANTED) {
        let asked = core::mem::take(set);
        set.try_resize(bytes, 0)?;
        for (entry, &fd) in entries.iter().zip(&numbers) {
            let bit = 1u8 << (fd % 8);
            let was = asked.get(fd / 8).is_some_and(|b| b & bit != 0);
            if was && entry.result & wanted != 0 {
                if let Some(byte) = set.get_mut(fd / 8) {
                    *byte |= bit;
                }
                n += 1;
            }
        }
    }
    for (set, address) in sets.iter().zip(addresses) {
        if address != 0 {
            UserSlice::new(address, bytes).write(set)?;
        }
    }
    Ok(n)
}

pub fn sys_select(count: i32, read: usize, write: usize, except: usize, timeout: usize) -> Result<usize> {
    let deadline = deadline(timeout, 1000)?;
    end(select(count, [read, write, except], deadline), timeout, deadline, 1000)
}

pub fn sys_pselect6(
    count: i32,
    read: usize,
    write: usize,
    except: usize,
    timeout: usize,
    mask: usize,
) -> Result<usize> {
    let deadline = deadline(timeout, 1)?;
    if mask != 0 {
        // The last argument is a pair: address of the mask and its size.
        let [address, size] = UserPtr::<[usize; 2]>::new(mask).read()?;
        temporary_mask(address, size)?;
    }
    end(select(count, [read, write, except], deadline), timeout, deadline, 1)
}

/// `struct epoll_event` has no padding on x86-64: events, then data.
const EVENT_SIZE: usize = 12;

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
    let (holder, target) = (file(epoll)?, file(fd)?);
    if !target.can_be_watched() {
        return Err(EPERM);
    }
    if Arc::ptr_eq(&holder, &target) {
        return Err(EINVAL);
    }
    let epoll = holder.downcast::<Epoll>().ok_or(EINVAL)?;
    match operation {
        ADD => epoll.add(fd, target, event)?,
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
    let holder = file(epoll)?;
    let epoll = holder.downcast::<Epoll>().ok_or(EINVAL)?;
    // More than these are left for the next call.
    let mut events: Vec<Event> = Vec::new();
    events.try_resize(most.min(512), Event::default())?;
    let n = epoll.wait(&mut events, deadline)?;
    for (i, event) in events.iter().take(n).enumerate() {
        let at = UserSlice::new(address + i * EVENT_SIZE, EVENT_SIZE);
        at.take(4).write(&event.events.to_ne_bytes())?;
        at.skip(4).write(&event.data.to_ne_bytes())?;
    }
    Ok(n)
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
    let deadline = deadline(timeout, 1)?;
    temporary_mask(mask, size)?;
    finish_epoll(epoll_wait(epoll, address, most, deadline))
}

/// epoll_wait is never restarted.
fn finish_epoll(result: Result<usize>) -> Result<usize> {
    if result != Err(EINTR) {
        caller::end_temporary_mask();
    }
    result
}
