//! Queues of signals against a plain model, and what tasks see of signals.

use super::pending::PendingSet;
use super::*;
use crate::errno::{EAGAIN, EINVAL, EPERM, ESRCH};
use crate::process::{self, Credentials};
use crate::testing::{Memory, check, fork, in_process, in_process_of, is_asleep, syscall, thread, until};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const RT: u32 = 34;

/// A signal that carries `value`.
fn info(signal: u32, value: u64) -> Info {
    Info { rest: [value, 0, 0, 0], ..Info::kernel(signal) }
}

/// An allowance of `limit` signals for a user that this test alone has.
fn of(limit: u64) -> Allowance {
    static NEXT: AtomicU32 = AtomicU32::new(6_000_000);
    std::thread_local! { static UID: u32 = NEXT.fetch_add(1, Ordering::Relaxed); }
    Allowance::new(UID.with(|uid| *uid), limit)
}

fn taken(waiting: &mut PendingSet, blocked: u64) -> Option<(u32, u64)> {
    waiting.take(blocked).map(|info| (info.signal, info.rest[0]))
}

#[test]
fn standard_signals_wait_once_and_real_time_ones_are_queued() {
    let mut waiting = PendingSet::new();
    for value in 1..=3 {
        waiting.put(&info(abi::SIGUSR1, value), false, of(100)).unwrap();
        waiting.put(&info(RT, value), false, of(100)).unwrap();
    }
    let all: Vec<_> = std::iter::from_fn(|| taken(&mut waiting, 0)).collect();
    assert_eq!(all, [(abi::SIGUSR1, 1), (RT, 1), (RT, 2), (RT, 3)]);
    assert_eq!(waiting.set, 0);
}

#[test]
fn what_an_instruction_caused_comes_first_then_the_lowest_number() {
    let mut waiting = PendingSet::new();
    for signal in [RT, abi::SIGTERM, abi::SIGSEGV, abi::SIGHUP, abi::SIGFPE] {
        waiting.put(&info(signal, 0), false, of(100)).unwrap();
    }
    let order: Vec<_> = std::iter::from_fn(|| taken(&mut waiting, 0)).map(|(signal, _)| signal).collect();
    assert_eq!(order, [abi::SIGFPE, abi::SIGSEGV, abi::SIGHUP, abi::SIGTERM, RT]);
}

#[test]
fn beyond_the_limit_only_the_bit_is_kept_or_the_sender_told() {
    let mut waiting = PendingSet::new();
    for value in 0..2 {
        waiting.put(&info(RT, value), true, of(2)).unwrap();
    }
    assert_eq!(waiting.put(&info(RT, 9), true, of(2)), Err(EAGAIN));
    assert_eq!(waiting.put(&info(RT + 1, 9), false, of(2)), Ok(()));
    let sent = Info { code: abi::SI_QUEUE, ..info(abi::SIGUSR1, 9) };
    assert_eq!(waiting.put(&sent, true, of(2)), Ok(()), "standard signals are never refused");
    waiting.put(&info(abi::SIGUSR2, 9), true, of(2)).unwrap();
    assert_eq!(taken(&mut waiting, 0), Some((abi::SIGUSR1, 0)), "but what they carry is lost");
    assert_eq!(taken(&mut waiting, 0), Some((abi::SIGUSR2, 9)), "the kernel's are not limited");
    assert_eq!(taken(&mut waiting, bit(RT)), Some((RT + 1, 0)));
    assert_eq!(taken(&mut waiting, 0), Some((RT, 0)));
}

#[test]
fn without_memory_a_signal_comes_all_the_same() {
    let mut waiting = PendingSet::new();
    sync::heap::hosted::fail_after(0, || {
        assert_eq!(waiting.put(&info(abi::SIGTERM, 1), true, of(100)), Ok(()));
        assert_eq!(waiting.put(&info(RT, 1), true, of(100)), Err(EAGAIN));
    });
    assert_eq!(taken(&mut waiting, 0), Some((abi::SIGTERM, 0)));
    assert_eq!(taken(&mut waiting, 0), None);
}

#[test]
fn a_timer_has_one_signal_waiting_and_counts_the_others() {
    let mut waiting = PendingSet::new();
    let timer = |id, sequence, again| {
        let timer = Some(TimerSignal { id, sequence, again });
        Info { timer, code: abi::SI_TIMER, ..Info::kernel(RT) }
    };
    waiting.put(&timer(1, 1, false), false, of(100)).unwrap();
    waiting.put(&timer(2, 1, false), false, of(100)).unwrap();
    waiting.put(&timer(1, 2, true), false, of(100)).unwrap();
    let first = waiting.take(0).unwrap();
    let told = |info: &Info| info.timer.map(|of| (of.id, of.sequence));
    assert_eq!((told(&first), first.rest[0] >> 32), (Some((1, 2)), 1));
    assert_eq!(told(&waiting.take(0).unwrap()), Some((2, 1)));
    assert!(waiting.take(0).is_none());
}

#[derive(Clone, Debug)]
enum Op {
    /// As often.
    Put(u32, usize),
    Take(u64),
    Discard(u64),
}

#[test]
fn a_queue_agrees_with_a_list_of_what_came() {
    let signal = || prop_oneof![1u32..=8, 30u32..=36, Just(64)];
    let mask = || prop_oneof![Just(0), any::<u64>(), any::<u64>().prop_map(|mask| !(mask & mask >> 7))];
    let op = prop_oneof![
        5 => (signal(), 1usize..40).prop_map(|(signal, times)| Op::Put(signal, times)),
        4 => mask().prop_map(Op::Take),
        1 => prop::collection::vec(signal(), 1..4).prop_map(|all| Op::Discard(all.iter().map(|s| bit(*s)).fold(0, |a, b| a | b))),
    ];
    check(400, &prop::collection::vec(op, 1..80), |ops| {
        let (mut waiting, mut model, mut next) = (PendingSet::new(), Vec::<(u32, u64)>::new(), 0);
        for op in ops {
            match op {
                Op::Put(signal, times) => {
                    for _ in 0..times {
                        next += 1;
                        waiting.put(&info(signal, next), true, of(10_000)).unwrap();
                        if signal >= 32 || model.iter().all(|(waits, _)| *waits != signal) {
                            model.push((signal, next));
                        }
                    }
                }
                Op::Take(blocked) => {
                    let ready = |(signal, _): &&(u32, u64)| blocked & bit(*signal) == 0;
                    let synchronous = |signal: u32| SYNCHRONOUS & bit(signal) != 0;
                    let first = model
                        .iter()
                        .filter(ready)
                        .min_by_key(|(signal, value)| (!synchronous(*signal), *signal, *value));
                    let first = first.copied();
                    model.retain(|waits| Some(*waits) != first);
                    assert_eq!(taken(&mut waiting, blocked), first);
                }
                Op::Discard(set) => {
                    let mut gone = Gone::default();
                    waiting.discard(set, &mut gone);
                    drop(gone);
                    model.retain(|(signal, _)| set & bit(*signal) == 0);
                }
            }
            assert_eq!(waiting.set, model.iter().fold(0, |set, (signal, _)| set | bit(*signal)));
        }
    });
}

#[test]
fn what_a_program_queued_comes_back_from_its_bytes() {
    check(200, &(1u32..=64, any::<i32>(), any::<i32>(), any::<[u64; 4]>()), |(signal, errno, code, rest)| {
        let bytes = Info { signal, errno, code, rest, timer: None }.to_bytes();
        let back = Info::from_bytes(&bytes);
        assert_eq!((back.signal, back.errno, back.code, back.rest), (signal, errno, code, rest));
    });
}

fn block(signals: &[u32]) {
    deliver::set_blocked(&process::current(), signals.iter().fold(0, |set, s| set | bit(*s)));
}

fn own_action(signal: u32, handler: usize, mask: u64) {
    let action = Action { handler, mask, ..Action::default() };
    process::current().process.signals.set_action(signal, action).unwrap();
}

fn send(signal: u32) {
    send::kill(process::current_pid() as i32, signal).unwrap();
}

#[test]
fn a_blocked_signal_waits_and_comes_when_it_is_let() {
    in_process(|| {
        let child = fork(|| {
            block(&[abi::SIGTERM]);
            send(abi::SIGTERM);
            assert_eq!(process::current_process().signals.pending(), bit(abi::SIGTERM));
            assert_eq!(syscall(abi::__NR_getpid, &[]), Ok(process::current_pid() as usize), "it lives on");
            block(&[]);
            let _ = syscall(abi::__NR_getpid, &[]);
            panic!("it lives on");
        });
        assert_eq!(child.wait(), abi::SIGTERM as i32);
    });
}

#[test]
fn what_is_ignored_does_not_wait_unless_it_is_blocked() {
    in_process(|| {
        let pending = || process::current_process().signals.pending();
        own_action(abi::SIGUSR1, Action::IGNORE, 0);
        send(abi::SIGUSR1);
        assert_eq!(pending(), 0);
        block(&[abi::SIGUSR1, abi::SIGCHLD]);
        send(abi::SIGUSR1);
        send(abi::SIGCHLD);
        assert_eq!(pending(), bit(abi::SIGUSR1) | bit(abi::SIGCHLD));
        // To ignore it takes back what waits.
        own_action(abi::SIGUSR1, Action::IGNORE, 0);
        assert_eq!(pending(), bit(abi::SIGCHLD));
    });
}

#[test]
fn a_handler_is_entered_with_its_mask_and_left_with_the_old_one() {
    in_process(|| {
        let stack = Memory::new(8192);
        own_action(abi::SIGUSR1, 0x4000, bit(abi::SIGUSR2));
        block(&[abi::SIGHUP]);
        send(abi::SIGUSR1);
        let mut regs = crate::arch::UserRegs::new_user(0x1234, stack.end(64));
        crate::arch::program::return_to_user(&mut regs);
        let blocked = || process::current().blocked.get();
        assert_eq!((regs.pc(), regs.args()[0]), (0x4000, abi::SIGUSR1 as usize));
        assert_eq!(blocked(), bit(abi::SIGHUP) | bit(abi::SIGUSR1) | bit(abi::SIGUSR2));
        // The handler returns: its frame's first word is taken.
        regs.set_sp(regs.sp() + 8);
        deliver::sigreturn(&mut regs);
        assert_eq!((regs.pc(), regs.sp()), (0x1234, stack.end(64)));
        assert_eq!(blocked(), bit(abi::SIGHUP));
    });
}

#[test]
fn a_handler_without_a_stack_is_a_segmentation_fault() {
    in_process(|| {
        let child = fork(|| {
            own_action(abi::SIGUSR1, 0x4000, 0);
            send(abi::SIGUSR1);
            let _ = syscall(abi::__NR_getpid, &[]);
        });
        assert_eq!(child.wait(), abi::SIGSEGV as i32);
    });
}

#[test]
fn a_stopped_process_goes_on_when_it_is_continued() {
    in_process(|| {
        let child = fork(|| {
            send(abi::SIGSTOP);
            let _ = syscall(abi::__NR_getpid, &[]);
        });
        let process = process::find_process(child.pid).unwrap();
        until(|| process.is_stopped());
        assert_eq!(process.state_letter(), b'T');
        assert_eq!(process.signals.take_stop(false), Some(abi::SIGSTOP));
        assert_eq!(process.signals.take_stop(false), None, "the parent is told once");
        send::kill(child.pid as i32, abi::SIGCONT).unwrap();
        assert_eq!(child.wait(), 0);
    });
}

#[test]
fn continuing_takes_back_stops_that_wait_and_the_other_way_round() {
    in_process(|| {
        let pending = || process::current_process().signals.pending();
        block(&[abi::SIGTSTP, abi::SIGCONT]);
        send(abi::SIGTSTP);
        send(abi::SIGCONT);
        assert_eq!(pending(), bit(abi::SIGCONT));
        send(abi::SIGTSTP);
        assert_eq!(pending(), bit(abi::SIGTSTP));
    });
}

#[test]
fn sigtimedwait_takes_what_is_blocked_and_only_what_it_names() {
    in_process(|| {
        block(&[abi::SIGUSR1, abi::SIGUSR2]);
        let waiter = thread(|| {
            block(&[abi::SIGUSR1, abi::SIGUSR2]);
            wait_for(&process::current(), bit(abi::SIGUSR2), None).map(|info| info.signal)
        });
        let tid = waiter.tid;
        until(|| is_asleep(tid));
        send(abi::SIGUSR1);
        assert_eq!(process::current_process().signals.pending(), bit(abi::SIGUSR1));
        send(abi::SIGUSR2);
        assert_eq!(waiter.join(), Ok(abi::SIGUSR2));
        let past = wait_for(&process::current(), bit(abi::SIGHUP), Some(1.into()));
        assert_eq!(past.map(|info| info.signal), Err(Woken::Timeout));
    });
}

#[test]
fn a_thread_that_ends_leaves_the_processs_signals_to_another() {
    in_process(|| {
        block(&[abi::SIGUSR1]);
        // The first that does not block it is told, and ends without taking it.
        let told = thread(|| {
            block(&[]);
            until(process::signal_pending);
        });
        let other = thread(|| {
            block(&[]);
            until(process::signal_pending);
            take_waiting(&process::current(), bit(abi::SIGUSR1)).map(|info| info.signal)
        });
        let lets = |tid| process::find_thread(tid).is_some_and(|t| t.blocked.get() == 0);
        until(|| lets(told.tid) && lets(other.tid));
        send(abi::SIGUSR1);
        told.join();
        assert_eq!(other.join(), Some(abi::SIGUSR1));
    });
}

#[test]
fn who_may_send_is_decided_by_user_ids() {
    in_process(|| {
        let victim = fork(|| until(process::signal_pending));
        let pid = victim.pid as i32;
        let stranger = Credentials {
            ids: crate::process::credentials::Ids { uid: 9, euid: 9, suid: 9, ..Default::default() },
            ..Credentials::default()
        };
        in_stranger(stranger, move || {
            assert_eq!(send::kill(pid, abi::SIGTERM), Err(EPERM));
            assert_eq!(send::kill(pid, 0), Err(EPERM));
            assert_eq!(send::kill(pid, abi::SIGCONT), Ok(()), "within the session all may continue");
        });
        assert_eq!(send::kill(pid, 65), Err(EINVAL));
        assert_eq!(send::kill(i32::MAX, abi::SIGTERM), Err(ESRCH));
        assert_eq!(send::kill(pid, 0), Ok(()), "0 only asks");
        assert_eq!(send::kill(pid, abi::SIGTERM), Ok(()));
        victim.wait();
    });
}

/// Runs `f` in a child with other credentials.
fn in_stranger(credentials: Credentials, f: impl FnOnce() + Send + 'static) {
    let child = fork(move || {
        process::current().set_credentials(credentials.try_clone().unwrap());
        f();
    });
    assert_eq!(child.wait(), 0);
}

/// A group of `count` processes is sent SIGTERM by `send`, which ends them all.
fn end_group(count: usize, send: impl FnOnce(process::Pid) + Send + 'static) {
    in_process(move || {
        let members: Vec<_> = (0..count)
            .map(|n| {
                let leader = n == 0;
                fork(move || {
                    if leader {
                        process::session::set_group(0, 0).unwrap();
                    }
                    until(process::signal_pending);
                    let _ = syscall(abi::__NR_getpid, &[]);
                })
            })
            .collect();
        let leader = members[0].pid;
        until(|| process::find_process(leader).is_some_and(|p| p.group() == leader));
        for member in &members[1..] {
            process::session::set_group(member.pid, leader).unwrap();
        }
        send(leader);
        for member in members {
            assert_eq!(member.wait(), abi::SIGTERM as i32);
        }
    });
}

#[test]
fn a_group_is_signalled_as_a_whole() {
    end_group(3, |group| send::kill(-(group as i32), abi::SIGTERM).unwrap());
}

#[test]
fn a_key_signals_each_member_of_a_small_group_and_of_a_large_one() {
    for count in [3, 70] {
        end_group(count, |group| send::to_group_soon(group, abi::SIGTERM));
    }
}

#[test]
fn a_group_is_sent_what_was_left_for_it() {
    end_group(3, |group| {
        let left = process::ids::find_group(group).unwrap();
        errand::leave_to_send(&left, abi::SIGTERM);
    });
}

#[test]
fn actions_survive_fork_and_only_ignored_ones_survive_exec() {
    in_process(|| {
        own_action(abi::SIGUSR1, 0x4000, 0);
        own_action(abi::SIGUSR2, Action::IGNORE, 0);
        let child = fork(|| {
            let signals = &process::current().process.signals;
            assert_eq!(signals.action(abi::SIGUSR1).unwrap().handler, 0x4000);
            signals.reset_for_exec();
            assert!(signals.action(abi::SIGUSR1).unwrap().is_default());
            assert!(signals.action(abi::SIGUSR2).unwrap().is_ignore());
        });
        assert_eq!(child.wait(), 0);
        let signals = &process::current().process.signals;
        assert_eq!(signals.action(abi::SIGUSR1).unwrap().handler, 0x4000, "the parent's are its own");
    });
}

#[test]
fn the_masks_of_actions_have_the_bit_of_each_signal() {
    in_process(|| {
        let signals = &process::current().process.signals;
        let before = signals.action_masks();
        for signal in (1..=64).filter(|&signal| bit(signal) & UNBLOCKABLE == 0) {
            for (handler, expected) in [
                (0x4000, (before.0 & !bit(signal), before.1 | bit(signal))),
                (Action::IGNORE, (before.0 | bit(signal), before.1 & !bit(signal))),
            ] {
                let old = signals.set_action(signal, Action { handler, ..Action::default() }).unwrap();
                assert_eq!(signals.action_masks(), expected, "{signal}");
                signals.set_action(signal, old).unwrap();
            }
        }
        assert_eq!(signals.action_masks(), before);
    });
}

#[test]
fn sigkill_and_sigstop_have_no_action_and_no_mask() {
    in_process_of(Credentials::default(), || {
        let signals = &process::current().process.signals;
        for signal in [0, abi::SIGKILL, abi::SIGSTOP, 65] {
            assert_eq!(signals.set_action(signal, Action::default()).err(), Some(EINVAL));
        }
        deliver::set_blocked(&process::current(), u64::MAX);
        assert_eq!(process::current().blocked.get(), !UNBLOCKABLE);
    });
}

/// More threads wait for a signal than are told of it: each takes one, whoever was told first.
#[test]
fn of_many_threads_that_wait_each_gets_its_signal() {
    in_process(|| {
        const THREADS: usize = 100;
        let caller = process::current();
        caller.blocked.change(bit(RT));
        let wait = || thread(|| wait_for(&process::current(), bit(RT), None).map(|info| info.signal));
        let threads: Vec<_> = (0..THREADS).map(|_| wait()).collect();
        let waiting = || {
            let mut all = 0;
            caller.process.for_each_thread(|t| all += usize::from(t.waits_for.load(Ordering::SeqCst) != 0));
            all
        };
        until(|| waiting() == THREADS);
        for value in 0..THREADS as u64 {
            send::queue(&caller.process, None, info(RT, value), true).unwrap();
        }
        until(|| waiting() == 0);
        threads.into_iter().for_each(|thread| assert_eq!(thread.join(), Ok(RT)));
    });
}
