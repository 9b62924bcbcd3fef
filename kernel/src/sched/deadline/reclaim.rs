//! What part of its run time a task pays that may use what others leave (SCHED_FLAG_RECLAIM): greedy reclamation of unused bandwidth (Lipari and Baruah, 2000; as Linux's
//! per-CPU form, Abeni, Lelli, Scordino and Palopoli, 2014).
//!
//! A CPU counts the bandwidth of the tasks that are *active* there: they run, wait, are throttled, or sleep and have not yet used up what they had left at
//! their bandwidth. A task that reclaims pays as if the CPU were as fast as is active, and all that may be admitted were less by what is not.
#![forbid(unsafe_code)]

use super::super::realtime::settings;
use super::entity::Entity;
use super::parameters::{UNIT, ratio};
use core::sync::atomic::Ordering::Relaxed;

/// Sleepers that are told apart on one CPU; of more than these, some count for longer.
const SLEEPERS: usize = 16;

/// Who is active on a CPU. Under its queue's lock.
pub struct Reclaim {
    /// Bandwidths of those who run, wait, or are throttled.
    awake: u64,
    /// Of those who sleep: until when, and which.
    asleep: [(u64, u64); SLEEPERS],
}

/// What part of a CPU may be admitted, in [`UNIT`]s; None: nothing bounds it.
pub fn bound() -> Option<u64> {
    match settings::bound() {
        (period, runtime) if runtime >= 0 => {
            Some(ratio(u64::from(period.unsigned_abs()), u64::from(runtime.unsigned_abs())))
        }
        _ => None,
    }
}

impl Reclaim {
    pub const fn new() -> Self {
        Self { awake: 0, asleep: [(0, 0); SLEEPERS] }
    }

    /// It is active here from now on.
    pub fn enter(&mut self, entity: &Entity) {
        if entity.counted.load(Relaxed) == 0 {
            let bandwidth = entity.parameters().bandwidth();
            entity.counted.store(bandwidth, Relaxed);
            self.awake = self.awake.saturating_add(bandwidth);
        }
    }

    /// It leaves this CPU, or the class, or ends.
    pub fn leave(&mut self, entity: &Entity) {
        self.awake = self.awake.saturating_sub(entity.counted.swap(0, Relaxed));
    }

    /// It sleeps.
    pub fn sleep(&mut self, entity: &Entity) {
        let bandwidth = entity.counted.load(Relaxed);
        self.leave(entity);
        let until = entity.zero_lag_time();
        entity.zero_lag.store(until, Relaxed);
        // The place of one whose time has come, or nearly; else who has it counts for longer.
        if let Some(place) = self.asleep.iter_mut().min_by_key(|(until, _)| *until) {
            let is_over = place.0 <= entity.at().saturating_sub(entity.parameters().period);
            let others = if is_over { 0 } else { place.1 };
            *place = (until.max(place.0), others.saturating_add(bandwidth));
        }
    }

    /// It wakes, having slept here.
    pub fn wake(&mut self, entity: &Entity) {
        let (until, bandwidth) = (entity.zero_lag.swap(0, Relaxed), entity.parameters().bandwidth());
        if let Some(place) = self.asleep.iter_mut().find(|place| until != 0 && **place == (until, bandwidth))
        {
            *place = (0, 0);
        }
    }

    /// The bandwidth that is active at `now`.
    fn active(&self, now: u64) -> u64 {
        let asleep = self.asleep.iter().filter(|(until, _)| *until > now).map(|(_, bandwidth)| *bandwidth);
        self.awake.saturating_add(asleep.sum())
    }

    /// What `entity` pays of the time that it runs up to `now`, in [`UNIT`]s.
    pub fn part(&self, entity: &Entity, now: u64) -> u64 {
        let parameters = entity.parameters();
        if !parameters.reclaims {
            return UNIT;
        }
        let most = bound().unwrap_or(UNIT).clamp(1, UNIT);
        let own = parameters.bandwidth().saturating_mul(UNIT) / most;
        own.max((UNIT - most).saturating_add(self.active(now))).min(UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::Parameters;
    use super::*;

    const MS: u64 = 1_000_000;

    fn entity(runtime: u64, period: u64) -> Entity {
        let (runtime, period) = (runtime * MS, period * MS);
        let entity = Entity::new();
        entity.set_parameters(Parameters {
            runtime,
            deadline: period,
            period,
            reclaims: true,
            is_told: false,
        });
        entity
    }

    /// In percent.
    fn part(reclaim: &Reclaim, entity: &Entity, now: u64) -> u64 {
        (reclaim.part(entity, now * MS) * 100 + UNIT / 2) / UNIT
    }

    #[test]
    fn alone_it_pays_for_what_may_not_be_admitted_and_for_itself() {
        let (mut reclaim, own) = (Reclaim::new(), entity(20, 100));
        reclaim.enter(&own);
        reclaim.enter(&own);
        assert_eq!(part(&reclaim, &own, 0), 25);
    }

    #[test]
    fn it_pays_for_others_until_their_rest_is_due() {
        let (mut reclaim, own, other) = (Reclaim::new(), entity(20, 100), entity(50, 100));
        reclaim.enter(&own);
        reclaim.enter(&other);
        assert_eq!(part(&reclaim, &own, 0), 75);
        other.arrive(0);
        other.charge(30 * MS, UNIT);
        reclaim.sleep(&other);
        assert_eq!(part(&reclaim, &own, 59), 75, "20 that are left are due at 60");
        assert_eq!(part(&reclaim, &own, 60), 25);
        reclaim.wake(&other);
        reclaim.enter(&other);
        assert_eq!(part(&reclaim, &own, 59), 75, "it is not counted twice");
        reclaim.leave(&other);
        assert_eq!(part(&reclaim, &own, 59), 25);
    }

    #[test]
    fn many_sleepers_count_for_longer_and_never_less() {
        let (mut reclaim, own) = (Reclaim::new(), entity(1, 100));
        let others: std::vec::Vec<Entity> = (0..40).map(|_| entity(2, 100)).collect();
        reclaim.enter(&own);
        for other in &others {
            reclaim.enter(other);
            other.arrive(0);
            other.charge(MS, UNIT);
            reclaim.sleep(other);
        }
        assert_eq!(part(&reclaim, &own, 49), 86);
        assert_eq!(part(&reclaim, &own, 50), 6);
    }

    #[test]
    fn who_does_not_reclaim_pays_all() {
        let (reclaim, own) = (Reclaim::new(), entity(20, 100));
        own.set_parameters(Parameters { reclaims: false, ..own.parameters() });
        assert_eq!(part(&reclaim, &own, 0), 100);
    }
}
