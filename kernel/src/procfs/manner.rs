//! What the texts of /proc are as files: how lseek counts in them, and which ways of reading and writing they take. On Linux that hangs on what a
//! text is made with, and programs see it in the errors.
#![forbid(unsafe_code)]

use crate::errno::{EINVAL, ENXIO, Result};
use crate::fs::file::seek_in;

/// Files of /proc end here (`s_maxbytes` of a file system that does not say).
pub const LARGEST: u64 = i32::MAX as u64;

/// How a text is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// About the machine, line by line (`seq_file`).
    Machine,
    /// A setting below /proc/sys.
    Setting,
    /// About a process, line by line.
    Lines,
    /// The same, and it can be written.
    WritableLines,
    /// The mounts that a process sees.
    Mounts,
    /// About a process, in one piece.
    Piece,
    /// The same, and it can be written.
    WritablePiece,
    /// A number of a process's that can be written, and is sought in as a setting is.
    Number,
}

impl Manner {
    /// Is there anything that takes what is written? A text about the machine takes it and says EIO.
    pub fn is_written(self) -> bool {
        !matches!(self, Manner::Lines | Manner::Mounts | Manner::Piece)
    }

    /// Are flags of preadv2 and splice for it?
    pub fn takes_flags(self, writing: bool) -> bool {
        match self {
            Manner::Setting => true,
            Manner::Machine | Manner::Mounts => !writing,
            _ => false,
        }
    }

    /// Does pwrite take a place? What is made line by line is written where it stands.
    pub fn is_written_at(self) -> bool {
        matches!(self, Manner::Setting | Manner::Piece | Manner::WritablePiece | Manner::Number)
    }

    /// lseek. No text has a size.
    ///
    /// # Errors
    /// EINVAL: no place, or one that the text cannot have; ENXIO: no data there.
    pub fn seek(self, offset: i64, whence: u32, now: u64) -> Result<u64> {
        const SEEK_CUR: u32 = 1;
        const SEEK_DATA: u32 = 3;
        const SEEK_HOLE: u32 = 4;
        match self {
            Manner::Piece | Manner::WritablePiece => {
                seek_in(0, offset, whence, now).and_then(|at| if at > LARGEST { Err(EINVAL) } else { Ok(at) })
            }
            Manner::Setting | Manner::Number => match whence {
                SEEK_DATA if offset < 0 => Err(EINVAL),
                SEEK_HOLE if offset < 0 => Ok(0),
                SEEK_DATA | SEEK_HOLE => Err(ENXIO),
                _ => seek_in(0, offset, whence, now),
            },
            _ if whence > SEEK_CUR => Err(EINVAL),
            _ => seek_in(0, offset, whence, now),
        }
    }
}
