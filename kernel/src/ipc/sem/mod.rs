//! Sets of semaphores (semget(2), semctl(2)).
//!
//! * `values`   what the semaphores hold, and operations on them
//! * `waiting`  who waits: the lines, and who goes on after a change
//! * `undo`     what is taken back when those who did it are gone
//!
//! A set has one lock. Operations of a call are done all at once or not at all; one that has to wait stands in line, and whoever makes it possible does it in its
//! place, so those who wait go on in their order and none is overtaken.
//!
//! Lock order: the set's lock is taken alone; who is to be woken is woken when it has been given back.
#![deny(unsafe_code)]

pub mod undo;
mod values;
mod waiting;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use sync::rcu::RcuHead;
use sync::{GlobalQuota, SpinGuard, SpinLock, TryVec, lock_class, per_cpu, slab_arc, try_vec};

use self::values::Values;
use self::waiting::{Lines, Touched};
use super::ids::{self, Found, Table};
use super::perm::{self, NewOwner, Perm, Shown};
use super::{limits, now};
use crate::account::{Charge, Kind};
use crate::errno::{EFBIG, EIDRM, EINVAL, ENOMEM, ENOSPC, ERANGE, Result};
use crate::fs::caller;
use crate::lock_order as level;
use crate::sched::Deadline;

pub use self::values::Operation;

lock_class! { static SET: LockClass = ("semaphores", level::IpcObject); }

per_cpu! {
    static SPARES: AtomicU64 = AtomicU64::new(0);
    static CURSORS: AtomicU64 = AtomicU64::new(0);
    static SEM_SPARES: AtomicU64 = AtomicU64::new(0);
}

pub static TABLE: Table<Set> = Table::new(&SPARES, &CURSORS);
/// Semaphores of all sets.
static SEMAPHORES: GlobalQuota = GlobalQuota::new(&SEM_SPARES);

/// The largest value of a semaphore, and of what is to be undone of one.
pub const MOST: i32 = 32_767;

/// A set.
pub struct Set {
    perm: Perm,
    /// How many semaphores it has.
    pub count: usize,
    state: SpinLock<State, level::IpcObject>,
    _charge: Charge,
    rcu: RcuHead,
}

vm::slab_type!(Set, "semaphores", Arc);
sync::rcu_object!(Set);

impl ids::Object for Set {
    fn perm(&self) -> &Perm {
        &self.perm
    }
}

struct State {
    values: Values,
    lines: Lines,
    change_time: i64,
    /// It is in the table no more.
    removed: bool,
    counted: Option<Counted>,
}

type Guard<'a> = SpinGuard<'a, State, level::IpcObject>;

/// Semaphores that are counted.
struct Counted(u64);

impl Counted {
    fn try_new(n: u64) -> Result<Counted> {
        if SEMAPHORES.charge(n, limits::semaphores_of_all()) { Ok(Counted(n)) } else { Err(ENOSPC) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        SEMAPHORES.give_back(self.0);
    }
}

/// What IPC_STAT shows.
pub struct Status {
    pub perm: Shown,
    pub operation_time: i64,
    pub change_time: i64,
    pub count: usize,
}

/// semget(2): the number of the set with that key, or of a new one of `count` semaphores.
///
/// # Errors
/// Linux's.
pub fn get(key: i32, count: i32, flags: u32) -> Result<i32> {
    let count = u64::try_from(count).ok().filter(|n| *n <= limits::semaphores_of_set()).ok_or(EINVAL)?;
    let make = |id| Set::try_new(id, key, count as usize, flags);
    match TABLE.get(key, flags, limits::sets(), &make)? {
        Found::New(id) => Ok(id),
        Found::Old(set) if (set.count as u64) < count => Err(EINVAL),
        Found::Old(set) => set.perm.check(flags).map(|()| set.perm.id),
    }
}

impl Set {
    fn try_new(id: i32, key: i32, count: usize, flags: u32) -> Result<Arc<Set>> {
        if count == 0 {
            return Err(EINVAL);
        }
        let counted = Counted::try_new(count as u64)?;
        let values = Values::try_new(count)?;
        let kib = 1u64.saturating_add((count as u64).saturating_mul(values::SIZE) / 1024);
        let charge = Charge::try_new(caller::uid(), Kind::Ipc, kib, sync::quota::UNLIMITED);
        let state = State {
            values,
            lines: Lines::try_new(count)?,
            change_time: now(),
            removed: false,
            counted: Some(counted),
        };
        Ok(slab_arc(Set {
            perm: Perm::new(id, key, flags),
            count,
            state: SpinLock::new(state, &SET),
            _charge: charge.map_err(|_| ENOMEM)?,
            rcu: RcuHead::new(),
        })?)
    }

    pub fn id(&self) -> i32 {
        self.perm.id
    }

    /// # Errors
    /// EIDRM: it was removed.
    fn lock(&self) -> Result<Guard<'_>> {
        let state = self.state.lock();
        if state.removed { Err(EIDRM) } else { Ok(state) }
    }

    fn status(&self) -> Result<Status> {
        let state = self.lock()?;
        Ok(Status {
            perm: self.perm.shown(),
            operation_time: state.values.operation_time,
            change_time: state.change_time,
            count: self.count,
        })
    }

    fn index(&self, number: i32) -> Result<usize> {
        usize::try_from(number).ok().filter(|n| *n < self.count).ok_or(EINVAL)
    }
}

/// semop(2), semtimedop(2). `undo` finds the caller's list of what is to be undone, which is asked for if an operation says so.
///
/// # Errors
/// Linux's.
pub fn operate(id: i32, operations: &[Operation], deadline: Option<Deadline>) -> Result {
    let set = TABLE.find(id)?;
    let undo = match operations.iter().any(|op| op.undoes()) {
        true => Some(undo::of_caller(&set)?),
        false => None,
    };
    if operations.iter().any(|op| usize::from(op.number) >= set.count) {
        return Err(EFBIG);
    }
    let alters = operations.iter().any(|op| op.change != 0);
    set.perm.check(if alters { perm::WRITE } else { perm::READ })?;
    waiting::operate(&set, operations, undo, deadline)
}

/// IPC_STAT; `at`: of the place of that number (SEM_STAT), by anybody if `any`.
///
/// # Errors
/// EINVAL, EACCES, EIDRM.
pub fn status(id: i32, at: bool, any: bool) -> Result<Status> {
    let set = if at { TABLE.find_at(id) } else { TABLE.find(id) }?;
    if !any {
        set.perm.check(perm::READ)?;
    }
    set.status()
}

/// IPC_SET.
///
/// # Errors
/// EINVAL, EPERM, EIDRM.
pub fn set(id: i32, to: &NewOwner) -> Result {
    let set = TABLE.find(id)?;
    set.perm.check_owner()?;
    let mut state = set.lock()?;
    set.perm.set(to)?;
    state.change_time = now();
    Ok(())
}

/// IPC_RMID. Who waits goes on with EIDRM.
///
/// # Errors
/// EINVAL, EPERM.
pub fn remove(id: i32) -> Result {
    let set = TABLE.find(id)?;
    set.perm.check_owner()?;
    let counted = {
        let mut state = set.lock().map_err(|_| EINVAL)?;
        state.removed = true;
        state.counted.take()
    };
    drop(counted);
    TABLE.remove(&set);
    waiting::end(&set);
    Ok(())
}

/// What semctl asks of one semaphore.
#[derive(Clone, Copy)]
pub enum Asked {
    Value,
    Pid,
    /// Who waits for more, or for zero.
    Waiting,
    WaitingForZero,
}

/// GETVAL and its like.
///
/// # Errors
/// EINVAL, EACCES, EIDRM.
pub fn ask(id: i32, number: i32, asked: Asked) -> Result<usize> {
    let set = TABLE.find(id)?;
    set.perm.check(perm::READ)?;
    let index = set.index(number)?;
    let state = set.lock()?;
    Ok(match asked {
        Asked::Value => state.values.value(index).cast_unsigned() as usize,
        Asked::Pid => state.values.pid(index) as usize,
        Asked::Waiting => state.lines.waiting(index, false) as usize,
        Asked::WaitingForZero => state.lines.waiting(index, true) as usize,
    })
}

/// SETVAL.
///
/// # Errors
/// ERANGE, EINVAL, EACCES, EIDRM.
pub fn set_value(id: i32, number: i32, to: i32) -> Result {
    if !(0..=MOST).contains(&to) {
        return Err(ERANGE);
    }
    let set = TABLE.find(id)?;
    let index = set.index(number)?;
    set.perm.check(perm::WRITE)?;
    let mut state = set.lock()?;
    state.values.set(index, to, caller::pid());
    state.change_time = now();
    waiting::settle(&set, state, Touched::One(index));
    Ok(())
}

/// GETALL.
///
/// # Errors
/// EINVAL, EACCES, EIDRM, ENOMEM.
pub fn values(id: i32) -> Result<Vec<u16>> {
    let set = TABLE.find(id)?;
    set.perm.check(perm::READ)?;
    let mut all = try_vec(set.count)?;
    let state = set.lock()?;
    all.try_extend((0..set.count).map(|index| state.values.value(index) as u16))?;
    Ok(all)
}

/// SETALL, from what `read` gives for so many semaphores.
///
/// # Errors
/// EINVAL, EACCES, ERANGE, EIDRM; those of `read`.
pub fn set_values(id: i32, read: impl FnOnce(usize) -> Result<Vec<u16>>) -> Result {
    let set = TABLE.find(id)?;
    set.perm.check(perm::WRITE)?;
    let to = read(set.count)?;
    if to.iter().any(|value| i32::from(*value) > MOST) {
        return Err(ERANGE);
    }
    let mut state = set.lock()?;
    state.values.set_all(&to, caller::pid());
    state.change_time = now();
    waiting::settle(&set, state, Touched::All);
    Ok(())
}

/// Sets, and semaphores of all sets (SEM_INFO).
pub fn sums() -> (u64, u64) {
    (TABLE.used(), SEMAPHORES.used())
}

/// Shows `f` all sets.
///
/// # Errors
/// Those of `f`.
pub fn for_each(mut f: impl FnMut(&Status) -> Result) -> Result {
    TABLE.for_each(|set| set.status().map_or(Ok(()), |status| f(&status)))
}
