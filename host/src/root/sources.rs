//! A tar archive as the root, and files and folders added to a root.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::tree::{Data, Entry, Kind, Tree};
use super::{elf, progress};

/// A file or folder for the guest, as `--add SRC[:DST]` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addition {
    pub source: PathBuf,
    /// Absolute in the guest.
    pub destination: PathBuf,
}

impl Addition {
    /// Without DST an absolute SRC keeps its place, and a relative one stands at the same path below /root, which is
    /// where programs start: `--add build/prog -- build/prog`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (source, destination) = match text.rsplit_once(':') {
            Some((source, destination)) => (source, Some(destination)),
            None => (text, None),
        };
        let source = PathBuf::from(source);
        if std::fs::symlink_metadata(&source).is_err() {
            return Err(format!("there is no file {}", source.display()));
        }
        let destination = match destination {
            Some(path) if path.starts_with('/') => path.into(),
            Some(path) => return Err(format!("'{path}' must be an absolute path in the guest")),
            None if source.is_absolute() => source.clone(),
            None => {
                let plain = source.components().filter(|part| matches!(part, Component::Normal(_)));
                Path::new("/root").join(plain.collect::<PathBuf>())
            }
        };
        Ok(Self { source, destination })
    }

    /// Into the files of a packed root, with what a dynamic program needs.
    pub fn insert(&self, tree: &mut Tree) -> Result<()> {
        self.insert_alone(tree, Path::new("/"))?;
        for (there, here) in self.dependencies()? {
            // A root's own libraries stay: its programs were linked with them.
            tree.insert_missing(text(&there)?, Entry::program(&here))?;
        }
        Ok(())
    }

    /// The file or folder itself, at its place below `root`.
    pub fn insert_alone(&self, tree: &mut Tree, root: &Path) -> Result<()> {
        let place = root.join(self.destination.strip_prefix("/").unwrap_or(&self.destination));
        if self.source.is_dir() {
            return walk(tree, &self.source, text(&place)?);
        }
        let mode = std::fs::metadata(&self.source)?.permissions().mode();
        tree.insert(text(&place)?, Entry::new(Kind::File(Data::File(self.source.clone())), mode))
    }

    /// What a dynamic program needs.
    pub fn dependencies(&self) -> Result<elf::Libraries> {
        if self.source.is_dir() { Ok(elf::Libraries::new()) } else { elf::dependencies(&self.source) }
    }
}

pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the name {} is not UTF-8", path.display()))
}

fn walk(tree: &mut Tree, from: &Path, to: &str) -> Result<()> {
    // As root the owners are kept; anybody else's own files become root's in the guest.
    let keep_owner = rustix::process::geteuid().is_root();
    let entries =
        std::fs::read_dir(from).with_context(|| format!("cannot read the folder {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let (Ok(about), Some(name)) = (entry.metadata(), entry.file_name().to_str().map(str::to_owned))
        else {
            note!("darter: {} left out", path.display());
            continue;
        };
        let name = format!("{to}/{name}");
        let kind = about.file_type();
        let kind = if kind.is_dir() {
            Kind::Directory
        } else if kind.is_symlink() {
            Kind::Link(text(&std::fs::read_link(&path)?)?.to_owned())
        } else if kind.is_file() {
            if rustix::fs::access(&path, rustix::fs::Access::READ_OK).is_err() {
                note!("darter: {} left out: it cannot be read", path.display());
                continue;
            }
            Kind::File(Data::File(path.clone()))
        } else if kind.is_char_device() {
            let device = about.rdev();
            Kind::Character { major: rustix::fs::major(device), minor: rustix::fs::minor(device) }
        } else {
            continue; // sockets, named pipes, disks: nothing of them would work in the guest
        };
        let is_folder = matches!(kind, Kind::Directory);
        let mut node = Entry::new(kind, about.permissions().mode());
        if keep_owner {
            (node.uid, node.gid) = (about.uid(), about.gid());
        }
        tree.insert(&name, node)?;
        if is_folder {
            walk(tree, &path, &name)?;
        }
    }
    Ok(())
}

/// A tar archive as the root; one that is compressed is unpacked into `cache` first.
pub fn archive(tree: &mut Tree, path: &Path, cache: &Path) -> Result<()> {
    let plain = decompressed(path, cache)?;
    let file = File::open(&plain).with_context(|| format!("cannot read {}", plain.display()))?;
    let mut archive = tar::Archive::new(file);
    let wrong = || format!("{} is no tar archive that can be read", path.display());
    for entry in archive.entries().with_context(wrong)? {
        let entry = entry.with_context(wrong)?;
        let name = entry.path()?.into_owned();
        let name = text(&name)?.to_owned();
        let header = entry.header();
        let kind = match header.entry_type() {
            tar::EntryType::Directory => Kind::Directory,
            tar::EntryType::Regular | tar::EntryType::Continuous => Kind::File(Data::Part {
                file: plain.clone(),
                offset: entry.raw_file_position(),
                size: entry.size(),
            }),
            tar::EntryType::Symlink => {
                let target = entry.link_name()?.with_context(wrong)?;
                Kind::Link(text(&target)?.to_owned())
            }
            tar::EntryType::Link => {
                let target = entry.link_name()?.with_context(wrong)?;
                let target = text(&target)?.to_owned();
                tree.copy_entry(&target, &name).with_context(wrong)?;
                continue;
            }
            tar::EntryType::Char => Kind::Character {
                major: header.device_major()?.unwrap_or(0),
                minor: header.device_minor()?.unwrap_or(0),
            },
            _ => continue,
        };
        // Some writers leave these fields empty.
        let mut node = Entry::new(kind, header.mode().unwrap_or(0o644));
        (node.uid, node.gid) = (header.uid().unwrap_or(0) as u32, header.gid().unwrap_or(0) as u32);
        tree.insert(&name, node)?;
    }
    Ok(())
}

fn decompressed(path: &Path, cache: &Path) -> Result<PathBuf> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut magic = [0u8; 4];
    let got = file.read(&mut magic)?;
    match &magic[..got] {
        [0x1f, 0x8b, ..] => {}
        [0x28, 0xb5, 0x2f, 0xfd] | [0xfd, b'7', b'z', b'X'] | [b'B', b'Z', b'h', _] => bail!(
            "{} is compressed in a way that darter does not read; unpack it, or use gzip",
            path.display()
        ),
        _ => return Ok(path.to_owned()),
    }
    let about = file.metadata()?;
    let key = format!("{}-{}-{}-{}.tar", about.dev(), about.ino(), about.mtime(), about.mtime_nsec());
    let plain = cache.join(key);
    if !plain.is_file() {
        let mut to = tempfile::NamedTempFile::new_in(cache)?;
        let bar = progress::of("unpacking the archive", about.len());
        let from = bar.wrap_read(File::open(path)?);
        std::io::copy(&mut flate2::read::MultiGzDecoder::new(from), &mut to)
            .with_context(|| format!("cannot unpack {}", path.display()))?;
        bar.finish_and_clear();
        to.persist(&plain)?;
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_has_a_place_in_the_guest() {
        let at = |text: &str| Addition::parse(text).map(|a| a.destination.display().to_string());
        assert_eq!(at("Cargo.toml"), Ok("/root/Cargo.toml".into()));
        assert_eq!(at("./src/main.rs"), Ok("/root/src/main.rs".into()));
        assert_eq!(at("/etc/passwd"), Ok("/etc/passwd".into()));
        assert_eq!(at("Cargo.toml:/x/y"), Ok("/x/y".into()));
        assert!(at("Cargo.toml:x").is_err());
        assert!(at("no-such-file").is_err());
    }

    #[test]
    fn a_tar_archive_becomes_a_root_hard_links_and_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("root.tar.gz");
        let file = flate2::write::GzEncoder::new(File::create(&path).unwrap(), Default::default());
        let mut builder = tar::Builder::new(file);
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        header.set_mode(0o755);
        builder.append_data(&mut header.clone(), "./bin/a", &b"abc"[..]).unwrap();
        header.set_entry_type(tar::EntryType::Link);
        header.set_size(0);
        builder.append_link(&mut header, "./bin/b", "./bin/a").unwrap();
        builder.into_inner().unwrap().finish().unwrap();
        let mut tree = Tree::default();
        archive(&mut tree, &path, dir.path()).unwrap();
        assert!(tree.contains("bin/a") && tree.contains("bin/b"));
        assert_eq!(tree.size(), 6);
    }
}
