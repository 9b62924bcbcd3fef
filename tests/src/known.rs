//! Differences from Linux that are known and not mended yet: tests/abi/known-differences.
//!
//! Each line names a program, a side and a line of output that only this side prints; `status` stands for the way the program
//! ended. A difference all of whose lines are named is known. A name that no run needs any more is an error, so the
//! list can only shrink.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    Linux,
    Darter,
    Status,
}

struct Entry {
    program: String,
    side: Side,
    line: String,
}

pub struct Known {
    entries: Vec<Entry>,
    /// How often each entry was needed.
    needed: RefCell<HashMap<usize, usize>>,
}

impl Known {
    /// Reads the list; a kernel other than Darter has none.
    pub fn load(root: &Path, kernel: &str) -> Result<Self, String> {
        let mut known = Self { entries: Vec::new(), needed: RefCell::default() };
        if kernel == "linux" {
            return Ok(known);
        }
        let path = root.join("tests/abi/known-differences");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for (number, row) in text.lines().enumerate() {
            if row.is_empty() || row.starts_with('#') {
                continue;
            }
            let entry = parse(row).ok_or_else(|| format!("{}:{}: not a row", path.display(), number + 1))?;
            known.entries.push(entry);
        }
        Ok(known)
    }

    /// Is this line of this program named? Remembers that it was needed.
    pub fn allows(&self, program: &str, side: Side, line: &str) -> bool {
        let found =
            self.entries.iter().position(|e| e.program == program && e.side == side && e.line == line);
        if let Some(n) = found {
            *self.needed.borrow_mut().entry(n).or_default() += 1;
        }
        found.is_some()
    }

    /// Named lines of a program that ran and did not need them.
    pub fn mended(&self, program: &str) -> Vec<&str> {
        let needed = self.needed.borrow();
        let stale = |(n, e): &(usize, &Entry)| e.program == program && !needed.contains_key(n);
        self.entries.iter().enumerate().filter(stale).map(|(_, e)| e.line.as_str()).collect()
    }
}

fn parse(row: &str) -> Option<Entry> {
    let mut fields = row.splitn(3, '\t');
    let (program, side, line) = (fields.next()?, fields.next()?, fields.next()?);
    let side = match side {
        "linux" => Side::Linux,
        "darter" => Side::Darter,
        "status" => Side::Status,
        _ => return None,
    };
    Some(Entry { program: program.to_owned(), side, line: line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rows: &[&str]) -> Known {
        let entries = rows.iter().filter_map(|row| parse(row)).collect();
        Known { entries, needed: RefCell::default() }
    }

    #[test]
    fn a_named_line_is_known_for_its_program_and_side_alone() {
        let known = list(&["exec\tdarter\texecve: ENOEXEC"]);
        assert!(known.allows("exec", Side::Darter, "execve: ENOEXEC"));
        assert!(!known.allows("exec", Side::Linux, "execve: ENOEXEC"));
        assert!(!known.allows("files", Side::Darter, "execve: ENOEXEC"));
    }

    #[test]
    fn a_name_that_is_not_needed_is_reported() {
        let known = list(&["a\tdarter\tx", "a\tlinux\tz"]);
        known.allows("a", Side::Linux, "z");
        assert_eq!(known.mended("a"), ["x"]);
    }

    #[test]
    fn rows_without_three_fields_are_refused() {
        assert!(parse("exec\tdarter").is_none());
        assert!(parse("exec\televator\tx").is_none());
    }
}
