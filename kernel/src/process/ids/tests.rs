//! Numbers: that nobody has one twice, how long they stay, and what they lead to.

use super::*;
use crate::errno::{EAGAIN, EPERM};
use crate::process::{self, session};
use crate::testing::{check, fork, in_process, thread, until};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::vec::Vec;

/// How many uses the table counts of a number.
fn uses_of(number: Pid) -> u32 {
    let uses = |block: &Block| block.uses[(number % BLOCK) as usize].load(Relaxed);
    block(number / BLOCK).map_or(0, |block| u32::from(uses(block)))
}

#[test]
fn a_number_is_free_only_when_its_last_use_is_gone() {
    in_process(|| {
        let ops = prop::collection::vec((0usize..3, any::<prop::sample::Index>()), 1..200);
        check(50, &ops, |ops| {
            let (mut live, mut uses) = (Vec::<Id>::new(), BTreeMap::<Pid, u32>::new());
            for (op, which) in ops {
                match op {
                    0 => {
                        let id = Id::try_new().unwrap();
                        assert!((1..PID_MAX).contains(&id.number()));
                        assert_eq!(uses.insert(id.number(), 1), None, "a number that is in use");
                        live.push(id);
                    }
                    _ if live.is_empty() => {}
                    1 => {
                        let id = live[which.index(live.len())].share();
                        *uses.get_mut(&id.number()).unwrap() += 1;
                        live.push(id);
                    }
                    _ => {
                        let id = live.swap_remove(which.index(live.len()));
                        let left = uses.get_mut(&id.number()).unwrap();
                        *left -= 1;
                        if *left == 0 {
                            uses.remove(&id.number());
                        }
                    }
                }
                assert!(uses.iter().all(|(number, count)| uses_of(*number) == *count));
            }
        });
    });
}

#[test]
fn a_number_is_not_used_again_for_a_while() {
    in_process(|| {
        let id = Id::try_new().unwrap();
        let number = id.number();
        drop(id);
        for _ in 0..BLOCK * QUARANTINE / 2 {
            assert_ne!(Id::try_new().unwrap().number(), number);
        }
    });
}

#[test]
fn numbers_come_round_again() {
    in_process(|| {
        // On one CPU, so that what is given back is found again.
        let numbers = 64 * (QUARANTINE + RUN) * 2;
        let mut seen = BTreeSet::new();
        let again = (0..numbers).filter(|_| !seen.insert(Id::try_new().unwrap().number())).count();
        assert!(again > 0, "{numbers} numbers and none was used twice");
    });
}

#[test]
fn threads_that_take_numbers_at_once_never_get_the_same() {
    in_process(|| {
        let takers: Vec<_> =
            (0..4).map(|_| thread(|| (0..300).map(|_| Id::try_new().unwrap()).collect::<Vec<_>>())).collect();
        let ids: Vec<_> = takers.into_iter().flat_map(|taker| taker.join()).collect();
        let numbers: BTreeSet<_> = ids.iter().map(Id::number).collect();
        assert_eq!(numbers.len(), ids.len());
    });
}

#[test]
fn a_number_leads_to_its_process_until_it_is_reaped() {
    in_process(|| {
        let child = fork(|| {});
        let pid = child.pid;
        until(|| find_process(pid).is_some_and(|process| process.is_zombie()));
        assert_eq!(find_process(pid).unwrap().parent_pid(), process::current_pid());
        child.wait();
        assert!(find_process(pid).is_none());
    });
}

#[test]
fn who_asks_by_a_number_counts_nobody() {
    in_process(|| {
        let goes = Arc::new(AtomicBool::new(false));
        let gate = goes.clone();
        let other = thread(move || until(|| gate.load(SeqCst)));
        let found = find_thread(other.tid).unwrap();
        let counts = || (Arc::strong_count(&found), Arc::strong_count(&found.process));
        let before = counts();
        let mut seen = Vec::new();
        found.process.look_at_threads(|thread| {
            assert_eq!(counts(), before);
            seen.push(thread.tid());
        });
        assert_eq!(seen, [process::current_pid(), other.tid], "in the order in which they came");
        for tid in seen {
            let look = |thread: &Thread| (thread.tid(), thread.look_at_task(|task| task.nice()), counts());
            assert_eq!(look_at_thread(tid, look), Some((tid, Some(0), before)));
        }
        goes.store(true, SeqCst);
        other.join();
        until(|| found.look_at_task(|_| ()).is_none());
        assert!(found.task().is_none() && look_at_thread(found.tid(), |_| ()).is_none());
    });
}

#[test]
fn all_threads_are_come_by_though_those_on_which_a_walk_rests_end() {
    in_process(|| {
        let goes = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let gate = goes.clone();
                thread(move || until(|| gate.load(SeqCst)))
            })
            .collect();
        let own = process::current_process();
        let mut seen = 0;
        own.walk_threads(|_| {
            // From here on they end one after the other.
            goes.store(true, SeqCst);
            seen += 1;
        });
        assert!((1..=21).contains(&seen));
        threads.into_iter().for_each(|thread| thread.join());
        until(|| own.thread_count() == 1);
        let mut left = Vec::new();
        own.visit_threads(|thread| left.push(thread.tid()));
        assert_eq!(left, [own.pid()]);
    });
}

#[test]
fn a_threads_number_leads_to_it_and_its_processs_to_the_leader() {
    in_process(|| {
        let own = process::current_pid();
        assert_eq!(find_thread(own).map(|thread| thread.tid()), Some(own));
        let other = thread(|| process::current().tid());
        let tid = other.tid;
        assert_eq!(other.join(), tid);
        until(|| find_thread(tid).is_none());
        assert!(find_process(tid).is_none(), "a thread is no process");
    });
}

#[test]
fn a_walk_meets_every_process_that_stays() {
    in_process(|| {
        let children: Vec<_> = (0..3).map(|_| fork(|| until(process::signal_pending))).collect();
        let mut found = BTreeSet::new();
        walk_processes(|process| found.insert(process.pid()));
        for child in &children {
            assert!(found.contains(&child.pid));
            process::signal::send::kill(child.pid as i32, linux_raw_sys::general::SIGTERM).unwrap();
        }
        for child in children {
            child.wait();
        }
    });
}

#[test]
fn a_dead_leaders_number_is_kept_while_its_group_has_members() {
    in_process(|| {
        let leader = fork(|| {
            session::set_group(0, 0).unwrap();
            // A member that outlives it.
            fork(|| until(process::signal_pending));
        });
        let group = leader.pid;
        leader.wait();
        assert!(find_process(group).is_none());
        // Process and thread are gone after a grace period.
        until(|| uses_of(group) <= 1);
        assert_eq!(uses_of(group), 1, "a stranger with the number would be in the group");
        process::signal::send::kill(-(group as i32), linux_raw_sys::general::SIGKILL).unwrap();
    });
}

#[test]
fn sessions_and_groups_are_led_by_who_makes_them() {
    in_process(|| {
        let own = process::current_pid();
        assert_eq!(session::create(), Err(EPERM), "it leads a group already");
        assert_eq!(session::set_group(0, 0), Err(EPERM), "a session leader stays in its group");
        let child = fork(move || {
            let me = process::current_process();
            assert_eq!((me.group(), me.session_id()), (own, own));
            assert_eq!(session::set_group(0, me.pid() + 1), Err(EPERM), "no such group");
            session::set_group(0, 0).unwrap();
            assert_eq!((me.group(), me.session_id()), (me.pid(), own));
            session::set_group(0, own).unwrap();
            assert_eq!(session::create(), Ok(me.pid()));
            assert_eq!((me.group(), me.session_id()), (me.pid(), me.pid()));
            assert!(session::is_orphaned(me.pid(), None));
        });
        assert_eq!(child.wait(), 0);
    });
}

#[test]
fn the_errors_of_an_empty_machine_are_linuxs() {
    in_process(|| {
        // Without memory for a block the number is not taken.
        let results: Vec<_> = (0..200)
            .map(|_| sync::heap::hosted::fail_after(0, Id::try_new))
            .filter_map(|result| result.err())
            .collect();
        assert!(results.iter().all(|errno| [EAGAIN, ENOMEM].contains(errno)), "{results:?}");
        assert!(Id::try_new().is_ok());
    });
}
