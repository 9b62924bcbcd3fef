//! Looks along a process's children in parts: between two of them its children are not locked, and others may run.
//!
//! However many look, one at a time rests in a look and has a place kept: it has the process's turn, a sleeping lock. Who comes to the end of its first part
//! while another has the turn sleeps until it gets it, and begins anew.
//!
//! LockOrder: the turn → `children`.
#![forbid(unsafe_code)]

use super::children::{Among, Children};
use crate::lock_order as level;
use crate::process::list::{Look, NOBODY};
use crate::process::{Pid, Process};
use crate::sched;
use sync::{MutexGuard, SpinGuard};

/// A process's children, locked.
pub type Locked<'a> = SpinGuard<'a, Children, level::ProcessChildren>;

/// Who has this may rest in a look along a process's children.
pub type Turn<'a> = MutexGuard<'a, (), level::ChildSearch>;

/// A look along one list of a process's children.
pub struct Search<'a> {
    process: &'a Process,
    among: Among,
    passed: Pid,
    turn: Option<Turn<'a>>,
}

impl<'a> Search<'a> {
    pub fn new(process: &'a Process, among: Among) -> Self {
        Self { process, among, passed: NOBODY, turn: None }
    }

    /// Looks at the next part of the list, for a child for which `test` holds. One that comes again, since the search began anew, is asked again.
    pub fn look(&mut self, children: &mut Children, test: impl FnMut(&Process) -> bool) -> Look {
        let found = children.look(self.among, self.passed, test);
        if let Look::Found(pid) | Look::Passed(pid) = found {
            self.passed = pid;
        }
        found
    }

    /// Calls `between` while the children are not locked. Sleeps until it is the searcher's turn.
    pub fn rest(&mut self, mut children: Locked<'a>, between: impl FnOnce()) -> Locked<'a> {
        let turns = &self.process.family.turns;
        // One that has none yet may get it at once, and keeps its place.
        let Some(turn) = self.turn.take().or_else(|| turns.try_lock()) else {
            drop(children);
            self.turn = Some(turns.lock());
            self.passed = NOBODY;
            between();
            return self.process.family.children();
        };
        children.rest(&turn, self.among, self.passed);
        drop(children);
        between();
        let mut children = self.process.family.children();
        self.passed = children.resume(&turn);
        self.turn = Some(turn);
        children
    }
}

/// The first child of a list for which `test` holds, which may change what it looks at, and is asked twice of some. Without a child that is there all the
/// time nothing is missed. A fatal signal ends the search, if it `may_end`, with nothing.
pub fn search<'a>(
    process: &'a Process,
    mut children: Locked<'a>,
    among: Among,
    may_end: bool,
    mut test: impl FnMut(&Process) -> bool,
) -> (Locked<'a>, Option<Pid>) {
    let mut search = Search::new(process, among);
    loop {
        match search.look(&mut children, &mut test) {
            Look::Found(pid) => return (children, Some(pid)),
            Look::End => return (children, None),
            Look::Passed(_) => {}
        }
        let mut ends = false;
        children = search.rest(children, || ends = sched::give_way());
        if ends && may_end {
            return (children, None);
        }
    }
}
