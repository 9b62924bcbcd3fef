//! Which kernel a machine boots, and the command line it gets.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Machine, Model};
use crate::paths::Tree;

/// Alike for both kernels. `panic=-1` ends the machine at once (it runs with -no-reboot).
const COMMON: &str = "console=ttyS0 rdinit=/init panic=-1";
/// Fair to Linux: no mitigations, no self-tests of its cryptography in the background for seconds after the start, and the
/// clock that it takes on hardware (under emulation it distrusts the TSC, and every clock read then leaves the guest). Like
/// Darter it runs programs of x86-64 alone.
const LINUX: &str =
    "mitigations=off cryptomgr.notests=1 tsc=reliable 8250.nr_uarts=4 random.trust_cpu=on ia32_emulation=off";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kernel {
    Darter,
    Linux,
    File(PathBuf),
    /// This tree's, with a word more on its command line: a switch.
    Switched(String),
}

/// What `Switched` is called, before its word.
const SWITCHED: &str = "darter,";

impl Kernel {
    /// For clap: `darter`, `linux`, a file's name, or `darter,WORD` for a word on the command line.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "darter" => Ok(Kernel::Darter),
            "linux" => Ok(Kernel::Linux),
            path if Path::new(path).is_file() => Ok(Kernel::File(path.into())),
            text => match text.strip_prefix(SWITCHED) {
                Some(word) if !word.is_empty() => Ok(Kernel::Switched(word.into())),
                _ => Err(format!("'{text}' is neither darter nor linux nor a file, nor darter,WORD")),
            },
        }
    }

    pub fn name(&self) -> String {
        match self {
            Kernel::Darter => "darter".into(),
            Kernel::Linux => "linux".into(),
            Kernel::File(path) => path.display().to_string(),
            Kernel::Switched(word) => format!("{SWITCHED}{word}"),
        }
    }

    /// Is it this tree's?
    pub fn is_darter(&self) -> bool {
        matches!(self, Kernel::Darter | Kernel::Switched(_))
    }

    /// Where its file lies.
    pub fn path(&self, tree: &Tree) -> PathBuf {
        match self {
            Kernel::Darter | Kernel::Switched(_) => tree.darter_kernel(),
            Kernel::Linux => tree.linux_kernel(),
            Kernel::File(path) => path.clone(),
        }
    }

    /// The file that QEMU loads; an error that names the remedy if it is not there.
    pub fn image(&self, tree: &Tree) -> Result<PathBuf> {
        let path = self.path(tree);
        if !path.is_file() {
            let remedy = match self {
                Kernel::Darter | Kernel::Switched(_) => "run 'make kernel'",
                Kernel::Linux => "run 'make setup'",
                Kernel::File(_) => "check the name",
            };
            bail!("there is no kernel at {}: {remedy}", path.display());
        }
        Ok(path)
    }

    /// The modules without which it has none of the machine's folders, in the order in which they are loaded; with what puts changes above one.
    ///
    /// # Errors
    /// One is missing.
    pub fn modules(&self, tree: &Tree, machine: &Machine) -> Result<Vec<PathBuf>> {
        if *self != Kernel::Linux || (machine.root.is_none() && machine.shares.is_empty()) {
            return Ok(Vec::new());
        }
        let bus = (machine.model == Model::Microvm).then_some("virtio_mmio");
        let names = bus.into_iter().chain(["netfs", "9pnet", "9pnet_virtio", "9p", "overlay"]);
        let files: Vec<_> = names.map(|name| tree.linux_modules().join(format!("{name}.ko"))).collect();
        if let Some(file) = files.iter().find(|file| !file.is_file()) {
            bail!("{} is missing: run 'make setup'", file.display());
        }
        Ok(files)
    }

    pub fn command_line(&self, quiet: bool, append: &[String]) -> String {
        let mut line = vec![COMMON];
        // A file may be any kernel: what it does not know, it ignores.
        if !self.is_darter() {
            line.push(LINUX);
        }
        if let Kernel::Switched(word) = self {
            line.push(word);
        }
        if quiet {
            line.push("quiet");
        }
        line.extend(append.iter().map(String::as_str));
        line.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_words_come_last_so_that_they_win() {
        let line = Kernel::Linux.command_line(true, &["nokaslr".into(), "quiet=no".into()]);
        assert!(line.contains("mitigations=off"));
        assert!(line.ends_with("quiet nokaslr quiet=no"));
        assert!(!Kernel::Darter.command_line(false, &[]).contains("mitigations"));
    }

    #[test]
    fn a_switch_is_a_word_on_the_command_line_of_this_trees_kernel() {
        let kernel = Kernel::parse("darter,vm_token=1").unwrap();
        assert_eq!((kernel.name().as_str(), kernel.is_darter()), ("darter,vm_token=1", true));
        let line = kernel.command_line(true, &["trace".into()]);
        assert!(line.ends_with("vm_token=1 quiet trace") && !line.contains("mitigations"), "{line}");
        assert!(Kernel::parse("darter,").is_err());
    }
}
