//! Messages of 9P2000.L, as bytes: those that this client sends, and the answers that it takes.
//!
//! A message is its size (4 bytes, itself included), its kind (1), its number (2), and fields: numbers with the lowest byte first, and texts with their length (2)
//! before them. <https://github.com/chaos/diod/blob/master/protocol.md> has them all.
//!
//! **A server is not trusted.** Each field of an answer is checked where it is read: an answer is as long as it says and as the device says, is of the kind that
//! belongs to the question, has its number, and ends where its last field ends. What is wrong is EIO. Nothing here can panic or overflow, whatever the bytes are.
//!
//! No locks; nothing sleeps.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;

use crate::errno::{EIO, Errno, Result};
use crate::fs::vfs::inode::Kind;

/// Kinds of questions; an answer's is one higher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ask {
    Statfs = 8,
    Open = 12,
    Create = 14,
    Symlink = 16,
    Mknod = 18,
    ReadLink = 22,
    Attributes = 24,
    SetAttributes = 26,
    XattrWalk = 30,
    XattrCreate = 32,
    ReadDir = 40,
    Fsync = 50,
    Link = 70,
    Mkdir = 72,
    Rename = 74,
    Unlink = 76,
    Version = 100,
    Attach = 104,
    Walk = 110,
    Read = 116,
    Write = 118,
    Clunk = 120,
}

/// Rlerror.
const ERROR: u8 = 7;
/// Size, kind and number.
pub const HEADER: usize = 7;
pub const NO_TAG: u16 = u16::MAX;
pub const NO_FID: u32 = u32::MAX;
/// No user by number: the server takes the name.
pub const NO_USER: u32 = u32::MAX;
/// What attributes are asked for: all that stat(2) shows.
const BASIC: u64 = 0x7ff;
/// Longest name in a directory.
const NAME_MOST: usize = 255;
/// Longest text of a symbolic link.
pub const LINK_MOST: usize = 4095;
const BILLION: u64 = 1_000_000_000;

/// Writes a message. One that does not fit is found at its end.
pub struct Writer<'a> {
    room: &'a mut [u8],
    at: usize,
    fits: bool,
    /// Bytes that follow elsewhere.
    more: usize,
}

impl<'a> Writer<'a> {
    pub fn new(room: &'a mut [u8], kind: Ask, tag: u16) -> Self {
        let mut message = Writer { room, at: 0, fits: true, more: 0 };
        message.u32(0).u8(kind as u8).u16(tag);
        message
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.at.saturating_add(bytes.len());
        match self.room.get_mut(self.at..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.at = end;
            }
            None => self.fits = false,
        }
        self
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn text(&mut self, text: &[u8]) -> &mut Self {
        let len = u16::try_from(text.len());
        self.fits &= len.is_ok();
        self.u16(len.unwrap_or(0)).bytes(text)
    }

    /// So many bytes follow that do not lie here.
    pub fn more(&mut self, bytes: usize) -> &mut Self {
        self.more = bytes;
        self
    }

    /// The message's length, of what lies here.
    ///
    /// # Errors
    /// EIO: it does not fit; no caller asks for so much.
    pub fn end(self) -> Result<usize> {
        let size = u32::try_from(self.at.saturating_add(self.more)).map_err(|_| EIO)?;
        match self.room.get_mut(..4) {
            Some(first) if self.fits => first.copy_from_slice(&size.to_le_bytes()),
            _ => return Err(EIO),
        }
        Ok(self.at)
    }
}

/// Reads the fields of an answer.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The fields of an answer to `kind`, with number `tag`. `bytes` begins with it; the server has written `written` bytes in all.
    ///
    /// # Errors
    /// EIO: it is no such answer. The server's own error, where it says one.
    pub fn new(bytes: &'a [u8], written: usize, kind: Ask, tag: u16) -> Result<Self> {
        let mut head = Reader(bytes.get(..written.min(bytes.len())).unwrap_or(&[]));
        let (size, said, number) = (head.u32()?, head.u8()?, head.u16()?);
        if size as usize != written || number != tag {
            return Err(EIO);
        }
        if said == ERROR {
            let error = head.u32()?;
            head.end()?;
            return Err(error_of(error));
        }
        if Some(said) == (kind as u8).checked_add(1) { Ok(head) } else { Err(EIO) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk().ok_or(EIO)?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.take::<1>().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn text(&mut self) -> Result<&'a [u8]> {
        let len = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(len).ok_or(EIO)?;
        self.0 = rest;
        Ok(text)
    }

    #[cfg(test)]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Bytes that are not read yet.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// That was all.
    pub fn end(self) -> Result {
        if self.0.is_empty() { Ok(()) } else { Err(EIO) }
    }
}

/// An error that the server says. What is none of Linux's is EIO.
fn error_of(number: u32) -> Errno {
    i32::try_from(number).ok().map(Errno).filter(|error| error.name().is_some()).unwrap_or(EIO)
}

/// What a server knows a file by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Qid {
    pub is_dir: bool,
    /// Changes with the contents.
    pub version: u32,
    /// No other file has it.
    pub path: u64,
}

fn qid(reader: &mut Reader<'_>) -> Result<Qid> {
    Ok(Qid { is_dir: reader.u8()? & 0x80 != 0, version: reader.u32()?, path: reader.u64()? })
}

/// What stat(2) shows of a file, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    pub qid: Qid,
    pub kind: Kind,
    /// Permission, set-id and sticky bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub rdev: u64,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    /// Accessed, modified, changed: nanoseconds since the epoch.
    pub times: [i64; 3],
}

/// Seconds and nanoseconds. A time that nanoseconds cannot say is the first or last that they can.
fn time(reader: &mut Reader<'_>) -> Result<i64> {
    let (seconds, ns) = (reader.u64()? as i64, reader.u64()?);
    if ns >= BILLION {
        return Err(EIO);
    }
    Ok(seconds.saturating_mul(BILLION as i64).saturating_add(ns as i64))
}

/// Rversion: the size of the longest message, and the protocol.
pub fn version<'a>(mut answer: Reader<'a>) -> Result<(u32, &'a [u8])> {
    let said = (answer.u32()?, answer.text()?);
    answer.end()?;
    Ok(said)
}

/// Rattach.
pub fn attached(mut answer: Reader<'_>) -> Result<Qid> {
    let root = qid(&mut answer)?;
    answer.end()?;
    Ok(root)
}

/// Rwalk of one name.
pub fn walked(mut answer: Reader<'_>) -> Result<Qid> {
    if answer.u16()? != 1 {
        return Err(EIO);
    }
    attached(answer)
}

/// Rwalk of no name.
pub fn copied(mut answer: Reader<'_>) -> Result {
    if answer.u16()? != 0 {
        return Err(EIO);
    }
    answer.end()
}

/// Rlopen: what was opened.
pub fn opened(mut answer: Reader<'_>) -> Result<Qid> {
    let opened = qid(&mut answer)?;
    // How much may be read at once: no more than a message holds, in any case.
    answer.u32()?;
    answer.end()?;
    Ok(opened)
}

/// An answer that says no more than that it was done.
pub fn done(answer: Reader<'_>) -> Result {
    answer.end()
}

/// Rxattrwalk: how long the value is, or the list.
pub fn xattr_size(mut answer: Reader<'_>) -> Result<u64> {
    let size = answer.u64()?;
    answer.end()?;
    Ok(size)
}

/// Rwrite: how many of `asked` bytes were written.
///
/// # Errors
/// EIO: more than that.
pub fn written(mut answer: Reader<'_>, asked: usize) -> Result<usize> {
    let count = answer.u32()? as usize;
    answer.end()?;
    if count <= asked { Ok(count) } else { Err(EIO) }
}

/// What Tsetattr is to set.
#[derive(Clone, Copy, Default)]
pub struct Set {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    /// Nanoseconds since the epoch.
    pub accessed: Option<i64>,
    pub modified: Option<i64>,
}

impl Set {
    /// The fields behind the fid.
    pub fn put(&self, message: &mut Writer<'_>) {
        let bit = |is_set: bool, bits: u32| if is_set { bits } else { 0 };
        let valid = bit(self.mode.is_some(), 1)
            | bit(self.uid.is_some(), 2)
            | bit(self.gid.is_some(), 4)
            | bit(self.size.is_some(), 8)
            | bit(self.accessed.is_some(), 0x90)
            | bit(self.modified.is_some(), 0x120);
        message.u32(valid).u32(self.mode.unwrap_or(0)).u32(self.uid.unwrap_or(0)).u32(self.gid.unwrap_or(0));
        message.u64(self.size.unwrap_or(0));
        for time in [self.accessed, self.modified] {
            let time = time.unwrap_or(0);
            message.u64(time.div_euclid(BILLION as i64) as u64).u64(time.rem_euclid(BILLION as i64) as u64);
        }
    }
}

/// The mask of what Tgetattr asks for.
pub const ASKED: u64 = BASIC;

/// Rgetattr.
pub fn attributes(mut answer: Reader<'_>) -> Result<Attributes> {
    if answer.u64()? & BASIC != BASIC {
        return Err(EIO);
    }
    let qid = qid(&mut answer)?;
    let mode = answer.u32()?;
    let (uid, gid) = (answer.u32()?, answer.u32()?);
    let links = u32::try_from(answer.u64()?).unwrap_or(u32::MAX);
    let (rdev, size) = (answer.u64()?, answer.u64()?);
    // Its size of a block is of no use here.
    answer.u64()?;
    let blocks = answer.u64()?;
    let times = [time(&mut answer)?, time(&mut answer)?, time(&mut answer)?];
    // When it was made, its generation and version: not asked for.
    for _ in 0..4 {
        answer.u64()?;
    }
    answer.end()?;
    let kind = Kind::from_mode(mode).ok_or(EIO)?;
    if size > i64::MAX as u64 || (kind == Kind::Directory) != qid.is_dir {
        return Err(EIO);
    }
    Ok(Attributes { qid, kind, mode: mode & 0o7777, uid, gid, links, rdev, size, blocks, times })
}

/// Rreadlink: the text, of which Linux shows as much.
pub fn link(mut answer: Reader<'_>) -> Result<Vec<u8>> {
    let text = answer.text()?;
    answer.end()?;
    if text.is_empty() || text.len() > LINK_MOST || text.contains(&0) {
        return Err(EIO);
    }
    Ok(Vec::try_from_slice(text)?)
}

/// Rstatfs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes of a block.
    pub block: u32,
    pub blocks: u64,
    pub free: u64,
    /// For everybody, which is fewer.
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
}

pub fn sizes(mut answer: Reader<'_>) -> Result<Sizes> {
    answer.u32()?;
    let block = answer.u32()?;
    let (blocks, free, available) = (answer.u64()?, answer.u64()?, answer.u64()?);
    let (files, files_free) = (answer.u64()?, answer.u64()?);
    // Its number, and the longest name.
    answer.u64()?;
    answer.u32()?;
    answer.end()?;
    Ok(Sizes { block, blocks, free, available, files, files_free })
}

/// How many bytes of data follow the head of Rread or Rreaddir, of at most `asked`. `written`: of the whole answer.
pub fn data(mut head: Reader<'_>, written: usize, asked: usize) -> Result<usize> {
    let count = head.u32()? as usize;
    head.end()?;
    let whole = HEADER.saturating_add(4).saturating_add(count);
    if count <= asked && whole == written { Ok(count) } else { Err(EIO) }
}

/// A name as Rreaddir lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    pub number: u64,
    pub kind: Kind,
    /// Where the names behind it begin.
    pub next: u64,
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Is it `.` or `..`, which the VFS lists?
    pub fn is_dots(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }
}

/// The next name of the data of Rreaddir; `None`: there is none.
///
/// # Errors
/// EIO: it is cut off, or is no name.
pub fn entry<'a>(data: &mut Reader<'a>) -> Result<Option<Entry<'a>>> {
    if data.0.is_empty() {
        return Ok(None);
    }
    let qid = qid(data)?;
    let next = data.u64()?;
    let kind = Kind::from_mode(u32::from(data.u8()?) << 12);
    let name = data.text()?;
    if name.is_empty() || name.len() > NAME_MOST || name.contains(&b'/') || name.contains(&0) {
        return Err(EIO);
    }
    // A server that does not know the kind says none: then the number says more than nothing.
    let kind = kind.unwrap_or(if qid.is_dir { Kind::Directory } else { Kind::Anonymous });
    Ok(Some(Entry { number: qid.path, kind, next, name }))
}

/// The names in the data of Rreaddir.
pub fn entries(data: &[u8]) -> Reader<'_> {
    Reader(data)
}
