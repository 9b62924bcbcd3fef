//! Counts with a limit that many CPUs reach up to without a common line (CountLocal).
//!
//! ```text
//!   taken          what is used, and what CPUs have put by; one line, written once for a batch
//!   spare[cpu]     what this CPU has put by: a charge comes out of it, what is given back goes into it
//! ```
//!
//! What is used is `taken` less all spares. A charge looks at `taken` and at this CPU's spare and writes only the latter. Where that does not
//! suffice it takes a batch more; where a batch does not fit below the limit, the spares of all CPUs are called in and it is counted to the unit. So
//! the limit is exact: what fits is not refused for what other CPUs have put by, and no more than the limit is ever used.
//!
//! * `taken` never falls below what is used: it is lowered only by what was taken out of a spare before.
//! * Limits are the caller's, and may differ from charge to charge.
//!
//! No locks; not for interrupt handlers.
#![forbid(unsafe_code)]

use crate::heap::{AllocError, try_box_slice};
use crate::machine;
use crate::percpu::Padded;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a CPU puts by at a time. It keeps twice as much at most.
const BATCH: u64 = 64;
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
    /// [`Quota::close`] has found nothing used.
    Closed,
}

/// One CPU's spares, on a line of their own.
#[repr(align(64))]
struct Spares<const N: usize>([AtomicU64; N]);

/// Counts of `N` kinds of things. A kind that does not exist is refused.
pub struct Quota<const N: usize> {
    taken: Padded<[AtomicU64; N]>,
    spares: Box<[Spares<N>]>,
}

impl<const N: usize> Quota<N> {
    /// Nothing is used.
    pub fn try_new() -> Result<Self, AllocError> {
        let cpus = machine::cpus() as usize;
        Ok(Self {
            taken: Padded([const { AtomicU64::new(0) }; N]),
            spares: try_box_slice(cpus, |_| Spares([const { AtomicU64::new(0) }; N]))?,
        })
    }

    /// This CPU's spare.
    #[inline]
    fn spare(&self, kind: usize) -> Option<&AtomicU64> {
        self.spares.get(machine::cpu_id() as usize)?.0.get(kind)
    }

    /// Counts `n` more, if no more than `limit` is used then.
    #[inline]
    pub fn charge(&self, kind: usize, n: u64, limit: u64) -> Result<(), Refused> {
        if let Some(spare) = self.spare(kind)
            && let Some(taken) = self.taken.get(kind)
        {
            let have = spare.load(Relaxed);
            if have >= n
                && taken.load(Relaxed) <= limit
                && spare.compare_exchange(have, have - n, Relaxed, Relaxed).is_ok()
            {
                return Ok(());
            }
        }
        self.charge_slowly(kind, n, limit)
    }

    #[cold]
    fn charge_slowly(&self, kind: usize, n: u64, limit: u64) -> Result<(), Refused> {
        let taken = self.taken.get(kind).ok_or(Refused::Full)?;
        let up_to = |n: u64| {
            taken.fetch_update(Relaxed, Relaxed, |now| {
                now.checked_add(n).filter(|sum| *sum <= limit && *sum < CLOSED)
            })
        };
        if let Some(spare) = self.spare(kind)
            && let Some(more) = n.checked_add(BATCH)
            && up_to(more).is_ok()
        {
            spare.fetch_add(BATCH, Relaxed);
            return Ok(());
        }
        for _ in 0..TRIES {
            let found = self.call_in(kind);
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
    pub fn give_back(&self, kind: usize, n: u64) {
        let Some(spare) = self.spare(kind) else { return self.lower(kind, n) };
        let have = spare.fetch_add(n, Relaxed).saturating_add(n);
        if have > 2 * BATCH {
            self.put_back(kind, spare, have);
        }
    }

    #[cold]
    fn put_back(&self, kind: usize, spare: &AtomicU64, have: u64) {
        // Where another CPU calls it in just now, there is nothing left to do.
        if spare.compare_exchange(have, BATCH, Relaxed, Relaxed).is_ok() {
            self.lower(kind, have - BATCH);
        }
    }

    fn lower(&self, kind: usize, n: u64) {
        if let Some(taken) = self.taken.get(kind) {
            taken.fetch_sub(n, Relaxed);
        }
    }

    /// Takes away what CPUs have put by, and says how much that was.
    fn call_in(&self, kind: usize) -> u64 {
        let mut found = 0;
        for spare in self.spares.iter().filter_map(|spares| spares.0.get(kind)) {
            if spare.load(Relaxed) != 0 {
                let n = spare.swap(0, Relaxed);
                self.lower(kind, n);
                found += n;
            }
        }
        found
    }

    /// How much is used: exact when nobody charges or gives back meanwhile.
    pub fn used(&self, kind: usize) -> u64 {
        let Some(taken) = self.taken.get(kind) else { return 0 };
        let taken = taken.load(Relaxed);
        let spares = self.spares.iter().filter_map(|spares| spares.0.get(kind));
        if taken == CLOSED { 0 } else { taken.saturating_sub(spares.map(|spare| spare.load(Relaxed)).sum()) }
    }

    /// Ends it, if nothing of any kind is used: every later charge is refused as `Closed`. One caller at a time.
    pub fn close(&self) -> bool {
        for kind in 0..N {
            self.call_in(kind);
            let closed = self
                .taken
                .get(kind)
                .is_some_and(|taken| taken.compare_exchange(0, CLOSED, Relaxed, Relaxed).is_ok());
            if !closed {
                self.taken.iter().take(kind).for_each(|taken| taken.store(0, Relaxed));
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::hosted::as_cpu;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn what_fits_is_not_refused_for_what_other_cpus_have_put_by() {
        let quota = Quota::<1>::try_new().unwrap();
        for cpu in 110..114 {
            as_cpu(cpu, || {
                quota.charge(0, 1, 1000).unwrap();
                quota.charge(0, 1, 1000).unwrap();
                quota.give_back(0, 1);
            });
        }
        assert_eq!(quota.used(0), 4);
        as_cpu(115, || {
            for _ in 0..996 {
                quota.charge(0, 1, 1000).unwrap();
            }
            assert_eq!(quota.charge(0, 1, 1000), Err(Refused::Full));
            quota.charge(0, 1, 1001).unwrap();
            assert_eq!(quota.charge(0, 1, 10), Err(Refused::Full));
        });
        assert_eq!(quota.used(0), 1001);
    }

    #[test]
    fn a_lower_limit_holds_though_the_cpu_has_put_some_by() {
        let quota = Quota::<2>::try_new().unwrap();
        as_cpu(116, || {
            quota.charge(1, 1, UNLIMITED).unwrap();
            assert_eq!(quota.charge(1, 1, 1), Err(Refused::Full));
            quota.charge(1, 4, 5).unwrap();
        });
        assert_eq!((quota.used(0), quota.used(1)), (0, 5));
    }

    #[test]
    fn it_closes_when_nothing_is_used_and_only_then() {
        let quota = Quota::<2>::try_new().unwrap();
        quota.charge(1, 3, 3).unwrap();
        assert!(!quota.close());
        quota.charge(0, 1, UNLIMITED).unwrap();
        quota.give_back(0, 1);
        quota.give_back(1, 3);
        assert!(quota.close());
        assert_eq!(quota.charge(0, 1, UNLIMITED), Err(Refused::Closed));
        assert_eq!(quota.used(0), 0);
    }

    #[test]
    fn no_more_than_the_limit_is_used_at_once_and_all_comes_back() {
        const LIMIT: u64 = 300;
        let quota = Quota::<1>::try_new().unwrap();
        let (used, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        thread::scope(|scope| {
            for seed in 0..4_u64 {
                let (quota, used, over) = (&quota, &used, &over);
                scope.spawn(move || {
                    let mut mine = 0;
                    for round in 0..rounds {
                        let n = 1 + (round * 7 + seed * 13) % 90;
                        if quota.charge(0, n, LIMIT).is_ok() {
                            let sum = used.fetch_add(n, Relaxed) + n;
                            over.fetch_or(sum > LIMIT, Relaxed);
                            mine += n;
                        } else {
                            used.fetch_sub(mine, Relaxed);
                            quota.give_back(0, mine);
                            mine = 0;
                        }
                    }
                    used.fetch_sub(mine, Relaxed);
                    quota.give_back(0, mine);
                });
            }
        });
        assert!(!over.load(Relaxed));
        assert_eq!(quota.used(0), 0);
        quota.charge(0, LIMIT, LIMIT).unwrap();
        assert!(!quota.close());
        quota.give_back(0, LIMIT);
        assert!(quota.close());
    }
}
