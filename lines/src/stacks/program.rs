//! What a program tells of itself to who looks on: the file that it was executed from, and the files that it maps.
#![forbid(unsafe_code)]

use super::tree::{Executed, Mapping};
use super::{Machine, Register};

/// System calls (arch/x86/entry/syscalls of Linux; open(2), mmap(2)).
const OPEN: u64 = 2;
const OPENAT: u64 = 257;
const MMAP: u64 = 9;
const PROT_EXEC: u64 = 4;
/// Files of a thread that are remembered: a loader maps what it opened last.
const REMEMBERED: usize = 16;
const LONGEST_PATH: usize = 4096;
/// Words looked at to find the auxiliary vector behind arguments and environment.
const MOST_WORDS: usize = 1 << 16;
const PAGE: u64 = 4096;
/// An interpreter's code is within this of its base.
const INTERPRETER: u64 = 64 << 20;
/// Entries of the auxiliary vector (getauxval(3)).
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_EXECFN: u64 = 31;

/// A call whose answer says what it did.
#[derive(Debug)]
pub enum Asked {
    Open(String),
    Map(Mapping),
}

/// The files that a thread has opened lately, by descriptor.
#[derive(Debug, Default)]
pub struct Files(Vec<(u64, String)>);

impl Files {
    /// A system call begins, and the registers are the program's still.
    pub fn asked(&self, number: u64, machine: &mut impl Machine) -> Option<Asked> {
        match number {
            OPEN | OPENAT => {
                let register = if number == OPEN { Register::Rdi } else { Register::Rsi };
                let path = machine.register(register);
                text(path, machine).filter(|path| path.starts_with('/')).map(Asked::Open)
            }
            MMAP if machine.register(Register::Rdx) & PROT_EXEC != 0 => {
                let descriptor = machine.register(Register::R8) & 0xffff_ffff;
                let (_, file) = self.0.iter().rev().find(|(open, _)| *open == descriptor)?;
                let (bytes, offset) = (machine.register(Register::Rsi), machine.register(Register::R9));
                Some(Asked::Map(Mapping { start: 0, bytes, offset, file: file.clone() }))
            }
            _ => None,
        }
    }

    /// It has returned; says what it has mapped.
    pub fn answered(&mut self, asked: Asked, machine: &mut impl Machine) -> Option<Mapping> {
        let answer = machine.register(Register::Rax);
        if answer.cast_signed() < 0 {
            return None;
        }
        match asked {
            Asked::Open(path) => {
                if self.0.len() >= REMEMBERED {
                    self.0.remove(0);
                }
                self.0.push((answer, path));
                None
            }
            Asked::Map(mapping) => Some(Mapping { start: answer, ..mapping }),
        }
    }
}

/// What is executed, if `pc` is the first instruction of a program whose arguments are at `sp`; none: it is not.
pub fn executed(sp: u64, pc: u64, machine: &mut impl Machine) -> Option<Executed> {
    let mut words = Words { machine, page: Vec::new(), next: sp };
    let arguments = words.next()?;
    if !sp.is_multiple_of(16) || arguments > MOST_WORDS as u64 {
        return None;
    }
    for _ in 0..arguments {
        words.next().filter(|word| *word != 0)?;
    }
    words.next().filter(|word| *word == 0)?;
    (0..MOST_WORDS).find_map(|_| words.next().is_none_or(|word| word == 0).then_some(()))?;
    let (mut entry, mut base, mut file) = (0, 0, 0);
    loop {
        match (words.next()?, words.next()?) {
            (0, _) => break,
            (AT_BASE, value) => base = value,
            (AT_ENTRY, value) => entry = value,
            (AT_EXECFN, value) => file = value,
            (kind, _) if kind > 1 << 16 => return None,
            _ => {}
        }
    }
    let begins = pc == entry || base != 0 && (base..base.saturating_add(INTERPRETER)).contains(&pc);
    Some(Executed { file: text(file, machine).filter(|_| begins && file != 0)?, entry, base })
}

/// The words of memory from an address on.
struct Words<'a, M> {
    machine: &'a mut M,
    /// What is read of the page in which the next one lies.
    page: Vec<u8>,
    next: u64,
}

impl<M: Machine> Words<'_, M> {
    fn next(&mut self) -> Option<u64> {
        let (at, left) = (self.next, PAGE - self.next % PAGE);
        if self.page.is_empty() {
            self.page = self.machine.memory(at, left as usize)?;
        }
        let from = self.page.len().checked_sub(left as usize)?;
        let word = self.page.get(from..from + 8)?.try_into().ok()?;
        self.next = at.checked_add(8)?;
        if left <= 8 {
            self.page.clear();
        }
        Some(u64::from_le_bytes(word))
    }
}

/// A string that ends with a zero, and is not empty.
fn text(mut at: u64, machine: &mut impl Machine) -> Option<String> {
    let mut text = Vec::new();
    while text.len() < LONGEST_PATH {
        let left = (PAGE - at % PAGE).min(256);
        let piece = machine.memory(at, left as usize)?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(piece.get(..end)?);
            return Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty());
        }
        text.extend(piece);
        at = at.checked_add(left)?;
    }
    None
}
