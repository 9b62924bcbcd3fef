//! Do tasks with deadlines meet them, does who overruns make none but itself late, and is something left to all others?

use super::super::super::deadline::Parameters;
use super::super::super::policy::{Policy, Schedule};
use super::{Habit, MS, Machine, SPINS, Simulation};
use crate::testing::{check, in_process};
use proptest::prelude::*;
use std::vec::Vec;
use sync::machine::CpuId;

const SECOND: u64 = 1000 * MS;

const DEADLINE: Schedule = Schedule { policy: Policy::Deadline, ..Schedule::NORMAL };

/// A task that has a job in each period.
pub struct Jobs {
    period: u64,
    /// When the job began that is not done yet.
    begun: u64,
    /// The longest that one took.
    longest: u64,
    done: u64,
}

impl Jobs {
    /// The job is done: when the next one begins.
    pub fn done(&mut self, now: u64) -> u64 {
        self.longest = self.longest.max(now - self.begun);
        self.begun += self.period;
        self.done += 1;
        self.begun.max(now)
    }
}

fn of(runtime: u64, deadline: u64, period: u64) -> Parameters {
    Parameters { runtime, deadline, period, ..Default::default() }
}

/// In microseconds, with a deadline at the end of the period.
fn each(runtime: u64, period: u64) -> Parameters {
    of(runtime * 1000, period * 1000, period * 1000)
}

impl Simulation {
    /// A fair loop on each CPU.
    fn start_fair_loops(&self) {
        for cpu in 0..self.cpus.len() as CpuId {
            self.start(cpu, 0, SPINS, None);
        }
    }

    /// A task that has a deadline, and whatever habit.
    fn start_with(&self, cpu: CpuId, parameters: Parameters, habit: Habit) -> usize {
        let number = self.start_as(cpu, Schedule::NORMAL, habit, None);
        self.set_deadline(number, parameters);
        number
    }

    fn set_deadline(&self, number: usize, parameters: Parameters) {
        self.task(number).deadline.try_make().unwrap().set_parameters(parameters);
        self.set_schedule(number, DEADLINE);
    }

    /// A task that runs for `work` in each period.
    fn start_jobs(&self, cpu: CpuId, parameters: Parameters, work: u64) -> usize {
        let number = self.start_with(cpu, parameters, Habit(Some((work, 0))));
        let jobs = Jobs { period: parameters.period, begun: self.now(), longest: 0, done: 0 };
        self.lives.borrow_mut()[number].jobs = Some(jobs);
        number
    }

    /// How long its longest job took, and how many it has done.
    fn jobs_of(&self, number: usize) -> (u64, u64) {
        self.lives.borrow()[number].jobs.as_ref().map_or((0, 0), |jobs| (jobs.longest, jobs.done))
    }

    /// What each has run in so long, in thousandths.
    fn shares(&self, ns: u64) -> Vec<u64> {
        let before = self.outcomes();
        self.run(self.now() + ns);
        self.outcomes()
            .iter()
            .zip(before)
            .map(|(after, before)| (after.ran - before.ran) * 1000 / ns)
            .collect()
    }
}

#[test]
fn on_one_cpu_all_deadlines_are_met_by_a_set_that_is_admitted_whoever_else_is_there() {
    in_process(|| {
        let sets = proptest::collection::vec((500..20_000u64, 4..40u64), 1..8);
        check(48, &(sets, any::<bool>()), |(set, is_constrained)| {
            let machine = Simulation::new(1, 1);
            machine.start(0, -20, SPINS, None);
            machine.start_as(
                0,
                Schedule { policy: Policy::Fifo, priority: 99, ..Schedule::NORMAL },
                SPINS,
                None,
            );
            let mut left = 900u64;
            let mut tasks = Vec::new();
            for (runtime, factor) in set {
                let (runtime, period) = (runtime * 1000, runtime * 1000 * factor / 2);
                // By the density, where the deadline is early.
                let deadline = if is_constrained { period / 2 } else { period };
                let density = runtime * 1000 / deadline + 1;
                if density <= left && period <= 60 * MS {
                    left -= density;
                    let task = machine.start_jobs(0, of(runtime, deadline, period), runtime / 100 * 95);
                    tasks.push((task, deadline, period));
                }
            }
            let begun = machine.now();
            machine.run(begun + 4 * SECOND);
            for (task, deadline, period) in tasks {
                let (longest, done) = machine.jobs_of(task);
                assert!(longest <= deadline, "{longest} ns of {deadline}");
                assert!(done + 2 >= 4 * SECOND / period);
            }
        });
    });
}

#[test]
fn on_several_cpus_nobody_is_later_than_by_the_longest_period() {
    in_process(|| {
        let set = proptest::collection::vec((500..20_000u64, 3..20u64), 4..60);
        check(48, &(2..9u32, set), |(cpus, set)| {
            let machine = Simulation::new(cpus, 1);
            machine.start_fair_loops();
            let mut left = 900 * u64::from(cpus);
            let mut tasks = Vec::new();
            let mut longest_period = 0;
            for (n, (runtime, factor)) in set.into_iter().enumerate() {
                let (runtime, period) = (runtime * 1000, runtime * 1000 * factor / 2);
                let part = runtime * 1000 / period + 1;
                if part <= left && period <= 60 * MS {
                    left -= part;
                    longest_period = longest_period.max(period);
                    let cpu = n as CpuId % cpus;
                    tasks.push((
                        machine.start_jobs(cpu, of(runtime, period, period), runtime / 100 * 95),
                        period,
                    ));
                }
            }
            machine.run(machine.now() + 3 * SECOND);
            for (task, period) in tasks {
                let (longest, done) = machine.jobs_of(task);
                assert!(longest <= period + longest_period, "{longest} ns of {period}");
                assert!(done + 4 >= 3 * SECOND / period);
            }
        });
    });
}

#[test]
fn who_overruns_has_its_share_and_makes_none_but_itself_late() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let overruns = machine.start_with(0, each(3000, 10_000), SPINS);
        let punctual = machine.start_jobs(0, each(30_000, 60_000), 29 * MS);
        let fair = machine.start(0, 0, SPINS, None);
        let shares = machine.shares(6 * SECOND);
        assert!(shares[overruns].abs_diff(300) <= 2, "{shares:?}");
        assert!(machine.jobs_of(punctual).0 <= 60 * MS);
        assert!(shares[fair].abs_diff(1000 - 300 - 483) <= 4, "{shares:?}");
    });
}

#[test]
fn loops_have_what_they_were_promised_on_any_number_of_cpus() {
    in_process(|| {
        for cpus in [1, 2, 3, 8, 40] {
            let machine = Simulation::new(cpus, if cpus > 16 { 2 } else { 1 });
            machine.start_fair_loops();
            let loops: Vec<usize> = (0..3 * cpus)
                .map(|n| machine.start_with(0, each(3000, 10_000 + u64::from(n % 3)), SPINS))
                .collect();
            machine.run(machine.now() + 100 * MS);
            let shares = machine.shares(3 * SECOND);
            for n in loops {
                assert!(shares[n].abs_diff(300) <= 6, "{} on {cpus} CPUs", shares[n]);
            }
        }
    });
}

#[test]
fn a_twentieth_is_left_to_fair_tasks_even_if_nothing_bounds_what_is_promised() {
    in_process(|| {
        for runtime in [950, 1000] {
            let machine = Simulation::new(1, 1);
            machine.start_with(0, each(runtime * 10, 10_000), SPINS);
            machine.start_as(
                0,
                Schedule { policy: Policy::Fifo, priority: 99, ..Schedule::NORMAL },
                SPINS,
                None,
            );
            let fair = machine.start(0, 0, SPINS, None);
            machine.run(machine.now() + 2 * SECOND);
            let shares = machine.shares(10 * SECOND);
            assert!((44..=52).contains(&shares[fair]), "{shares:?} with {runtime}");
        }
    });
}

#[test]
fn who_reclaims_has_what_others_leave_but_not_what_may_not_be_promised() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let reclaims = Parameters { reclaims: true, ..each(2000, 10_000) };
        let first = machine.start_with(0, reclaims, SPINS);
        let shares = machine.shares(3 * SECOND);
        assert!(shares[first].abs_diff(800) <= 5, "0.2 of 0.25: {shares:?}");
        let second = machine.start_with(0, reclaims, SPINS);
        machine.start(0, 0, SPINS, None);
        machine.run(machine.now() + 100 * MS);
        let shares = machine.shares(3 * SECOND);
        assert!([first, second].iter().all(|n| shares[*n].abs_diff(444) <= 8), "0.2 of 0.45: {shares:?}");
    });
}

#[test]
fn who_yields_runs_again_in_its_next_period() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let task = machine.start_with(0, each(5000, 10_000), SPINS);
        machine.run(machine.now() + MS);
        let before = machine.outcomes()[task].ran;
        machine.task(task).yield_turn();
        machine.task(task).work.set(super::Work::RESCHED);
        machine.settle();
        machine.run(11 * MS);
        assert_eq!(machine.outcomes()[task].ran, before, "it waits");
        machine.run(13 * MS);
        assert!(machine.outcomes()[task].ran > before);
    });
}

#[test]
fn a_task_that_is_throttled_may_leave_the_class_and_has_no_more_when_it_comes_back() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let task = machine.start_with(0, each(2000, 10_000), SPINS);
        let fair = machine.start(0, 0, SPINS, None);
        let begun = machine.now();
        machine.run(begun + 5 * MS);
        assert!(machine.outcomes()[task].ran.abs_diff(2 * MS) < MS / 5);
        machine.set_schedule(task, Schedule { policy: Policy::Fifo, priority: 1, ..Schedule::NORMAL });
        machine.run(begun + 7 * MS);
        assert!(machine.outcomes()[task].ran.abs_diff(4 * MS) < MS / 5, "as one of real time it runs");
        for _ in 0..10 {
            machine.set_schedule(task, Schedule::NORMAL);
            machine.set_schedule(task, DEADLINE);
        }
        machine.run(begun + 99 * MS);
        assert!(machine.outcomes()[task].ran <= 23 * MS, "{:?}", machine.outcomes());
        assert!(machine.outcomes()[fair].ran >= 75 * MS);
    });
}

#[test]
fn whatever_changes_nobody_has_more_than_was_promised_and_nobody_is_lost() {
    in_process(|| {
        let step = (0..6u32, any::<u32>(), 1..40u64, any::<u32>());
        check(64, &(1..7u32, proptest::collection::vec(step, 1..120)), |(cpus, steps)| {
            let machine = Simulation::new(cpus, 1);
            machine.start_fair_loops();
            let mut tasks: Vec<usize> = Vec::new();
            for (kind, n, ms, cpu) in steps {
                let task = tasks.get(n as usize % tasks.len().max(1)).copied();
                machine.waker.set(n.is_multiple_of(3).then_some(cpu % cpus));
                match (kind, task) {
                    (0, _) | (_, None) => {
                        let habit =
                            if n.is_multiple_of(2) { SPINS } else { Habit(Some((ms * MS / 4, ms * MS))) };
                        let reclaims = n.is_multiple_of(5);
                        let early = if n.is_multiple_of(7) { 2 } else { 1 };
                        let parameters =
                            Parameters { reclaims, ..of(ms * MS / 10, ms * MS / early, ms * MS) };
                        tasks.push(machine.start_with(cpu % cpus, parameters, habit));
                    }
                    (1, Some(task)) => machine.set_schedule(task, Schedule::NORMAL),
                    (2, Some(task)) => machine.set_deadline(task, each(ms * 100, ms * 1000)),
                    (3, Some(task)) => machine.set_schedule(
                        task,
                        Schedule { policy: Policy::RoundRobin, priority: 5, ..Schedule::NORMAL },
                    ),
                    (4, Some(task)) => machine.task(task).deadline.get().unwrap().yield_turn(),
                    _ => machine.run(machine.now() + ms * MS / 3),
                }
            }
            tasks.iter().for_each(|task| machine.set_deadline(*task, each(1000, 20_000)));
            machine.run(machine.now() + SECOND);
            let shares = machine.shares(SECOND);
            let crowded = tasks.len() as u64 > 12 * u64::from(cpus);
            for (n, task) in tasks.iter().enumerate() {
                assert!(shares[*task] <= 56, "{n}: {} of 50", shares[*task]);
                let spins = machine.lives.borrow()[*task].habit.0.is_none();
                assert!(crowded || !spins || shares[*task] >= 45, "{n}: {} of 50", shares[*task]);
            }
        });
    });
}
