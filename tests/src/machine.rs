//! Machines that run batches of programs, and the cache of what Linux said.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::frames::{self, Ended, Outcome};
use crate::program::{self, Program};

/// How a machine is started. A machine that fails is started again for the programs after the one that ran.
pub struct Machine {
    root: PathBuf,
    cpus: u32,
    limit: Duration,
    driver: PathBuf,
    cache: PathBuf,
    /// Of the driver, the Linux image's name and the words it boots with: results of another machine are no use.
    salt: u64,
    /// Tells in its log what the programs call.
    tells: bool,
}

/// Seconds for the machine's start, under emulation on a busy computer.
const START: u64 = 120;
/// Seconds that a batch may take beyond its start; no single program takes its whole limit unless it hangs.
const BATCH: u64 = 600;

impl Machine {
    pub fn new(root: &Path, cpus: u32, limit: Duration) -> Machine {
        let driver = root.join("target/tests/abi/tools/driver");
        let mut salt = std::fs::read(&driver).unwrap_or_default();
        let mut images: Vec<_> = std::fs::read_dir(root.join(".cache/linux"))
            .map(|entries| entries.filter_map(|entry| entry.ok()).map(|entry| entry.file_name()).collect())
            .unwrap_or_default();
        images.sort();
        images.iter().for_each(|name| salt.extend_from_slice(name.as_encoded_bytes()));
        salt.extend_from_slice(&cpus.to_le_bytes());
        salt.extend_from_slice(&std::fs::read(root.join("host/src/machine/kernel.rs")).unwrap_or_default());
        let salt = program::hash(&salt);
        Machine {
            root: root.to_owned(),
            cpus,
            limit,
            driver,
            cache: root.join(".cache/abi"),
            salt,
            tells: false,
        }
    }

    /// The same, but its log tells what the programs call (boot option strace=shown).
    pub fn telling(self) -> Machine {
        Machine { tells: true, ..self }
    }

    fn cache_file(&self, program: &Program) -> PathBuf {
        self.cache.join(format!("{}-{:016x}", program.name, program.hash ^ self.salt))
    }

    pub fn cached(&self, program: &Program) -> Option<Ended> {
        let bytes = std::fs::read(self.cache_file(program)).ok()?;
        let (mut ended, _) = frames::parse(&bytes);
        ended.pop().map(|(_, one)| one)
    }

    /// A result that cannot be kept is asked for again next time.
    pub fn keep(&self, program: &Program, ended: &Ended) {
        let mut text = format!(
            "@@end {} {} {:.0} {}\n",
            program.name,
            ended.status,
            ended.seconds * 1000.0,
            ended.output.len()
        )
        .into_bytes();
        text.extend_from_slice(&ended.output);
        let file = self.cache_file(program);
        let new = file.with_extension("new");
        if std::fs::create_dir_all(&self.cache).is_ok() && std::fs::write(&new, text).is_ok() {
            let _ = std::fs::rename(new, file);
        }
    }

    /// Runs the programs in one machine.
    fn run(&self, kernel: &str, programs: &[Program]) -> Result<Run, String> {
        let mut command =
            Command::new(std::env::var_os("DARTER").unwrap_or_else(|| self.root.join("darter").into()));
        let count = u64::try_from(programs.len()).unwrap_or(u64::MAX);
        let timeout = START + BATCH.min(count.saturating_mul(self.limit.as_secs()));
        command.args(["run", "--kernel", kernel, "--memory", "512M"]);
        command.args(["--cpus", &self.cpus.to_string(), "--timeout", &timeout.to_string()]);
        if self.tells {
            command.args(["--verbose", "--append", "strace=shown"]);
        }
        let mut add = |file: &Path, name: &str| {
            let mut word = file.as_os_str().to_owned();
            word.push(format!(":/abi/{name}"));
            command.arg("--add").arg(word);
        };
        add(&self.driver, "driver");
        programs.iter().for_each(|one| add(&one.file, &one.name));
        command.args(["--", "/abi/driver", &self.limit.as_secs().to_string()]);
        command.args(programs.iter().map(|one| format!("/abi/{}", one.name)));
        let done = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
        let (ended, running) = frames::parse(&done.stdout);
        let errors = String::from_utf8_lossy(&done.stderr);
        let words: Vec<&str> = errors.trim_end().lines().collect();
        let last = words.get(words.len().saturating_sub(25)..).unwrap_or_default().join("\n");
        let words = format!("{}\n{last}", done.status);
        Ok(Run { ended, running, words, log: errors.into_owned() })
    }
}

/// What became of one machine.
struct Run {
    /// The programs that ended, in their order.
    ended: Vec<(String, Ended)>,
    /// The one that ran when the machine stopped.
    running: Option<String>,
    /// How the machine ended, and the last of its stderr.
    words: String,
    /// All of its stderr.
    log: String,
}

/// One kernel's way through a list of programs.
pub struct Batch<'a> {
    machine: &'a Machine,
    kernel: &'a str,
    left: &'a [Program],
    ready: VecDeque<(&'a Program, Outcome)>,
    /// What the machines said on stderr.
    pub log: String,
}

impl<'a> Batch<'a> {
    pub fn new(machine: &'a Machine, kernel: &'a str, programs: &'a [Program]) -> Batch<'a> {
        Batch { machine, kernel, left: programs, ready: VecDeque::new(), log: String::new() }
    }

    /// The next program's outcome; None when all had their turn. An error if the machine does not even start one.
    pub fn next_outcome(&mut self) -> Result<Option<(&'a Program, Outcome)>, String> {
        if self.ready.is_empty() && !self.left.is_empty() {
            self.boot()?;
        }
        Ok(self.ready.pop_front())
    }

    fn boot(&mut self) -> Result<(), String> {
        let Run { ended, running, words, log } = self.machine.run(self.kernel, self.left)?;
        self.log.push_str(&log);
        if ended.is_empty() && running.is_none() {
            return Err(format!("kernel {} did not start the first program: {words}", self.kernel));
        }
        let mut results = ended.into_iter();
        while let Some((program, rest)) = self.left.split_first() {
            let outcome = match results.next() {
                Some((name, one)) if name == program.name => Outcome::Ended(one),
                Some((name, _)) => {
                    return Err(format!("expected a result of {}, got {name}'s", program.name));
                }
                None => {
                    self.ready.push_back((program, Outcome::Machine(words)));
                    self.left = rest;
                    return Ok(());
                }
            };
            self.ready.push_back((program, outcome));
            self.left = rest;
        }
        Ok(())
    }
}
