//! Who holds each line of the guest's physical memory, as a directory of caches would know it.
//!
//! A line's state is two words: the CPUs that hold it, and its last write (CPU and program counter). A *transfer* is a read of a
//! line that another CPU wrote last and this one does not hold since, or a write of a line that another CPU holds.
//!
//! Caches are taken to be endless here: a line is lost only to another CPU, so every transfer is a true one.
//!
//! No lock, and no ordering but that of each word: two CPUs that race for a line may be seen in either order, and the last write
//! may be that of the loser. Which lines move does not depend on it. A line's words are written only when its state changes or
//! its holder writes it, so the plugin shares no more lines than the guest does.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// One bit for each CPU, and one for `WRITTEN`.
pub const MAX_CPUS: usize = 63;
pub const LINE_BITS: u32 = 6;

/// Lines of 2 MiB of memory, the piece in which the table grows.
const CHUNK: usize = 1 << (21 - LINE_BITS);
/// Pieces: 256 GiB of guest-physical addresses but for the last piece, so that a line's number fits into 32 bits and one is left for
/// none. What lies above is not watched.
const CHUNKS: usize = (1 << 17) - 1;
/// Some CPU has written the line since the plugin began to watch.
const WRITTEN: u64 = 1 << 63;

pub struct Line {
    /// Bit n: CPU n holds the line; bit 63: `WRITTEN`.
    holders: AtomicU64,
    /// A packed `Write`.
    write: AtomicU64,
}

/// The last write of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Write {
    pub cpu: usize,
    pub pc: u64,
}

impl Write {
    /// 48 bits of address and the CPU above them.
    fn pack(self) -> u64 {
        (self.pc & ((1 << 48) - 1)) | ((self.cpu as u64) << 48)
    }

    fn unpack(word: u64) -> Write {
        // Canonical addresses repeat bit 47 above it.
        let pc = ((word << 16) as i64 >> 16) as u64;
        Write { cpu: (word >> 48) as usize, pc }
    }
}

/// What a CPU had to take from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The CPU that it came from: the last writer, or where that is this CPU itself, another holder.
    pub from: usize,
    /// Where the last write was made, if by another CPU.
    pub write: Option<Write>,
}

pub struct Directory {
    chunks: [AtomicPtr<[Line; CHUNK]>; CHUNKS],
}

impl Directory {
    pub const fn new() -> Directory {
        Directory { chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS] }
    }

    /// The state of line `number`, which stays where it is; None: not watched.
    pub fn line(&self, number: u64) -> Option<&Line> {
        let number = usize::try_from(number).ok()?;
        let slot = self.chunks.get(number / CHUNK)?;
        let mut chunk = slot.load(Acquire);
        if chunk.is_null() {
            chunk = grow(slot)?;
        }
        // SAFETY: a chunk once in the table is complete (Acquire pairs with the Release that put it there), is never freed, and
        // is shared only as atomics.
        unsafe { (*chunk).get(number % CHUNK) }
    }
}

impl Line {
    /// CPU `cpu` (below `MAX_CPUS`) reads or writes the line at `pc`.
    #[inline]
    pub fn access(&self, cpu: usize, write: bool, pc: u64) -> Option<Taken> {
        let mine = 1 << cpu;
        let holders = self.holders.load(Relaxed);
        if write {
            let taken = if holders == mine | WRITTEN { None } else { self.take_to_write(cpu) };
            self.write.store(Write { cpu, pc }.pack(), Relaxed);
            return taken;
        }
        if holders & mine != 0 { None } else { self.take_to_read(cpu) }
    }

    /// Does CPU `cpu` hold the line, as far as caches are endless?
    #[inline]
    pub fn is_held(&self, cpu: usize) -> bool {
        self.holders.load(Relaxed) & 1 << cpu != 0
    }

    #[cold]
    fn take_to_write(&self, cpu: usize) -> Option<Taken> {
        let mine = 1 << cpu;
        let holders = self.holders.swap(mine | WRITTEN, Relaxed);
        let others = holders & !(mine | WRITTEN);
        (others != 0).then(|| {
            let write = self.last_write(holders, cpu);
            Taken { from: write.map_or(others.trailing_zeros() as usize, |write| write.cpu), write }
        })
    }

    #[cold]
    fn take_to_read(&self, cpu: usize) -> Option<Taken> {
        let holders = self.holders.fetch_or(1 << cpu, Relaxed);
        let write = self.last_write(holders, cpu)?;
        Some(Taken { from: write.cpu, write: Some(write) })
    }

    /// The last write, where there was one and another CPU made it.
    fn last_write(&self, holders: u64, cpu: usize) -> Option<Write> {
        let write = Write::unpack(self.write.load(Relaxed));
        (holders & WRITTEN != 0 && write.cpu != cpu).then_some(write)
    }
}

/// Puts an empty chunk into the table, or finds that another CPU just did. None: the host is out of memory.
#[cold]
fn grow(slot: &AtomicPtr<[Line; CHUNK]>) -> Option<*mut [Line; CHUNK]> {
    let layout = Layout::new::<[Line; CHUNK]>();
    // SAFETY: the layout is not empty; all-zero bytes are valid `Line`s.
    let new = unsafe { alloc_zeroed(layout) }.cast::<[Line; CHUNK]>();
    if new.is_null() {
        return None;
    }
    match slot.compare_exchange(ptr::null_mut(), new, Release, Acquire) {
        Ok(_) => Some(new),
        Err(there) => {
            // SAFETY: allocated above with this layout, and nobody else has seen it.
            unsafe { dealloc(new.cast(), layout) };
            Some(there)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PC: u64 = 0xffff_ffff_8100_1234;

    /// A megabyte of pointers: not on a test thread's stack.
    fn directory() -> &'static Directory {
        static DIRECTORY: Directory = Directory::new();
        &DIRECTORY
    }

    impl Directory {
        fn access(&self, line: u64, cpu: usize, write: bool, pc: u64) -> Option<Taken> {
            self.line(line)?.access(cpu, write, pc)
        }
    }

    #[test]
    fn a_line_of_one_cpu_never_moves() {
        let directory = directory();
        for round in 0..3 {
            assert_eq!(directory.access(100, 5, round == 1, PC), None);
        }
    }

    #[test]
    fn lines_that_are_only_read_never_move() {
        for cpu in 0..MAX_CPUS {
            assert_eq!(directory().access(200, cpu, false, PC), None);
        }
    }

    #[test]
    fn each_reader_takes_a_written_line_once() {
        let directory = directory();
        assert_eq!(directory.access(300, 0, true, PC), None);
        for cpu in 1..4 {
            let write = Write { cpu: 0, pc: PC };
            assert_eq!(directory.access(300, cpu, false, 0x40), Some(Taken { from: 0, write: Some(write) }));
            assert_eq!(directory.access(300, cpu, false, 0x40), None);
        }
        assert_eq!(directory.access(300, 0, false, PC), None);
    }

    #[test]
    fn a_writer_takes_the_line_from_all_that_hold_it() {
        let directory = directory();
        directory.access(400, 0, true, 0x1000);
        let write = Some(Write { cpu: 0, pc: 0x1000 });
        assert_eq!(directory.access(400, 62, true, PC), Some(Taken { from: 0, write }));
        assert_eq!(directory.access(400, 62, true, PC), None);
        let write = Some(Write { cpu: 62, pc: PC });
        assert_eq!(directory.access(400, 0, true, 0x1000), Some(Taken { from: 62, write }));
    }

    #[test]
    fn the_last_writer_pays_to_write_again_after_a_reader() {
        let directory = directory();
        directory.access(500, 3, true, PC);
        directory.access(500, 7, false, PC);
        assert_eq!(directory.access(500, 3, false, PC), None);
        assert_eq!(directory.access(500, 3, true, PC), Some(Taken { from: 7, write: None }));
    }

    #[test]
    fn memory_beyond_the_table_is_not_watched() {
        assert_eq!(directory().access((CHUNK * CHUNKS) as u64, 0, true, PC), None);
        assert_eq!(directory().access((CHUNK * CHUNKS) as u64, 1, true, PC), None);
    }

    #[test]
    fn program_counters_of_both_halves_survive_packing() {
        for pc in [0, 0x7fff_ffff_fff0, PC, u64::MAX] {
            for cpu in [0, 62] {
                assert_eq!(Write::unpack(Write { cpu, pc }.pack()), Write { cpu, pc });
            }
        }
    }
}
