//! Does each call that the kernel has stand among the cases of bench/calls, whose shared lines `darter lines --calls` counts?
//!
//! The cases are read from their C sources: a row begins a line with `NAME("case", call, …)` or `{ "case", "call", …`.
#![forbid(unsafe_code)]

use crate::CALLS;
use std::collections::BTreeSet;

/// Calls of which no operation can be counted, each with its reason. Those that the kernel lacks need none: one case stands for all.
const NOT_COUNTED: [(&str, &str); 0] = [];
/// What the case of calls that are not there says it calls.
const ABSENT: &str = "none";
const ROWS: [&str; 4] = ["RAW(", "FAILS(", "OP(", "DEAR("];

/// (case, call) of each row of a source.
pub fn rows(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.lines().filter_map(|line| {
        let line = line.trim_start();
        let row =
            ROWS.iter().find_map(|start| line.strip_prefix(start)).or_else(|| line.strip_prefix("{ "))?;
        let (case, rest) = row.strip_prefix('"')?.split_once("\", ")?;
        Some((case, rest.split(',').next()?.trim_matches('"')))
    })
}

/// Calls without a case, cases of no call, and names that two cases have.
pub fn findings(sources: &[String]) -> Vec<String> {
    let (mut cases, mut calls, mut found) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (case, call) in sources.iter().flat_map(|source| rows(source)) {
        if !cases.insert(case) {
            found.push(format!("bench/calls: two cases are named {case}"));
        }
        if call != ABSENT && !CALLS.iter().any(|known| known.name == call) {
            found.push(format!("bench/calls: {case}: no call is named {call}"));
        }
        calls.insert(call);
    }
    for call in CALLS.iter().filter(|call| call.there) {
        let why = NOT_COUNTED.iter().find(|(name, _)| *name == call.name);
        match (calls.contains(call.name), why) {
            (false, None) => found.push(format!("{}: no case of bench/calls does it", call.name)),
            (true, Some(_)) => {
                found.push(format!("{}: has a case, and is said not to be counted", call.name))
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
const struct kase ids[] = {
\tRAW(\"getpid\", getpid, PT, 0, 0),
\t{ \"getdents64\", \"getdents64\", PTO, s_names, op_getdents, 0, { 0 }, 0, 0, j_dir },
\tOP(\"open-read\", open, PTO, s_file, op_open, O_RDONLY),
#define RAW(name, call, forms) {}
};";

    #[test]
    fn rows_are_read_from_either_form() {
        let read: Vec<_> = rows(SOURCE).collect();
        assert_eq!(read, [("getpid", "getpid"), ("getdents64", "getdents64"), ("open-read", "open")]);
    }

    #[test]
    fn a_call_without_a_case_is_found_and_one_with_is_not() {
        let found = findings(&[SOURCE.to_owned(), "OP(\"open-read\", opne, P)".to_owned()]);
        let says = |text: &str| found.iter().any(|finding| finding == text);
        assert!(
            says("getppid: no case of bench/calls does it")
                && !found.iter().any(|f| f.starts_with("getpid:"))
        );
        assert!(says("bench/calls: two cases are named open-read"));
        assert!(says("bench/calls: open-read: no call is named opne"));
    }
}
