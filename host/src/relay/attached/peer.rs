//! A connection to a machine's socket: what it asks for, and what it has not taken yet.
#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use crate::attach::wire::{self, Frames};

/// What a connection is about.
#[derive(PartialEq, Eq)]
pub enum Stage {
    /// It knows which machine this is.
    Greeted,
    /// It waits to be let in, with this request.
    Asks(Vec<u8>),
    Watches,
    /// It gets what is left, and no more.
    Leaves,
}

pub struct Peer {
    /// In the order of their coming.
    pub number: u64,
    pub pid: u32,
    pub socket: UnixStream,
    pub frames: Frames,
    pub pending: Vec<u8>,
    pub stage: Stage,
    /// It watches, and wants no more.
    pub goes: bool,
}

impl Peer {
    /// False: it has gone.
    pub fn serve(&mut self) -> bool {
        let mut buffer = [0u8; 1024];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.frames.take(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
            loop {
                match self.frames.next() {
                    Ok(Some((wire::WANTED, words))) if self.take(&words) => {}
                    Ok(None) => break,
                    Ok(Some(_)) | Err(_) => return false,
                }
            }
        }
        self.write()
    }

    /// Takes a request, or that it wants no more. False: it asks twice.
    fn take(&mut self, words: &[u8]) -> bool {
        match self.stage {
            Stage::Greeted => self.stage = Stage::Asks(words.to_owned()),
            _ if !words.is_empty() => return false,
            Stage::Asks(_) => self.stage = Stage::Asks(Vec::new()),
            Stage::Watches | Stage::Leaves => self.goes = true,
        }
        true
    }

    /// Writes what the socket takes. False: nobody reads it.
    pub fn write(&mut self) -> bool {
        while !self.pending.is_empty() {
            match self.socket.write(&self.pending) {
                Ok(n) => drop(self.pending.drain(..n)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}
