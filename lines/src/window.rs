//! Windows: what lies between a task's open marker and its close marker, on the CPU that it runs on.
//!
//! Who opens says the window's number, and numbers ascend. A window of the machine is complete when `tasks` CPUs have closed. Then one
//! entry is made of it, the file is written anew and the next open begins another window. A window is void, and gives no entry, when a CPU
//! opens one of a higher number, or opens it once more, before it is complete: its program ended without closing.
//!
//! Invariants: an entry is made while no CPU counts (every CPU that opened has closed, and an open waits for `State`,
//! whose lock is held while the entry is made). The lock is taken at markers alone, never where things are counted.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct Windows {
    state: Mutex<State>,
}

pub struct State {
    /// Of the window that was opened last.
    number: u64,
    /// CPUs as bits.
    open: u64,
    closed: u64,
    entries: String,
}

/// What a CPU's open does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The CPU counts from here on.
    Counts,
    /// It does, and the window before is void: what was counted in it must be dropped.
    Voids,
    /// It does not count: its window is void already.
    Late,
}

impl Windows {
    pub const fn new() -> Windows {
        let state = State { number: 0, open: 0, closed: 0, entries: String::new() };
        Windows { state: Mutex::new(state) }
    }

    /// Held while a CPU opens or closes. A panic elsewhere leaves the counts as they were, so poison is ignored.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// CPU `cpu` (below 64) opens the window of this number.
    pub fn opened(&mut self, cpu: usize, number: u64) -> Opened {
        if number < self.number {
            return Opened::Late;
        }
        let seen = self.open | self.closed;
        let voids = seen & (1 << cpu) != 0 || seen != 0 && number != self.number;
        if voids {
            (self.open, self.closed) = (0, 0);
        }
        self.number = number;
        self.open |= 1 << cpu;
        if voids { Opened::Voids } else { Opened::Counts }
    }

    /// Is this CPU's close awaited?
    pub fn is_open(&self, cpu: usize) -> bool {
        self.open & (1 << cpu) != 0
    }

    /// CPU `cpu`, which was open, closes. True: the window is complete, and `push` must follow.
    pub fn closed(&mut self, cpu: usize, tasks: u32) -> bool {
        self.open &= !(1 << cpu);
        self.closed |= 1 << cpu;
        self.closed.count_ones() >= tasks && self.open == 0
    }

    /// Adds the complete window's fields (`"name":value,…`) as an entry.
    pub fn push(&mut self, fields: &str) {
        let comma = if self.entries.is_empty() { "" } else { "," };
        let _ = write!(self.entries, "{comma}\n{{\"number\":{},{fields}}}", self.number);
        self.closed = 0;
    }

    /// The whole file: `head` is the fields that hold for all windows.
    pub fn document(&self, head: &str) -> String {
        format!("{{\"format\":\"darter-lines/1\",{head},\"windows\":[{}\n]}}\n", self.entries)
    }
}

/// Puts `text` in the file's place at once, so that a reader sees the old or the new file and never a part.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    std::fs::write(&name, text)?;
    std::fs::rename(&name, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_complete_when_every_task_has_closed() {
        let windows = Windows::new();
        let mut state = windows.lock();
        assert_eq!([state.opened(0, 3), state.opened(1, 3)], [Opened::Counts; 2]);
        assert!(!state.closed(0, 2));
        assert!(state.closed(1, 2));
        state.push("\"x\":1");
        assert_eq!(state.opened(1, 4), Opened::Counts);
        assert!(!state.closed(1, 2));
        assert_eq!(state.opened(62, 4), Opened::Counts);
        assert!(state.closed(62, 2));
        state.push("\"x\":2");
        assert_eq!(
            state.document("\"mode\":\"m\""),
            "{\"format\":\"darter-lines/1\",\"mode\":\"m\",\"windows\":[\n{\"number\":3,\"x\":1},\n{\"number\":4,\"x\":2}\n]}\n"
        );
    }

    #[test]
    fn a_program_that_ended_without_closing_voids_its_window_and_not_the_next() {
        let windows = Windows::new();
        let mut state = windows.lock();
        assert_eq!([state.opened(0, 1), state.opened(1, 1)], [Opened::Counts; 2]);
        assert!(!state.closed(1, 3));
        // Both end here; another program begins, on a CPU that they did not use.
        assert_eq!(state.opened(2, 2), Opened::Voids);
        assert!(!state.is_open(0));
        // A task of the first comes to its open now.
        assert_eq!(state.opened(0, 1), Opened::Late);
        assert!(!state.is_open(0));
        assert_eq!([state.opened(1, 2), state.opened(0, 2)], [Opened::Counts; 2]);
        assert!(!state.closed(0, 3) && !state.closed(2, 3));
        assert!(state.closed(1, 3));
    }

    #[test]
    fn a_window_that_is_opened_anew_under_its_number_begins_again() {
        let windows = Windows::new();
        let mut state = windows.lock();
        assert_eq!([state.opened(0, 0), state.opened(1, 0)], [Opened::Counts; 2]);
        assert!(!state.closed(1, 2));
        assert_eq!([state.opened(1, 0), state.opened(0, 0)], [Opened::Voids, Opened::Counts]);
        assert!(!state.closed(0, 2));
        assert!(state.closed(1, 2));
    }

    #[test]
    fn the_file_is_replaced_whole() {
        let path = std::env::temp_dir().join(format!("darter-lines-{}", std::process::id()));
        replace(&path, "first").unwrap();
        replace(&path, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        std::fs::remove_file(&path).unwrap();
    }
}
