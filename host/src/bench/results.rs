//! What was measured, and on what: the content of `--json`.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::guest::Measured;
use crate::cli::Bench;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;

#[derive(Serialize, Deserialize, Clone)]
pub struct Sample {
    pub benchmark: String,
    pub kernel: String,
    pub cpu_model: String,
    pub cpus: u32,
    pub run: u32,
    pub boot_seconds: Option<f64>,
    #[serde(with = "outcome")]
    pub result: Result<Measured, String>,
}

/// Which programs gave figures, and how to get them again.
#[derive(Serialize, Deserialize, Clone, Default)]
pub struct Origin {
    /// Of the kernels, the measured one first, where there is a way to tell.
    pub versions: Vec<String>,
    pub qemu: String,
    /// The command that gives these figures again.
    pub command: String,
}

impl Origin {
    pub fn new(paths: &Tree, kernels: &[Kernel]) -> Self {
        let versions = kernels.iter().map(|kernel| version(paths, kernel)).collect();
        Self { versions, qemu: qemu_version(), command: command() }
    }
}

#[derive(Serialize, Deserialize, Clone)]
pub struct Results {
    /// The kernels, measured one first.
    pub kernels: Vec<String>,
    #[serde(flatten)]
    pub origin: Origin,
    pub accel: String,
    pub host_cpus: usize,
    pub memory_bytes: u64,
    pub seconds_each: f64,
    pub runs: u32,
    pub seconds: f64,
    pub samples: Vec<Sample>,
}

impl Results {
    pub fn new(paths: &Tree, kernels: &[Kernel], accel: Accel, options: &Bench) -> Self {
        Self {
            kernels: kernels.iter().map(Kernel::name).collect(),
            origin: Origin::new(paths, kernels),
            accel: accel.name().to_owned(),
            host_cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: options.memory,
            seconds_each: options.seconds,
            runs: options.runs,
            seconds: 0.0,
            samples: Vec::new(),
        }
    }

    /// Why this benchmark has failed there before, if it has: it would fail again, and a hung machine costs a minute.
    pub fn failure(&self, benchmark: &str, kernel: &str, model: &str, cpus: u32) -> Option<&str> {
        let is_it = |sample: &&Sample| {
            sample.benchmark == benchmark
                && sample.kernel == kernel
                && sample.cpu_model == model
                && sample.cpus == cpus
        };
        self.samples.iter().filter(is_it).find_map(|sample| sample.result.as_ref().err().map(String::as_str))
    }

    /// The rates of one row's cell, in the order of the runs; None for a failed one.
    pub fn rates(&self, benchmark: &str, kernel: &str, model: &str, cpus: u32) -> Vec<Option<f64>> {
        let is_it = |sample: &&Sample| {
            sample.benchmark == benchmark
                && sample.kernel == kernel
                && sample.cpu_model == model
                && sample.cpus == cpus
        };
        let rate = |sample: &Sample| sample.result.as_ref().ok().map(|measured| measured.rate);
        self.samples.iter().filter(is_it).map(rate).collect()
    }
}

/// This command line, to be typed again.
pub fn command() -> String {
    typed(std::env::args().skip(1))
}

/// A command of this program as one types it.
pub fn typed(words: impl Iterator<Item = String>) -> String {
    let quoted = |word: String| if word.contains([' ', '\'', '"']) { format!("'{word}'") } else { word };
    let words: Vec<String> = words.map(quoted).collect();
    format!("./darter {}", words.join(" "))
}

pub fn qemu_version() -> String {
    let output = std::process::Command::new("qemu-system-x86_64").arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.split_whitespace().nth(3).unwrap_or("of unknown version").to_owned()
}

pub fn version(paths: &Tree, kernel: &Kernel) -> String {
    match kernel {
        Kernel::Linux => std::fs::read_link(paths.linux_kernel())
            .ok()
            .and_then(|target| Some(target.parent()?.to_str()?.to_owned()))
            .unwrap_or_else(|| "linux".into()),
        Kernel::Darter => {
            git_commit(paths).map_or_else(|| "darter".into(), |commit| format!("darter {commit}"))
        }
        Kernel::Switched(word) => format!("{}, {word}", version(paths, &Kernel::Darter)),
        Kernel::File(path) => path.display().to_string(),
    }
}

fn git_commit(paths: &Tree) -> Option<String> {
    let mut git = std::process::Command::new("git");
    let output = git.args(["describe", "--always", "--dirty"]).current_dir(paths.root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// As `{"measured": …}` or `{"failed": "why"}`.
mod outcome {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Measured;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Outcome {
        Measured(Measured),
        Failed(String),
    }

    pub fn serialize<S: Serializer>(result: &Result<Measured, String>, to: S) -> Result<S::Ok, S::Error> {
        match result.clone() {
            Ok(measured) => Outcome::Measured(measured).serialize(to),
            Err(why) => Outcome::Failed(why).serialize(to),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Result<Measured, String>, D::Error> {
        Ok(match Outcome::deserialize(from)? {
            Outcome::Measured(measured) => Ok(measured),
            Outcome::Failed(why) => Err(why),
        })
    }
}
