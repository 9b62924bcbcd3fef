//! A task whose group has had its quota waits for the next period, on its way to user mode alone: there it holds no lock that others wait for.
//!
//! It sleeps with its own timer, and looks anew when that goes off: so nobody keeps a list of those who wait, and no group has to be there meanwhile. A fatal signal
//! ends the wait.
#![forbid(unsafe_code)]

use super::runqueue;
use super::task::{Task, current};
use super::wait::{Sleep, Woken, sleep_alone};
use super::work::Work;
use crate::arch;
use sync::level::Held;

/// The running task is about to go to user mode, and its group may have a quota. Sleeps until something is left of it.
#[cold]
pub fn wait_for_quota() {
    let task = current();
    task.work.clear(Work::QUOTA);
    let Some(mut until) = runqueue::wait_for_quota() else { return };
    let began = arch::time::now();
    task.set_throttled(true);
    let may_run = || runqueue::wait_for_quota().is_none().then_some(());
    while let Err(Woken::Timeout) = sleep_alone(Sleep::Killable, Some(until.into()), may_run) {
        match runqueue::wait_for_quota() {
            Some(next) => until = next,
            None => break,
        }
    }
    task.set_throttled(false);
    runqueue::count_throttled(arch::time::now().saturating_sub(began));
}

/// The quota of the group that `task` is in has changed: it looks before it is next in user mode. Does not sleep.
pub fn quota_changed(task: &Task) {
    runqueue::expect_quota(task);
    if task.is_throttled() {
        task.wake_in(Held::clean().lower());
    }
}
