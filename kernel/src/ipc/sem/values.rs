//! What the semaphores of a set hold, and operations on them. All of it is under the set's lock.
//!
//! What is to be undone of a semaphore is forgotten when SETVAL or SETALL sets it, by all who did something: a clock of the set says for each semaphore when
//! that was, and what is to be undone has the time at which it was noted. So no list of those has to be walked.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use sync::heap::try_box_slice;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::MOST;
use super::undo::Undo;
use crate::errno::{EAGAIN, ERANGE, Errno, Result};
use crate::ipc::{NO_WAIT, now};

/// The flag of an operation that is undone when its process ends.
const UNDO: u16 = 0x1000;

/// One operation of a call (struct sembuf).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Operation {
    pub number: u16,
    pub change: i16,
    pub flags: u16,
}

impl Operation {
    pub fn undoes(&self) -> bool {
        self.flags & UNDO != 0
    }

    fn waits(&self) -> bool {
        u32::from(self.flags) & NO_WAIT == 0
    }
}

#[derive(Clone, Copy)]
struct Semaphore {
    value: i32,
    /// Who changed it last.
    pid: u32,
    /// The clock when it was set.
    set_at: u64,
}

/// Bytes that a semaphore takes, lines included.
pub const SIZE: u64 = 64;

pub struct Values {
    all: Box<[Semaphore]>,
    pub operation_time: i64,
    clock: u64,
}

/// What became of operations.
pub enum Outcome {
    Done,
    /// The one with that index has to wait.
    Waits(usize),
    Failed(Errno),
}

/// Most bits of the clock beside a number of 16 bits.
const CLOCK: u32 = 16;

impl Values {
    pub fn try_new(count: usize) -> Result<Values> {
        let all = try_box_slice(count, |_| Semaphore { value: 0, pid: 0, set_at: 0 })?;
        Ok(Values { all, operation_time: 0, clock: 0 })
    }

    pub fn value(&self, index: usize) -> i32 {
        self.all.get(index).map_or(0, |semaphore| semaphore.value)
    }

    pub fn pid(&self, index: usize) -> u32 {
        self.all.get(index).map_or(0, |semaphore| semaphore.pid)
    }

    /// SETVAL.
    pub fn set(&mut self, index: usize, to: i32, pid: u32) {
        self.clock = self.clock.wrapping_add(1);
        if let Some(semaphore) = self.all.get_mut(index) {
            *semaphore = Semaphore { value: to, pid, set_at: self.clock };
        }
    }

    /// SETALL.
    pub fn set_all(&mut self, to: &[u16], pid: u32) {
        self.clock = self.clock.wrapping_add(1);
        for (semaphore, value) in self.all.iter_mut().zip(to) {
            *semaphore = Semaphore { value: i32::from(*value), pid, set_at: self.clock };
        }
    }

    /// What is to be added to the semaphore by `undo`.
    fn to_undo(&self, undo: &Undo, index: usize) -> i32 {
        let (Some(semaphore), Some(noted)) = (self.all.get(index), undo.noted.get(index)) else { return 0 };
        let noted = noted.load(Relaxed);
        if noted >> CLOCK < semaphore.set_at { 0 } else { i32::from(noted as u16 as i16) }
    }

    fn note(&self, undo: &Undo, index: usize, sum: i32) {
        if let Some(noted) = undo.noted.get(index) {
            noted.store(self.clock << CLOCK | u64::from(sum as i16 as u16), Relaxed);
        }
    }

    /// Does all of `operations`, or nothing.
    pub fn operate(&mut self, operations: &[Operation], undo: Option<&Undo>, pid: u32) -> Outcome {
        for (n, op) in operations.iter().enumerate() {
            let failed = match self.begin(op, undo) {
                Ok(true) => continue,
                Ok(false) if op.waits() => Outcome::Waits(n),
                Ok(false) => Outcome::Failed(EAGAIN),
                Err(errno) => Outcome::Failed(errno),
            };
            for op in operations.iter().take(n).rev() {
                self.take_back(op, undo);
            }
            return failed;
        }
        for op in operations {
            if let Some(semaphore) = self.all.get_mut(usize::from(op.number)) {
                semaphore.pid = pid;
            }
        }
        self.operation_time = now();
        Outcome::Done
    }

    /// Does one. False: it has to wait.
    fn begin(&mut self, op: &Operation, undo: Option<&Undo>) -> Result<bool> {
        let (index, change) = (usize::from(op.number), i32::from(op.change));
        let value = self.value(index);
        let sum = value.saturating_add(change);
        if sum < 0 || change == 0 && value != 0 {
            return Ok(false);
        }
        if sum > MOST {
            return Err(ERANGE);
        }
        if let (Some(undo), true) = (undo, op.undoes()) {
            let back = self.to_undo(undo, index).saturating_sub(change);
            if !(-MOST - 1..=MOST).contains(&back) {
                return Err(ERANGE);
            }
            self.note(undo, index, back);
        }
        self.put(index, sum);
        Ok(true)
    }

    fn take_back(&mut self, op: &Operation, undo: Option<&Undo>) {
        let (index, change) = (usize::from(op.number), i32::from(op.change));
        self.put(index, self.value(index).saturating_sub(change));
        if let (Some(undo), true) = (undo, op.undoes()) {
            self.note(undo, index, self.to_undo(undo, index).saturating_add(change));
        }
    }

    fn put(&mut self, index: usize, value: i32) {
        if let Some(semaphore) = self.all.get_mut(index) {
            semaphore.value = value;
        }
    }

    /// Takes back what `undo` has noted, within what a semaphore can hold. Says whether there was anything.
    pub fn undo(&mut self, undo: &Undo, pid: u32) -> bool {
        let mut any = false;
        for index in 0..self.all.len() {
            let back = self.to_undo(undo, index);
            if back != 0 {
                any = true;
                let to = self.value(index).saturating_add(back).clamp(0, MOST);
                if let Some(semaphore) = self.all.get_mut(index) {
                    (semaphore.value, semaphore.pid) = (to, pid);
                }
            }
        }
        if any {
            self.operation_time = now();
        }
        any
    }
}
