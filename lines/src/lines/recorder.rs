//! What one CPU did in a window: the lines that it took from others, and for each line the bytes that it read and wrote.
//!
//! Invariant CountLocal: a recorder belongs to the thread of its CPU. At the close it hands its window over by value.
#![forbid(unsafe_code)]

use super::cache::{Cache, Counts};
use super::directory::{Directory, LINE_BITS, Line, Taken};
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
    /// In transfer mode the packed site instead (`stacks::transfers`).
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

pub struct Recorder {
    pub cpu: usize,
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
        let taken = slot.state.and_then(|state| state.access(self.cpu, write || locked, pc));
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
mod tests {
    use super::*;

    static DIRECTORY: Directory = Directory::new();

    fn access(line: u64, offset: u32, write: bool) -> Access {
        Access { line, offset, bytes: 8, vaddr: line << 6 | 8, pc: 0x1000, write, locked: false }
    }

    #[test]
    fn bytes_add_up_even_when_lines_push_each_other_out() {
        let mut recorder = Recorder::new(2, &DIRECTORY, None);
        recorder.open();
        for round in 0..4 {
            for line in [1, 1 + RECENT as u64] {
                recorder.note(&access(line, round * 8, round % 2 == 1));
            }
        }
        let record = recorder.close().unwrap();
        assert_eq!(record.cpu, 2);
        for line in [1, 1 + RECENT as u64] {
            let touched = record.lines[&line].touched;
            assert_eq!((touched.read, touched.written()), (0x00ff_00ff, 0xff00_ff00));
            assert_eq!((touched.plain, touched.locked), (0xff00_ff00, 0));
            assert_eq!(touched.vaddr, line << 6);
        }
        assert_eq!(record.user_accesses, 8);
    }

    #[test]
    fn only_the_line_of_the_access_before_is_known_without_a_look() {
        let mut recorder = Recorder::new(0, &DIRECTORY, None);
        assert_eq!(recorder.same(0), None);
        recorder.translates(0x1008, 99);
        assert_eq!(
            (recorder.same(0x1038), recorder.same(0x1040), recorder.same(0xfff)),
            (Some(99), None, None)
        );
        recorder.translates(0x2000, 100);
        assert_eq!(recorder.same(0x1008), None);
    }

    #[test]
    fn a_visit_lasts_until_another_line_is_used() {
        let mut recorder = Recorder::new(0, &DIRECTORY, None);
        recorder.open();
        for write in [false, true, true] {
            recorder.note(&access(70, 0, write));
        }
        let many = 3 * u64::from(u16::MAX);
        for _ in 0..many {
            recorder.note(&access(71, 0, true));
            recorder.note(&access(70, 0, false));
        }
        let lines = recorder.close().unwrap().lines;
        assert_eq!(lines[&70].visits, Visits { all: 1 + many, writing: 1 });
        assert_eq!(lines[&71].visits, Visits { all: many, writing: many });
    }

    #[test]
    fn a_string_instruction_goes_on_within_its_line_alone() {
        let mut recorder = Recorder::new(0, &DIRECTORY, None);
        recorder.open();
        let first = access(10, 0, true);
        recorder.note(&first);
        recorder.streak(&first);
        let vaddr = 10 << 6;
        assert!(recorder.goes_on(first.pc, vaddr + 8, 8, true));
        assert!(!recorder.goes_on(first.pc, vaddr + 8, 8, false), "reads are a stream of their own");
        assert!(!recorder.goes_on(first.pc + 1, vaddr + 16, 8, true), "another instruction");
        assert!(!recorder.goes_on(first.pc, vaddr + 60, 8, true), "into the next line");
        assert!(!recorder.goes_on(first.pc, vaddr + 64, 8, true), "the next line");
        let source = access(10 + RECENT as u64, 0, false);
        recorder.note(&source);
        assert!(!recorder.goes_on(first.pc, vaddr + 16, 8, true), "pushed out by what it is copied from");
        recorder.note(&first);
        recorder.no_streak();
        assert!(!recorder.goes_on(first.pc, vaddr + 16, 8, true), "something else came after");
        let record = recorder.close().unwrap();
        assert_eq!((record.lines[&10].touched.written(), record.user_accesses), (0xffff, 4));
    }

    #[test]
    fn nothing_is_recorded_outside_a_window() {
        let (mut recorder, mut other) =
            (Recorder::new(0, &DIRECTORY, None), Recorder::new(1, &DIRECTORY, None));
        other.note(&access(20, 0, true));
        recorder.note(&access(20, 0, true));
        assert!(recorder.close().is_none());
        recorder.open();
        let record = recorder.close().unwrap();
        assert!(record.lines.is_empty() && record.transfers.is_empty());
    }

    #[test]
    fn a_line_is_taken_though_it_was_used_lately() {
        let (mut recorder, mut other) =
            (Recorder::new(0, &DIRECTORY, None), Recorder::new(1, &DIRECTORY, None));
        recorder.open();
        for _ in 0..2 {
            recorder.note(&access(30, 0, false));
            other.note(&access(30, 0, true));
        }
        let transfers = recorder.close().unwrap().transfers;
        let taken = Transfer { line: 30, write: false, pc: 0x1000, from: 1, from_pc: 0x1000 };
        assert_eq!(transfers.into_iter().collect::<Vec<_>>(), [(taken, 1)]);
    }

    #[test]
    fn a_window_begins_with_nothing_of_the_one_before() {
        let mut recorder = Recorder::new(0, &DIRECTORY, None);
        for line in [40, 41] {
            recorder.open();
            recorder.note(&access(line, 0, true));
            let record = recorder.close().unwrap();
            assert_eq!(record.lines.keys().collect::<Vec<_>>(), [&line]);
        }
    }

    #[test]
    fn a_modelled_cache_loses_lines_to_other_cpus() {
        let cache = Cache::new(1 << 20, 0, Default::default());
        let mut recorder = Recorder::new(0, &DIRECTORY, Some(cache));
        let mut other = Recorder::new(1, &DIRECTORY, None);
        recorder.note(&access(60, 0, false));
        recorder.open();
        recorder.note(&access(60, 0, false));
        other.note(&access(60, 0, true));
        recorder.note(&access(60, 0, false));
        let counts = Counts { accesses: 2, local: 1, remote: 0, taken: 1 };
        assert_eq!(recorder.close().unwrap().cache, Some(counts));
    }

    #[test]
    fn a_locked_instruction_takes_its_line_once_and_a_look_before_it_once_more() {
        let (mut one, mut other) = (Recorder::new(0, &DIRECTORY, None), Recorder::new(1, &DIRECTORY, None));
        let exchange = |recorder: &mut Recorder, line| {
            recorder.note(&Access { locked: true, ..access(line, 0, false) });
            recorder.note(&Access { locked: true, ..access(line, 0, true) });
        };
        one.open();
        (0..10).for_each(|_| {
            exchange(&mut other, 61);
            exchange(&mut one, 61);
            exchange(&mut other, 62);
            one.note(&access(62, 0, false));
            exchange(&mut one, 62);
        });
        let taken = |record: &Record, line| {
            record.transfers.iter().filter(|(from, _)| from.line == line).map(|(_, n)| n).sum::<u64>()
        };
        let record = one.close().unwrap();
        assert_eq!((taken(&record, 61), taken(&record, 62)), (10, 20));
    }

    #[test]
    fn an_access_of_a_whole_line_touches_every_byte() {
        let mut recorder = Recorder::new(0, &DIRECTORY, None);
        recorder.open();
        recorder.note(&Access { bytes: 64, ..access(50, 0, true) });
        assert_eq!(recorder.close().unwrap().lines[&50].touched.written(), u64::MAX);
    }
}
