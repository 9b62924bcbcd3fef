//! The list of robust futexes of a dying thread (get_robust_list(2)).
//!
//! Everything is read from the program's memory and may be nonsense: a bad pointer ends the walk, and the walk is bounded.
#![forbid(unsafe_code)]

use super::super::Thread;
use crate::arch::user;
use crate::sched::{futex, give_way};
use core::sync::atomic::Ordering;
use sync::protocol::pi::{self, Fault, Word as _};

/// Entries looked at, as on Linux.
const LIMIT: usize = 2048;
/// Entries that are looked at before others may run.
const TURN: usize = 64;

fn read_word(address: usize) -> Option<usize> {
    let mut bytes = [0; 8];
    user::copy_from_user(&mut bytes, address).ok()?;
    Some(usize::from_ne_bytes(bytes))
}

/// Marks every futex that the thread holds as ownerless, and wakes a waiter of each but of those that lend priority: who waits for one of these is told
/// when the thread leaves them (`futex::pi::end`).
pub fn release(thread: &Thread) {
    let head = thread.robust_list.load(Ordering::Relaxed);
    if head != 0 {
        let _ = walk(head, thread.tid());
    }
}

/// An entry of the list, as what points to it says: its address, and whether its futex lends priority.
#[derive(Clone, Copy)]
struct Entry {
    address: usize,
    lends: bool,
}

fn read_entry(address: usize) -> Option<Entry> {
    let word = read_word(address)?;
    Some(Entry { address: word & !1, lends: word & 1 != 0 })
}

fn walk(head: usize, tid: u32) -> Option<()> {
    let mut entry = read_entry(head)?;
    let offset = read_word(head.checked_add(8)?)?;
    let pending = read_entry(head.checked_add(16)?)?;
    for n in 1..=LIMIT {
        if n.is_multiple_of(TURN) {
            // The end of a thread is not ended early.
            let _ = give_way();
        }
        if entry.address == head {
            break;
        }
        let next = read_entry(entry.address);
        if entry.address != pending.address {
            handle_owner_death(entry, offset, tid, false)?;
        }
        entry = next?;
    }
    if pending.address != 0 {
        handle_owner_death(pending, offset, tid, true)?;
    }
    Some(())
}

/// A word that may have to be brought in.
struct SlowWord(usize);

impl pi::Word for SlowWord {
    fn load(&self) -> Result<u32, Fault> {
        user::load_u32(self.0).map_err(|_| Fault)
    }

    fn exchange(&self, old: u32, new: u32) -> Result<u32, Fault> {
        user::compare_exchange_u32(self.0, old, new).map_err(|_| Fault)
    }
}

/// The thread `tid` dies: if it holds the futex of an entry, says so in its word and wakes a waiter. None: the entry is no futex.
fn handle_owner_death(entry: Entry, offset: usize, tid: u32, is_pending: bool) -> Option<()> {
    let address = entry.address.wrapping_add(offset);
    if address & 3 != 0 {
        return None;
    }
    let word = SlowWord(address);
    let value = word.load().ok()?;
    // It was unlocked, but nobody may have been woken yet; or the thread was woken and has not taken it yet.
    let is_left = is_pending && !entry.lends && value == 0;
    let wakes =
        is_left || pi::die(&word, tid).ok()?.is_some_and(|old| old & pi::WAITERS != 0 && !entry.lends);
    if wakes {
        futex::wake_one_at(super::super::current().space(), address);
    }
    Some(())
}
