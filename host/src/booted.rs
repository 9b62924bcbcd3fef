//! `darter test`: the booted tests, each a script in a folder of tests/boot.
//!
//! A script gets DARTER (this program), DARTER_KERNEL and TARGET in its environment, runs in the source tree's root
//! without stdin, and passes by exit status 0; 77 says that it was skipped, and its last line why. It may set its own
//! limit with a line `# time limit: SECONDS` near its beginning. A line `# in pairs` says that its machines need one of the host's CPUs
//! and that its result does not depend on the host's speed: such scripts run after the others, two at a time.
#![forbid(unsafe_code)]

use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cli::Test;
use crate::exit::usage;
use crate::paths::Tree;

const FOLDER: &str = "tests/boot";
const LIMIT: Duration = Duration::from_secs(120);
const SKIPPED: i32 = 77;
/// Lines of a failed test's output that are shown.
const SHOWN: usize = 40;

enum Verdict {
    Passed,
    Skipped(String),
    Failed(String),
}

pub fn test(options: &Test) -> Result<u8> {
    let paths = Tree::find();
    let mut scripts = find(paths.root())?;
    scripts.retain(|script| {
        options.names.is_empty() || options.names.iter().any(|part| script.name.contains(part))
    });
    if scripts.is_empty() {
        return Err(usage(format!("no test is named so; they stand in {FOLDER}")));
    }
    if options.list {
        scripts.iter().for_each(|script| out!("{}", script.name));
        return Ok(0);
    }
    let (pairs, alone): (Vec<_>, Vec<_>) = scripts.iter().partition(|script| script.in_pairs());
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), 0);
    let mut tell = |name: &str, seconds: f64, verdict: Verdict| match verdict {
        Verdict::Passed => {
            passed += 1;
            out!("passed   {name:<44} {seconds:7.1} s");
        }
        Verdict::Skipped(why) => {
            skipped += 1;
            out!("skipped  {name:<44} {seconds:7.1} s  {why}");
        }
        Verdict::Failed(output) => {
            out!("FAILED   {name:<44} {seconds:7.1} s");
            output.lines().for_each(|line| out!("    | {line}"));
            failed.push(name.to_owned());
        }
    };
    let timed = |script: &Script| {
        let started = Instant::now();
        let verdict = run(&paths, script, &options.kernel);
        (started.elapsed().as_secs_f64(), verdict)
    };
    for script in alone {
        let (seconds, verdict) = timed(script);
        tell(&script.name, seconds, verdict?);
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        for _ in 0..2.min(pairs.len()) {
            let (done, pairs, next, timed) = (done.clone(), &pairs, &next, &timed);
            scope.spawn(move || {
                while let Some(script) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Nobody listens any more where another's end was an error.
                    let _ = done.send((&script.name, timed(script)));
                }
            });
        }
        drop(done);
        for (name, (seconds, verdict)) in ended {
            tell(name, seconds, verdict?);
        }
        anyhow::Ok(())
    })?;
    for name in &failed {
        out!("failed: {name}    again: ./darter test --kernel {} {name}", options.kernel);
    }
    out!("{passed} passed, {} failed, {skipped} skipped (kernel {})", failed.len(), options.kernel);
    Ok(u8::from(!failed.is_empty()))
}

struct Script {
    /// boot/host/streams
    name: String,
    file: PathBuf,
    text: String,
}

impl Script {
    fn head(&self) -> impl Iterator<Item = &str> {
        self.text.lines().take(20)
    }

    fn in_pairs(&self) -> bool {
        self.head().any(|line| line == "# in pairs")
    }

    fn time_limit(&self) -> Duration {
        let line = self.head().find_map(|line| line.strip_prefix("# time limit: "));
        let seconds = line.and_then(|text| text.split_whitespace().next()?.parse().ok());
        seconds.map_or(LIMIT, Duration::from_secs)
    }
}

/// All of them, by name.
fn find(root: &Path) -> Result<Vec<Script>> {
    let mut found = Vec::new();
    for subject in std::fs::read_dir(root.join(FOLDER)).with_context(|| FOLDER)? {
        let folder = subject?.path();
        if !folder.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let is_program = path.metadata().is_ok_and(|about| about.permissions().mode() & 0o111 != 0);
            if is_program && path.extension().is_some_and(|end| end == "sh") {
                let name = format!("boot/{}/{}", stem(&folder), stem(&path));
                let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                found.push(Script { name, file: path, text });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The last part of a path, without its ending.
fn stem(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_stem().unwrap_or_default().to_string_lossy()
}

fn run(paths: &Tree, script: &Script, kernel: &str) -> Result<Verdict> {
    let limit = script.time_limit();
    let mut output = tempfile::tempfile()?;
    let child = Command::new(&script.file)
        .current_dir(paths.root())
        .env("DARTER", std::env::current_exe()?)
        .env("DARTER_KERNEL", kernel)
        .env("TARGET", paths.root().join("target"))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {}", script.file.display()))?;
    let ended = wait(child, limit)?;
    output.rewind()?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match ended {
        None => Verdict::Failed(format!("{}\ntime limit of {} s reached", tail(&text), limit.as_secs())),
        Some(status) if status.success() => Verdict::Passed,
        Some(status) if status.code() == Some(SKIPPED) => {
            Verdict::Skipped(text.trim().lines().last().unwrap_or("no reason given").to_owned())
        }
        Some(status) => Verdict::Failed(format!("{}\n{status}", tail(&text))),
    })
}

/// None when the time is over; the test's whole process group has been ended then, its machines with it.
fn wait(mut child: std::process::Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // It may have ended this very moment.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_different_folders_have_different_names() {
        let scripts = find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let names: std::collections::HashSet<_> =
            scripts.iter().map(|script| script.file.file_name()).collect();
        assert!(names.len() > 20);
        assert_eq!(names.len(), scripts.len());
    }

    #[test]
    fn who_uses_the_common_part_has_it() {
        for script in find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap() {
            let calls = ["build ", "run ", "start ", "expect ", "skip ", "wait_for "];
            let uses = script.text.lines().any(|line| calls.iter().any(|call| line.starts_with(call)));
            let has = script.text.contains("\n. tests/boot/common\n");
            assert!(!uses || has, "{} does not read tests/boot/common", script.name);
        }
    }

    #[test]
    fn a_script_says_how_it_is_run() {
        let script = |text: &str| Script { name: "a".into(), file: "a.sh".into(), text: text.into() };
        assert_eq!(script("#!/bin/sh\n# time limit: 7\n# in pairs\n").time_limit(), Duration::from_secs(7));
        assert!(script("#!/bin/sh\n# time limit: 7\n# in pairs\n").in_pairs());
        assert_eq!(script("#!/bin/sh\n").time_limit(), LIMIT);
        assert!(!script("#!/bin/sh\n").in_pairs());
    }
}
