//! Which of the kernel's basic blocks were executed.
//!
//! The blocks are those of the kernel's file as objdump shows it: one begins where a function does, where a jump leads to, and after a
//! jump, call or return. The plugin's list (lines/src/blocks.rs) says which addresses were executed.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use darter_measure::Symbols;

/// An entry of the plugin's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: u64,
    pub end: u64,
    /// The program that ran then; 0 before the first.
    pub program: usize,
}

/// The entries of a list; those without addresses say that a program began.
pub fn read(path: &Path) -> Vec<Run> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let word = |entry: &[u8], at: usize| {
        entry.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    bytes
        .chunks_exact(24)
        .map(|entry| Run {
            start: word(entry, 0),
            end: word(entry, 8),
            program: usize::try_from(word(entry, 16)).unwrap_or(0),
        })
        .collect()
}

pub struct Coverage {
    /// First addresses of the blocks, ascending, and whether each was reached.
    blocks: Vec<u64>,
    reached: Vec<bool>,
    symbols: Symbols,
}

impl Coverage {
    pub fn of(kernel: &Path) -> Result<Coverage> {
        let listing = Command::new("objdump")
            .args(["-d", "--no-show-raw-insn"])
            .arg(kernel)
            .output()
            .context("cannot run objdump: run 'make setup'")?;
        if !listing.status.success() {
            bail!("objdump cannot read {}", kernel.display());
        }
        let blocks = blocks(&String::from_utf8_lossy(&listing.stdout));
        let file = std::fs::read(kernel).with_context(|| format!("cannot read {}", kernel.display()))?;
        let reached = vec![false; blocks.len()];
        Ok(Coverage { blocks, reached, symbols: Symbols::from_either(&file)? })
    }

    /// Notes what was executed; how many blocks were new.
    pub fn add(&mut self, run: Run) -> usize {
        // A run that begins within a block (after an interrupt) has executed the rest of it.
        let first = self.blocks.partition_point(|&block| block <= run.start).saturating_sub(1);
        let mut new = 0;
        for (block, reached) in self.blocks.iter().zip(&mut self.reached).skip(first) {
            if *block >= run.end {
                break;
            }
            new += usize::from(!*reached);
            *reached = true;
        }
        new
    }

    pub fn total(&self) -> usize {
        self.blocks.len()
    }

    pub fn count(&self) -> usize {
        self.reached.iter().filter(|&&reached| reached).count()
    }

    /// Functions with their blocks and how many of these were reached, by name.
    pub fn functions(&self) -> Vec<(String, usize, usize)> {
        let mut functions: Vec<(String, usize, usize)> = Vec::new();
        for (block, reached) in self.blocks.iter().zip(&self.reached) {
            let name = self.symbols.find(*block).map_or("?", |(name, _)| name);
            match functions.last_mut() {
                Some((last, all, some)) if last == name => {
                    *all += 1;
                    *some += usize::from(*reached);
                }
                _ => functions.push((name.to_owned(), 1, usize::from(*reached))),
            }
        }
        functions
    }
}

/// The first addresses of the blocks in objdump's listing.
fn blocks(listing: &str) -> Vec<u64> {
    let mut starts = BTreeSet::new();
    let mut instructions = BTreeSet::new();
    let mut after_jump = false;
    for line in listing.lines() {
        if line.ends_with(">:") {
            after_jump = true;
            continue;
        }
        let Some((address, text)) = line.split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
        instructions.insert(address);
        if std::mem::take(&mut after_jump) {
            starts.insert(address);
        }
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let jumps = name.starts_with('j') || name.starts_with("loop");
        if jumps && let Some(to) = words.next().and_then(|to| u64::from_str_radix(to, 16).ok()) {
            starts.insert(to);
        }
        after_jump = jumps
            || name.starts_with("call")
            || name.starts_with("ret")
            || name.starts_with("iret")
            || name == "ud2"
            || name.starts_with("sysret")
            || name == "hlt"
            || name.starts_with("syscall");
    }
    // What follows the last jump of a function is padding or the next function.
    starts.into_iter().filter(|start| instructions.contains(start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\nffffffff80200000 <f>:\nffffffff80200000:\ttest   %rdi,%rdi\nffffffff80200003:\tje     ffffffff80200009 <f+0x9>\n\
        ffffffff80200005:\tmov    $0x1,%eax\nffffffff80200009:\tret\n\nffffffff8020000a <g>:\nffffffff8020000a:\tnop\nffffffff8020000b:\tret\n";

    #[test]
    fn blocks_begin_at_functions_and_where_jumps_lead() {
        let starts: Vec<u64> = blocks(LISTING).iter().map(|block| block & 0xff).collect();
        assert_eq!(starts, [0, 5, 9, 0xa]);
    }

    #[test]
    fn a_run_reaches_the_blocks_it_lies_in() {
        let blocks = blocks(LISTING);
        let reached = vec![false; blocks.len()];
        let symbols = Symbols::from_either(b"ffffffff80200000 T f\nffffffff8020000a T g\n").unwrap();
        let mut coverage = Coverage { blocks, reached, symbols };
        let run = |start: u64, end: u64| Run {
            start: 0xffff_ffff_8020_0000 + start,
            end: 0xffff_ffff_8020_0000 + end,
            program: 0,
        };
        assert_eq!(coverage.add(run(0, 5)), 1);
        assert_eq!(coverage.add(run(3, 5)), 0);
        assert_eq!(coverage.add(run(9, 0xa)), 1);
        assert_eq!((coverage.count(), coverage.total()), (2, 4));
        assert_eq!(coverage.functions(), [("f".to_owned(), 3, 2), ("g".to_owned(), 1, 0)]);
    }
}
