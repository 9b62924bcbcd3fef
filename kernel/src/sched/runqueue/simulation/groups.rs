//! Does each group get its share, however many tasks it has and wherever they run?

use super::super::super::fair::{ONE, UNIT, weight};
use super::super::super::group::Group;
use super::super::super::task::Task;
use super::{CONTENDED_TICK, Habit, MS, SPINS, Schedule, Simulation};
use crate::testing::in_process;
use alloc::sync::Arc;
use std::vec::Vec;

const SECOND: u64 = 1000 * MS;

/// What each of groups with these weights and so many tasks that spin is due, of `cpus` CPUs: by weight, and none more than a CPU for each task.
fn dues(groups: &[(u64, u32)], cpus: u32) -> Vec<f64> {
    let mut dues: Vec<Option<f64>> = groups.iter().map(|_| None).collect();
    loop {
        let open: u64 = groups.iter().zip(&dues).filter(|(_, due)| due.is_none()).map(|((w, _), _)| w).sum();
        let left = f64::from(cpus) - dues.iter().flatten().sum::<f64>();
        let share = |n: usize| left * groups[n].0 as f64 / open as f64;
        let Some(capped) =
            (0..groups.len()).find(|n| dues[*n].is_none() && share(*n) > f64::from(groups[*n].1))
        else {
            return (0..groups.len()).map(|n| dues[n].unwrap_or_else(|| share(n))).collect();
        };
        dues[capped] = Some(f64::from(groups[capped].1));
    }
}

/// Starts so many tasks that spin in each of groups with these nice values; gives the groups and the numbers of their tasks.
fn start(machine: &Simulation, groups: &[(i32, u32)]) -> Vec<(Arc<Group>, Vec<usize>)> {
    let start = |(nice, tasks): &(i32, u32)| {
        let group = machine.group(*nice);
        let tasks =
            (0..*tasks).map(|_| machine.start_in(Some(&group), 0, Schedule::NORMAL, SPINS, None)).collect();
        (group, tasks)
    };
    groups.iter().map(start).collect()
}

/// How many CPUs each group had between `from` and `to`.
fn had(machine: &Simulation, groups: &[(Arc<Group>, Vec<usize>)], from: u64, to: u64) -> Vec<f64> {
    machine.run(from);
    let before = machine.outcomes();
    machine.run(to);
    let after = machine.outcomes();
    let ran = |n: &usize| (after[*n].ran - before[*n].ran) as f64;
    groups.iter().map(|(_, tasks)| tasks.iter().map(ran).sum::<f64>() / (to - from) as f64).collect()
}

fn shares_on(cpus: u32, groups: &[(i32, u32)], seconds: u64) {
    let machine = Simulation::new(cpus, 1);
    let started = start(&machine, groups);
    let had = had(&machine, &started, 2 * SECOND, (2 + seconds) * SECOND);
    let dues = dues(&groups.iter().map(|(nice, n)| (weight(*nice), *n)).collect::<Vec<_>>(), cpus);
    let moves: u64 = machine.outcomes().iter().map(|o| o.moves).sum();
    for (had, due) in had.iter().zip(&dues) {
        assert!(
            (had / due - 1.0).abs() < 0.1,
            "{cpus} CPUs, {groups:?}: had {had:?} of {dues:?}, {moves} moves"
        );
    }
    let most = u64::from(cpus) * (2 + seconds) * 250;
    assert!(moves < most, "{cpus} CPUs, {groups:?}: {moves} moves");
}

#[test]
fn two_groups_of_different_sizes_have_half_each() {
    in_process(|| {
        shares_on(1, &[(0, 1), (0, 4)], 4);
        shares_on(1, &[(0, 3), (0, 30)], 8);
        shares_on(2, &[(0, 1), (0, 4)], 8);
        shares_on(2, &[(0, 2), (0, 2)], 4);
        shares_on(2, &[(0, 3), (0, 20)], 8);
        shares_on(4, &[(0, 4), (0, 40)], 8);
        shares_on(16, &[(0, 16), (0, 64)], 8);
        shares_on(64, &[(0, 64), (0, 256)], 8);
    });
}

#[test]
fn who_cannot_use_its_share_leaves_the_rest() {
    in_process(|| {
        shares_on(4, &[(0, 1), (0, 4)], 8);
        shares_on(4, &[(0, 1), (0, 20)], 8);
        shares_on(16, &[(0, 2), (0, 40)], 8);
        shares_on(16, &[(0, 2), (0, 20), (0, 40)], 8);
    });
}

#[test]
fn groups_have_shares_by_their_nice_values() {
    in_process(|| {
        shares_on(1, &[(0, 2), (5, 2)], 8);
        shares_on(2, &[(0, 4), (5, 9)], 8);
        shares_on(4, &[(0, 8), (5, 8), (-5, 12)], 8);
        shares_on(16, &[(0, 40), (5, 40)], 8);
    });
}

#[test]
fn within_a_group_tasks_have_shares_by_theirs() {
    in_process(|| {
        for cpus in [1, 2] {
            let machine = Simulation::new(cpus, 1);
            let other = start(&machine, &[(0, 2 * cpus)]);
            let group = machine.group(0);
            let nice = |nice| {
                let schedule = Schedule { nice, ..Schedule::NORMAL };
                machine.start_in(Some(&group), 0, schedule, SPINS, None)
            };
            let tasks: Vec<usize> = (0..2 * cpus).map(|n| nice(if n < cpus { 0 } else { 5 })).collect();
            let halves = tasks.chunks(cpus as usize).map(|half| (group.clone(), half.to_vec()));
            let all: Vec<_> = other.into_iter().chain(halves).collect();
            let had = had(&machine, &all, 2 * SECOND, 10 * SECOND);
            let (other, ratio) = (had[0] / f64::from(cpus), had[1] / had[2]);
            assert!((other - 0.5).abs() < 0.05 && (ratio / 3.05 - 1.0).abs() < 0.15, "{other} and {ratio}");
        }
    });
}

#[test]
fn a_sleeper_beside_a_group_of_hogs_wakes_in_time() {
    in_process(|| {
        for cpus in [1, 2, 4] {
            let machine = Simulation::new(cpus, 1);
            start(&machine, &[(0, 8 * cpus)]);
            let group = machine.group(0);
            let ticker = Habit(Some((50_000, 2 * MS)));
            let ticker = machine.start_in(Some(&group), 0, Schedule::NORMAL, ticker, None);
            machine.run(10 * SECOND);
            let outcome = machine.outcomes()[ticker];
            let wakes = outcome.ran / 50_000;
            assert!(wakes > 4000 && outcome.late * 10 < wakes, "{} of {wakes} late", outcome.late);
        }
    });
}

#[test]
fn tasks_that_sleep_now_and_then_count_for_their_group() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let hog = start(&machine, &[(0, 1)]);
        let group = machine.group(0);
        let habit = Habit(Some((MS, MS)));
        let sleepers =
            (0..20).map(|_| machine.start_in(Some(&group), 0, Schedule::NORMAL, habit, None)).collect();
        let all: Vec<_> = hog.into_iter().chain([(group, sleepers)]).collect();
        let had = had(&machine, &all, 2 * SECOND, 10 * SECOND);
        assert!((had[0] - 0.5).abs() < 0.05, "{had:?}");
    });
}

#[test]
fn tasks_of_the_kernel_do_not_make_groups_count() {
    in_process(|| {
        let machine = Simulation::new(16, 1);
        let started = start(&machine, &[(0, 24)]);
        // In no group. Ticks come upon them, and upon others while they wait.
        (0..4).for_each(|cpu| {
            machine.start(cpu, 0, Habit(Some((6 * MS, 20 * MS))), Some(cpu));
        });
        for second in 1..5 {
            machine.run(second * SECOND);
            assert!(started[0].0.cells().all(|cell| !cell.counts()), "where the group is the only one");
        }
    });
}

/// Tasks that move take along how certain it was that groups compete, and not more: else they would keep each other so for ever.
#[test]
fn groups_do_not_count_for_long_where_another_has_had_a_cpu_once() {
    in_process(|| {
        let machine = Simulation::new(16, 1);
        let started = start(&machine, &[(0, 24)]);
        let other = machine.group(0);
        let once = Habit(Some((SECOND, u64::MAX / 4)));
        machine.start_in(Some(&other), 3, Schedule::NORMAL, once, None);
        machine.run(SECOND);
        let counts = || started[0].0.cells().filter(|cell| cell.counts()).count();
        assert!(counts() > 8, "two groups");
        machine.run(4 * SECOND);
        assert_eq!(counts(), 0, "one group");
    });
}

#[test]
fn tasks_change_their_group_while_they_run_wait_and_sleep() {
    in_process(|| {
        for cpus in [1, 2, 5] {
            let machine = Simulation::new(cpus, 1);
            let groups: Vec<_> = (0..3).map(|_| machine.group(0)).collect();
            let tasks: Vec<usize> = (0..4 * cpus)
                .map(|n| {
                    let habit = if n % 3 == 0 { Habit(Some((3 * MS, 5 * MS))) } else { SPINS };
                    machine.start_in(groups.get(n as usize % 4), 0, Schedule::NORMAL, habit, None)
                })
                .collect();
            for round in 0..400 {
                machine.run((round + 1) * 7 * MS);
                let n = round as usize * 7;
                machine.regroup(tasks[n % tasks.len()], groups.get(n % 4));
            }
            // What runs and waits is what is counted.
            machine.run(3 * SECOND);
            tasks.iter().for_each(|task| machine.regroup(*task, None));
            for group in &groups {
                assert!(group.cells().all(|cell| cell.count() == 0 && cell.weight() == 0));
            }
            // And they have shares as if nothing had been.
            let halves: Vec<_> =
                groups.iter().take(2).cloned().zip(tasks.chunks(2 * cpus as usize)).collect();
            halves
                .iter()
                .for_each(|(group, half)| half.iter().for_each(|n| machine.regroup(*n, Some(group))));
            let ran = |n: &usize| machine.outcomes()[*n].ran;
            let before: Vec<u64> = tasks.iter().map(ran).collect();
            machine.run(6 * SECOND);
            assert!(tasks.iter().map(ran).sum::<u64>() - before.iter().sum::<u64>() > 2 * SECOND);
        }
    });
}

#[test]
fn groups_come_and_go() {
    in_process(|| {
        let machine = Simulation::new(4, 1);
        let stays = start(&machine, &[(0, 8)]);
        // Each second another group of many tasks, whose tasks leave for the first one's.
        for round in 1..6 {
            let other = start(&machine, &[(0, 20)]);
            let all: Vec<_> = stays.iter().chain(&other).cloned().collect();
            let from = round * 4 * SECOND;
            let had = had(&machine, &all, from - 2 * SECOND, from);
            assert!((had[0] / 2.0 - 1.0).abs() < 0.1, "round {round}: {had:?}");
            other[0].1.iter().for_each(|task| machine.stop(*task));
            machine.run(from + SECOND / 10);
            super::super::groups::end(&machine, &other[0].0);
        }
    });
}

#[test]
fn with_one_group_alone_nothing_is_counted() {
    in_process(|| {
        for cpus in [1, 4] {
            let machine = Simulation::new(cpus, 1);
            let group = start(&machine, &[(0, 10)]);
            machine.run(2 * SECOND);
            assert!(group[0].0.cells().next().is_none());
        }
    });
}

#[test]
fn when_the_other_group_has_left_nothing_is_counted_any_more() {
    in_process(|| {
        for cpus in [1, 4] {
            let machine = Simulation::new(cpus, 1);
            let groups = start(&machine, &[(0, 10), (0, 5)]);
            let sleeper = Habit(Some((50_000, 2 * MS)));
            let sleeper = machine.start_in(Some(&groups[0].0), 0, Schedule::NORMAL, sleeper, None);
            machine.run(2 * SECOND);
            assert!(groups[0].0.cells().all(|cell| cell.counts()));
            groups[1].1.iter().for_each(|task| machine.stop(*task));
            machine.run(6 * SECOND);
            let stays = &groups[0].0;
            assert!(stays.cells().all(|cell| !cell.counts() && cell.count() == 0 && cell.shown() == 0));
            for task in groups[0].1.iter().chain([&sleeper]).map(|task| machine.task(*task)) {
                assert!(task.slot.cell().is_none() && task.fair.factor() == ONE);
                assert_eq!(task.fair.weight(), UNIT);
            }
        }
    });
}

#[test]
fn who_runs_stays_at_a_tick_that_gives_it_another_weight_and_offers_who_waits_to_an_idle_cpu() {
    in_process(|| {
        let machine = Simulation::new(3, 1);
        // A group beside another, which has CPU 2. CPU 1 idles, since none of them may run there.
        let (hog, group) = (machine.group(0), machine.group(0));
        let most = Schedule { nice: -20, ..Schedule::NORMAL };
        machine.start_in(Some(&hog), 2, most, SPINS, Some(2));
        let restrict = |task: &Task| Simulation::restrict(task, 0b101);
        let tasks = [0, 1]
            .map(|_| machine.begin(Some(&group), 0, Schedule::NORMAL, SPINS, restrict))
            .map(|n| machine.task(n));
        let mut now = 2 * SECOND;
        machine.run(now);
        while tasks.iter().any(|task| task.cpu() != 0) {
            now += MS;
            machine.run(now);
        }
        assert!(machine.cpus[1].queue.idles() && machine.cpus[0].queue.waiting() == 1);
        let runs = machine.current(0);
        let weight = runs.fair.weight();
        tasks.iter().for_each(|task| Simulation::restrict(task, 0b111));
        group.set_nice(10);
        let tick = machine.cpus[0].next_tick.get();
        assert!(tick <= now + CONTENDED_TICK);
        machine.run(tick);
        assert!(Arc::ptr_eq(&machine.current(0), &runs), "another has got the CPU");
        assert!(runs.fair.weight() < weight, "it has another weight");
        assert!(!machine.cpus[1].queue.idles(), "the other one has come for who waits");
    });
}

#[test]
fn a_time_that_goes_back_changes_nothing() {
    in_process(|| {
        let outcomes = [false, true].map(|goes_back| {
            let machine = Simulation::new(2, 1);
            let groups = start(&machine, &[(0, 3), (5, 4)]);
            for nice in [0, 3, 10] {
                machine.start(0, nice, SPINS, None);
            }
            let far = 8 * SECOND;
            for round in 1..1000 {
                machine.run(round * 60 * MS + 1);
                for cpu in machine.cpus.iter().filter(|_| goes_back) {
                    cpu.queue.queue.lock().keep_time_below(far);
                }
            }
            let gone_back = machine.cpus.iter().all(|cpu| {
                let queue = cpu.queue.queue.lock();
                queue.running_fair().is_some_and(|task| task.fair.vruntime() < far)
            });
            assert_eq!(gone_back, goes_back);
            assert_eq!(groups.len(), 2);
            machine.outcomes().iter().map(|outcome| (outcome.ran, outcome.moves)).collect::<Vec<_>>()
        });
        assert_eq!(outcomes[0], outcomes[1]);
    });
}

/// A group of `tasks` that spin may have `quota` ms in each `period` ms. Gives how many CPUs it had, in percent of what it may have, and how many another
/// had beside it.
fn quota_on(cpus: u32, tasks: u32, quota: u64, period: u64, others: u32) -> (f64, f64) {
    let machine = Simulation::new(cpus, 1);
    let groups = start(&machine, &[(0, tasks), (0, others)]);
    machine.limit(&groups[0].0, Some((quota, period)));
    let seconds = 10;
    let had = had(&machine, &groups, SECOND, (1 + seconds) * SECOND);
    (100.0 * had[0] / (quota as f64 / period as f64), had[1])
}

#[test]
fn a_group_has_its_quota_and_no_more() {
    in_process(|| {
        for (cpus, tasks, quota, period) in [
            (1, 1, 20, 100),
            (1, 5, 20, 100),
            (1, 40, 20, 100),
            (2, 2, 50, 100),
            (2, 7, 150, 100),
            (4, 4, 100, 100),
            (4, 40, 20, 100),
            (16, 16, 400, 100),
            (16, 64, 100, 50),
            (64, 64, 1600, 100),
            (64, 200, 320, 100),
        ] {
            let (part, _) = quota_on(cpus, tasks, quota, period, 0);
            // A slice for each CPU more, once; what was too much in the first period is taken off the next.
            let slack = 100.0 * f64::from(cpus) * 5.0 / (quota as f64 * 10_000.0 / period as f64);
            assert!(
                (90.0..=100.5 + slack).contains(&part),
                "{cpus} CPUs, {tasks} tasks, {quota} of {period} ms: {part} %"
            );
        }
    });
}

#[test]
fn what_a_group_may_not_have_others_have() {
    in_process(|| {
        for (cpus, tasks) in [(1, 3), (2, 5), (16, 32)] {
            let (part, others) = quota_on(cpus, tasks, 20, 100, cpus);
            assert!((90.0..=105.0).contains(&part), "{cpus} CPUs, {tasks} tasks: {part} %");
            assert!(others > f64::from(cpus) - 0.25, "{cpus} CPUs, {tasks} tasks: others had {others}");
        }
    });
}

#[test]
fn a_quota_holds_for_tasks_that_sleep_and_for_those_that_come_later() {
    in_process(|| {
        let machine = Simulation::new(4, 1);
        let group = machine.group(0);
        machine.limit(&group, Some((50, 100)));
        let begin = |habit| machine.start_in(Some(&group), 0, Schedule::NORMAL, habit, None);
        let mut tasks: Vec<usize> = (0..20).map(|_| begin(Habit(Some((3 * MS, 2 * MS))))).collect();
        machine.run(SECOND);
        tasks.extend((0..4).map(|_| begin(SPINS)));
        let had = had(&machine, &[(group, tasks)], 2 * SECOND, 12 * SECOND);
        assert!((0.45..=0.53).contains(&had[0]), "{had:?}");
    });
}

#[test]
fn a_quota_ends() {
    in_process(|| {
        let machine = Simulation::new(2, 1);
        let groups = start(&machine, &[(0, 4)]);
        machine.limit(&groups[0].0, Some((10, 100)));
        assert!(had(&machine, &groups, SECOND, 3 * SECOND)[0] < 0.15);
        machine.limit(&groups[0].0, None);
        let had = had(&machine, &groups, 4 * SECOND, 6 * SECOND);
        assert!(had[0] > 1.99, "{had:?}");
    });
}
