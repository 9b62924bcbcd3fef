//! `abi-compare`: runs the ABI programs on a kernel and holds what they print against what Linux prints.
//!
//! All programs of a batch run in one machine, one after another, under the guest's driver (tests/tools/driver.c).
//! Where the two differ Linux is asked again, since it may differ from itself (by when a tick comes, or where an address lies): what it says too in one of [`MORE`] more runs is right.
//!
//! What Linux prints is taken from a Linux machine in the same run and kept under .cache/abi, by the contents of
//! program, driver and the name of the Linux image; nothing of it is ever committed.
#![forbid(unsafe_code)]

mod frames;
mod known;
mod machine;
mod program;
mod report;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use darter_table::record::Record;
use frames::{Ended, Outcome};
use known::Known;
use machine::{Batch, Machine};
use program::Program;

/// Seconds that one program may take in the guest.
const PROGRAM_LIMIT: u64 = 60;

/// How often Linux is asked again.
const MORE: u32 = 3;

struct Options {
    kernel: String,
    cpus: u32,
    fresh: bool,
    list: bool,
    shown: Option<PathBuf>,
    names: Vec<String>,
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}");
    eprintln!(
        "usage: tests/run [--kernel darter|linux|FILE] [--cpus N] [--fresh] [--list] [--shown FILE] [NAME...]"
    );
    eprintln!("  NAME     programs whose name contains it; all if none is given");
    eprintln!("  --fresh  ask Linux again instead of taking what it said last time");
    eprintln!(
        "  --shown  also write into FILE which calls, flags and commands the programs make, with which outcome"
    );
    std::process::exit(2);
}

fn options() -> Options {
    let mut options = Options {
        kernel: "darter".into(),
        cpus: 2,
        fresh: false,
        list: false,
        shown: None,
        names: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--kernel" => options.kernel = words.next().unwrap_or_else(|| usage("--kernel needs a value")),
            "--cpus" => {
                let value = words.next().unwrap_or_else(|| usage("--cpus needs a value"));
                options.cpus = value.parse().unwrap_or_else(|_| usage("--cpus needs a number"));
            }
            "--fresh" => options.fresh = true,
            "--list" => options.list = true,
            "--shown" => {
                options.shown = Some(words.next().unwrap_or_else(|| usage("--shown needs a file")).into());
            }
            "-h" | "--help" => usage("Compares the kernel with Linux, program by program."),
            name if !name.starts_with('-') => options.names.push(name.to_owned()),
            other => usage(&format!("unknown option {other}")),
        }
    }
    options
}

fn main() -> ExitCode {
    match compare(&options()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("tests/run: {problem}");
            ExitCode::from(125)
        }
    }
}

fn compare(options: &Options) -> Result<bool, String> {
    let root = std::env::var_os("DARTER_ROOT").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let mut programs = program::find(&root)?;
    programs
        .retain(|one| options.names.is_empty() || options.names.iter().any(|part| one.name.contains(part)));
    if programs.is_empty() {
        return Err("no program is named so; `tests/run --list` names them".into());
    }
    if options.list {
        programs.iter().for_each(|one| println!("{}", one.name));
        return Ok(true);
    }
    let mut machine = Machine::new(&root, options.cpus, Duration::from_secs(PROGRAM_LIMIT));
    let expected = expectations(options, &machine, &programs)?;
    if options.shown.is_some() {
        machine = machine.telling();
    }
    let known = Known::load(&root, &options.kernel)?;

    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), 0);
    let mut unsure = Vec::new();
    let mut batch = Batch::new(&machine, &options.kernel, &programs);
    while let Some((program, outcome)) = batch.next_outcome()? {
        match (expected.get(&program.name), outcome) {
            (None, outcome) => {
                skipped += 1;
                println!(
                    "skipped  {:<36} {:7.1} s  Linux gave no result to compare with",
                    program.name,
                    outcome.seconds()
                );
            }
            (Some(right), Outcome::Ended(got)) if report::is_known(&known, &program.name, right, &got) => {
                let mended = known.mended(&program.name);
                if !mended.is_empty() {
                    println!("FAILED   {:<36} {:7.1} s", program.name, got.seconds);
                    mended.iter().for_each(|line| {
                        println!("    mended: take this line out of tests/abi/known-differences: {line}");
                    });
                    failed.push(program.name.clone());
                } else if got.same_as(right) {
                    passed += 1;
                    println!("passed   {:<36} {:7.1} s", program.name, got.seconds);
                } else {
                    skipped += 1;
                    println!(
                        "skipped  {:<36} {:7.1} s  differs from Linux only as tests/abi/known-differences says",
                        program.name, got.seconds
                    );
                }
            }
            (Some(_), Outcome::Ended(got)) => unsure.push((program.clone(), got)),
            (Some(right), outcome) => {
                println!("FAILED   {:<36} {:7.1} s", program.name, outcome.seconds());
                report::difference(right, &outcome);
                failed.push(program.name.clone());
            }
        }
    }
    let log = std::mem::take(&mut batch.log);
    drop(batch);
    let asked = Machine::new(&root, options.cpus, Duration::from_secs(PROGRAM_LIMIT));
    let still = ask_again(&asked, unsure, |program, got| {
        passed += 1;
        println!(
            "passed   {:<36} {:7.1} s  as Linux does at times: it differs from itself",
            program.name, got.seconds
        );
    })?;
    for (program, got) in still {
        println!("FAILED   {:<36} {:7.1} s", program.name, got.seconds);
        if let Some(right) = expected.get(&program.name) {
            report::difference(right, &Outcome::Ended(got));
        }
        failed.push(program.name);
    }
    if let Some(file) = &options.shown {
        std::fs::write(file, shown(&programs, &log).text())
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    for name in &failed {
        println!("failed: {name}    again: tests/run --kernel {} {name}", options.kernel);
    }
    println!(
        "{passed} passed, {} failed, {skipped} skipped (kernel {}, compared with linux)",
        failed.len(),
        options.kernel
    );
    Ok(failed.is_empty())
}

/// Asks Linux about programs that differed from it. `passes` is told of each that Linux agrees with in one of [`MORE`] runs; the others are returned.
fn ask_again(
    machine: &Machine,
    mut unsure: Vec<(Program, Ended)>,
    mut passes: impl FnMut(&Program, &Ended),
) -> Result<Vec<(Program, Ended)>, String> {
    for _ in 0..MORE {
        if unsure.is_empty() {
            break;
        }
        let programs: Vec<Program> = unsure.iter().map(|(program, _)| program.clone()).collect();
        let (mut batch, mut agree) = (Batch::new(machine, "linux", &programs), Vec::new());
        while let Some((program, outcome)) = batch.next_outcome()? {
            let got = unsure.iter().find(|(other, _)| other.name == program.name);
            if let (Some((_, got)), Outcome::Ended(said)) = (got, outcome)
                && said.same_as(got)
            {
                passes(program, got);
                agree.push(program.name.clone());
            }
        }
        unsure.retain(|(program, _)| !agree.contains(&program.name));
    }
    Ok(unsure)
}

/// What the programs show that behave, by a machine's log.
fn shown(programs: &[Program], log: &str) -> Record {
    let behave = programs.iter().filter(|one| !one.file.to_string_lossy().contains("/misbehave/"));
    let names: Vec<String> = behave.map(|one| one.name.clone()).collect();
    let mut record = Record::default();
    log.lines().for_each(|line| record.take_line(line, &names));
    record
}

/// What Linux prints, from the cache or from a Linux machine.
fn expectations(
    options: &Options,
    machine: &Machine,
    programs: &[Program],
) -> Result<HashMap<String, frames::Ended>, String> {
    let mut expected = HashMap::new();
    let mut missing = Vec::new();
    for program in programs {
        match machine.cached(program).filter(|_| !options.fresh) {
            Some(ended) => {
                expected.insert(program.name.clone(), ended);
            }
            None => missing.push(program.clone()),
        }
    }
    if missing.is_empty() {
        return Ok(expected);
    }
    eprintln!("asking Linux about {} programs", missing.len());
    let mut batch = Batch::new(machine, "linux", &missing);
    while let Some((program, outcome)) = batch.next_outcome()? {
        match outcome {
            Outcome::Ended(ended) if ended.status != "timeout" => {
                machine.keep(program, &ended);
                expected.insert(program.name.clone(), ended);
            }
            Outcome::Ended(_) => eprintln!("{}: did not end on Linux within {PROGRAM_LIMIT} s", program.name),
            Outcome::Machine(words) => eprintln!("{}: the Linux machine failed: {words}", program.name),
        }
    }
    Ok(expected)
}
