use super::*;

const MS: u64 = 1_000_000;

fn armed(deadlines: impl Iterator<Item = Deadline>) -> RBTree<TimerAdapter> {
    let mut tree = RBTree::new(TimerAdapter::NEW);
    for deadline in deadlines {
        let timer = Timer::new(|_| {}, 0);
        timer.set_moments(deadline);
        tree.insert(Arc::new(timer));
    }
    tree
}

/// Lets all go off, as a CPU does that is interrupted for the first last moment and at the times of `others`; how many times it was for a timer.
fn interrupts(mut tree: RBTree<TimerAdapter>, mut others: impl Iterator<Item = u64>) -> usize {
    let (mut count, mut other) = (0, others.next());
    while let Some(last) = tree.front().get().map(|timer| timer.hard.load(Ordering::Relaxed)) {
        let now = other.map_or(last, |at| at.min(last));
        if other == Some(now) {
            other = others.next();
        } else {
            count += 1;
        }
        while let Some(timer) = take_due(&mut tree, now) {
            assert!(timer.soft.load(Ordering::Relaxed) <= now, "early");
            assert!(now <= timer.hard.load(Ordering::Relaxed), "late");
        }
    }
    count
}

fn sleeps(slack: u64) -> RBTree<TimerAdapter> {
    armed((1..=100).map(move |n| Deadline::after(n * MS, slack)))
}

#[test]
fn without_slack_each_sleep_takes_an_interrupt() {
    assert_eq!(interrupts(sleeps(0), core::iter::empty()), 100);
}

#[test]
fn one_interrupt_ends_all_sleeps_whose_slack_holds_it() {
    // At 11 ms those of 1 to 11, and so on.
    assert_eq!(interrupts(sleeps(10 * MS), core::iter::empty()), 10);
    assert_eq!(interrupts(sleeps(99 * MS), core::iter::empty()), 1);
    assert_eq!(interrupts(sleeps(u64::MAX), core::iter::empty()), 1);
}

#[test]
fn what_interrupts_for_another_reason_ends_sleeps_too() {
    let ticks = (1..).map(|n| n * 10 * MS);
    assert_eq!(interrupts(sleeps(10 * MS), ticks), 0);
}

#[test]
fn slack_beyond_the_end_of_time_is_no_early_end() {
    let deadline = Deadline::after(u64::MAX - 1, u64::MAX);
    assert_eq!((deadline.soft(), deadline.hard()), (u64::MAX - 1, u64::MAX));
}

mod of_threads {
    use super::*;
    use crate::process;
    use crate::testing::in_process;

    #[test]
    fn a_sleep_has_the_slack_of_its_thread() {
        in_process(|| {
            let slack = |deadline: Deadline| deadline.hard() - deadline.soft();
            let far = arch::time::now() + 3_600_000 * MS;
            assert_eq!(slack(Deadline::of_sleep(far)), 50_000);
            process::current().attributes.set_slack(7 * MS);
            assert_eq!(slack(Deadline::of_sleep(far)), 7 * MS);
            assert_eq!(slack(Deadline::from(far)), 0);
        });
    }

    #[test]
    fn a_wait_for_files_has_a_thousandth_of_its_length_too() {
        in_process(|| {
            let slack = |ms: u64| {
                let deadline = Deadline::of_poll(arch::time::now() + ms * MS);
                deadline.hard() - deadline.soft()
            };
            assert_eq!(slack(10), 50_000);
            // An hour's would be 3.6 s.
            assert_eq!(slack(3_600_000), 100 * MS);
            let minute = slack(60_000);
            assert!((30 * MS..=60 * MS).contains(&minute), "{minute}");
            process::current().attributes.set_slack(200 * MS);
            assert_eq!(slack(3_600_000), 200 * MS);
            process::current().attributes.set_slack(1);
            super::super::current().set_nice(1);
            let second = slack(1000);
            assert!((3 * MS..=5 * MS).contains(&second), "{second}");
        });
    }
}
