//! `darter builds`: C programs built by gcc and tcc, and crates by cargo, on the files of this machine, which the guest has as a live root.
//!
//! The programs are those of bench/builds; what they build is Debian's (setup/builds.sh), and crates of this tree. Each build runs twice in a machine of its own: cold, as the first that the
//! machine does, which reads compilers, headers and sources from this machine, and warm, when it has them. Kernels alternate. A build whose files differ from another's of the same
//! sources has failed.
#![forbid(unsafe_code)]

mod counts;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::bench::boot::{self, Boot};
use crate::bench::guest::{Command, Measured as Said};
use crate::bench::results::{command, qemu_version, version};
use crate::bench::{FULL, append, interrupted, progress_bar};
use crate::cli::Builds as Options;
use crate::exit::usage;
use crate::machine::Machine;
use crate::machine::accel::{Accel, Wanted};
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use counts::Counts;

/// Seconds that one build may take.
const LIMIT: u32 = 3600;
/// Seconds after the boot.
const SETTLE: f64 = 2.0;

enum What {
    /// Compilations of each task with this compiler.
    Compile { compiler: Compiler, each: u32, each_full: u32 },
    /// So many trees at once, and the parts that are built in turn.
    Tree { trees: u32, parts: &'static str, parts_full: &'static str },
    /// Packages of this tree, built by cargo.
    Crates { packages: Packages, packages_full: Packages },
}

struct Packages {
    names: &'static str,
    /// Those that are built for them, themselves among them.
    libraries: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compiler {
    Tcc,
    Gcc,
}

pub struct Build {
    pub name: &'static str,
    what: What,
    pub says: &'static str,
}

const BUILDS: [Build; 6] = [
    Build {
        name: "docomp-tcc",
        what: What::Compile { compiler: Compiler::Tcc, each: 100, each_full: 1000 },
        says: "a loop for each CPU, which compiles a small file with tcc, waits, and compiles the next",
    },
    Build {
        name: "docomp-gcc",
        what: What::Compile { compiler: Compiler::Gcc, each: 16, each_full: 100 },
        says: "the same with gcc -O1: three processes a file",
    },
    Build {
        name: "nativekernel",
        what: What::Tree { trees: 1, parts: "kernel", parts_full: "whole" },
        says: "make -j of 240 files of uClibc-ng with gcc, and a serial end: archive, link, symbols, strip",
    },
    Build {
        name: "buildworld",
        what: What::Tree { trees: 1, parts: "world-1 world-2", parts_full: "kernel world-2" },
        says: "two smaller parts of it (18 and 29 files), one after the other",
    },
    Build {
        name: "buildworld-4",
        what: What::Tree { trees: 4, parts: "world-1 world-2", parts_full: "kernel world-2" },
        says: "the same in four trees at once, each with as many jobs as CPUs",
    },
    Build {
        name: "cargo",
        what: What::Crates {
            packages: Packages { names: "darter-virtio", libraries: 2 },
            packages_full: Packages { names: "darter-vm darter-virtio", libraries: 6 },
        },
        says: "cargo build -j of this tree's virtio and sync: rustc, which has several threads",
    },
];

impl Build {
    fn is(&self, name: &str) -> bool {
        self.name == name || (name == "docomp" && self.name.starts_with("docomp-"))
    }

    /// The line for a shell in the tree's root.
    fn line(&self, places: &Places, cpus: u32, full: bool) -> String {
        match &self.what {
            What::Compile { compiler, each, each_full } => {
                places.docomp(cpus, *compiler, &format!("-c {}", if full { each_full } else { each }))
            }
            What::Tree { trees, parts, parts_full } => {
                let parts = if full { parts_full } else { parts };
                format!("sh {} {} {cpus} {trees} {parts}", places.script.display(), self.name)
            }
            What::Crates { packages, packages_full } => {
                let packages = if full { packages_full } else { packages };
                places.cargo(self.name, cpus, packages)
            }
        }
    }
}

/// Where the programs and what they build lie, here as in the guest.
pub struct Places {
    programs: PathBuf,
    script: PathBuf,
    cargo: PathBuf,
    /// Where cargo finds crates, and rustup compilers.
    homes: [PathBuf; 2],
    tcc: PathBuf,
}

impl Places {
    fn find(paths: &Tree, builds: &[&Build]) -> Result<Self> {
        let cache = paths.build_trees();
        let places = Self {
            programs: paths.builds(),
            script: paths.root().join("bench/builds/build.sh"),
            cargo: paths.root().join("bench/builds/cargo.sh"),
            homes: [home("CARGO_HOME", ".cargo"), home("RUSTUP_HOME", ".rustup")],
            tcc: cache.join("tcc"),
        };
        let mut needed = vec![places.programs.join("timed")];
        if builds.iter().any(|build| !matches!(build.what, What::Crates { .. })) {
            needed.extend([places.programs.join("docomp"), places.tcc.join("lib"), cache.join("tree4")]);
        }
        for file in needed {
            if !file.exists() {
                bail!("{} is missing: run 'make builds-setup'", file.display());
            }
            if file.to_string_lossy().contains([' ', '\'']) {
                bail!("{}: a build cannot stand in a folder with a blank in its name", file.display());
            }
        }
        Ok(places)
    }

    fn cargo(&self, name: &str, jobs: u32, packages: &Packages) -> String {
        let [cargo, rustup] = self.homes.each_ref().map(|home| home.display());
        let (script, libraries) = (self.cargo.display(), packages.libraries);
        format!(
            "env CARGO_HOME='{cargo}' RUSTUP_HOME='{rustup}' sh {script} {name} {jobs} {libraries} {}",
            packages.names
        )
    }

    pub fn docomp(&self, tasks: u32, compiler: Compiler, options: &str) -> String {
        let compiler = match compiler {
            Compiler::Tcc => format!("{0}/tcc -B{0}/lib", self.tcc.display()),
            Compiler::Gcc => "gcc -O1".to_owned(),
        };
        format!("{}/docomp {tasks} -x '{compiler}' -q {options}", self.programs.display())
    }
}

/// A folder that `variable` names, or else `name` in the user's own.
fn home(variable: &str, name: &str) -> PathBuf {
    let own = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(name);
    std::env::var_os(variable).map_or_else(own, PathBuf::from)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub name: String,
    pub cpus: u32,
    pub warm: bool,
}

/// What one case showed on one kernel: one run, or the medians of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Files compiled.
    pub files: u64,
    pub real: f64,
    pub user: f64,
    pub sys: f64,
    /// Of each run.
    pub reals: Vec<f64>,
    /// A hash of what was built.
    pub made: String,
    pub failed: Option<String>,
}

impl Shown {
    fn failed(why: String) -> Self {
        Self { failed: Some(why), ..Self::default() }
    }

    fn of(said: &Said) -> Self {
        match said.said.iter().find_map(|line| line.strip_prefix("made ")) {
            Some(made) => Self {
                files: said.ops,
                real: said.seconds,
                user: said.user,
                sys: said.sys,
                reals: vec![said.seconds],
                made: made.to_owned(),
                failed: None,
            },
            None => Self::failed(format!("it said {}", said.said.join("; "))),
        }
    }

    /// The median of each figure; where one run failed, or made other files, that.
    fn medians(runs: &[Shown]) -> Self {
        if let Some(bad) = runs.iter().find(|run| run.failed.is_some()) {
            return bad.clone();
        }
        let Some(first) = runs.first() else { return Self::failed("it did not run".into()) };
        if runs.iter().any(|run| run.made != first.made) {
            return Self::failed("its runs made different files".into());
        }
        let median = |of: fn(&Shown) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        Self {
            real: median(|run| run.real),
            user: median(|run| run.user),
            sys: median(|run| run.sys),
            reals: runs.iter().map(|run| run.real).collect(),
            ..first.clone()
        }
    }

    /// Which part of the CPUs' time the build had, in hundredths, as time(1) says it for one CPU.
    pub fn used(&self, cpus: u32) -> f64 {
        (self.user + self.sys) / (self.real * f64::from(cpus)) * 100.0
    }
}

#[derive(Serialize, Deserialize)]
pub struct Column {
    pub kernel: String,
    pub version: String,
    pub shown: Vec<Shown>,
    /// Of one compilation, by build.
    pub counts: BTreeMap<String, Counts>,
}

/// What `--json` writes.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub qemu: String,
    pub compiler: String,
    pub command: String,
    pub runs: u32,
    pub full: bool,
    pub cases: Vec<Case>,
    pub kernels: Vec<Column>,
}

pub fn builds(options: &Options) -> Result<u8> {
    interrupted(run(options))
}

fn run(options: &Options) -> Result<u8> {
    let began = Instant::now();
    let measured = measured(options, &Tree::find())?;
    out!("{}", table::times(&measured));
    out!("{}", table::counts(&measured));
    out!("{}({:.0} s)", table::failures(&measured), began.elapsed().as_secs_f64());
    if let Some(file) = &options.page {
        write(file, &table::page(&measured))?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(&measured)?)?;
    }
    let own = measured.kernels.first();
    Ok(u8::from(own.is_none_or(|own| own.shown.iter().any(|shown| shown.failed.is_some()))))
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Build>> {
    if let Some(name) = names.iter().find(|name| !BUILDS.iter().any(|build| build.is(name))) {
        let known: Vec<&str> = BUILDS.iter().map(|build| build.name).collect();
        return Err(usage(format!("there is no build '{name}'; there are: docomp {}", known.join(" "))));
    }
    let wanted = |build: &&Build| names.is_empty() || names.iter().any(|name| build.is(name));
    Ok(BUILDS.iter().filter(wanted).collect())
}

/// A machine on this one's files.
fn machine(cpus: u32, memory: u64, accel: Accel) -> Machine {
    let mut machine = boot::machine(cpus, memory, accel, FULL);
    machine.root = Some("/".into());
    machine
}

fn measured(options: &Options, paths: &Tree) -> Result<Measured> {
    let builds = chosen(&options.names)?;
    let places = Places::find(paths, &builds)?;
    let accel = Accel::choose(Wanted::Auto)?;
    let kernels: Vec<&Kernel> = [Some(&options.kernel), options.vs.as_ref()].into_iter().flatten().collect();
    // Of the tree as it is now: the builds take their time.
    let versions: Vec<String> = kernels.iter().map(|kernel| version(paths, kernel)).collect();
    for cpus in &options.cpus {
        machine(*cpus, options.memory, accel).check()?;
    }
    let pairs: Vec<(u32, &Build)> =
        options.cpus.iter().flat_map(|&cpus| builds.iter().map(move |&build| (cpus, build))).collect();
    let mut signals = Signals::catch()?;
    let progress = progress_bar((pairs.len() * 2 * kernels.len()) as u64 * u64::from(options.runs));
    // By kernel and case: the runs.
    let mut runs = vec![vec![Vec::new(); pairs.len() * 2]; kernels.len()];
    for _ in 0..options.runs {
        for (at, (cpus, build)) in pairs.iter().enumerate() {
            for (kernel, runs) in kernels.iter().zip(&mut runs) {
                let line = build.line(&places, *cpus, options.full);
                let commands = [&line, &line].map(|line| Command { line: line.clone(), huge_pages: false });
                let boot = Boot {
                    paths,
                    kernel,
                    machine: machine(*cpus, options.memory, accel),
                    add: &[],
                    append: append(kernel, &options.append),
                    settle: SETTLE,
                    limit: LIMIT,
                    undisturbed: true,
                };
                let ran = boot.run(&mut signals, &commands, &|number| {
                    let how = if number == 0 { "cold" } else { "warm" };
                    progress.set_message(format!("{}, {cpus} CPUs: {}, {how}", kernel.name(), build.name));
                })?;
                let lost = || Shown::failed(ran.machine.clone().unwrap_or_else(|| "it did not run".into()));
                for (result, runs) in ran.results.into_iter().zip(runs.iter_mut().skip(at * 2)) {
                    runs.push(match result {
                        Some(Ok(said)) => Shown::of(&said),
                        Some(Err(why)) => Shown::failed(why),
                        None => lost(),
                    });
                }
                progress.inc(2);
            }
        }
    }
    progress.finish_and_clear();
    let mut measured = Measured {
        qemu: qemu_version(),
        compiler: compiler(),
        command: command(),
        runs: options.runs,
        full: options.full,
        cases: pairs
            .iter()
            .flat_map(|(cpus, build)| {
                [false, true].map(|warm| Case { name: build.name.into(), cpus: *cpus, warm })
            })
            .collect(),
        kernels: Vec::new(),
    };
    for ((kernel, version), runs) in kernels.into_iter().zip(versions).zip(runs) {
        let counts = if options.times {
            BTreeMap::new()
        } else {
            counts::of(paths, kernel, &places, &builds, options, &mut signals)?
        };
        measured.kernels.push(Column {
            kernel: kernel.name(),
            version,
            shown: runs.iter().map(|runs| Shown::medians(runs)).collect(),
            counts,
        });
    }
    compare(&mut measured);
    Ok(measured)
}

/// Who made other files than the last kernel did, or than the same build did elsewhere, has failed.
fn compare(measured: &mut Measured) {
    let mut right: BTreeMap<&str, String> = BTreeMap::new();
    for column in measured.kernels.iter().rev() {
        for (case, shown) in measured.cases.iter().zip(&column.shown) {
            if shown.failed.is_none() {
                right.entry(&case.name).or_insert_with(|| shown.made.clone());
            }
        }
    }
    for column in &mut measured.kernels {
        for (case, shown) in measured.cases.iter().zip(&mut column.shown) {
            if let Some(made) = right.get(case.name.as_str())
                && shown.failed.is_none()
                && shown.made != *made
            {
                shown.failed = Some(format!("it made files with hash {}, and not {made}", shown.made));
            }
        }
    }
}

/// Which gcc this machine has.
fn compiler() -> String {
    let output = std::process::Command::new("gcc").arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("gcc of unknown version").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            programs: "/t/builds".into(),
            script: "/b/build.sh".into(),
            cargo: "/b/cargo.sh".into(),
            homes: ["/h/.cargo".into(), "/h/.rustup".into()],
            tcc: "/c/tcc".into(),
        }
    }

    fn said(made: &str) -> Said {
        Said {
            ops: 240,
            seconds: 10.0,
            rate: 24.0,
            min_per_task: 240,
            max_per_task: 240,
            user: 12.0,
            sys: 4.0,
            said: vec!["warning: x".into(), format!("made {made}")],
        }
    }

    #[test]
    fn a_build_is_chosen_by_its_name_and_both_compilers_by_docomp() {
        let names = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(&names).unwrap().iter().map(|build| build.name).collect()
        };
        assert_eq!(names(&["docomp"]), ["docomp-tcc", "docomp-gcc"]);
        assert_eq!(names(&["buildworld"]), ["buildworld"]);
        assert_eq!(names(&[]).len(), BUILDS.len());
        assert!(chosen(&["build".into()]).is_err());
    }

    #[test]
    fn builds_have_as_many_jobs_as_cpus() {
        let line = |at: usize, full| BUILDS.get(at).unwrap().line(&places(), 4, full);
        assert_eq!(line(0, false), "/t/builds/docomp 4 -x '/c/tcc/tcc -B/c/tcc/lib' -q -c 100");
        assert_eq!(line(2, true), "sh /b/build.sh nativekernel 4 1 whole");
        assert_eq!(line(4, false), "sh /b/build.sh buildworld-4 4 4 world-1 world-2");
        let homes = "env CARGO_HOME='/h/.cargo' RUSTUP_HOME='/h/.rustup'";
        assert_eq!(line(5, false), format!("{homes} sh /b/cargo.sh cargo 4 2 darter-virtio"));
    }

    #[test]
    fn a_closing_line_and_the_hash_are_read() {
        let shown = Shown::of(&said("1f"));
        assert_eq!((shown.real, shown.made.as_str(), shown.used(2)), (10.0, "1f", 80.0));
        assert!(Shown::of(&Said { said: Vec::new(), ..said("") }).failed.is_some());
        let other = Shown { real: 30.0, ..shown.clone() };
        let medians = Shown::medians(&[shown.clone(), other, Shown { real: 20.0, ..shown.clone() }]);
        assert_eq!((medians.real, medians.reals.len()), (20.0, 3));
        assert!(Shown::medians(&[shown, Shown::of(&said("2f"))]).failed.is_some());
    }

    #[test]
    fn who_makes_other_files_has_failed() {
        let column = |kernel: &str, made: &str| Column {
            kernel: kernel.into(),
            version: String::new(),
            shown: vec![Shown::of(&said(made))],
            counts: BTreeMap::new(),
        };
        let mut measured = Measured {
            qemu: String::new(),
            compiler: String::new(),
            command: String::new(),
            runs: 1,
            full: false,
            cases: vec![Case { name: "buildworld".into(), cpus: 2, warm: false }],
            kernels: vec![column("darter", "a"), column("linux", "b")],
        };
        compare(&mut measured);
        let failed =
            |at: usize| measured.kernels.get(at).and_then(|column| column.shown.first()?.failed.clone());
        assert!(failed(0).is_some_and(|why| why.contains("hash a")) && failed(1).is_none());
        assert!(table::failures(&measured).contains("buildworld, cold, 2 CPUs, darter: failed: it made"));
    }
}
