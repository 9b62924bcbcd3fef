//! Who decides of calls instead of a filter (seccomp_unotify(2)): a thread whose call a filter leaves to the listener tells of it and sleeps until it is answered.
//!
//! ```text
//!   New ---- told to who listens ----> Sent ---- answered ----> Answered: the thread goes on
//!    ^                                  |
//!    +---- he could not take it --------+          the listener is closed, or a signal comes: the thread goes on at once
//! ```
//!
//! A filter leads to its listener, and so does the descriptor (`file`). The filter's end is seen by who listens; the descriptor's by the threads that wait: their
//! calls are ENOSYS, as those made later are.
//!
//! LockOrder: the listener's state is innermost; nobody is woken and nothing dropped under it.
#![forbid(unsafe_code)]

mod file;
mod waiting;

pub use file::open;
use waiting::{AllWaiting, Phase, Waiting};

use super::Call;
use crate::errno::{ERESTARTSYS, Errno, Result};
use crate::fs::file::File;
use crate::fs::file::poll::PollQueue;
use crate::lock_order as level;
use crate::process::current;
use crate::process::limits::limit_now;
use crate::sched::{self, Sleep, WaitQueue, Work, give_way};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use linux_raw_sys::general as abi;
use sync::{SpinLock, lock_class, try_arc};

lock_class! { static LISTENER: LockClass = ("seccomp listener", level::SeccompListener); }

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is made after all.
    IsMade,
    Returns(isize),
}

/// A descriptor that the thread which waits is to enter among its own.
struct Gift {
    file: Arc<File>,
    /// In place of this one.
    at: Option<i32>,
    close_on_exec: bool,
    /// Its number answers the call, too.
    answers: bool,
    outcome: Arc<Outcome>,
}

/// What became of a gift: the descriptor's number, or an errno below zero.
struct Outcome(AtomicI64);

impl Outcome {
    const NONE: i64 = i64::MIN;

    fn set(&self, given: Result<i32>) {
        let word = given.map_or_else(|errno| i64::from(errno.0).wrapping_neg(), i64::from);
        self.0.store(word, Ordering::SeqCst);
    }

    fn get(&self) -> Option<Result<i32>> {
        match self.0.load(Ordering::SeqCst) {
            Self::NONE => None,
            word @ 0.. => Some(Ok(word as i32)),
            word => Some(Err(Errno(word.unsigned_abs() as _))),
        }
    }
}

struct State {
    is_open: bool,
    waiting: AllWaiting,
}

pub struct Listener {
    state: SpinLock<State, level::SeccompListener>,
    /// No thread has the filter any more.
    is_lonely: AtomicBool,
    /// A call that was told of ends by a fatal signal alone.
    kills: bool,
    /// Calls come, go and are told of.
    changed: PollQueue,
}

/// What the thread that waits is to do.
enum Step {
    Ends(Answer),
    Takes(Gift),
    /// It was told of: from now on a fatal signal alone ends this.
    IsSent,
}

impl Listener {
    pub fn try_new(kills: bool) -> Result<Arc<Listener>> {
        let state = State { is_open: true, waiting: AllWaiting::new() };
        Ok(try_arc(Listener {
            state: SpinLock::new(state, &LISTENER),
            is_lonely: AtomicBool::new(false),
            kills,
            changed: PollQueue::new(),
        })?)
    }

    pub fn is_open(&self) -> bool {
        self.state.lock().is_open
    }

    /// Its filter is gone.
    #[inline(never)]
    pub fn filter_ends(&self) {
        self.is_lonely.store(true, Ordering::SeqCst);
        self.changed.wake();
    }

    /// The running thread leaves its call to who listens. Sleeps.
    pub fn decide(&self, call: Call) -> Answer {
        const NOBODY: Answer = Answer::Returns((Errno::ENOSYS.0 as isize).wrapping_neg());
        let Ok(queue) = try_arc(WaitQueue::new()) else { return NOBODY };
        let id = {
            let mut state = self.state.lock();
            if !state.is_open {
                return NOBODY;
            }
            let Ok(id) = state.waiting.add(current().tid(), call, queue.clone()) else { return NOBODY };
            id
        };
        self.changed.wake_and_give_way();
        let answer = self.wait(id, &queue, NOBODY);
        let left = self.state.lock().waiting.take_out(id);
        drop(left);
        // Who gives it something learns that it is gone.
        self.changed.wake_and_give_way();
        answer
    }

    fn wait(&self, id: u64, queue: &WaitQueue, nobody: Answer) -> Answer {
        let mut how = Sleep::Interruptible;
        loop {
            let waits_for_kill = how == Sleep::Killable;
            let step = queue.wait_until(how, None, || self.step(id, waits_for_kill, nobody));
            match step {
                Ok(Step::Ends(answer)) => return answer,
                Ok(Step::Takes(gift)) => self.take(id, gift),
                Ok(Step::IsSent) => how = Sleep::Killable,
                Err(_) => {
                    // It may have been answered, or told of, just now.
                    match self.step(id, waits_for_kill, nobody) {
                        Some(Step::Ends(answer)) => return answer,
                        Some(Step::IsSent) if !waits_for_kill => how = Sleep::Killable,
                        _ => {
                            // The way out sees to it that the call is made anew.
                            sched::current().work.set(Work::SIGNAL);
                            return Answer::Returns((ERESTARTSYS.0 as isize).wrapping_neg());
                        }
                    }
                }
            }
        }
    }

    fn step(&self, id: u64, waits_for_kill: bool, nobody: Answer) -> Option<Step> {
        let mut state = self.state.lock();
        let is_open = state.is_open;
        let Ok(waiting) = state.waiting.find(id) else { return Some(Step::Ends(nobody)) };
        if let Some(gift) = waiting.gift.take() {
            return Some(Step::Takes(gift));
        }
        match waiting.phase() {
            Phase::Answered(answer) => Some(Step::Ends(answer)),
            _ if !is_open => Some(Step::Ends(nobody)),
            Phase::Sent if self.kills && !waits_for_kill => Some(Step::IsSent),
            _ => None,
        }
    }

    /// Enters a file among the running thread's own.
    fn take(&self, id: u64, gift: Gift) {
        let limit = usize::try_from(limit_now(abi::RLIMIT_NOFILE)).unwrap_or(usize::MAX);
        let thread = current();
        let files = thread.files();
        let Gift { file, at, close_on_exec, answers, outcome } = gift;
        let given = match at {
            None => files.duplicate(file, 0, limit, close_on_exec),
            Some(fd) => files.duplicate_at(file, fd, limit, close_on_exec).map(|()| fd),
        };
        {
            let mut state = self.state.lock();
            if let Ok(waiting) = state.waiting.find(id) {
                waiting.is_given = false;
            }
            if let Ok(fd) = given
                && answers
            {
                // It has gone, where there is none.
                let _ = state.waiting.set_phase(id, Phase::Answered(Answer::Returns(fd as isize)));
            }
        }
        // Before the call ends: who gave it is to see this, and not that the thread has gone.
        outcome.set(given);
        self.changed.wake_and_give_way();
    }

    /// Nobody listens any more. Gives way.
    fn close(&self) {
        self.state.lock().is_open = false;
        // None comes from now on, and so no place.
        let places = self.state.lock().waiting.places();
        for place in 0..places {
            let thread = self.state.lock().waiting.at(place).map(|waiting| waiting.thread.clone());
            if let Some(thread) = thread {
                thread.wake_all();
            }
            // The end of a file is not ended early.
            let _ = give_way();
        }
        self.changed.wake_and_give_way();
    }
}
