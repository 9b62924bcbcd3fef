//! The kernel of an earlier revision, to compare with: built once, and kept in the cache.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;

/// Kernels by commit, and what they were built in.
const CACHE: &str = "kernels";
const TARGET: &str = "x86_64-unknown-none";

/// What is compared with.
#[derive(Debug, PartialEq)]
pub enum Before {
    /// What --json wrote.
    File(PathBuf),
    /// A commit's full name.
    Commit(String),
    /// This kernel with a switch on its command line.
    Switch(&'static str),
}

/// Switches that can be compared with: what they are called, and their word.
const SWITCHES: [(&str, &str); 1] = [("vm_token", "vm_token=1")];

impl Before {
    /// A file by this name, else a switch, else a revision of the source tree.
    ///
    /// # Errors
    /// It is none of them.
    pub fn find(text: &str, paths: &Tree) -> Result<Before> {
        if Path::new(text).is_file() {
            return Ok(Before::File(text.into()));
        }
        if let Some((_, word)) = SWITCHES.iter().find(|(name, _)| *name == text) {
            return Ok(Before::Switch(word));
        }
        // Behind --end-of-options nothing is an option of git's.
        let commit = git(
            paths,
            &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{text}^{{commit}}")],
        );
        match commit {
            Ok(commit) => Ok(Before::Commit(commit)),
            Err(_) => Err(usage(format!(
                "--compare {text}: there is no such file, and no such revision in {}; nor is it a switch: {}",
                paths.root().display(),
                SWITCHES.map(|(name, _)| name).join(", ")
            ))),
        }
    }

    /// The kernel that takes turns with the one that is measured; None: what it did is in a file. A revision's is built if it is not in the cache.
    pub fn kernel(&self, paths: &Tree) -> Result<Option<Kernel>> {
        Ok(match self {
            Before::File(_) => None,
            Before::Commit(commit) => Some(Kernel::File(kernel(commit, paths)?)),
            Before::Switch(word) => Some(Kernel::Switched((*word).to_owned())),
        })
    }

    /// What a reader calls it.
    pub fn label(&self) -> String {
        match self {
            Before::File(file) => file.display().to_string(),
            Before::Commit(commit) => format!("the kernel of {}", short(commit)),
            Before::Switch(word) => format!("this kernel with {word}"),
        }
    }
}

/// The image of that commit's kernel, built if it is not in the cache. Takes minutes then.
fn kernel(commit: &str, paths: &Tree) -> Result<PathBuf> {
    let folder = paths.cache(CACHE)?;
    let image = folder.join(format!("darter-{}", short(commit)));
    if image.is_file() {
        return Ok(image);
    }
    note!("darter: building the kernel of {}", short(commit));
    let tree = tempfile::tempdir_in(&folder)?;
    unpack(commit, paths, tree.path())?;
    // One folder for what is built: the next revision finds what has not changed.
    let target = folder.join("target");
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--profile", "kernel", "-p", "darter-kernel", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(tree.path())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the kernel of {} cannot be built", short(commit));
    }
    let built = target.join(TARGET).join("kernel/darter-kernel");
    // Whoever comes between sees no half of it.
    let half = tree.path().join("image");
    std::fs::copy(&built, &half).with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&half, &image).with_context(|| format!("cannot make {}", image.display()))?;
    Ok(image)
}

/// The source tree as it was.
fn unpack(commit: &str, paths: &Tree, folder: &Path) -> Result<()> {
    let mut git = Command::new("git")
        .args(["archive", "--format=tar", commit])
        .current_dir(paths.root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    let stream = git.stdout.take().context("git says nothing")?;
    let unpacked = tar::Archive::new(stream).unpack(folder);
    if !git.wait()?.success() {
        bail!("git cannot show the files of {commit}");
    }
    unpacked.with_context(|| format!("cannot unpack into {}", folder.display()))
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn git(paths: &Tree, words: &[&str]) -> Result<String> {
    let output = Command::new("git").args(words).current_dir(paths.root()).output()?;
    if !output.status.success() {
        bail!("git {} failed", words.join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository of its own with one commit.
    fn repository() -> (tempfile::TempDir, Tree, String) {
        let folder = tempfile::tempdir().unwrap();
        let paths = Tree::at(folder.path());
        std::fs::write(folder.path().join("a file"), "text").unwrap();
        git(&paths, &["init", "-q"]).unwrap();
        git(&paths, &["add", "."]).unwrap();
        git(&paths, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]).unwrap();
        let commit = git(&paths, &["rev-parse", "HEAD"]).unwrap();
        (folder, paths, commit)
    }

    #[test]
    fn what_is_compared_with_is_a_file_or_a_revision_and_nothing_else() {
        let (folder, paths, commit) = repository();
        assert_eq!(Before::find("HEAD", &paths).unwrap(), Before::Commit(commit.clone()));
        let file = folder.path().join("a file");
        assert_eq!(Before::find(file.to_str().unwrap(), &paths).unwrap(), Before::File(file.clone()));
        assert_eq!(Before::find("vm_token", &paths).unwrap(), Before::Switch("vm_token=1"));
        for wrong in ["vm_tokens", "--all", "", "HEAD~1"] {
            let error = Before::find(wrong, &paths).unwrap_err();
            assert_eq!(crate::exit::status_of(&error), crate::exit::USAGE, "{wrong}: {error}");
        }
    }

    #[test]
    fn a_revisions_files_are_unpacked_and_a_kernel_in_the_cache_is_taken() {
        let (_folder, paths, commit) = repository();
        let into = tempfile::tempdir().unwrap();
        unpack(&commit, &paths, into.path()).unwrap();
        assert_eq!(std::fs::read_to_string(into.path().join("a file")).unwrap(), "text");
        let known = paths.cache(CACHE).unwrap().join(format!("darter-{}", short(&commit)));
        std::fs::write(&known, "image").unwrap();
        assert_eq!(kernel(&commit, &paths).unwrap(), known);
    }
}
