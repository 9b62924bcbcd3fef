//! Processes and threads of a test.

use std::boxed::Box;
use std::sync::{Arc, Mutex, PoisonError};

use super::outcome::{Outcome, PATIENCE, outcome_of};
use crate::arch::{program, time};
use crate::errno::{Errno, Result};
use crate::process::wait::{Target, WaitOptions, wait};
use crate::process::{self, CloneRequest, Pid};
use crate::sched::{self, Sleep, WaitQueue};
use linux_raw_sys::general as abi;

/// Forks the running process; the child runs `program`, which ends with exit_group(2).
pub(super) fn start_process(program: impl FnOnce() + Send + 'static) -> Result<Pid> {
    let request = CloneRequest { exit_signal: abi::SIGCHLD, ..CloneRequest::default() };
    process::clone(&request, &mut program::new(program))
}

/// How a closure of the test ended, for who waits for that.
struct Ending<R> {
    outcome: Mutex<Option<Outcome<R>>>,
    came: WaitQueue,
}

impl<R> Ending<R> {
    fn new() -> Arc<Self> {
        Arc::new(Self { outcome: Mutex::new(None), came: WaitQueue::new() })
    }

    fn set(&self, outcome: Outcome<R>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.came.wake_all();
    }

    fn take(&self) -> Option<Outcome<R>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn deadline() -> Option<u64> {
    Some(time::now() + PATIENCE.as_nanos() as u64)
}

/// A forked process.
pub struct Child {
    pub pid: Pid,
    ending: Arc<Ending<()>>,
}

/// Forks the running process; the child runs `f` and exits with status 0.
pub fn fork(f: impl FnOnce() + Send + 'static) -> Child {
    let ending = Ending::new();
    let told = ending.clone();
    let program = move || {
        told.set(outcome_of(f));
        process::exit_group(0)
    };
    Child { pid: start_process(program).expect("fork"), ending }
}

impl Child {
    /// Waits for its end, as wait4(2): the status. A panic of the child's closure goes on here.
    pub fn wait(self) -> i32 {
        let wanted = WaitOptions {
            target: Target::Pid(self.pid),
            exited: true,
            stopped: false,
            continued: false,
            leave_waitable: false,
            block: false,
            normal: true,
            clones: false,
            thread: None,
        };
        // It looks now and then, since a signal for the test's process, SIGCHLD among them, would end a sleep.
        let mut event = None;
        until(|| {
            event = wait(&wanted).expect("a child to wait for");
            event.is_some()
        });
        if let Some(Err(said)) = self.ending.take() {
            panic!("{said}");
        }
        event.map_or(0, |event| event.status)
    }
}

/// A thread of the running process.
pub struct Joining<R> {
    pub tid: Pid,
    ending: Arc<Ending<R>>,
}

/// A second thread of the running process, which runs `f`.
pub fn thread<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Joining<R> {
    let ending = Ending::new();
    let told = ending.clone();
    let program = move || {
        told.set(outcome_of(f));
        process::exit_thread(0)
    };
    let flags = abi::CLONE_VM | abi::CLONE_FS | abi::CLONE_FILES | abi::CLONE_SIGHAND | abi::CLONE_THREAD;
    let request = CloneRequest { flags: flags.into(), ..CloneRequest::default() };
    Joining { tid: process::clone(&request, &mut program::new(program)).expect("thread"), ending }
}

impl<R> Joining<R> {
    /// Waits for the closure's result.
    pub fn join(self) -> R {
        match self.ending.came.wait_until(Sleep::Killable, deadline().map(Into::into), || self.ending.take())
        {
            Ok(Ok(result)) => result,
            Ok(Err(said)) => panic!("{said}"),
            Err(woken) => panic!("a thread hangs: {woken:?}"),
        }
    }
}

/// Waits until `done`, giving way to other tasks; a minute at most.
pub fn until(mut done: impl FnMut() -> bool) {
    let end = deadline();
    while !done() {
        assert!(Some(time::now()) < end, "waited in vain");
        // Nothing wakes it but the deadline, or a signal, which is the test's own affair.
        let _ = sched::sleep_until(time::now() + 200_000, Sleep::Killable);
    }
}

/// Does the thread with this number sleep?
pub fn is_asleep(tid: Pid) -> bool {
    let task = process::find_thread(tid).and_then(|thread| thread.task());
    task.is_some_and(|task| task.state_letter() != b'R')
}

/// A system call of the running thread, with all that comes before its return to the program.
pub fn syscall(number: u32, args: &[usize]) -> Result<usize> {
    let mut all = [0; 6];
    all.iter_mut().zip(args).for_each(|(to, from)| *to = *from);
    let result = program::syscall(number as usize, all).result();
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}
