//! `darter doctor`: what this machine lacks, and the command that mends it.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::machine::accel;
use crate::paths::{Tree, program};
use crate::root::busybox;

/// The plugin API that the exact counts use appeared in QEMU 9.
const OLDEST_QEMU: u32 = 9;

enum Finding {
    Good(String),
    /// Works without, but slower or with less.
    Better(String, String),
    /// Needed: what is wrong, and the command that mends it.
    Missing(String, String),
}

pub fn doctor() -> Result<u8> {
    let paths = Tree::find();
    let setup = || "make setup".to_owned();
    let findings = [
        ("rust", rust(&paths)),
        ("gcc", tool("gcc")),
        ("make", tool("make")),
        ("musl-gcc", tool("musl-gcc")),
        (
            "busybox",
            match busybox::find() {
                Ok(path) => Finding::Good(path.display().to_string()),
                Err(e) => Finding::Missing(e.to_string(), setup()),
            },
        ),
        ("qemu", qemu()),
        ("accelerator", accelerator()),
        ("darter kernel", file(&paths.darter_kernel(), "make kernel")),
        ("guest init", file(&paths.guest_init(), "make guest")),
        ("benchmarks", file(&paths.benchmarks(), "make benchmarks")),
        ("linux kernel", linux(&paths)),
        ("linux modules", modules(&paths)),
        ("browser", browser()),
        ("lines plugin", optional(&paths.lines_plugin(), "make plugin")),
    ];
    let mut missing = 0;
    for (name, finding) in findings {
        match finding {
            Finding::Good(what) => out!("ok       {name:<14} {what}"),
            Finding::Better(what, command) => out!("note     {name:<14} {what}{}", hint(&command)),
            Finding::Missing(what, command) => {
                missing += 1;
                out!("MISSING  {name:<14} {what}{}", hint(&command));
            }
        }
    }
    if missing == 0 {
        out!("everything needed is there");
    }
    Ok(u8::from(missing > 0))
}

fn hint(command: &str) -> String {
    if command.is_empty() { String::new() } else { format!("\n{:>24}run: {command}", "") }
}

fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().next().unwrap_or_default().to_owned())
}

fn tool(name: &str) -> Finding {
    match program(name) {
        Some(file) => Finding::Good(file.display().to_string()),
        None => Finding::Missing(format!("no {name} in PATH"), "make setup".into()),
    }
}

fn rust(paths: &Tree) -> Finding {
    let wanted = std::fs::read_to_string(paths.root().join("rust-toolchain.toml")).unwrap_or_default();
    let wanted =
        wanted.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap_or("").trim_matches('"');
    let version = Command::new("rustc").arg("--version").current_dir(paths.root()).output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match version {
        Ok(version) if !wanted.is_empty() && version.contains(wanted) => Finding::Good(version),
        Ok(version) => Finding::Missing(format!("wants Rust {wanted}, has '{version}'"), "make setup".into()),
        Err(_) => Finding::Missing("no rustc in PATH".into(), "make setup".into()),
    }
}

fn qemu() -> Finding {
    let Some(line) = first_line("qemu-system-x86_64", "--version") else {
        return Finding::Missing("no qemu-system-x86_64 that runs".into(), "make setup".into());
    };
    let number =
        line.split_whitespace().nth(3).and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match number {
        Some(number) if number >= OLDEST_QEMU => Finding::Good(line),
        _ => Finding::Missing(format!("{line}; Darter wants {OLDEST_QEMU} or newer"), "make setup".into()),
    }
}

fn accelerator() -> Finding {
    match accel::kvm_lack() {
        None => Finding::Good("kvm".into()),
        Some(lack) => Finding::Better(format!("tcg (emulation): {lack}"), String::new()),
    }
}

fn linux(paths: &Tree) -> Finding {
    match std::fs::read_link(paths.linux_kernel()) {
        Ok(target) if paths.linux_kernel().is_file() => {
            Finding::Good(target.parent().unwrap_or(&target).display().to_string())
        }
        _ if paths.linux_kernel().is_file() => Finding::Good(paths.linux_kernel().display().to_string()),
        _ => Finding::Better(
            "no Linux to compare with (--kernel linux, --vs linux)".into(),
            "make setup".into(),
        ),
    }
}

fn modules(paths: &Tree) -> Finding {
    let folder = paths.linux_modules();
    let uses =
        [("kvm-amd", "--accel nested"), ("9p", "--share with Linux"), ("overlay", "--root host with Linux")];
    let lacks = uses.iter().filter(|(name, _)| !folder.join(format!("{name}.ko")).is_file());
    let lacks: Vec<String> = lacks.map(|(name, what)| format!("{name} ({what})")).collect();
    if lacks.is_empty() {
        Finding::Good(folder.display().to_string())
    } else {
        Finding::Better(format!("modules of Linux are missing: {}", lacks.join(", ")), "make setup".into())
    }
}

fn browser() -> Finding {
    match program("chromium").or_else(|| program("google-chrome")) {
        Some(file) => Finding::Good(file.display().to_string()),
        None => Finding::Better(
            "none (only for the test of the page of bench --report)".into(),
            "make browser".into(),
        ),
    }
}

fn file(path: &Path, command: &str) -> Finding {
    if path.exists() {
        Finding::Good(path.display().to_string())
    } else {
        Finding::Missing(format!("{} is not built", path.display()), command.into())
    }
}

fn optional(path: &Path, command: &str) -> Finding {
    if path.exists() {
        Finding::Good(path.display().to_string())
    } else {
        Finding::Better("not built (only for bench --instructions)".into(), command.into())
    }
}
