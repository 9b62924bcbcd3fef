//! Threads of a core, nodes, and tasks that take turns: who runs where?

use super::super::machine::Machine;
use super::{Habit, MS, SPINS, Simulation};
use crate::testing::{check, in_process};
use proptest::prelude::*;
use std::vec::Vec;

const SECOND: u64 = 1000 * MS;

/// How many CPUs of each core run something.
fn busy(machine: &Simulation, threads: u32) -> Vec<usize> {
    let busy: Vec<bool> = machine.cpus.iter().map(|cpu| !cpu.queue.idles()).collect();
    busy.chunks(threads as usize).map(|core| core.iter().filter(|busy| **busy).count()).collect()
}

#[test]
fn each_task_gets_a_core_before_two_share_one() {
    in_process(|| {
        for (cpus, nodes, threads) in [(4, 1, 2), (16, 1, 2), (16, 2, 2), (32, 2, 4)] {
            let machine = Simulation::with_threads(cpus, nodes, threads);
            let cores = cpus / threads;
            (0..cores).for_each(|_| {
                machine.start(0, 0, SPINS, None);
            });
            machine.run(SECOND);
            assert!(busy(&machine, threads).iter().all(|busy| *busy == 1), "{:?}", busy(&machine, threads));
            // Then the other threads fill.
            (0..cpus - cores).for_each(|_| {
                machine.start(0, 0, SPINS, None);
            });
            machine.run(2 * SECOND);
            assert!(busy(&machine, threads).iter().all(|busy| *busy == threads as usize));
        }
    });
}

/// It was on a thread of a core whose other thread is busy now: it wakes on a core that idles as a whole.
#[test]
fn who_wakes_goes_to_a_core_that_idles_as_a_whole() {
    in_process(|| {
        let machine = Simulation::with_threads(8, 1, 2);
        let sleeps = machine.start(0, 0, Habit(Some((MS, 9 * MS))), None);
        machine.run(5 * MS);
        let cpu = machine.task(sleeps).cpu();
        machine.start(0, 0, SPINS, Some(cpu ^ 1));
        machine.run(100 * MS);
        assert_ne!(machine.task(sleeps).cpu() / 2, cpu / 2);
    });
}

/// A CPU whose task sleeps is left to it where another's has ended.
#[test]
fn who_begins_goes_where_one_has_ended() {
    in_process(|| {
        for ended in 1..4 {
            let machine = Simulation::new(4, 1);
            let shown = &machine.cpus[ended].queue;
            shown.looks.note_end();
            shown.show_idle(MS, 1);
            let first = machine.start(0, 0, Habit(Some((MS, SECOND))), None);
            assert_eq!(machine.task(first).cpu() as usize, ended);
            machine.run(5 * MS);
            // It sleeps there since: the next begins elsewhere, for it is not known to be better.
            shown.show_idle(MS, 2);
            let second = machine.start(0, 0, SPINS, None);
            assert_eq!(machine.task(second).cpu(), 1);
        }
    });
}

/// Two that take turns come to one CPU, and stay there; others run beside them.
#[test]
fn two_that_take_turns_come_together() {
    in_process(|| {
        for (cpus, pairs, spin) in [(2, 1, 0), (4, 1, 2), (4, 2, 0), (16, 4, 4)] {
            let machine = Simulation::new(cpus, 1);
            let pairs: Vec<_> = (0..pairs).map(|_| machine.start_pair(0, 20_000)).collect();
            (0..spin).for_each(|_| {
                machine.start(0, 0, SPINS, None);
            });
            machine.run(50 * MS);
            let moves = |n: usize| machine.outcomes()[n].moves;
            let before: u64 = pairs.iter().flatten().map(|n| moves(*n)).sum();
            for [a, b] in &pairs {
                assert_eq!(machine.task(*a).cpu(), machine.task(*b).cpu(), "{cpus} CPUs");
            }
            machine.run(150 * MS);
            let after: u64 = pairs.iter().flatten().map(|n| moves(*n)).sum();
            assert!(after - before < 20, "{} moves in 100 ms on {cpus} CPUs", after - before);
        }
    });
}

/// Two that hand each other more than a little work do not: neither is short.
#[test]
fn two_that_work_for_long_stay_where_they_are() {
    in_process(|| {
        let machine = Simulation::new(4, 1);
        let [a, b] = machine.start_pair(0, 100_000);
        machine.run(200 * MS);
        assert_ne!(machine.task(a).cpu(), machine.task(b).cpu());
        let moves: u64 = machine.outcomes().iter().map(|o| o.moves).sum();
        assert!(moves < 3, "{moves} moves");
    });
}

/// Who sleeps and wakes on a node stays there, while a CPU of it idles.
#[test]
fn sleepers_stay_on_their_node() {
    in_process(|| {
        let machine = Simulation::new(16, 4);
        let tasks: Vec<usize> =
            (0..8).map(|n| machine.start(n / 2 * 4, 0, Habit(Some((2 * MS, MS))), None)).collect();
        machine.run(100 * MS);
        let nodes = || -> Vec<u32> { tasks.iter().map(|n| machine.task(*n).cpu() / 4).collect() };
        let before = nodes();
        machine.run(3 * SECOND);
        assert_eq!(nodes(), before);
    });
}

/// Two that run beside each other, though a core idles: one of them goes there, and stays.
#[test]
fn who_runs_beside_another_goes_to_a_core_that_idles() {
    in_process(|| {
        for (cpus, nodes, threads) in [(4, 1, 2), (8, 2, 2), (8, 1, 4), (16, 4, 2)] {
            let machine = Simulation::with_threads(cpus, nodes, threads);
            let pinned = machine.start(0, 0, SPINS, Some(0));
            let free = machine.start(0, 0, SPINS, Some(1));
            Simulation::restrict(&machine.task(free), u64::MAX);
            machine.run(50 * MS);
            let home = machine.task(free).cpu();
            assert_ne!(home / threads, 0, "of {cpus} CPUs, {threads} threads each");
            machine.run(SECOND);
            assert_eq!(machine.task(free).cpu(), home);
            assert_eq!([pinned, free].map(|n| machine.outcomes()[n].moves), [0, 1]);
        }
    });
}

/// Both might go, and there are two cores: one stays. Where no core of the node idles it takes longer.
#[test]
fn of_two_beside_each_other_one_goes() {
    in_process(|| {
        for (cpus, nodes, after) in [(8, 1, 40 * MS), (4, 2, 300 * MS)] {
            let machine = Simulation::with_threads(cpus, nodes, 2);
            let both = [0, 1].map(|cpu| machine.start(0, 0, SPINS, Some(cpu)));
            both.iter().for_each(|n| Simulation::restrict(&machine.task(*n), u64::MAX));
            machine.run(after);
            assert_eq!(both.map(|n| machine.outcomes()[n].moves), [0, 1], "of {cpus} CPUs");
            machine.run(2 * SECOND);
            assert_eq!(both.map(|n| machine.outcomes()[n].moves), [0, 1], "of {cpus} CPUs, later");
        }
    });
}

/// A task that may run on one CPU alone wakes where another runs, while a CPU idles: the other goes there.
#[test]
fn who_runs_makes_place_for_one_that_may_run_nowhere_else() {
    in_process(|| {
        let machine = Simulation::new(2, 1);
        let free = machine.start(0, 0, SPINS, None);
        let home = machine.task(free).cpu();
        let pinned = machine.start(0, 0, SPINS, Some(home));
        machine.run(SECOND);
        let outcomes = machine.outcomes();
        assert!(outcomes[free].ran > 980 * MS && outcomes[pinned].ran > 980 * MS, "{outcomes:?}");
        assert_eq!(outcomes[free].moves, 1);
    });
}

#[test]
fn with_any_affinities_no_cpu_idles_beside_a_task_that_it_may_run() {
    in_process(|| {
        let habit = prop_oneof![
            2 => Just(SPINS),
            1 => (1..20_000u64, 1..20_000u64).prop_map(|(runs, sleeps)| Habit(Some((runs * 1000, sleeps * 1000)))),
        ];
        let any = (1..9u32, 1..3u32, 1..3u32, prop::collection::vec((habit, 1..256u64), 1..24));
        check(64, &any, |(cpus, nodes, threads, tasks)| {
            let machine = Simulation::with_threads(cpus * threads, nodes, threads);
            for (n, (habit, mask)) in tasks.iter().enumerate() {
                let there = (1 << (cpus * threads).min(63)) - 1;
                let mask = if *mask & there == 0 { there } else { mask & there };
                machine.start_on(n as u32 % cpus, *habit, mask);
            }
            machine.run(2 * SECOND);
            assert!(machine.stranded.get() < 30 * MS, "{} us", machine.stranded.get() / 1000);
        });
    });
}

/// Six for four CPUs of each node, that run half of the time: where all of its node are busy a task waits for a moment, and does not leave its memory.
#[test]
fn who_wakes_stays_on_its_node() {
    in_process(|| {
        let machine = Simulation::new(16, 4);
        let tasks: Vec<usize> = (0..24u64)
            .map(|n| {
                let habit = Habit(Some((500_000 + n * 7919, 500_000 + n * 5333)));
                machine.start_on(n as u32 / 6 * 4, habit, 0xf << (n / 6 * 4))
            })
            .collect();
        machine.run(10 * MS);
        tasks.iter().for_each(|task| Simulation::restrict(&machine.task(*task), 0xffff));
        let nodes =
            || -> Vec<u32> { tasks.iter().map(|task| machine.node_of(machine.task(*task).cpu())).collect() };
        let (mut before, mut changes) = (nodes(), 0);
        for ms in 10..SECOND / MS {
            machine.run(ms * MS);
            let now = nodes();
            changes += now.iter().zip(&before).filter(|(now, before)| now != before).count();
            before = now;
        }
        assert!(changes < 100, "{changes} times in a second somebody changed its node");
    });
}

/// All of them were on one CPU as they went to sleep.
#[test]
fn where_many_wake_on_one_cpu_all_others_come_for_them() {
    in_process(|| {
        for (cpus, nodes) in [(16, 1), (16, 4), (48, 1), (48, 2), (256, 8)] {
            let machine = Simulation::new(cpus, nodes);
            let tasks: Vec<usize> = (0..cpus * 2)
                .map(|n| {
                    machine.run(MS + u64::from(n) * 100_000);
                    machine.start(0, 0, Habit(Some((50_000, 100 * MS - machine.now()))), None)
                })
                .collect();
            machine.run(99 * MS);
            machine.waker.set(Some(0));
            tasks.into_iter().for_each(|task| machine.spins_from_now(task));
            machine.run(300 * MS);
            let wasted = machine.wasted.get();
            assert!(wasted < 9 * MS, "{cpus} CPUs, {nodes} nodes: one idles for {} us", wasted / 1000);
        }
    });
}

/// Pairs of tasks that take turns share a few CPUs. The CPUs' times run apart, as there is more to do now here, now there; who goes from one to another is owed
/// little all the same, and the others do not stand still until it has had that.
#[test]
fn where_pairs_take_turns_none_waits_for_long() {
    in_process(|| {
        for (cpus, runs) in [(2, 6000), (2, 6100), (4, 6000), (4, 6200)] {
            let machine = Simulation::new(cpus, 1);
            let pairs: Vec<_> = (0..8).map(|_| machine.start_pair(0, runs)).collect();
            machine.run(500 * MS);
            let outcomes = machine.outcomes();
            let latest = outcomes.iter().map(|o| o.latest).max().unwrap();
            assert!(latest < 3 * MS, "one waited for {latest} ns on {cpus} CPUs");
            let had = pairs.iter().map(|[a, b]| outcomes[*a].ran + outcomes[*b].ran);
            let (least, most) = (had.clone().min().unwrap(), had.max().unwrap());
            assert!(most < least * 3 / 2, "{least} to {most} ns on {cpus} CPUs");
        }
    });
}
