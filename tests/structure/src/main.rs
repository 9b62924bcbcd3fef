//! Holds the sources against rooms.toml (`make check`).
//!
//! * `rules`    rooms.toml: the rooms of each crate from the top to the bottom, what each may use, the exceptions
//! * `source`   what a file of Rust says: its modules, what it imports, the paths that it names
//! * `modules`  the modules of a crate, and what a path leads to
//! * `arrows`   which room uses which, and whether it may
//! * `unsafety` files that may contain unsafe code, and names that only some rooms may use
//! * `text`     comments and documents; `stale` paths in them that lead nowhere
//! * `graph`    what `--graph` prints
//!
//! A rule that nothing needs any more fails as well as a rule that is broken.
#![forbid(unsafe_code)]

mod arrows;
mod graph;
mod modules;
mod rules;
mod source;
mod stale;
mod text;
mod unsafety;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The files of the repository: paths from its root, with `/`, and what is in them. Binary files are empty.
pub type Files = BTreeMap<String, String>;

/// What is wrong, and where.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    pub text: String,
}

impl Finding {
    fn new(file: &str, line: usize, text: String) -> Self {
        Self { file: file.to_owned(), line, text }
    }
}

fn main() -> ExitCode {
    let (mut graph, mut root) = (false, String::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next()) {
            ("--graph", None) => graph = true,
            ("--root", Some(folder)) => root = folder,
            _ => {
                eprintln!("usage: structure [--root FOLDER] | --graph");
                return ExitCode::from(2);
            }
        }
    }
    match run(Path::new(&root), graph) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for Finding { file, line, text } in &findings {
                eprintln!("{file}:{line}: {text}");
            }
            eprintln!("{} findings; the rules are in {}", findings.len(), rules::FILE);
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("structure: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(root: &Path, graph: bool) -> Result<Vec<Finding>, String> {
    let files = read(root)?;
    let rules = rules::parse(files.get(rules::FILE).map_or("", String::as_str))?;
    let trees = modules::trees(&files, &rules)?;
    if graph {
        print!("{}", graph::render(&trees, &rules));
        return Ok(Vec::new());
    }
    let mut findings = check(&files, &rules, &trees);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

fn check(files: &Files, rules: &rules::Rules, trees: &[modules::Tree]) -> Vec<Finding> {
    let mut findings = arrows::check(trees, rules);
    findings.extend(unsafety::check(trees, rules));
    findings.extend(stale::check(files, rules, trees));
    findings
}

/// The files that git knows, and those that it would take.
fn read(root: &Path) -> Result<Files, String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git: {e}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
    }
    let names = String::from_utf8(listed.stdout).map_err(|e| e.to_string())?;
    let mut files = Files::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // A file that git knows may have been removed or moved.
        if let Ok(bytes) = std::fs::read(root.join(name)) {
            files.insert(name.to_owned(), String::from_utf8(bytes).unwrap_or_default());
        }
    }
    Ok(files)
}
