//! semget(2), semop(2), semtimedop(2), semctl(2).
#![forbid(unsafe_code)]

use super::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT, Perm, answer, int};
use crate::errno::{E2BIG, EINVAL, Result};
use crate::ipc::limits;
use crate::ipc::sem::{self, Asked, Operation};
use crate::memory::user::{UserPtr, UserSlice};
use crate::sched::TimeClock;
use crate::syscall::time::{Timespec, sleep_on_clock};
use sync::TryVec;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use alloc::vec::Vec;

const GETPID: i32 = 11;
const GETVAL: i32 = 12;
const GETALL: i32 = 13;
const GETNCNT: i32 = 14;
const GETZCNT: i32 = 15;
const SETVAL: i32 = 16;
const SETALL: i32 = 17;
const SEM_STAT: i32 = 18;
const SEM_INFO: i32 = 19;
const SEM_STAT_ANY: i32 = 20;

/// Operations that are read without memory of their own.
const FEW: usize = 64;

/// struct semid64_ds.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Set {
    perm: Perm,
    operation_time: i64,
    unused_1: u64,
    change_time: i64,
    unused_2: u64,
    count: u64,
    unused_3: [u64; 2],
}

/// struct seminfo.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Info {
    map: i32,
    sets: i32,
    semaphores: i32,
    undo: i32,
    of_set: i32,
    of_call: i32,
    undo_of_process: i32,
    size: i32,
    most: i32,
    most_undone: i32,
}

const _: () = assert!(size_of::<Set>() == 104 && size_of::<Info>() == 40);

/// semget(2).
pub fn sys_semget(key: i32, count: i32, flags: u32) -> Result<usize> {
    sem::get(key, count, flags).map(|id| id.cast_unsigned() as usize)
}

/// semop(2).
pub fn sys_semop(id: i32, operations: usize, count: u32) -> Result<usize> {
    operate(id, operations, count, None)
}

/// semtimedop(2).
pub fn sys_semtimedop(id: i32, operations: usize, count: u32, timeout: usize) -> Result<usize> {
    let timeout = match UserPtr::<Timespec>::new(timeout).non_null() {
        Some(timeout) => Some(timeout.read()?),
        None => None,
    };
    operate(id, operations, count, timeout)
}

fn operate(id: i32, operations: usize, count: u32, timeout: Option<Timespec>) -> Result<usize> {
    let count = count as usize;
    if count as u64 > limits::operations() {
        return Err(E2BIG);
    }
    let (mut few, mut many) = ([Operation::default(); FEW], Vec::new());
    let asked = match few.get_mut(..count) {
        Some(few) => few,
        None => {
            many.try_resize(count, Operation::default())?;
            many.as_mut_slice()
        }
    };
    UserSlice::new(operations, size_of_val(asked)).read(asked.as_mut_bytes())?;
    if count == 0 || id < 0 {
        return Err(EINVAL);
    }
    let deadline = match timeout {
        Some(timeout) => Some(sleep_on_clock(TimeClock::Monotonic, timeout.to_ns()?, true)),
        None => None,
    };
    sem::operate(id, asked, deadline).map(|()| 0)
}

/// semctl(2).
pub fn sys_semctl(id: i32, number: i32, command: i32, argument: usize) -> Result<usize> {
    if id < 0 {
        return Err(EINVAL);
    }
    match command {
        IPC_INFO | SEM_INFO => {
            UserPtr::new(argument).write(&info(command == SEM_INFO))?;
            Ok(sem::TABLE.highest() as usize)
        }
        IPC_STAT | SEM_STAT | SEM_STAT_ANY => {
            let at = command != IPC_STAT;
            let status = sem::status(id, at, command == SEM_STAT_ANY)?;
            let set = Set {
                perm: status.perm.into(),
                operation_time: status.operation_time,
                change_time: status.change_time,
                count: status.count as u64,
                ..Set::default()
            };
            UserPtr::new(argument).write(&set)?;
            Ok(answer(at, status.perm))
        }
        GETVAL => sem::ask(id, number, Asked::Value),
        GETPID => sem::ask(id, number, Asked::Pid),
        GETNCNT => sem::ask(id, number, Asked::Waiting),
        GETZCNT => sem::ask(id, number, Asked::WaitingForZero),
        GETALL => {
            let all = sem::values(id)?;
            UserSlice::new(argument, all.as_bytes().len()).write(all.as_bytes())?;
            Ok(0)
        }
        SETALL => {
            let read = |count: usize| {
                let mut all = Vec::new();
                all.try_resize(count, 0u16)?;
                UserSlice::new(argument, count.saturating_mul(2)).read(all.as_mut_bytes())?;
                Ok(all)
            };
            sem::set_values(id, read).map(|()| 0)
        }
        SETVAL => sem::set_value(id, number, argument as i32).map(|()| 0),
        IPC_SET => {
            let to = UserPtr::<Set>::new(argument).read()?;
            sem::set(id, &to.perm.new_owner()).map(|()| 0)
        }
        IPC_RMID => sem::remove(id).map(|()| 0),
        _ => Err(EINVAL),
    }
}

/// The limits, or with `used` how much there is in some places.
fn info(used: bool) -> Info {
    let (sets, semaphores) = sem::sums();
    let [of_set, of_all, of_call, most_sets] = limits::semaphores();
    // What Linux calls its table, undo structures and their sizes are constants of old, made of the defaults.
    let all = 32_000 * 32_000;
    Info {
        map: all,
        sets: most_sets,
        semaphores: of_all,
        undo: all,
        of_set,
        of_call,
        undo_of_process: 500,
        size: if used { int(sets) } else { 20 },
        most: sem::MOST,
        most_undone: if used { int(semaphores) } else { sem::MOST },
    }
}
