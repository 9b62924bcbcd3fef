//! What the texts of /proc are made from: the machine, a setting, or a process that is there still.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Source;
use super::entry::{Make, MakeOf, Setting};
use super::manner::Manner;
use super::task::who::Who;
use super::task::{process as files, status};
use crate::errno::{EACCES, EPERM, ESRCH, Result};
use crate::fs::caller;
use crate::fs::vfs::locks::{Cursor, tell_locks};
use crate::process::Process;

pub(super) struct OfMachine(pub(super) Make);

impl Source for OfMachine {
    fn manner(&self) -> Manner {
        Manner::Machine
    }

    fn text(&self, out: &mut Vec<u8>) -> Result {
        (self.0)(out)
    }
}

/// The locks of files.
pub(super) struct OfLocks {
    /// Lines of the parts that were made. Changed by who makes a part, one at a time.
    lines: AtomicU64,
}

impl OfLocks {
    pub(super) fn new() -> OfLocks {
        OfLocks { lines: AtomicU64::new(0) }
    }
}

/// Bytes of a text that are made at a time, and the rest of a lock.
const PART: usize = 16 << 10;

impl Source for OfLocks {
    fn manner(&self) -> Manner {
        Manner::Machine
    }

    fn text(&self, out: &mut Vec<u8>) -> Result {
        self.part(0, out).map(drop)
    }

    fn part(&self, from: usize, out: &mut Vec<u8>) -> Result<Option<usize>> {
        let mut at = if from == 0 { Cursor::FIRST } else { Cursor::at(from, self.lines.load(Relaxed)) };
        let more = tell_locks(out, &mut at, PART)?;
        self.lines.store(at.line, Relaxed);
        Ok(more.then(|| at.place()))
    }
}

pub(super) struct OfSetting(pub(super) &'static Setting);

impl Source for OfSetting {
    fn manner(&self) -> Manner {
        Manner::Setting
    }

    fn text(&self, out: &mut Vec<u8>) -> Result {
        (self.0.read)(out)
    }

    fn write(&self, data: &[u8]) -> Result {
        // By the user's number alone, as on Linux: no capability makes up for it.
        if caller::current().ids().euid != 0 {
            return Err(EPERM);
        }
        if data.is_empty() {
            return Ok(());
        }
        self.0.write.map_or(Err(EACCES), |f| f(data))
    }
}

pub(super) struct OfProcess(pub(super) Who, pub(super) MakeOf, pub(super) Manner);

impl OfProcess {
    fn text_of(&self, process: &Arc<Process>, out: &mut Vec<u8>) -> Result {
        if process.is_zombie() {
            return status::zombie(self.1, process, out);
        }
        let thread = self.0.thread_of(process).ok_or(ESRCH)?;
        let make = if self.0.tid == 0 { self.1 } else { status::of_thread(self.1) };
        make(process, &thread, out)
    }
}

impl Source for OfProcess {
    fn manner(&self) -> Manner {
        self.2
    }

    fn text(&self, out: &mut Vec<u8>) -> Result {
        // Who asks about itself need not count its process.
        if self.0.is_caller() {
            return self.text_of(&crate::process::current().process, out);
        }
        self.text_of(&self.0.process().ok_or(ESRCH)?, out)
    }

    fn write(&self, data: &[u8]) -> Result {
        let (process, thread) = self.0.find()?;
        files::write(self.1, &process, &thread, data)
    }
}
