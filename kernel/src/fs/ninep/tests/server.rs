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

pub struct File {
    pub mode: u32,
    pub version: u32,
    pub bytes: Bytes,
    pub names: Vec<(Bytes, u64)>,
}

#[derive(Default)]
pub struct State {
    pub files: BTreeMap<u64, File>,
    pub fids: BTreeMap<u32, (u64, bool)>,
    pub asked: Vec<u8>,
    /// Bytes of an answer's data at the most.
    pub short: usize,
    /// A file that is found by open fids alone.
    pub unlinked: Option<u64>,
    /// Changes an answer before it goes.
    pub lie: Option<Lie>,
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
    for n in [file.mode, 1000, 100] {
        out.extend(n.to_le_bytes());
    }
    let size = file.bytes.len() as u64;
    for n in [1, 0, size, 4096, size.div_ceil(512), 5, 500, 6, 600, 7, 700, 0, 0, 0, 0u64] {
        out.extend(n.to_le_bytes());
    }
    out
}

impl State {
    fn file(&self, fid: u32) -> Result<(u64, &File)> {
        let (path, is_open) = self.fids.get(&fid).ok_or(EBADF)?;
        if self.unlinked == Some(*path) && !is_open {
            return Err(ENOENT);
        }
        Ok((*path, self.files.get(path).ok_or(ENOENT)?))
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
                if count == 1 {
                    let name = fields.text()?;
                    path = dir.names.iter().find(|(n, _)| n == name).ok_or(ENOENT)?.1;
                    out.extend(qid(path, &self.files[&path]));
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
            22 => Ok(text(&self.file(fields.u32()?)?.1.bytes)),
            24 => {
                let (path, file) = self.file(fields.u32()?)?;
                Ok(attributes(path, file))
            }
            40 | 116 => {
                let (fid, at, count) = (fields.u32()?, fields.u64()?, fields.u32()?);
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
            120 => self.fids.remove(&fields.u32()?).map(|_| Bytes::new()).ok_or(EBADF),
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

    /// Ends of directories have `.` and `..`, as QEMU lists them.
    pub fn new() -> Fake {
        let mut files = BTreeMap::new();
        let mut add = |path, mode, bytes: &[u8], names: &[(&[u8], u64)]| {
            let names = names.iter().map(|(name, path)| (name.to_vec(), *path)).collect();
            files.insert(path, File { mode, version: 1, bytes: bytes.to_vec(), names });
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
        Fake(Arc::new(Mutex::new(State { files, short: usize::MAX, ..State::default() })))
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
        let message = exchange.message()[..len].to_vec();
        let kind = message[4];
        assert_eq!(message[..4], (len as u32).to_le_bytes());
        assert_eq!(message[5..7], tag.to_le_bytes());
        let mut state = self.lock();
        state.asked.push(kind);
        let mut said = match state.serve(kind, message::entries(&message[HEADER..])) {
            Ok(fields) => answer(kind + 1, tag, &fields),
            Err(error) => answer(7, tag, &(error.0 as u32).to_le_bytes()),
        };
        if let Some(lie) = &mut state.lie {
            lie(kind, &mut said);
        }
        exchange.answer(&said);
        Ok((exchange, said.len(), tag))
    }
}
