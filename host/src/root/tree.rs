//! The files of a guest, before they become a cpio archive: names with what stands there.
//!
//! A name is relative to the guest's root, without leading or trailing slash. Every folder on the way to an entry is
//! in the tree, and comes before it in the archive (the order of the names does that). Symbolic links on the way are
//! followed, so that adding lib/x to a tree whose lib is a link to usr/lib puts it where the guest will find it.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cpio::newc::{Builder, trailer};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;
/// As many links as Linux follows in one lookup.
const MOST_LINKS: usize = 40;

#[derive(Debug, Clone)]
pub enum Data {
    Bytes(Vec<u8>),
    File(PathBuf),
    /// A part of a file (a member of a tar archive).
    Part {
        file: PathBuf,
        offset: u64,
        size: u64,
    },
}

#[derive(Debug, Clone)]
pub enum Kind {
    Directory,
    File(Data),
    Link(String),
    Character { major: u32, minor: u32 },
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Entry {
    pub fn new(kind: Kind, mode: u32) -> Self {
        Self { kind, mode, uid: 0, gid: 0 }
    }

    pub fn directory(mode: u32) -> Self {
        Self::new(Kind::Directory, mode)
    }

    pub fn text(text: &str) -> Self {
        Self::new(Kind::File(Data::Bytes(text.into())), 0o644)
    }

    pub fn program(path: &Path) -> Self {
        Self::new(Kind::File(Data::File(path.into())), 0o755)
    }

    pub fn link(target: &str) -> Self {
        Self::new(Kind::Link(target.into()), 0o777)
    }
}

#[derive(Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Puts an entry at a name, in place of what stood there (a folder stays when a folder comes).
    pub fn insert(&mut self, name: &str, entry: Entry) -> Result<()> {
        let name = self.resolve(name)?;
        if name.is_empty() {
            return Ok(());
        }
        self.make_parents(&name);
        let below = format!("{name}/");
        let is_folder = matches!(entry.kind, Kind::Directory);
        if !is_folder
            && self.entries.range(below.clone()..).next().is_some_and(|(k, _)| k.starts_with(&below))
        {
            bail!("/{name} is a folder with files in it and cannot become something else");
        }
        self.entries.insert(name, entry);
        Ok(())
    }

    /// Puts an entry at a name unless something stands there.
    pub fn insert_missing(&mut self, name: &str, entry: Entry) -> Result<()> {
        let resolved = self.resolve(name)?;
        if self.entries.contains_key(&resolved) { Ok(()) } else { self.insert(name, entry) }
    }

    /// A hard link: the same contents under a second name.
    pub fn copy_entry(&mut self, from: &str, to: &str) -> Result<()> {
        let from = self.resolve(from)?;
        let Some(entry) = self.entries.get(&from).cloned() else {
            bail!("a hard link to /{from}, which is missing")
        };
        self.insert(to, entry)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.resolve(name).is_ok_and(|name| self.entries.contains_key(&name))
    }

    /// The name with the links on its way followed (not one at its end).
    fn resolve(&self, name: &str) -> Result<String> {
        let mut todo: Vec<String> = components(name).rev().map(str::to_owned).collect();
        let mut done: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            done.push(part);
            if todo.is_empty() {
                break;
            }
            if let Some(Entry { kind: Kind::Link(target), .. }) = self.entries.get(&done.join("/")) {
                links += 1;
                if links > MOST_LINKS {
                    bail!("/{name}: too many symbolic links on the way");
                }
                done.pop();
                if target.starts_with('/') {
                    done.clear();
                }
                todo.extend(components(target).rev().map(str::to_owned));
            }
        }
        Ok(done.join("/"))
    }

    fn make_parents(&mut self, name: &str) {
        for (at, _) in name.match_indices('/') {
            self.entries.entry(name[..at].to_owned()).or_insert_with(|| Entry::directory(0o755));
        }
    }

    /// Bytes of file contents. A file that has gone meanwhile counts nothing; whoever reads it says so.
    pub fn size(&self) -> u64 {
        self.entries.values().filter_map(|entry| Some(contents(entry).ok()?.1)).sum()
    }

    /// Names what the archive will hold: all names and attributes, small contents themselves, and the identity, size
    /// and time of the files that the large contents come from.
    pub fn fingerprint(&self) -> Result<String> {
        let mut hash = blake3::Hasher::new();
        for (name, entry) in &self.entries {
            let head = format!("{name}\0{:o} {} {}\0", entry.mode, entry.uid, entry.gid);
            hash.update(head.as_bytes());
            match &entry.kind {
                Kind::File(Data::Bytes(bytes)) => {
                    hash.update(&(bytes.len() as u64).to_le_bytes());
                    hash.update(bytes);
                }
                Kind::File(Data::File(path) | Data::Part { file: path, .. }) => {
                    let about = metadata(path)?;
                    let part = match &entry.kind {
                        Kind::File(Data::Part { offset, size, .. }) => (*offset, *size),
                        _ => (0, about.size()),
                    };
                    let identity = format!(
                        "{} {} {}.{} {part:?}\0",
                        about.dev(),
                        about.ino(),
                        about.mtime(),
                        about.mtime_nsec()
                    );
                    hash.update(identity.as_bytes());
                }
                other => {
                    hash.update(format!("{other:?}\0").as_bytes());
                }
            }
        }
        Ok(hash.finalize().to_hex().to_string())
    }

    /// Writes the tree as one cpio archive (newc), padded so that another can follow.
    pub fn write(&self, to: &mut impl Write) -> Result<()> {
        let mut to = Counter { inner: to, count: 0 };
        for (number, (name, entry)) in self.entries.iter().enumerate() {
            let (kind, size) = contents(entry)?;
            let size = u32::try_from(size).with_context(|| format!("/{name} is 4 GiB or larger"))?;
            let mut header = Builder::new(name)
                .ino(number as u32 + 1)
                .nlink(1)
                .mode(kind | (entry.mode & 0o7777))
                .uid(entry.uid)
                .gid(entry.gid);
            if let Kind::Character { major, minor } = entry.kind {
                header = header.rdev_major(major).rdev_minor(minor);
            }
            let mut body = header.write(&mut to, size);
            copy_contents(entry, &mut body).with_context(|| format!("cannot put /{name} into the guest"))?;
            body.finish().with_context(|| format!("/{name} changed while it was read"))?;
        }
        trailer(&mut to)?;
        let padding = to.count.next_multiple_of(512) - to.count;
        to.write_all(&vec![0; padding as usize])?;
        Ok(())
    }
}

fn components(name: &str) -> impl DoubleEndedIterator<Item = &str> {
    name.split('/').filter(|part| !part.is_empty() && *part != ".")
}

fn metadata(path: &Path) -> Result<std::fs::Metadata> {
    std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))
}

/// File type bits and size.
fn contents(entry: &Entry) -> Result<(u32, u64)> {
    Ok(match &entry.kind {
        Kind::Directory => (DIRECTORY, 0),
        Kind::File(Data::Bytes(bytes)) => (REGULAR, bytes.len() as u64),
        Kind::File(Data::File(path)) => (REGULAR, metadata(path)?.len()),
        Kind::File(Data::Part { size, .. }) => (REGULAR, *size),
        Kind::Link(target) => (LINK, target.len() as u64),
        Kind::Character { .. } => (CHARACTER, 0),
    })
}

fn copy_contents(entry: &Entry, to: &mut impl Write) -> Result<()> {
    match &entry.kind {
        Kind::Directory | Kind::Character { .. } => {}
        Kind::File(Data::Bytes(bytes)) => to.write_all(bytes)?,
        Kind::File(Data::File(path)) => {
            io::copy(&mut File::open(path)?, to)?;
        }
        Kind::File(Data::Part { file, offset, size }) => {
            let mut from = File::open(file)?;
            from.seek(SeekFrom::Start(*offset))?;
            io::copy(&mut from.take(*size), to)?;
        }
        Kind::Link(target) => to.write_all(target.as_bytes())?,
    }
    Ok(())
}

struct Counter<'a, W> {
    inner: &'a mut W,
    count: u64,
}

impl<W: Write> Write for Counter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.count += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut rest = archive;
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return found;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut data = Vec::new();
            reader.read_to_end(&mut data).unwrap();
            found.push((name, mode, data));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn a_folder_comes_before_what_is_in_it() {
        let mut tree = Tree::default();
        tree.insert("/usr/bin/a", Entry::text("A")).unwrap();
        tree.insert("bin", Entry::link("usr/bin")).unwrap();
        tree.insert("bin/b", Entry::text("B")).unwrap();
        tree.insert_missing("usr/bin/b", Entry::text("not this")).unwrap();
        let mut archive = Vec::new();
        tree.write(&mut archive).unwrap();
        assert_eq!(archive.len() % 512, 0);
        let found = names(&archive);
        let order: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(order, ["bin", "usr", "usr/bin", "usr/bin/a", "usr/bin/b"]);
        assert_eq!(found[0].1, 0o120_777);
        assert_eq!(found[0].2, b"usr/bin");
        assert_eq!(found[4].2, b"B");
    }

    #[test]
    fn links_that_go_round_are_refused_and_dots_stay_inside() {
        let mut tree = Tree::default();
        tree.insert("a", Entry::link("b")).unwrap();
        tree.insert("b", Entry::link("/a")).unwrap();
        assert!(tree.insert("a/x", Entry::text("")).is_err());
        tree.insert("../../etc/x", Entry::text("")).unwrap();
        assert!(tree.contains("/etc/x"));
        assert!(tree.insert("etc", Entry::text("")).is_err());
    }

    #[test]
    fn the_fingerprint_follows_the_contents() {
        let print = |text: &str| {
            let mut tree = Tree::default();
            tree.insert("etc/motd", Entry::text(text)).unwrap();
            tree.fingerprint().unwrap()
        };
        assert_eq!(print("a"), print("a"));
        assert_ne!(print("a"), print("b"));
    }
}
