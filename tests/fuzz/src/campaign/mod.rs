//! Fuzzing: batches of new programs and of mutated ones, steered by the blocks of the kernel that they reach.
#![forbid(unsafe_code)]

mod report;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::coverage::Coverage;
use crate::generate::Generator;
use crate::machine::{self, Batch, End, Machine, Outcome};
use crate::program::Program;
use crate::shrink::shrink;
use crate::text;

/// Free memory that a batch may keep: caches of the kernel, pages with other CPUs.
const KEPT_KIB: i64 = 8192;
/// Milliseconds after which a program is shown as slow: it is ended long before, so something does not end.
const SLOW: u64 = 5000;
/// How often a case runs to be seen again.
const ROUNDS: u32 = 12;

pub struct Options {
    pub seconds: u64,
    /// Over with so many cases.
    pub cases: usize,
    pub seed: u64,
    pub cpus: Vec<u32>,
    pub batch: usize,
    /// Programs come from the seed alone, and each number of CPUs has its turn: what earlier programs reached steers nothing, so the same
    /// seed runs the same programs on every machine.
    pub fixed: bool,
    /// Programs are kept here for the next campaign.
    pub corpus: Option<PathBuf>,
    /// Where cases go.
    pub found: PathBuf,
    /// Seconds to make one case small.
    pub shrink: u64,
}

#[derive(Default)]
struct Counts {
    batches: usize,
    programs: usize,
    calls: u64,
    successes: u64,
    escaped: usize,
    cases: usize,
    again: usize,
}

pub struct Campaign<'a> {
    machine: &'a Machine,
    options: &'a Options,
    generator: Generator,
    coverage: Coverage,
    corpus: Vec<Program>,
    counts: Counts,
    /// The kinds of failures seen, so that each is made small once.
    seen: HashSet<String>,
    since: Instant,
    last_failure: Option<Instant>,
}

impl<'a> Campaign<'a> {
    pub fn new(machine: &'a Machine, options: &'a Options, kernel: &Path) -> Result<Campaign<'a>> {
        let corpus = options.corpus.as_deref().map(load).unwrap_or_default();
        Ok(Campaign {
            machine,
            options,
            generator: Generator::new(options.seed),
            coverage: Coverage::of(kernel)?,
            corpus,
            counts: Counts::default(),
            seen: HashSet::new(),
            since: Instant::now(),
            last_failure: None,
        })
    }

    /// Fuzzes until time is over; were there no failures?
    pub fn run(&mut self) -> Result<bool> {
        // What the last campaign kept says where this one begins.
        let kept = std::mem::take(&mut self.corpus);
        for batch in kept.chunks(self.options.batch) {
            if self.is_over() {
                break;
            }
            self.batch(batch, 2)?;
        }
        while !self.is_over() {
            let cpus = self.cpus();
            let programs = self.programs();
            self.batch(&programs, cpus)?;
        }
        self.report();
        anyhow::ensure!(self.counts.programs > 0, "no program ran");
        Ok(self.counts.cases + self.counts.again == 0)
    }

    fn cpus(&mut self) -> u32 {
        let all = &self.options.cpus;
        let cpus = if self.options.fixed {
            all.get(self.counts.batches % all.len().max(1)).copied().unwrap_or_default()
        } else {
            self.generator.rng.pick(all)
        };
        cpus.max(1)
    }

    fn is_over(&self) -> bool {
        self.since.elapsed().as_secs() >= self.options.seconds || self.counts.cases >= self.options.cases
    }

    fn programs(&mut self) -> Vec<Program> {
        (0..self.options.batch)
            .map(|_| {
                if self.options.fixed || self.corpus.is_empty() || self.generator.rng.chance(35) {
                    return self.generator.program();
                }
                // What came last reached what is new.
                let len = self.corpus.len();
                let recent = self.generator.rng.below(len.min(200));
                let one = if self.generator.rng.chance(40) {
                    len - 1 - recent
                } else {
                    self.generator.rng.below(len)
                };
                let other = self.generator.rng.below(len);
                match (self.corpus.get(one), self.corpus.get(other)) {
                    (Some(one), Some(other)) => self.generator.mutate(one, other),
                    _ => self.generator.program(),
                }
            })
            .collect()
    }

    fn batch(&mut self, programs: &[Program], cpus: u32) -> Result<()> {
        let mut rest = programs;
        while !rest.is_empty() && self.counts.cases < self.options.cases {
            let batch = Batch { cpus, rounds: 1, coverage: !self.options.fixed, results: false };
            let outcome = self.machine.run(rest, batch)?;
            self.learn(rest, &outcome);
            self.progress(cpus, &outcome);
            let upto = outcome.last.clamp(1, rest.len());
            match &outcome.end {
                End::Whole => {
                    if let Some(kib) = kept_kib(&outcome, KEPT_KIB) {
                        self.leak(rest, cpus, kib)?;
                    }
                    return Ok(());
                }
                End::Escaped(how) => {
                    self.counts.escaped += 1;
                    println!(
                        "escaped ({how}): {}",
                        rest.get(upto - 1).map(ToString::to_string).unwrap_or_default()
                    );
                }
                End::Broken(why) => println!("no machine: {why}"),
                End::Slow => {
                    println!("this computer was too busy to end the batch in time; no fault of the kernel");
                    return Ok(());
                }
                End::Died(words) | End::Hung(words) | End::Undead(words) => {
                    let kind = kind(&outcome.end, &outcome.console);
                    self.case(&kind, words, rest.get(..upto).unwrap_or(rest), cpus)?;
                }
            }
            rest = rest.get(upto..).unwrap_or_default();
        }
        Ok(())
    }

    /// Counts, and keeps the programs that reached something new.
    fn learn(&mut self, programs: &[Program], outcome: &Outcome) {
        self.counts.batches += 1;
        self.counts.programs += outcome.programs;
        self.counts.calls += outcome.calls;
        self.counts.successes += outcome.successes;
        let mut new = vec![0; programs.len() + 1];
        for run in outcome.runs.iter().filter(|run| run.end != 0) {
            let blocks = self.coverage.add(*run);
            if let Some(count) = new.get_mut(run.program) {
                *count += blocks;
            }
        }
        if outcome.slowest.1 > SLOW
            && let Some(program) = programs.get(outcome.slowest.0.wrapping_sub(1))
        {
            println!("slow, {} ms:\n{program}", outcome.slowest.1);
        }
        for (program, &new) in programs.iter().zip(new.iter().skip(1)) {
            if new > 0 {
                self.corpus.push(program.clone());
                if let Some(folder) = &self.options.corpus {
                    let text = program.to_string();
                    let _ = std::fs::create_dir_all(folder)
                        .and_then(|()| std::fs::write(folder.join(format!("{:016x}", hash(&text))), &text));
                }
            }
        }
    }

    /// A failure: what it is, its programs up to the one that ran. Made small and kept, if it is of a new kind.
    fn case(&mut self, kind: &str, words: &str, programs: &[Program], cpus: u32) -> Result<()> {
        self.last_failure = Some(Instant::now());
        println!("FAILED   {kind}\n    | {}", words.replace('\n', "\n    | "));
        if !self.seen.insert(kind.to_owned()) {
            self.counts.again += 1;
            println!("known from this campaign; not looked at again");
            return Ok(());
        }
        self.counts.cases += 1;
        let machine = self.machine;
        let rounds = |rounds| Batch { cpus, rounds, coverage: false, results: false };
        let fails = |programs: &[Program], batch: Batch| {
            let outcome = machine.run(programs, batch)?;
            Ok(matches!(outcome.end, End::Died(_) | End::Hung(_) | End::Undead(_)))
        };
        // The one that ran, then the last few, then all.
        let mut small = None;
        for count in [1, 4, 16, programs.len()] {
            let last = programs.get(programs.len().saturating_sub(count)..).unwrap_or(programs);
            let batch = rounds(if count == 1 { ROUNDS } else { (ROUNDS / 4).max(1) });
            if fails(last, batch)? {
                let budget = Duration::from_secs(self.options.shrink);
                small = Some(shrink(last.to_vec(), budget, |programs| fails(programs, batch))?);
                break;
            }
        }
        self.keep(kind, words, small.as_deref().unwrap_or(programs), cpus, small.is_some())
    }

    fn leak(&mut self, programs: &[Program], cpus: u32, kib: i64) -> Result<()> {
        let machine = self.machine;
        let rounds = 4;
        let leaks = |programs: &[Program]| {
            let outcome = machine.run(programs, Batch { cpus, rounds, coverage: false, results: false })?;
            // The first round fills caches; a leak goes on.
            Ok(matches!(outcome.end, End::Whole) && grows(&outcome.memory))
        };
        if !leaks(programs)? {
            return Ok(());
        }
        let words = format!("{kib} KiB did not come back, and more with each round");
        self.last_failure = Some(Instant::now());
        println!("FAILED   leak: {words}");
        if !self.seen.insert("leak".to_owned()) {
            self.counts.again += 1;
            return Ok(());
        }
        self.counts.cases += 1;
        let small = shrink(programs.to_vec(), Duration::from_secs(self.options.shrink), leaks)?;
        self.keep("leak", &words, &small, cpus, true)
    }

    fn keep(&self, kind: &str, words: &str, programs: &[Program], cpus: u32, small: bool) -> Result<()> {
        let said: String = words.lines().map(|line| format!("#   {line}\n")).collect();
        let state = if small { "" } else { "# It was not seen again alone, and so was not made small.\n" };
        let mut text = format!("# {kind}\n{said}{state}cpus {cpus}\n");
        // A case of several programs is a file of several; each begins with its uid.
        for program in programs.iter().take(if small { programs.len() } else { 1 }) {
            text.push_str(&program.to_string());
        }
        let folder = if small { self.options.found.clone() } else { self.options.found.join("unseen") };
        std::fs::create_dir_all(&folder)?;
        let name: String =
            kind.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
        let path = folder.join(format!("{name}-{:08x}", hash(&text) as u32));
        std::fs::write(&path, &text)?;
        println!("{text}kept as {}", path.display());
        Ok(())
    }
}

/// More kept than is allowed?
fn kept_kib(outcome: &Outcome, allowed: i64) -> Option<i64> {
    let (before, after) = outcome.memory.first()?;
    Some(before - after).filter(|&kept| kept > allowed)
}

/// Each of the later rounds ends with less than the one before.
fn grows(memory: &[(i64, i64)]) -> bool {
    let lost: Vec<i64> =
        memory.windows(2).filter_map(|pair| Some(pair.first()?.1 - pair.get(1)?.1)).collect();
    lost.len() >= 2 && lost.iter().all(|&kib| kib > 256)
}

/// A name for failures that are probably one: what the kernel said first, without numbers.
fn kind(end: &End, console: &str) -> String {
    let said = machine::alarm(console);
    let what = match end {
        End::Hung(_) => "hang",
        End::Undead(_) => "undead",
        _ => "died",
    };
    let said: String = said.unwrap_or_default().chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{what}: {}", said.trim())
}

/// The programs of a folder, those that can be read.
fn load(folder: &Path) -> Vec<Program> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files.iter().filter_map(|file| Some(text::parse(&std::fs::read_to_string(file).ok()?).ok()?.0)).collect()
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_what_goes_on() {
        assert!(grows(&[(1000, 900), (900, 500), (500, 100)]));
        assert!(!grows(&[(10000, 5000), (5000, 4990), (4990, 5000)]));
        assert!(!grows(&[(10000, 5000)]));
    }

    #[test]
    fn failures_are_of_a_kind_whatever_their_numbers() {
        let one = kind(&End::Died(String::new()), "x\nkernel panic on CPU 0: asked\n");
        assert_eq!(one, kind(&End::Died(String::new()), "kernel panic on CPU 13: asked\n"));
        assert_ne!(one, kind(&End::Hung(String::new()), "kernel panic on CPU 13: asked\n"));
    }
}
