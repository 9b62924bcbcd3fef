//! Waiting for a grace period in a thread.

use super::callback::{self, Call, RawHead};
use super::{OWN, PERIOD, get_on, quiescent};
use crate::machine::{self, CpuId};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// Tries before the thread sleeps: enough if the other CPUs idle.
const TRIES: u32 = 8;

/// Waits until every read section that is under way has ended. Sleeps; no spinning lock is held. Runs no callbacks, so
/// sleeping locks may be held that callbacks take.
#[track_caller]
pub fn synchronize() {
    crate::lock::order::assert_may_sleep();
    let tag = PERIOD.tag();
    let mut tries = 0;
    while !PERIOD.is_over(tag) {
        if cfg!(target_os = "none") && tries == TRIES {
            return sleep_for_period();
        }
        tries += 1;
        quiescent();
        get_on(OWN.this(), tag, machine::cycles());
        machine::relax();
    }
}

/// Sleeps for a grace period, also where one would end at once: for who waits for threads that may have to run on this CPU, whatever their priority. As
/// [`synchronize`] otherwise. Hosted, it only lets others run.
#[track_caller]
pub fn sleep_a_period() {
    if cfg!(target_os = "none") {
        crate::lock::order::assert_may_sleep();
        sleep_for_period();
    } else {
        synchronize();
        machine::relax();
    }
}

/// Sleeps until a callback queued now is called, by whoever polls on this CPU.
fn sleep_for_period() {
    const WAITING: u32 = 0;
    const WAKING: u32 = 1;
    const OVER: u32 = 2;
    struct Wait {
        head: RawHead,
        token: usize,
        state: AtomicU32,
    }
    /// # Safety
    /// `wait` is the `Wait` below.
    unsafe fn wake(wait: *mut ()) {
        // SAFETY: the waiter and its thread stay until the state is OVER.
        let wait = unsafe { &*wait.cast::<Wait>() };
        wait.state.store(WAKING, Ordering::Release);
        machine::unpark(wait.token);
        wait.state.store(OVER, Ordering::Release);
    }
    let wait = Wait { head: RawHead::new(), token: machine::park_token(), state: AtomicU32::new(WAITING) };
    let call = Call { object: (&raw const wait).cast_mut().cast(), function: wake };
    // SAFETY: `wait` stays in place until `wake` is done with it, which the loops below wait for.
    unsafe { callback::queue(NonNull::from(&wait.head), call) };
    callback::want_all();
    while wait.state.load(Ordering::Acquire) == WAITING {
        hasten();
        machine::park();
    }
    while wait.state.load(Ordering::Acquire) != OVER {
        machine::relax();
    }
}

/// Interrupts the CPU that holds up the period: somebody waits.
fn hasten() {
    let own = OWN.this();
    if own.stuck_at.get() == PERIOD.number() {
        own.kicked.add(1);
        machine::kick(own.laggard.get() as CpuId);
    }
}
