//! What becomes of a budget and a deadline.

use super::*;

const MS: u64 = 1_000_000;

fn entity(runtime: u64, deadline: u64, period: u64) -> Entity {
    let entity = Entity::new();
    entity.set_parameters(Parameters {
        runtime: runtime * MS,
        deadline: deadline * MS,
        period: period * MS,
        ..Default::default()
    });
    entity
}

fn stands(entity: &Entity) -> (i64, u64) {
    (entity.left() / MS as i64, entity.at() / MS)
}

#[test]
fn who_begins_has_its_whole_run_time_and_a_deadline_from_now_on() {
    let entity = entity(10, 30, 100);
    assert_eq!(entity.arrive(500 * MS), Arrival::Ready);
    assert_eq!(stands(&entity), (10, 530));
}

#[test]
fn who_has_had_its_run_time_waits_for_its_next_period() {
    let entity = entity(10, 30, 100);
    entity.arrive(500 * MS);
    entity.charge(4 * MS, UNIT);
    assert!(!entity.ends_turn(504 * MS));
    entity.charge(7 * MS, UNIT);
    assert!(entity.ends_turn(511 * MS));
    assert_eq!((entity.until() / MS, stands(&entity)), (600, (-1, 530)));
    entity.replenish(600 * MS);
    assert_eq!(stands(&entity), (9, 630), "what it had too much is taken off");
}

#[test]
fn who_has_had_many_run_times_at_once_pays_them_off() {
    let entity = entity(10, 100, 100);
    entity.arrive(0);
    entity.charge(45 * MS, UNIT);
    assert!(entity.ends_turn(45 * MS));
    entity.replenish(100 * MS);
    assert_eq!(stands(&entity), (5, 500));
}

#[test]
fn a_replenishment_that_is_late_begins_anew() {
    let entity = entity(10, 100, 100);
    entity.arrive(0);
    entity.charge(10 * MS, UNIT);
    assert!(!entity.ends_turn(950 * MS), "its period is over");
    assert_eq!(stands(&entity), (10, 1050));
}

#[test]
fn who_yields_waits_and_is_not_told_of_an_overrun() {
    let entity = entity(10, 100, 100);
    entity.set_parameters(Parameters { is_told: true, ..entity.parameters() });
    entity.arrive(0);
    entity.yield_turn();
    assert!(entity.ends_turn(MS) && !entity.take_overrun());
    entity.replenish(100 * MS);
    assert_eq!(stands(&entity), (10, 200));
    entity.charge(11 * MS, UNIT);
    assert!(entity.ends_turn(120 * MS) && entity.take_overrun() && !entity.take_overrun());
}

#[test]
fn who_wakes_in_its_period_keeps_what_it_has_left_if_that_is_no_larger_load() {
    let entity = entity(40, 100, 100);
    entity.arrive(0);
    entity.charge(30 * MS, UNIT);
    assert_eq!(entity.arrive(60 * MS), Arrival::Ready);
    assert_eq!(stands(&entity), (10, 100));
    assert_eq!(entity.arrive(80 * MS), Arrival::Ready);
    assert_eq!(stands(&entity), (40, 180), "10 of 20 would be more than 40 of 100");
}

#[test]
fn one_with_an_early_deadline_never_has_two_run_times_in_a_period() {
    let entity = entity(10, 20, 100);
    entity.arrive(0);
    entity.charge(2 * MS, UNIT);
    assert_eq!(entity.arrive(15 * MS), Arrival::Ready);
    assert_eq!(entity.left(), 2_500_000, "half of what is left until its deadline");
    assert_eq!(
        entity.arrive(30 * MS),
        Arrival::Waits(100 * MS),
        "its deadline is over and its period is not"
    );
    assert_eq!(entity.arrive(99 * MS), Arrival::Waits(100 * MS));
    assert_eq!(entity.arrive(130 * MS), Arrival::Ready);
    assert_eq!(stands(&entity), (10, 150));
}

#[test]
fn who_may_hold_locks_goes_on_with_a_later_deadline_and_pays_in_user_mode() {
    let entity = entity(10, 100, 100);
    entity.arrive(0);
    entity.hold(true);
    entity.charge(35 * MS, UNIT);
    assert!(!entity.ends_turn(35 * MS));
    assert_eq!(stands(&entity), (5, 400));
    entity.charge(15 * MS, UNIT);
    assert_eq!(entity.arrive(60 * MS), Arrival::Ready);
    assert_eq!(stands(&entity), (10, 600));
    entity.hold(false);
    entity.charge(10 * MS, UNIT);
    assert!(entity.ends_turn(70 * MS));
    assert_eq!(entity.until() / MS, 600);
}

#[test]
fn who_sleeps_counts_until_what_it_has_left_is_due() {
    let entity = entity(40, 100, 100);
    entity.arrive(0);
    entity.charge(30 * MS, UNIT);
    assert_eq!(entity.zero_lag_time(), 75 * MS);
}
