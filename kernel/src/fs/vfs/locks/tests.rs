//! Record locks against an array that says of each byte who has it, and how waiters see locks go.

use super::*;
use crate::errno::ERESTARTSYS;
use crate::fs::anon::pipe;
use crate::fs::file::OpenFlags;
use crate::process;
use crate::testing::{check, fork, in_process, is_asleep, thread, until};
use proptest::prelude::*;
use std::sync::Arc;
use std::vec::Vec;

/// Bytes of the model; the last stands for all that follow.
const BYTES: usize = 24;
const PROCESSES: u32 = 3;

/// What each process has of each byte: a lock, exclusive or not.
type Model = [[Option<bool>; BYTES]; PROCESSES as usize];

#[derive(Clone, Debug)]
enum Op {
    Lock(Record),
    Unlock(Record),
    Ask(Record),
    Exit(u32),
}

fn record(process: u32, first: usize, last: usize, exclusive: bool) -> Record {
    let end = if last == BYTES - 1 { u64::MAX } else { last as u64 };
    Record { process, start: first as u64, end, exclusive }
}

fn bytes(record: &Record) -> std::ops::RangeInclusive<usize> {
    record.start as usize..=usize::try_from(record.end).map_or(BYTES - 1, |end| end.min(BYTES - 1))
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let ranges = || {
        (0..PROCESSES, 0..BYTES, 0..BYTES, any::<bool>())
            .prop_map(|(process, a, b, exclusive)| record(process, a.min(b), a.max(b), exclusive))
    };
    let op = prop_oneof![
        6 => ranges().prop_map(Op::Lock),
        4 => ranges().prop_map(Op::Unlock),
        3 => ranges().prop_map(Op::Ask),
        1 => (0..PROCESSES).prop_map(Op::Exit),
    ];
    prop::collection::vec(op, 1..80)
}

/// The locks that a process has: runs of bytes of one kind.
fn runs(model: &Model, process: u32) -> Vec<Record> {
    let mut runs: Vec<Record> = Vec::new();
    let mut before = None;
    for (byte, held) in model[process as usize].iter().enumerate() {
        match (held, runs.last_mut()) {
            (Some(exclusive), Some(run)) if before == Some(*exclusive) => {
                *run = record(process, run.start as usize, byte, *exclusive);
            }
            (Some(exclusive), _) => runs.push(record(process, byte, byte, *exclusive)),
            (None, _) => {}
        }
        before = *held;
    }
    runs
}

fn conflicts(model: &Model, want: &Record) -> Vec<Record> {
    let others = (0..PROCESSES).flat_map(|process| runs(model, process));
    others.filter(|run| run.conflicts(want)).collect()
}

fn set(model: &mut Model, range: &Record, to: Option<bool>) {
    model[range.process as usize][bytes(range)].fill(to);
}

#[test]
fn record_locks_agree_with_an_array_of_owners() {
    check(400, &ops(), |ops| {
        let (locks, mut model) = (FileLocks::new(), Model::default());
        for op in ops {
            match op {
                Op::Lock(want) => {
                    let free = conflicts(&model, &want).is_empty();
                    let result = locks.lock_record(want, false);
                    assert_eq!(result, if free { Ok(()) } else { Err(EAGAIN) });
                    if free {
                        set(&mut model, &want, Some(want.exclusive));
                    }
                }
                Op::Unlock(range) => {
                    locks.unlock_record(range).unwrap();
                    set(&mut model, &range, None);
                }
                Op::Ask(want) => {
                    let expected = conflicts(&model, &want);
                    match locks.conflict(&want) {
                        // The first of some process that is in the way.
                        Some(found) => assert_eq!(
                            Some(&found),
                            expected.iter().find(|run| run.process == found.process),
                            "{found:?} of {expected:?}"
                        ),
                        None => assert_eq!(expected, []),
                    }
                }
                Op::Exit(process) => {
                    locks.release_process(process);
                    model[process as usize].fill(None);
                }
            }
        }
    });
}

#[test]
fn neighbours_of_one_kind_are_one_lock() {
    let locks = FileLocks::new();
    for (first, last) in [(0, 4), (10, 14), (5, 9)] {
        locks.lock_record(record(1, first, last, true), false).unwrap();
    }
    assert_eq!(locks.conflict(&record(2, 12, 12, false)), Some(record(1, 0, 14, true)));
}

#[test]
fn without_memory_nothing_is_locked_and_nothing_lost() {
    let locks = FileLocks::new();
    locks.lock_record(record(1, 0, 9, true), false).unwrap();
    for n in 0..3 {
        let cut = || locks.unlock_record(record(1, n + 3, n + 3, true));
        let _ = sync::heap::hosted::fail_after(0, cut);
    }
    assert!(locks.lock_record(record(2, 0, 0, false), false).is_err());
    assert!(locks.lock_record(record(2, 9, 9, false), false).is_err());
}

#[test]
fn who_waits_for_a_record_lock_gets_it_when_it_is_free() {
    in_process(|| {
        let locks = Arc::new(FileLocks::new());
        locks.lock_record(record(1, 0, 9, true), false).unwrap();
        let theirs = locks.clone();
        let waiter = thread(move || theirs.lock_record(record(2, 5, 6, false), true));
        let tid = waiter.tid;
        until(|| is_asleep(tid));
        locks.unlock_record(record(1, 0, 5, true)).unwrap();
        until(|| is_asleep(tid));
        // Shared is enough for it.
        locks.lock_record(record(1, 6, 6, false), false).unwrap();
        assert_eq!(waiter.join(), Ok(()));
        assert_eq!(locks.conflict(&record(1, 0, 9, true)), Some(record(2, 5, 6, false)));
    });
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    in_process(|| {
        let locks = Arc::new(FileLocks::new());
        locks.lock_record(record(1, 0, 9, true), false).unwrap();
        let theirs = locks.clone();
        let child = fork(move || {
            assert_eq!(theirs.lock_record(record(2, 0, 0, true), true), Err(ERESTARTSYS));
        });
        until(|| is_asleep(child.pid));
        process::signal::send::kill(child.pid as i32, linux_raw_sys::general::SIGUSR1).unwrap();
        assert_eq!(child.wait(), 0);
        assert_eq!(locks.conflict(&record(3, 0, 0, false)).map(|r| r.process), Some(1));
    });
}

#[test]
fn flock_is_the_open_files_shared_or_alone() {
    in_process(|| {
        let (a, b) = pipe::pair(OpenFlags::empty()).unwrap();
        let locks = FileLocks::new();
        let (shared, exclusive) = (Some(false), Some(true));
        assert_eq!(locks.flock(a.lock_holder(), shared, false), Ok(()));
        assert_eq!(locks.flock(b.lock_holder(), shared, false), Ok(()));
        // A conversion that fails loses what it converts (flock(2)).
        assert_eq!(locks.flock(a.lock_holder(), exclusive, false), Err(EAGAIN));
        assert_eq!(locks.flock(b.lock_holder(), exclusive, false), Ok(()));
        assert_eq!(locks.flock(a.lock_holder(), shared, false), Err(EAGAIN));
        assert_eq!(locks.flock(b.lock_holder(), None, false), Ok(()));
        assert_eq!(locks.flock(a.lock_holder(), exclusive, false), Ok(()));
        assert_eq!(locks.flock(b.lock_holder(), shared, false), Err(EAGAIN));
        // Record locks and whole ones do not meet.
        assert_eq!(locks.lock_record(record(1, 0, 9, true), false), Ok(()));
        locks.release_whole(a.lock_holder());
        assert_eq!(locks.flock(b.lock_holder(), exclusive, false), Ok(()));
    });
}
