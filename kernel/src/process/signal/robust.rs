//! The list of robust futexes of a dying thread (get_robust_list(2)).
//!
//! Everything is read from the program's memory and may be nonsense: a bad pointer ends the walk, and the walk is bounded.
#![forbid(unsafe_code)]

use super::super::Thread;
use crate::arch::user;
use crate::sched::{futex, give_way};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;

/// Entries looked at, as on Linux.
const LIMIT: usize = 2048;
/// Entries that are looked at before others may run.
const TURN: usize = 64;

fn read_word(address: usize) -> Option<usize> {
    let mut bytes = [0; 8];
    user::copy_from_user(&mut bytes, address).ok()?;
    Some(usize::from_ne_bytes(bytes))
}

/// Marks every futex that the thread holds as ownerless and wakes a waiter of each.
pub fn release(thread: &Thread) {
    let head = thread.robust_list.load(Ordering::Relaxed);
    if head != 0 {
        let _ = walk(head, thread.tid());
    }
}

fn walk(head: usize, tid: u32) -> Option<()> {
    let mut entry = read_word(head)?;
    let offset = read_word(head.checked_add(8)?)?;
    let pending = read_word(head.checked_add(16)?)? & !1;
    for n in 1..=LIMIT {
        if n.is_multiple_of(TURN) {
            // The end of a thread is not ended early.
            let _ = give_way();
        }
        if entry & !1 == head {
            break;
        }
        let next = read_word(entry & !1);
        if entry & !1 != pending {
            handle_owner_death((entry & !1).wrapping_add(offset), tid);
        }
        entry = next?;
    }
    if pending != 0 {
        handle_owner_death(pending.wrapping_add(offset), tid);
    }
    Some(())
}

/// The thread `tid` dies: if it holds the futex at `word`, says so there (FUTEX_OWNER_DIED) and wakes a waiter.
fn handle_owner_death(word: usize, tid: u32) {
    if word & 3 != 0 {
        return;
    }
    let Ok(mut value) = user::load_u32(word) else { return };
    while value & abi::FUTEX_TID_MASK == tid {
        let dead = value & abi::FUTEX_WAITERS | abi::FUTEX_OWNER_DIED;
        match user::compare_exchange_u32(word, value, dead) {
            Ok(seen) if seen == value => {
                if value & abi::FUTEX_WAITERS != 0 {
                    futex::wake_one_at(super::super::current().space(), word);
                }
                return;
            }
            Ok(seen) => value = seen,
            Err(_) => return,
        }
    }
}
