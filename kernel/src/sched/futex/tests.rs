//! Futexes through system calls, where tables are made, split or cannot be made.

use crate::sched::futex::{ANY, Key, wake};
use crate::testing::{Memory, in_process, is_asleep, syscall, thread, until};
use linux_raw_sys::general as abi;
use std::vec::Vec;

const WAIT: usize = (abi::FUTEX_WAIT | abi::FUTEX_PRIVATE_FLAG) as usize;
const WAKE: usize = (abi::FUTEX_WAKE | abi::FUTEX_PRIVATE_FLAG) as usize;

fn futex(address: usize, operation: usize, value: usize) -> crate::errno::Result<usize> {
    syscall(abi::__NR_futex, &[address, operation, value])
}

#[test]
fn a_wake_finds_its_waiter_before_and_after_buckets_split() {
    in_process(|| {
        // So many words that a table of 64 buckets splits.
        let memory = Memory::of(&[0; 4 * 400]);
        let words: Vec<usize> = (0..400).map(|n| memory.address + 4 * n).collect();
        let waiters: Vec<_> = words.iter().map(|&word| thread(move || futex(word, WAIT, 0))).collect();
        waiters.iter().for_each(|waiter| until(|| is_asleep(waiter.tid)));
        for (word, waiter) in words.iter().zip(waiters) {
            assert_eq!(futex(*word, WAKE, 9), Ok(1));
            assert_eq!(waiter.join(), Ok(0));
            assert_eq!(futex(*word, WAKE, 9), Ok(0));
        }
    });
}

#[test]
fn without_memory_for_a_table_waiters_lie_in_the_shared_one_and_are_found_there() {
    in_process(|| {
        let memory = Memory::of(&[0; 8]);
        let (first, second) = (memory.address, memory.address + 4);
        let early = thread(move || sync::heap::hosted::fail_after(0, || futex(first, WAIT, 0)));
        until(|| is_asleep(early.tid));
        // Now there is memory, and a table.
        let late = thread(move || futex(first, WAIT, 0));
        let other = thread(move || futex(second, WAIT, 0));
        until(|| is_asleep(late.tid) && is_asleep(other.tid));
        assert_eq!(futex(first, WAKE, 9), Ok(2));
        assert_eq!(futex(second, WAKE, 9), Ok(1));
        assert_eq!((early.join(), late.join(), other.join()), (Ok(0), Ok(0), Ok(0)));
    });
}

#[test]
fn a_process_that_never_waits_has_no_table() {
    in_process(|| {
        let memory = Memory::of(&[0; 4]);
        let current = crate::process::current();
        let space = current.space();
        assert_eq!(futex(memory.address, WAKE, 1), Ok(0));
        assert!(space.attached().futexes.buckets().is_none());
        assert_eq!(futex(memory.address, WAIT, 1), Err(crate::errno::EAGAIN));
        assert!(space.attached().futexes.buckets().is_none());
        assert_eq!(wake(Key::of(space, memory.address, true).unwrap(), 1, ANY), Ok(0));
    });
}

/// Private waiters of futex_waitv on these words, each with the value that it is to hold.
fn waiters(words: &[(usize, u64)]) -> Memory {
    let mut bytes = Vec::new();
    for &(address, value) in words {
        bytes.extend(value.to_ne_bytes());
        bytes.extend((address as u64).to_ne_bytes());
        bytes.extend([2 | 128, 0, 0, 0, 0, 0, 0, 0]);
    }
    Memory::of(&bytes)
}

#[test]
fn a_wait_on_several_words_returns_one_that_was_woken_and_leaves_all() {
    in_process(|| {
        let memory = Memory::of(&[0; 4 * 128]);
        let words: Vec<(usize, u64)> = (0..128).map(|n| (memory.address + 4 * n, 0)).collect();
        let list = waiters(&words);
        let address = list.address;
        for woken in [0, 1, 64, 127] {
            let waiter = thread(move || syscall(abi::__NR_futex_waitv, &[address, 128, 0, 0, 0]));
            until(|| is_asleep(waiter.tid));
            assert_eq!(futex(words[woken].0, WAKE, 9), Ok(1));
            assert_eq!(waiter.join(), Ok(woken));
            assert!(words.iter().all(|word| futex(word.0, WAKE, 9) == Ok(0)));
        }
    });
}

#[test]
fn a_wait_on_several_words_that_fails_leaves_nobody_behind() {
    in_process(|| {
        const MONOTONIC: usize = 1;
        let memory = Memory::of(&[0; 4 * 8]);
        let words: Vec<(usize, u64)> = (0..8).map(|n| (memory.address + 4 * n, 0)).collect();
        let (list, past) = (waiters(&words), Memory::of(&[0; 16]));
        let wait = || syscall(abi::__NR_futex_waitv, &[list.address, 8, 0, past.address, MONOTONIC]);
        let failed = (0..200).find(|&n| match sync::heap::hosted::fail_after(n, wait) {
            Err(crate::errno::ENOMEM) => false,
            result => result == Err(crate::errno::ETIMEDOUT),
        });
        // A node for each word, at least.
        assert!(failed.is_some_and(|n| n > 8), "{failed:?}");
        let changed = waiters(&[(words[0].0, 0), (words[1].0, 1)]);
        assert_eq!(syscall(abi::__NR_futex_waitv, &[changed.address, 2, 0, 0, 0]), Err(crate::errno::EAGAIN));
        assert!(words.iter().all(|word| futex(word.0, WAKE, 9) == Ok(0)));
    });
}
