//! How many have a thing open, where who opens and closes it writes no line of another CPU, and somebody who looks must not miss one.
//!
//! ```text
//!   who opens, in an RCU read section     who claims
//!   counts that on its CPU                says so
//!   looks whether anybody claims          waits for a grace period (`readers.period`)
//!   ...                                   adds up who closed, CPU by CPU
//!   who closes: counts that on its CPU    adds up who opened, CPU by CPU
//! ```
//!
//! - Who opened either sees the claim or is counted for who claims: his section ended before the grace period did, or began behind the claim.
//! - Of whoever is seen to have closed (`readers.close`, `readers.look`) the opening is seen too, for that comes earlier. So the difference is never less than
//!   are open all the while, whoever comes and goes, and on whatever CPUs.
//! - Many things may share a count: then it is the more.
//! - Who opens to write is counted in one place (`Shared`), for all that write it share the thing anyway. He counts, and then looks; who claims says so, and then looks
//!   at the count: with a fence between (`readers.write`, `readers.claim`), so that one of them sees the other.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicBool, AtomicU32, Ordering, const_new, fence_after_rmw, fence_at, site, step};

/// A CPU's part of a count. Written by that CPU alone, which is not preempted meanwhile.
#[derive(Debug)]
pub struct Count {
    opened: AtomicU32,
    closed: AtomicU32,
}

impl Default for Count {
    fn default() -> Self {
        Self::new()
    }
}

impl Count {
    const_new! {
        pub fn new() -> Self {
            Count { opened: AtomicU32::new(0), closed: AtomicU32::new(0) }
        }
    }

    /// One more has it open. He looks whether anybody claims it in the same read section.
    #[inline(always)]
    pub fn open(&self) {
        self.opened.store(self.opened.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// One who opened it, on whatever CPU, has closed it.
    #[inline(always)]
    pub fn close(&self) {
        let closed = self.closed.load(Ordering::Relaxed).wrapping_add(1);
        self.closed.store(closed, site("readers.close", Ordering::Release));
    }
}

/// How many have it open, or more. `counts` gives each CPU's, and each time the same.
pub fn open<'a, I: Iterator<Item = &'a Count>>(counts: impl Fn() -> I) -> u32 {
    let sum = |all: u32, count: u32| all.wrapping_add(count);
    let closed =
        counts().map(|count| count.closed.load(site("readers.look", Ordering::Acquire))).fold(0, sum);
    let opened = counts().map(|count| count.opened.load(Ordering::Relaxed)).fold(0, sum);
    opened.wrapping_sub(closed)
}

/// How many have it open in a way for which they are counted in one place.
#[derive(Debug)]
pub struct Shared(AtomicU32);

impl Default for Shared {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    const_new! {
        pub fn new() -> Self {
            Shared(AtomicU32::new(0))
        }
    }

    /// One more has it open. He looks afterwards whether anybody claims it.
    #[inline(always)]
    pub fn open(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        fence_after_rmw("readers.write");
    }

    #[inline(always)]
    pub fn close(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// How many have it open. Asked behind a claim, or a fence.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

/// That somebody wants to be alone with it, or is.
#[derive(Debug)]
pub struct Claim(AtomicBool);

impl Default for Claim {
    fn default() -> Self {
        Self::new()
    }
}

impl Claim {
    const_new! {
        pub fn new() -> Self {
            Claim(AtomicBool::new(false))
        }
    }

    /// Claims it. Who does not see that is counted: among the shared ones, and, if `synchronize` waits for a grace period, in each CPU's part.
    pub fn begin(&self, synchronize: impl FnOnce()) {
        self.0.store(true, Ordering::Relaxed);
        if step("readers.period") {
            synchronize();
        }
        fence_at("readers.claim");
    }

    /// Nobody claims it any more. Who begins and ends claims does so under one lock.
    pub fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Asked by who has counted himself.
    #[inline(always)]
    pub fn is_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
