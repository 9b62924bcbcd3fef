//! What a CPU does with no task to run: what is left to do, a look for work at other CPUs, and a halt.
//!
//! Between the look and the halt it may go on looking for a while (`Patience`): whoever gives it something meanwhile need not interrupt it, which a guest
//! of KVM pays for with an exit on either side. It does so only where the host would otherwise do the same in the guest's halt, and says that it lets it be
//! (`arch::may_poll_idle`), where the last spans without work were short, and where the host has not taken the CPU away in the last such look.
//!
//! The protocol is `sync::protocol::idle`.
#![forbid(unsafe_code)]

use super::task::current;
use super::{pending, runqueue, schedule, timer};
use crate::arch;
use sync::per_cpu;
use sync::percpu::Count;

/// The longest and the shortest look, ns: those of Linux's cpuidle-haltpoll.
const LONGEST: u64 = 200_000;
const SHORTEST: u64 = 50_000;

/// How long an idle CPU looks for work before it halts.
struct Patience {
    length: Count,
}

per_cpu! {
    static PATIENCE: Patience = Patience { length: Count::new() };
}

/// What a CPU does with no task to run; never returns.
pub fn idle_main() -> ! {
    // Before the first task: the CPU may have one to run without ever having idled.
    timer::start_tick();
    loop {
        let no_sleep = sync::lock::order::no_sleep();
        pending::run_pending();
        if runqueue::has_work() || runqueue::steal() {
            drop(no_sleep);
            schedule();
            continue;
        }
        if sync::rcu::any_ripe() {
            // Callbacks that the last round left, in parts as short as elsewhere.
            continue;
        }
        if arch::trim_stacks() {
            // Thousands of threads may have ended: others run between two batches.
            continue;
        }
        vm::frame::give_back_if_called();
        runqueue::show_idle(arch::time::now());
        if arch::may_poll_idle() {
            look_and_halt();
        } else {
            halt();
        }
        runqueue::show_busy();
    }
}

/// Halts, unless there is work.
fn halt() {
    timer::prepare_idle();
    // Work that came between the look and what is shown: `protocol::idle`.
    if runqueue::show_halt() && !runqueue::has_work() {
        sync::rcu::idle_enter();
        arch::idle_wait(|| runqueue::has_work() || current().work_pending());
        runqueue::end_halt();
        sync::rcu::idle_exit();
        if !runqueue::has_work() {
            // Nothing came but a deadline, perhaps that for RCU: callbacks need not wait for more to come.
            sync::rcu::hurry();
        }
    }
    timer::start_tick();
}

/// Looks for work for a while, and halts if there is none.
fn look_and_halt() {
    let length = &PATIENCE.this().length;
    let (since, stolen) = (arch::time::now(), arch::stolen_here_ns());
    let is_given = length.get() != 0 && look(since + length.get());
    let others_want_it = arch::stolen_here_ns() != stolen;
    if !is_given {
        halt();
    }
    length.set(if others_want_it { 0 } else { after(length.get(), arch::time::now() - since) });
}

/// Looks for work until `end`. Has the CPU been given something?
fn look(end: u64) -> bool {
    let is_given = || runqueue::has_work() || current().work_pending() || !runqueue::shows_idle();
    sync::rcu::idle_enter();
    while !is_given() && arch::time::now() < end {
        core::hint::spin_loop();
    }
    sync::rcu::idle_exit();
    is_given()
}

/// How long to look after a span of `span` ns, when the look before it was to take `length`.
fn after(length: u64, span: u64) -> u64 {
    if span > LONGEST {
        0
    } else if span > length {
        (2 * length).clamp(SHORTEST, LONGEST)
    } else {
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_looks_as_long_as_it_mostly_waits_and_not_at_all_where_that_is_long() {
        let after_all = |spans: &[u64]| spans.iter().fold(0, |length, span| after(length, *span));
        assert_eq!(after_all(&[1_000_000; 3]), 0);
        assert_eq!(after_all(&[10_000; 10]), SHORTEST);
        assert_eq!(after_all(&[120_000; 10]), LONGEST);
        assert_eq!(after_all(&[10_000, 10_000, LONGEST + 1]), 0);
    }
}
