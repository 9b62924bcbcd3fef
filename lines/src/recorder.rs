//! What one CPU did in a window: the lines that it took from others, and for each line the bytes that it read and wrote.
//!
//! Invariant CountLocal: a recorder belongs to the thread of its CPU. At the close it hands its window over by value.
#![forbid(unsafe_code)]

use crate::code;
use crate::directory::{LINE_BITS, Taken};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
    pub written: u64,
    /// Written by a locked instruction, and by any other.
    pub locked: u64,
    pub plain: u64,
    /// Where this CPU first read and first wrote the line; 0: it did not.
    pub read_pc: u64,
    pub write_pc: u64,
    /// The virtual address of the line at its first use.
    pub vaddr: u64,
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
    pub touched: HashMap<u64, Touched, Spread>,
    pub transfers: HashMap<Transfer, u64, Spread>,
}

/// Lines used lately, so that most accesses need no look into the map.
const RECENT: usize = 2048;
/// No line has this number.
const NONE: u64 = u64::MAX;

/// A run of a repeated string instruction over one line. The first access has been noted; the others are when the run ends.
#[derive(Clone, Copy)]
struct Streak {
    first: Access,
    /// The others' bytes, and how many there were.
    bytes: u64,
    count: u64,
}

pub struct Recorder {
    pub cpu: usize,
    open: bool,
    record: Record,
    recent: Vec<(u64, Touched)>,
    /// Reads and writes of a repeated string instruction, while nothing else comes after.
    streaks: [Option<Streak>; 2],
}

impl Recorder {
    pub fn new(cpu: usize) -> Recorder {
        Recorder {
            cpu,
            open: false,
            record: Record::default(),
            recent: vec![(NONE, Touched::default()); RECENT],
            streaks: [None; 2],
        }
    }

    /// Begins a window; what one recorded that was never closed is dropped.
    pub fn open(&mut self) {
        self.close();
        self.open = true;
    }

    /// What was recorded since the open; None: it was not open.
    pub fn close(&mut self) -> Option<Record> {
        self.streak(None);
        if !std::mem::replace(&mut self.open, false) {
            return None;
        }
        for (line, touched) in &mut self.recent {
            if *line != NONE {
                self.record.touched.entry(*line).or_default().add(touched);
                *line = NONE;
            }
        }
        self.record.cpu = self.cpu;
        Some(std::mem::take(&mut self.record))
    }

    /// True: an iteration of the repeated string instruction that touched this line the same way before it, which is noted here.
    /// Such an iteration is a byte or a few of a line that this CPU holds already; there are thousands of them to a cleared page.
    pub fn goes_on(&mut self, pc: u64, vaddr: u64, bytes: u32, write: bool) -> bool {
        let offset = (vaddr & ((1 << LINE_BITS) - 1)) as u32;
        match &mut self.streaks[usize::from(write)] {
            Some(streak)
                if streak.first.pc == pc
                    && (streak.first.vaddr ^ vaddr) >> LINE_BITS == 0
                    && offset + bytes <= 1 << LINE_BITS =>
            {
                streak.bytes |= mask(offset, bytes);
                streak.count += 1;
                true
            }
            _ => false,
        }
    }

    /// After any other access: the streak that it begins, or None for an instruction that does not repeat.
    pub fn streak(&mut self, first: Option<&Access>) {
        match first {
            Some(first) => {
                let slot = usize::from(first.write);
                self.end_streak(slot);
                self.streaks[slot] = Some(Streak { first: *first, bytes: 0, count: 0 });
            }
            None => {
                self.end_streak(0);
                self.end_streak(1);
            }
        }
    }

    fn end_streak(&mut self, slot: usize) {
        if let Some(streak) = self.streaks[slot].take()
            && streak.count > 0
        {
            self.note_bytes(&streak.first, streak.bytes, streak.count);
        }
    }

    /// This CPU made an access, for which it took the line from another CPU or not.
    pub fn note(&mut self, access: &Access, taken: Option<Taken>) {
        if !self.open {
            return;
        }
        if let Some(taken) = taken {
            let transfer = Transfer {
                line: access.line,
                write: access.write,
                pc: access.pc,
                from: taken.from,
                from_pc: taken.write.map_or(0, |write| write.pc),
            };
            *self.record.transfers.entry(transfer).or_default() += 1;
        }
        self.note_bytes(access, mask(access.offset, access.bytes), 1);
    }

    /// `count` accesses of the kind of `access` touched these bytes.
    fn note_bytes(&mut self, access: &Access, bytes: u64, count: u64) {
        if !self.open {
            return;
        }
        if code::in_kernel(access.pc) {
            self.record.kernel_accesses += count;
        } else {
            self.record.user_accesses += count;
        }
        let Some((line, touched)) = self.recent.get_mut(access.line as usize % RECENT) else { return };
        if *line != access.line {
            if *line != NONE {
                self.record.touched.entry(*line).or_default().add(touched);
            }
            *line = access.line;
            *touched = Touched::default();
        }
        touched.touch(access, bytes);
    }
}

/// One bit for each of `bytes` bytes from `offset` on; within a line.
fn mask(offset: u32, bytes: u32) -> u64 {
    u64::MAX.checked_shr(64 - bytes.min(64)).unwrap_or(0) << offset
}

impl Touched {
    fn touch(&mut self, access: &Access, bytes: u64) {
        if self.vaddr == 0 {
            self.vaddr = access.vaddr & !((1 << LINE_BITS) - 1);
        }
        if access.write {
            self.written |= bytes;
            *(if access.locked { &mut self.locked } else { &mut self.plain }) |= bytes;
            if self.write_pc == 0 {
                self.write_pc = access.pc;
            }
        } else {
            self.read |= bytes;
            if self.read_pc == 0 {
                self.read_pc = access.pc;
            }
        }
    }

    /// Adds what was done later.
    fn add(&mut self, later: &Touched) {
        self.read |= later.read;
        self.written |= later.written;
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

/// Spreads small integers over a hash table; nobody chooses them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);
pub type Spread = BuildHasherDefault<Mix>;

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(line: u64, offset: u32, write: bool) -> Access {
        Access { line, offset, bytes: 8, vaddr: line << 6 | 8, pc: 0x1000, write, locked: false }
    }

    #[test]
    fn bytes_add_up_even_when_lines_push_each_other_out() {
        let mut recorder = Recorder::new(2);
        recorder.open();
        for round in 0..4 {
            for line in [1, 1 + RECENT as u64] {
                recorder.note(&access(line, round * 8, round % 2 == 1), None);
            }
        }
        let record = recorder.close().unwrap();
        assert_eq!(record.cpu, 2);
        for line in [1, 1 + RECENT as u64] {
            let touched = record.touched[&line];
            assert_eq!((touched.read, touched.written), (0x00ff_00ff, 0xff00_ff00));
            assert_eq!((touched.plain, touched.locked), (0xff00_ff00, 0));
            assert_eq!(touched.vaddr, line << 6);
        }
        assert_eq!(record.user_accesses, 8);
    }

    #[test]
    fn a_string_instruction_goes_on_within_its_line_alone() {
        let mut recorder = Recorder::new(0);
        recorder.open();
        let first = access(1, 0, true);
        recorder.note(&first, None);
        recorder.streak(Some(&first));
        assert!(recorder.goes_on(first.pc, 64 + 8, 8, true));
        assert!(!recorder.goes_on(first.pc, 64 + 8, 8, false), "reads are a stream of their own");
        assert!(!recorder.goes_on(first.pc + 1, 64 + 16, 8, true), "another instruction");
        assert!(!recorder.goes_on(first.pc, 64 + 60, 8, true), "into the next line");
        assert!(!recorder.goes_on(first.pc, 128, 8, true), "the next line");
        recorder.streak(None);
        assert!(!recorder.goes_on(first.pc, 64 + 16, 8, true), "something else came after");
        let record = recorder.close().unwrap();
        assert_eq!((record.touched[&1].written, record.user_accesses), (0xffff, 2));
    }

    #[test]
    fn nothing_is_recorded_outside_a_window() {
        let mut recorder = Recorder::new(0);
        recorder.note(&access(1, 0, true), Some(Taken { from: 1, write: None }));
        assert!(recorder.close().is_none());
        recorder.open();
        let record = recorder.close().unwrap();
        assert!(record.touched.is_empty() && record.transfers.is_empty());
    }

    #[test]
    fn an_access_of_a_whole_line_touches_every_byte() {
        let mut recorder = Recorder::new(0);
        recorder.open();
        recorder.note(&Access { bytes: 64, ..access(9, 0, true) }, None);
        assert_eq!(recorder.close().unwrap().touched[&9].written, u64::MAX);
    }
}
