//! Whom to kill when memory is out.
//!
//! A process weighs what it has itself (`badness`) and all that its user holds in the kernel (`account`): pages of pipes and of memory files, watches,
//! signals, record locks, threads. What one of many processes holds there, nobody counts for it alone; so who fills memory in such a way does not hide
//! behind others by having many processes. Pages of memory files that are mapped weigh twice.
//!
//! So the heaviest process says which user is to give memory back. Of that user's processes the one goes that has most itself and in what its
//! descriptors lead to. Names and pages of tmpfs are not weighed: they stay when a process dies.
//!
//! Nothing is allocated here, no lock is held, and each step gives way.
#![forbid(unsafe_code)]

use super::badness;
use crate::account;
use crate::process::{Pid, Process, ids};
use crate::sched::schedule_if_needed;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The process that is to die, and what it weighs with its user. Not one that dies already, nor `last`, which had its time.
pub fn heaviest(last: Pid) -> Option<(Arc<Process>, i64)> {
    let (first, weight) = most(last, |process| {
        let held = i64::try_from(account::held_pages(user(process)?)).unwrap_or(i64::MAX);
        Some(badness::weight(process)?.saturating_add(held))
    })?;
    let uid = user(&first);
    let of_user = |process: &Arc<Process>| {
        let own = badness::weight(process).filter(|_| user(process) == uid)?;
        Some(own.saturating_add(in_descriptors(process)))
    };
    Some((most(last, of_user).map_or(first, |(process, _)| process), weight))
}

fn most(last: Pid, weigh: impl Fn(&Arc<Process>) -> Option<i64>) -> Option<(Arc<Process>, i64)> {
    let mut found: Option<(Arc<Process>, i64)> = None;
    ids::walk_processes(|process| {
        if process.pid() != 1
            && process.pid() != last
            && process.signals.exit_status().is_none()
            && let Some(weight) = weigh(process)
            && found.as_ref().is_none_or(|(_, most)| weight > *most)
        {
            found = Some((process.clone(), weight));
        }
        true
    });
    found
}

/// The real user, whom `account` counts for.
fn user(process: &Process) -> Option<u32> {
    Some(process.leader()?.credentials_of()?.uid)
}

/// Walks over descriptors: each has a number, so that it counts a table once that many threads have.
static WALKS: AtomicU64 = AtomicU64::new(0);

/// Pages in what its threads' descriptors lead to. Gives way.
fn in_descriptors(process: &Process) -> i64 {
    let walk = WALKS.fetch_add(1, Relaxed).wrapping_add(1);
    let mut pages = 0u64;
    process.walk_threads(|thread| {
        thread.with_files(|files| {
            if files.come_by(walk) {
                files.for_each(|fd| {
                    if let Ok(file) = files.get(fd) {
                        pages = pages.saturating_add(file.ops().held_pages(&file));
                    }
                    schedule_if_needed();
                });
            }
        });
    });
    i64::try_from(pages).unwrap_or(i64::MAX)
}
