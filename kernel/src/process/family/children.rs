//! A process's children, sorted by what there is to wait for.
//!
//! ```text
//!   living      nothing to tell
//!   stopped     has stopped, and the parent has not waited for that
//!   continued   has gone on, and the parent has not waited for that
//!   dead        a zombie
//! ```
//!
//! So a wait finds what it waits for without a look at the others. Each list but the dead has the children in the order in which they came; the
//! dead too, unless more than `SORTED` died before their elders: Linux gives several dead children in the order of their birth.
//!
//! All of it lies under the parent's `children` lock. A child that is sent SIGCONT is found among the stopped until its first thread goes on or somebody
//! waits for it (`settle`): the sender holds locks that come later.
#![forbid(unsafe_code)]

use crate::process::list::{Link, Linked, List, NOBODY};
use crate::process::{Pid, Process, find_process, ids};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// How far a dead child looks for its place among others that died before.
const SORTED: usize = 64;

/// On which list a child is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Standing {
    /// On none: it is new, or changes parents.
    Nowhere = 0,
    Living,
    Stopped,
    Continued,
    Dead,
    /// On none: it was waited for, and will be forgotten.
    Gone,
}

impl Standing {
    const ALL: [Standing; 6] = [
        Standing::Nowhere,
        Standing::Living,
        Standing::Stopped,
        Standing::Continued,
        Standing::Dead,
        Standing::Gone,
    ];
}

/// A child's place among its parent's children. Under the parent's lock. On a line of its own: it changes when its parent makes or loses another child.
#[repr(align(64))]
pub struct Sibling {
    link: Link,
    standing: AtomicU8,
    /// Children of one parent are numbered as they come.
    birth: AtomicU64,
}

impl Sibling {
    pub const fn new() -> Self {
        Self { link: Link::new(), standing: AtomicU8::new(0), birth: AtomicU64::new(0) }
    }
}

/// Lists of children use a process's link to its siblings.
pub struct Siblings;

impl Linked for Siblings {
    fn link(process: &Process) -> &Link {
        &process.family.sibling.link
    }
}

/// The children of a process.
pub struct Children {
    living: List<Siblings>,
    stopped: List<Siblings>,
    continued: List<Siblings>,
    dead: List<Siblings>,
    births: u64,
    closed: bool,
}

impl Children {
    pub const fn new() -> Self {
        Self {
            living: List::new(),
            stopped: List::new(),
            continued: List::new(),
            dead: List::new(),
            births: 0,
            closed: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        [&self.living, &self.stopped, &self.continued, &self.dead].iter().all(|list| list.is_empty())
    }

    /// No child is added any more: the process has ended.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// On which list `child` is, whose parent this process is.
    pub fn standing(&self, child: &Process) -> Standing {
        let n = child.family.sibling.standing.load(Relaxed);
        Standing::ALL.get(usize::from(n)).copied().unwrap_or(Standing::Nowhere)
    }

    fn list(&mut self, standing: Standing) -> Option<&mut List<Siblings>> {
        match standing {
            Standing::Nowhere | Standing::Gone => None,
            Standing::Living => Some(&mut self.living),
            Standing::Stopped => Some(&mut self.stopped),
            Standing::Continued => Some(&mut self.continued),
            Standing::Dead => Some(&mut self.dead),
        }
    }

    /// Adds `child`, which is on no list. False: the process has ended, and adds none.
    #[must_use]
    pub fn add(&mut self, child: &Process) -> bool {
        if self.closed {
            return false;
        }
        self.births = self.births.wrapping_add(1);
        child.family.sibling.birth.store(self.births, Relaxed);
        self.settle(child, Standing::Nowhere);
        true
    }

    /// Takes `child` off for good. False: it is on no list.
    pub fn reap(&mut self, child: &Process) -> bool {
        let standing = self.standing(child);
        let Some(list) = self.list(standing) else { return false };
        list.remove(child);
        child.family.sibling.standing.store(Standing::Gone as u8, Relaxed);
        true
    }

    /// Puts `child` on the list where it belongs now.
    pub fn update(&mut self, child: &Process) {
        let standing = self.standing(child);
        // One that changes parents is settled when it comes.
        if !matches!(standing, Standing::Nowhere | Standing::Gone) {
            self.settle(child, standing);
        }
    }

    fn settle(&mut self, child: &Process, from: Standing) {
        let to = if child.is_zombie() {
            Standing::Dead
        } else if child.signals.take_stop(true).is_some() {
            Standing::Stopped
        } else if child.signals.take_continue(true) {
            Standing::Continued
        } else {
            Standing::Living
        };
        if to == from {
            return;
        }
        if let Some(list) = self.list(from) {
            list.remove(child);
        }
        child.family.sibling.standing.store(to as u8, Relaxed);
        if to == Standing::Dead {
            self.dead.insert_after(child, self.elder_of(child));
        } else if let Some(list) = self.list(to) {
            list.push_back(child);
        }
    }

    /// The last dead child that is older than `child`.
    fn elder_of(&self, child: &Process) -> Pid {
        let birth = child.family.sibling.birth.load(Relaxed);
        let mut at = self.dead.last();
        for _ in 0..SORTED {
            let younger = |other: &Process| other.family.sibling.birth.load(Relaxed) > birth;
            if at == NOBODY || ids::look_at(at, younger) != Some(true) {
                break;
            }
            at = self.dead.before(at);
        }
        at
    }

    /// The first child of list `standing` for which `test` holds. Children that belong elsewhere by now go there.
    pub fn first(&mut self, standing: Standing, test: impl Fn(&Process) -> bool) -> Option<Arc<Process>> {
        loop {
            let found = self.list(standing)?.find(|child| test(child) || !is_settled(child, standing))?;
            if is_settled(&found, standing) {
                return Some(found);
            }
            self.settle(&found, standing);
        }
    }

    /// Is there a child for which `test` holds?
    pub fn any(&self, test: impl Fn(&Process) -> bool) -> bool {
        [&self.living, &self.stopped, &self.continued, &self.dead].iter().any(|list| list.any(&test))
    }

    /// Takes some child off, which gets another parent.
    pub fn pop(&mut self) -> Option<Arc<Process>> {
        let lists = [&self.living, &self.stopped, &self.continued, &self.dead];
        let first = lists.iter().map(|list| list.first()).find(|pid| *pid != NOBODY)?;
        let child = find_process(first)?;
        let standing = self.standing(&child);
        self.list(standing)?.remove(&child);
        child.family.sibling.standing.store(Standing::Nowhere as u8, Relaxed);
        Some(child)
    }

    /// Which of the two came first?
    pub fn elder(a: Arc<Process>, b: Arc<Process>) -> Arc<Process> {
        let birth = |child: &Process| child.family.sibling.birth.load(Relaxed);
        if birth(&b) < birth(&a) { b } else { a }
    }
}

/// Is what list `standing` says of `child` still so?
fn is_settled(child: &Process, standing: Standing) -> bool {
    match standing {
        Standing::Stopped => child.signals.take_stop(true).is_some(),
        Standing::Continued => child.signals.take_continue(true),
        Standing::Living | Standing::Dead | Standing::Nowhere | Standing::Gone => true,
    }
}
