//! Signals of a process with many threads; in tests a few are many (`MANY`).

use super::super::{Action, Info, bit, deliver, send, take_waiting};
use super::MANY;
use crate::process::{self, find_thread};
use crate::sched::{Sleep, WaitQueue};
use crate::testing::{Joining, fork, in_process, syscall, thread, until};
use linux_raw_sys::general as abi;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::vec::Vec;

const THREADS: usize = 3 * MANY;
const RT: u32 = 34;

fn block(signals: &[u32]) {
    deliver::set_blocked(&process::current(), signals.iter().fold(0, |set, s| set | bit(*s)));
}

fn set_handler(signal: u32, handler: usize) {
    let action = Action { handler, ..Action::default() };
    process::current().process.signals.set_action(signal, action).unwrap();
}

/// Threads that block what the caller blocks, run `last` when they are let go, and have its result.
struct Crowd<R> {
    threads: Vec<Joining<R>>,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    open: AtomicBool,
    queue: WaitQueue,
}

impl Gate {
    /// Waits until it is open, or a fatal signal comes.
    fn pass(&self) {
        let _ = self.queue.wait_shared(Sleep::Killable, None, || self.open.load(SeqCst).then_some(()));
    }

    fn open(&self) {
        self.open.store(true, SeqCst);
        self.queue.wake_all();
    }
}

impl<R: Send + 'static> Crowd<R> {
    fn new(last: impl Fn() -> R + Clone + Send + 'static) -> Self {
        let gate = Arc::new(Gate::default());
        let threads = (0..THREADS).map(|_| {
            let (gate, last) = (gate.clone(), last.clone());
            thread(move || {
                gate.pass();
                last()
            })
        });
        Crowd { threads: threads.collect(), gate }
    }

    /// The sets of its threads.
    fn each(&self, f: impl Fn(&process::Thread) -> u64) -> Vec<u64> {
        self.threads.iter().map(|t| f(&find_thread(t.tid).unwrap())).collect()
    }

    fn end(self) -> Vec<R> {
        self.gate.open();
        self.threads.into_iter().map(Joining::join).collect()
    }
}

/// To one thread, with its place in the crowd.
fn send_to(tid: process::Pid, signal: u32, value: u64) {
    let info = Info { rest: [value, 0, 0, 0], ..Info::kernel(signal) };
    send::queue(&process::current_process(), find_thread(tid).as_ref(), info, true).unwrap();
}

#[test]
fn what_is_thrown_away_of_all_threads_waits_no_more_and_what_comes_later_does() {
    in_process(|| {
        block(&[RT, RT + 1, abi::SIGTSTP]);
        let crowd = Crowd::new(|| {
            let next = || take_waiting(&process::current(), u64::MAX).map(|info| (info.signal, info.rest[0]));
            (next(), next(), next())
        });
        set_handler(RT, 0x4000);
        for at in &crowd.threads {
            for signal in [RT, RT, RT + 1, abi::SIGTSTP] {
                send_to(at.tid, signal, 1);
            }
        }
        set_handler(RT, 1);
        send::kill(process::current_pid() as i32, abi::SIGCONT).unwrap();
        let raw = crowd.each(|thread| thread.pending.set());
        assert!(raw.iter().all(|set| set & bit(RT) != 0), "nobody came by the queues");
        // One is looked at before there is something new for it, another is not.
        let shown = |thread: &process::Thread| thread.pending_signals();
        assert_eq!(find_thread(crowd.threads[0].tid).map(|t| shown(&t)), Some(bit(RT + 1)));
        set_handler(RT, 0x4000);
        for at in &crowd.threads[..2] {
            send_to(at.tid, RT, 2);
        }
        let mut expected = [bit(RT + 1); THREADS];
        expected[..2].fill(bit(RT) | bit(RT + 1));
        assert_eq!(crowd.each(shown), expected);
        let mut expected = [(Some((RT + 1, 1)), None, None); THREADS];
        expected[..2].fill((Some((RT, 2)), Some((RT + 1, 1)), None));
        assert_eq!(crowd.end(), expected);
    });
}

/// Of a process that has had many threads and has few by now.
#[test]
fn what_was_thrown_away_is_gone_for_those_who_are_left() {
    in_process(|| {
        block(&[RT]);
        let crowd = Crowd::new(|| ());
        set_handler(RT, 0x4000);
        send_to(process::current().tid(), RT, 1);
        set_handler(RT, 1);
        crowd.end();
        until(|| process::current_process().thread_count() == 1);
        assert_eq!(process::current().pending_signals(), 0);
        send_to(process::current().tid(), RT, 2);
        assert_eq!(process::current().pending_signals(), bit(RT));
        set_handler(RT, 1);
        assert_eq!(take_waiting(&process::current(), bit(RT)).map(|info| info.signal), None);
    });
}

#[test]
fn of_many_threads_the_one_that_takes_a_signal_gets_it_from_a_sender_that_may_not_rest() {
    in_process(|| {
        block(&[abi::SIGUSR1]);
        let crowd = Crowd::new(|| ());
        let taker = thread(|| {
            block(&[]);
            until(process::signal_pending);
            take_waiting(&process::current(), bit(abi::SIGUSR1)).map(|info| info.signal)
        });
        let tid = taker.tid;
        until(|| find_thread(tid).is_some_and(|t| t.blocked.get() == 0));
        send::to_process(&process::current_process(), Info::kernel(abi::SIGUSR1));
        assert_eq!(taker.join(), Some(abi::SIGUSR1));
        crowd.end();
    });
}

/// Until it is killed: that, and stopping, comes on the way back from a call.
fn live() {
    loop {
        let _ = WaitQueue::new().wait_until(Sleep::Interruptible, None, || None::<()>);
        let _ = syscall(abi::__NR_getpid, &[]);
    }
}

#[test]
fn a_process_of_many_threads_is_killed_and_stopped_by_a_sender_that_may_not_rest() {
    in_process(|| {
        for stops in [false, true] {
            let child = fork(|| {
                Crowd::new(live).gate.open();
                live();
            });
            let process = process::find_process(child.pid).unwrap();
            until(|| process.thread_count() as usize > THREADS);
            if stops {
                send::to_process(&process, Info::kernel(abi::SIGSTOP));
                until(|| process.is_stopped());
            }
            send::to_process(&process, Info::kernel(abi::SIGKILL));
            assert_eq!(child.wait(), abi::SIGKILL as i32);
        }
    });
}

/// A fork in a process of many threads, and a signal to its group at the same time, as long as it takes.
#[test]
fn a_child_of_many_threads_is_sent_what_its_group_is_sent_during_the_fork() {
    in_process(|| {
        let crowd = Crowd::new(|| ());
        let own = process::current_process();
        let crowded = own.signals.crowd().expect("it has many threads");
        let before = crowded.sent_now();
        own.note_sent_to_group(abi::SIGUSR1);
        own.note_sent_to_group(RT);
        let later = crowded.sent_now();
        own.note_sent_to_group(abi::SIGUSR2);
        let since = |then| crowded.sent_since(&mut sync::level::Held::clean(), then);
        assert_eq!(since(before), bit(abi::SIGUSR1) | bit(RT) | bit(abi::SIGUSR2));
        assert_eq!(since(later), bit(abi::SIGUSR2));
        assert_eq!(since(crowded.sent_now()), 0);
        crowd.end();
    });
}
