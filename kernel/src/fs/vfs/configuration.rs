//! File systems that are set up step by step before they are mounted, or are changed so (fsopen(2), fspick(2), fsconfig(2)): the options so far, how far it has
//! come, and what went wrong in words. `anon::fscontext` is the file.
//!
//! ```text
//! fsopen ─► Options ──create──► Made ──mounted──► Resting ──any command──► Changes ◄─ fspick
//!                │                                   ▲                      │    │
//!                └────────► Failed ◄─────────────────┼──────────────────────┘    │
//!                                                    └────────reconfigure────────┘
//! ```
//!
//! Whoever uses one holds its file's lock.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;

use sync::TryVec;

use super::dentry::DentryRef;
use super::parameters::{Parameters, Refused, Value};
use super::superblock::{FsType, Mounting, READ_ONLY, SuperBlock};
use crate::errno::{EBUSY, EINVAL, EMSGSIZE, ENODATA, EPERM, Errno, Result};

/// Messages that are kept: when there is one more the oldest goes.
const MESSAGES: usize = 8;
/// The text of options, with its NUL.
const TEXT_MAX: usize = 4096;
/// Flags of a super block by name: to set, and to clear.
const SET: [(&[u8], u32); 5] =
    [(b"dirsync", 128), (b"lazytime", 1 << 25), (b"mand", 64), (b"ro", READ_ONLY), (b"sync", 16)];
const CLEAR: [(&[u8], u32); 4] =
    [(b"async", 16), (b"nolazytime", 1 << 25), (b"nomand", 64), (b"rw", READ_ONLY)];
/// Those that can be changed while it is mounted: MS_RDONLY, MS_SYNCHRONOUS, MS_MANDLOCK, MS_I_VERSION, MS_LAZYTIME.
pub const CHANGED: u32 = READ_ONLY | 16 | 64 | 1 << 23 | 1 << 25;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It gets the options to be made with.
    Options,
    /// It waits for its mount.
    Made,
    /// It is mounted, and no option was given since.
    Resting,
    /// It gets options to be changed with.
    Changes,
    Failed,
}

pub struct Configuration {
    kind: &'static FsType,
    phase: Phase,
    /// Options as mount(2) takes them, all of which the file system knows.
    options: Vec<u8>,
    /// Flags of the super block to be set, and those that were named at all.
    flags: u32,
    named: u32,
    source: Option<Vec<u8>>,
    made: Option<Made>,
    log: Vec<Vec<u8>>,
}

/// What is to be mounted.
#[derive(Clone)]
pub struct Made {
    pub superblock: Arc<SuperBlock>,
    pub root: DentryRef,
}

impl Configuration {
    /// Of a file system that is to be made.
    pub fn new(kind: &'static FsType) -> Configuration {
        Configuration {
            kind,
            phase: Phase::Options,
            options: Vec::new(),
            flags: 0,
            named: 0,
            source: None,
            made: None,
            log: Vec::new(),
        }
    }

    /// Of one that is there.
    pub fn of(made: Made) -> Configuration {
        let new = Configuration::new(made.superblock.kind);
        Configuration { phase: Phase::Changes, made: Some(made), ..new }
    }

    pub fn kind(&self) -> &'static FsType {
        self.kind
    }

    /// The oldest message.
    ///
    /// # Errors
    /// ENODATA: there is none. EMSGSIZE: it is longer than `room`, and stays.
    pub fn take_message(&mut self, room: usize) -> Result<Vec<u8>> {
        let oldest = self.log.first().ok_or(ENODATA)?;
        if oldest.len() > room {
            return Err(EMSGSIZE);
        }
        Ok(self.log.remove(0))
    }

    /// Keeps a message: its kind, and its words. Without memory it is lost.
    fn say(&mut self, kind: u8, parts: &[&[u8]]) {
        let mut text = Vec::new();
        let head: &[u8] = &[kind, b' '];
        for part in [head].into_iter().chain(parts.iter().copied()).chain([&b"\n"[..]]) {
            if text.try_extend_from_slice(part).is_err() {
                return;
            }
        }
        if self.log.len() >= MESSAGES {
            self.log.remove(0);
        }
        let _ = self.log.try_push(text);
    }

    fn refuse<T>(&mut self, parts: &[&[u8]]) -> Result<T> {
        self.say(b'e', parts);
        Err(EINVAL)
    }

    /// The command after the one that it rests from.
    fn go_on(&mut self) {
        if self.phase == Phase::Resting {
            self.phase = Phase::Changes;
        }
    }

    /// An option.
    ///
    /// # Errors
    /// EBUSY: it takes none now. EINVAL: it is none, and the log says why. ENOMEM.
    pub fn set(&mut self, key: &[u8], value: Value<'_>) -> Result {
        self.go_on();
        if !matches!(self.phase, Phase::Options | Phase::Changes) {
            return Err(EBUSY);
        }
        let flag = |list: &[(&[u8], u32)]| list.iter().find(|(name, _)| *name == key).map(|(_, flag)| *flag);
        if let Some(set) = flag(&SET) {
            self.flags |= set;
            self.named |= set;
            return Ok(());
        }
        if let Some(clear) = flag(&CLEAR) {
            self.flags &= !clear;
            self.named |= clear;
            return Ok(());
        }
        if key == b"source" {
            return self.set_source(value);
        }
        match self.kind.parameters {
            Parameters::Text => self.add_text(key, value),
            Parameters::Each(check) => match check(key, value) {
                Ok(()) => self.replace(key, value),
                Err(refused) => self.refuse_option(key, refused),
            },
            Parameters::None | Parameters::Never => self.refuse_option(key, Refused::Unknown),
        }
    }

    fn set_source(&mut self, value: Value<'_>) -> Result {
        let Value::Text(text) = value else { return self.refuse(&[b"Non-string source"]) };
        if self.source.is_some() {
            return self.refuse(&[b"Multiple sources"]);
        }
        self.source = Some(Vec::try_from_slice(text)?);
        Ok(())
    }

    fn refuse_option(&mut self, key: &[u8], refused: Refused) -> Result {
        let kind = self.kind.name.as_bytes();
        let what: &[u8] = match refused {
            Refused::Unknown => b": Unknown parameter '",
            Refused::Value | Refused::Id => b": Bad value for '",
            Refused::Unexpected => b": Unexpected value for '",
            Refused::Unsupported => b": Unsupported parameter '",
            Refused::Nobody(whose) => {
                return self.refuse(&[kind, b": Invalid ", whose.as_bytes(), b" '4294967295'"]);
            }
        };
        if refused == Refused::Id {
            self.say(b'e', &[kind, what, key, b"'"]);
        }
        self.refuse(&[kind, what, key, b"'"])
    }

    /// Puts an option behind the others, of which the one of that name goes.
    fn replace(&mut self, key: &[u8], value: Value<'_>) -> Result {
        let mut options = Vec::new();
        for option in self.options.split(|&byte| byte == b',') {
            if option.split(|&byte| byte == b'=').next() != Some(key) && !option.is_empty() {
                append(&mut options, &[option])?;
            }
        }
        append_option(&mut options, key, value)?;
        self.options = options;
        Ok(())
    }

    /// Adds an option of a file system that looks at them all at once, later.
    fn add_text(&mut self, key: &[u8], value: Value<'_>) -> Result {
        let text = match value {
            Value::Flag => &[],
            Value::Text(text) => text,
            Value::Other => {
                return self.refuse(&[b"VFS: Legacy: Parameter type for '", key, b"' not supported"]);
            }
        };
        let sign = usize::from(matches!(value, Value::Text(_)));
        // With a comma before and a NUL behind.
        let more = key.len().saturating_add(text.len()).saturating_add(sign).saturating_add(2);
        if self.options.len().saturating_add(more) > TEXT_MAX {
            return self.refuse(&[b"VFS: Legacy: Cumulative options too large"]);
        }
        if key.contains(&b',') || text.contains(&b',') {
            return self.refuse(&[b"VFS: Legacy: Option '", key, b"' contained comma"]);
        }
        append_option(&mut self.options, key, value)
    }

    /// Makes the file system. `may`: the caller may. May sleep.
    ///
    /// # Errors
    /// EBUSY: it is made, or that has failed. EPERM. Those of the file system.
    pub fn create(&mut self, may: bool) -> Result {
        self.go_on();
        if self.phase != Phase::Options {
            return Err(EBUSY);
        }
        if !may {
            return Err(EPERM);
        }
        self.phase = Phase::Failed;
        let asked = Mounting { source: self.source.as_deref(), options: &self.options };
        let superblock = (self.kind.mount)(self.kind, &asked)?;
        let root = superblock.root()?;
        superblock.set_flags(self.flags, u32::MAX);
        self.made = Some(Made { superblock, root });
        self.phase = Phase::Made;
        Ok(())
    }

    /// Gives what `create` made, with its source, to be mounted. It rests then.
    ///
    /// # Errors
    /// EINVAL: nothing is made. EBUSY: it is mounted already.
    pub fn take_made(&mut self) -> Result<(Made, Option<Vec<u8>>)> {
        let made = self.made.clone().ok_or(EINVAL)?;
        if self.phase != Phase::Made {
            return Err(EBUSY);
        }
        let source = self.source.take();
        self.rest();
        Ok((made, source))
    }

    /// What flags were named is remembered, as on Linux.
    fn rest(&mut self) {
        self.options.clear();
        self.flags = 0;
        self.source = None;
        self.phase = Phase::Resting;
    }

    /// Changes the file system. `may`: the caller may. `writes` says whether anybody has something of it open for writing, though it is read-only already. May sleep.
    ///
    /// # Errors
    /// EBUSY: it is not there yet, or that has failed, or somebody writes. EPERM. EINVAL: that cannot be changed.
    pub fn reconfigure(&mut self, may: bool, writes: impl FnOnce(&Arc<SuperBlock>) -> bool) -> Result {
        self.go_on();
        if self.phase != Phase::Changes {
            return Err(EBUSY);
        }
        self.phase = Phase::Failed;
        if !may {
            return Err(EPERM);
        }
        let made = self.made.clone().ok_or(EINVAL)?;
        if self.named & !CHANGED != 0 {
            return Err(EINVAL);
        }
        let options = take(&mut self.options);
        if let Err((error, why)) = reconfigure(&made.superblock, self.flags, self.named, &options, writes) {
            if !why.is_empty() {
                self.say(b'e', &[self.kind.name.as_bytes(), b": ", why.as_bytes()]);
            }
            return Err(error);
        }
        self.rest();
        Ok(())
    }
}

fn append(options: &mut Vec<u8>, parts: &[&[u8]]) -> Result {
    if !options.is_empty() {
        options.try_push(b',')?;
    }
    for part in parts {
        options.try_extend_from_slice(part)?;
    }
    Ok(())
}

fn append_option(options: &mut Vec<u8>, key: &[u8], value: Value<'_>) -> Result {
    match value {
        Value::Text(text) => append(options, &[key, b"=", text]),
        Value::Flag | Value::Other => append(options, &[key]),
    }
}

/// Changes a file system that is mounted: its options, and of its flags those of `named`. May sleep.
///
/// # Errors
/// EBUSY: it is to be read-only, and somebody writes. EINVAL: an option cannot be changed, and perhaps why.
pub fn reconfigure(
    superblock: &Arc<SuperBlock>,
    flags: u32,
    named: u32,
    options: &[u8],
    writes: impl FnOnce(&Arc<SuperBlock>) -> bool,
) -> core::result::Result<(), (Errno, &'static str)> {
    let _one = superblock.changes.lock();
    let closes = flags & named & READ_ONLY != 0 && !superblock.is_read_only();
    if closes {
        // Who opens from here on is refused, and who has opened before is seen.
        superblock.set_flags(READ_ONLY, READ_ONLY);
    }
    let changed = if closes && writes(superblock) {
        Err((EBUSY, ""))
    } else {
        superblock.ops.remount(superblock, &Mounting { source: None, options })
    };
    if changed.is_err() && closes {
        superblock.set_flags(0, READ_ONLY);
    }
    changed?;
    superblock.set_flags(flags, named);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &[u8], _: Value<'_>) -> core::result::Result<(), Refused> {
        if matches!(key, b"size" | b"mode") { Ok(()) } else { Err(Refused::Unknown) }
    }

    static EACH: FsType = FsType {
        name: "each",
        magic: 0,
        nodev: true,
        mount: |_, _| Err(EINVAL),
        parameters: Parameters::Each(check),
    };
    static TEXT: FsType = FsType { parameters: Parameters::Text, name: "text", ..EACH };

    #[test]
    fn an_option_that_is_given_again_takes_the_place_of_the_first() {
        let mut new = Configuration::new(&EACH);
        for (key, value) in [(b"size", b"1"), (b"mode", b"2"), (b"size", b"3")] {
            new.set(key, Value::Text(value)).unwrap();
        }
        assert_eq!(new.options, b"mode=2,size=3");
        new.set(b"size", Value::Flag).unwrap();
        assert_eq!(new.options, b"mode=2,size");
    }

    #[test]
    fn the_log_keeps_the_last_messages() {
        let mut new = Configuration::new(&EACH);
        for key in 0..=MESSAGES as u8 {
            assert_eq!(new.set(&[b'a' + key], Value::Flag), Err(EINVAL));
        }
        assert_eq!(new.take_message(5), Err(EMSGSIZE));
        for key in 1..=MESSAGES as u8 {
            let name = char::from(b'a' + key);
            let text = std::format!("e each: Unknown parameter '{name}'\n");
            assert_eq!(new.take_message(text.len()).unwrap(), text.as_bytes());
        }
        assert_eq!(new.take_message(100), Err(ENODATA));
    }

    #[test]
    fn options_as_text_are_no_longer_than_a_page() {
        let mut new = Configuration::new(&TEXT);
        let value = [b'v'; 250];
        let taken = (0..100).filter(|_| new.set(b"k", Value::Text(&value)).is_ok()).count();
        assert_eq!(taken, 16);
        assert!(new.options.len() < TEXT_MAX);
    }

    #[test]
    fn one_that_has_failed_takes_nothing_more() {
        let mut new = Configuration::new(&EACH);
        assert_eq!(new.take_made().err(), Some(EINVAL));
        assert_eq!(new.create(false), Err(EPERM));
        assert_eq!(new.create(true), Err(EINVAL));
        assert_eq!(new.create(true), Err(EBUSY));
        assert_eq!(new.set(b"size", Value::Flag), Err(EBUSY));
        assert_eq!(new.reconfigure(true, |_| false), Err(EBUSY));
    }
}
