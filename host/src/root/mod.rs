//! The guest's files: which root, what is added to it, and the initramfs made of them.
//!
//! The part that many runs share (root, init, benchmarks, additions) is kept under .cache/initramfs, named by a
//! fingerprint of everything in it. What belongs to one run, its job, is a small archive behind it.
#![forbid(unsafe_code)]

pub mod busybox;
pub mod elf;
mod sources;
mod tree;

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use sources::Addition;
use tree::{Data, Entry, Kind};

use crate::exit::usage;
use crate::paths;
use crate::size::show_bytes;

/// An initramfs lies below the machine's 2 GiB line, with room for the rest.
const LARGEST: u64 = 1800 << 20;
/// Old initramfs archives are dropped beyond this many.
const KEPT: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    Busybox,
    Host,
    Folder(PathBuf),
    Archive(PathBuf),
}

impl Root {
    /// For clap: busybox, host, a folder or a tar archive.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        match text {
            "busybox" => Ok(Root::Busybox),
            "host" => Ok(Root::Host),
            _ if path.is_dir() => Ok(Root::Folder(path.into())),
            _ if path.is_file() => Ok(Root::Archive(path.into())),
            _ => Err(format!("'{text}' is neither busybox nor host nor a folder nor a tar archive")),
        }
    }
}

/// What one run is, as the guest's init reads it.
pub struct Job {
    pub tty: bool,
    /// The host will send input. Without, it sends nothing at all, so that a run can be the same each time.
    pub input: bool,
    /// The machine's shared folders: the tag of each one's device, and where it stands.
    pub shares: Vec<(String, String)>,
    pub environment: Vec<String>,
    pub arguments: Vec<String>,
}

impl Job {
    /// Key and value, each ended by NUL; refused where a word holds one itself.
    fn encode(&self) -> Result<Vec<u8>> {
        let mut fields = vec![("mode", if self.tty { "tty" } else { "pipes" }), ("cwd", "/root")];
        fields.push(("hostname", "darter"));
        if !self.input {
            fields.push(("input", "none"));
        }
        for (tag, at) in &self.shares {
            fields.extend([("tag", tag.as_str()), ("share", at.as_str())]);
        }
        fields.extend(self.environment.iter().map(|word| ("env", word.as_str())));
        fields.extend(self.arguments.iter().map(|word| ("arg", word.as_str())));
        let mut bytes = Vec::new();
        for (key, value) in fields {
            if value.contains('\0') {
                return Err(usage(format!("{value:?} holds a NUL byte")));
            }
            for word in [key, value] {
                bytes.extend_from_slice(word.as_bytes());
                bytes.push(0);
            }
        }
        Ok(bytes)
    }
}

/// The shared part: the file in the cache.
pub fn prepare(paths: &paths::Tree, root: &Root, additions: &[Addition], memory: u64) -> Result<PathBuf> {
    let mut tree = tree::Tree::default();
    match root {
        Root::Busybox => busybox::fill(&mut tree)?,
        Root::Host => sources::host(&mut tree, paths.root())?,
        Root::Folder(path) => sources::folder(&mut tree, path)?,
        Root::Archive(path) => sources::archive(&mut tree, path, &paths.cache("archives")?)?,
    }
    common(&mut tree, paths)?;
    for addition in additions {
        addition
            .insert(&mut tree)
            .with_context(|| format!("cannot add {} to the guest", addition.source.display()))?;
    }
    let size = tree.size();
    if size > LARGEST {
        return Err(usage(format!(
            "the root has {}, and a guest can take {} at most: give a smaller one with --root DIR, or busybox and --add",
            show_bytes(size),
            show_bytes(LARGEST)
        )));
    }
    // The archive and the files made from it stand in memory at the same time.
    if size > memory / 5 * 2 {
        return Err(usage(format!(
            "the root has {}, too much for a guest with {}: give --memory {} or more",
            show_bytes(size),
            show_bytes(memory),
            format_args!("{}G", (size / 2 * 5).div_ceil(1 << 30) + 1)
        )));
    }
    let cache = paths.cache("initramfs")?;
    let file = cache.join(format!("{}.cpio", tree.fingerprint()?));
    if !file.is_file() {
        let mut to = BufWriter::new(tempfile::NamedTempFile::new_in(&cache)?);
        tree.write(&mut to)?;
        to.into_inner()?.persist(&file)?;
        drop_old(&cache)?;
    }
    Ok(file)
}

/// The initramfs of one run: an unlinked file, so that nothing is left of it whatever happens.
pub fn with_job(paths: &paths::Tree, shared: &Path, job: &Job) -> Result<File> {
    let mut file = tempfile::tempfile_in(paths.cache("run")?)?;
    let mut from = File::open(shared).with_context(|| format!("cannot read {}", shared.display()))?;
    std::io::copy(&mut from, &mut file)?;
    let mut tree = tree::Tree::default();
    tree.insert(".darter/job", Entry::new(Kind::File(Data::Bytes(job.encode()?)), 0o600))?;
    let mut buffer = Vec::new();
    tree.write(&mut buffer)?;
    file.write_all(&buffer)?;
    file.rewind()?;
    Ok(file)
}

/// What every guest has, whatever its root.
fn common(tree: &mut tree::Tree, paths: &paths::Tree) -> Result<()> {
    for (name, mode) in [
        ("dev", 0o755),
        ("proc", 0o555),
        ("sys", 0o555),
        ("run", 0o755),
        ("tmp", 0o1777),
        ("root", 0o700),
        ("etc", 0o755),
    ] {
        tree.insert_missing(name, Entry::directory(mode))?;
    }
    // Linux opens the console before init can mount anything.
    for (name, major, minor) in [("dev/console", 5, 1), ("dev/null", 1, 3)] {
        tree.insert_missing(name, Entry::new(Kind::Character { major, minor }, 0o600))?;
    }
    let init = paths.guest_init();
    if !init.is_file() {
        bail!("{} is missing: run 'make guest'", init.display());
    }
    tree.insert("init", Entry::program(&init))?;
    for (name, file) in programs(&paths.benchmarks())? {
        let destination = format!("/bin/{name}");
        if !tree.contains(&destination) {
            Addition { source: file, destination: destination.into() }.insert(tree)?;
        }
    }
    Ok(())
}

/// The files in a folder, which may be missing.
fn programs(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let (Some(name), true) = (entry.file_name().to_str(), entry.path().is_file()) {
            found.push((name.to_owned(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn drop_old(cache: &Path) -> Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(cache)? {
        let entry = entry?;
        // Another darter that prepares its own may have given it its name just now, or have dropped it.
        let Ok(metadata) = entry.metadata() else { continue };
        files.push((metadata.modified()?, entry.path()));
    }
    files.sort();
    for (_, path) in files.iter().rev().skip(KEPT) {
        // Another darter may have dropped it just now.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_keys_and_values() {
        let job = Job {
            tty: false,
            input: true,
            shares: vec![("t".into(), "/at".into())],
            environment: vec!["A=b".into()],
            arguments: vec!["sh".into(), String::new()],
        };
        let bytes = job.encode().unwrap();
        assert!(
            bytes.starts_with(b"mode\0pipes\0cwd\0/root\0hostname\0darter\0tag\0t\0share\0/at\0env\0A=b\0")
        );
        assert!(bytes.ends_with(b"arg\0sh\0arg\0\0"));
        let job = Job { arguments: vec!["a\0b".into()], ..job };
        assert!(job.encode().is_err());
    }
}
