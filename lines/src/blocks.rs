//! Block mode: which parts of the kernel's code were executed, and by which program first.
//!
//! QEMU translates a run of instructions when it is about to execute it for the first time, so a list of translations is a list
//! of what was executed, and costs nothing afterwards. Each entry of the file is three words of 64 bits (little endian): the first
//! address, the address after the last instruction, and the number that the last `WINDOW_OPEN` had. A marker by itself has an entry, too,
//! with addresses zero: what a machine that died was at is the last of these. A program's blocks are new to the *machine*;
//! whether they are new to anybody else is for the reader to say.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

pub struct Blocks {
    file: Mutex<Option<File>>,
    program: AtomicU64,
}

impl Blocks {
    pub const fn new() -> Blocks {
        Blocks { file: Mutex::new(None), program: AtomicU64::new(0) }
    }

    pub fn open(&self, path: &Path) -> Result<(), String> {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    /// From now on blocks are the first time executed by this program.
    pub fn begins(&self, program: u64) {
        self.program.store(program, Relaxed);
        self.entry(0, 0, program);
    }

    /// The instructions from `start` to `end` are about to be executed.
    pub fn translated(&self, start: u64, end: u64) {
        self.entry(start, end, self.program.load(Relaxed));
    }

    /// At once, so that it is there however QEMU ends.
    fn entry(&self, start: u64, end: u64, program: u64) {
        let mut words = [0; 24];
        for (place, word) in words.chunks_mut(8).zip([start, end, program]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        if let Some(file) = &mut *self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            // A full disk costs coverage, not the run.
            let _ = file.write_all(&words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_the_program_that_came_first() {
        let path = std::env::temp_dir().join(format!("darter-blocks-{}", std::process::id()));
        let blocks = Blocks::new();
        blocks.open(&path).unwrap();
        blocks.translated(16, 32);
        blocks.begins(7);
        blocks.translated(48, 49);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let words: Vec<u64> =
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [16, 32, 0, 0, 0, 7, 48, 49, 7]);
    }
}
