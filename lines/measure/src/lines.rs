//! Line mode: what CPUs took from each other in a window, and which lines conflict.

use crate::{Error, refused};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How a conflict line is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Only the line is shared, no byte of it.
    False,
    /// Bytes written by locked and by plain instructions: taken and released.
    Lock,
    /// Bytes that only locked instructions write.
    Atomic,
    /// Bytes that only plain instructions write.
    Shared,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::False => "false",
            Class::Lock => "lock",
            Class::Atomic => "atomic",
            Class::Shared => "shared",
        }
    }
}

/// What one CPU did with a line: where it first read it and first wrote it (0: it did not), and which bytes (a bit each).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct User {
    pub cpu: u32,
    pub read_pc: u64,
    pub write_pc: u64,
    #[serde(default)]
    pub read: u64,
    #[serde(default)]
    pub written: u64,
    /// The line's address when this CPU first used it.
    #[serde(default)]
    pub vaddr: u64,
    /// How often this CPU came to the line from another one, and in how many of these visits it wrote.
    #[serde(default)]
    pub visits: u64,
    #[serde(default)]
    pub writes: u64,
}

/// A kind of transfer and how often it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Pair {
    /// 1: a write took the line; 0: a read.
    pub write: u8,
    pub pc: u64,
    /// Where the line was last written by another CPU; 0: it was only held by a reader.
    pub from_pc: u64,
    pub count: u64,
}

/// One line that moved, or conflicts, or both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// Guest-physical address.
    #[serde(rename = "line")]
    pub physical: u64,
    pub vaddr: u64,
    /// None: it moved, but nobody else used it within the window.
    pub class: Option<Class>,
    pub transfers: u64,
    /// Transfers between NUMA nodes.
    pub remote: u64,
    pub cpus: Vec<User>,
    /// The most frequent first; at most eight.
    pub pairs: Vec<Pair>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LineWindow {
    /// As the program calls it: windows of one machine have ascending numbers.
    pub number: u64,
    pub user_accesses: u64,
    pub kernel_accesses: u64,
    pub user_reads: u64,
    pub user_writes: u64,
    pub kernel_reads: u64,
    pub kernel_writes: u64,
    pub remote: u64,
    /// (from CPU, to CPU, transfers)
    pub matrix: Vec<(u32, u32, u64)>,
    /// Of the modelled caches, if that was asked for: (CPU, accesses, fetched from its own node's memory, from another's, and how many
    /// of all fetched lines another CPU had taken).
    #[serde(default)]
    pub cache: Vec<(u32, u64, u64, u64, u64)>,
    /// The most often moved first.
    pub lines: Vec<Line>,
    /// What the guest's memory said when the window was complete.
    #[serde(default)]
    pub memory: Memory,
}

/// Pieces of the guest's memory, by virtual address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<(u64, String)>")]
pub struct Memory(BTreeMap<u64, Vec<u8>>);

impl From<Vec<(u64, String)>> for Memory {
    fn from(pieces: Vec<(u64, String)>) -> Memory {
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let bytes = |text: &str| text.as_bytes().chunks(2).map_while(byte).collect();
        Memory(pieces.iter().map(|(address, text)| (*address, bytes(text))).collect())
    }
}

impl Memory {
    /// The piece that begins at this address.
    pub fn at(&self, address: u64) -> Option<&[u8]> {
        self.0.get(&address).map(Vec::as_slice)
    }
}

#[derive(Deserialize)]
struct File {
    format: String,
    mode: String,
    windows: Vec<LineWindow>,
}

pub fn parse_lines(json: &str) -> Result<Vec<LineWindow>, Error> {
    refused(json)?;
    let file: File = serde_json::from_str(json).map_err(|error| Error::Format(error.to_string()))?;
    if file.format != "darter-lines/1" || file.mode != "lines" {
        return Err(Error::Format(format!("format {:?}, mode {:?}", file.format, file.mode)));
    }
    Ok(file.windows)
}

impl Line {
    /// How often the line would have moved had the CPUs come to it in turns: a visit takes it at most once, after a writing visit of
    /// another CPU or, if it writes, after any. Says what the CPUs did, and not who came first.
    pub fn turns(&self) -> u64 {
        let sum = |of: fn(&User) -> u64| self.cpus.iter().map(of).sum::<u64>();
        let (visits, writes) = (sum(|user| user.visits), sum(|user| user.writes));
        let takes = |user: &User| {
            let (others, writing) = (visits - user.visits, writes - user.writes);
            user.visits.min(writing + user.writes.min(others))
        };
        self.cpus.iter().map(takes).sum()
    }
}

impl LineWindow {
    pub fn transfers(&self) -> u64 {
        self.user_reads + self.user_writes + self.kernel_reads + self.kernel_writes
    }

    /// Lines with a writer and another CPU within the window.
    pub fn conflicts(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.class.is_some())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const FILE: &str = r#"{"format":"darter-lines/1","mode":"lines","tasks":2,"windows":[{"number":0,"user_accesses":10,
        "kernel_accesses":20,"user_reads":0,"user_writes":1,"kernel_reads":2,"kernel_writes":1,"remote":0,
        "matrix":[[0,1,4]],"lines":[
        {"line":448,"vaddr":18446744071578845632,"class":"lock","transfers":3,"remote":0,
         "cpus":[[0,18446744071578845184,0],[1,0,18446744071578845184]],"pairs":[[1,18446744071578845184,0,3]]},
        {"line":512,"vaddr":512,"class":null,"transfers":1,"remote":0,"cpus":[],"pairs":[[0,4096,4100,1]]},
        {"line":640,"vaddr":640,"class":"false","transfers":0,"remote":0,"cpus":[[0,1,1],[1,1,1]],"pairs":[]}]}]}"#;

    #[test]
    fn a_window_says_what_moved_and_what_conflicts() {
        let windows = parse_lines(FILE).unwrap();
        assert_eq!(windows[0].transfers(), 4);
        assert_eq!(windows[0].conflicts().map(|line| line.physical).collect::<Vec<_>>(), [448, 640]);
        let lock = &windows[0].lines[0];
        assert_eq!(
            lock.cpus[1],
            User { cpu: 1, read_pc: 0, write_pc: 18446744071578845184, ..User::default() }
        );
    }

    #[test]
    fn turns_follow_from_what_the_cpus_did() {
        let turns = |users: &[(u64, u64)]| {
            let users = users.iter().map(|&(visits, writes)| User { visits, writes, ..User::default() });
            let line = &parse_lines(FILE).unwrap()[0].lines[0];
            Line { cpus: users.collect(), ..line.clone() }.turns()
        };
        assert_eq!(turns(&[(100, 100), (100, 100)]), 200);
        // Read at every operation and written once: each reader takes it once, and the writer takes it from them.
        assert_eq!(turns(&[(100, 0), (100, 0), (1, 1)]), 3);
        // A thousand uses of one's own, with one look from elsewhere.
        assert_eq!(turns(&[(1000, 1000), (1, 0)]), 2);
        assert_eq!(turns(&[(100, 0), (100, 0)]), 0);
        assert_eq!(turns(&[(100, 100)]), 0);
    }

    #[test]
    fn memory_is_read_by_the_address_where_a_piece_begins() {
        let memory: Memory = serde_json::from_str(r#"[[4096,"00ff"],[8192,""]]"#).unwrap();
        assert_eq!((memory.at(4096), memory.at(4097)), (Some(&[0, 0xff][..]), None));
    }

    #[test]
    fn instruction_counts_are_not_lines() {
        let other = r#"{"format":"darter-lines/1","mode":"instructions","windows":[]}"#;
        assert!(matches!(parse_lines(other), Err(Error::Format(_))));
    }
}
