//! Sockets by themselves and as tasks see them. Tests run at the same time on one kernel, so each looks at its own sockets alone.

mod ends;
mod names;
mod rights;
mod room;
mod stream;

use std::vec;
use std::vec::Vec;

use super::*;
use crate::errno::Result;
use crate::fs::file::OpenFlags;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::Poller;

/// A socket with an open file, as if one descriptor referred to it.
pub struct End {
    pub file: Arc<File>,
    pub socket: Arc<Socket>,
}

impl End {
    pub fn of(socket: Arc<Socket>) -> End {
        let file = open(socket.clone(), OpenFlags::empty()).expect("a file");
        file.add_open();
        End { file, socket }
    }

    pub fn new(kind: Kind) -> End {
        End::of(Socket::try_new(kind).expect("a socket"))
    }

    /// With an abstract name.
    pub fn named(kind: Kind, name: &str) -> End {
        let end = End::new(kind);
        end.bind(name).expect("a free name");
        end
    }

    pub fn bind(&self, name: &str) -> Result {
        self.socket.bind(&[&address::FAMILY.to_ne_bytes()[..], b"\0", name.as_bytes()].concat())
    }

    pub fn close(self) {
        self.file.drop_open();
    }

    /// Sends without waiting.
    pub fn send(&self, bytes: &[u8]) -> Result<usize> {
        self.send_with(bytes, &[])
    }

    pub fn send_with(&self, bytes: &[u8], files: &[&Arc<File>]) -> Result<usize> {
        self.send_by(bytes, files, &Wait::new(None, 0))
    }

    /// Waits for room.
    pub fn send_and_wait(&self, bytes: &[u8]) -> Result<usize> {
        self.send_by(bytes, &[], &Wait::new(Some(&self.file), 0))
    }

    fn send_by(&self, bytes: &[u8], files: &[&Arc<File>], wait: &Wait<'_>) -> Result<usize> {
        let mut with = Outgoing { no_signal: true, ..Outgoing::default() };
        if !files.is_empty() {
            let mut rights = Rights::try_new()?;
            files.iter().try_for_each(|&file| rights.add(file.clone()))?;
            with.rights = Some(rights);
        }
        let mut from = Input::kernel(bytes);
        match self.socket.kind {
            Kind::Stream => self.socket.send_stream(&mut from, with, wait),
            _ => self.socket.send_message_to(None, &mut from, with, wait),
        }
    }

    /// Receives without waiting: the bytes, and how many files came with them, which are closed.
    pub fn receive(&self, len: usize) -> Result<(Vec<u8>, usize)> {
        self.receive_as(len, false)
    }

    pub fn peek(&self, len: usize) -> Result<(Vec<u8>, usize)> {
        self.receive_as(len, true)
    }

    fn receive_as(&self, len: usize, peek: bool) -> Result<(Vec<u8>, usize)> {
        let (bytes, mut got) = self.receive_whole(len, peek, &Wait::new(None, 0))?;
        let files = got.rights.as_ref().map_or(0, |rights| rights.files().len());
        got.rights.take().into_iter().for_each(crate::net::rights::drop_rights);
        Ok((bytes, files))
    }

    pub fn receive_and_wait(&self, len: usize) -> Result<Vec<u8>> {
        Ok(self.receive_whole(len, false, &Wait::new(Some(&self.file), 0))?.0)
    }

    pub fn receive_whole(&self, len: usize, peek: bool, wait: &Wait<'_>) -> Result<(Vec<u8>, Incoming)> {
        let mut bytes = vec![0; len];
        let mut out = Output::kernel(&mut bytes);
        let (n, got) = match self.socket.kind {
            Kind::Stream => self.socket.receive_stream(&mut out, (peek, false), wait, false)?,
            _ => self.socket.receive_message(&mut out, peek, wait).map(|(n, got)| (n.copied, got))?,
        };
        bytes.truncate(n);
        Ok((bytes, got))
    }

    pub fn events(&self) -> u32 {
        self.file.poll(&mut Poller::Nobody)
    }

    pub fn connect(&self, name: &str) -> Result {
        self.connect_by(name, &Wait::new(None, 0))
    }

    pub fn connect_and_wait(&self, name: &str) -> Result {
        self.connect_by(name, &Wait::new(Some(&self.file), 0))
    }

    fn connect_by(&self, name: &str, wait: &Wait<'_>) -> Result {
        let name = named(name);
        match self.socket.kind {
            Kind::Datagram => self.socket.connect_datagram(Some(&name)),
            _ => self.socket.connect(&name, wait),
        }
    }

    pub fn accept(&self) -> Result<End> {
        self.socket.accept(&Wait::new(None, 0)).map(End::of)
    }
}

pub fn named(name: &str) -> Address {
    Address::parse(&[&address::FAMILY.to_ne_bytes()[..], b"\0", name.as_bytes()].concat()).expect("a name")
}

pub fn ends(kind: Kind) -> (End, End) {
    let (one, other) = pair(kind).expect("a pair");
    (End::of(one), End::of(other))
}
