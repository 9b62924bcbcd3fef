//! The longest time that each CPU spent in the kernel without giving way, by what it did there. For /proc/latency and for the watch
//! over stalls ([`stall`](super::stall)).
//!
//! A CPU *gives way* where it looks whether another thread should run: at `schedule`, `run_pending`, and on its way to user mode.
//! What it does between two such points is a *stretch*. Calls are not timed: nothing is written at their begin or end. A tick that
//! interrupts the kernel notes when it came and what runs; the next point at which the CPU gives way sees that there was a tick,
//! and takes the time since then. So a figure lacks what the stretch ran before its first tick: at most the time between two ticks,
//! which `latency` on the kernel's command line makes short. A CPU that does not give way goes on to tick.
//!
//! CountLocal: a CPU writes its own figures alone, at ticks.
#![forbid(unsafe_code)]

use super::task::try_current;
use super::{stall, timer};
use crate::arch;
use crate::arch::interrupts::{Entered, Interrupted};
use core::sync::atomic::{AtomicU64, Ordering};
use sync::percpu::Count;
use sync::{CpuId, per_cpu};

/// System calls that are told apart: as many as Linux has numbers, and some.
const CALLS: usize = 480;
/// What is no call.
const EXCEPTION: usize = CALLS;
const RETURN: usize = CALLS + 1;
const EXIT: usize = CALLS + 2;
const THREAD: usize = CALLS + 3;
const HALVES: usize = CALLS + 4;
const KINDS: usize = CALLS + 5;

/// What a stretch belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The system call of this number.
    Call(usize),
    /// An exception of a program: mostly a page fault.
    Exception,
    /// The way to user mode: signals, and what exec replaced.
    Return,
    /// The end of a thread.
    Exit,
    /// A kernel thread, or the idle loop.
    Thread,
    /// Bottom halves and RCU callbacks, a batch.
    Halves,
}

impl Kind {
    #[cfg(feature = "lockdep")]
    pub const COUNT: usize = KINDS;

    pub const fn of(index: usize) -> Kind {
        match index {
            EXCEPTION => Kind::Exception,
            RETURN => Kind::Return,
            EXIT => Kind::Exit,
            THREAD => Kind::Thread,
            HALVES => Kind::Halves,
            number => Kind::Call(number),
        }
    }

    /// Its place among all.
    #[cfg(any(test, feature = "lockdep"))]
    pub const fn index(self) -> usize {
        match self {
            Kind::Exception => EXCEPTION,
            Kind::Return => RETURN,
            Kind::Exit => EXIT,
            Kind::Thread => THREAD,
            Kind::Halves => HALVES,
            Kind::Call(number) if number < CALLS => number,
            Kind::Call(_) => CALLS - 1,
        }
    }
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Kind::Call(number) => write!(f, "call {number}"),
            Kind::Exception => write!(f, "exception"),
            Kind::Return => write!(f, "return"),
            Kind::Exit => write!(f, "exit"),
            Kind::Thread => write!(f, "thread"),
            Kind::Halves => write!(f, "halves"),
        }
    }
}

/// The longest stretch of one kind.
struct Longest {
    ns: Count,
    /// Where its last tick found it.
    pc: Count,
}

/// A CPU's time as its own ticks tell it, and the stretch that it is in.
struct Own {
    /// When the last tick came, ns.
    ticked: Count,
    /// How long the CPU has run since boot, ns, as far as it can be sure of it: see [`passed`].
    ran: Count,
    /// When the first tick of this stretch came, ns; 0: there was none.
    since: Count,
    ran_since: Count,
    kind: Count,
    pc: Count,
    /// The CPU does bottom halves just now.
    in_halves: Count,
}

per_cpu! {
    static LONGEST: [Longest; KINDS] = [const { Longest { ns: Count::new(), pc: Count::new() } }; KINDS];
    static OWN: Own = Own {
        ticked: Count::new(),
        ran: Count::new(),
        since: Count::new(),
        ran_since: Count::new(),
        kind: Count::new(),
        pc: Count::new(),
        in_halves: Count::new(),
    };
}

/// Nanoseconds between ticks of a busy CPU.
static TICK: AtomicU64 = AtomicU64::new(USUAL_TICK);
/// The same while no samples are taken.
static OWN_TICK: AtomicU64 = AtomicU64::new(USUAL_TICK);
const USUAL_TICK: u64 = 10_000_000;
const SHORT_TICK: u64 = 100_000;
/// The same where somebody waits for the CPU: Linux's.
const CONTENDED_TICK: u64 = 4_000_000;

/// Nanoseconds between ticks of a busy CPU.
#[inline]
pub fn tick_ns() -> u64 {
    TICK.load(Ordering::Relaxed)
}

/// Nanoseconds between ticks of a CPU that somebody waits for.
#[inline]
pub fn contended_tick_ns() -> u64 {
    tick_ns().min(CONTENDED_TICK)
}

/// Takes the word `latency` of the kernel's command line: ticks ten times a millisecond, so that figures are exact to that.
pub fn configure(command_line: &str) {
    if command_line.split_ascii_whitespace().any(|word| word == "latency") {
        TICK.store(SHORT_TICK, Ordering::Relaxed);
        OWN_TICK.store(SHORT_TICK, Ordering::Relaxed);
    }
}

/// Has busy CPUs tick every so many nanoseconds at least, from their next tick on, for samples; None: as if there were none.
pub fn tick_for_samples(period: Option<u64>) {
    let own = OWN_TICK.load(Ordering::Relaxed);
    TICK.store(period.map_or(own, |period| period.min(own)), Ordering::Relaxed);
}

/// How much of the `wall` time between two ticks the CPU has surely run. A host that has more virtual CPUs than processors lets each
/// run now and then: such a CPU finds its ticks late, and may have run for a slice alone.
fn passed(wall: u64, tick: u64) -> u64 {
    if wall <= 2 * tick { wall } else { tick / 4 }
}

/// A tick, in the interrupt handler.
pub(super) fn ticked(interrupted: Interrupted) {
    let (own, now, tick) = (OWN.this(), arch::time::now(), tick_ns());
    let wall = now.saturating_sub(own.ticked.get());
    own.ticked.set(now);
    own.ran.add(passed(wall, tick));
    let Interrupted::Kernel { pc, frame } = interrupted else { return };
    if arch::is_idle_at(pc) {
        return;
    }
    own.pc.set(pc as u64);
    if own.since.get() == 0 {
        own.kind.set(kind(own) as u64);
        own.ran_since.set(own.ran.get());
        own.since.set(now.max(1));
    }
    // The timer is set anew where the CPU gives way (`timer::tick`), which may be long hence.
    timer::set_tick_in_kernel(now + tick);
    stall::look(Stretch {
        kind: Kind::of(own.kind.get() as usize),
        ran: own.ran.get() - own.ran_since.get(),
        begun: own.since.get(),
        pc,
        frame,
    });
}

/// What the tick has interrupted.
fn kind(own: &Own) -> usize {
    if own.in_halves.get() != 0 {
        return HALVES;
    }
    let Some(task) = try_current() else { return THREAD };
    if task.thread.is_none() {
        return THREAD;
    }
    if task.leaves() {
        return EXIT;
    }
    match arch::entered_by() {
        Entered::Call(number) => number.min(CALLS - 1),
        Entered::Exception => EXCEPTION,
        Entered::Other => RETURN,
    }
}

/// The CPU gives way, and a tick has come since it last did.
#[cold]
pub(super) fn gave_way(now: u64) {
    let own = OWN.this();
    let since = own.since.get();
    if since != 0 {
        own.since.set(0);
        note(own.kind.get() as usize, now.saturating_sub(since), own.pc.get());
    }
}

fn note(kind: usize, ns: u64, pc: u64) {
    if let Some(longest) = LONGEST.this().get(kind)
        && longest.ns.max(ns)
    {
        longest.pc.set(pc);
    }
}

/// Bottom halves begin or end on this CPU.
#[inline]
pub(super) fn in_halves(are: bool) {
    OWN.this().in_halves.set(u64::from(are));
}

/// Does this CPU do bottom halves just now?
pub(super) fn are_in_halves() -> bool {
    OWN.this().in_halves.get() != 0
}

/// A batch of bottom halves began at `began`.
pub(super) fn halves_took(began: u64) {
    note(HALVES, arch::time::now().saturating_sub(began), 0);
}

/// A stretch that has seen a tick.
pub(super) struct Stretch {
    pub kind: Kind,
    /// How long the CPU has surely run in it, ns.
    pub ran: u64,
    /// When its first tick came, ns: what tells it from the next.
    pub begun: u64,
    pub pc: usize,
    pub frame: usize,
}

/// How long `cpu` has surely run since boot, ns.
pub(super) fn ran(cpu: CpuId) -> u64 {
    OWN.of(cpu).ran.get()
}

/// The longest stretch of one kind on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    pub cpu: CpuId,
    pub kind: Kind,
    pub ns: u64,
    /// Where its last tick found it; 0: it had none.
    pub pc: usize,
}

/// Calls `f` with the figures of `cpu` that are not zero.
pub fn figures(cpu: CpuId, mut f: impl FnMut(Figure)) {
    for (index, longest) in LONGEST.of(cpu).iter().enumerate().filter(|(_, longest)| longest.ns.get() != 0) {
        f(Figure { cpu, kind: Kind::of(index), ns: longest.ns.get(), pc: longest.pc.get() as usize });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_sure_of_the_time_between_ticks_that_come_in_time_and_of_little_when_they_are_late() {
        assert_eq!(passed(10, 10), 10);
        assert_eq!(passed(20, 10), 20);
        assert_eq!(passed(1000, 100), 25);
    }

    #[test]
    fn each_kind_has_a_place_of_its_own() {
        let kinds: alloc::vec::Vec<Kind> = (0..KINDS).map(Kind::of).collect();
        assert!((1..KINDS).all(|n| !kinds[..n].contains(&kinds[n])));
        assert!((0..KINDS).all(|n| kinds[n].index() == n));
    }
}
