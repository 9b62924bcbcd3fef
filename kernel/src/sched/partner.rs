//! Who takes turns with another: wakes one task, and sleeps at once. Two such are partners, as the ends of a pipe or of a futex by which one hands the other work and
//! waits for the answer. They never run at the same time, so they are best on one CPU: no line moves when one wakes the other, and no CPU is woken.
//!
//! A task keeps this by itself; whoever wakes it looks at it if he is so himself.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Sleeps that show it.
const SURE: u32 = 4;
/// The most that is remembered. One sleep that speaks against it leaves half: a tick, or a first look at new memory, does not part the two, since it
/// would take them apart and four sleeps later together again. Two in a row do.
const MOST: u32 = 2 * SURE;
/// Sleeps for which it is known that somebody else waited on the CPU of two who take turns.
const OF_LATE: u32 = 4;
/// Who runs longer between two sleeps does something by itself, ns.
const SHORT: u64 = 50_000;

/// See the head of the file. Written by the task's own CPU.
pub struct Partner {
    /// Whom it has woken since it last slept.
    wakes: AtomicU32,
    /// How often it woke one task and slept soon after, of late.
    times: AtomicU32,
    /// Sleeps until it is forgotten that somebody else waited there.
    company: AtomicU32,
}

impl Partner {
    pub const fn new() -> Self {
        Self { wakes: AtomicU32::new(0), times: AtomicU32::new(0), company: AtomicU32::new(0) }
    }

    /// It wakes a task. True: it sleeps after this one, as far as one can tell.
    #[inline]
    pub fn wakes(&self) -> bool {
        let wakes = self.wakes.load(Relaxed);
        self.wakes.store(wakes.wrapping_add(1), Relaxed);
        wakes == 0 && self.takes_turns()
    }

    /// Does it take turns?
    #[inline]
    pub fn takes_turns(&self) -> bool {
        self.times.load(Relaxed) >= SURE
    }

    /// Another runs before it sleeps: whom it wakes next is the first again.
    #[inline]
    pub fn gives_way(&self) {
        self.wakes.store(0, Relaxed);
    }

    /// It wakes its partner, and somebody else waits on their CPU. True: it is the first time of late, so they stay together.
    #[cold]
    pub fn bears_company(&self) -> bool {
        self.company.swap(OF_LATE, Relaxed) == 0
    }

    /// It sleeps, and has `ran` for so long since it last did, ns.
    #[inline]
    pub fn sleeps(&self, ran: impl FnOnce() -> u64) {
        let wakes = self.wakes.load(Relaxed);
        if wakes != 0 {
            self.wakes.store(0, Relaxed);
            let times = self.times.load(Relaxed);
            let again = if wakes == 1 && ran() < SHORT { (times + 1).min(MOST) } else { times / 2 };
            if again != times {
                self.times.store(again, Relaxed);
            }
            let company = self.company.load(Relaxed);
            if company != 0 {
                self.company.store(company - 1, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wakes_one_and_sleeps_again_and_again_takes_turns() {
        let partner = Partner::new();
        for _ in 0..SURE {
            assert!(!partner.wakes());
            partner.sleeps(|| 5000);
        }
        assert!(partner.wakes(), "it is seen now");
        assert!(!partner.wakes(), "the second is another");
        partner.sleeps(|| 5000);
        assert!(!partner.wakes(), "it woke two");
    }

    #[test]
    fn once_is_not_enough_to_part_who_has_long_taken_turns() {
        let partner = Partner::new();
        (0..MOST).for_each(|_| {
            partner.wakes();
            partner.sleeps(|| 5000);
        });
        let late = |ran| {
            partner.wakes();
            partner.sleeps(|| ran);
            partner.takes_turns()
        };
        assert!(late(SHORT), "one tick in between");
        assert!((0..SURE).all(|_| late(5000)));
        assert!(late(SHORT) && !late(SHORT), "two in a row");
    }

    /// A tick comes after it has woken the other, who runs and answers before it has slept.
    #[test]
    fn who_gives_way_in_between_still_takes_turns() {
        let partner = Partner::new();
        (0..SURE).for_each(|_| {
            partner.wakes();
            partner.sleeps(|| 5000);
        });
        assert!(partner.wakes());
        partner.gives_way();
        assert!(partner.wakes());
        partner.sleeps(|| 5000);
        assert!(partner.takes_turns());
    }

    #[test]
    fn company_parts_two_if_it_stays() {
        let partner = Partner::new();
        let turn = || {
            partner.wakes();
            partner.sleeps(|| 5000);
        };
        (0..SURE).for_each(|_| turn());
        assert!(partner.bears_company());
        (0..OF_LATE).for_each(|_| turn());
        assert!(partner.bears_company(), "it was long ago");
        turn();
        assert!(!partner.bears_company(), "it waits again");
        assert!(partner.takes_turns(), "with each other all the same");
    }

    #[test]
    fn who_works_before_it_sleeps_does_not() {
        let partner = Partner::new();
        for _ in 0..2 * SURE {
            assert!(!partner.wakes());
            partner.sleeps(|| SHORT);
        }
    }
}
