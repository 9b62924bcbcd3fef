//! Do tasks of several groups compete? Where one group is alone its tasks need not be counted: nothing is to be divided.
//!
//! A CPU looks at ticks: here, at who runs and at some of those that wait; and at what other CPUs show of themselves. Tasks of the kernel's own do not
//! count. One look says little: a shell, too, runs now and then on any CPU. So counting begins when several looks in a row have seen another group, and
//! ends after many that have not.
//! Under the queue's lock.
#![forbid(unsafe_code)]

use sync::machine::CpuId;

/// The certainty that a look adds which sees another group, and the most of it. A tick that sees none takes one off.
const SEEN: u32 = 16;
const MOST: u32 = 4 * SEEN;
/// A look at all other CPUs that sees none takes off so much: there are fewer of these.
const UNSEEN_AFAR: u32 = 4;
/// Above this counting begins: a task that one tick came upon is another than those of the ticks before and after.
const ENOUGH: u32 = 2 * SEEN;

/// Ticks between two looks at other CPUs where nobody waits: a task that has its CPU for itself is not to show a weight of long ago for long, by which
/// it would seem to be due all of that.
const SELDOM: u32 = 8;

/// See the head of the file.
pub struct Mix {
    /// How certain it is that other groups are here, and on other CPUs.
    here: u32,
    afar: u32,
    /// Whose task the last tick came upon, as the CPU names groups to others; 0: none yet.
    last: u64,
    /// Ticks since the other CPUs were looked at.
    unseen: u32,
    /// The look that goes on: the CPU that is next, and whether another group has been found so far.
    next: CpuId,
    found: bool,
}

/// How certain a CPU was that other groups were there, and on other CPUs, as a task left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Certainty {
    here: u32,
    afar: u32,
}

impl Certainty {
    const BITS: u32 = 16;

    /// In a word, for the task to keep.
    pub fn word(self) -> u32 {
        self.here << Self::BITS | self.afar
    }

    pub fn of(word: u32) -> Self {
        Self { here: word >> Self::BITS, afar: word & ((1 << Self::BITS) - 1) }
    }
}

impl Mix {
    pub const fn new() -> Self {
        Self { here: 0, afar: 0, last: 0, unseen: 0, next: 0, found: false }
    }

    /// A tick comes upon a task of the group `current`; `others_wait`: one of another waits here.
    pub fn see_here(&mut self, current: u64, others_wait: bool) {
        let changes = self.last != 0 && self.last != current;
        self.last = current;
        self.here =
            if changes || others_wait { (self.here + SEEN).min(MOST) } else { self.here.saturating_sub(1) };
    }

    /// A tick: is it time to look at other CPUs? At each tick where somebody waits, else seldom.
    pub fn is_time(&mut self, is_contended: bool) -> bool {
        self.unseen += 1;
        let is_time = is_contended || self.unseen >= SELDOM;
        if is_time {
            self.unseen = 0;
        }
        is_time
    }

    /// Looks at `looks` of the CPUs from where the last look ended: `is_other` says of one whether it has tasks of other groups.
    pub fn look_afar(&mut self, cpus: u32, looks: u32, is_other: impl Fn(CpuId) -> bool) {
        for _ in 0..looks.min(cpus) {
            self.found |= is_other(self.next);
            self.next += 1;
            if self.next < cpus {
                continue;
            }
            self.next = 0;
            self.afar = if core::mem::take(&mut self.found) {
                (self.afar + SEEN).min(MOST)
            } else {
                self.afar.saturating_sub(UNSEEN_AFAR)
            };
        }
    }

    /// How certain it is, for a task that goes to another CPU.
    pub fn certainty(&self) -> Certainty {
        Certainty { here: self.here, afar: self.afar }
    }

    /// A task comes from a CPU where groups compete, with so much certainty: it is as certain here, and no more. So that ends everywhere some time after the last other group
    /// was seen, however many tasks move.
    pub fn expect(&mut self, from: Certainty) {
        self.here = self.here.max(from.here);
        self.afar = self.afar.max(from.afar);
    }

    /// What the CPU is to show after a tick that came upon a task of the group `current`; None: as before, as this may pass.
    pub fn shown(&self, current: u64, mixed: u64) -> Option<u64> {
        match self.here {
            0 => Some(current),
            here => (here > ENOUGH).then_some(mixed),
        }
    }

    /// Is it certain enough that groups are to be counted?
    pub fn is_certain(&self) -> bool {
        self.here.max(self.afar) > ENOUGH
    }

    /// Has it not been so for long?
    pub fn is_over(&self) -> bool {
        self.here == 0 && self.afar == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_runs_now_and_then_does_not_count_and_one_that_stays_does() {
        let mut mix = Mix::new();
        for _ in 0..100 {
            // One tick comes upon it.
            mix.see_here(1, false);
            (0..40).for_each(|_| mix.see_here(8, false));
            assert!(!mix.is_certain());
        }
        for _ in 0..3 {
            mix.see_here(1, false);
            mix.see_here(8, false);
        }
        assert!(mix.is_certain());
        (0..MOST).for_each(|_| mix.see_here(8, false));
        assert!(mix.is_over());
    }

    #[test]
    fn a_group_on_one_of_many_cpus_is_seen() {
        let mut mix = Mix::new();
        for _ in 0..3 * 256 / 32 {
            assert!(!mix.is_certain());
            mix.look_afar(256, 32, |cpu| cpu == 77);
        }
        assert!(mix.is_certain());
        (0..16 * 256 / 32).for_each(|_| mix.look_afar(256, 32, |_| false));
        assert!(mix.is_over());
    }
}
