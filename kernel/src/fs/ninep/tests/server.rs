//! A server in memory: honest, unless a test has it lie.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;
use std::vec::Vec;

use super::super::client::Channel;
use super::super::message::{self, HEADER, Reader};
use crate::device::virtio::share::Exchange;
use crate::errno::*;
use crate::sched::Deadline;

pub type Bytes = Vec<u8>;

#[derive(Clone)]
pub struct File {
    pub mode: u32,
    pub version: u32,
    pub bytes: Bytes,
    pub names: Vec<(Bytes, u64)>,
    pub uid: u32,
    pub gid: u32,
    pub links: u64,
    pub rdev: u64,
    /// Accessed, modified, changed: seconds and nanoseconds.
    pub times: [(u64, u64); 3],
    pub xattrs: Vec<(Bytes, Bytes)>,
}

impl Default for File {
    fn default() -> File {
        File {
            mode: 0,
            version: 1,
            bytes: Vec::new(),
            names: Vec::new(),
            uid: 1000,
            gid: 100,
            links: 1,
            rdev: 0,
            times: [(5, 500), (6, 600), (7, 700)],
            xattrs: Vec::new(),
        }
    }
}

impl File {
    fn touch(&mut self) {
        self.version += 1;
        self.times[1].1 += 1;
        self.times[2].1 += 1;
    }
}

#[derive(Default)]
pub struct State {
    pub files: BTreeMap<u64, File>,
    pub fids: BTreeMap<u32, (u64, bool)>,
    /// Fids of extended attributes.
    pub values: BTreeMap<u32, Bytes>,
    /// Fids by which one is set: of which file, its name, its length, flags, and what was written.
    pub new_values: BTreeMap<u32, (u64, Bytes, u64, u32, Bytes)>,
    pub asked: Vec<u8>,
    /// Bytes that can be written yet; `None`: as many as one likes.
    pub space: Option<usize>,
    /// Bytes of a message that are written at the most.
    pub short_write: usize,
    /// Files are given to nobody.
    pub keeps_owner: bool,
    /// Files that were synced.
    pub synced: Vec<u64>,
    /// Bytes of an answer's data at the most.
    pub short: usize,
    /// Fids are paths: one of a name that was taken away leads nowhere, and what is moved takes them along.
    pub paths: BTreeMap<u32, (u64, Bytes)>,
    /// A file that is found by open fids alone.
    pub unlinked: Option<u64>,
    /// Changes an answer before it goes.
    pub lie: Option<Lie>,
    /// The next message of that kind is not answered yet, and who sent it is killed.
    pub hold: Option<u8>,
    pub held: Vec<(Exchange, Bytes)>,
    /// What happens once between the answer to a message of that kind and its coming.
    pub late: Option<(u8, Box<dyn FnOnce() + Send>)>,
}

pub type Lie = Box<dyn FnMut(u8, &mut Bytes) + Send>;

#[derive(Clone)]
pub struct Fake(Arc<Mutex<State>>);

pub const ROOT: u64 = 7;

pub fn qid(path: u64, file: &File) -> Bytes {
    let kind = if file.mode & 0o170_000 == 0o040_000 { 0x80 } else { 0u8 };
    [&[kind][..], &file.version.to_le_bytes(), &path.to_le_bytes()].concat()
}

pub fn text(bytes: &[u8]) -> Bytes {
    [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat()
}

/// An answer whole: size, kind, number, fields.
pub fn answer(kind: u8, tag: u16, fields: &[u8]) -> Bytes {
    let size = (HEADER + fields.len()) as u32;
    [&size.to_le_bytes()[..], &[kind], &tag.to_le_bytes(), fields].concat()
}

pub fn attributes(path: u64, file: &File) -> Bytes {
    let mut out = 0x7ffu64.to_le_bytes().to_vec();
    out.extend(qid(path, file));
    for n in [file.mode, file.uid, file.gid] {
        out.extend(n.to_le_bytes());
    }
    let size = file.bytes.len() as u64;
    for n in [file.links, file.rdev, size, 4096, size.div_ceil(512)] {
        out.extend(n.to_le_bytes());
    }
    for (seconds, ns) in file.times.into_iter().chain([(0, 0); 2]) {
        out.extend([seconds, ns].map(u64::to_le_bytes).as_flattened());
    }
    out
}

impl State {
    fn file(&self, fid: u32) -> Result<(u64, &File)> {
        let (path, is_open) = self.fids.get(&fid).ok_or(EBADF)?;
        let file = self.files.get(path).ok_or(ENOENT)?;
        if let Some((dir, name)) = self.paths.get(&fid).filter(|_| !is_open) {
            let dir = self.files.get(dir).ok_or(ENOENT)?;
            dir.names.iter().find(|(known, at)| known == name && at == path).ok_or(ENOENT)?;
        }
        if (self.unlinked == Some(*path) || file.links == 0) && !is_open {
            return Err(ENOENT);
        }
        Ok((*path, file))
    }

    fn file_mut(&mut self, fid: u32) -> Result<(u64, &mut File)> {
        let (path, _) = self.file(fid)?;
        Ok((path, self.files.get_mut(&path).ok_or(ENOENT)?))
    }

    /// Makes a file under a name.
    fn add(&mut self, dir: u32, name: &[u8], file: File) -> Result<u64> {
        let path = self.files.keys().max().unwrap() + 1;
        let (_, dir) = self.file_mut(dir)?;
        if dir.names.iter().any(|(known, _)| known == name) {
            return Err(EEXIST);
        }
        dir.names.push((name.to_vec(), path));
        dir.touch();
        self.files.insert(path, file);
        Ok(path)
    }

    /// Takes a name away; what it led to.
    fn take(&mut self, dir: u32, name: &[u8]) -> Result<u64> {
        let (_, dir) = self.file_mut(dir)?;
        let at = dir.names.iter().position(|(known, _)| known == name).ok_or(ENOENT)?;
        dir.touch();
        Ok(dir.names.remove(at).1)
    }

    fn lose(&mut self, path: u64) {
        let file = self.files.get_mut(&path).unwrap();
        file.links = if file.mode & 0o170_000 == 0o040_000 { 0 } else { file.links - 1 };
        file.touch();
    }

    /// Sets an attribute, or takes it away, as QEMU does when the fid is clunked.
    fn set_value(&mut self, (path, name, len, flags, value): (u64, Bytes, u64, u32, Bytes)) -> Result<Bytes> {
        if value.len() as u64 != len {
            return Err(EINVAL);
        }
        if self.space.is_some_and(|space| space < value.len()) {
            return Err(ENOSPC);
        }
        let file = self.files.get_mut(&path).ok_or(ENOENT)?;
        let at = file.xattrs.iter().position(|(known, _)| *known == name);
        match (at, flags, len) {
            (None, _, 0) | (None, 2, _) => return Err(ENODATA),
            (Some(_), 1, _) => return Err(EEXIST),
            (Some(at), _, 0) => drop(file.xattrs.remove(at)),
            (Some(at), ..) => file.xattrs[at].1 = value,
            (None, ..) => file.xattrs.push((name, value)),
        }
        file.times[2].1 += 1;
        Ok(Bytes::new())
    }

    fn write(&mut self, fid: u32, at: usize, data: &[u8]) -> Result<usize> {
        if let Some((.., value)) = self.new_values.get_mut(&fid) {
            assert_eq!(value.len(), at);
            value.extend(data);
            return Ok(data.len());
        }
        assert!(self.fids[&fid].1, "it is not open");
        let mut len = data.len().min(self.short_write);
        if let Some(space) = &mut self.space {
            len = len.min(*space);
            if len == 0 && !data.is_empty() {
                return Err(ENOSPC);
            }
            *space -= len;
        }
        let (_, file) = self.file_mut(fid)?;
        if file.bytes.len() < at + len {
            file.bytes.resize(at + len, 0);
        }
        file.bytes[at..at + len].copy_from_slice(&data[..len]);
        file.touch();
        Ok(len)
    }

    fn set(&mut self, mut fields: Reader<'_>) -> Result<Bytes> {
        let (fid, valid) = (fields.u32()?, fields.u32()?);
        let [mode, uid, gid] = [fields.u32()?, fields.u32()?, fields.u32()?];
        let size = fields.u64()? as usize;
        let keeps_owner = self.keeps_owner;
        let (_, file) = self.file_mut(fid)?;
        if valid & 6 != 0 && keeps_owner {
            return Err(EPERM);
        }
        let set = |bit: u32| valid & bit != 0;
        file.mode = if set(1) { file.mode & 0o170_000 | mode } else { file.mode };
        file.uid = if set(2) { uid } else { file.uid };
        file.gid = if set(4) { gid } else { file.gid };
        if set(8) {
            file.bytes.resize(size, 0);
        }
        file.touch();
        for n in 0..2 {
            let time = (fields.u64()?, fields.u64()?);
            if set(0x80 << n) {
                assert!(set(0x10 << n));
                file.times[n] = time;
            }
        }
        fields.end()?;
        Ok(Bytes::new())
    }

    fn serve(&mut self, kind: u8, mut fields: Reader<'_>) -> Result<Bytes> {
        match kind {
            100 => Ok([&fields.u32()?.to_le_bytes()[..], &text(b"9P2000.L")].concat()),
            104 => {
                let fid = fields.u32()?;
                assert!(self.fids.insert(fid, (ROOT, false)).is_none());
                Ok(qid(ROOT, &self.files[&ROOT]))
            }
            110 => {
                let (from, to, count) = (fields.u32()?, fields.u32()?, fields.u16()?);
                let (mut path, dir) = self.file(from)?;
                let mut out = count.to_le_bytes().to_vec();
                let mut by = self.paths.get(&from).cloned();
                if count == 1 {
                    let name = fields.text()?;
                    by = Some((path, name.to_vec()));
                    path = dir.names.iter().find(|(n, _)| n == name).ok_or(ENOENT)?.1;
                    out.extend(qid(path, &self.files[&path]));
                }
                if let Some(by) = by {
                    self.paths.insert(to, by);
                }
                assert!(self.fids.insert(to, (path, false)).is_none(), "fid {to} is in use");
                Ok(out)
            }
            12 => {
                let fid = fields.u32()?;
                let (path, file) = self.file(fid)?;
                let out = [&qid(path, file)[..], &[0; 4]].concat();
                self.fids.insert(fid, (path, true));
                Ok(out)
            }
            14 => {
                let (fid, name, flags) = (fields.u32()?, fields.text()?, fields.u32()?);
                let (mode, gid) = (fields.u32()?, fields.u32()?);
                fields.end()?;
                assert_eq!(flags, 0o100_302);
                let path = self.add(fid, name, File { mode: 0o100_000 | mode, gid, ..File::default() })?;
                self.fids.insert(fid, (path, true));
                self.paths.remove(&fid);
                Ok([&qid(path, &self.files[&path])[..], &[0; 4]].concat())
            }
            16 | 18 | 72 => {
                let (dir, name) = (fields.u32()?, fields.text()?);
                let mut file = File::default();
                match kind {
                    16 => (file.mode, file.bytes) = (0o120_777, fields.text()?.to_vec()),
                    18 => {
                        file.mode = fields.u32()?;
                        file.rdev = u64::from(fields.u32()?) << 8 | u64::from(fields.u32()?);
                    }
                    _ => (file.mode, file.links) = (0o040_000 | fields.u32()?, 2),
                }
                file.gid = fields.u32()?;
                fields.end()?;
                let path = self.add(dir, name, file)?;
                Ok(qid(path, &self.files[&path]))
            }
            26 => self.set(fields),
            30 => {
                let (fid, new, name) = (fields.u32()?, fields.u32()?, fields.text()?);
                let (_, file) = self.file(fid)?;
                let list = || file.xattrs.iter().flat_map(|(name, _)| [&name[..], &[0]].concat()).collect();
                let value = match file.xattrs.iter().find(|(known, _)| known == name) {
                    Some((_, value)) => value.clone(),
                    None if name.is_empty() => list(),
                    None => return Err(ENODATA),
                };
                let size = (value.len() as u64).to_le_bytes().to_vec();
                self.values.insert(new, value);
                Ok(size)
            }
            50 => {
                let (path, _) = self.file(fields.u32()?)?;
                self.synced.push(path);
                Ok(Bytes::new())
            }
            70 => {
                let (dir, fid, name) = (fields.u32()?, fields.u32()?, fields.text()?);
                fields.end()?;
                let (path, file) = self.file_mut(fid)?;
                file.links += 1;
                file.touch();
                let (_, dir) = self.file_mut(dir)?;
                dir.names.push((name.to_vec(), path));
                dir.touch();
                Ok(Bytes::new())
            }
            74 => {
                let (from, old, to, new) = (fields.u32()?, fields.text()?, fields.u32()?, fields.text()?);
                fields.end()?;
                let path = self.take(from, old)?;
                if let Ok(replaced) = self.take(to, new) {
                    self.lose(replaced);
                }
                let (to, dir) = self.file_mut(to)?;
                dir.names.push((new.to_vec(), path));
                dir.touch();
                let moved = (to, new.to_vec());
                let was = (self.file(from)?.0, old.to_vec());
                let fids: Vec<u32> =
                    self.paths.iter().filter(|(_, by)| **by == was).map(|(fid, _)| *fid).collect();
                fids.into_iter().for_each(|fid| drop(self.paths.insert(fid, moved.clone())));
                Ok(Bytes::new())
            }
            76 => {
                let (dir, name, flags) = (fields.u32()?, fields.text()?, fields.u32()?);
                fields.end()?;
                let (_, here) = self.file(dir)?;
                let path = here.names.iter().find(|(known, _)| known == name).ok_or(ENOENT)?.1;
                let file = &self.files[&path];
                let is_dir = file.mode & 0o170_000 == 0o040_000;
                match (is_dir, flags == 0x200) {
                    (true, false) => return Err(EISDIR),
                    (false, true) => return Err(ENOTDIR),
                    (true, true) if !file.names.is_empty() => return Err(ENOTEMPTY),
                    _ => {}
                }
                self.take(dir, name)?;
                self.lose(path);
                Ok(Bytes::new())
            }
            118 => {
                let (fid, at, count) = (fields.u32()?, fields.u64()?, fields.u32()? as usize);
                assert_eq!(fields.left(), count);
                let data = fields.rest().to_vec();
                Ok((self.write(fid, at as usize, &data)? as u32).to_le_bytes().to_vec())
            }
            32 => {
                let (fid, name) = (fields.u32()?, fields.text()?.to_vec());
                let (len, flags) = (fields.u64()?, fields.u32()?);
                let (path, _) = self.file(fid)?;
                self.new_values.insert(fid, (path, name, len, flags, Bytes::new()));
                Ok(Bytes::new())
            }
            22 => Ok(text(&self.file(fields.u32()?)?.1.bytes)),
            24 => {
                let (path, file) = self.file(fields.u32()?)?;
                Ok(attributes(path, file))
            }
            40 | 116 => {
                let (fid, at, count) = (fields.u32()?, fields.u64()?, fields.u32()?);
                if let Some(value) = self.values.get(&fid) {
                    let from = value.len().min(at as usize);
                    let data = &value[from..value.len().min(from + count as usize)];
                    return Ok([&(data.len() as u32).to_le_bytes()[..], data].concat());
                }
                assert!(self.fids[&fid].1, "it is not open");
                let (_, file) = self.file(fid)?;
                let count = (count as usize).min(self.short);
                let data = if kind == 116 {
                    let from = file.bytes.len().min(at as usize);
                    file.bytes[from..file.bytes.len().min(from + count)].to_vec()
                } else {
                    let mut data = Bytes::new();
                    for (n, (name, path)) in file.names.iter().enumerate().skip(at as usize) {
                        let file = &self.files[path];
                        let entry = [
                            &qid(*path, file)[..],
                            &(n as u64 + 1).to_le_bytes(),
                            &[(file.mode >> 12) as u8],
                        ];
                        let entry = [entry.concat(), text(name)].concat();
                        if data.len() + entry.len() > count {
                            break;
                        }
                        data.extend(entry);
                    }
                    data
                };
                Ok([&(data.len() as u32).to_le_bytes()[..], &data].concat())
            }
            120 => {
                let fid = fields.u32()?;
                self.paths.remove(&fid);
                if let Some(new) = self.new_values.remove(&fid) {
                    self.fids.remove(&fid);
                    return self.set_value(new);
                }
                let known = self.fids.remove(&fid).is_some() | self.values.remove(&fid).is_some();
                if known { Ok(Bytes::new()) } else { Err(EBADF) }
            }
            8 => {
                let mut out = [0x0102_1997u32.to_le_bytes(), 1024u32.to_le_bytes()].concat();
                for n in [1000, 400, 300, 50, 20, 1u64] {
                    out.extend(n.to_le_bytes());
                }
                out.extend(255u32.to_le_bytes());
                Ok(out)
            }
            other => panic!("a message {other}"),
        }
    }
}

impl Fake {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what was held back, for nobody.
    pub fn release(&self) {
        let held = core::mem::take(&mut self.lock().held);
        for (exchange, message) in held {
            let _ = self.lock().serve(message[4], message::entries(&message[HEADER..]));
            drop(exchange);
        }
    }

    /// Ends of directories have `.` and `..`, as QEMU lists them.
    pub fn new() -> Fake {
        let mut files = BTreeMap::new();
        let mut add = |path, mode, bytes: &[u8], names: &[(&[u8], u64)]| {
            let names = names.iter().map(|(name, path)| (name.to_vec(), *path)).collect();
            files.insert(path, File { mode, bytes: bytes.to_vec(), names, ..File::default() });
        };
        let long = [b'n'; 255];
        let names: [(&[u8], u64); 8] = [
            (b".", ROOT),
            (b"..", ROOT),
            (b"file", 8),
            (b"link", 9),
            (b"dir", 10),
            (b"again", 8),
            (&long, 11),
            (b"\xff\xfe", 12),
        ];
        add(ROOT, 0o040_755, b"", &names);
        add(8, 0o100_644, &pattern(100_001, 1), &[]);
        add(9, 0o120_777, b"file", &[]);
        add(10, 0o040_700, b"", &[]);
        add(11, 0o100_400, b"", &[]);
        add(12, 0o010_600, b"", &[]);
        files.get_mut(&8).unwrap().links = 2;
        Fake(Arc::new(Mutex::new(State {
            files,
            short: usize::MAX,
            short_write: usize::MAX,
            ..State::default()
        })))
    }
}

pub fn pattern(len: usize, seed: usize) -> Bytes {
    (0..len).map(|n| (n * 31 + n / 4096 + seed) as u8).collect()
}

impl Channel for Fake {
    fn data_most(&self) -> usize {
        128 << 10
    }

    fn ask(
        &self,
        mut exchange: Exchange,
        numbered: bool,
        _: Option<Deadline>,
        fill: &mut dyn FnMut(&mut [u8], u16) -> Result<usize>,
    ) -> Result<(Exchange, usize, u16)> {
        let tag = if numbered { 0x1234 } else { u16::MAX };
        let len = fill(exchange.message(), tag)?;
        let mut message = exchange.message()[..len].to_vec();
        exchange.sent_from(0, |bytes| message.extend_from_slice(bytes));
        let kind = message[4];
        assert_eq!(message[..4], (message.len() as u32).to_le_bytes());
        assert_eq!(message[5..7], tag.to_le_bytes());
        let mut state = self.lock();
        state.asked.push(kind);
        if state.hold.take_if(|of| *of == kind).is_some() {
            state.held.push((exchange, message));
            return Err(EINTR);
        }
        let mut said = match state.serve(kind, message::entries(&message[HEADER..])) {
            Ok(fields) => answer(kind + 1, tag, &fields),
            Err(error) => answer(7, tag, &(error.0 as u32).to_le_bytes()),
        };
        if let Some(lie) = &mut state.lie {
            lie(kind, &mut said);
        }
        let late = state.late.take_if(|(of, _)| *of == kind);
        drop(state);
        if let Some((_, late)) = late {
            late();
        }
        exchange.answer(&said);
        Ok((exchange, said.len(), tag))
    }
}
