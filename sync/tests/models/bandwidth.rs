//! CPUs take no more in a period than its quota, though one comes with the number of the period before.

use crate::model;
use crate::protocol::bandwidth::{BEHIND, PERIODS, Pool};
use loom::thread;
use std::sync::Arc;

const QUOTA: u64 = 10;

/// What CPUs get that take twice each, in these periods, from a pool that was last used long ago.
fn taken(periods: [[u64; 2]; 2]) -> u64 {
    let pool = Arc::new(Pool::new());
    let cpus = periods.map(|periods| {
        let pool = pool.clone();
        thread::spawn(move || periods.map(|period| pool.take(period, QUOTA, 6)).iter().sum::<u64>())
    });
    cpus.into_iter().map(|cpu| cpu.join().unwrap()).sum()
}

/// Two CPUs in one period.
fn together() {
    assert_eq!(taken([[9, 9], [9, 9]]), QUOTA, "not the quota of a period");
}

/// One is in the next period, while the other's clock is behind.
fn behind() {
    let all = taken([[9, 9], [8, 8]]);
    assert!((QUOTA..=2 * QUOTA).contains(&all), "{all} in two periods");
}

/// One CPU, as time goes on.
fn alone() {
    let pool = Pool::new();
    for period in [5, 6, 1 << 20, PERIODS - 1, PERIODS, PERIODS + 1] {
        assert_eq!([700, 700, 700].map(|most| pool.take(period, 1000, most)), [700, 300, 0], "in {period}");
    }
    let pool = Pool::new();
    assert_eq!([8, 7, 8].map(|period| pool.take(period, 1000, 600)), [600, 400, 0]);
    // After long the number is a new period's again.
    assert_eq!(pool.take(8 + PERIODS - BEHIND, 1000, 600), 600);
    // A changed quota counts at once.
    pool.begin(3, 500);
    assert_eq!(pool.take(3, 500, 1000), 500);
}

model! { alone (1) }
model! { together (3)
    breaks where_what_is_taken_is_stored: "bandwidth.take"
}
model! { behind (3)
    breaks where_who_is_behind_begins_a_period_anew: "bandwidth.behind"
}
