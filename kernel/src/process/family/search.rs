//! Looks along a process's children in parts: between two of them its children are not locked, and others may run.
#![forbid(unsafe_code)]

use super::children::{Among, Children};
use crate::lock_order as level;
use crate::process::list::{Look, NOBODY};
use crate::process::{Pid, Process};
use crate::sched;
use sync::SpinGuard;

/// A process's children, locked.
pub type Locked<'a> = SpinGuard<'a, Children, level::ProcessChildren>;

/// The first child of a list for which `test` holds, which may change what it looks at. Without a child that is there all the time nothing is missed. A
/// fatal signal ends the search, if it `may_end`, with nothing.
pub fn search<'a>(
    process: &'a Process,
    mut children: Locked<'a>,
    among: Among,
    may_end: bool,
    mut test: impl FnMut(&Process) -> bool,
) -> (Locked<'a>, Option<Pid>) {
    let mut passed = NOBODY;
    loop {
        match children.look(among, passed, &mut test) {
            Look::Found(pid) => return (children, Some(pid)),
            Look::End => return (children, None),
            Look::Passed(pid) => passed = pid,
        }
        let mut ends = false;
        (children, passed) = rest(process, children, among, passed, || ends = sched::give_way());
        if ends && may_end {
            return (children, None);
        }
    }
}

/// Calls `between` while the children are not locked, for who has passed number `passed` of a list. Where too many rest already, not at all.
pub fn rest<'a>(
    process: &'a Process,
    mut children: Locked<'a>,
    among: Among,
    passed: Pid,
    between: impl FnOnce(),
) -> (Locked<'a>, Pid) {
    let Some(place) = children.rest(among, passed) else { return (children, passed) };
    drop(children);
    between();
    let mut children = process.family.children();
    let passed = children.resume(place);
    (children, passed)
}
