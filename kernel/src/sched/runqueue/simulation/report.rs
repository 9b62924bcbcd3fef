//! The report of the simulation: what machines of 1 to 256 CPUs do with tasks that spin, begun on one CPU or woken together, and with one that sleeps.
//! `make scheduler-report` writes docs/scheduler.md by it.

use super::shares::{Spun, spin, spin_behind_a_gate};
use crate::testing::in_process;
use std::string::String;
use std::{env, format, fs, println};

const HEAD: &str = "\
# The scheduler, simulated

The kernel's own run queues, order, wake-up and balancer over a machine whose time is a number. Written by `make scheduler-report`; nobody edits it.

Tasks spin: they begin on one CPU (first figure) or are woken by one CPU (second). From a second later on they are looked at for 4 s, with 48 CPUs
and more for 20 s. One more task runs 50 us and sleeps 2 ms, again and again.

* off: how far the worst task is from its due, which is by weight, and one CPU at most.
* behind: how many ms that is at worst, looked at every 100 ms.
* late: how long the task that sleeps waits for a CPU when it wakes, at worst, in us.
* idle: how long a CPU idles at worst while a task waits that it might run, in us.
* moves: of all tasks, in a second of one CPU.
* looks: at the queue or the flags of another CPU, in 4 ms of one CPU.

| CPUs | nodes | tasks | nice | off, % | behind, ms | late, us | idle, us | moves | looks |
|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|
";

const HOUR: u64 = 3600;
const NICES: [(&str, &[i32]); 3] = [("0", &[0]), ("0, 5", &[0, 5]), ("0, 5, 10", &[0, 5, 10])];

const HOURS: &str = "
The same over hours:

| CPUs | nodes | tasks | nice | hours | off, % | behind, ms | late, us | idle, us | moves | looks |
|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|
";

fn row(
    cpus: u32,
    nodes: u32,
    tasks: u32,
    (name, nices): (&str, &'static [i32]),
    seconds: u64,
) -> (String, f64) {
    let [begun, woken] =
        [spin, spin_behind_a_gate].map(|how| in_process(move || how(cpus, nodes, tasks, nices, seconds)));
    let cell =
        |figure: fn(&Spun) -> f64, digits| format!("{:.digits$} {:.digits$}", figure(&begun), figure(&woken));
    let columns = [
        cell(|spun| spun.deviation * 100.0, 1),
        cell(|spun| spun.behind / 1e6, 1),
        cell(|spun| (spun.late_in_window / 1000) as f64, 0),
        cell(|spun| (spun.wasted / 1000) as f64, 0),
        cell(|spun| spun.moves_of_cpu, 1),
        cell(|spun| spun.looks_of_cpu, 2),
    ];
    let hours = if seconds < HOUR { String::new() } else { format!("{} | ", seconds / HOUR) };
    let row = format!("| {cpus} | {nodes} | {tasks} | {name} | {hours}{} |\n", columns.join(" | "));
    println!("{}", row.trim_end());
    (row, begun.deviation)
}

#[test]
#[ignore = "takes minutes: make scheduler-report"]
fn report() {
    let mut page = String::from(HEAD);
    for (cpus, nodes) in [(1, 1), (2, 1), (4, 1), (16, 1), (16, 4), (48, 1), (48, 2), (256, 8)] {
        // Thousands that spin take minutes.
        for tenths in [15, 25, 100].into_iter().filter(|tenths| cpus * tenths < 10_000) {
            for nices in NICES {
                let seconds = if cpus < 48 { 4 } else { 20 };
                let (row, off) = row(cpus, nodes, (cpus * tenths).div_ceil(10), nices, seconds);
                assert!(off < 0.1, "begun on one CPU a task is {off} from its due");
                page.push_str(&row);
            }
        }
    }
    page.push_str(HOURS);
    for (cpus, nodes, tasks, hours) in [(1, 1, 2_000, 4), (2, 1, 5, 4), (16, 4, 1_000, 1)] {
        let (row, off) = row(cpus, nodes, tasks, NICES[2], hours * HOUR);
        assert!(off < 0.01, "after {hours} hours a task is {off} from its due");
        page.push_str(&row);
    }
    if let Ok(file) = env::var("SCHEDULER_REPORT") {
        fs::write(file, page).unwrap();
    }
}
