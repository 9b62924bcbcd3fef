//! What was measured, and on what: the content of `--json`.
#![forbid(unsafe_code)]

use serde::{Serialize, Serializer};

use super::guest::Measured;
use crate::cli::Bench;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;

#[derive(Serialize)]
pub struct Sample {
    pub benchmark: String,
    pub kernel: String,
    pub cpu_model: String,
    pub cpus: u32,
    pub run: u32,
    pub boot_seconds: Option<f64>,
    #[serde(serialize_with = "result")]
    pub result: Result<Measured, String>,
}

#[derive(Serialize)]
pub struct Results {
    /// The kernels, measured one first.
    pub kernels: Vec<String>,
    /// Their versions, where there is a way to tell.
    pub versions: Vec<String>,
    pub accel: &'static str,
    pub qemu: String,
    pub host_cpus: usize,
    pub memory_bytes: u64,
    pub seconds_each: f64,
    pub runs: u32,
    /// The command that gives these figures again.
    pub command: String,
    pub seconds: f64,
    pub samples: Vec<Sample>,
}

impl Results {
    pub fn new(paths: &Tree, kernels: &[Kernel], accel: Accel, options: &Bench) -> Self {
        Self {
            kernels: kernels.iter().map(Kernel::name).collect(),
            versions: kernels.iter().map(|kernel| version(paths, kernel)).collect(),
            accel: accel.name(),
            qemu: qemu_version(),
            host_cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: options.memory,
            seconds_each: options.seconds,
            runs: options.runs,
            command: command(),
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
    let words: Vec<String> = std::env::args()
        .skip(1)
        .map(|word| if word.contains([' ', '\'', '"']) { format!("'{word}'") } else { word })
        .collect();
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
        Kernel::File(path) => path.display().to_string(),
    }
}

fn git_commit(paths: &Tree) -> Option<String> {
    let mut git = std::process::Command::new("git");
    let output = git.args(["describe", "--always", "--dirty"]).current_dir(paths.root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn result<S: Serializer>(result: &Result<Measured, String>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Outcome<'a> {
        Measured(&'a Measured),
        Failed(&'a str),
    }
    match result {
        Ok(measured) => Outcome::Measured(measured).serialize(to),
        Err(why) => Outcome::Failed(why).serialize(to),
    }
}
