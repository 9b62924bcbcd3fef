//! Runs cases again: those that were found once must not fail any more.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::encode;
use crate::machine::{Batch, End, Machine};
use crate::program::Program;
use crate::{table, text};

/// Runs the files, or all of tests/fuzz/found, in one machine for each number of CPUs; did all live?
pub fn replay(machine: &Machine, root: &Path, files: &[PathBuf], rounds: u32, results: bool) -> Result<bool> {
    let files = if files.is_empty() { found(&root.join("tests/fuzz/found"))? } else { files.to_vec() };
    let mut by_cpus: BTreeMap<u32, Vec<(PathBuf, Vec<Program>)>> = BTreeMap::new();
    for file in files {
        let said =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let (programs, cpus) = text::parse_all(&said).with_context(|| format!("{}", file.display()))?;
        by_cpus.entry(cpus.unwrap_or(2)).or_default().push((file, programs));
    }
    let (mut lived, mut died) = (0, 0);
    for (cpus, cases) in by_cpus {
        let programs: Vec<Program> = cases.iter().flat_map(|(_, programs)| programs.clone()).collect();
        let batch = Batch { cpus, rounds, coverage: false, results };
        let outcome = machine.run(&programs, batch)?;
        if results {
            for (number, program) in (1..).zip(&programs) {
                show(program, outcome.results.get(&number).map_or(&[][..], Vec::as_slice));
                println!("ended: {}", outcome.ends.get(&number).map_or("?", String::as_str));
            }
        }
        if outcome.end == End::Whole {
            lived += cases.len();
            continue;
        }
        // Which of them it is, each alone says.
        let mut blamed = false;
        for (file, programs) in &cases {
            let outcome = machine.run(programs, batch)?;
            if outcome.end == End::Whole {
                lived += 1;
            } else {
                blamed = true;
                died += 1;
                println!(
                    "FAILED   {}\n    | {}",
                    file.display(),
                    format!("{:?}", outcome.end).replace("\\n", "\n    | ")
                );
            }
        }
        if !blamed {
            died += 1;
            println!(
                "FAILED   the cases for {cpus} CPUs together\n    | {}",
                format!("{:?}", outcome.end).replace("\\n", "\n    | ")
            );
        }
    }
    println!("{lived} cases passed, {died} failed ({rounds} rounds each)");
    Ok(died == 0)
}

/// The files of the folder, without those of folders in it.
fn found(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

/// Prints a program with what its calls returned.
fn show(program: &Program, results: &[(usize, u32, i64, u64)]) {
    let slots = encode::slots(program);
    for task in &program.tasks {
        println!("task {}", task.kind.name());
        for call in &task.calls {
            let slot = slots.get(&call.id).copied().unwrap_or(0);
            let result = results.iter().find(|(at, ..)| *at == slot);
            let said = match result {
                Some((_, 2, value, _)) => format!("{value:#x} ({value})"),
                Some(_) => "did not return".to_owned(),
                None => "not made".to_owned(),
            };
            println!("  {call} = {said}");
            let _ = table::name(call.number);
        }
    }
}
