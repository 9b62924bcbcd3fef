//! poll, select and epoll.
//!
//! A call about few descriptors, which most are, takes no memory from the heap.
#![forbid(unsafe_code)]
mod epoll;
mod select;

pub use epoll::{sys_epoll_ctl, sys_epoll_pwait, sys_epoll_pwait2, sys_epoll_wait};
pub use select::{sys_pselect6, sys_select};

use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::{self, offset_of};

use sync::TryVec;
use sync::rcu::Lent;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::arch;
use crate::errno::*;
use crate::fs::file::poll::{ERR, HUP, NVAL, Poller};
use crate::fs::{File, FileTable, caller};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process;
use crate::process::personality::STICKY_TIMEOUTS;
use crate::sched::{Deadline, PollSet, Sleep, Woken, give_way, schedule_if_needed};

/// So many descriptors are few.
const FEW: usize = 8;
/// Descriptors that are looked at between two points at which the call gives way.
const PART: usize = 256;

/// One descriptor that is waited for, what for, and what came.
struct Entry {
    fd: i32,
    /// None: there is nothing to look at, and `result` stays as it is.
    file: Option<Lent<File>>,
    events: u32,
    result: Cell<u32>,
    /// The call keeps it open.
    kept: Cell<bool>,
}

impl Entry {
    const fn empty() -> Entry {
        Entry { fd: -1, file: None, events: 0, result: Cell::new(0), kept: Cell::new(false) }
    }
}

impl Entry {
    /// Does the descriptor mean another file by now, or none?
    fn is_changed(&self, files: &FileTable) -> bool {
        self.file.as_ref().is_some_and(|file| !files.is(self.fd, file))
    }
}

/// Calls `f` with room for `count` entries, on the stack if they are few.
fn with_entries<R>(count: usize, f: impl FnOnce(&mut [Entry]) -> Result<R>) -> Result<R> {
    match count {
        // One is asked for most often, and eight are made and dropped for many times its price.
        0..=1 => f([const { Entry::empty() }; 1].get_mut(..count).unwrap_or(&mut [])),
        2..=FEW => f([const { Entry::empty() }; FEW].get_mut(..count).unwrap_or(&mut [])),
        _ => {
            let mut many = Vec::new();
            many.try_reserve(count).map_err(|_| ENOMEM)?;
            for n in 0..count {
                if n.is_multiple_of(PART) && give_way() {
                    return Err(EINTR);
                }
                many.try_push(Entry::empty())?;
            }
            f(&mut many)
        }
    }
}

/// Waits until an entry has a result or the deadline is past (`Some(0)`: does not wait). Returns how many have.
fn wait(entries: &mut [Entry], deadline: Option<u64>) -> Result<usize> {
    // Most calls find something at once and join no queue.
    let n = look(entries, &mut Poller::Nobody)?;
    if n > 0 || deadline == Some(0) {
        return Ok(n);
    }
    let deadline = deadline.map(Deadline::of_poll);
    loop {
        let n = keep(entries).and_then(|()| sleep(entries, deadline));
        let_go(entries);
        match n? {
            Some(n) => return Ok(n),
            None => look_up(entries)?,
        }
    }
}

/// After a sleep: looks up the descriptors again. NVAL: it is closed.
fn look_up(entries: &mut [Entry]) -> Result {
    let files = caller::files();
    for part in entries.chunks_mut(PART) {
        for entry in part.iter_mut().filter(|entry| entry.is_changed(&files)) {
            entry.file = caller::file(entry.fd).ok();
            entry.result.set(if entry.file.is_none() { NVAL } else { 0 });
        }
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

/// A file that is closed while the call sleeps stays open for it. One that was closed before it could be kept is none: NVAL.
fn keep(entries: &mut [Entry]) -> Result {
    for part in entries.chunks_mut(PART) {
        for entry in part {
            let Some(file) = &entry.file else { continue };
            if let Ok(kept) = file.keep_open() {
                // `let_go` closes it.
                mem::forget(kept);
                entry.kept.set(true);
            } else {
                entry.file = None;
                entry.result.set(NVAL);
            }
        }
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

/// The end of `keep`. All are let go, whatever signal has come.
fn let_go(entries: &[Entry]) {
    for part in entries.chunks(PART) {
        let files =
            part.iter().filter(|entry| entry.kept.replace(false)).filter_map(|entry| entry.file.as_ref());
        files.for_each(|file| file.drop_open());
        schedule_if_needed();
    }
}

/// None: a descriptor means another file than before the sleep, or none.
fn sleep(entries: &[Entry], deadline: Option<Deadline>) -> Result<Option<usize>> {
    let files = caller::files();
    PollSet::with(|set| {
        loop {
            let n = look(entries, &mut Poller::Sleeper(set))?;
            if n > 0 {
                return Ok(Some(n));
            }
            set.complete()?;
            let woken = set.wait(Sleep::Interruptible, deadline);
            if woken == Err(Woken::Signal) {
                return Err(EINTR);
            }
            if any_changed(entries, &files)? {
                return Ok(None);
            }
            match woken {
                Ok(()) => set.clear(),
                Err(_) => return look(entries, &mut Poller::Nobody).map(Some),
            }
        }
    })
}

fn any_changed(entries: &[Entry], files: &FileTable) -> Result<bool> {
    for part in entries.chunks(PART) {
        if part.iter().any(|entry| entry.is_changed(files)) {
            return Ok(true);
        }
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(false)
}

/// How many entries have a result now. EINTR: the process is being killed.
#[expect(clippy::arithmetic_side_effects, reason = "counts of descriptors")]
fn look<'a>(entries: &'a [Entry], poller: &mut Poller<'_, 'a>) -> Result<usize> {
    let mut n = 0;
    for part in entries.chunks(PART) {
        for entry in part {
            if let Some(file) = &entry.file {
                entry.result.set(file.poll(poller) & entry.events);
            }
            n += usize::from(entry.result.get() != 0);
        }
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(n)
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
    // select takes any number of microseconds. Linux's sum wraps, and is then negative.
    let (seconds, part) = if unit == 1000 && part >= limit {
        (seconds.wrapping_add(part / limit), part % limit)
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

/// The deadline and the mask of a call that waits with both (ppoll, pselect6, epoll_pwait2).
fn deadline_and_mask(timeout: usize, mask: usize, size: usize) -> Result<Option<u64>> {
    let deadline = deadline(timeout, 1)?;
    temporary_mask(mask, size)?;
    Ok(deadline)
}

/// The end of ppoll, select and pselect6, which write back what was left of the timeout, but not one of no time. Where they do not, because it lies in
/// read-only memory or the program has STICKY_TIMEOUTS, a call that was interrupted is not restarted: it would wait for the whole time again.
#[expect(clippy::arithmetic_side_effects, reason = "the unit is 1 or 1,000")]
fn end(result: Result<usize>, timeout: usize, deadline: Option<u64>, unit: u64) -> Result<usize> {
    let result = end_mask(result);
    let (Some(p), Some(deadline)) = (UserPtr::<[i64; 2]>::new(timeout).non_null(), deadline) else {
        return result;
    };
    if deadline == 0 && result.is_ok() {
        return result;
    }
    let sticky = process::current().personality.get().has(STICKY_TIMEOUTS);
    let write_rest = || {
        let rest = deadline.saturating_sub(arch::time::now());
        let (seconds, nanos) = (rest / 1_000_000_000, rest % 1_000_000_000);
        p.write(&[seconds.cast_signed(), (nanos / unit).cast_signed()])
    };
    if sticky || (deadline != 0 && write_rest().is_err()) {
        return result.map_err(|e| if e == ERESTARTNOHAND { EINTR } else { e });
    }
    result
}

/// struct pollfd.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct PollFd {
    fd: i32,
    events: u16,
    came: u16,
}

fn poll(address: usize, count: u32, deadline: Option<u64>) -> Result<usize> {
    let count = count as usize;
    if count > caller::descriptor_limit() {
        return Err(EINVAL);
    }
    let mut few = [PollFd::default(); FEW];
    with_entries(count, |entries| match few.get_mut(..count) {
        Some(asked) => poll_these(address, asked, entries, deadline),
        None => {
            let mut many = Vec::new();
            many.try_resize(count, PollFd::default())?;
            poll_these(address, &mut many, entries, deadline)
        }
    })
}

/// `asked` and `entries` are as many as the program's descriptors at `address`.
#[expect(clippy::arithmetic_side_effects, reason = "in user memory that has been read")]
fn poll_these(
    address: usize,
    asked: &mut [PollFd],
    entries: &mut [Entry],
    deadline: Option<u64>,
) -> Result<usize> {
    let bytes = asked.as_mut_bytes();
    UserSlice::new(address, bytes.len()).read(bytes)?;
    for (n, (asked, entry)) in asked.iter().zip(&mut *entries).enumerate() {
        if n % PART == PART - 1 && give_way() {
            return Err(EINTR);
        }
        // A negative descriptor is left out.
        if asked.fd >= 0 {
            entry.fd = asked.fd;
            match caller::file(asked.fd) {
                Ok(file) => entry.file = Some(file),
                Err(_) => entry.result = Cell::new(NVAL),
            }
            entry.events = u32::from(asked.events) | ERR | HUP | NVAL;
        }
    }
    let n = wait(entries, deadline)?;
    for (n, entry) in entries.iter().enumerate() {
        if n % PART == PART - 1 && give_way() {
            return Err(EINTR);
        }
        // Only this field is written: another thread may be changing the others.
        let came = address + n * size_of::<PollFd>() + offset_of!(PollFd, came);
        UserPtr::new(came).write(&(entry.result.get() as u16))?;
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
    let deadline = deadline_and_mask(timeout, mask, size)?;
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
