//! Segments of shared memory (shmget(2), shmctl(2)). A segment is an object of `vm`, which spaces map; who has it mapped is `attach`'s to know.
//!
//! A segment is in the table until it is removed: at once if nobody has it attached, else (`DEST`) when the last who has it attached lets it go. How many
//! have is one count under the segment's lock. Its pages are counted for the user who made it, and go with the last mapping.
//!
//! Lock order: the segment's lock is taken alone.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;
use core::sync::atomic::AtomicU64;

use sync::heap::Text;
use sync::rcu::RcuHead;
use sync::{GlobalQuota, SpinLock, lock_class, per_cpu, slab_arc};
use vm::addr::{PAGE_SHIFT, PAGE_SIZE};
use vm::{Object, ObjectOwner, ObjectRef};

use super::ids::{self, Found, Table};
use super::perm::{self, NewOwner, Perm, Shown};
use super::{limits, now};
use crate::account::{self, Charge, Kind};
use crate::arch;
use crate::errno::{EIDRM, EINVAL, ENOMEM, ENOSPC, EPERM, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::mapped;
use crate::fs::vfs::numbers;
use crate::lock_order as level;
use crate::memory::commit;

lock_class! { static SEGMENT: LockClass = ("shared memory segment", level::IpcObject); }

per_cpu! {
    static SPARES: AtomicU64 = AtomicU64::new(0);
    static CURSORS: AtomicU64 = AtomicU64::new(0);
    static PAGE_SPARES: AtomicU64 = AtomicU64::new(0);
}

pub static TABLE: Table<Segment> = Table::new(&SPARES, &CURSORS);
/// Pages of all segments in the table.
static PAGES: GlobalQuota = GlobalQuota::new(&PAGE_SPARES);

/// Flags of a mode: it goes when nobody has it attached any more; its pages are locked.
pub const DEST: u32 = 0o1000;
pub const LOCKED: u32 = 0o2000;

/// The flag of shmget that asks for no reservation.
pub const NORESERVE: u32 = 0o10000;

/// A segment.
pub struct Segment {
    perm: Perm,
    /// Bytes.
    pub size: u64,
    object: ObjectOwner,
    made_by: u32,
    /// The thread that made it, and when, ns.
    maker: (u32, u64),
    state: SpinLock<State, level::IpcObject>,
    /// What counts it for its maker.
    _charge: Charge,
    rcu: RcuHead,
}

vm::slab_type!(Segment, "shm-segment", Arc);
sync::rcu_object!(Segment);

impl ids::Object for Segment {
    fn perm(&self) -> &Perm {
        &self.perm
    }
}

struct State {
    /// Mappings of it: a part that was cut off counts for itself.
    attached: u64,
    attach_time: i64,
    detach_time: i64,
    change_time: i64,
    last_pid: u32,
    /// It is in the table no more.
    removed: bool,
    /// For whom its pages count as locked.
    locked: Option<Charge>,
    /// Its pages, while it is in the table.
    counted: Option<Counted>,
}

/// Pages that are counted in `PAGES`.
struct Counted(u64);

impl Counted {
    fn try_new(pages: u64) -> Result<Counted> {
        if PAGES.charge(pages, limits::SHMALL.get()) { Ok(Counted(pages)) } else { Err(ENOSPC) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        PAGES.give_back(self.0);
    }
}

/// What IPC_STAT shows.
pub struct Status {
    pub perm: Shown,
    pub size: u64,
    pub attach_time: i64,
    pub detach_time: i64,
    pub change_time: i64,
    pub made_by: u32,
    pub last_pid: u32,
    pub attached: u64,
    pub resident_pages: u64,
}

/// Pages of `size` bytes.
fn pages(size: u64) -> u64 {
    size.div_ceil(PAGE_SIZE as u64)
}

/// shmget(2): the number of the segment with that key, or of a new one.
///
/// # Errors
/// Linux's.
pub fn get(key: i32, size: u64, flags: u32, reserves: bool) -> Result<i32> {
    let make = |id| Segment::try_new(id, key, size, flags, reserves);
    match TABLE.get(key, flags, limits::SHMMNI.get(), &make)? {
        Found::New(id) => Ok(id),
        Found::Old(segment) if segment.size < size => Err(EINVAL),
        Found::Old(segment) => segment.perm.check(flags).map(|()| segment.perm.id),
    }
}

/// Is `size` one that a new segment may have?
///
/// # Errors
/// EINVAL. ENOSPC: more pages than there may be.
pub fn check_size(size: u64) -> Result {
    if size < 1 || size > limits::SHMMAX.get() {
        return Err(EINVAL);
    }
    if pages(size) > limits::SHMALL.get() { Err(ENOSPC) } else { Ok(()) }
}

impl Segment {
    fn try_new(id: i32, key: i32, size: u64, flags: u32, reserves: bool) -> Result<Arc<Segment>> {
        check_size(size)?;
        if reserves {
            commit::check(usize::try_from(size).unwrap_or(usize::MAX))?;
        }
        let counted = Counted::try_new(pages(size))?;
        let current = caller::current();
        let (charge, budget) = account::memory_file(caller::uid())?;
        let object = Object::try_owned_in(numbers::next() as usize, Some(budget))?;
        object.set_size(size)?;
        let shown = object.share();
        let segment = slab_arc(Segment {
            perm: Perm::new(id, key, flags),
            size,
            object,
            made_by: caller::pid(),
            maker: (current.tid(), arch::time::now()),
            state: SpinLock::new(
                State {
                    attached: 0,
                    attach_time: 0,
                    detach_time: 0,
                    change_time: now(),
                    last_pid: 0,
                    removed: false,
                    locked: None,
                    counted: Some(counted),
                },
                &SEGMENT,
            ),
            _charge: charge,
            rcu: RcuHead::new(),
        })?;
        let mut name = Vec::new();
        write!(Text(&mut name), "/SYSV{key:08x} (deleted)").map_err(|_| ENOMEM)?;
        let weak: Weak<Segment> = Arc::downgrade(&segment);
        let owner: Weak<dyn Any + Send + Sync> = weak;
        mapped::enter_segment(&shown, id.cast_unsigned().into(), name, owner)?;
        Ok(segment)
    }

    /// The segment whose memory `object` is.
    pub fn of(object: &Object) -> Option<Arc<Segment>> {
        mapped::find(object)?.owner()?.downcast().ok()
    }

    pub fn object(&self) -> ObjectRef {
        self.object.share()
    }

    /// One more has it attached, if `asked` (the bits of a mode) allows it.
    ///
    /// # Errors
    /// EACCES. EIDRM.
    pub fn begin(&self, asked: u32) -> Result {
        self.perm.check(asked)?;
        let mut state = self.state.lock();
        if state.removed {
            return Err(EIDRM);
        }
        state.attached = state.attached.saturating_add(1);
        Ok(())
    }

    /// The mapping that `begin` announced is there, or is not: it is not counted twice.
    pub fn finish(self: &Arc<Self>, mapped: bool) {
        if mapped {
            let mut state = self.state.lock();
            (state.attach_time, state.last_pid) = (now(), caller::pid());
        } else {
            self.change(0, 1, false, false);
        }
    }

    /// Mappings came and went. `came`, `went`: that is told. The last one may remove it.
    pub fn change(&self, more: u64, fewer: u64, came: bool, went: bool) {
        let ends = {
            let mut state = self.state.lock();
            state.attached = state.attached.saturating_add(more).saturating_sub(fewer);
            if came || went {
                state.last_pid = caller::pid();
            }
            if came {
                state.attach_time = now();
            }
            if went {
                state.detach_time = now();
            }
            let goes = limits::rmid_forced() || self.perm.has_flag(DEST);
            state.attached == 0 && fewer > 0 && goes && !core::mem::replace(&mut state.removed, true)
        };
        if ends {
            self.leave_table();
        }
    }

    /// The one who has said that it is removed calls this.
    fn leave_table(&self) {
        let (locked, counted) = {
            let mut state = self.state.lock();
            (state.locked.take(), state.counted.take())
        };
        drop((locked, counted));
        TABLE.remove(self);
    }

    fn status(&self) -> Result<Status> {
        let state = self.state.lock();
        if state.removed {
            return Err(EIDRM);
        }
        Ok(Status {
            perm: self.perm.shown(),
            size: self.size,
            attach_time: state.attach_time,
            detach_time: state.detach_time,
            change_time: state.change_time,
            made_by: self.made_by,
            last_pid: state.last_pid,
            attached: state.attached,
            resident_pages: self.object.resident_pages(),
        })
    }
}

/// IPC_STAT; `at`: of the place of that number (SHM_STAT), by anybody if `any`.
///
/// # Errors
/// EINVAL, EACCES, EIDRM.
pub fn status(id: i32, at: bool, any: bool) -> Result<Status> {
    let segment = if at { TABLE.find_at(id) } else { TABLE.find(id) }?;
    if !any {
        segment.perm.check(perm::READ)?;
    }
    segment.status()
}

/// IPC_SET.
///
/// # Errors
/// EINVAL, EPERM, EIDRM.
pub fn set(id: i32, to: &NewOwner) -> Result {
    let segment = TABLE.find(id)?;
    segment.perm.check_owner()?;
    let mut state = segment.state.lock();
    if state.removed {
        return Err(EIDRM);
    }
    segment.perm.set(to)?;
    state.change_time = now();
    Ok(())
}

/// IPC_RMID.
///
/// # Errors
/// EINVAL, EPERM.
pub fn remove(id: i32) -> Result {
    let segment = TABLE.find(id)?;
    segment.perm.check_owner()?;
    let ends = {
        let mut state = segment.state.lock();
        if state.removed {
            return Err(EINVAL);
        }
        if state.attached == 0 {
            state.removed = true;
        } else {
            segment.perm.set_flag(DEST, true);
        }
        state.removed
    };
    if ends {
        segment.leave_table();
    } else {
        TABLE.forget_key(&segment);
    }
    Ok(())
}

/// SHM_LOCK and SHM_UNLOCK. Nothing is written out of memory, so this only counts.
///
/// # Errors
/// EINVAL, EIDRM, EPERM. ENOMEM: more than RLIMIT_MEMLOCK allows.
pub fn set_lock(id: i32, on: bool, most: Option<u64>) -> Result {
    let segment = TABLE.find(id)?;
    let current = caller::current();
    let free = current.capable(Capability::IPC_LOCK);
    if !free && (!segment.perm.is_owner(current.ids().euid) || on && most == Some(0)) {
        return Err(if segment.state.lock().removed { EIDRM } else { EPERM });
    }
    let limit = if free { None } else { most.map(|bytes| bytes >> PAGE_SHIFT) };
    let limit = limit.unwrap_or(sync::quota::UNLIMITED);
    // Counted before it is known whether it is needed, with no lock held.
    let charge = match on && !segment.perm.has_flag(LOCKED) {
        true => Some(
            Charge::try_new(caller::uid(), Kind::LockedSegments, pages(segment.size), limit)
                .map_err(|_| ENOMEM)?,
        ),
        false => None,
    };
    let mut state = segment.state.lock();
    if state.removed {
        return Err(EIDRM);
    }
    let before = match (on, state.locked.is_some()) {
        (true, false) => core::mem::replace(&mut state.locked, charge),
        (false, _) => state.locked.take(),
        (true, true) => charge,
    };
    let is_locked = state.locked.is_some();
    segment.perm.set_flag(LOCKED, is_locked);
    drop(state);
    drop(before);
    Ok(())
}

/// Segments, pages of all, and how many of these are in memory (SHM_INFO).
pub fn sums() -> (u64, u64, u64) {
    let mut resident = 0u64;
    let _ = TABLE.for_each(|segment| {
        resident = resident.saturating_add(segment.object.resident_pages());
        Ok(())
    });
    (TABLE.used(), PAGES.used(), resident)
}

/// Shows `f` all segments.
///
/// # Errors
/// Those of `f`.
pub fn for_each(mut f: impl FnMut(&Status) -> Result) -> Result {
    TABLE.for_each(|segment| segment.status().map_or(Ok(()), |status| f(&status)))
}

/// A thread ends: where kernel.shm_rmid_forced is set, what it has made and nobody has attached goes.
pub fn maker_ends(tid: u32) {
    if limits::rmid_forced() {
        remove_idle(&|maker, _| maker == tid);
    }
}

/// Removes segments that nobody has attached and whose maker is `theirs`.
pub fn remove_idle(theirs: &dyn Fn(u32, u64) -> bool) {
    let _ = TABLE.for_each(|segment| {
        let ends = theirs(segment.maker.0, segment.maker.1) && {
            let mut state = segment.state.lock();
            state.attached == 0 && !core::mem::replace(&mut state.removed, true)
        };
        if ends {
            segment.leave_table();
        }
        Ok(())
    });
}
