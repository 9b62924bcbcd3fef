//! RCU by quiescent states: reading costs nothing, because kernel code is not preempted and does not sleep while it reads.
//!
//! A CPU is quiescent at a context switch, at a return to user mode and when a tick interrupts user mode: the kernel calls
//! [`quiescent`] there. An idle CPU is out of the count between [`idle_enter`] and [`idle_exit`]; so is one that has not called
//! `idle_exit` since boot. The argument is in [`crate::protocol::period`].
//!
//! Callbacks wait on lists of their CPU ([`callback`]), and [`poll`] there ends periods and runs what is ripe, for a part of a millisecond; the rest is
//! for the next: on the way to user mode, where the kernel gives way, and one after the other on an idle CPU. Ending a
//! period moves the lines of all CPUs, so it has to be worth it: a CPU tries once [`ENOUGH`] callbacks have gathered, or its
//! oldest are [`PATIENCE_MS`] old, or somebody waits for them ([`hurry`], [`expedite`], [`synchronize`]); a period ended by
//! one CPU serves all, and unless it is urgent only one tries. While nobody waits, no period ends and nobody writes the
//! number. A period that is held up for more than 10 ms is hastened: the CPUs that have not reported are kicked (interrupted).
//!
//! That nobody sleeps, or says that the CPU is quiescent, while he reads is seen by no type: it is the one thing here that safe code can do
//! wrong. It is a panic wherever read sections are counted: hosted, and in the kernel of `make lockdep`.
//!
//! Hosted, threads are in user mode, so to speak, but inside [`read`]: nothing has to call `quiescent`.
//!
//! Nothing here takes a lock. Callbacks run in thread context with no lock held, and do not sleep: the idle loop runs them too.

mod arc;
pub mod callback;
mod chain;
mod lent;
mod list;
mod parts;
mod queue;
mod wait;

pub use arc::{Deferred, RcuArc, RcuHead, RcuObject, call_rcu, call_soon, defer_arc, defer_box};
pub use callback::pending;
pub use chain::{Chain, Prepared};
pub use lent::{Lender, Lent};
pub use list::{Iter, List, Listed, Locked, Met, Objects, Place};
pub use parts::{InParts, Parts};
pub use queue::{Entry, Queue, Rest};
pub use wait::{sleep_a_period, synchronize};

use crate::machine::{self, CpuId};
use crate::per_cpu;
use crate::percpu::{Count, Padded};
use crate::protocol::period::{Period, Seat};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// Whether read sections are counted: to find sleeping readers, and hosted to know when a thread reads at all.
const COUNTED: bool = cfg!(any(debug_assertions, feature = "lockdep", not(target_os = "none")));

static PERIOD: Period = Period::new();
/// Counts the calls of [`expedite`]. Written only when memory is short.
static CALLS: Padded<AtomicU64> = Padded(AtomicU64::new(0));

/// The leader of the grace period, which is the CPU that tries to end it: the period's number and, in the low bits, the CPU. One
/// that reads the seats of all is enough; if each that has callbacks did, a period would cost as many lines as there are pairs of CPUs. Once the period
/// has begun, the others look here only if that takes long. Only a hint: whoever ends a period proves that it is over.
static LEADER: Padded<AtomicU64> = Padded(AtomicU64::new(0));
const CPU_BITS: u32 = 8;
/// Milliseconds after which another CPU becomes the leader.
const TAKE_OVER_MS: u64 = 10;

const _: () = assert!(machine::MAX_CPUS <= 1 << CPU_BITS);

/// Milliseconds after which the CPUs that hold up a period are kicked.
const KICK_MS: u64 = 10;
/// Milliseconds after which a period is called late.
const LATE_MS: u64 = 1000;
/// Callbacks that a CPU gathers before it ends a period for them: some thirty forks with their exits, or fifty execs. What they
/// free at once fits the magazines of frames and what a CPU keeps of free slabs. For each [`MORE_CPUS`] CPUs as many more: the more there are, the fewer are in
/// step and served by one period, each of which moves lines of all.
const ENOUGH: u64 = 512;
const MORE_CPUS: u32 = 32;
/// Callbacks between two tries to end one period.
const AGAIN: u64 = 32;
/// Milliseconds that fewer wait while their CPU is busy; once it idles they wait for nothing but the other CPUs.
const PATIENCE_MS: u64 = 1000;
/// A CPU tries to end a period at most this often per millisecond, so that scans cost little; more often if many callbacks wait.
const TRIES_PER_MS: u64 = 4;
const TRIES_PER_MS_IN_HURRY: u64 = 32;

/// Of this CPU alone.
struct Own {
    nesting: Count,
    /// When to try to end a period next.
    next_try: Count,
    /// Until when the callbacks that have a tag wait for more.
    patient_until: Count,
    /// The last call of `expedite` that this CPU has followed.
    followed: Count,
    /// The CPU that held up the last try.
    laggard: Count,
    /// The period last tried, and since when.
    stuck_at: Count,
    stuck_since: Count,
    /// Since when this CPU has tried, which a kick does not change.
    stuck_from: Count,
    /// The period that this CPU waits for, and the last that it claimed.
    awaited: Count,
    claimed: Count,
    /// The leader as far as this CPU knows, and since when it has known that, or waited.
    leader: Count,
    leader_since: Count,
    /// Periods ended by this CPU, and CPUs it kicked for that.
    ended: Count,
    kicked: Count,
}

per_cpu! {
    static SEAT: Seat = Seat::new();
    static OWN: Own = Own {
        nesting: Count::new(),
        next_try: Count::new(),
        patient_until: Count::new(),
        followed: Count::new(),
        laggard: Count::new(),
        stuck_at: Count::new(),
        stuck_since: Count::new(),
        stuck_from: Count::new(),
        awaited: Count::new(),
        claimed: Count::new(),
        leader: Count::new(),
        leader_since: Count::new(),
        ended: Count::new(),
        kicked: Count::new(),
    };
}

/// A read section. Not sent to another thread; whoever holds one does not sleep.
#[derive(Debug)]
pub struct RcuRead {
    _here: PhantomData<*mut ()>,
}

/// Begins a read section, which ends when the guard is dropped. Sections nest.
#[inline(always)]
pub fn read() -> RcuRead {
    if COUNTED {
        enter();
    }
    RcuRead { _here: PhantomData }
}

impl Clone for RcuRead {
    #[inline(always)]
    fn clone(&self) -> Self {
        read()
    }
}

impl Drop for RcuRead {
    #[inline(always)]
    fn drop(&mut self) {
        if COUNTED {
            leave();
        }
    }
}

/// Is this CPU idle whenever it is in no read section? Hosted threads are: they say nothing of when they sleep.
#[cfg(not(target_os = "none"))]
fn rests_between_reads() -> bool {
    !machine::hosted::is_scheduled()
}

#[cfg(target_os = "none")]
#[inline(always)]
fn rests_between_reads() -> bool {
    false
}

#[inline(never)]
fn enter() {
    let nesting = &OWN.this().nesting;
    if nesting.get() == 0 {
        if rests_between_reads() {
            PERIOD.wake(SEAT.this());
        }
        debug_assert!(!SEAT.this().is_idle(), "RCU read on an idle CPU");
    }
    nesting.add(1);
}

#[inline(never)]
fn leave() {
    let nesting = &OWN.this().nesting;
    nesting.sub(1);
    if nesting.get() == 0 && rests_between_reads() {
        SEAT.this().idle();
    }
}

/// Whether this CPU is in a read section, where sections are counted; else no.
#[inline]
pub fn reading() -> bool {
    COUNTED && OWN.this().nesting.get() != 0
}

/// This CPU is in no read section: at a context switch, at a return to user mode, in a tick that interrupted user mode.
#[inline(always)]
pub fn quiescent() {
    assert!(!reading(), "quiescent in an RCU read section");
    if !rests_between_reads() {
        PERIOD.quiescent(SEAT.this());
    }
}

/// This CPU goes idle: it reads nothing until `idle_exit`. Interrupt handlers do not read.
#[inline]
pub fn idle_enter() {
    assert!(!reading(), "idle in an RCU read section");
    SEAT.this().idle();
}

/// This CPU is idle no more. Also called once by each CPU when it starts.
#[inline]
pub fn idle_exit() {
    PERIOD.wake(SEAT.this());
}

/// Whether [`poll`] would get on just now: for each return to user mode, where it costs two loads while nobody waits. False
/// after a `poll` until there is something ripe again or time for another try, so that a CPU reports before it asks again.
/// What is only old waits for the next tick, after which the kernel polls in any case.
#[inline(always)]
pub fn due() -> bool {
    callback::is_due() && is_due_now()
}

#[inline(never)]
fn is_due_now() -> bool {
    pending()
        && (callback::any_ripe()
            || callback::waits_for()
                .is_none_or(|tag| PERIOD.is_over(tag) || is_worth_a_try(OWN.this(), machine::cycles())))
}

/// How many callbacks are worth a period.
#[inline]
fn enough() -> u64 {
    ENOUGH + ENOUGH * u64::from(machine::cpus() / MORE_CPUS)
}

/// Whether this CPU's callbacks are many, old or waited for, and the last try is long enough ago.
fn is_worth_a_try(own: &Own, now: u64) -> bool {
    let past = |when: &Count| (now.wrapping_sub(when.get()) as i64) >= 0;
    (callback::untagged() >= enough()
        || follows_call(own)
        || callback::any_wanted()
        || past(&own.patient_until))
        && past(&own.next_try)
}

/// Makes this CPU's callbacks wanted if that was asked for since it last looked.
#[inline]
fn follows_call(own: &Own) -> bool {
    let calls = CALLS.0.load(Ordering::Relaxed);
    let called = own.followed.get() != calls;
    if called {
        own.followed.set(calls);
        callback::press_all();
    }
    called
}

/// Gives new callbacks their tag, and moves on what is over.
fn sort() {
    if callback::sort() {
        let patience = PATIENCE_MS.wrapping_mul(machine::cycles_per_ms());
        OWN.this().patient_until.set(machine::cycles().wrapping_add(patience));
    }
}

/// This CPU's callbacks shall not wait for more to come: for a CPU that has nothing else to do.
pub fn hurry() {
    if pending() {
        callback::want_all();
    }
}

/// Whether callbacks of this CPU are ripe: what a `poll` has left for the next. For a CPU that has nothing else to do.
#[inline]
pub fn any_ripe() -> bool {
    callback::any_ripe()
}

/// Whether callbacks of this CPU are ripe and [`expedite`] waits for them. Only then a thread does not go to user mode before all are done: else it
/// does its share of them.
#[inline]
pub fn is_pressed() -> bool {
    callback::is_pressed()
}

/// Runs the callbacks of this CPU that are ripe, no more than wait on it now, and calls `rest` between one `poll` and the next until that says to
/// end. As [`poll`]; `rest` may sleep.
pub fn run_ripe(mut rest: impl FnMut() -> bool) {
    let mut left = callback::backlog();
    loop {
        let before = callback::done();
        poll();
        // `rest` may have gone on on another CPU.
        left = left.saturating_sub(callback::done().wrapping_sub(before).max(1));
        if left == 0 || !callback::any_ripe() || rest() {
            return;
        }
    }
}

/// Has every CPU end periods until what waits on it now has been called back: memory is short. Does not wait.
#[cold]
pub fn expedite() {
    CALLS.0.fetch_add(1, Ordering::Relaxed);
    let here = machine::cpu_id();
    for cpu in (0..machine::cpus()).filter(|cpu| *cpu != here && callback::pending_on(*cpu)) {
        machine::kick(cpu);
    }
}

/// Runs ripe callbacks of this CPU, a batch at a time, and tries to end the period if some wait on. Says whether some do: an
/// idle CPU then keeps its tick. In thread context only (return to user, idle loop, a thread), in no read section.
pub fn poll() -> bool {
    assert!(!reading(), "callbacks run in an RCU read section");
    if !pending() {
        return false;
    }
    // Two CPUs that wait for each other must not both ask before they report.
    quiescent();
    if callback::waits_for().is_none() {
        sort();
    }
    if advance() {
        sort();
        callback::run_batch();
        sort();
    }
    if callback::any_ripe() {
        follows_call(OWN.this());
    }
    callback::poll_after(if callback::any_ripe() || callback::any_wanted() {
        0
    } else {
        // Held up, the period is tried again soon.
        enough().saturating_sub(callback::untagged()).max(AGAIN)
    });
    pending()
}

/// Tries to end the period that this CPU's callbacks wait for. Says whether some are ripe.
fn advance() -> bool {
    let Some(tag) = callback::waits_for() else {
        return callback::any_ripe();
    };
    if PERIOD.is_over(tag) {
        return true;
    }
    let own = OWN.this();
    let now = machine::cycles();
    // Hosted, a `poll` is always worth a try.
    if cfg!(target_os = "none") && !is_worth_a_try(own, now) {
        return callback::any_ripe();
    }
    let many = callback::backlog() > callback::MANY;
    if cfg!(target_os = "none") && !many && !callback::any_wanted() && !leads(own, tag + 1, now) {
        return callback::any_ripe();
    }
    let tries = if many { TRIES_PER_MS_IN_HURRY } else { TRIES_PER_MS };
    own.next_try.set(now.wrapping_add(machine::cycles_per_ms() / tries));
    get_on(own, tag, now);
    PERIOD.is_over(tag) || callback::any_ripe()
}

/// Whether this CPU is the leader of grace period `number`, or becomes it.
fn leads(own: &Own, number: u64, now: u64) -> bool {
    let is_long = || now.wrapping_sub(own.leader_since.get()) > TAKE_OVER_MS * machine::cycles_per_ms();
    if own.awaited.get() != number {
        own.awaited.set(number);
        own.leader_since.set(now);
    }
    // Whoever began it sees to its end.
    if PERIOD.number() >= number && own.claimed.get() != number && !is_long() {
        return false;
    }
    let leader = LEADER.0.load(Ordering::Relaxed);
    if own.leader.get() != leader {
        own.leader.set(leader);
        own.leader_since.set(now);
    }
    let mine = claim(&LEADER.0, number, machine::cpu_id(), is_long());
    if mine {
        own.claimed.set(number);
    }
    mine
}

/// Claims period `number` for `cpu`: nobody has, or it is `stuck`. Says whether it is this CPU's.
fn claim(leader: &AtomicU64, number: u64, cpu: CpuId, stuck: bool) -> bool {
    let (now, mine) = (leader.load(Ordering::Relaxed), number << CPU_BITS | u64::from(cpu));
    now == mine
        || ((stuck || now >> CPU_BITS < number)
            && leader.compare_exchange(now, mine, Ordering::Relaxed, Ordering::Relaxed).is_ok())
}

/// Does what can be done now for what has `tag`: it waits for a period that began later. If the other CPUs idle, that ends
/// at once.
fn get_on(own: &Own, tag: u64, now: u64) {
    let later = PERIOD.number() > tag || PERIOD.begin() || (end_period(own, now) && PERIOD.begin());
    if later {
        quiescent();
        end_period(own, now);
    }
}

/// Ends the period if every CPU has reported it, and says so.
fn end_period(own: &Own, now: u64) -> bool {
    match PERIOD.try_end(machine::cpus(), own.laggard.get() as CpuId, |cpu| SEAT.of(cpu)) {
        Ok(()) => {
            own.ended.add(1);
            true
        }
        Err(laggard) => {
            held_up_by(own, laggard, now);
            false
        }
    }
}

/// Remembers who holds up the period, and interrupts it if that takes long.
fn held_up_by(own: &Own, laggard: CpuId, now: u64) {
    own.laggard.set(u64::from(laggard));
    let number = PERIOD.number();
    if own.stuck_at.get() != number {
        own.stuck_at.set(number);
        own.stuck_since.set(now);
        own.stuck_from.set(now);
    } else if now.wrapping_sub(own.stuck_since.get()) > KICK_MS * machine::cycles_per_ms() {
        own.stuck_since.set(now);
        own.kicked.add(1);
        machine::kick(laggard);
    }
}

/// A period that does not end.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    pub number: u64,
    /// The CPU that has not reported.
    pub by: CpuId,
}

/// The period that this CPU has tried to end for a second or more. Cheap: for each tick.
pub fn late() -> Option<Late> {
    let own = OWN.this();
    let number = own.stuck_at.get();
    let is_long = machine::cycles().wrapping_sub(own.stuck_from.get()) > LATE_MS * machine::cycles_per_ms();
    if number == 0 || !is_long {
        return None;
    }
    if !PERIOD.is_under_way(number) {
        // Another CPU has ended it, and perhaps nobody has begun one since.
        own.stuck_at.set(0);
        return None;
    }
    Some(Late { number, by: own.laggard.get() as CpuId })
}

/// The number of the current period, and how many periods were ended and CPUs kicked for them since boot.
pub fn progress() -> (u64, u64, u64) {
    let sum = |count: fn(&Own) -> &Count| OWN.iter().map(|own| count(own).get()).sum();
    (PERIOD.number(), sum(|own| &own.ended), sum(|own| &own.kicked))
}

/// Runs all callbacks of this CPU, those that they queue included. For the end of a hosted thread, and of tests.
pub fn drain() {
    while pending() {
        quiescent();
        poll();
        machine::relax();
    }
}

#[cfg(test)]
mod tests;
