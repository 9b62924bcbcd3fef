//! Through system calls: what depends on who comes when, and what memory there is. What a call returns is in tests/abi.

use crate::errno::{EDEADLK, EINVAL, ENOMEM, ETIMEDOUT, Result};
use crate::process::current;
use crate::testing::{Joining, Memory, fork, in_process, is_asleep, syscall, thread, until};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use linux_raw_sys::general as abi;
use std::vec::Vec;
use sync::protocol::pi::{OWNER, OWNER_DIED, WAITERS};

/// Who walks along a chain dawdles between two steps, so that others change it there.
static SLOW: AtomicBool = AtomicBool::new(false);

pub fn between_steps() {
    if SLOW.load(Relaxed) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn futex(address: usize, command: u32, rest: [usize; 4]) -> Result<usize> {
    let command = (command | abi::FUTEX_PRIVATE_FLAG) as usize;
    syscall(abi::__NR_futex, &[address, command, rest[0], rest[1], rest[2], rest[3]])
}

fn lock(address: usize) -> Result<usize> {
    futex(address, abi::FUTEX_LOCK_PI, [0; 4])
}

fn unlock(address: usize) -> Result<usize> {
    futex(address, abi::FUTEX_UNLOCK_PI, [0; 4])
}

fn word(address: usize) -> u32 {
    crate::arch::user::load_u32(address).unwrap()
}

/// Words, each 0.
fn words(count: usize) -> (Memory, Vec<usize>) {
    let memory = Memory::of(&std::vec![0; 4 * count]);
    let addresses = (0..count).map(|n| memory.address + 4 * n).collect();
    (memory, addresses)
}

/// A thread that waits for the futex at `address`, as `f` goes on once it has it.
fn waiting<R: Send + 'static>(address: usize, f: impl FnOnce() -> R + Send + 'static) -> Joining<R> {
    let waiter = thread(move || {
        assert_eq!(lock(address), Ok(0));
        f()
    });
    until(|| is_asleep(waiter.tid));
    waiter
}

fn lent_to(tid: u32) -> u32 {
    crate::process::find_thread(tid).unwrap().look_at_task(|task| task.class().priority()).unwrap()
}

fn set_priority(tid: u32, priority: u32) {
    let thread = crate::process::find_thread(tid).unwrap();
    let task = thread.task().unwrap();
    let policy = if priority == 0 { crate::sched::Policy::Normal } else { crate::sched::Policy::Fifo };
    task.set_schedule(crate::sched::Schedule { policy, priority, ..task.schedule() });
    super::priority_changed(&task);
}

#[test]
fn a_futex_goes_from_one_to_the_next_and_its_last_owner_finds_nobody() {
    in_process(|| {
        let (_memory, words) = words(1);
        let at = words[0];
        assert_eq!(lock(at), Ok(0));
        let all: Vec<_> = (0..5).map(|_| waiting(at, move || unlock(at))).collect();
        assert_eq!(word(at) & WAITERS, WAITERS);
        assert_eq!(unlock(at), Ok(0));
        all.into_iter().for_each(|waiter| assert_eq!(waiter.join(), Ok(0)));
        assert_eq!(word(at), 0);
    });
}

#[test]
fn crowds_on_many_futexes_of_one_table_do_not_lose_each_other_when_it_splits() {
    in_process(|| {
        let (_memory, words) = words(300);
        words.iter().for_each(|at| assert_eq!(lock(*at), Ok(0)));
        let all: Vec<_> = words.iter().map(|&at| waiting(at, move || unlock(at))).collect();
        for (at, waiter) in words.iter().zip(all) {
            assert_eq!(unlock(*at), Ok(0));
            assert_eq!(waiter.join(), Ok(0));
            assert_eq!(word(*at), 0);
        }
    });
}

#[test]
fn who_waits_lends_along_a_chain_and_takes_it_back() {
    in_process(|| {
        let (_memory, words) = words(3);
        let [a, b, c] = [words[0], words[1], words[2]];
        // Each has one futex and waits for the next.
        assert_eq!(lock(a), Ok(0));
        let second = thread(move || {
            assert_eq!((lock(b), lock(a)), (Ok(0), Ok(0)));
            assert_eq!((unlock(a), unlock(b)), (Ok(0), Ok(0)));
        });
        until(|| is_asleep(second.tid));
        let third = thread(move || {
            assert_eq!((lock(c), lock(b)), (Ok(0), Ok(0)));
            assert_eq!((unlock(b), unlock(c)), (Ok(0), Ok(0)));
        });
        until(|| is_asleep(third.tid));
        let last = waiting(c, move || unlock(c));
        let own = current().tid();
        let all = |expected: u32| {
            assert_eq!([own, second.tid, third.tid].map(lent_to), [expected; 3]);
        };
        all(0);
        set_priority(last.tid, 40);
        all(40);
        set_priority(last.tid, 20);
        all(20);
        set_priority(third.tid, 30);
        assert_eq!([own, second.tid, third.tid].map(lent_to), [30, 30, 30]);
        set_priority(third.tid, 0);
        set_priority(last.tid, 0);
        all(0);
        set_priority(last.tid, 7);
        assert_eq!(unlock(a), Ok(0));
        assert_eq!(lent_to(own), 0);
        second.join();
        third.join();
        assert_eq!(last.join(), Ok(0));
    });
}

#[test]
fn a_circle_is_refused_and_leaves_what_was_there() {
    in_process(|| {
        let (_memory, words) = words(2);
        let [a, b] = [words[0], words[1]];
        assert_eq!(lock(a), Ok(0));
        let other = thread(move || {
            assert_eq!((lock(b), lock(a)), (Ok(0), Ok(0)));
            assert_eq!((unlock(a), unlock(b)), (Ok(0), Ok(0)));
        });
        until(|| is_asleep(other.tid));
        assert_eq!(lock(b), Err(EDEADLK));
        assert_eq!(word(b), other.tid | WAITERS);
        assert_eq!(unlock(a), Ok(0));
        other.join();
        assert_eq!((word(a), word(b)), (0, 0));
    });
}

/// Those who lock in one order never wait for each other, whatever changes while one walks along their chain.
#[test]
fn who_locks_in_order_is_never_refused() {
    const ROUNDS: u32 = 2000;
    SLOW.store(true, Relaxed);
    let (refused, left) = in_process(|| {
        let (_memory, words) = words(3);
        let all: Vec<_> = (0..6)
            .map(|n| {
                let words = words.clone();
                thread(move || (0..ROUNDS).map(|round| round_of_locks(&words, n + round)).sum::<usize>())
            })
            .collect();
        let refused: usize = all.into_iter().map(Joining::join).sum();
        (refused, words.iter().map(|&at| word(at)).collect::<Vec<_>>())
    });
    SLOW.store(false, Relaxed);
    assert_eq!((refused, left), (0, std::vec![0; 3]));
}

/// Locks one, two or three of `words` in their order, and unlocks them. How often it was refused.
fn round_of_locks(words: &[usize], round: u32) -> usize {
    let chosen = (0..).zip(words).filter(|(bit, _)| (round % 7 + 1) & 1 << bit != 0).map(|(_, at)| *at);
    let chosen: Vec<_> = chosen.collect();
    let mut refused = 0;
    for &at in &chosen {
        while lock(at) != Ok(0) {
            refused += 1;
        }
    }
    if round.is_multiple_of(3) {
        let _ = syscall(abi::__NR_sched_yield, &[]);
    }
    for &at in chosen.iter().rev() {
        // EAGAIN: another came just then.
        while unlock(at) != Ok(0) {}
    }
    refused
}

#[test]
fn one_that_ends_leaves_what_it_has_to_who_waits() {
    in_process(|| {
        let (_memory, words) = words(2);
        let (at, go) = (words[0], words[1]);
        let owner = thread(move || {
            assert_eq!(lock(at), Ok(0));
            until(|| word(go) == 1);
        });
        until(|| word(at) != 0);
        let waiter = waiting(at, move || word(at));
        crate::arch::user::store_u32(go, 1).unwrap();
        owner.join();
        let (tid, seen) = (waiter.tid, waiter.join());
        assert_eq!(seen, tid | WAITERS | OWNER_DIED);
        // And it ends with it, too; nobody waits.
        until(|| crate::process::find_thread(tid).is_none());
        assert_eq!(word(at) & OWNER, tid);
        assert_eq!(lock(at), Err(crate::errno::ESRCH));
    });
}

#[test]
fn without_memory_nothing_has_changed() {
    in_process(|| {
        let (_memory, words) = words(2);
        let (at, go) = (words[0], words[1]);
        let refused =
            (0..8).map(|left| sync::heap::hosted::fail_after(left, || lock(at))).take_while(|r| r.is_err());
        let mut count = 0;
        refused.for_each(|result| {
            assert_eq!((result, word(at)), (Err(ENOMEM), 0));
            count += 1;
        });
        assert!(count > 0, "nothing was taken from memory");
        assert_eq!(word(at), current().tid());
        assert_eq!(unlock(at), Ok(0));
        // The owner's record and the state, of one that waits.
        let owner = thread(move || {
            crate::arch::user::store_u32(at, current().tid()).unwrap();
            until(|| word(at) & WAITERS != 0 && word(go) == 1);
            unlock(at)
        });
        until(|| word(at) != 0);
        let past = Memory::of(&[1u64, 0].map(u64::to_ne_bytes).concat());
        let limit = past.address;
        let late = move || futex(at, abi::FUTEX_LOCK_PI, [0, limit, 0, 0]);
        let mut results = (0..8).map(|left| sync::heap::hosted::fail_after(left, late));
        assert_eq!(results.find(|result| *result != Err(ENOMEM)), Some(Err(ETIMEDOUT)));
        crate::arch::user::store_u32(go, 1).unwrap();
        assert_eq!(owner.join(), Ok(0));
    });
}

#[test]
fn plain_calls_leave_it_alone() {
    in_process(|| {
        let (_memory, words) = words(2);
        let at = words[0];
        assert_eq!(lock(at), Ok(0));
        let waiter = waiting(at, move || unlock(at));
        assert_eq!(futex(at, abi::FUTEX_WAKE, [1, 0, 0, 0]), Err(EINVAL));
        assert_eq!(futex(at, abi::FUTEX_REQUEUE, [1, 1, words[1], 0]), Err(EINVAL));
        assert_eq!(unlock(at), Ok(0));
        assert_eq!(waiter.join(), Ok(0));
    });
}

#[test]
fn a_process_that_is_killed_while_others_wait_leaves_nothing_behind() {
    in_process(|| {
        let child = fork(|| {
            let (_memory, words) = words(1);
            let at = words[0];
            assert_eq!(lock(at), Ok(0));
            // They end with it, in any order.
            let all: Vec<_> = (0..6).map(|_| waiting(at, || ())).collect();
            core::mem::forget(all);
        });
        assert_eq!(child.wait(), 0);
    });
}
