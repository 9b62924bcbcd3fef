//! Does a process run, and what has its parent not waited for yet? `State::run` says so, under the signals' lock.
//!
//! ```text
//!         a thread takes a stop signal         it stops the process
//!   Runs ------------------------------> Stopping ----------------> Stopped
//!     ^------------ SIGCONT ----------------+---------- SIGCONT -------+
//! ```
#![forbid(unsafe_code)]

use super::{Signals, State};
use crate::sched::Sleep;
use core::sync::atomic::{AtomicBool, Ordering};
use sync::{Count, per_cpu};

/// Does the process run?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    Runs,
    /// One of its threads has taken a signal that stops, and is about to stop the process unless SIGCONT comes before.
    Stopping,
    Stopped,
}

per_cpu! {
    /// Processes that were stopped here less those that were continued here: while their sum is 0, nobody looks for orphaned stopped groups.
    static STOPPED: Count = Count::new();
}

/// A process has been stopped since the boot. Until then nobody adds up.
static EVER: AtomicBool = AtomicBool::new(false);

pub fn any_stopped() -> bool {
    EVER.load(Ordering::Relaxed) && STOPPED.sum() != 0
}

impl Signals {
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn set_stopped(&self, state: &mut State, to: bool) {
        let was = state.run == Run::Stopped;
        state.run = if to { Run::Stopped } else { Run::Runs };
        if was != to {
            if to {
                // Before it is seen to be stopped. 0 is no stop.
                let stops = self.stops.load(Ordering::Relaxed).wrapping_add(1).max(1);
                self.stops.store(stops, Ordering::Relaxed);
            }
            self.stopped.store(to, Ordering::SeqCst);
            if to {
                STOPPED.this().add(1);
                crate::process::set_flag(&EVER, true);
            } else {
                STOPPED.this().sub(1);
            }
        }
    }

    /// A stopped thread goes on: its process was continued, or the thread was `killed`. True: it is the one that tells the parent of a
    /// continuation.
    pub(super) fn go_on(&self, killed: bool) -> bool {
        let mut state = self.state.lock();
        // A thread that only makes room for another's exec leaves the process stopped.
        if state.exit.is_some() || (killed && state.exec.is_none()) {
            self.set_stopped(&mut state, false);
        }
        core::mem::take(&mut state.tell_continued)
    }

    /// The number of the stop that it is in, or was in last.
    pub fn stops(&self) -> u32 {
        self.stops.load(Ordering::Relaxed)
    }

    /// The signal that stopped it last.
    pub fn stop_signal(&self) -> u32 {
        self.stop_signal.load(Ordering::Relaxed)
    }

    /// The running thread sleeps until `goes` or a fatal signal; it looks whenever stopped threads do.
    pub fn wait_resumed(&self, goes: impl FnMut() -> Option<()>) {
        let _ = self.resumed.wait_shared(Sleep::Killable, None, goes);
    }

    /// Lets stopped threads look again.
    pub fn wake_stopped(&self) {
        self.resumed.wake_all();
    }

    /// The signal that stopped the process, if the parent has not waited for it yet. With `leave` it can be waited for again.
    pub fn take_stop(&self, leave: bool) -> Option<u32> {
        let signal = if leave {
            self.stop_event.load(Ordering::Relaxed)
        } else {
            self.stop_event.swap(0, Ordering::Relaxed)
        };
        (signal != 0).then_some(signal)
    }

    /// Has the process been continued, and the parent not waited for that yet? `leave` as above.
    pub fn take_continue(&self, leave: bool) -> bool {
        if leave {
            self.continue_event.load(Ordering::Relaxed)
        } else {
            self.continue_event.swap(false, Ordering::Relaxed)
        }
    }
}
