//! Counts with a limit that many CPUs reach up to without a common line (CountLocal).
//!
//! ```text
//!   taken          what is used, and what CPUs have put by; one line, written once for a batch
//!   spare[cpu]     what this CPU has put by: a charge comes out of it, what is given back goes into it
//! ```
//!
//! A charge looks at `taken` and at this CPU's spare and writes only the latter. The limit is exact: what fits is not refused for what other
//! CPUs have put by, and no more than the limit is ever used; `protocol::quota` says why. Limits are the caller's, and may differ from charge to
//! charge.
//!
//! A [`Quota`] has its spares in memory of its own, a [`GlobalQuota`] in a per-CPU static: for a count of the whole machine.
//!
//! No locks; not for interrupt handlers.
#![forbid(unsafe_code)]

use crate::heap::{AllocError, try_box_slice};
use crate::machine;
use crate::percpu::{Padded, PerCpu};
use crate::protocol::quota::{RawQuota, Spares};
pub use crate::protocol::quota::{Refused, UNLIMITED};
use alloc::boxed::Box;
use core::sync::atomic::AtomicU64;

/// More than RCU gives back at once (`rcu::ENOUGH`), so that what comes and goes stays with its CPU.
const BATCH: u64 = 512;

/// One CPU's spares, on a line of their own.
#[repr(align(64))]
struct Own<const N: usize>([AtomicU64; N]);

/// Counts of `N` kinds of things. A kind that does not exist is refused.
pub struct Quota<const N: usize> {
    taken: Padded<[RawQuota; N]>,
    spares: Box<[Own<N>]>,
}

/// The spares of one kind.
struct Of<'a, const N: usize>(&'a [Own<N>], usize);

impl<const N: usize> Spares for Of<'_, N> {
    const BATCH: u64 = BATCH;

    #[inline]
    fn this(&self) -> Option<&AtomicU64> {
        self.0.get(machine::cpu_id() as usize)?.0.get(self.1)
    }

    fn each(&self, f: impl FnMut(&AtomicU64)) {
        self.0.iter().filter_map(|own| own.0.get(self.1)).for_each(f);
    }
}

impl<const N: usize> Quota<N> {
    /// Nothing is used.
    ///
    /// # Errors
    /// Memory is out.
    pub fn try_new() -> Result<Self, AllocError> {
        let cpus = machine::cpus() as usize;
        Ok(Self {
            taken: Padded([const { RawQuota::new() }; N]),
            spares: try_box_slice(cpus, |_| Own([const { AtomicU64::new(0) }; N]))?,
        })
    }

    #[inline]
    fn of(&self, kind: usize) -> Of<'_, N> {
        Of(&self.spares, kind)
    }

    /// Counts `n` more, if no more than `limit` is used then.
    ///
    /// # Errors
    /// It is not counted.
    #[inline]
    pub fn charge(&self, kind: usize, n: u64, limit: u64) -> Result<(), Refused> {
        self.taken.get(kind).ok_or(Refused::Full)?.charge(&self.of(kind), n, limit)
    }

    /// Counts `n` less. They were charged before.
    #[inline]
    pub fn give_back(&self, kind: usize, n: u64) {
        if let Some(taken) = self.taken.get(kind) {
            taken.give_back(&self.of(kind), n);
        }
    }

    /// How much is used: exact when nobody charges, gives back or closes it meanwhile.
    pub fn used(&self, kind: usize) -> u64 {
        self.taken.get(kind).map_or(0, |taken| taken.used(&self.of(kind)))
    }

    /// Ends it, if nothing of any kind is used: every later charge is refused as `Closed`. One caller at a time.
    pub fn close(&self) -> bool {
        for (kind, taken) in self.taken.iter().enumerate() {
            if !taken.close(&self.of(kind)) {
                self.taken.iter().take(kind).for_each(RawQuota::open);
                return false;
            }
        }
        true
    }
}

impl Spares for &PerCpu<AtomicU64> {
    const BATCH: u64 = BATCH;

    #[inline]
    fn this(&self) -> Option<&AtomicU64> {
        Some(PerCpu::this(self))
    }

    fn each(&self, f: impl FnMut(&AtomicU64)) {
        self.iter().for_each(f);
    }
}

/// One count, for a static.
pub struct GlobalQuota {
    taken: Padded<RawQuota>,
    spares: &'static PerCpu<AtomicU64>,
}

impl GlobalQuota {
    /// Nothing is used. `spares` are this quota's alone.
    pub const fn new(spares: &'static PerCpu<AtomicU64>) -> Self {
        Self { taken: Padded(RawQuota::new()), spares }
    }

    /// Counts `n` more, if no more than `limit` is used then. False: it is not counted.
    #[inline]
    pub fn charge(&self, n: u64, limit: u64) -> bool {
        self.taken.charge(&self.spares, n, limit).is_ok()
    }

    /// Counts `n` less. They were charged before.
    #[inline]
    pub fn give_back(&self, n: u64) {
        self.taken.give_back(&self.spares, n);
    }

    /// How much is used: exact when nobody charges or gives back meanwhile.
    pub fn used(&self) -> u64 {
        self.taken.used(&self.spares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::hosted::as_cpu;
    use crate::per_cpu;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    fn a_count_in_a_static_is_one_for_all_cpus_and_exact_at_the_limit() {
        per_cpu! { static SPARES: AtomicU64 = AtomicU64::new(0); }
        static COUNT: GlobalQuota = GlobalQuota::new(&SPARES);
        as_cpu(117, || {
            assert!(COUNT.charge(10, 1000));
            COUNT.give_back(3);
        });
        as_cpu(118, || {
            assert!(COUNT.charge(993, 1000));
            assert!(!COUNT.charge(1, 1000));
            assert!(COUNT.charge(1, UNLIMITED));
        });
        assert_eq!(COUNT.used(), 1001);
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
