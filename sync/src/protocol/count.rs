//! The reference count that goes per CPU: one shared counter while it is cold, a counter per CPU while it is hot, and the shared
//! one again once it is killed, because only a count in one place can be seen to reach zero.
//!
//! `mode` says which counter `get` and `put` use: 0 the shared one; i + 1 the per-CPU counters number i; with DEAD the shared one
//! for good. The shared count begins at one, the owner's reference, which `finish` gives up. While the per-CPU counters are in use
//! it also holds BIAS, so that references taken there and put here do not bring it to zero.
//!
//! - `get`, `put` and `warm` are called in RCU read sections; `finish` comes a grace period after `kill`. So when it adds up,
//!   nobody is left who saw the mode without DEAD, and every per-CPU change is in the sum (the grace period orders it).
//! - With only the owner's reference left and nobody to find the object, the owner need not kill: no change is under way, and a
//!   count that is per CPU holds BIAS, so it is not taken for one (`count.alone`).
//! - Per-CPU counters are zeroed before `mode` names them (`count.publish`, release).
#![forbid(unsafe_code)]

use crate::atomic::{AtomicI64, AtomicU32, Ordering, const_new, fence_at, site, step};

const DEAD: u32 = 1 << 31;
const BIAS: i64 = 1 << 48;

/// Changes of CPU, while the count is shared, after which it is hot.
const HOT: u32 = 16;

#[inline(always)]
fn bias() -> i64 {
    if step("count.bias") { BIAS } else { 0 }
}

/// Finds per-CPU counters by number.
pub trait Locals {
    /// This CPU's counter; only this CPU writes it while it is in use.
    fn this(&self, number: u32) -> &AtomicI64;
    /// The sum over all CPUs.
    fn sum(&self, number: u32) -> i64;
}

/// What `get` found. Numbered from 1: were it a truth value, the compiler would put `get` in place where that costs more (vfork
/// and exec would take 311 instructions longer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    Reference = 1,
    /// A reference; and several CPUs use the count so often that it should go per CPU (`warm`).
    HotReference = 2,
}

/// A count without its callbacks.
#[derive(Debug)]
pub struct RawCount {
    mode: AtomicU32,
    /// While shared: the CPU that counted last, and changes of CPU above.
    heat: AtomicU32,
    shared: AtomicI64,
}

impl RawCount {
    const_new! {
        pub fn new() -> Self {
            RawCount { mode: AtomicU32::new(0), heat: AtomicU32::new(0), shared: AtomicI64::new(1) }
        }
    }

    const_new! {
        /// A count that no owner has, as after `finish`: shared for good, with one reference, the caller's, that `put` gives up.
        pub fn unowned() -> Self {
            RawCount { mode: AtomicU32::new(DEAD), heat: AtomicU32::new(0), shared: AtomicI64::new(1) }
        }
    }

    fn local<'a>(&self, locals: &'a impl Locals) -> Option<&'a AtomicI64> {
        let mode = self.mode.load(Ordering::Acquire);
        (mode != 0 && mode & DEAD == 0).then(|| locals.this(mode - 1))
    }

    /// Takes one more reference; the caller has one. In a read section.
    #[inline(always)]
    pub fn get(&self, locals: &impl Locals, cpu: u32) -> Got {
        match self.local(locals) {
            Some(local) => {
                local.store(local.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                Got::Reference
            }
            None => self.get_shared(cpu),
        }
    }

    fn get_shared(&self, cpu: u32) -> Got {
        self.shared.fetch_add(1, Ordering::Relaxed);
        let heat = self.heat.load(Ordering::Relaxed);
        if heat & 0xffff == cpu || self.is_dead() {
            return Got::Reference;
        }
        // On the line that was written above, and a guess: races lose a change of CPU.
        let changes = (heat >> 16) + 1;
        self.heat.store(if changes < HOT { changes << 16 | cpu } else { 0 }, Ordering::Relaxed);
        if changes < HOT { Got::Reference } else { Got::HotReference }
    }

    /// Gives a reference back. True if it was the last and the count is dead: nobody uses the object any more. In a read section,
    /// which ends before the object is freed.
    #[inline(always)]
    pub fn put(&self, locals: &impl Locals) -> bool {
        match self.local(locals) {
            Some(local) => {
                local.store(local.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
                false
            }
            None => self.put_shared(1),
        }
    }

    fn put_shared(&self, n: i64) -> bool {
        if self.shared.fetch_sub(n, site("count.put", Ordering::Release)) != n {
            return false;
        }
        // Sees what all others did to the object before they put it.
        fence_at("count.last");
        true
    }

    /// Goes on with per-CPU counters `number`, which are all zero and nobody's. False if the count is dead or per CPU already. In
    /// a read section.
    pub fn warm(&self, number: u32) -> bool {
        self.shared.fetch_add(bias(), Ordering::Relaxed);
        let order = site("count.publish", Ordering::Release);
        let warmed = self.mode.compare_exchange(0, number + 1, order, Ordering::Relaxed).is_ok();
        if !warmed {
            // Not to zero: the owner's reference is given up only after this read section.
            self.shared.fetch_sub(bias(), Ordering::Relaxed);
        }
        warmed
    }

    /// Whether the owner's reference is the only one. If so, and if nobody can find the object without one, the owner may free it
    /// at once: it sees what all others did to the object before they put it.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.shared.load(site("count.alone", Ordering::Acquire)) == 1
    }

    /// From here on references are counted in one place. True for the first caller, who calls `finish` after a grace period.
    pub fn kill(&self) -> bool {
        self.mode.fetch_or(DEAD, Ordering::AcqRel) & DEAD == 0
    }

    /// Adds up and gives the owner's reference up, a grace period after `kill`. The per-CPU counters that were in use, if
    /// any, are the caller's again; and true if no reference is left.
    pub fn finish(&self, locals: &impl Locals) -> (Option<u32>, bool) {
        match self.mode.swap(DEAD, Ordering::Relaxed) & !DEAD {
            0 => (None, self.put_shared(1)),
            mode => {
                let number = mode - 1;
                let sum = if step("count.sum") { locals.sum(number) } else { 0 };
                // One step: with BIAS gone but the sum not yet there, the count would be wrong.
                (Some(number), self.put_shared(bias() + 1 - sum))
            }
        }
    }

    #[inline(always)]
    pub fn is_dead(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & DEAD != 0
    }

    /// Whether per-CPU counters are in use.
    pub fn is_per_cpu(&self) -> bool {
        let mode = self.mode.load(Ordering::Relaxed);
        mode != 0 && mode & DEAD == 0
    }
}

impl Default for RawCount {
    fn default() -> Self {
        Self::new()
    }
}
