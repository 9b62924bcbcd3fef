//! A machine that runs a batch of programs, and what became of it.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::coverage::{self, Run};
use crate::encode;
use crate::program::Program;

/// How machines are made.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The tree with `target`.
    pub root: PathBuf,
    /// What `darter run --kernel` takes.
    pub kernel: String,
    pub memory: String,
    /// Milliseconds for one program.
    pub limit: u16,
}

/// What one batch is to have.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub cpus: u32,
    /// How often all of it runs.
    pub rounds: u32,
    pub coverage: bool,
    pub results: bool,
}

/// How a batch ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    #[default]
    Whole,
    /// The kernel stopped, or said what it must not say; its last words.
    Died(String),
    /// It did not end in time, and for a minute nothing had moved.
    Hung(String),
    /// It did not end in time, but got on: this computer is busy.
    Slow,
    /// A process could not be ended.
    Undead(String),
    /// A program ended the supervisor, as its rights allow: no fault of the kernel.
    Escaped(String),
    /// The machine could not be started, or the executor failed: no fault of a program.
    Broken(String),
}

#[derive(Default)]
pub struct Outcome {
    pub end: End,
    pub programs: usize,
    pub calls: u64,
    pub successes: u64,
    /// The number of the last program that began (they count from 1).
    pub last: usize,
    /// Free memory in KiB before and after each round.
    pub memory: Vec<(i64, i64)>,
    pub runs: Vec<Run>,
    /// The program that took longest, and its milliseconds.
    pub slowest: (usize, u64),
    /// By program: how it ended, and of each slot with a result its state, value and digest.
    pub ends: HashMap<usize, String>,
    pub results: HashMap<usize, Vec<(usize, u32, i64, u64)>>,
    pub console: String,
}

/// Words of the kernel's console that are never there while all is well.
const ALARMS: &[&str] = &["kernel panic", "stall", "given way"];
/// For the start and the end of a machine.
const START: u64 = 120;
/// How much longer a machine may take whose programs are compared.
const PATIENCE: u64 = 4;
/// A machine that printed nothing for so long does not get on. No program takes half of it, its end included.
const QUIET: Duration = Duration::from_secs(60);

impl Machine {
    pub fn run(&self, programs: &[Program], batch: Batch) -> Result<Outcome> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let (file, blocks) = (folder.path().join("batch"), folder.path().join("blocks"));
        std::fs::write(&file, encode::batch(programs, self.limit, batch.results))?;
        let all = programs.len() as u64 * u64::from(batch.rounds);
        // Most programs end long before their limit; but emulated CPUs share the host's, which may be busy with other things.
        let seconds = START + all * u64::from(self.limit) / 1000 + u64::from(batch.cpus) * 4;
        // What a busy computer leaves out would not be compared.
        let seconds = if batch.results { seconds * PATIENCE } else { seconds };
        let mut command = Command::new(self.root.join("target/release/darter"));
        command.args(["run", "-v", "--kernel", &self.kernel, "--memory", &self.memory]);
        command.args(["--cpus", &batch.cpus.to_string(), "--timeout", &seconds.to_string()]);
        command
            .arg("--add")
            .arg(format!("{}:/fuzz/executor", self.root.join("target/fuzz/executor").display()));
        command.arg("--add").arg(format!("{}:/fuzz/batch", file.display()));
        if self.kernel == "linux" {
            // Programs have 47 bits of addresses on Darter, and no protection keys, by which Linux keeps others from reading what may be executed alone.
            command.args(["--append", "no5lvl nopku"]);
        }
        if batch.results && batch.cpus == 1 {
            // Time is counted in instructions: how busy this computer is changes nothing of what programs see.
            command.arg("--deterministic");
        }
        if batch.coverage {
            let plugin = self.root.join("target/release/libdarter_lines.so");
            command.args([
                "--qemu-arg=-plugin",
                &format!("--qemu-arg={},mode=blocks,out={}", plugin.display(), blocks.display()),
            ]);
        }
        command.args(["--", "/fuzz/executor", "/fuzz/batch", &batch.rounds.to_string()]);
        let done = watch(&mut command).with_context(|| format!("cannot start {command:?}"))?;
        let console = done.console;
        let mut outcome = Outcome {
            runs: if batch.coverage { coverage::read(&blocks) } else { Vec::new() },
            ..Outcome::default()
        };
        let (whole, undead) = outcome.read(&done.said);
        if !batch.coverage && !whole {
            // The one after the last that ended.
            outcome.last += 1;
        }
        outcome.last =
            outcome.runs.iter().rev().find(|run| run.end == 0).map_or(outcome.last, |run| run.program);
        let alarm = alarm(&console);
        let words = || tail(&console, 60);
        outcome.end = match (done.status.code(), alarm) {
            (Some(124), None) if done.quiet < QUIET => End::Slow,
            (Some(124), _) => End::Hung(words()),
            (Some(125), _) if batch.coverage && outcome.last == 0 && alarm.is_none() => End::Broken(words()),
            (Some(125), _) | (_, Some(_)) => End::Died(words()),
            _ if undead.is_some() => End::Undead(undead.unwrap_or_default()),
            (Some(0), None) if whole => End::Whole,
            (Some(code), None) if code > 128 => End::Escaped(format!("signal {}", code - 128)),
            (code, None) => End::Broken(format!("the executor ended with {code:?}\n{}", words())),
        };
        outcome.console = console;
        Ok(outcome)
    }
}

/// What became of a command.
struct Done {
    status: ExitStatus,
    said: String,
    console: String,
    /// How long it had printed nothing when it ended.
    quiet: Duration,
}

fn watch(command: &mut Command) -> Result<Done> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (said, console) = std::thread::scope(|scope| {
        let console = scope.spawn(|| err.map_or_else(Default::default, lines));
        (out.map_or_else(Default::default, lines), console.join().unwrap_or_default())
    });
    let status = child.wait()?;
    let last = said.1.max(console.1);
    let quiet = last.map_or(Duration::MAX, |at| at.elapsed());
    Ok(Done { status, said: said.0, console: console.0, quiet })
}

/// All that comes, and when the last of it but for the host's own last words came.
fn lines(from: impl Read) -> (String, Option<Instant>) {
    let (mut text, mut last) = (Vec::new(), None);
    let mut from = BufReader::new(from);
    loop {
        let before = text.len();
        if !matches!(from.read_until(b'\n', &mut text), Ok(1..)) {
            break;
        }
        if !text.get(before..).is_some_and(|line| line.starts_with(b"darter: ")) {
            last = Some(Instant::now());
        }
    }
    (String::from_utf8_lossy(&text).into_owned(), last)
}

impl Outcome {
    /// Takes the executor's lines apart: was its end there; a process that outlived its end.
    fn read(&mut self, text: &str) -> (bool, Option<String>) {
        let (mut whole, mut undead) = (false, None);
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["P", number, how, milliseconds, calls, successes] => {
                    self.programs += 1;
                    self.calls += calls.parse().unwrap_or(0);
                    self.successes += successes.parse().unwrap_or(0);
                    self.last = number.parse().unwrap_or(self.last);
                    self.ends.insert(self.last, (*how).to_owned());
                    let milliseconds = milliseconds.parse().unwrap_or(0);
                    if milliseconds > self.slowest.1 {
                        self.slowest = (self.last, milliseconds);
                    }
                }
                ["R", number, slot, state, value, digest] => {
                    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
                    let result = (
                        slot.parse().unwrap_or(0),
                        state.parse().unwrap_or(0),
                        hex(value) as i64,
                        hex(digest),
                    );
                    self.results.entry(number.parse().unwrap_or(0)).or_default().push(result);
                }
                ["M", before, after] => {
                    self.memory.push((before.parse().unwrap_or(-1), after.parse().unwrap_or(-1)));
                }
                ["END"] => whole = true,
                ["UNDEAD", ..] => undead = Some(line.to_owned()),
                _ => {}
            }
        }
        (whole, undead)
    }
}

/// What the kernel said that it must not say, the first of it.
pub fn alarm(console: &str) -> Option<&str> {
    console
        .lines()
        .find(|line| !line.starts_with("darter: kernel") && ALARMS.iter().any(|word| line.contains(word)))
}

pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executors_lines_are_understood() {
        let mut outcome = Outcome::default();
        let text = "P 1 exit-0 3 12 7\nR 2 4 2 ffffffffffffffff 1f\nP 2 limit 300 1 0\nM 100 90\nEND\n";
        assert_eq!(outcome.read(text), (true, None));
        assert_eq!((outcome.programs, outcome.calls, outcome.successes, outcome.last), (2, 13, 7, 2));
        assert_eq!(outcome.memory, [(100, 90)]);
        assert_eq!(outcome.results[&2], [(4, 2, -1, 0x1f)]);
        assert_eq!(outcome.ends[&1], "exit-0");
        assert_eq!(
            outcome.read("UNDEAD 7 in program 1\n"),
            (false, Some("UNDEAD 7 in program 1".to_owned()))
        );
    }
}
