//! The threads of a process in the order of their numbers, in parts: however many they are, a few are put in order at a time.
#![forbid(unsafe_code)]

use crate::errno::Result;
use crate::process::{Pid, Process};
use alloc::vec::Vec;
use sync::TryVec;

/// Numbers that are put in order at a time; twice as many are kept while they are looked for.
const PART: usize = if cfg!(test) { 4 } else { 512 };

/// Calls `f` with the numbers of the threads from `from` on, in order, until it answers false. Gives way: no spinning lock is held.
///
/// # Errors
/// ENOMEM.
pub fn each_thread(process: &Process, mut from: Pid, mut f: impl FnMut(Pid) -> bool) -> Result {
    let mut least = Vec::new();
    loop {
        // Those above it are not among the least.
        let mut most = Pid::MAX;
        let mut outcome = Ok(());
        least.clear();
        process.visit_threads(|thread| {
            let tid = thread.tid();
            if !(from..=most).contains(&tid) || outcome.is_err() {
                return;
            }
            if least.len() == PART.saturating_mul(2) {
                most = keep_least(&mut least);
            }
            outcome = least.try_push(tid);
        });
        outcome?;
        let are_all = most == Pid::MAX && least.len() <= PART;
        let last = keep_least(&mut least);
        if !least.iter().all(|tid| f(*tid)) || are_all {
            return Ok(());
        }
        from = last.saturating_add(1);
    }
}

/// Leaves those that come first, in order. Gives the last of them.
fn keep_least(numbers: &mut Vec<Pid>) -> Pid {
    numbers.sort_unstable();
    numbers.truncate(PART);
    numbers.last().copied().unwrap_or(Pid::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::current_process;
    use crate::sched::{Sleep, WaitQueue};
    use crate::testing::{in_process, thread};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn threads_come_in_the_order_of_their_numbers_however_many_they_are() {
        in_process(|| {
            for count in [1, PART - 1, PART, 2 * PART, 9 * PART + 1] {
                let gate = Arc::new((AtomicBool::new(false), WaitQueue::new()));
                let threads: Vec<_> = (0..count)
                    .map(|_| {
                        let gate = gate.clone();
                        thread(move || {
                            let is_open = || gate.0.load(SeqCst).then_some(());
                            let _ = gate.1.wait_shared(Sleep::Killable, None, is_open);
                        })
                    })
                    .collect();
                let own = current_process();
                let mut expected = Vec::new();
                own.for_each_thread(|t| expected.push(t.tid()));
                expected.sort_unstable();
                for skipped in [0, 1, expected.len() / 2, expected.len() - 1] {
                    let mut seen = Vec::new();
                    each_thread(&own, expected[skipped], |tid| {
                        seen.push(tid);
                        true
                    })
                    .unwrap();
                    assert_eq!(seen, expected[skipped..]);
                    let mut first = None;
                    each_thread(&own, expected[skipped], |tid| first.replace(tid).is_some()).unwrap();
                    assert_eq!(first, Some(expected[skipped]), "it ends when it is told to");
                }
                gate.0.store(true, SeqCst);
                gate.1.wake_all();
                threads.into_iter().for_each(|thread| thread.join());
                crate::testing::until(|| own.thread_count() == 1);
            }
        });
    }
}
