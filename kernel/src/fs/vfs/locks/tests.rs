//! Record locks against an array that says of each byte who has it, and how waiters see locks go.

use super::*;
use crate::account::{self, Kind};
use crate::errno::{EDEADLK, ENOLCK, ERESTARTSYS};
use crate::fs::anon::pipe;
use crate::fs::file::OpenFlags;
use crate::process;
use crate::testing::{check, fork, in_process, is_asleep, thread, until};
use proptest::prelude::*;
use std::sync::Arc;
use std::vec::Vec;
use sync::quota::UNLIMITED;

/// The device and the number of the inode.
const INODE: Place = (9, 9);
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
    Own(Record),
    Exit(u32),
}

/// Who waits is on one list for all files: tests that wait at the same time use other numbers, or would be each other's deadlock.
fn owner(process: u32) -> Owner {
    Owner::of_descriptors((process as usize + 1) * 64)
}

fn record(process: u32, first: usize, last: usize, exclusive: bool) -> Record {
    let end = if last == BYTES - 1 { u64::MAX } else { last as u64 };
    let by = Owner::of_open_file(64);
    Record { owner: owner(process), by, process, start: first as u64, end, exclusive }
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
        1 => ranges().prop_map(Op::Own),
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
    in_process(|| check(400, &ops(), agree));
}

fn agree(ops: Vec<Op>) {
    let (locks, mut model) = (FileLocks::new(), Model::default());
    for op in ops {
        match op {
            Op::Lock(want) => {
                let free = conflicts(&model, &want).is_empty();
                let result = locks.lock_record(INODE, want, None);
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
                    Some(found) => {
                        let first = expected.iter().map(|run| run.start).min();
                        assert_eq!(Some(found.start), first, "{found:?} of {expected:?}");
                        assert!(expected.contains(&found), "{found:?} of {expected:?}");
                    }
                    None => assert_eq!(expected, []),
                }
            }
            Op::Own(range) => {
                let own = runs(&model, range.process);
                assert_eq!(locks.own_record(&range).as_ref(), own.iter().find(|run| run.overlaps(&range)));
            }
            Op::Exit(process) => {
                locks.release_records(owner(process));
                model[process as usize].fill(None);
            }
        }
    }
}

#[test]
fn neighbours_of_one_kind_are_one_lock() {
    in_process(|| {
        let locks = FileLocks::new();
        for (first, last) in [(0, 4), (10, 14), (5, 9)] {
            locks.lock_record(INODE, record(1, first, last, true), None).unwrap();
        }
        assert_eq!(locks.conflict(&record(2, 12, 12, false)), Some(record(1, 0, 14, true)));
    });
}

#[test]
fn without_memory_nothing_is_locked_and_nothing_lost() {
    in_process(|| {
        let locks = FileLocks::new();
        locks.lock_record(INODE, record(1, 0, 9, true), None).unwrap();
        for n in 0..3 {
            let cut = || locks.unlock_record(record(1, n + 3, n + 3, true));
            let _ = sync::heap::hosted::fail_after(0, cut);
        }
        assert!(locks.lock_record(INODE, record(2, 0, 0, false), None).is_err());
        assert!(locks.lock_record(INODE, record(2, 9, 9, false), None).is_err());
    });
}

#[test]
fn who_waits_for_a_record_lock_gets_it_when_it_is_free() {
    in_process(|| {
        let locks = Arc::new(FileLocks::new());
        locks.lock_record(INODE, record(11, 0, 9, true), None).unwrap();
        let theirs = locks.clone();
        let waiter = thread(move || theirs.lock_record(INODE, record(12, 5, 6, false), Some(11)));
        let tid = waiter.tid;
        until(|| is_asleep(tid));
        locks.unlock_record(record(11, 0, 5, true)).unwrap();
        until(|| is_asleep(tid));
        // Shared is enough for it.
        locks.lock_record(INODE, record(11, 6, 6, false), None).unwrap();
        assert_eq!(waiter.join(), Ok(()));
        assert_eq!(locks.conflict(&record(11, 0, 9, true)), Some(record(12, 5, 6, false)));
    });
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    in_process(|| {
        let locks = Arc::new(FileLocks::new());
        locks.lock_record(INODE, record(13, 0, 9, true), None).unwrap();
        let theirs = locks.clone();
        let child = fork(move || {
            assert_eq!(theirs.lock_record(INODE, record(14, 0, 0, true), Some(1)), Err(ERESTARTSYS));
        });
        until(|| is_asleep(child.pid));
        process::signal::send::kill(child.pid as i32, linux_raw_sys::general::SIGUSR1).unwrap();
        assert_eq!(child.wait(), 0);
        assert_eq!(locks.conflict(&record(3, 0, 0, false)).map(|r| r.process), Some(13));
    });
}

#[test]
fn flock_is_the_open_files_shared_or_alone() {
    in_process(|| {
        let (a, b) = pipe::pair(OpenFlags::empty()).unwrap();
        let locks = FileLocks::new();
        let (shared, exclusive) = (Some(false), Some(true));
        assert_eq!(locks.flock(INODE, a.lock_holder(), shared, false), Ok(()));
        assert_eq!(locks.flock(INODE, b.lock_holder(), shared, false), Ok(()));
        // A conversion that fails loses what it converts (flock(2)).
        assert_eq!(locks.flock(INODE, a.lock_holder(), exclusive, false), Err(EAGAIN));
        assert_eq!(locks.flock(INODE, b.lock_holder(), exclusive, false), Ok(()));
        assert_eq!(locks.flock(INODE, a.lock_holder(), shared, false), Err(EAGAIN));
        assert_eq!(locks.flock(INODE, b.lock_holder(), None, false), Ok(()));
        assert_eq!(locks.flock(INODE, a.lock_holder(), exclusive, false), Ok(()));
        assert_eq!(locks.flock(INODE, b.lock_holder(), shared, false), Err(EAGAIN));
        // Record locks and whole ones do not meet.
        assert_eq!(locks.lock_record(INODE, record(1, 0, 9, true), None), Ok(()));
        locks.release_file(a.lock_holder());
        assert_eq!(locks.flock(INODE, b.lock_holder(), exclusive, false), Ok(()));
    });
}

#[test]
fn who_closes_a_circle_of_waits_is_told_of_the_deadlock() {
    in_process(|| {
        let locks = Arc::new(FileLocks::new());
        // Process n has byte n, and waits for byte n + 1.
        let lock = |process: u32, byte: usize| record(20 + process, byte, byte, true);
        for process in 1u32..=4 {
            locks.lock_record(INODE, lock(process, process as usize), None).unwrap();
        }
        let waiters: Vec<_> = (1u32..=3)
            .map(|process| {
                let theirs = locks.clone();
                let waiter = thread(move || {
                    theirs.lock_record(INODE, lock(process, process as usize + 1), Some(process))
                });
                until(|| is_asleep(waiter.tid));
                waiter
            })
            .collect();
        assert_eq!(locks.lock_record(INODE, lock(4, 1), Some(4)), Err(EDEADLK));
        // It holds no other's lock up by having asked: the chain goes on from its end.
        locks.unlock_record(lock(4, 4)).unwrap();
        let mut process = 3;
        for waiter in waiters.into_iter().rev() {
            assert_eq!(waiter.join(), Ok(()));
            locks.release_records(owner(20 + process));
            process -= 1;
        }
        assert_eq!(locks.lock_record(INODE, lock(4, 1), Some(4)), Ok(()));
    });
}

#[test]
fn open_files_wait_for_each_other_without_end() {
    in_process(|| {
        let locks = Arc::new(FileLocks::new());
        let lock = |file: usize, byte: usize| Record {
            owner: Owner::of_open_file(file * 64),
            ..record(9, byte, byte, true)
        };
        locks.lock_record(INODE, lock(1, 1), None).unwrap();
        locks.lock_record(INODE, lock(2, 2), None).unwrap();
        let (first, second) = (locks.clone(), locks.clone());
        let first = thread(move || first.lock_record(INODE, lock(1, 2), Some(1)));
        let second = thread(move || second.lock_record(INODE, lock(2, 1), Some(2)));
        until(|| is_asleep(first.tid) && is_asleep(second.tid));
        locks.unlock_record(lock(2, 2)).unwrap();
        assert_eq!(first.join(), Ok(()));
        locks.release_records(lock(1, 0).owner);
        assert_eq!(second.join(), Ok(()));
    });
}

/// 5,000 locks among 5,000 of others.
#[test]
fn many_locks_cost_little_each() {
    in_process(|| {
        let locks = FileLocks::new();
        for n in 0..5_000 {
            locks.lock_record(INODE, record(1, 4 * n, 4 * n, true), None).unwrap();
            locks.lock_record(INODE, record(2, 4 * n + 2, 4 * n + 2, n % 2 == 0), None).unwrap();
        }
        for n in (0..5_000).rev() {
            let found = locks.conflict(&record(1, 4 * n + 1, 4 * n + 3, true));
            assert_eq!(found.map(|r| r.start), Some(4 * n as u64 + 2));
            let all = Record { start: 4 * n as u64 + 3, end: u64::MAX, ..record(3, 0, 0, true) };
            assert_eq!(locks.conflict(&all).is_some(), n != 4_999);
        }
        locks.release_records(owner(2));
        locks.lock_record(INODE, record(1, 0, 20_000, false), None).unwrap();
        assert_eq!(locks.conflict(&record(3, 5, 5, true)), Some(record(1, 0, 20_000, false)));
    });
}

/// What the user of the tests below has.
fn locks_of(uid: u32) -> u64 {
    account::used(uid, Kind::RecordLocks)
}

#[test]
fn at_the_limit_what_needs_no_further_lock_still_works_and_what_does_changes_nothing() {
    in_process(|| {
        let payer = Payer { uid: 4_000_001, limit: 3 };
        let mut records = Records::new(INODE);
        let mut change = |from: usize, to: usize, exclusive: bool, add: bool| {
            records.change(&record(1, from, to, exclusive), add, payer)
        };
        assert_eq!(change(0, 9, true, true), Ok(false));
        // In the midst of one: what is left of it on both sides, and the new one.
        assert_eq!(change(4, 5, false, true), Ok(true));
        account::assert_comes_to(|| locks_of(payer.uid), 3);
        assert_eq!(change(20, 20, true, true), Err(ENOLCK));
        // A hole would make two of one.
        assert_eq!(change(1, 1, true, false), Err(ENOLCK));
        assert_eq!(change(1, 1, false, true), Err(ENOLCK));
        account::assert_comes_to(|| locks_of(payer.uid), 3);
        // Beside one of its kind, at an edge, and over several: no more than before.
        assert_eq!(change(10, 11, true, true), Ok(false));
        assert_eq!(change(0, 0, true, false), Ok(true));
        assert_eq!(change(4, 5, true, true), Ok(false));
        account::assert_comes_to(|| locks_of(payer.uid), 1);
        assert_eq!(records.own(&record(1, 0, 99, true)), Some(record(1, 1, 11, true)));
        assert!(records.release(owner(1)));
        account::assert_comes_to(|| locks_of(payer.uid), 0);
    });
}

#[test]
fn no_change_needs_more_memory_than_was_counted_before_it() {
    let ops = prop::collection::vec((0usize..15, 0usize..8, any::<bool>(), any::<bool>()), 1..60);
    check(200, &ops, |ops| {
        let payer = Payer { uid: 4_000_002, limit: UNLIMITED };
        let (mut records, mut bytes) = (Records::new(INODE), [None; 32]);
        for (from, len, exclusive, add) in ops {
            records.change(&record(1, from, from + len, exclusive), add, payer).unwrap();
            bytes[from..=from + len].fill(add.then_some(exclusive));
            let mut runs = 0;
            for (i, byte) in bytes.iter().enumerate() {
                runs += u64::from(byte.is_some() && (i == 0 || bytes[i - 1] != *byte));
            }
            account::assert_comes_to(|| locks_of(payer.uid), runs);
        }
        records.release(owner(1));
        account::assert_comes_to(|| locks_of(payer.uid), 0);
    });
}
