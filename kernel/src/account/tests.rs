//! Users come and go with what is counted for them.

use super::*;
use sync::quota::UNLIMITED;

/// Numbers that no other test uses.
const BASE: u32 = 5_000_000;

#[test]
fn what_a_charge_counts_it_gives_back() {
    let mut charge = Charge::try_new(BASE, Kind::PipePages, 16, 20).unwrap();
    assert_eq!(Charge::try_new(BASE, Kind::PipePages, 5, 20).err(), Some(Denied::Full));
    let other = Charge::try_new(BASE, Kind::PipePages, 4, 20).unwrap();
    assert_eq!(charge.set(17, 20), Err(Denied::Full));
    assert_eq!((charge.n(), used(BASE, Kind::PipePages), used(BASE, Kind::Watches)), (16, 20, 0));
    charge.set(2, 0).unwrap();
    charge.set(3, 20).unwrap();
    assert_eq!(used(BASE, Kind::PipePages), 7);
    drop((charge, other));
    assert_eq!(used(BASE, Kind::PipePages), 0);
}

#[test]
fn one_user_does_not_use_up_what_another_may_have() {
    let _held = Charge::try_new(BASE + 1, Kind::Signals, 9, 9).unwrap();
    assert!(Charge::try_new(BASE + 1, Kind::Signals, 1, 9).is_err());
    assert!(Charge::try_new(BASE + 1 + BUCKETS as u32, Kind::Signals, 9, 9).is_ok());
}

#[test]
fn users_who_hold_nothing_do_not_stay() {
    let kept = Charge::try_new(BASE + 2, Kind::Watches, 1, 1).unwrap();
    for uid in 0..5000 {
        drop(Charge::try_new(BASE + 100 + uid, Kind::Watches, 1, UNLIMITED).unwrap());
    }
    assert!(USERS.lock().known < 2000);
    assert_eq!(used(BASE + 2, Kind::Watches), 1);
    let mut seen = false;
    for_each(|uid, counts| seen |= uid == BASE + 2 && counts == [0, 1, 0, 0, 0]);
    assert!(seen);
    drop(kept);
}
