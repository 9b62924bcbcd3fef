//! What goes over the socket of a machine: frames, each a byte for its kind, a u32 length (little endian) and the data.
//!
//!     owner    H  which machine it is, at first (`About`, JSON)
//!              P  a piece of a watched file, as the guest's init sends it (host/guest/watch.h)
//!              N  the watching has ended, or is not to be: why, in words; without any: as it was asked for
//!              E  the machine's program has ended, or the machine (`Over`, JSON)
//!     watcher  V  what it wants, once, in the words of host/guest/watch.h; without any: no more
//!
//! Who only wants to know which machines run closes after H. A watcher that goes without a word has gone all the same.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::cli::MachineOptions;
use crate::machine::Machine;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::outcome::End;
use crate::root::{Addition, Root};

/// Of these frames and what is in them.
pub const VERSION: u32 = 1;
/// Most bytes of a request; as in host/guest/watch.h.
pub const REQUEST: usize = 512;
/// Most bytes of a frame.
const LONGEST: usize = 1 << 20;
const HEADER: usize = 5;
/// Characters of a command that are told.
const COMMAND: usize = 1000;

pub const HELLO: u8 = b'H';
pub const PIECE: u8 = b'P';
pub const NO_MORE: u8 = b'N';
pub const OVER: u8 = b'E';
pub const WANTED: u8 = b'V';

/// A machine that runs: what is shown of it, and what names for its addresses come from.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct About {
    pub version: u32,
    /// Who owns it.
    pub pid: u32,
    /// As `--kernel` names it.
    pub kernel: String,
    pub image: PathBuf,
    /// When the image was written, as it was booted.
    pub image_written: Option<SystemTime>,
    pub cpus: u32,
    pub root: Root,
    pub add: Vec<Addition>,
    /// Programs lie at the same addresses each time.
    pub same_addresses: bool,
    /// The source tree of who owns it.
    pub tree: PathBuf,
    /// In one line.
    pub command: String,
    /// Who watches it.
    pub watcher: Option<u32>,
}

/// What a machine runs.
pub struct Guest<'a> {
    pub kernel: &'a Kernel,
    /// Words on its command line.
    pub append: &'a [String],
    pub root: &'a Root,
    pub add: &'a [Addition],
    pub command: &'a [String],
}

impl About {
    /// # Errors
    /// There is no current folder, from which paths go.
    pub fn new(machine: &Machine, guest: &Guest<'_>) -> Result<Self> {
        let Guest { kernel, append, root, add, command } = *guest;
        let tree = Tree::find();
        let image = std::path::absolute(kernel.path(&tree))?;
        let root = match root {
            Root::Folder(path) => Root::Folder(std::path::absolute(path)?),
            other => other.clone(),
        };
        let add = add.iter().map(|addition| {
            Ok(Addition {
                source: std::path::absolute(&addition.source)?,
                destination: addition.destination.clone(),
            })
        });
        Ok(Self {
            version: VERSION,
            pid: std::process::id(),
            kernel: kernel.name(),
            image_written: written(&image),
            image,
            cpus: machine.cpus,
            root,
            add: add.collect::<Result<_>>()?,
            same_addresses: append
                .iter()
                .any(|words| words.split_whitespace().any(|word| word == "norandmaps")),
            tree: tree.root().to_owned(),
            command: in_a_line(command),
            watcher: None,
        })
    }

    /// The kernel, by a name that leads to its file wherever this process's own tree is.
    pub fn kernel(&self) -> Kernel {
        let mine = Kernel::Darter;
        if self.image == mine.path(&Tree::find()) { mine } else { Kernel::File(self.image.clone()) }
    }

    /// Has the kernel's file changed since it was booted, so that its names may be wrong?
    pub fn is_older_than_its_file(&self) -> bool {
        written(&self.image) != self.image_written
    }

    /// The machine, as far as it matters to who shows what came from it.
    pub fn describe(&self, options: &mut MachineOptions) {
        options.kernel = self.kernel();
        options.cpus = self.cpus;
        options.root = self.root.clone();
        options.add = self.add.clone();
    }
}

fn written(image: &Path) -> Option<SystemTime> {
    image.metadata().and_then(|about| about.modified()).ok()
}

fn in_a_line(command: &[String]) -> String {
    let words = command.iter().flat_map(|word| word.split_whitespace());
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(COMMAND).collect()
}

/// How a machine ended that was watched.
#[derive(Serialize, Deserialize, Debug)]
pub struct Over {
    pub end: End,
    /// As `Outcome` has it.
    pub stall: Option<String>,
}

/// Appends a frame.
pub fn put(kind: u8, data: &[u8], to: &mut Vec<u8>) {
    to.push(kind);
    to.extend_from_slice(&(data.len() as u32).to_le_bytes());
    to.extend_from_slice(data);
}

/// Appends a frame with JSON in it.
///
/// # Errors
/// It has a path that is no text.
pub fn put_json(kind: u8, value: &impl Serialize, to: &mut Vec<u8>) -> Result<()> {
    put(kind, &serde_json::to_vec(value).context("a path is no text")?, to);
    Ok(())
}

/// Puts frames together from pieces.
pub struct Frames {
    pending: Vec<u8>,
    longest: usize,
}

impl Frames {
    /// From an owner.
    pub fn of_owner() -> Self {
        Self { pending: Vec::new(), longest: LONGEST }
    }

    /// From a watcher.
    pub fn of_watcher() -> Self {
        Self { pending: Vec::new(), longest: REQUEST }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next frame that is whole.
    ///
    /// # Errors
    /// It is longer than any that the other side sends.
    pub fn next(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let [kind, a, b, c, d, rest @ ..] = self.pending.as_slice() else { return Ok(None) };
        let (kind, len) = (*kind, u32::from_le_bytes([*a, *b, *c, *d]) as usize);
        ensure!(len <= self.longest, "a frame of {len} bytes");
        let Some(data) = rest.get(..len) else { return Ok(None) };
        let data = data.to_vec();
        self.pending.drain(..HEADER + len);
        Ok(Some((kind, data)))
    }
}

/// What the first frame of an owner says.
///
/// # Errors
/// It is none, or another version's.
pub fn about(kind: u8, data: &[u8]) -> Result<About> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    ensure!(kind == HELLO, "its first frame is none");
    let Version { version } = serde_json::from_slice(data).context("its first frame")?;
    if version != VERSION {
        bail!(
            "it was started by another version of darter, which speaks version {version} and not {VERSION}"
        );
    }
    serde_json::from_slice(data).context("its first frame")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        let mut bytes = Vec::new();
        put(PIECE, b"abc", &mut bytes);
        put(NO_MORE, b"", &mut bytes);
        for cut in 1..bytes.len() {
            let (mut frames, mut found) = (Frames::of_owner(), Vec::new());
            for piece in bytes.chunks(cut) {
                frames.take(piece);
                while let Some(frame) = frames.next().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, [(PIECE, b"abc".to_vec()), (NO_MORE, Vec::new())]);
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused() {
        let mut frames = Frames::of_watcher();
        frames.take(&[WANTED, 1, 2, 0, 0]);
        assert!(frames.next().is_err());
    }

    #[test]
    fn another_version_says_so() {
        let error = about(HELLO, br#"{"version":99,"new":1}"#).unwrap_err().to_string();
        assert!(error.contains("version 99"), "{error}");
        assert!(about(PIECE, b"").is_err());
    }

    #[test]
    fn a_command_is_one_line() {
        let words = ["sh", "-c", "a\n\tb \x1b[1m", "c d"].map(String::from);
        assert_eq!(in_a_line(&words), "sh -c a b [1m c d");
    }
}
