//! The hosted machine itself.

use super::*;
use crate::arch::user;
use crate::errno::{EBADF, EFAULT};
use crate::process::credentials::Ids;
use crate::process::{self, Credentials};
use linux_raw_sys::general as abi;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_test_has_a_process_with_its_own_session_and_credentials() {
    in_process(|| {
        let process = process::current_process();
        assert_eq!(process.session_id(), process.pid());
        assert_eq!(process.parent_pid(), 1);
        assert!(process::credentials().capable(process::Capability::ALL));
    });
    let user = Credentials { ids: Ids { uid: 7, euid: 7, ..Ids::default() }, ..Credentials::default() };
    assert_eq!(in_process_of(user, || process::credentials().uid), 7);
}

#[test]
#[should_panic(expected = "said the program")]
fn a_panic_in_the_process_is_the_tests() {
    in_process(|| panic!("said the program"));
}

#[test]
fn memory_is_the_processs_own_and_a_bad_address_is_a_fault() {
    in_process(|| {
        let memory = Memory::of(b"before");
        let child = fork(move || {
            assert_eq!(memory.bytes(6), b"before");
            user::copy_to_user(memory.address, b"after!").unwrap();
            assert_eq!(memory.bytes(6), b"after!");
        });
        assert_eq!(child.wait(), 0);
        assert_eq!(memory.bytes(6), b"before");
        assert_eq!(user::copy_to_user(BAD_ADDRESS, b"x"), Err(user::UserFault));
        assert_eq!(user::copy_to_user_partial(memory.end(2), b"four"[..].into()), 2);
    });
}

#[test]
fn a_system_call_goes_through_the_table() {
    in_process(|| {
        assert_eq!(syscall(abi::__NR_getpid, &[]), Ok(process::current_pid() as usize));
        assert_eq!(syscall(abi::__NR_close, &[9]), Err(EBADF));
        assert_eq!(syscall(abi::__NR_pipe, &[BAD_ADDRESS]), Err(EFAULT));
    });
}

#[test]
fn threads_share_what_processes_have_of_their_own() {
    in_process(|| {
        let memory = Memory::of(&[0; 4]);
        let threads: std::vec::Vec<_> = (0..4)
            .map(|_| {
                thread(move || {
                    for _ in 0..100 {
                        let mut old = user::load_u32(memory.address).unwrap();
                        loop {
                            match user::compare_exchange_u32(memory.address, old, old + 1).unwrap() {
                                seen if seen == old => break,
                                seen => old = seen,
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(Joining::join);
        assert_eq!(user::load_u32(memory.address), Ok(400));
    });
}

#[test]
fn a_sleeper_waits_until_it_is_woken_by_a_futex() {
    in_process(|| {
        let memory = Memory::of(&[0; 4]);
        let woken = Arc::new(AtomicU32::new(0));
        let told = woken.clone();
        let sleeper = thread(move || {
            let result = syscall(abi::__NR_futex, &[memory.address, abi::FUTEX_WAIT as usize, 0]);
            told.store(1, Ordering::SeqCst);
            result
        });
        let tid = sleeper.tid;
        until(|| is_asleep(tid));
        assert_eq!(woken.load(Ordering::SeqCst), 0);
        assert_eq!(syscall(abi::__NR_futex, &[memory.address, abi::FUTEX_WAKE as usize, 9]), Ok(1));
        assert_eq!(sleeper.join(), Ok(0));
    });
}

#[test]
fn a_killed_process_says_so_in_its_status() {
    in_process(|| {
        let child = fork(|| {
            let memory = Memory::of(&[0; 4]);
            let _ = syscall(abi::__NR_futex, &[memory.address, abi::FUTEX_WAIT as usize, 0]);
        });
        until(|| is_asleep(child.pid));
        assert_eq!(syscall(abi::__NR_kill, &[child.pid as usize, abi::SIGTERM as usize]), Ok(0));
        assert_eq!(child.wait(), abi::SIGTERM as i32);
    });
}
