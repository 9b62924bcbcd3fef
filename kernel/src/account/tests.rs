//! Users come and go with what is counted for them.

use super::*;

/// Numbers that no other test uses.
const BASE: u32 = 5_000_000;

#[test]
fn what_a_charge_counts_it_gives_back() {
    let mut charge = Charge::try_new(BASE, Kind::PipePages, 16, 20).unwrap();
    assert_eq!(Charge::try_new(BASE, Kind::PipePages, 5, 20).err(), Some(Denied::Full));
    let other = Charge::try_new(BASE, Kind::PipePages, 4, 20).unwrap();
    assert_eq!(charge.set(17, 20), Err(Denied::Full));
    assert_eq!(charge.n(), 16);
    assert_comes_to(|| (used(BASE, Kind::PipePages), used(BASE, Kind::Watches)), (20, 0));
    charge.set(2, 0).unwrap();
    charge.set(3, 20).unwrap();
    assert_comes_to(|| used(BASE, Kind::PipePages), 7);
    drop((charge, other));
    assert_comes_to(|| used(BASE, Kind::PipePages), 0);
}

#[test]
fn one_user_does_not_use_up_what_another_may_have() {
    let _held = Charge::try_new(BASE + 1, Kind::Signals, 9, 9).unwrap();
    assert!(Charge::try_new(BASE + 1, Kind::Signals, 1, 9).is_err());
    assert!(Charge::try_new(BASE + 65, Kind::Signals, 9, 9).is_ok());
}

/// One test, since all see one table: who comes and goes while there are few users, then 100,000 at once.
#[test]
fn users_who_hold_nothing_do_not_stay_and_those_who_do_are_found_in_a_few_steps() {
    let one = |uid: u32| Charge::try_new(uid, Kind::Watches, 1, 1);
    let kept = one(BASE + 2).unwrap();
    let passing = 6_000_000..6_005_000;
    passing.clone().for_each(|uid| drop(one(uid).unwrap()));
    assert!(users::count(passing) < 200, "the chains keep what their last users have left");
    assert_comes_to(|| used(BASE + 2, Kind::Watches), 1);
    let shown = || {
        let mut shown = false;
        for_each(
            |uid, counts, _| {
                shown |= uid == BASE + 2 && counts == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            },
            || {},
        );
        shown
    };
    assert_comes_to(shown, true);
    drop(kept);

    let many = 9_000_000..if cfg!(miri) { 9_001_000 } else { 9_100_000 };
    let held: std::vec::Vec<_> = many.clone().map(|uid| one(uid).unwrap()).collect();
    assert_eq!(users::count(many.clone()), held.len());
    let longest = many.clone().map(users::steps).max();
    assert!(longest.is_some_and(|steps| steps <= 16), "{longest:?}");
    assert!(many.clone().all(|uid| one(uid).err() == Some(Denied::Full)));
    drop(held);
    many.clone().for_each(|uid| assert_comes_to(|| used(uid, Kind::Watches), 0));
    forget_idle(|| {});
    assert_eq!(users::count(many), 0);
}

#[test]
fn pages_of_memory_files_are_their_users_as_long_as_a_file_has_them() {
    let uid = BASE + 3;
    let (charge, budget) = memory_file(uid).unwrap();
    let (_other, same) = memory_file(uid).unwrap();
    assert!(BudgetRef::ptr_eq(&budget, &same));
    budget.charge(vm::BudgetKind::Pages, 700).unwrap();
    assert_comes_to(|| (held_pages(uid), used(uid, Kind::MemoryFiles)), (700, 2));
    // Mappings may keep the pages when the files are gone.
    drop((charge, _other, same));
    forget_idle(|| {});
    assert_comes_to(|| held_pages(uid), 700);
    let mut seen = 0;
    for_each(|other, _, pages| seen += if other == uid { pages } else { 0 }, || {});
    assert_eq!(seen, 700);
    budget.give_back(vm::BudgetKind::Pages, 700);
    drop(budget);
    forget_idle(|| {});
    assert_eq!(users::count(uid..uid + 1), 0);
}

#[test]
fn what_is_counted_weighs_what_it_takes() {
    let uid = BASE + 4;
    let charges = Kind::ALL.map(|(kind, _)| Charge::try_new(uid, kind, 4096, UNLIMITED).unwrap());
    let bytes = Kind::ALL.iter().map(|(kind, _)| kind.size()).sum::<u64>();
    assert_comes_to(|| held_pages(uid), bytes);
    drop(charges);
    assert_comes_to(|| held_pages(uid), 0);
}
