use super::armed::{Tree, take_due};
use super::*;

const MS: u64 = 1_000_000;

fn armed(deadlines: impl Iterator<Item = Deadline>) -> Tree {
    let mut tree = Tree::new(TimerAdapter::NEW);
    for deadline in deadlines {
        let timer = Timer::new(|_| {}, 0);
        timer.set_moments(deadline);
        tree.insert(Arc::new(timer));
    }
    tree
}

/// Lets all go off, as a CPU does that is interrupted for the first last moment and at the times of `others`; how many times it was for a timer.
fn interrupts(mut tree: Tree, mut others: impl Iterator<Item = u64>) -> usize {
    let (mut count, mut other) = (0, others.next());
    while let Some(last) = tree.front().get().map(|timer| timer.hard.load(Ordering::Relaxed)) {
        let now = other.map_or(last, |at| at.min(last));
        if other == Some(now) {
            other = others.next();
        } else {
            count += 1;
        }
        while let Ok(timer) = take_due(&mut tree, Some(now)) {
            assert!(timer.soft.load(Ordering::Relaxed) <= now, "early");
            assert!(now <= timer.hard.load(Ordering::Relaxed), "late");
        }
    }
    count
}

fn sleeps(slack: u64) -> Tree {
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
    const END: u64 = i64::MAX as u64;
    let deadline = Deadline::after(END - 1, u64::MAX);
    assert_eq!((deadline.soft(), deadline.hard()), (END - 1, END));
    assert_eq!(Deadline::after(u64::MAX, 0).base(), ClockBase::Monotonic);
}

#[test]
fn a_deadline_keeps_its_moments_on_either_clock() {
    let deadline = Deadline::after(3 * MS, MS);
    for base in [ClockBase::Wall, ClockBase::Monotonic] {
        let on = deadline.on(ClockBase::Wall).on(base);
        assert_eq!((on.soft(), on.hard(), on.base()), (3 * MS, 4 * MS, base));
        assert_eq!(on.without_slack().base(), base);
    }
}

#[test]
fn what_a_clock_moves() {
    use ClockBase::{Monotonic, Wall};
    let bases = |clock: TimeClock| (clock.base(true), clock.base(false));
    assert_eq!(bases(TimeClock::Monotonic), (Monotonic, Monotonic));
    assert_eq!(bases(TimeClock::Realtime), (Wall, Monotonic));
    assert_eq!(bases(TimeClock::RealtimeThroughout), (Wall, Wall));
    assert_eq!(bases(TimeClock::Tai), (Wall, Wall));
}

/// Timers that are armed with a number each; `due` are those that go off by a moment on the monotonic clock.
mod on_clocks {
    use super::super::armed::Armed;
    use super::*;
    use std::vec::Vec;

    fn timer(deadline: Deadline, number: usize) -> Arc<Timer> {
        let timer = Timer::new(|_| {}, number);
        timer.set_moments(deadline);
        Arc::new(timer)
    }

    fn due(armed: &mut Armed, now: u64) -> Vec<usize> {
        let due = core::iter::from_fn(|| armed.next(Turn::Calls, now).ok());
        let numbers = due.map(|due| match &due.timer.action {
            Action::Call(_, number) => number.load(Ordering::Relaxed),
            Action::Tell(_) => OWNED,
        });
        numbers.collect()
    }

    const OWNED: usize = 1000;

    struct Nobody;

    impl Expire for Nobody {
        fn expired(&self) {}
    }

    fn owned(deadline: Deadline) -> Arc<Timer> {
        let owner: Weak<dyn Expire> = Weak::<Nobody>::new();
        let timer = Timer::of(owner);
        timer.set_moments(deadline);
        Arc::new(timer)
    }

    #[test]
    fn sleeps_come_before_the_timers_of_programs_and_when_their_time_is_over_these() {
        let offset = arch::time::wall_offset();
        let mut armed = Armed::new();
        for n in 1..=2 {
            armed.on_monotonic(Kind::Calls).insert(timer(Deadline::after(n * MS, 0), n as usize));
            armed.on_monotonic(Kind::Owned).insert(owned(Deadline::after(n * MS, 0)));
            let wall = Deadline::after(offset + n * MS, 0).on(ClockBase::Wall);
            armed.enter_wall(Kind::Calls).insert(timer(wall, 10));
        }
        let mut kind = |turn| armed.next(turn, MS).map(|due| due.kind);
        assert_eq!(kind(Turn::Over), Err(MS));
        assert_eq!(kind(Turn::Owned), Ok(Kind::Owned));
        assert_eq!(kind(Turn::Owned), Err(MS), "a sleep is due");
        assert_eq!(due(&mut armed, 2 * MS), [1, 2, 10, 10, OWNED]);
        assert_eq!(armed.first(), u64::MAX);
    }

    #[test]
    fn timers_on_the_wall_clock_go_off_when_it_shows_their_time() {
        let offset = arch::time::wall_offset();
        let mut armed = Armed::new();
        assert!(armed.first() == u64::MAX && !armed.any_on_wall());
        armed.on_monotonic(Kind::Calls).insert(timer(Deadline::after(5 * MS, 0), 5));
        for n in [3, 7] {
            let at = Deadline::after(offset + n * MS, 0).on(ClockBase::Wall);
            armed.enter_wall(Kind::Calls).insert(timer(at, n as usize));
        }
        assert_eq!(armed.first(), 3 * MS);
        assert_eq!(due(&mut armed, 2 * MS), []);
        assert_eq!(due(&mut armed, 5 * MS), [5, 3], "those on the monotonic clock first");
        assert_eq!((armed.first(), armed.any_on_wall()), (7 * MS, true));
        assert_eq!(due(&mut armed, 7 * MS), [7]);
        assert!(armed.first() == u64::MAX && !armed.any_on_wall());
    }

    #[test]
    fn a_moment_before_boot_is_due_at_once() {
        let mut armed = Armed::new();
        armed.enter_wall(Kind::Calls).insert(timer(Deadline::after(MS, 0).on(ClockBase::Wall), 1));
        assert_eq!(armed.first(), 0);
        assert_eq!(due(&mut armed, 0), [1]);
    }
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
