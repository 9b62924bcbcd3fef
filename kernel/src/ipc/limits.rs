//! The limits that /proc/sys/kernel sets, with Linux's defaults.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use super::{msg, sem, shm};
use crate::account::limits::Setting;
use crate::errno::{EINVAL, Result};

/// Bytes of a segment.
pub static SHMMAX: Setting = Setting::new(u64::MAX - (1 << 24));
/// Pages of all segments.
pub static SHMALL: Setting = Setting::new(u64::MAX - (1 << 24));
/// Segments.
pub static SHMMNI: Setting = Setting::new(4096);
/// Semaphores of a set; of all sets; operations of a call; sets. As Linux any numbers, but for the last.
static SEM: [AtomicI32; 4] =
    [AtomicI32::new(32_000), AtomicI32::new(1_024_000_000), AtomicI32::new(500), AtomicI32::new(32_000)];
/// Bytes of a message; of a new queue; queues.
pub static MSGMAX: Setting = Setting::new(8192);
pub static MSGMNB: Setting = Setting::new(16_384);
pub static MSGMNI: Setting = Setting::new(32_000);

/// kernel.sem: the four.
pub fn semaphores() -> [i32; 4] {
    core::array::from_fn(|n| SEM.get(n).map_or(0, |limit| limit.load(Relaxed)))
}

pub fn set_semaphores(to: [i32; 4]) {
    for (limit, n) in SEM.iter().zip(to) {
        limit.store(n, Relaxed);
    }
}

fn at_least_none(n: i32) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// What a call does at most under a set's lock, whatever kernel.sem says: semaphores have numbers of 16 bits.
const MOST_AT_ONCE: u64 = 1 << 16;

/// Semaphores of a set.
pub fn semaphores_of_set() -> u64 {
    at_least_none(semaphores()[0]).min(MOST_AT_ONCE)
}

/// Semaphores of all sets.
pub fn semaphores_of_all() -> u64 {
    at_least_none(semaphores()[1])
}

/// Operations of a call. Linux compares it as a number without a sign.
pub fn operations() -> u64 {
    u64::from(semaphores()[2].cast_unsigned()).min(MOST_AT_ONCE)
}

/// Sets.
pub fn sets() -> u64 {
    at_least_none(semaphores()[3])
}

/// Objects of a kind, at the most (the places of a table).
pub const MOST: u64 = super::ids::PLACES as u64;

static RMID_FORCED: AtomicBool = AtomicBool::new(false);

/// kernel.shm_rmid_forced: a segment goes when nobody has it attached and its maker is gone.
pub fn rmid_forced() -> bool {
    RMID_FORCED.load(Relaxed)
}

/// Sets it, and removes what is to go then. `is_there`: has the thread with that number, which made a segment at that time, not ended yet?
pub fn set_rmid_forced(on: bool, is_there: &dyn Fn(u32, u64) -> bool) {
    RMID_FORCED.store(on, Relaxed);
    if on {
        shm::remove_idle(&|maker, made| !is_there(maker, made));
    }
}

/// The number that the next object of a kind is to have; -1: any.
pub fn next_ids() -> [i32; 3] {
    [&shm::TABLE.next_id, &sem::TABLE.next_id, &msg::TABLE.next_id].map(|id| id.load(Relaxed))
}

/// Sets one of them.
///
/// # Errors
/// EINVAL: negative.
pub fn set_next_id(kind: usize, to: i32) -> Result {
    if to < 0 {
        return Err(EINVAL);
    }
    match kind {
        0 => &shm::TABLE.next_id,
        1 => &sem::TABLE.next_id,
        _ => &msg::TABLE.next_id,
    }
    .store(to, Relaxed);
    Ok(())
}
