//! Lists of processes, linked by their numbers.
//!
//! Nothing is allocated, so nothing fails at exit, and a process leaves without being looked for. Every process on a list is in the table of numbers
//! (`ids`): it goes on after it was published and leaves before it is withdrawn. So a number in a link always leads to a process.
//!
//! A list and the links of all that are on it belong to one lock, which the list's owner names. Links forward may be read without it
//! ([`after_unlocked`]), by who can tell that the list was not changed meanwhile.
#![forbid(unsafe_code)]

use super::{Pid, Process, ids};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use sync::protocol::sequence::HalfWord;

/// No process: number 0 is nobody's.
pub const NOBODY: Pid = 0;

/// The neighbours of a process on one list.
pub struct Link {
    before: AtomicU32,
    after: HalfWord,
}

impl Link {
    pub const fn new() -> Self {
        Self { before: AtomicU32::new(NOBODY), after: HalfWord::with(NOBODY) }
    }
}

/// Which of a process's links a list uses.
pub trait Linked {
    fn link(process: &Process) -> &Link;
}

/// What a look along a list has come to.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    Found(Pid),
    /// Nothing up to this one, and others follow.
    Passed(Pid),
    /// Nothing up to the end.
    End,
}

/// A list of processes.
pub struct List<L> {
    first: Pid,
    last: Pid,
    links: PhantomData<L>,
}

impl<L: Linked> List<L> {
    pub const fn new() -> Self {
        Self { first: NOBODY, last: NOBODY, links: PhantomData }
    }

    pub fn is_empty(&self) -> bool {
        self.first == NOBODY
    }

    /// The number of the first process, `NOBODY` if there is none.
    pub fn first(&self) -> Pid {
        self.first
    }

    pub fn last(&self) -> Pid {
        self.last
    }

    /// The number of the process after number `pid`, which is on the list; after `NOBODY` comes the first.
    pub fn after(&self, pid: Pid) -> Pid {
        match pid {
            NOBODY => self.first,
            _ => ids::look_at(pid, |process| L::link(process).after.load()).unwrap_or(NOBODY),
        }
    }

    pub fn before(&self, pid: Pid) -> Pid {
        ids::look_at(pid, |process| L::link(process).before.load(Relaxed)).unwrap_or(NOBODY)
    }

    /// Puts `process` between two neighbours on the list; `NOBODY` is the end.
    fn insert(&mut self, process: &Process, before: Pid, after: Pid) {
        let (pid, link) = (process.pid(), L::link(process));
        link.before.store(before, Relaxed);
        link.after.store(after);
        self.set_after(before, pid);
        self.set_before(after, pid);
    }

    pub fn push_back(&mut self, process: &Process) {
        self.insert(process, self.last, NOBODY);
    }

    /// Puts `process` before `next`, which is on the list.
    pub fn insert_before(&mut self, process: &Process, next: &Process) {
        self.insert(process, L::link(next).before.load(Relaxed), next.pid());
    }

    /// Puts `process` after number `previous`, which is on the list; after `NOBODY`: it comes first.
    pub fn insert_after(&mut self, process: &Process, previous: Pid) {
        self.insert(process, previous, self.after(previous));
    }

    /// Takes `process` off. Answers the number before it.
    pub fn remove(&mut self, process: &Process) -> Pid {
        let link = L::link(process);
        let (before, after) = (link.before.load(Relaxed), link.after.load());
        self.set_after(before, after);
        self.set_before(after, before);
        before
    }

    fn set_after(&mut self, pid: Pid, to: Pid) {
        match pid {
            NOBODY => self.first = to,
            _ => ids::look_at(pid, |process| L::link(process).after.store(to)).unwrap_or(()),
        }
    }

    fn set_before(&mut self, pid: Pid, to: Pid) {
        match pid {
            NOBODY => self.last = to,
            _ => ids::look_at(pid, |process| L::link(process).before.store(to, Relaxed)).unwrap_or(()),
        }
    }

    /// Looks at no more than `most` processes after number `passed`, which is on the list (after `NOBODY`: from the first), until `test` holds for one.
    pub fn look(&self, passed: Pid, most: usize, mut test: impl FnMut(&Process) -> bool) -> Look {
        let (mut passed, mut at) = (passed, self.after(passed));
        for _ in 0..most {
            match ids::look_at(at, |process| (test(process), L::link(process).after.load())) {
                None => return Look::End,
                Some((true, _)) => return Look::Found(at),
                Some((false, after)) => (passed, at) = (at, after),
            }
        }
        if at == NOBODY { Look::End } else { Look::Passed(passed) }
    }
}

/// The number of the process after `process`, without the list's lock: it may have left the list meanwhile, or be on another.
#[inline]
pub fn after_unlocked<L: Linked>(process: &Process) -> Pid {
    L::link(process).after.load()
}
