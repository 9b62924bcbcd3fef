//! Do real-time tasks run by their priorities, on as many CPUs as there are, and do fair ones get what is left to them?

use super::super::super::policy::{Loan, Policy, Schedule};
use super::super::super::realtime::{Line, Rank};
use super::{Habit, MS, Machine, SPINS, Simulation, TICK};
use crate::testing::{check, in_process};
use core::sync::atomic::Ordering::Relaxed;
use proptest::prelude::*;
use std::vec::Vec;
use sync::machine::CpuId;

const SECOND: u64 = 1000 * MS;

fn of(policy: Policy, priority: u32) -> Schedule {
    Schedule { policy, priority, ..Schedule::NORMAL }
}

fn fifo(priority: u32) -> Schedule {
    of(Policy::Fifo, priority)
}

impl Simulation {
    /// Does a real-time task wait that might run on a CPU that runs one of a lower priority?
    fn is_inverted(&self) -> bool {
        let now = self.now();
        let running: Vec<Option<Rank>> =
            self.cpus.iter().map(|cpu| cpu.queue.queue.lock().running_rank(now)).collect();
        self.lives.borrow().iter().any(|life| {
            let task = &life.task;
            // Where the CPU that it waits on is held back it may stay.
            let waits = task.list_link.is_linked() && running[task.sleep_node.cpu.get() as usize].is_some();
            let could = |cpu: CpuId| {
                task.affinity().allows(cpu)
                    && running[cpu as usize].is_some_and(|rank| rank < Line::rank_of(task))
            };
            waits && task.class().is_realtime() && (0..self.cpus.len() as CpuId).any(could)
        })
    }

    /// Goes on for so long: for how long priorities were inverted at most.
    fn watch_priorities(&self, ns: u64) -> u64 {
        let (mut worst, mut since) = (0, None);
        let end = self.now() + ns;
        while self.now() < end {
            self.run(self.now() + MS);
            since = if self.is_inverted() { since.or(Some(self.now())) } else { None };
            worst = worst.max(since.map_or(0, |since| self.now() - since));
        }
        worst
    }

    fn ran_for(&self, ns: u64) -> Vec<u64> {
        let before = self.outcomes();
        self.run(self.now() + ns);
        self.outcomes().iter().zip(before).map(|(after, before)| after.ran - before.ran).collect()
    }
}

#[test]
fn of_loops_on_one_cpu_the_highest_alone_runs_but_for_what_is_left_to_fair_ones() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let tasks =
            [Schedule::NORMAL, fifo(10), fifo(20), fifo(20)].map(|s| machine.start_as(0, s, SPINS, None));
        let ran = machine.ran_for(10 * SECOND);
        let part = |n: usize| ran[tasks[n]] * 100 / (10 * SECOND);
        assert!((4..=6).contains(&part(0)), "the fair one has {} %", part(0));
        assert_eq!((part(1), part(3)), (0, 0));
        assert!(part(2) >= 94, "{} %", part(2));
    });
}

#[test]
fn without_fair_tasks_a_loop_has_all_of_its_cpu() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let task = machine.start_as(0, fifo(1), SPINS, None);
        assert_eq!(machine.ran_for(5 * SECOND)[task], 5 * SECOND);
    });
}

#[test]
fn round_robin_tasks_of_one_priority_share_and_fifo_ones_do_not() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let round = of(Policy::RoundRobin, 5);
        let tasks = [round, round, round, fifo(4)].map(|s| machine.start_as(0, s, SPINS, None));
        let ran = machine.ran_for(9 * SECOND);
        for n in &tasks[..3] {
            assert!(ran[*n].abs_diff(3 * SECOND) < 150 * MS, "{ran:?}");
        }
        assert_eq!(ran[tasks[3]], 0);
    });
}

#[test]
fn a_higher_one_that_wakes_runs_at_once_and_who_gave_way_goes_on_before_its_equals() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let sleeper = machine.start_as(0, fifo(30), Habit(Some((MS, 20 * MS))), None);
        let first = machine.start_as(0, fifo(20), SPINS, None);
        let second = machine.start_as(0, fifo(20), SPINS, None);
        machine.run(2 * SECOND);
        let outcomes = machine.outcomes();
        assert_eq!(outcomes[sleeper].latest, 0, "it waited");
        assert!(outcomes[first].ran > SECOND && outcomes[second].ran == 0, "{outcomes:?}");
    });
}

#[test]
fn a_change_of_priority_counts_at_once() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let [a, b] = [10, 5].map(|p| machine.start_as(0, fifo(p), SPINS, None));
        let ran = || {
            let ran = machine.ran_for(100 * MS);
            (ran[a] / MS, ran[b] / MS)
        };
        assert_eq!(ran(), (100, 0));
        machine.set_schedule(b, fifo(11));
        assert_eq!(ran(), (0, 100), "the one that waited was raised");
        machine.set_schedule(b, fifo(9));
        assert_eq!(ran(), (100, 0), "the one that ran was lowered");
        machine.set_schedule(a, Schedule::NORMAL);
        assert_eq!(ran(), (0, 100), "the one that ran is a fair one");
        machine.set_schedule(b, Schedule::NORMAL);
        let (fair, other) = ran();
        assert!(fair.abs_diff(other) <= 8, "{fair} and {other}: both are fair ones");
        machine.set_schedule(a, fifo(1));
        assert_eq!(ran(), (100, 0), "a fair one was raised");
    });
}

#[test]
fn as_many_as_there_are_cpus_run_those_of_the_highest_priorities() {
    in_process(|| {
        for cpus in [2, 3, 5, 16, 40] {
            let machine = Simulation::new(cpus, if cpus > 16 { 2 } else { 1 });
            let tasks: Vec<usize> = (1..=2 * cpus)
                .map(|n| machine.start_as(0, fifo(1 + n * 41 % (2 * cpus)), SPINS, None))
                .collect();
            machine.run(machine.now() + 50 * MS);
            let ran = machine.ran_for(SECOND);
            for task in tasks {
                let priority = machine.task(task).schedule().priority;
                let due = if priority > cpus { SECOND } else { 0 };
                assert_eq!(ran[task], due, "priority {priority} on {cpus} CPUs");
            }
        }
    });
}

#[test]
fn a_machine_of_fair_tasks_shows_no_priority_and_nothing_to_give() {
    in_process(|| {
        let machine = Simulation::new(4, 1);
        (0..9).for_each(|n| {
            machine.start(n % 4, 0, SPINS, None);
        });
        machine.run(SECOND);
        assert!(
            machine.cpus.iter().all(|cpu| cpu.queue.rank().is_none() && cpu.queue.rank_to_give().is_none())
        );
    });
}

#[test]
fn nobody_waits_for_longer_than_a_tick_while_a_lower_one_runs_where_it_might() {
    in_process(|| {
        let task = (0..4u32, 0..100u32, any::<bool>(), 0..3u32, 1..30u64, 1..30u64, any::<u32>());
        let any = (1..20u32, proptest::collection::vec(task, 1..60));
        check(48, &any, |(cpus, tasks)| {
            let machine = Simulation::new(cpus, if cpus > 8 { 2 } else { 1 });

            for (kind, priority, spins, round, runs, sleeps, cpu) in tasks {
                let schedule = match (priority, round) {
                    (0, _) | (_, 0) => Schedule::NORMAL,
                    (_, 1) => of(Policy::RoundRobin, priority),
                    _ => fifo(priority),
                };

                let habit = if spins { SPINS } else { Habit(Some((runs * MS, sleeps * MS))) };
                machine.start_as(cpu % cpus, schedule, habit, (kind == 0).then_some(cpu % cpus));
            }
            let worst = machine.watch_priorities(SECOND);
            assert!(worst <= 2 * TICK, "{} ms", worst / MS);
        });
    });
}

impl Simulation {
    /// From now on others lend the task this priority; 0: nobody does.
    fn lend(&self, number: usize, priority: u32) {
        let task = self.task(number);
        if task.note_lent(Loan::of(priority, 0))
            && let Some(cpu) = super::place::changed(self, &task)
        {
            self.kick(cpu);
        }
        self.settle();
    }
}

#[test]
fn who_is_lent_a_priority_runs_before_those_between_and_gives_it_back() {
    in_process(|| {
        for own in [Schedule::NORMAL, of(Policy::Idle, 0), fifo(3), of(Policy::RoundRobin, 3)] {
            let machine = Simulation::new(1, 1);
            let low = machine.start_as(0, own, SPINS, None);
            let middle = machine.start_as(0, fifo(40), SPINS, None);
            let ran = || {
                let ran = machine.ran_for(100 * MS);
                (ran[low] / MS, ran[middle] / MS)
            };
            assert_eq!(ran(), (0, 100), "{own:?}");
            machine.lend(low, 50);
            assert_eq!(ran(), (100, 0), "{own:?} is lent 50");
            assert_eq!(machine.task(low).schedule(), own, "what it was given has changed");
            // What it is given meanwhile counts if it is more.
            machine.set_schedule(low, fifo(20));
            assert_eq!(ran(), (100, 0), "{own:?} is lent 50");
            machine.lend(low, 30);
            assert_eq!(ran(), (0, 100), "{own:?} is lent 30");
            machine.set_schedule(low, fifo(60));
            assert_eq!(ran(), (100, 0), "60 of its own");
            machine.lend(low, 0);
            machine.set_schedule(low, own);
            assert_eq!(ran(), (0, 100), "{own:?} again");
        }
    });
}

#[test]
fn on_many_cpus_who_is_lent_a_priority_is_found_one() {
    in_process(|| {
        for cpus in [2, 5, 16] {
            let machine = Simulation::new(cpus, 1);
            let low = machine.start_as(0, Schedule::NORMAL, SPINS, None);
            let others: Vec<usize> = (0..cpus).map(|_| machine.start_as(0, fifo(40), SPINS, None)).collect();
            machine.run(machine.now() + 50 * MS);
            machine.lend(low, 50);
            machine.run(machine.now() + 50 * MS);
            let ran = machine.ran_for(SECOND / 2);
            assert_eq!(ran[low], SECOND / 2, "{cpus} CPUs: {ran:?}");
            machine.lend(low, 0);
            machine.run(machine.now() + 50 * MS);
            let ran = machine.ran_for(SECOND / 2);
            // But for what is left to fair ones.
            let due = SECOND / 2 - 60 * MS;
            assert!(
                others.iter().all(|other| ran[*other] >= due) && ran[low] <= 60 * MS,
                "{cpus} CPUs: {ran:?}"
            );
        }
    });
}
