//! What the order on a CPU knows of a task.
//!
//! The words change under the lock of the task's queue, or by its own CPU while it runs; a timer interrupt of that CPU alone adds run time in between.
//! So plain loads and stores do. While the task waits none that its place depends on changes. An interrupt that comes between the queue's lock and the switch
//! has no time to add, and writes nothing: others may have woken the task by then.
#![forbid(unsafe_code)]

use super::weight::{ONE, effective, real_ns, virtual_ns, weight};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The shortest request of a task that runs for short times, ns.
const SHORTEST: u64 = 500_000;

/// See `is_served`: this part of a request.
const NEARLY: u64 = 16;

/// Who has run for short times so often in a row is known to ask for little.
const KNOWN: u8 = 8;

/// Who is known to ask for little is owed so many of its runs at most, and at least so much, ns (`most_owed`).
const RUNS_OWED: u64 = 12;
const LEAST_OWED: u64 = 100_000;

/// The weight of a nice value, which has 17 bits.
fn own(rank: i32) -> u32 {
    u32::try_from(weight(rank)).unwrap_or(u32::MAX)
}

/// Virtual time of a task of weight `old`, for as much run time at weight `new`.
fn scaled(n: i64, old: u64, new: u64) -> i64 {
    i64::try_from(i128::from(n) * i128::from(old) / i128::from(new)).unwrap_or(0)
}

/// See the head of the file.
pub struct Entity {
    vruntime: AtomicU64,
    /// When it is to have had its request, in the time of `vruntime`.
    deadline: AtomicU64,
    /// The virtual run time at which it has had it, and how much it may lack then.
    end: AtomicU64,
    nearly: AtomicU64,
    /// What it was owed as it went to sleep, or as it last came to a CPU, in the time of `vruntime`.
    lag: AtomicI64,
    /// Its weight now.
    weight: AtomicU64,
    /// The weight that it is to have, as of when its queue was last told of a change of what follows: becomes `weight` where the queue is locked.
    wanted: AtomicU64,
    /// The weight of its nice value, and what part of it counts, in [`ONE`]s.
    own: AtomicU32,
    factor: AtomicU64,
    /// The own weight with which its group counts it on its CPU (`group::Cell`); 0: it does not.
    pub(in super::super) counted: AtomicU32,
    /// How much of `ran` is told to its group.
    told: AtomicU64,
    /// Run time since it last woke, ns, and how much that was before, on average.
    ran: AtomicU64,
    burst: AtomicU64,
    /// What it asks for at a time, ns, if a program has said so; else 0.
    slice: AtomicU32,
    /// Its virtual run time as it last got the CPU.
    turn: AtomicU64,
    /// Waits among the eligible.
    pub(super) is_ready: AtomicBool,
    /// Its request is shorter than those of others.
    is_short: AtomicBool,
    /// How often in a row it has gone to sleep within a request, up to [`KNOWN`].
    short_runs: AtomicU8,
}

/// What runs on a CPU, while others look at its queue.
#[derive(Clone, Copy)]
pub struct Running {
    pub vruntime: u64,
    pub deadline: u64,
    pub weight: u64,
    /// Its virtual run time as it got the CPU.
    pub turn: u64,
    /// The virtual run time at which it has had its request.
    pub end: u64,
}

impl Running {
    /// Who has just got the CPU keeps it for `lead` ns: what is left of them.
    #[inline]
    pub fn turn_left(&self, lead: u64) -> u64 {
        let ran = self.vruntime.saturating_sub(self.turn);
        let whole = virtual_ns(lead, self.weight);
        if ran >= whole { 0 } else { real_ns(whole - ran, self.weight).max(1) }
    }

    /// What is left of its request, ns.
    pub fn request_left(&self) -> u64 {
        let left = self.end.saturating_sub(self.vruntime);
        if left == 0 { 0 } else { real_ns(left, self.weight).max(1) }
    }
}

impl Entity {
    pub fn new(rank: i32) -> Self {
        let own = own(rank);
        let weight = effective(u64::from(own), ONE);
        Self {
            vruntime: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            end: AtomicU64::new(0),
            nearly: AtomicU64::new(0),
            lag: AtomicI64::new(0),
            weight: AtomicU64::new(weight),
            wanted: AtomicU64::new(weight),
            own: AtomicU32::new(own),
            factor: AtomicU64::new(ONE),
            counted: AtomicU32::new(0),
            told: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            burst: AtomicU64::new(u64::MAX),
            slice: AtomicU32::new(0),
            turn: AtomicU64::new(0),
            is_ready: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            short_runs: AtomicU8::new(0),
        }
    }

    /// A child is taken to run for as long at a time as its parent.
    pub fn inherit(&self, parent: &Entity) {
        self.burst.store(parent.burst.load(Relaxed), Relaxed);
    }

    pub fn vruntime(&self) -> u64 {
        self.vruntime.load(Relaxed)
    }

    pub fn deadline(&self) -> u64 {
        self.deadline.load(Relaxed)
    }

    pub fn weight(&self) -> u64 {
        self.weight.load(Relaxed)
    }

    /// Run time since it last woke, ns.
    pub fn ran(&self) -> u64 {
        self.ran.load(Relaxed)
    }

    pub fn lag(&self) -> i64 {
        self.lag.load(Relaxed)
    }

    /// The weight of a nice value, or of a worse one. True: it is another, and the queue has to know (`refresh`).
    pub fn set_rank(&self, rank: i32) -> bool {
        self.own.swap(own(rank), Relaxed) != own(rank)
    }

    /// What it is to weigh follows from its nice value and its factor. Under the lock of its queue.
    pub fn refresh(&self) {
        self.wanted.store(effective(self.own_weight(), self.factor()), Relaxed);
    }

    /// The weight of its nice value.
    #[inline]
    pub fn own_weight(&self) -> u64 {
        u64::from(self.own.load(Relaxed))
    }

    /// What part of that counts.
    #[inline]
    pub fn factor(&self) -> u64 {
        self.factor.load(Relaxed)
    }

    /// Another part of its own weight counts. Under the lock of its queue.
    #[cold]
    #[inline(never)]
    pub fn set_factor(&self, factor: u64) {
        self.factor.store(factor, Relaxed);
        self.refresh();
    }

    #[inline]
    fn wanted(&self) -> u64 {
        self.wanted.load(Relaxed)
    }

    /// The run time since it last woke that its group has not been told yet, ns.
    pub fn untold(&self) -> u64 {
        self.ran().wrapping_sub(self.told.load(Relaxed))
    }

    /// Its group has been told.
    pub fn set_told(&self) {
        self.told.store(self.ran(), Relaxed);
    }

    /// The same, and it goes to sleep.
    pub fn set_told_at_sleep(&self) {
        self.told.store(0, Relaxed);
    }

    /// The times of its queue are less by `shift` from now on.
    pub(in super::super) fn shift_back(&self, shift: u64) {
        for time in [&self.vruntime, &self.deadline, &self.end, &self.turn] {
            time.store(time.load(Relaxed).saturating_sub(shift), Relaxed);
        }
    }

    /// What a program has said that it asks for at a time, ns; 0: nothing.
    pub fn slice(&self) -> u32 {
        self.slice.load(Relaxed)
    }

    /// Counts from its next request on.
    pub fn set_slice(&self, ns: u32) {
        self.slice.store(ns, Relaxed);
    }

    /// It gets the CPU.
    #[inline]
    pub(super) fn begin_turn(&self) {
        self.turn.store(self.vruntime(), Relaxed);
    }

    /// How it stands if it has run for `more` ns since it was last counted.
    pub fn running(&self, more: u64) -> Running {
        let weight = self.weight();
        let vruntime = self.vruntime().saturating_add(virtual_ns(more, weight));
        Running {
            vruntime,
            deadline: self.deadline(),
            weight,
            turn: self.turn.load(Relaxed),
            end: self.end.load(Relaxed),
        }
    }

    /// It has run for `ns`.
    #[inline]
    pub fn count(&self, ns: u64) {
        if ns == 0 {
            return;
        }
        // A timer interrupt in between would be lost here, which is seldom, and costs nobody more than a tick.
        self.vruntime.store(self.vruntime().wrapping_add(virtual_ns(ns, self.weight())), Relaxed);
        self.ran.store(self.ran.load(Relaxed).saturating_add(ns), Relaxed);
    }

    /// What it asks for at a time, ns: little if it runs for short times and then sleeps. `slice` is what others ask for.
    fn request(&self, slice: u64) -> u64 {
        let own = self.slice();
        if own != 0 {
            return u64::from(own);
        }
        self.burst.load(Relaxed).saturating_mul(2).clamp(SHORTEST.min(slice), slice)
    }

    /// Does its request ask for less than others do?
    #[inline]
    pub fn asks_for_little(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// It stands at `vruntime` from now on, with a request that begins at `now` at the earliest: who is owed much is eligible for long, but no more
    /// urgent than who comes with a short request.
    pub(super) fn stand(&self, vruntime: u64, now: u64, slice: u64) {
        let asked = self.request(slice);
        let request = virtual_ns(asked, self.weight());
        self.is_short.store(asked < slice, Relaxed);
        self.nearly.store(request / NEARLY, Relaxed);
        self.vruntime.store(vruntime, Relaxed);
        self.end.store(vruntime.saturating_add(request), Relaxed);
        self.deadline.store(vruntime.max(now).saturating_add(request), Relaxed);
    }

    /// Has it had its request? One that is owed much has had it long before its deadline, and does not run on until all is paid off: others may be due. One that lacks
    /// less than a [`NEARLY`]th does not come a tick sooner for that.
    #[inline]
    pub fn is_served(&self) -> bool {
        self.vruntime().saturating_add(self.nearly.load(Relaxed)) >= self.end.load(Relaxed)
    }

    /// Begins the next request, at `now` at the earliest. Who has run for longer than usual asks for twice as much as he has had: now and then everybody does.
    pub(super) fn renew(&self, now: u64, slice: u64) {
        let (ran, burst) = (self.ran(), self.burst.load(Relaxed));
        self.burst.store(burst.max(ran), Relaxed);
        self.short_runs.store(0, Relaxed);
        self.stand(self.vruntime(), now, slice);
    }

    /// It lets others go first: its deadline is a request later.
    pub fn yield_turn(&self, slice: u64) {
        let ns = virtual_ns(self.request(slice), self.weight());
        let deadline = self.vruntime().saturating_add(ns.saturating_mul(2));
        self.deadline.store(deadline, Relaxed);
        self.end.store(deadline, Relaxed);
    }

    /// It comes to a CPU, where it is owed `lag`.
    pub(super) fn comes(&self, lag: i64) {
        self.lag.store(lag, Relaxed);
    }

    /// What it can owe at most that has run for so long since it came: what it owed then, and what it has had. It may stand further ahead of the others where one has come
    /// that is owed much; but those wait for that one who want to run meanwhile, and not who sleeps most of the time.
    pub(super) fn most_debt(&self) -> i64 {
        let ran = i64::try_from(virtual_ns(self.ran(), self.weight())).unwrap_or(i64::MAX);
        self.lag().min(0).saturating_sub(ran)
    }

    /// What it can be owed at most as it sleeps, or goes to another CPU and asks for little: two of its requests. These are far longer than the runs of who hands
    /// something on and sleeps; paid off in such runs they would keep all others waiting for as long.
    pub(super) fn most_owed(&self, slice: u64) -> i64 {
        let mut most = self.request(slice).saturating_mul(2);
        if self.short_runs.load(Relaxed) >= KNOWN {
            let runs = self.burst.load(Relaxed).saturating_mul(RUNS_OWED);
            most = runs.max(LEAST_OWED).min(most);
        }
        i64::try_from(virtual_ns(most, self.weight())).unwrap_or(i64::MAX)
    }

    /// It sleeps, and is owed `lag`.
    pub(super) fn sleep(&self, lag: i64) {
        self.lag.store(lag, Relaxed);
        let (ran, burst) = (self.ran.load(Relaxed), self.burst.load(Relaxed));
        self.ran.store(0, Relaxed);
        let short_runs = self.short_runs.load(Relaxed);
        if short_runs < KNOWN {
            self.short_runs.store(short_runs.saturating_add(1), Relaxed);
        }
        self.burst.store(if burst == u64::MAX { ran } else { burst - burst / 4 + ran / 4 }, Relaxed);
    }

    /// Is another weight to become its own?
    #[inline]
    pub fn weight_changed(&self) -> bool {
        self.wanted() != self.weight()
    }

    /// Takes the weight that it is to have, at the virtual time `now`: what it is owed, and what its request lacks, stays as much run time.
    pub(super) fn take_weight(&self, now: u64) {
        let (old, new) = (self.weight(), self.wanted());
        let scaled = |n| scaled(n, old, new);
        let lag = now.wrapping_sub(self.vruntime()).cast_signed();
        let left = |moment: u64| scaled(moment.wrapping_sub(self.vruntime()).cast_signed());
        let (deadline, end) = (left(self.deadline()), left(self.end.load(Relaxed)));
        let turn = left(self.turn.load(Relaxed));
        let vruntime = now.saturating_add_signed(scaled(lag).saturating_neg());
        self.lag.store(scaled(self.lag()), Relaxed);
        self.weight.store(new, Relaxed);
        self.vruntime.store(vruntime, Relaxed);
        self.deadline.store(vruntime.saturating_add_signed(deadline), Relaxed);
        self.end.store(vruntime.saturating_add_signed(end), Relaxed);
        self.nearly.store(scaled(self.nearly.load(Relaxed).cast_signed()).max(0).cast_unsigned(), Relaxed);
        self.turn.store(vruntime.saturating_add_signed(turn), Relaxed);
    }

    /// As `take_weight`, of a task that does not wait and is owed `lag`: what it is owed then.
    pub(super) fn take_weight_asleep(&self, lag: i64) -> i64 {
        let (old, new) = (self.weight(), self.wanted());
        if old == new {
            return lag;
        }
        self.weight.store(new, Relaxed);
        scaled(lag, old, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: u64 = 4_000_000;

    /// It runs for 100 us at a time as a rule.
    #[test]
    fn who_runs_longer_once_keeps_asking_for_little() {
        let entity = Entity::new(0);
        entity.stand(0, 0, SLICE);
        entity.count(100_000);
        entity.sleep(0);
        entity.stand(0, 0, SLICE);
        entity.count(400_000);
        assert!(!entity.is_served(), "it asked for 500 us");
        entity.count(100_000);
        assert!(entity.is_served());
        entity.renew(0, SLICE);
        assert!(entity.asks_for_little());
        // The longer it goes on, the more it asks for, until that is no less than others do.
        let mut requests = 0;
        while entity.asks_for_little() {
            entity.count(SLICE / 8);
            if entity.is_served() {
                entity.renew(0, SLICE);
                requests += 1;
            }
            assert!(requests < 4, "it spins");
        }
    }

    #[test]
    fn who_always_runs_for_short_times_is_owed_little() {
        let entity = Entity::new(0);
        let run = |ns| {
            entity.stand(0, 0, SLICE);
            entity.count(ns);
            entity.sleep(0);
        };
        run(10_000);
        assert_eq!(entity.most_owed(SLICE), 2 * SHORTEST as i64, "it may be about to run for long");
        (1..KNOWN).for_each(|_| run(10_000));
        assert_eq!(entity.most_owed(SLICE), (10_000 * RUNS_OWED) as i64);
        (0..40).for_each(|_| run(1_000));
        assert_eq!(entity.most_owed(SLICE), LEAST_OWED as i64);
        entity.count(2 * SHORTEST);
        entity.renew(0, SLICE);
        assert_eq!(entity.most_owed(SLICE), 4 * 2 * SHORTEST as i64, "it runs for long");
    }

    #[test]
    fn a_debt_stays_as_much_run_time_at_another_weight() {
        let entity = Entity::new(0);
        entity.comes(-1_000_000);
        entity.count(500_000);
        let owed = |entity: &Entity| real_ns(entity.most_debt().unsigned_abs(), entity.weight());
        assert_eq!(owed(&entity), 1_500_000);
        entity.set_factor(ONE / 4);
        entity.take_weight(entity.vruntime());
        assert_eq!(owed(&entity), 1_500_000);
    }
}
