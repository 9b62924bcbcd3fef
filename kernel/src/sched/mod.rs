//! The scheduler: which thread runs on which CPU, and how threads wait.
//!
//! * `task`      the scheduler's thread: state, kernel stack, registers, times; `affinity` where it may run; `policy` its share;
//!   `work` what waits to be done for it
//! * `deadline`  who goes first: run times in periods; `realtime` who goes next: priorities; `fair` whose turn it is among all others: virtual deadlines
//! * `group`     tasks that have a share together
//! * `throttle`  who waits because its group has had its quota
//! * `partner`   who takes turns with another
//! * `runqueue`  one queue per CPU; wake-up, placement, preemption, balance between CPUs
//! * `switch`    from one task to the next on this CPU; birth and death of tasks; `idle` what a CPU does that has none
//! * `wait`      wait queues; `timer` deadlines; `futex` waiting on user memory
//! * `depth`     how deep stacks get
//! * `cpustat`   what each CPU's time went to; `loadavg` how many tasks want one
//! * `latency`   how long CPUs do not give way; `stall` says when that is too long
//! * `pending`   what interrupt handlers leave to be done by threads (bottom halves)
//!
//! Kernel code is not preempted: a task gives the CPU up in `schedule`, which it calls itself (sleep, yield) or on its way
//! back to user mode. Interrupt handlers only raise `pending` bits. So no lock here disables interrupts.
//!
//! LockOrder: wait queue, futex bucket or timer queue → run queue. Two run queues are never held at once.
//! CountLocal: waking, sleeping and switching on one CPU write only that CPU's queue and the tasks themselves.

mod affinity;
mod clock;
mod cpustat;
pub mod deadline;
#[cfg(feature = "lockdep")]
pub mod depth;
mod fair;
pub mod futex;
pub mod group;
mod idle;
pub mod latency;
mod loadavg;
mod partner;
pub mod pending;
#[cfg(target_os = "none")]
mod plant;
mod policy;
mod realtime;
mod report;
mod runqueue;
mod stall;
mod switch;
mod task;
mod throttle;
mod timer;
mod wait;
mod work;

use crate::arch::interrupts::Interrupted;
use crate::trace::sample;
pub use affinity::is_everywhere;
pub use cpustat::{CpuTimes, ever_born, last_born, switches_of, taken_of, times_of};
pub use group::{Group, Membership};
pub use idle::idle_main;
pub use loadavg::load_averages;
pub use pending::{Pending, run_pending};
#[cfg(target_os = "none")]
pub use plant::{booted, plant};
pub use policy::{Policy, Schedule};
pub use realtime::settings as realtime_settings;
pub use runqueue::{load_of, look_at_queue, moves_of};
pub use switch::{
    NewTask, clone_fpu, copy_vector_registers, exit_current, find_place_for_exec, init_cpu, leave_space,
    new_user, replace_space, reset_for_exec, schedule, sleep_until, spawn, start, yield_now,
};
pub use task::{Current, Task, TaskLink, Times, current, try_current};
pub use throttle::{quota_changed, wait_for_quota};
pub use timer::{
    ClockBase, Deadline, Expire, TimeClock, Timer, TimerSetting, clock_runs_faster, forward,
    wall_clock_was_set,
};
pub use wait::{PollSet, Sleep, WaitQueue, Woken};
pub use work::Work;

/// Called by `arch` on this CPU's timer interrupt, with interrupts disabled.
pub fn timer_interrupt(interrupted: Interrupted) {
    // First, so that nothing is kept for it while the rest is done.
    if sample::is_on() {
        take_sample(interrupted);
    }
    let from_user = interrupted == Interrupted::User;
    if let Some(task) = try_current() {
        task.count_tick(from_user);
    }
    if from_user {
        // No kernel code of this CPU can be in a read section.
        sync::rcu::quiescent();
    }
    pending::raise(Pending::Timer);
    latency::ticked(interrupted);
}

/// Samples where a tick found this CPU.
#[cold]
#[inline(never)]
fn take_sample(interrupted: Interrupted) {
    if let Some(period) = sample::period() {
        let thread = try_current().and_then(|task| task.thread.as_ref().map(|thread| thread.tid()));
        sample::take(interrupted, thread.unwrap_or(0), period);
    }
}

/// Called by `arch` on a reschedule interrupt, with interrupts disabled.
pub fn reschedule_interrupt() {
    pending::raise(if timer::take_clock_was_set() { Pending::Timer } else { Pending::Reschedule });
}

/// Gives the CPU up if another task should run. For long kernel work, at points where no lock is held.
pub fn schedule_if_needed() {
    if current().work.any(Work::RESCHED | Work::PENDING) {
        run_pending();
        if current().work.any(Work::RESCHED) {
            schedule_in_call();
        }
    }
}

/// Gives the CPU up in the middle of a call. The thread may have sleeping locks: if it has a deadline it is not throttled here.
#[cold]
fn schedule_in_call() {
    let task = current();
    let deadline = task.deadline.get();
    if let Some(entity) = deadline {
        entity.hold(true);
    }
    schedule();
    if let Some(entity) = deadline {
        entity.hold(false);
    }
}

/// For loops whose length a program chooses, where no lock is held but sleeping ones: gives the CPU up if another task should run.
/// True: a fatal signal has come, and the caller ends early; nobody sees what it returns.
#[inline]
#[must_use]
pub fn give_way() -> bool {
    if current().work.any(Work::RESCHED | Work::PENDING | Work::KILL) {
        schedule_if_needed();
        return current().work.any(Work::KILL);
    }
    false
}

/// A task whose sleeping lock was handed over goes on; see `sync::machine`.
#[cfg(target_os = "none")]
mod hooks {
    use super::{Work, switch, task};
    use crate::arch;

    #[unsafe(no_mangle)]
    extern "Rust" fn __darter_park_token() -> usize {
        task::current_address()
    }

    #[unsafe(no_mangle)]
    extern "Rust" fn __darter_park() {
        switch::park();
    }

    #[unsafe(no_mangle)]
    unsafe extern "Rust" fn __darter_unpark(token: usize) {
        // SAFETY: as the caller says.
        unsafe { switch::unpark(token) };
    }

    /// The sleeping locks that the running thread holds.
    #[cfg(feature = "lockdep")]
    #[unsafe(no_mangle)]
    extern "Rust" fn __darter_thread_locks() -> *const sync::lock::order::HeldLocks {
        task::try_current().map_or(core::ptr::null(), |task| &raw const task.locks)
    }

    #[unsafe(no_mangle)]
    extern "Rust" fn __darter_give_way() -> bool {
        super::give_way()
    }

    #[unsafe(no_mangle)]
    extern "Rust" fn __darter_should_give_way() -> bool {
        super::current().work.any(Work::RESCHED | Work::PENDING)
    }

    #[unsafe(no_mangle)]
    extern "Rust" fn __darter_task_policy(show: &mut dyn FnMut(&vm::policy::TaskPolicy)) {
        if let Some(task) = task::try_current()
            && let Some(thread) = &task.thread
        {
            show(&thread.memory_policy);
        }
    }

    #[unsafe(no_mangle)]
    extern "Rust" fn __darter_kick(cpu: u32) {
        arch::send_reschedule(cpu);
    }
}

/// The same for the hosted `arch`.
#[cfg(not(target_os = "none"))]
pub mod hosted {
    pub(crate) use super::switch::{park, unpark};
    pub(crate) use super::task::current_address as park_token;
}
