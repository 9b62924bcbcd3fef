//! The default root: the host's static busybox with a link for each of its applets, and the few files that programs
//! expect of any system.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::elf;
use super::tree::{Entry, Tree};
use crate::paths::program;

const PROFILE: &str = "export PS1='\\w \\$ '\n";

/// The static busybox of this machine.
pub fn find() -> Result<PathBuf> {
    let Some(found) = program("busybox") else {
        bail!("busybox is missing: run 'make setup'");
    };
    if elf::interpreter(&found)?.is_some() {
        bail!("{} is not static: run 'make setup'", found.display());
    }
    Ok(found)
}

pub fn fill(tree: &mut Tree) -> Result<()> {
    let busybox = find()?;
    tree.insert("bin/busybox", Entry::program(&busybox))?;
    for applet in applets(&busybox)? {
        tree.insert(&applet, Entry::link("/bin/busybox"))?;
    }
    for (name, text) in [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
        ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
        ("etc/hostname", "darter\n"),
        ("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 darter\n"),
        ("etc/profile", PROFILE),
        ("etc/shells", "/bin/sh\n"),
    ] {
        tree.insert(name, Entry::text(text))?;
    }
    Ok(())
}

/// The applets' names as busybox itself installs them (usr/bin/env, bin/sh, …).
fn applets(busybox: &Path) -> Result<Vec<String>> {
    let output = Command::new(busybox).arg("--list-full").output().context("cannot run busybox")?;
    let names = String::from_utf8_lossy(&output.stdout);
    let names: Vec<String> =
        names.lines().filter(|name| !name.ends_with("busybox")).map(Into::into).collect();
    if !output.status.success() || names.is_empty() {
        bail!("{} --list-full names no applets: install Debian's busybox-static", busybox.display());
    }
    Ok(names)
}
