//! Windows: what lies between a task's open marker and its close marker, on the CPU that it runs on.
//!
//! A window of the machine is complete when `tasks` CPUs have closed. Then one entry is made of it, the file is
//! written anew and the next open begins another window. A CPU that opens twice in one window says that a program ended in
//! between without closing: that window is void, and gives no entry.
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
    /// CPUs as bits.
    open: u64,
    closed: u64,
    complete: u32,
    entries: String,
}

impl Windows {
    pub const fn new() -> Windows {
        Windows { state: Mutex::new(State { open: 0, closed: 0, complete: 0, entries: String::new() }) }
    }

    /// Held while a CPU opens or closes. A panic elsewhere leaves the counts as they were, so poison is ignored.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// CPU `cpu` (below 64) opens. True: the window so far is void, and what was counted in it must be dropped.
    pub fn opened(&mut self, cpu: usize) -> bool {
        let void = (self.open | self.closed) & (1 << cpu) != 0;
        if void {
            (self.open, self.closed) = (0, 0);
        }
        self.open |= 1 << cpu;
        void
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
        let comma = if self.complete == 0 { "" } else { "," };
        let _ = write!(self.entries, "{comma}\n{{\"seq\":{},{fields}}}", self.complete);
        self.complete += 1;
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
        assert!(!state.opened(0) && !state.opened(1));
        assert!(!state.closed(0, 2));
        assert!(state.closed(1, 2));
        state.push("\"x\":1");
        assert!(!state.opened(1));
        assert!(!state.closed(1, 2));
        assert!(!state.opened(62));
        assert!(state.closed(62, 2));
        state.push("\"x\":2");
        assert_eq!(
            state.document("\"mode\":\"m\""),
            "{\"format\":\"darter-lines/1\",\"mode\":\"m\",\"windows\":[\n{\"seq\":0,\"x\":1},\n{\"seq\":1,\"x\":2}\n]}\n"
        );
    }

    #[test]
    fn a_program_that_ended_without_closing_voids_its_window_and_not_the_next() {
        let windows = Windows::new();
        let mut state = windows.lock();
        assert!(!state.opened(0) && !state.opened(1));
        assert!(!state.closed(1, 2));
        // Both end here; another program begins.
        assert!(state.opened(1));
        assert!(!state.is_open(0));
        assert!(!state.opened(0));
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
