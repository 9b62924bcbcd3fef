//! What of /proc/PID shows an address space mapping by mapping: maps, smaps, numa_maps (proc_pid_maps(5) and those beside it); and what goes by
//! addresses: pagemap, map_files.
//!
//! A program chooses how many mappings there are, so a text is made in parts, as far as it is read: what follows a part is looked for where that part
//! ended, whatever has become of the space. Between two mappings, and between two parts of one's pages, others may run.
#![forbid(unsafe_code)]

pub mod map_files;
pub mod maps;
pub mod memory;
pub mod numa;
pub mod pagemap;
pub mod smaps;

use alloc::sync::Arc;
use alloc::vec::Vec;

use vm::MappingInfo;

use super::Source;
use super::manner::Manner;
use super::task::who::Who;
use crate::arch::USER_END;
use crate::errno::{ESRCH, Result};
use crate::memory::Space;
use crate::process::Process;

/// Writes what is told of one mapping.
pub type Row = fn(&Seen<'_>, &MappingInfo<'_>, &mut Vec<u8>) -> Result;

/// A space that is shown.
pub struct Seen<'a> {
    pub space: &'a Space,
    /// Where the heap begins and the stack began; 0: nowhere.
    heap: usize,
    stack: usize,
    /// From where its memory comes unless a mapping says otherwise.
    policy: vm::policy::Policy,
}

impl<'a> Seen<'a> {
    pub fn of(process: &Process, space: &'a Space) -> Self {
        let layout = process.memory.lock();
        let policy = process.look_at_leader(|thread| thread.memory_policy.get()).unwrap_or_default();
        Seen { space, heap: layout.brk, stack: layout.stack, policy }
    }

    pub fn is_stack(&self, m: &MappingInfo<'_>) -> bool {
        m.growsdown || (m.start..m.end).contains(&self.stack)
    }

    pub fn is_heap(&self, m: &MappingInfo<'_>) -> bool {
        m.object.is_none() && self.heap != 0 && m.start <= self.heap && self.heap <= m.end
    }
}

/// Bytes of a text that are made at a time, and the rest of a mapping.
const PART: usize = 16 << 10;

/// The text of a process's mappings.
pub struct Rows {
    pub who: Who,
    pub row: Row,
}

impl Source for Rows {
    fn manner(&self) -> Manner {
        Manner::Lines
    }

    fn text(&self, out: &mut Vec<u8>) -> Result {
        self.part(0, out).map(drop)
    }

    fn part(&self, from: usize, out: &mut Vec<u8>) -> Result<Option<usize>> {
        if self.who.is_caller() {
            return self.part_of(&crate::process::current().process, from, out);
        }
        self.part_of(&self.who.process().ok_or(ESRCH)?, from, out)
    }
}

impl Rows {
    fn part_of(&self, process: &Arc<Process>, from: usize, out: &mut Vec<u8>) -> Result<Option<usize>> {
        let look = |space: &Space| {
            let seen = Seen::of(process, space);
            let mut outcome = Ok(());
            let next = space.visit_mappings(from..USER_END, &mut |mapping| {
                outcome = (self.row)(&seen, mapping, out);
                outcome.is_ok() && out.len() < PART
            });
            outcome.map(|()| next)
        };
        process.look_at_space(look).unwrap_or(Ok(None))
    }
}
