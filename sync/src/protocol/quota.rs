//! A count with a limit, most of whose changes each CPU makes on a place of its own, its *spare*: what it has counted already and not used.
//!
//! `taken` is what is used and all spares. A charge comes out of this CPU's spare, or takes a batch more; where a batch does not fit below
//! the limit, all spares are called in first.
//!
//! - A spare grows only by what was counted in `taken` before, and `taken` is lowered only by what was taken out of a spare before. So it
//!   never falls below what is used, and no more than the limit is ever used. (Who calls a spare in sees, by the release at its growth and
//!   the acquire at its end, that it was counted.)
//! - What a spare holds is taken out of it once: the CPU that owns it and those that call it in exchange it (`quota.charge`,
//!   `quota.call_in`, `quota.put_back`).
//! - What was called in no longer counts (`quota.lower`), so what fits is not refused for what other CPUs have put by.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU64, Ordering, const_new, step};
use Ordering::{Acquire, Relaxed, Release};

/// `taken` of a quota that is closed.
const CLOSED: u64 = u64::MAX;
/// How often spares are called in, for one charge, while other CPUs put more by.
const TRIES: usize = 4;

/// No limit.
pub const UNLIMITED: u64 = CLOSED - 1;

/// Why a charge was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It goes beyond the limit.
    Full,
    /// [`RawQuota::close`] has found nothing used.
    Closed,
}

/// What CPUs have put by.
pub trait Spares {
    /// What a CPU puts by at a time. It keeps twice as much at most.
    const BATCH: u64;
    /// This CPU's. Others only take out of it; but threads change CPUs, so what was read may be another's when it is written.
    fn this(&self) -> Option<&AtomicU64>;
    /// All CPUs'.
    fn each(&self, f: impl FnMut(&AtomicU64));
}

/// What is used and what CPUs have put by, together.
#[derive(Debug)]
pub struct RawQuota {
    taken: AtomicU64,
}

impl Default for RawQuota {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes `spare` `to` if it is still `have`.
#[inline(always)]
fn exchange(name: &'static str, spare: &AtomicU64, have: u64, to: u64) -> bool {
    if step(name) {
        spare.compare_exchange(have, to, Acquire, Relaxed).is_ok()
    } else {
        spare.store(to, Relaxed);
        true
    }
}

impl RawQuota {
    const_new! {
        pub fn new() -> Self {
            RawQuota { taken: AtomicU64::new(0) }
        }
    }

    /// Counts `n` more, if no more than `limit` is used then.
    #[inline]
    pub fn charge<S: Spares>(&self, spares: &S, n: u64, limit: u64) -> Result<(), Refused> {
        if let Some(spare) = spares.this() {
            let have = spare.load(Relaxed);
            if have >= n
                && self.taken.load(Relaxed) <= limit
                && exchange("quota.charge", spare, have, have.wrapping_sub(n))
            {
                return Ok(());
            }
        }
        self.charge_slowly(spares, n, limit)
    }

    #[cold]
    fn charge_slowly<S: Spares>(&self, spares: &S, n: u64, limit: u64) -> Result<(), Refused> {
        let up_to = |n: u64| {
            self.taken.fetch_update(Relaxed, Relaxed, |now| {
                now.checked_add(n).filter(|sum| *sum <= limit && *sum < CLOSED)
            })
        };
        // Near the limit a smaller one.
        for batch in [S::BATCH, S::BATCH / 8] {
            if let Some(spare) = spares.this()
                && let Some(more) = n.checked_add(batch)
                && up_to(more).is_ok()
            {
                spare.fetch_add(batch, Release);
                return Ok(());
            }
        }
        for _ in 0..TRIES {
            let found = self.call_in(spares);
            match up_to(n) {
                Ok(_) => return Ok(()),
                Err(CLOSED) => return Err(Refused::Closed),
                Err(_) if found == 0 => break,
                Err(_) => {}
            }
        }
        Err(Refused::Full)
    }

    /// Counts `n` less. They were charged before.
    #[inline]
    pub fn give_back<S: Spares>(&self, spares: &S, n: u64) {
        let Some(spare) = spares.this() else { return self.lower(n) };
        let have = spare.fetch_add(n, Release).saturating_add(n);
        if have > S::BATCH.saturating_mul(2) {
            self.put_back::<S>(spare, have);
        }
    }

    #[cold]
    fn put_back<S: Spares>(&self, spare: &AtomicU64, have: u64) {
        // Where another CPU calls it in just now, there is nothing left to do.
        if exchange("quota.put_back", spare, have, S::BATCH) {
            self.lower(have.saturating_sub(S::BATCH));
        }
    }

    fn lower(&self, n: u64) {
        if step("quota.lower") {
            self.taken.fetch_sub(n, Relaxed);
        }
    }

    /// Takes away what CPUs have put by, and says how much that was.
    fn call_in<S: Spares>(&self, spares: &S) -> u64 {
        let mut found = 0_u64;
        spares.each(|spare| {
            let have = spare.load(Relaxed);
            if have == 0 {
                return;
            }
            let n = if step("quota.call_in") { spare.swap(0, Acquire) } else { have };
            self.lower(n);
            found = found.saturating_add(n);
        });
        found
    }

    /// How much is used: exact when nobody charges, gives back or calls spares in meanwhile. What is just called in, it counts as used.
    pub fn used<S: Spares>(&self, spares: &S) -> u64 {
        let taken = self.taken.load(Relaxed);
        let mut spare = 0_u64;
        spares.each(|s| spare = spare.saturating_add(s.load(Relaxed)));
        if taken == CLOSED { 0 } else { taken.saturating_sub(spare) }
    }

    /// Ends it, if nothing is used: every later charge is refused as `Closed`. One caller at a time.
    pub fn close<S: Spares>(&self, spares: &S) -> bool {
        // Whoever uses some keeps his spares.
        if self.used(spares) > 0 {
            return false;
        }
        self.call_in(spares);
        self.taken.compare_exchange(0, CLOSED, Relaxed, Relaxed).is_ok()
    }

    /// Takes `close` back.
    pub fn open(&self) {
        self.taken.store(0, Relaxed);
    }
}
