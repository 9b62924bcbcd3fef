//! What one CPU did in a window: the lines that it took from others, and for each line the bytes that it read and wrote.
//!
//! Invariant CountLocal: a recorder belongs to the thread of its CPU. At the close it hands its window over by value.
#![forbid(unsafe_code)]

use super::cache::{Cache, Counts};
use super::directory::{Directory, LINE_BITS, Line, Taken, Write};
use super::spread::{Spread, SpreadPages};
use crate::code;
use std::collections::HashMap;

/// One load or store within one line.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub line: u64,
    /// The first byte's place in the line, and the bytes touched from there on.
    pub offset: u32,
    pub bytes: u32,
    pub vaddr: u64,
    pub pc: u64,
    pub write: bool,
    /// By a LOCK-prefixed instruction or XCHG.
    pub locked: bool,
}

/// What one CPU did with one line. Masks have one bit for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub read: u64,
    /// Written by a locked instruction, and by any other.
    pub locked: u64,
    pub plain: u64,
    /// Where this CPU first read and first wrote the line; 0: it did not.
    pub read_pc: u64,
    pub write_pc: u64,
    /// The virtual address of the line at its first use.
    pub vaddr: u64,
}

/// How often a CPU came to a line, from another line each time; and how many of these visits wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    pub all: u64,
    pub writing: u64,
}

/// What one CPU did with one line in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub touched: Touched,
    pub visits: Visits,
}

/// A kind of transfer: which line, by what, after which write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transfer {
    pub line: u64,
    pub write: bool,
    pub pc: u64,
    pub from: usize,
    /// The last write's program counter; 0 where the line was only held by a reader.
    pub from_pc: u64,
}

/// A CPU's window.
#[derive(Debug, Default)]
pub struct Record {
    pub cpu: usize,
    pub user_accesses: u64,
    pub kernel_accesses: u64,
    pub lines: HashMap<u64, Used, SpreadPages>,
    pub transfers: HashMap<Transfer, u64, Spread>,
    /// Of the modelled cache, if there is one.
    pub cache: Option<Counts>,
}

/// Lines used lately, so that most accesses need no look into the map.
const RECENT: usize = 2048;
/// No watched line has this number.
const NONE: u32 = u32::MAX;

/// A line used lately. What was done with it since it came here is not in the map yet. One host line, as every access writes one.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Slot {
    line: u32,
    /// As in `Visits`; the slot is settled before they overflow.
    visits: u16,
    writing: u16,
    state: Option<&'static Line>,
    touched: Touched,
}

const EMPTY: Slot = Slot {
    line: NONE,
    visits: 0,
    writing: 0,
    state: None,
    touched: Touched { read: 0, locked: 0, plain: 0, read_pc: 0, write_pc: 0, vaddr: 0 },
};
const _: () = assert!(size_of::<Slot>() == 64);

/// A repeated string instruction at work on one line; program counter 0: none.
#[derive(Clone, Copy, Default)]
struct Streak {
    pc: u64,
    /// The line's number, virtual and physical.
    vline: u64,
    line: u64,
}

/// What a CPU executes, where calls are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executes {
    /// Which program, as in `Write`.
    pub program: u16,
    /// From the addresses that QEMU gives its instructions to those where they lie.
    pub shift: u64,
}

impl Executes {
    /// Where an instruction lies that QEMU has at `pc`.
    #[inline(always)]
    pub fn at(&self, pc: u64) -> u64 {
        pc.wrapping_add(self.shift)
    }
}

pub struct Recorder {
    pub cpu: usize,
    pub executes: Executes,
    open: bool,
    directory: &'static Directory,
    /// Reads and writes of a repeated string instruction, while nothing else comes after.
    streaks: [Streak; 2],
    /// The virtual and the physical line of the access noted last.
    translated: (u64, u64),
    /// The line of the window's last access, and whether this visit wrote it.
    last: u32,
    wrote: bool,
    record: Record,
    recent: Box<[Slot]>,
    cache: Option<Box<Cache>>,
}

impl Recorder {
    pub fn new(cpu: usize, directory: &'static Directory, cache: Option<Cache>) -> Recorder {
        Recorder {
            cpu,
            executes: Executes::default(),
            open: false,
            directory,
            streaks: [Streak::default(); 2],
            translated: (u64::MAX, 0),
            last: NONE,
            wrote: false,
            record: Record::default(),
            recent: vec![EMPTY; RECENT].into_boxed_slice(),
            cache: cache.map(Box::new),
        }
    }

    /// Begins a window; what one recorded that was never closed is dropped.
    pub fn open(&mut self) {
        self.close();
        self.open = true;
        self.last = NONE;
    }

    /// What was recorded since the open; None: it was not open.
    pub fn close(&mut self) -> Option<Record> {
        self.streaks = [Streak::default(); 2];
        if !std::mem::replace(&mut self.open, false) {
            return None;
        }
        for slot in &mut self.recent {
            slot.settle(&mut self.record);
        }
        self.record.cpu = self.cpu;
        self.record.cache = self.cache.as_mut().map(|cache| cache.harvest());
        Some(std::mem::take(&mut self.record))
    }

    /// Was this line used lately? Then it is known to be memory.
    #[inline]
    pub fn knows(&self, line: u64) -> bool {
        self.recent.get(line as usize % RECENT).is_some_and(|slot| u64::from(slot.line) == line)
    }

    /// The physical line of this address, if it is in the line of the access before it. Nothing can have moved it in between: a page
    /// table is written with an access to another line, and where another CPU wrote it, this one handles an interrupt or a fault.
    #[inline]
    pub fn same(&self, vaddr: u64) -> Option<u64> {
        let (virt, line) = self.translated;
        (virt == vaddr >> LINE_BITS).then_some(line)
    }

    /// An access to this address goes to that physical line.
    #[inline]
    pub fn translates(&mut self, vaddr: u64, line: u64) {
        self.translated = (vaddr >> LINE_BITS, line);
    }

    /// True: an iteration of the repeated string instruction that touched this line the same way before it, which is noted here.
    /// Such an iteration is a byte or a few of a line that this CPU holds already; there are thousands of them to a cleared page.
    #[inline]
    pub fn goes_on(&mut self, pc: u64, vaddr: u64, bytes: u32, write: bool) -> bool {
        let Streak { pc: last, vline, line } = self.streaks[usize::from(write)];
        let offset = (vaddr & ((1 << LINE_BITS) - 1)) as u32;
        if last != pc || vline != vaddr >> LINE_BITS || offset + bytes > 1 << LINE_BITS {
            return false;
        }
        let Some(slot) = self.recent.get_mut(line as usize % RECENT) else { return false };
        // The instruction's other line may have pushed this one out.
        if u64::from(slot.line) != line {
            return false;
        }
        if self.open {
            // No string instruction locks.
            slot.touched.touch(pc, vaddr, mask(offset, bytes), write, false);
            self.record.count(pc);
        }
        true
    }

    /// The access noted last began a repeated string instruction's work on a line.
    #[inline]
    pub fn streak(&mut self, access: &Access) {
        self.streaks[usize::from(access.write)] =
            Streak { pc: access.pc, vline: access.vaddr >> LINE_BITS, line: access.line };
    }

    /// The access noted last was that of an instruction that does not repeat.
    #[inline]
    pub fn no_streak(&mut self) {
        self.streaks[0].pc = 0;
        self.streaks[1].pc = 0;
    }

    /// This CPU made an access. Says what it took, in a window or not.
    #[inline(always)]
    pub fn note(&mut self, access: &Access) -> Option<Taken> {
        let &Access { line, offset, bytes, vaddr, pc, write, locked } = access;
        if !self.knows(line) && !self.bring(line) {
            return None;
        }
        let slot = self.recent.get_mut(line as usize % RECENT)?;
        if let Some(cache) = &mut self.cache {
            cache.access(line, slot.state.is_some_and(|state| state.is_held(self.cpu)), self.open);
        }
        // A locked instruction has its line for itself from its read on.
        let by = Write { cpu: self.cpu, program: self.executes.program, pc };
        let taken = slot.state.and_then(|state| state.access(by, write || locked));
        if self.open {
            if self.last != slot.line {
                (self.last, self.wrote) = (slot.line, false);
                if slot.visits == u16::MAX {
                    slot.settle(&mut self.record);
                }
                slot.visits += 1;
            }
            slot.touched.touch(pc, vaddr, mask(offset, bytes), write, locked);
            if write && !self.wrote {
                self.wrote = true;
                slot.writing += 1;
            }
            self.record.count(pc);
            if let Some(taken) = taken {
                self.record.taken(access, taken);
            }
        }
        taken
    }

    /// Gives the line a slot; false: it is not watched.
    #[cold]
    fn bring(&mut self, line: u64) -> bool {
        let Some(slot) = self.recent.get_mut(line as usize % RECENT) else { return false };
        slot.settle(&mut self.record);
        slot.state = self.directory.line(line);
        slot.line = if slot.state.is_some() { line as u32 } else { NONE };
        slot.state.is_some()
    }
}

impl Slot {
    /// Adds what was done with the line to the record. Outside of windows nothing is done with any.
    fn settle(&mut self, record: &mut Record) {
        let touched = std::mem::take(&mut self.touched);
        if touched != Touched::default() {
            let Used { touched: sum, visits } = record.lines.entry(self.line.into()).or_default();
            sum.add(&touched);
            visits.all += u64::from(std::mem::take(&mut self.visits));
            visits.writing += u64::from(std::mem::take(&mut self.writing));
        }
    }
}

impl Record {
    #[inline]
    fn count(&mut self, pc: u64) {
        if code::in_kernel(pc) {
            self.kernel_accesses += 1;
        } else {
            self.user_accesses += 1;
        }
    }

    #[cold]
    fn taken(&mut self, access: &Access, taken: Taken) {
        let transfer = Transfer {
            line: access.line,
            write: access.write || access.locked,
            pc: access.pc,
            from: taken.from,
            from_pc: taken.write.map_or(0, |write| write.pc),
        };
        *self.transfers.entry(transfer).or_default() += 1;
    }
}

/// One bit for each of `bytes` bytes from `offset` on; within a line.
#[inline]
fn mask(offset: u32, bytes: u32) -> u64 {
    u64::MAX.checked_shr(64 - bytes.min(64)).unwrap_or(0) << offset
}

impl Touched {
    pub fn written(&self) -> u64 {
        self.locked | self.plain
    }

    #[inline]
    fn touch(&mut self, pc: u64, vaddr: u64, bytes: u64, write: bool, locked: bool) {
        if self.vaddr == 0 {
            self.vaddr = vaddr & !((1 << LINE_BITS) - 1);
        }
        let first = if write {
            *(if locked { &mut self.locked } else { &mut self.plain }) |= bytes;
            &mut self.write_pc
        } else {
            self.read |= bytes;
            &mut self.read_pc
        };
        if *first == 0 {
            *first = pc;
        }
    }

    /// Adds what was done later.
    fn add(&mut self, later: &Touched) {
        self.read |= later.read;
        self.locked |= later.locked;
        self.plain |= later.plain;
        for (mine, later) in [
            (&mut self.read_pc, later.read_pc),
            (&mut self.write_pc, later.write_pc),
            (&mut self.vaddr, later.vaddr),
        ] {
            if *mine == 0 {
                *mine = later;
            }
        }
    }
}

#[cfg(test)]
mod tests;
