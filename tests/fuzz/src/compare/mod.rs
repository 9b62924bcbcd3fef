//! Programs of one task on two kernels, compared call by call: what each returned, and what it left in the program's data.
//!
//! Numbers of processes, addresses and times are not compared: of the calls in `VALUES` only whether they succeed, of those in `OUTPUTS`
//! not what they write. Where two kernels part, the program is made small as long as they part at the same call, and printed.
#![forbid(unsafe_code)]

mod known;
pub mod masks;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Result;
use darter_table::{CALLS, Kind};

use self::known::known;
use crate::encode;
use crate::generate::Generator;
use crate::machine::{Batch, End, Machine, Outcome};
use crate::program::{Call, Part, Program, Value};
use crate::table;

const ENDED: u32 = 2;

/// Where a program's two runs part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Difference {
    pub call: String,
    pub linux: String,
    pub darter: String,
}

pub struct Compared {
    pub programs: usize,
    pub calls: usize,
}

/// Compares programs of `seed` in machines with one CPU; were there none but known differences?
pub fn compare(
    machine: &Machine,
    root: &Path,
    seed: u64,
    count: usize,
    batch: usize,
    rounds: usize,
) -> Result<bool> {
    let known = known(root)?;
    let mut generator = Generator::new(seed);
    generator.alone = true;
    let mut total = Compared { programs: 0, calls: 0 };
    let mut found: BTreeMap<Difference, (usize, Program)> = BTreeMap::new();
    let mut needed: HashMap<usize, usize> = HashMap::new();
    // Batches one after the other of which nothing could be compared.
    let mut empty = 0;
    while total.programs < count {
        let before = total.programs;
        let programs: Vec<Program> = (0..batch).map(|_| generator.program()).collect();
        for (program, calls, difference) in both(machine, &programs)? {
            total.programs += 1;
            total.calls += calls;
            let Some(difference) = difference else { continue };
            if let Some(row) = known.iter().position(|row| row.fits(&difference)) {
                *needed.entry(row).or_default() += 1;
                continue;
            }
            let entry = found.entry(difference).or_insert_with(|| (0, program.clone()));
            entry.0 += 1;
            if program.count() < entry.1.count() {
                entry.1 = program;
            }
        }
        empty = if total.programs == before { empty + 1 } else { 0 };
        anyhow::ensure!(empty < 3, "three batches gave nothing to compare");
        println!("{} programs, {} calls compared, {} differences", total.programs, total.calls, found.len());
    }
    small(machine, &mut found, rounds)?;
    for (difference, (count, program)) in &found {
        println!(
            "{}: Linux {}, Darter {} ({count} programs)\n{program}",
            difference.call, difference.linux, difference.darter
        );
    }
    for (row, known) in known.iter().enumerate() {
        println!(
            "known: {} ({} programs): {}",
            known.call,
            needed.get(&row).copied().unwrap_or(0),
            known.reason
        );
    }
    println!(
        "seed {seed}: {} programs, {} calls compared; {} differences that are not known",
        total.programs,
        total.calls,
        found.len()
    );
    Ok(found.is_empty())
}

/// Makes each found program small: leaves out a call at a time as long as it parts in the same way.
fn small(machine: &Machine, found: &mut BTreeMap<Difference, (usize, Program)>, rounds: usize) -> Result<()> {
    for _ in 0..rounds {
        let mut candidates = Vec::new();
        let mut wanted = Vec::new();
        for (difference, (_, program)) in found.iter() {
            for candidate in without_one(program) {
                candidates.push(candidate);
                wanted.push(difference.clone());
            }
        }
        candidates.truncate(600);
        if candidates.is_empty() {
            break;
        }
        let mut smaller = false;
        for ((program, _, difference), wanted) in both(machine, &candidates)?.into_iter().zip(&wanted) {
            if difference.as_ref() == Some(wanted)
                && let Some(entry) = found.get_mut(wanted)
                && program.count() < entry.1.count()
            {
                entry.1 = program;
                smaller = true;
            }
        }
        if !smaller {
            break;
        }
    }
    Ok(())
}

/// The program without its first or second half, and without each call.
fn without_one(program: &Program) -> Vec<Program> {
    let calls = program.count();
    let mut all = Vec::new();
    let mut leave_out = |range: std::ops::Range<usize>| {
        let mut one = program.clone();
        if let Some(task) = one.tasks.first_mut() {
            task.calls.drain(range);
        }
        if one.count() > 0 {
            all.push(one);
        }
    };
    if calls > 3 {
        leave_out(0..calls / 2);
        leave_out(calls / 2..calls);
        leave_out(0..calls - 1);
    }
    (0..calls).for_each(|at| leave_out(at..at + 1));
    all
}

/// Runs the programs on both kernels: each with the number of calls compared and where the two part first. Those that a machine was too slow
/// for are not among them.
///
/// # Errors
/// Darter died, or what else ends its machine early.
fn both(machine: &Machine, programs: &[Program]) -> Result<Vec<(Program, usize, Option<Difference>)>> {
    let batch = Batch { cpus: 1, rounds: 1, coverage: false, results: true };
    let darter = machine.run(programs, batch)?;
    let linux = Machine { kernel: "linux".into(), ..machine.clone() }.run(programs, batch)?;
    for (name, outcome) in [("Darter", &darter), ("Linux", &linux)] {
        match outcome.end {
            End::Whole => {}
            End::Slow => println!("{name}: the batch ended early, at program {}: slow", outcome.last),
            _ if name == "Linux" => {
                println!("{name}: the batch ended at program {}: {:?}", outcome.last, outcome.end)
            }
            _ => anyhow::bail!("{name}: the batch ended at program {}: {:?}", outcome.last, outcome.end),
        }
    }
    Ok((1..)
        .zip(programs)
        .filter(|(number, _)| darter.ends.contains_key(number) && linux.ends.contains_key(number))
        .map(|(number, program)| {
            let (calls, difference) = part(program, number, &linux, &darter);
            let mut program = program.clone();
            if let (Some(_), Some(task)) = (&difference, program.tasks.first_mut()) {
                task.calls.truncate(calls);
            }
            (program, calls, difference)
        })
        .collect())
}

fn part(program: &Program, number: usize, linux: &Outcome, darter: &Outcome) -> (usize, Option<Difference>) {
    let slots = encode::slots(program);
    let result = |outcome: &Outcome, call: &Call| {
        let slot = slots.get(&call.id).copied()?;
        let found = outcome.results.get(&number)?.iter().find(|(at, ..)| *at == slot)?;
        Some((found.1 == ENDED, found.2, found.3))
    };
    let differing = masks::differing(program);
    let mut compared = 0;
    // Something that is not compared has been written beyond what is cleared.
    let mut spoiled = false;
    for call in program.calls() {
        let name = table::name(call.number);
        let (on_linux, on_darter) = (result(linux, call), result(darter, call));
        let (Some((true, value, digest)), Some((true, here, digest_here))) = (on_linux, on_darter) else {
            // Neither came back, or the program was over: what is left cannot be compared. One that waits for the supervisor's nudge may
            // be ended instead, so only a call that came back on one side and was never reached on the other says something.
            return (compared, None);
        };
        compared += 1;
        spoiled |= masks::spoils(call);
        let masked = value >= 0 && here >= 0 && masks::value(&name);
        // Interrupted by the nudge on one side: time, not meaning.
        if value == -4 || here == -4 {
            return (compared, None);
        }
        if value != here && masks::is_refused(call, here) {
            // What the table says. What the program would have gone on with is not there.
            return (compared, None);
        }
        if value != here && !masked {
            return (
                compared,
                Some(Difference { call: said(program, call, &name), linux: show(value), darter: show(here) }),
            );
        }
        if digest != digest_here && !spoiled && !masks::clears(call, &differing) {
            let bytes = || "other bytes".to_owned();
            return (
                compared,
                Some(Difference { call: said(program, call, &name), linux: bytes(), darter: bytes() }),
            );
        }
    }
    (compared, None)
}

/// The call's name, with the one argument that says which of its differences it can be: a command, what a descriptor is, the name of a file system.
fn said(program: &Program, call: &Call, name: &str) -> String {
    let argument = |at: usize| call.arguments.get(at);
    let command = match name {
        "fcntl" | "ioctl" | "futex" => argument(1),
        "madvise" => argument(2),
        "pidfd_send_signal" => argument(3),
        "prctl" | "arch_prctl" => argument(0),
        _ => None,
    };
    if let Some(Value::Number(number)) = command {
        return format!("{name} {number:#x}");
    }
    let detail = match name {
        "mount" => argument(2).and_then(text),
        "fchown" | "fchmod" => argument(0).and_then(|value| maker(program, value)),
        "getpriority" | "setpriority" => None,
        _ if names_low(call) => Some("low".to_owned()),
        "sched_setattr" => argument(1).and_then(|value| is_real_time(value).then(|| "real-time".to_owned())),
        _ => None,
    };
    detail.map_or_else(|| name.to_owned(), |detail| format!("{name} {detail}"))
}

/// The call whose result it is.
fn maker(program: &Program, value: &Value) -> Option<String> {
    let Value::Result { id, .. } = value else { return None };
    program.calls().find(|call| call.id == *id).map(|call| table::name(call.number))
}

/// Does the call name a process by a number that may be that of a thread of Linux's kernel?
fn names_low(call: &Call) -> bool {
    let row = CALLS.iter().find(|row| row.number == call.number);
    let arguments = row.map_or(&[][..], |row| row.arguments);
    arguments
        .iter()
        .zip(&call.arguments)
        .any(|(argument, value)| matches!(argument.kind, Kind::Pid) && is_low(value))
}

/// May it be the number of a thread of Linux's kernel?
fn is_low(value: &Value) -> bool {
    matches!(value, Value::Number(number) | Value::Result { instead: number, .. } if (1..200).contains(&(*number as u32)))
}

/// struct sched_attr with SCHED_FIFO, SCHED_RR or SCHED_DEADLINE: the second of its fields.
fn is_real_time(value: &Value) -> bool {
    let Value::Data(data) = value else { return false };
    matches!(data.parts.get(1), Some(Part::Value(_, Value::Number(1 | 2 | 6))))
}

/// A string.
fn text(value: &Value) -> Option<String> {
    let Value::Data(data) = value else { return None };
    match data.parts.first() {
        Some(Part::Bytes(bytes)) => {
            Some(String::from_utf8_lossy(bytes.strip_suffix(b"\0").unwrap_or(bytes)).into_owned())
        }
        _ => None,
    }
}

fn show(value: i64) -> String {
    if (-4095..0).contains(&value) {
        let number = i32::try_from(-value).unwrap_or(0);
        format!(
            "errno {number} ({})",
            std::io::Error::from_raw_os_error(number).to_string().split(" (").next().unwrap_or_default()
        )
    } else {
        format!("{value:#x}")
    }
}
