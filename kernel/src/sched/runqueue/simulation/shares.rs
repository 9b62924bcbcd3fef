//! Does each get its share, in time, while no CPU idles?

use super::super::super::fair::weight;
use super::super::machine::Machine;
use super::{Habit, MS, Outcome, SPINS, Schedule, Simulation};
use crate::testing::{check, in_process};
use proptest::prelude::*;
use std::vec::Vec;

const SECOND: u64 = 1000 * MS;
/// A task that sleeps 2 ms at a time, and runs shortly.
const TICKER: Habit = Habit(Some((50_000, 2 * MS)));

/// What each of tasks with these weights is due of `cpus` CPUs over `time`: by weight, and nobody more than one CPU.
fn dues(weights: &[u64], cpus: u32, time: u64) -> Vec<f64> {
    let mut dues: Vec<Option<f64>> = weights.iter().map(|_| None).collect();
    loop {
        let open: u64 = weights.iter().zip(&dues).filter(|(_, due)| due.is_none()).map(|(w, _)| w).sum();
        let left = f64::from(cpus) - dues.iter().flatten().sum::<f64>();
        let share = |weight: u64| left * weight as f64 / open as f64;
        let Some(capped) = (0..weights.len()).find(|n| dues[*n].is_none() && share(weights[*n]) > 1.0) else {
            let due =
                |(weight, due): (&u64, &Option<f64>)| due.unwrap_or_else(|| share(*weight)) * time as f64;
            return weights.iter().zip(&dues).map(due).collect();
        };
        dues[capped] = Some(1.0);
    }
}

/// What becomes of tasks that spin.
pub struct Spun {
    /// The worst deviation from what a task is due, of 1.
    pub deviation: f64,
    /// The same at worst at any time in the window, ns.
    pub behind: f64,
    /// How late the ticker was at worst, ns, from its begin on; and in the window alone.
    late: u64,
    pub late_in_window: u64,
    moves: u64,
    /// Moves in a second of one CPU, and looks at another CPU in a tick, both in the window.
    pub moves_of_cpu: f64,
    pub looks_of_cpu: f64,
    /// How long a CPU idled at most while a task waited that it might have taken, ns.
    pub wasted: u64,
}

/// `tasks` tasks begin on one CPU, a second before they are looked at.
pub fn spin(cpus: u32, nodes: u32, tasks: u32, nices: &[i32], seconds: u64) -> Spun {
    let machine = Simulation::new(cpus, nodes);
    (0..tasks).for_each(|n| {
        machine.start(0, nices[n as usize % nices.len()], SPINS, None);
    });
    look(&machine, cpus, tasks, nices, seconds)
}

/// As `spin`: the tasks begin one after the other, get their nice value, sleep, and are woken by one CPU as all others have begun. So they lie on few CPUs then.
pub fn spin_behind_a_gate(cpus: u32, nodes: u32, tasks: u32, nices: &[i32], seconds: u64) -> Spun {
    const OPENS: u64 = 200 * MS;
    let machine = Simulation::new(cpus, nodes);
    let begun: Vec<usize> = (0..tasks)
        .map(|n| {
            machine.run(MS + u64::from(n) * 200_000);
            let shortly = Habit(Some((50_000, OPENS - machine.now() - 50_000)));
            let task = machine.start(0, 0, shortly, None);
            machine.set_nice(task, nices[n as usize % nices.len()]);
            task
        })
        .collect();
    machine.run(OPENS - MS);
    machine.waker.set(Some(0));
    begun.into_iter().for_each(|task| machine.spins_from_now(task));
    machine.run(OPENS + MS);
    machine.waker.set(None);
    look(&machine, cpus, tasks, nices, seconds)
}

/// What tasks that have begun, the first of the machine, come to in the window.
fn look(machine: &Simulation, cpus: u32, tasks: u32, nices: &[i32], seconds: u64) -> Spun {
    let nice = |n: u32| nices[n as usize % nices.len()];
    let ticker = machine.start(0, 0, TICKER, None);
    let opens = machine.now() + SECOND;
    machine.run(opens);
    let before = machine.outcomes();
    let looks = machine.looks.get();
    machine.forget_late();
    let weights: Vec<u64> = (0..tasks).map(|n| weight(nice(n))).collect();
    // What each has had more or less than its due up to now, ns, and its due. What the ticker has used was not there for the others.
    let gaps = |after: &[Outcome]| -> Vec<(f64, f64)> {
        let time = machine.now() - opens;
        let ran = |n: usize| (after[n].ran - before[n].ran) as f64;
        let left = 1.0 - ran(ticker) / (u64::from(cpus) * time) as f64;
        let dues = dues(&weights, cpus, time);
        (0..tasks as usize).map(|n| (ran(n) - dues[n] * left, dues[n] * left)).collect()
    };
    let mut behind = 0.0;
    for tenth in 1..=seconds * 10 {
        machine.run(opens + tenth * SECOND / 10);
        behind = gaps(&machine.outcomes()).iter().map(|(gap, _)| gap.abs()).fold(behind, f64::max);
    }
    let after = machine.outcomes();
    let deviation = gaps(&after).iter().map(|(gap, due)| (gap / due).abs()).fold(0.0, f64::max);
    let moves_before: u64 = before.iter().map(|o| o.moves).sum();
    let moves = after.iter().map(|o| o.moves).sum();
    let late_in_window = after[ticker].latest;
    let cpu_seconds = (u64::from(cpus) * seconds) as f64;
    Spun {
        deviation,
        behind,
        late: late_in_window.max(before[ticker].latest),
        late_in_window,
        moves,
        moves_of_cpu: (moves - moves_before) as f64 / cpu_seconds,
        looks_of_cpu: (machine.looks.get() - looks) as f64 / (cpu_seconds * 250.0),
        wasted: machine.wasted.get(),
    }
}

/// Each within a tenth of its due, for so many CPUs with `loads` tenths of a task for each. The ticker may wait until somebody who was moved to its CPU has caught
/// up.
fn shares_on(cpus: u32, nodes: u32, loads: &[u32], seconds: u64) {
    for load in loads {
        for nices in [&[0][..], &[0, 5], &[0, 5, 10]] {
            let tasks = (cpus * load).div_ceil(10);
            let spun = spin(cpus, nodes, tasks, nices, seconds);
            let told = std::format!(
                "{cpus} CPUs, {tasks} tasks, nice {nices:?}: {:.1} % off, ticker {} us late, {} moves, {} us wasted",
                spun.deviation * 100.0,
                spun.late / 1000,
                spun.moves,
                spun.wasted / 1000
            );
            assert!(
                spun.deviation < 0.1 && spun.late < 200 * MS && spun.wasted < u64::from(cpus.max(8)) * 4 * MS,
                "{told}"
            );
        }
    }
}

#[test]
fn on_few_cpus_each_gets_its_share() {
    in_process(|| [1, 2, 4].into_iter().for_each(|cpus| shares_on(cpus, 1, &[15, 25, 100], 4)));
}

#[test]
fn on_16_cpus_each_gets_its_share() {
    in_process(|| shares_on(16, 1, &[15, 25], 4));
}

#[test]
fn on_16_cpus_160_tasks_get_their_shares() {
    in_process(|| shares_on(16, 1, &[100], 20));
}

/// Where many were, the last that stays is not paid for those that have gone. And who sleeps waits for no tick.
#[test]
fn who_is_woken_where_many_wait_gets_its_share_and_no_more() {
    in_process(|| {
        for (cpus, tasks, nices) in
            [(4, 40, &[0][..]), (4, 40, &[0, 5, 10]), (16, 151, &[0, 5, 10]), (16, 159, &[0, 5, 10])]
        {
            let spun = spin_behind_a_gate(cpus, 1, tasks, nices, 4);
            let (off, late) = (spun.deviation * 100.0, spun.late_in_window / 1000);
            let told =
                std::format!("{cpus} CPUs, {tasks} tasks, {nices:?}: {off:.1} % off, ticker {late} us late");
            assert!(spun.deviation < 0.1 && spun.late_in_window < 6 * MS, "{told}");
        }
    });
}

/// The first that run have CPUs for themselves, until the others have been shared out; what they get ahead by then they lack later.
#[test]
fn where_many_wake_at_once_nobody_gets_ahead_at_first() {
    in_process(|| {
        for (nodes, tasks) in [1, 4].into_iter().flat_map(|nodes| (140..172).map(move |n| (nodes, n))) {
            let off = spin_behind_a_gate(16, nodes, tasks, &[0, 5, 10], 4).deviation;
            assert!(off < 0.1, "{tasks} tasks, {nodes} nodes: {:.1} % off", off * 100.0);
        }
    });
}

#[test]
fn on_48_cpus_each_gets_its_share() {
    in_process(|| shares_on(48, 1, &[15], 20));
}

#[test]
fn on_four_nodes_each_gets_its_share() {
    in_process(|| shares_on(16, 4, &[25], 10));
}

#[test]
fn for_long_the_shares_stay_equal() {
    in_process(|| {
        let spun = spin(2, 1, 3, &[0], 1200);
        assert!(spun.deviation < 0.001, "{} after twenty minutes", spun.deviation);
    });
}

#[test]
fn thousands_of_tasks_on_256_cpus_all_run() {
    in_process(|| {
        let machine = Simulation::new(256, 8);
        (0..3000).for_each(|n| {
            machine.start(n % 256, 0, SPINS, None);
        });
        machine.run(2 * SECOND);
        let outcomes = machine.outcomes();
        let least = outcomes.iter().map(|o| o.ran).min().unwrap();
        assert!(least > SECOND / 15, "one had {least} ns of two seconds");
        assert_eq!(outcomes.iter().map(|o| o.ran).sum::<u64>() / (256 * MS), 2000 - 1);
    });
}

#[test]
fn a_machine_with_a_task_for_each_cpu_rests() {
    in_process(|| {
        let machine = Simulation::new(16, 1);
        (0..16).for_each(|_| {
            machine.start(0, 0, SPINS, None);
        });
        machine.run(2 * SECOND);
        let moves = || machine.outcomes().iter().map(|o| o.moves).sum::<u64>();
        let (looks, moved) = (machine.looks.get(), moves());
        machine.run(12 * SECOND);
        assert_eq!(moves(), moved, "tasks move for nothing");
        // Some looks at two flags each, at every eighth tick.
        let per_tick = (machine.looks.get() - looks) as f64 / (16.0 * 1000.0);
        assert!(per_tick < 1.0, "{per_tick} looks at others at each tick");
    });
}

#[test]
fn a_task_whose_weight_changes_gets_its_new_share() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let tasks: Vec<usize> = (0..2).map(|_| machine.start(0, 0, SPINS, None)).collect();
        machine.run(SECOND);
        machine.set_nice(tasks[0], 5);
        let before = machine.outcomes();
        machine.run(5 * SECOND);
        let after = machine.outcomes();
        let ran = |n: usize| (after[n].ran - before[n].ran) as f64;
        let ratio = ran(1) / ran(0);
        assert!((ratio / 3.05 - 1.0).abs() < 0.05, "{ratio}");
    });
}

#[test]
fn who_wakes_in_the_turn_of_another_waits_for_its_end_and_not_for_a_tick() {
    in_process(|| {
        // Woken on its own CPU, and from another.
        for waker in [0, 1] {
            let machine = Simulation::new(2, 1);
            machine.waker.set(Some(waker));
            (0..5).for_each(|n| {
                machine.start(0, 0, SPINS, Some(n % 2));
            });
            let ticker = machine.start(0, 0, TICKER, Some(0));
            machine.run(10 * SECOND);
            let outcome = machine.outcomes()[ticker];
            let wakes = outcome.ran / 50_000;
            assert!(outcome.late * 10 < wakes, "{} of {wakes} late, woken by {waker}", outcome.late);
        }
    });
}

#[test]
fn who_sleeps_half_the_time_is_not_starved_and_takes_no_more_than_its_due() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let spins = machine.start(0, 0, SPINS, None);
        let sleeps = machine.start(0, 0, Habit(Some((10 * MS, 10 * MS))), None);
        machine.run(10 * SECOND);
        let outcomes = machine.outcomes();
        // Alone it would run half of the time. While it runs it has half of the CPU: a third of the time.
        let (spun, slept) = (outcomes[spins].ran / MS, outcomes[sleeps].ran / MS);
        assert!((3000..5001).contains(&slept) && spun > 4900, "{spun} and {slept} ms of 10000");
    });
}

/// A task of a random machine: its nice value, how long it runs and sleeps, the one CPU that it may use.
fn any_task() -> impl Strategy<Value = (i32, Habit, Option<u32>)> {
    let habit = prop_oneof![
        3 => Just(SPINS),
        2 => (1..20_000u64, 1..20_000u64).prop_map(|(runs, sleeps)| Habit(Some((runs * 1000, sleeps * 1000)))),
    ];
    (
        prop_oneof![3 => Just(0), 1 => -20..20],
        habit,
        prop_oneof![4 => Just(None), 1 => (0..8u32).prop_map(Some)],
    )
}

#[test]
fn on_any_machine_work_is_not_left_and_nobody_starves() {
    in_process(|| {
        let any = (1..9u32, 1..3u32, prop::collection::vec(any_task(), 1..24));
        check(64, &any, |(cpus, nodes, tasks)| {
            let machine = Simulation::new(cpus, nodes);
            for (n, (nice, habit, only)) in tasks.iter().enumerate() {
                machine.start(n as u32 % cpus, *nice, *habit, only.map(|cpu| cpu % cpus));
            }
            machine.run(3 * SECOND);
            assert!(
                machine.wasted.get() < 30 * MS,
                "{} us idle while a task waits",
                machine.wasted.get() / 1000
            );
            let most: u64 = tasks.iter().map(|(nice, ..)| weight(*nice)).sum();
            for (n, outcome) in machine.outcomes().iter().enumerate() {
                let (nice, habit, _) = tasks[n];
                // Were all of them on its one CPU: that much is the least that a task that spins gets.
                let due = 3 * SECOND as u128 * u128::from(weight(nice)) / u128::from(most);
                let least = (due as u64 / 2).saturating_sub(20 * MS);
                let wants = habit.0.is_none();
                assert!(!wants || outcome.ran >= least, "task {n} ran {} of {least} us", outcome.ran / 1000);
            }
        });
    });
}

#[test]
fn whoever_asks_for_more_or_less_at_a_time_gets_its_share_and_no_more() {
    in_process(|| {
        let machine = Simulation::new(1, 1);
        let slices = [100_000, 0, 20_000_000];
        let tasks =
            slices.map(|slice| machine.start_as(0, Schedule { slice, ..Schedule::NORMAL }, SPINS, None));
        machine.run(6 * SECOND);
        let outcomes = machine.outcomes();
        for task in tasks {
            assert!(outcomes[task].ran.abs_diff(2 * SECOND) < SECOND / 20, "{outcomes:?}");
        }
    });
}

/// Tasks that are owed much come from other CPUs; who sleeps most of the time owes them nothing, and they have a request's time before it at most.
#[test]
fn who_sleeps_does_not_wait_for_those_that_catch_up() {
    in_process(|| {
        for (cpus, tasks, nices) in
            [(2, 5, &[0][..]), (2, 5, &[0, 5, 10]), (4, 10, &[0]), (16, 24, &[0, 5, 10])]
        {
            let spun = spin(cpus, 1, tasks, nices, 4);
            assert!(spun.late < 10 * MS, "{cpus} CPUs, {tasks} tasks, {nices:?}: {} us", spun.late / 1000);
        }
    });
}

/// Many that run shortly and sleep shortly, more than the CPUs can do. Those that come from a CPU with more to do come one after the other.
#[test]
fn among_many_that_run_shortly_none_waits_for_long() {
    in_process(|| {
        for (cpus, seed) in [(2, 0), (2, 1), (2, 4), (4, 0), (4, 2)] {
            let machine = Simulation::new(cpus, 1);
            (0..14u64).for_each(|n| {
                let sleeps = 150_000 + (seed * 7919 + n * 104_729) % 700_000;
                machine.start(0, 0, Habit(Some((250_000 * u64::from(cpus), sleeps))), None);
            });
            machine.run(2 * SECOND);
            let worst = machine.outcomes().iter().map(|o| o.latest).max().unwrap();
            assert!(worst < 20 * MS, "{cpus} CPUs, {seed}: {} us", worst / 1000);
        }
    });
}
