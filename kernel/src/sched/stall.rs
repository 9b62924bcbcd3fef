//! The watch over stalls: what does not get on for a second is said on the console, once.
//!
//! * A CPU that has not given way. Its own ticks see it ([`look`]). The time counted is that which the CPU has surely run, so a
//!   host that does not let it run is no stall; on such a host a stall is told later.
//! * A grace period that does not end. The CPU that tries to end it sees it ([`look_at_grace_period`]), if it has itself run for a
//!   second meanwhile, and in a second thereafter the CPU that holds the period up has run for a second as well, or has not had a tick at all: then
//!   it may have interrupts off, and is asked by the interrupt that cannot be masked. It says so if it has; if not, the host may not have let it run, and it
//!   has a second more for its tick. In the first second nothing of the other CPU is read.
//! * A spinning lock that is held or waited for makes its CPU one of the first kind; the report says which lock.
//! * So does another CPU that does not take up a call (a flush of its TLB): the report names it, and it is asked where it is as above.
//!
//! `darter run` repeats what was said if the machine fails.
#![forbid(unsafe_code)]

use super::latency::{self, Stretch};
use core::sync::atomic::{AtomicU32, Ordering};
use sync::percpu::Count;
use sync::{CpuId, per_cpu};

/// What is too long, ns.
const TOO_LONG: u64 = 1_000_000_000;
/// Reports since boot after which the watch is silent: the console is for others too.
const MOST: u32 = 16;

static SAID: AtomicU32 = AtomicU32::new(0);

struct Own {
    /// The stretch that was last told of, by its beginning.
    told: Count,
    /// The grace period that is late; how long this CPU had run when that was first seen or, with `watches`, how long it and the one that holds it
    /// up had run when this CPU began to watch that one; and whether it was told of.
    period: Count,
    watches: Count,
    ran: Count,
    other_ran: Count,
    told_period: Count,
}

per_cpu! {
    static OWN: Own = Own {
        told: Count::new(),
        period: Count::new(),
        watches: Count::new(),
        ran: Count::new(),
        other_ran: Count::new(),
        told_period: Count::new(),
    };
}

/// Whether one more report may be made.
fn may_say() -> bool {
    SAID.load(Ordering::Relaxed) < MOST && SAID.fetch_add(1, Ordering::Relaxed) < MOST
}

/// A tick has interrupted `stretch`. In the interrupt handler.
pub(super) fn look(stretch: Stretch) {
    let own = OWN.this();
    if stretch.ran < TOO_LONG || own.told.get() == stretch.begun {
        return;
    }
    own.told.set(stretch.begun);
    if may_say() {
        say::cpu(&stretch);
    }
}

/// Is a grace period late that this CPU tries to end? In thread context, at a tick.
pub(super) fn look_at_grace_period() {
    let Some(late) = sync::rcu::late() else { return };
    let own = OWN.this();
    let ran = latency::ran(sync::cpu_id());
    if own.period.get() != late.number {
        own.period.set(late.number);
        own.watches.set(0);
        own.ran.set(ran);
        return;
    }
    if ran.saturating_sub(own.ran.get()) < TOO_LONG {
        return;
    }
    let other_ran = latency::ran(late.by);
    let (here, there) = (ran.saturating_sub(own.ran.get()), other_ran.saturating_sub(own.other_ran.get()));
    let watches = own.watches.get();
    if watches != 0 && (own.told_period.get() == late.number || !is_stall(here, there)) {
        return;
    }
    if watches == 0 || (watches == 1 && there == 0) {
        own.watches.set(watches + 1);
        own.ran.set(ran);
        own.other_ran.set(other_ran);
        if watches == 1 && may_say() {
            say::if_masked(late.number, late.by);
        }
        return;
    }
    own.told_period.set(late.number);
    if may_say() {
        say::period(late.number, late.by);
    }
}

/// A period is late, this CPU has run for `here` since it was first seen to be, and the CPU that holds it up for `there`.
fn is_stall(here: u64, there: u64) -> bool {
    here >= TOO_LONG && (there >= TOO_LONG || there == 0)
}

#[cfg(target_os = "none")]
mod say {
    use super::{CpuId, Stretch};
    use crate::arch;
    use crate::report::{self, Console};
    use core::fmt::Write;

    pub fn cpu(stretch: &Stretch) {
        let other = arch::waited_for();
        report::in_turn(|| {
            let (cpu, ms) = (sync::cpu_id(), stretch.ran / 1_000_000);
            let _ =
                writeln!(Console, "\nstall: CPU {cpu} has not given way for {ms} ms, in {}", stretch.kind);
            report::place(stretch.pc, stretch.frame);
            if let Some(other) = other {
                let _ = writeln!(Console, "  waits for CPU {other} to take up a call");
            }
            let _ = writeln!(Console, "end of stall");
        });
        if let Some(other) = other {
            report::ask(other, None);
        }
    }

    pub fn period(number: u64, by: CpuId) {
        report::in_turn(|| report::late_period(number, by));
        report::ask(by, None);
    }

    pub fn if_masked(number: u64, by: CpuId) {
        report::ask(by, Some(number));
    }
}

/// A test's machine has no console.
#[cfg(not(target_os = "none"))]
mod say {
    pub fn cpu(_: &super::Stretch) {}
    pub fn period(_: u64, _: super::CpuId) {}
    pub fn if_masked(_: u64, _: super::CpuId) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_grace_period_is_a_stall_only_if_the_host_let_both_cpus_run_or_one_takes_no_interrupts() {
        assert!(is_stall(TOO_LONG, TOO_LONG));
        assert!(is_stall(TOO_LONG, 0));
        assert!(!is_stall(TOO_LONG, TOO_LONG / 10), "the host let the other one run now and then");
        assert!(!is_stall(TOO_LONG / 2, 0), "this CPU has not run long enough to say");
    }
}
