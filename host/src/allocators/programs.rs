//! The programs of bench/allocators and the libraries that take the place of their malloc.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::Command as Process;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::exit::usage;
use crate::paths::Tree;
use crate::root::Addition;

/// A way to get memory: the program, the library before its own, and what that library reads of its environment.
struct Allocator {
    name: &'static str,
    program: &'static str,
    library: Option<&'static str>,
    environment: &'static [&'static str],
}

const JEMALLOC: &str = "libjemalloc.so.2";
/// Built where there is go.
const GARBAGE: &str = "garbage";
const MIMALLOC: &str = "libmimalloc.so";

/// Those that end in -eager give memory back to the kernel at once, not after a while or when there is much of it: so how often they
/// call the kernel does not depend on the clock.
const ALLOCATORS: [Allocator; 8] = [
    Allocator { name: "musl", program: "alloc-musl", library: None, environment: &[] },
    Allocator { name: "glibc", program: "alloc-glibc", library: None, environment: &[] },
    Allocator {
        name: "glibc-eager",
        program: "alloc-glibc",
        library: None,
        environment: &["MALLOC_MMAP_THRESHOLD_=65536", "MALLOC_TRIM_THRESHOLD_=0"],
    },
    Allocator { name: "jemalloc", program: "alloc-glibc", library: Some(JEMALLOC), environment: &[] },
    Allocator {
        name: "jemalloc-eager",
        program: "alloc-glibc",
        library: Some(JEMALLOC),
        environment: &["MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0"],
    },
    Allocator { name: "mimalloc", program: "alloc-glibc", library: Some(MIMALLOC), environment: &[] },
    Allocator {
        name: "mimalloc-eager",
        program: "alloc-glibc",
        library: Some(MIMALLOC),
        environment: &[
            "MIMALLOC_RESET_DELAY=0",
            "MIMALLOC_DECOMMIT_DELAY=0",
            "MIMALLOC_SEGMENT_DECOMMIT_DELAY=0",
            "MIMALLOC_PURGE_DELAY=0",
        ],
    },
    Allocator { name: "go", program: GARBAGE, library: None, environment: &[] },
];

/// Where programs and libraries stand in the guest.
const GUEST: &str = "/allocators";

/// One pattern with one allocator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub allocator: String,
    pub pattern: String,
    pub what: String,
    /// Operations of each task in a window.
    ops: u64,
    /// The words before the number of tasks.
    start: String,
}

impl Row {
    /// The command of a window.
    pub fn window(&self, tasks: u32) -> String {
        format!("{} {tasks} -q -c {}", self.start, self.ops)
    }

    /// The command for a rate.
    pub fn timed(&self, tasks: u32, seconds: f64) -> String {
        format!("{} {tasks} -q -s {seconds}", self.start)
    }
}

/// What can be measured here.
pub struct Programs {
    pub rows: Vec<Row>,
    /// For the guest's root.
    pub add: Vec<Addition>,
    /// Allocators that are left out, for want of their library or compiler.
    pub missing: Vec<&'static str>,
}

impl Programs {
    /// As they are built and fetched.
    pub fn find(paths: &Tree) -> Result<Programs> {
        let mut found = Programs { rows: Vec::new(), add: Vec::new(), missing: Vec::new() };
        for allocator in &ALLOCATORS {
            let library = allocator.library.map(|name| paths.allocator_libraries().join(name));
            let program = paths.allocators().join(allocator.program);
            let built = allocator.program != GARBAGE || program.is_file();
            if !built || library.as_ref().is_some_and(|file| !file.is_file()) {
                found.missing.push(allocator.name);
                continue;
            }
            let patterns = patterns(&program)?;
            found.rows.extend(patterns.into_iter().map(|(pattern, ops, what)| Row {
                start: allocator.start(&pattern),
                allocator: allocator.name.into(),
                pattern,
                what,
                ops,
            }));
            for file in [Some(program), library].into_iter().flatten() {
                let name = file.file_name().unwrap_or_default();
                let addition = Addition { destination: PathBuf::from(GUEST).join(name), source: file };
                if !found.add.contains(&addition) {
                    found.add.push(addition);
                }
            }
        }
        Ok(found)
    }

    /// All rows, or those whose allocator or pattern is named, or both: "glibc churn".
    pub fn chosen(&self, names: &[String]) -> Result<Vec<Row>> {
        let is = |row: &Row, name: &str| {
            row.allocator == name
                || row.pattern == name
                || format!("{} {}", row.allocator, row.pattern) == name
        };
        if let Some(name) = names.iter().find(|name| !self.rows.iter().any(|row| is(row, name))) {
            return Err(usage(format!(
                "no allocator and no pattern is named {name}, or its library is missing (make allocators)"
            )));
        }
        let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| is(row, name));
        Ok(self.rows.iter().filter(wanted).cloned().collect())
    }
}

impl Allocator {
    fn start(&self, pattern: &str) -> String {
        let mut words: Vec<String> = self.environment.iter().map(|&word| word.to_owned()).collect();
        words.extend(self.library.map(|library| format!("LD_PRELOAD={GUEST}/{library}")));
        if !words.is_empty() {
            words.insert(0, "env".into());
        }
        words.push(format!("{GUEST}/{} {pattern}", self.program));
        words.join(" ")
    }
}

/// The patterns that a program knows, as it names them itself.
fn patterns(program: &std::path::Path) -> Result<Vec<(String, u64, String)>> {
    let said = Process::new(program).arg("list").output();
    let said = said.with_context(|| format!("cannot ask {}: run 'make allocators'", program.display()))?;
    let all = parse(&String::from_utf8_lossy(&said.stdout)).unwrap_or_default();
    if all.is_empty() {
        bail!("{} names no patterns", program.display());
    }
    Ok(all)
}

/// Lines `PATTERN OPS WHAT`.
fn parse(list: &str) -> Option<Vec<(String, u64, String)>> {
    list.lines()
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_the_program_with_the_library_before_its_own() {
        let find = |name: &str| ALLOCATORS.iter().find(|allocator| allocator.name == name).unwrap();
        let row = |name: &str| Row {
            allocator: name.into(),
            pattern: "churn".into(),
            what: String::new(),
            ops: 9,
            start: find(name).start("churn"),
        };
        assert_eq!(row("musl").window(2), "/allocators/alloc-musl churn 2 -q -c 9");
        assert_eq!(
            row("jemalloc-eager").timed(4, 0.5),
            "env MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0 LD_PRELOAD=/allocators/libjemalloc.so.2 \
             /allocators/alloc-glibc churn 4 -q -s 0.5"
        );
    }

    #[test]
    fn patterns_are_read_and_chosen_by_any_of_their_names() {
        let all = parse("churn 20 small blocks\nwave 4 all at once\n").unwrap();
        assert_eq!(all[0], ("churn".into(), 20, "small blocks".into()));
        assert!(parse("churn many").is_none());
        let rows = ["musl", "glibc"].into_iter().flat_map(|name| {
            all.iter().map(move |(pattern, ops, what)| Row {
                allocator: name.into(),
                pattern: pattern.clone(),
                what: what.clone(),
                ops: *ops,
                start: String::new(),
            })
        });
        let programs = Programs { rows: rows.collect(), add: Vec::new(), missing: Vec::new() };
        let count = |name: &str| programs.chosen(&[name.to_owned()]).map(|rows| rows.len()).ok();
        assert_eq!(
            [count("musl"), count("wave"), count("glibc wave"), count("jemalloc")],
            [Some(2), Some(2), Some(1), None]
        );
    }
}
