//! kcmp(2).
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::memory::user::UserPtr;
use crate::process::compare::{self, Kind};
use core::cmp::Ordering;

/// KCMP_EPOLL_TFD.
const WATCHED: i32 = 7;

/// kcmp(2): 0 if both have the same, else 1 or 2 by an order that says nothing.
pub fn sys_kcmp(tid: u32, other: u32, kind: i32, a: u32, b: usize) -> Result<usize> {
    let kind = match kind {
        0 => Kind::File(a, b as u32),
        1 => Kind::Memory,
        2 => Kind::Files,
        3 => Kind::Fs,
        4 => Kind::SignalActions,
        5 => Kind::IoContext,
        6 => Kind::SemaphoreUndo,
        WATCHED => {
            // Who they are comes before where the rest stands.
            compare::check(tid, other)?;
            let [epoll, watched, before] = UserPtr::<[u32; 3]>::new(b).read()?;
            return compare::compare_watched(tid, a, other, (epoll, watched, before)).map(number);
        }
        _ => return compare::check(tid, other).and(Err(Errno::EINVAL)),
    };
    compare::compare(tid, other, kind).map(number)
}

fn number(order: Ordering) -> usize {
    match order {
        Ordering::Equal => 0,
        Ordering::Less => 1,
        Ordering::Greater => 2,
    }
}
