//! What was measured, in files: what earlier runs wrote, beside each other (`--from`), and what a run that was broken off knew already (`--resume`).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::super::write;
use super::{Run, Shown, program};
use crate::cli::Lines;
use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;

/// One kernel's column.
#[derive(Default, Serialize, Deserialize)]
pub struct Column {
    pub kernel: String,
    /// Fingerprint of the kernel and of the program with the cases.
    #[serde(default)]
    pub made_of: String,
    pub shown: Vec<Shown>,
}

/// What `--json` writes.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub cpus: u32,
    pub runs: Vec<Run>,
    pub kernels: Vec<Column>,
}

impl Measured {
    fn read(file: &Path) -> Result<Measured> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }
}

/// What a kernel showed.
struct Kernels {
    name: String,
    made_of: String,
    shown: BTreeMap<Run, Shown>,
}

/// What is known so far.
pub struct Known {
    cpus: u32,
    kernels: Vec<Kernels>,
}

impl Known {
    /// With `--resume`, what the file that `--json` names has; it may not be there yet.
    pub fn of(options: &Lines, cpus: u32) -> Result<Known> {
        let before = match &options.json {
            Some(file) if options.resume && file.is_file() => vec![Measured::read(file)?],
            _ => Vec::new(),
        };
        if options.resume && options.cpus.len() > 1 || before.iter().any(|before| before.cpus != cpus) {
            return Err(usage("--resume: the file is of one number of CPUs, which --cpus names"));
        }
        Ok(Known::of_all(cpus, before))
    }

    /// Of what several have the last one counts.
    fn of_all(cpus: u32, all: Vec<Measured>) -> Known {
        let mut kernels: Vec<Kernels> = Vec::new();
        for one in all {
            for Column { kernel: name, made_of, shown } in one.kernels {
                let seen = one.runs.iter().cloned().zip(shown).filter(|(_, shown)| !is_missing(shown));
                match kernels.iter_mut().find(|known| known.name == name) {
                    Some(known) => known.shown.extend(seen),
                    None => kernels.push(Kernels { name, made_of, shown: seen.collect() }),
                }
            }
        }
        Known { cpus, kernels }
    }

    /// Which of `runs` are to be measured on `kernel`: those that are not known, or failed; all, if the kernel or the cases have changed since.
    pub fn left(&mut self, kernel: &Kernel, paths: &Tree, runs: &[Run]) -> Result<Vec<Run>> {
        let mut hasher = blake3::Hasher::new();
        for path in [kernel.path(paths), program(paths)] {
            let content = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            hasher.update(&content);
        }
        Ok(self.left_of(kernel.name(), hasher.finalize().to_hex().as_str(), runs))
    }

    fn left_of(&mut self, name: String, made_of: &str, runs: &[Run]) -> Vec<Run> {
        let before = self.kernels.iter().position(|known| known.name == name);
        let before = before.map(|at| self.kernels.remove(at));
        if before.as_ref().is_some_and(|known| known.made_of != made_of) {
            note!("--resume: the {name} kernel or the cases are others than before: all is measured anew");
        }
        let known = before.filter(|known| known.made_of == made_of).unwrap_or_else(|| Kernels {
            name,
            made_of: made_of.into(),
            shown: BTreeMap::new(),
        });
        let is_known = |run: &Run| known.shown.get(run).is_some_and(|shown| shown.failed.is_none());
        let left = runs.iter().filter(|run| !is_known(run)).cloned().collect();
        self.kernels.push(known);
        left
    }

    pub fn add(&mut self, kernel: &Kernel, runs: &[Run], shown: Vec<Shown>) {
        if let Some(known) = self.kernels.iter_mut().find(|known| known.name == kernel.name()) {
            known.shown.extend(runs.iter().cloned().zip(shown));
        }
    }

    /// All kernels beside each other.
    pub fn measured(&self) -> Measured {
        let mut runs: Vec<Run> = self.kernels.iter().flat_map(|known| known.shown.keys().cloned()).collect();
        runs.sort_by(|one, other| (one.beside, one).cmp(&(other.beside, other)));
        runs.dedup();
        let column = |known: &Kernels| {
            let shown = runs.iter().map(|run| known.shown.get(run).cloned().unwrap_or_else(missing));
            Column { kernel: known.name.clone(), made_of: known.made_of.clone(), shown: shown.collect() }
        };
        let kernels = self.kernels.iter().map(column).collect();
        Measured { cpus: self.cpus, runs, kernels }
    }

    /// Whoever is broken off meanwhile leaves the file as it was.
    pub fn write(&self, file: &Path) -> Result<()> {
        let new = file.with_extension("new");
        write(&new, &serde_json::to_string_pretty(&self.measured())?)?;
        std::fs::rename(&new, file).with_context(|| format!("cannot write {}", file.display()))
    }
}

const MISSING: &str = "not measured";

fn missing() -> Shown {
    Shown { failed: Some(MISSING.into()), ..Shown::default() }
}

fn is_missing(shown: &Shown) -> bool {
    shown.failed.as_deref() == Some(MISSING)
}

/// What earlier runs wrote, kernels beside each other. Each may have measured some of the cases; of what several have, the last one counts.
pub fn earlier(files: &[PathBuf]) -> Result<Measured> {
    let read: Vec<Measured> = files.iter().map(|file| Measured::read(file)).collect::<Result<_>>()?;
    let cpus = read.first().context("--from names no file")?.cpus;
    if read.iter().any(|one| one.cpus != cpus) {
        return Err(usage("--from: the files are of machines with different numbers of CPUs"));
    }
    Ok(Known::of_all(cpus, read).measured())
}

#[cfg(test)]
mod tests {
    use super::super::Beside;
    use super::*;

    fn run(case: &str, beside: Option<Beside>) -> Run {
        Run { call: case.into(), case: case.into(), form: "one".into(), beside }
    }

    fn column(kernel: &str, turns: &[f64]) -> Column {
        let shown = turns.iter().map(|&turns| Shown { turns, ..Shown::default() }).collect();
        Column { kernel: kernel.into(), made_of: "a".into(), shown }
    }

    #[test]
    fn earlier_runs_are_joined_by_case_and_the_last_counts() {
        let (beside, read, write) = (run("read", Some(Beside::Idle)), run("read", None), run("write", None));
        let first = Measured {
            cpus: 2,
            runs: vec![read.clone(), beside.clone()],
            kernels: vec![column("darter", &[1.0, 2.0])],
        };
        let second = Measured {
            cpus: 2,
            runs: vec![write.clone(), read.clone()],
            kernels: vec![column("darter", &[3.0, 4.0]), column("linux", &[5.0, 6.0])],
        };
        let all = Known::of_all(2, vec![first, second]).measured();
        assert_eq!(all.runs, [read, write, beside]);
        let turns =
            |place: usize| -> Vec<f64> { all.kernels[place].shown.iter().map(|shown| shown.turns).collect() };
        assert_eq!(turns(0), [4.0, 3.0, 2.0]);
        assert_eq!(turns(1), [6.0, 5.0, 0.0]);
        assert!(is_missing(&all.kernels[1].shown[2]));
    }

    #[test]
    fn what_was_broken_off_goes_on_with_what_is_not_known() {
        let runs = [run("read", None), run("write", None), run("write", Some(Beside::Idle))];
        let lost = Shown { failed: Some("the machine ended".into()), ..Shown::default() };
        let part = Measured {
            cpus: 2,
            runs: runs.to_vec(),
            kernels: vec![Column {
                kernel: "linux".into(),
                made_of: "a".into(),
                shown: vec![Shown::default(), lost, missing()],
            }],
        };
        let mut known = Known::of_all(2, vec![part]);
        assert_eq!(known.left_of("linux".into(), "a", &runs), runs[1..]);
        assert_eq!(known.left_of("darter".into(), "b", &runs), runs);
        assert_eq!(known.left_of("linux".into(), "b", &runs), runs, "another kernel");
    }
}
