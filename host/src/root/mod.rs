//! The guest's files: which root, what is added to it, and the initramfs made of them.
//!
//! A root is packed, and stands in the initramfs, or it is live: then the initramfs has what brings the guest there (live.rs).
//! The part that many runs share (root, init, benchmarks, additions) is kept under .cache/initramfs, named by a
//! fingerprint of everything in it. What belongs to one run, its job, is a small archive behind it.
#![forbid(unsafe_code)]

pub mod busybox;
pub mod elf;
mod live;
mod progress;
mod sources;
mod tree;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

pub use sources::Addition;
use tree::{Data, Entry, Kind};

use crate::exit::usage;
use crate::machine::Share;
use crate::paths;
use crate::size::show_bytes;

/// An initramfs lies below the machine's 2 GiB line, with room for the rest.
const LARGEST: u64 = 1800 << 20;
/// Where init finds the kernel's modules.
const MODULES: &str = ".darter/modules";
/// Old initramfs archives are dropped beyond this many.
const KEPT: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

    /// The folder of this machine that a live root is.
    pub fn live(&self) -> Option<&Path> {
        match self {
            Root::Host => Some(Path::new("/")),
            Root::Folder(path) => Some(path),
            Root::Busybox | Root::Archive(_) => None,
        }
    }
}

/// What one run is, as the guest's init reads it.
pub struct Job {
    pub tty: bool,
    /// The host will send input. Without, it sends nothing at all, so that a run can be the same each time.
    pub input: bool,
    /// In which the program starts.
    pub folder: OsString,
    /// Who the program is; else the guest's root.
    pub user: Option<User>,
    /// Files of `modules` that the kernel needs first, in this order.
    pub modules: Vec<OsString>,
    /// The tag of the device that has a live root.
    pub root: Option<&'static str>,
    /// The machine's shared folders, with the tag of each one's device.
    pub shares: Vec<(String, Share)>,
    pub watch: Watch,
    pub environment: Vec<OsString>,
    pub arguments: Vec<String>,
}

/// What the guest's init sends of the kernel's files while the program runs (host/guest/watch.h), in the job or for who attaches.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// Written before the program starts: FILE=TEXT.
    pub set: Vec<String>,
    /// Sent before the program starts, then again and again, and when it has ended.
    pub files: Vec<&'static str>,
    /// Which of them tells of threads, whose mappings come as one more file.
    pub maps: Option<usize>,
    /// Between two times; zero: only at the two ends.
    pub every: Duration,
}

/// Who a program is in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub umask: u32,
}

impl Watch {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields: Vec<_> = self.set.iter().map(|word| ("set", word.clone())).collect();
        fields.extend(self.files.iter().map(|file| ("watch", (*file).to_owned())));
        fields.extend(self.maps.map(|number| ("maps", number.to_string())));
        if !self.files.is_empty() {
            fields.push(("every", self.every.as_millis().to_string()));
        }
        fields
    }

    /// For who attaches: key and value, each ended by NUL, as a job has them.
    pub fn encode(&self) -> Vec<u8> {
        let fields = self.fields().into_iter();
        fields.flat_map(|(key, value)| format!("{key}\0{value}\0").into_bytes()).collect()
    }
}

impl Default for Job {
    /// Root without input in /root, on a packed root.
    fn default() -> Self {
        Self {
            tty: false,
            input: false,
            folder: "/root".into(),
            user: None,
            modules: Vec::new(),
            root: None,
            shares: Vec::new(),
            watch: Watch::default(),
            environment: Vec::new(),
            arguments: Vec::new(),
        }
    }
}

impl Job {
    /// Key and value, each ended by NUL; refused where a word holds one itself.
    fn encode(&self) -> Result<Vec<u8>> {
        let mut fields: Vec<(&str, OsString)> = Vec::new();
        let mut field = |key, value: &dyn AsRef<OsStr>| fields.push((key, value.as_ref().to_owned()));
        field("mode", &if self.tty { "tty" } else { "pipes" });
        field("cwd", &self.folder);
        field("hostname", &"darter");
        if !self.input {
            field("input", &"none");
        }
        self.modules.iter().for_each(|module| field("module", module));
        if let Some(tag) = self.root {
            field("root", &tag);
        }
        for (tag, share) in &self.shares {
            field("tag", tag);
            field(if share.writes { "rw" } else { "share" }, &share.at);
        }
        if let Some(user) = &self.user {
            field("uid", &user.uid.to_string());
            field("gid", &user.gid.to_string());
            user.groups.iter().for_each(|group| field("group", &group.to_string()));
            field("umask", &format!("{:o}", user.umask));
        }
        self.watch.fields().into_iter().for_each(|(key, value)| field(key, &value));
        self.environment.iter().for_each(|word| field("env", word));
        self.arguments.iter().for_each(|word| field("arg", word));
        let mut bytes = Vec::new();
        for (key, value) in fields {
            if value.as_bytes().contains(&0) {
                return Err(usage(format!("{value:?} holds a NUL byte")));
            }
            for word in [key.as_bytes(), value.as_bytes()] {
                bytes.extend_from_slice(word);
                bytes.push(0);
            }
        }
        Ok(bytes)
    }
}

/// The shared part: the file in the cache. It has the kernel's `modules` too, which a job names.
pub fn prepare(
    paths: &paths::Tree,
    root: &Root,
    additions: &[Addition],
    modules: &[PathBuf],
    memory: u64,
) -> Result<PathBuf> {
    let mut tree = tree::Tree::default();
    match root {
        Root::Busybox => busybox::fill(&mut tree)?,
        Root::Archive(path) => sources::archive(&mut tree, path, &paths.cache("archives")?)?,
        Root::Host | Root::Folder(_) => {}
    }
    first_program(&mut tree, paths)?;
    if root.live().is_none() {
        common(&mut tree, paths)?;
    }
    for addition in additions {
        let inserted = match root {
            // What it needs stands there as it stands here.
            Root::Host => live::add(&mut tree, addition, false),
            Root::Folder(_) => live::add(&mut tree, addition, true),
            Root::Busybox | Root::Archive(_) => addition.insert(&mut tree),
        };
        inserted.with_context(|| format!("cannot add {} to the guest", addition.source.display()))?;
    }
    for module in modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        tree.insert(&format!("{MODULES}/{name}"), Entry::program(module))?;
    }
    let size = tree.size();
    if size > LARGEST {
        return Err(usage(format!(
            "the guest's initramfs would have {}, and it can take {} at most: unpack an archive, and give the folder with --root DIR, which is not packed",
            show_bytes(size),
            show_bytes(LARGEST)
        )));
    }
    // The archive and the files made from it stand in memory at the same time.
    if size > memory / 5 * 2 {
        return Err(usage(format!(
            "the guest's initramfs has {}, too much for a guest with {}: give --memory {} or more",
            show_bytes(size),
            show_bytes(memory),
            format_args!("{}G", (size / 2 * 5).div_ceil(1 << 30) + 1)
        )));
    }
    let cache = paths.cache("initramfs")?;
    let file = cache.join(format!("{}.cpio", tree.fingerprint()?));
    if !file.is_file() {
        let new = tempfile::NamedTempFile::new_in(&cache)?;
        let bar = progress::of("packing the guest's files", size);
        let mut to = BufWriter::new(bar.wrap_write(new.as_file()));
        tree.write(&mut to)?;
        to.flush()?;
        bar.finish_and_clear();
        drop(to);
        new.persist(&file)?;
        drop_old(&cache)?;
    }
    Ok(file)
}

/// The file of this machine that the guest has at `place`, as far as it is told from the root and what is added to it: not of what stands in an archive.
pub fn source_of(paths: &paths::Tree, root: &Root, additions: &[Addition], place: &Path) -> Option<PathBuf> {
    let added = additions.iter().find_map(|addition| {
        let rest = place.strip_prefix(&addition.destination).ok()?;
        Some(if rest.as_os_str().is_empty() { addition.source.clone() } else { addition.source.join(rest) })
    });
    let inside = place.strip_prefix("/").ok()?;
    let of_root = || match root {
        Root::Host | Root::Folder(_) => root.live().map(|live| live.join(inside)),
        Root::Archive(_) => None,
        Root::Busybox if inside == Path::new("bin/busybox") => busybox::find().ok(),
        // Benchmarks; and libraries that were added stand where they stand here.
        Root::Busybox => match inside.strip_prefix("bin") {
            Ok(name) => Some(paths.benchmarks().join(name)),
            Err(_) => Some(place.to_owned()),
        },
    };
    added.or_else(of_root).filter(|file| file.is_file())
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

/// What a kernel needs to start the guest's first program.
fn first_program(tree: &mut tree::Tree, paths: &paths::Tree) -> Result<()> {
    tree.insert_missing("dev", Entry::directory(0o755))?;
    // Linux opens the console before init can mount anything.
    for (name, major, minor) in [("dev/console", 5, 1), ("dev/null", 1, 3)] {
        tree.insert_missing(name, Entry::new(Kind::Character { major, minor }, 0o600))?;
    }
    let init = paths.guest_init();
    if !init.is_file() {
        bail!("{} is missing: run 'make guest'", init.display());
    }
    tree.insert("init", Entry::program(&init))
}

/// What every packed root has.
fn common(tree: &mut tree::Tree, paths: &paths::Tree) -> Result<()> {
    for (name, mode) in
        [("proc", 0o555), ("sys", 0o555), ("run", 0o755), ("tmp", 0o1777), ("root", 0o700), ("etc", 0o755)]
    {
        tree.insert_missing(name, Entry::directory(mode))?;
    }
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
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_job_is_keys_and_values() {
        let job = Job {
            tty: false,
            input: true,
            shares: vec![("t".into(), Share { folder: "/".into(), at: "/at".into(), writes: false })],
            environment: vec!["A=b".into()],
            arguments: vec!["sh".into(), String::new()],
            ..Job::default()
        };
        let bytes = job.encode().unwrap();
        assert!(
            bytes.starts_with(b"mode\0pipes\0cwd\0/root\0hostname\0darter\0tag\0t\0share\0/at\0env\0A=b\0")
        );
        assert!(bytes.ends_with(b"arg\0sh\0arg\0\0"));
        let job = Job { arguments: vec!["a\0b".into()], ..job };
        assert!(job.encode().is_err());
    }

    #[test]
    fn a_job_on_a_live_root_says_where_it_is_and_whose() {
        let job = Job {
            folder: OsString::from_vec(b"/a\xff".into()),
            user: Some(User { uid: 1000, gid: 100, groups: vec![4, 24], umask: 0o27 }),
            modules: vec!["a.ko".into(), "b.ko".into()],
            root: Some("root"),
            ..Job::default()
        };
        let shown = job
            .encode()
            .unwrap()
            .iter()
            .map(|byte| if *byte == 0 { b'|' } else { *byte })
            .collect::<Vec<_>>();
        let wanted = b"mode|pipes|cwd|/a\xff|hostname|darter|input|none|module|a.ko|module|b.ko|root|root|\
                       uid|1000|gid|100|group|4|group|24|umask|27|";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_folder_and_this_machine_are_live() {
        let live = |text: &str| Root::parse(text).unwrap().live().map(Path::to_owned);
        assert_eq!(live("host"), Some("/".into()));
        assert_eq!(live("src"), Some("src".into()));
        assert_eq!(live("busybox"), None);
        assert_eq!(live("Cargo.toml"), None);
    }
}
