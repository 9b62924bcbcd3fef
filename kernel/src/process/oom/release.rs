//! process_mrelease(2): the memory of a process that is being killed is given back before the caller goes on.
//!
//! A process gives its memory back itself when it ends, on the CPU where it runs, and nothing keeps one that is killed from that but what its threads do in the
//! kernel: so the caller waits for it.
#![forbid(unsafe_code)]

use crate::arch::time;
use crate::errno::{EINTR, EINVAL, ESRCH, Result};
use crate::process::{Process, is_dying, walk_processes};
use crate::sched::{self, Sleep, Work};
use core::ptr;

/// Between one look and the next, ns: at first, and at most.
const PAUSES: (u64, u64) = (200_000, 5_000_000);

/// Has it been killed, or does it exit? Its leader is asked first: it drops the flag before it takes the signal, and the signal before it ends.
fn ends(process: &Process) -> bool {
    let leader = process.look_at_leader(|t| {
        (t.look_at_task(|task| task.work.any(Work::KILL)).unwrap_or(true), t.blocked.get())
    });
    leader.is_none_or(|(is_killed, blocked)| is_killed || process.signals.is_to_end(blocked))
}

/// Where its space is; nothing once it has given that up.
fn space_of(process: &Process) -> Option<usize> {
    process.look_at_space(|space| ptr::from_ref(space).addr())
}

/// Waits until `process` has given its memory back. May sleep.
///
/// # Errors
/// ESRCH: it has already. EINVAL: it has not been killed, or another process that has not has the same memory. EINTR: the caller was killed.
pub fn release(process: &Process) -> Result {
    let space = space_of(process).ok_or(ESRCH)?;
    let mut is_kept = !ends(process);
    if !is_kept {
        walk_processes(|other| {
            is_kept |= space_of(other) == Some(space) && !ends(other);
            !is_kept
        });
    }
    if is_kept {
        return Err(EINVAL);
    }
    let (mut wait, most) = PAUSES;
    while space_of(process) == Some(space) || !process.is_zombie() && process.thread_count() > 0 {
        let _ = sched::sleep_until(time::now().saturating_add(wait), Sleep::Killable);
        if is_dying() {
            return Err(EINTR);
        }
        wait = wait.saturating_mul(2).min(most);
    }
    Ok(())
}
