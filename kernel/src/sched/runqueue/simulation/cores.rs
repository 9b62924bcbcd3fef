//! Threads of a core, nodes, and tasks that take turns: who runs where?

use super::{Habit, MS, SPINS, Simulation};
use crate::testing::in_process;
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
