//! Messages that change a server's files. Each is shown something that stays until the server is done with it (`remote::Change`), whoever was killed meanwhile.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use sync::TryVec;

use super::{Client, Fid, LARGE};
use crate::device::virtio::share::Exchange;
use crate::errno::{EINTR, EIO, ENAMETOOLONG, Result};
use crate::fs::ninep::message::{self, Ask, HEADER, Qid, Reader, Set, Writer};
use crate::fs::vfs::device_number::{major, minor};
use crate::fs::vfs::inode::NewInode;

/// What stays until the server is done with a message.
pub type Kept = Arc<dyn Any + Send + Sync>;

impl Client {
    fn change<R>(
        &self,
        kind: Ask,
        kept: Kept,
        fields: impl Fn(&mut Writer<'_>),
        read: impl FnOnce(Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        self.change_by(Exchange::try_new(0)?, kind, kept, fields, read).map(|(_, answer)| answer)
    }

    fn change_by<R>(
        &self,
        mut exchange: Exchange,
        kind: Ask,
        kept: Kept,
        fields: impl Fn(&mut Writer<'_>),
        read: impl FnOnce(Reader<'_>) -> Result<R>,
    ) -> Result<(Exchange, R)> {
        exchange.keep(kept)?;
        let (mut exchange, written, tag) = self.exchange(exchange, kind, None, &fields)?;
        let answer = read(Reader::new(exchange.head(), written, kind, tag)?)?;
        Ok((exchange, answer))
    }

    /// Makes a regular file that is not there yet, and opens it to read and write.
    pub fn create(
        self: &Arc<Self>,
        dir: &Fid,
        name: &[u8],
        new: &NewInode,
        kept: Kept,
    ) -> Result<(Arc<Fid>, Qid)> {
        /// To read and write, made here and not found.
        const FLAGS: u32 = LARGE | 0o302;
        let fid = self.copy(dir)?;
        let number = fid.number();
        let mut exchange = Exchange::try_new(0)?;
        exchange.keep(fid.clone())?;
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).text(name).u32(FLAGS).u32(new.mode).u32(new.gid);
        };
        let (_, made) = self.change_by(exchange, Ask::Create, kept, fields, message::opened)?;
        Ok((fid, made))
    }

    pub fn mkdir(&self, dir: &Fid, name: &[u8], new: &NewInode, kept: Kept) -> Result<Qid> {
        let number = dir.number();
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).text(name).u32(new.mode).u32(new.gid);
        };
        self.change(Ask::Mkdir, kept, fields, message::attached)
    }

    pub fn mknod(&self, dir: &Fid, name: &[u8], new: &NewInode, kept: Kept) -> Result<Qid> {
        let number = dir.number();
        let mode = new.mode | new.kind as u32;
        let (major, minor) = (major(new.rdev) as u32, minor(new.rdev) as u32);
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).text(name).u32(mode).u32(major).u32(minor).u32(new.gid);
        };
        self.change(Ask::Mknod, kept, fields, message::attached)
    }

    /// # Errors
    /// ENAMETOOLONG: no message has room for the text.
    pub fn symlink(&self, dir: &Fid, name: &[u8], new: &NewInode, target: &[u8], kept: Kept) -> Result<Qid> {
        let (number, gid) = (dir.number(), new.gid);
        let [name_len, target_len] = [name, target].map(|text| u16::try_from(text.len()));
        let (name_len, target_len) = (name_len.or(Err(ENAMETOOLONG))?, target_len.or(Err(ENAMETOOLONG))?);
        // It is longer than what lies in a message's head.
        let mut all = Vec::new();
        for part in [
            &number.to_le_bytes()[..],
            &name_len.to_le_bytes(),
            name,
            &target_len.to_le_bytes(),
            target,
            &gid.to_le_bytes(),
        ] {
            all.try_extend_from_slice(part)?;
        }
        if all.len() > self.data_most() || HEADER.saturating_add(all.len()) > self.message_most as usize {
            return Err(ENAMETOOLONG);
        }
        let mut left = &all[..];
        let exchange = Exchange::try_new_sent(all.len(), |room| {
            let (now, later) = left.split_at_checked(room.len()).unwrap_or((left, &[]));
            left = later;
            room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
            now.len()
        })?;
        self.change_by(exchange, Ask::Symlink, kept, |_| (), message::attached).map(|(_, made)| made)
    }

    pub fn link_to(&self, dir: &Fid, name: &[u8], file: &Fid, kept: Kept) -> Result {
        let (dir, file) = (dir.number(), file.number());
        let fields = |message: &mut Writer<'_>| {
            message.u32(dir).u32(file).text(name);
        };
        self.change(Ask::Link, kept, fields, message::done)
    }

    /// Takes a name away, of a directory or of what is none.
    pub fn unlink(&self, dir: &Fid, name: &[u8], is_dir: bool, kept: Kept) -> Result {
        /// AT_REMOVEDIR.
        const DIRECTORY: u32 = 0x200;
        let number = dir.number();
        let flags = if is_dir { DIRECTORY } else { 0 };
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).text(name).u32(flags);
        };
        self.change(Ask::Unlink, kept, fields, message::done)
    }

    /// Moves a name; what has the new one is replaced.
    pub fn rename(
        &self,
        (old_dir, old_name): (&Fid, &[u8]),
        (new_dir, new_name): (&Fid, &[u8]),
        kept: Kept,
    ) -> Result {
        let (old_dir, new_dir) = (old_dir.number(), new_dir.number());
        let fields = |message: &mut Writer<'_>| {
            message.u32(old_dir).text(old_name).u32(new_dir).text(new_name);
        };
        self.change(Ask::Rename, kept, fields, message::done)
    }

    pub fn set_attributes(&self, fid: &Fid, set: &Set, kept: Kept) -> Result {
        let number = fid.number();
        let fields = |message: &mut Writer<'_>| {
            message.u32(number);
            set.put(message);
        };
        self.change(Ask::SetAttributes, kept, fields, message::done)
    }

    /// Writes what `exchange` sends, of at most `data_most` bytes, at byte `at`. Says how many of them the server took, of which it may say none.
    pub fn write(&self, fid: &Fid, at: u64, exchange: Exchange, kept: Kept) -> Result<(Exchange, usize)> {
        let number = fid.number();
        let len = exchange.sent();
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).u64(at).u32(len as u32);
        };
        self.change_by(exchange, Ask::Write, kept, fields, |answer| message::written(answer, len))
    }

    /// Sets the extended attribute `name` of the file `from`; an empty value takes it away, as Linux's client has it. `flags`: as setxattr(2). The server does it, and says what came of it, when the
    /// fid that it is written by is clunked.
    ///
    /// # Errors
    /// E2BIG: no message has room for the value. Those of the server.
    pub fn set_xattr(
        self: &Arc<Self>,
        from: &Fid,
        name: &[u8],
        value: &[u8],
        flags: u32,
        kept: &Kept,
    ) -> Result {
        let fid = self.copy(from)?;
        let number = fid.number();
        let size = value.len() as u64;
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).text(name).u64(size).u32(flags);
        };
        self.change(Ask::XattrCreate, kept.clone(), fields, message::done)?;
        let mut left = value;
        while !left.is_empty() {
            let at = size.saturating_sub(left.len() as u64);
            let exchange = Exchange::try_new_sent(left.len().min(self.data_most()), |room| {
                let (now, later) = left.split_at_checked(room.len()).unwrap_or((left, &[]));
                left = later;
                room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
                now.len()
            })?;
            let sent = exchange.sent();
            let (_, taken) = self.write(&fid, at, exchange, kept.clone())?;
            if taken != sent {
                return Err(EIO);
            }
        }
        let said = self.change(
            Ask::Clunk,
            kept.clone(),
            |message| {
                message.u32(number);
            },
            message::done,
        );
        // Clunked it is, whatever came of the attribute. Where there was no answer it is clunked once more.
        if said.is_ok() || said.is_err_and(|error| error != EINTR && error != EIO) {
            fid.refuse();
        }
        said
    }

    /// Has the server put what was written on its disk.
    pub fn fsync(&self, fid: &Fid, data_only: bool) -> Result {
        let number = fid.number();
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).u32(u32::from(data_only));
        };
        self.ask(Ask::Fsync, fields, message::done)
    }
}
