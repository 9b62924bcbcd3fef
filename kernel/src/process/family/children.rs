//! A process's children: all of them in the order in which they came, and those besides of which there is something to tell.
//!
//! ```text
//!   stopped     has stopped, and the parent has not waited for that
//!   continued   has gone on, and the parent has not waited for that
//!   dead        a zombie
//! ```
//!
//! So a wait finds what it waits for without a look at the others. The dead are in the order of their birth too, as Linux gives several of them, unless
//! more than `SORTED` died before their elders.
//!
//! Who looks along a list does so in parts (`look`), and rests between them if it is its turn (`search`): it leaves its place (`rest`), which moves back
//! when the child there leaves the list. Children come to the end of the list of all, so none escapes there.
//!
//! All of it lies under the parent's `children` lock. A child that is sent SIGCONT is found among the stopped until its first thread goes on or somebody
//! waits for it (`settle`): the sender holds locks that come later.
#![forbid(unsafe_code)]

use super::search::Turn;
use crate::process::list::{Link, Linked, List, Look, NOBODY};
use crate::process::{Pid, Process, find_process, ids};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

/// How far a dead child looks for its place among others that died before.
const SORTED: usize = 64;
/// Children that are looked at before others may have the lock.
pub(super) const PART: usize = if cfg!(test) { 4 } else { 256 };

/// How a child stands, and on which list it is beside that of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Standing {
    /// Not even on that: it is new, or changes parents.
    Nowhere = 0,
    /// On no other.
    Living,
    Stopped,
    Continued,
    Dead,
    /// Not even on that of all: it was waited for, and will be forgotten.
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
    among_all: Link,
    link: Link,
    standing: AtomicU8,
    /// Children of one parent are numbered as they come.
    birth: AtomicU64,
}

impl Sibling {
    pub const fn new() -> Self {
        Self {
            among_all: Link::new(),
            link: Link::new(),
            standing: AtomicU8::new(0),
            birth: AtomicU64::new(0),
        }
    }
}

/// Lists of children that stand alike use this link to siblings.
pub struct Siblings;

impl Linked for Siblings {
    fn link(process: &Process) -> &Link {
        &process.family.sibling.link
    }
}

/// The list of all children uses this.
pub struct AmongAll;

impl Linked for AmongAll {
    fn link(process: &Process) -> &Link {
        &process.family.sibling.among_all
    }
}

/// A list that is looked along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    All,
    /// Those that stand so; not for the living.
    Those(Standing),
}

/// Whether a process has children, known without a lock: who asks for one while there is none writes nothing. Written under the lock of its children.
pub struct HasChildren(AtomicBool);

impl HasChildren {
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub fn get(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The children of a process.
pub struct Children {
    all: List<AmongAll>,
    stopped: List<Siblings>,
    continued: List<Siblings>,
    dead: List<Siblings>,
    births: u64,
    /// Rises whenever a wait may find something else than before.
    changes: u32,
    closed: bool,
    /// Where the one rests whose turn it is: in which list, and the last child that it has passed.
    resting: Option<(Among, Pid)>,
}

impl Children {
    pub const fn new() -> Self {
        Self {
            all: List::new(),
            stopped: List::new(),
            continued: List::new(),
            dead: List::new(),
            births: 0,
            changes: 0,
            closed: false,
            resting: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// A wait may find something else than before.
    pub fn note_change(&mut self) {
        self.changes = self.changes.wrapping_add(1);
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
            Standing::Nowhere | Standing::Gone | Standing::Living => None,
            Standing::Stopped => Some(&mut self.stopped),
            Standing::Continued => Some(&mut self.continued),
            Standing::Dead => Some(&mut self.dead),
        }
    }

    /// Adds `child`, which is on no list. False: the process has ended, and adds none.
    #[must_use]
    pub fn add(&mut self, child: &Process, has: &HasChildren) -> bool {
        if self.closed {
            return false;
        }
        if self.all.is_empty() {
            has.0.store(true, Relaxed);
        }
        self.births = self.births.wrapping_add(1);
        child.family.sibling.birth.store(self.births, Relaxed);
        self.all.push_back(child);
        self.settle(child, Standing::Nowhere);
        true
    }

    /// Takes `child` off for good. False: it is on no list.
    pub fn reap(&mut self, child: &Process, has: &HasChildren) -> bool {
        let standing = self.standing(child);
        if matches!(standing, Standing::Nowhere | Standing::Gone) {
            return false;
        }
        self.take_off_all(child, standing, Standing::Gone, has);
        true
    }

    /// Takes `child` off its lists; it stands as `to` from now on.
    fn take_off_all(&mut self, child: &Process, from: Standing, to: Standing, has: &HasChildren) {
        self.take_off(child, from);
        let before = self.all.remove(child);
        if self.all.is_empty() {
            has.0.store(false, Relaxed);
        }
        self.mend_place(Among::All, child.pid(), before);
        child.family.sibling.standing.store(to as u8, Relaxed);
        self.note_change();
    }

    /// Takes `child` off the list of those that stand so.
    fn take_off(&mut self, child: &Process, standing: Standing) {
        if let Some(list) = self.list(standing) {
            let before = list.remove(child);
            self.mend_place(Among::Those(standing), child.pid(), before);
        }
    }

    /// Child `gone` has left a list, where it came after number `before`.
    fn mend_place(&mut self, among: Among, gone: Pid, before: Pid) {
        if let Some(place) = &mut self.resting
            && *place == (among, gone)
        {
            place.1 = before;
        }
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
        let to = if child.is_left_to_parent() {
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
        self.take_off(child, from);
        self.note_change();
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

    /// Looks at some children of a list after number `passed` (`NOBODY`: from the first), until `test` holds for one. Those that stand otherwise by now
    /// go where they belong.
    pub fn look(&mut self, among: Among, passed: Pid, mut test: impl FnMut(&Process) -> bool) -> Look {
        let Among::Those(standing) = among else { return self.all.look(passed, PART, test) };
        let Some(list) = self.list(standing) else { return Look::End };
        let found = list.look(passed, PART, |child| !is_settled(child, standing) || test(child));
        let Look::Found(pid) = found else { return found };
        let before = list.before(pid);
        match find_process(pid).filter(|child| !is_settled(child, standing)) {
            Some(child) => {
                self.settle(&child, standing);
                Look::Passed(before)
            }
            None => found,
        }
    }

    /// Keeps the place of the one whose turn it is, and who has passed number `passed`, while others have the lock.
    pub fn rest(&mut self, _turn: &Turn<'_>, among: Among, passed: Pid) {
        self.resting = Some((among, passed));
    }

    /// The number of the last child that it has passed and that is still on the list, `NOBODY` if there is none.
    pub fn resume(&mut self, _turn: &Turn<'_>) -> Pid {
        self.resting.take().map_or(NOBODY, |(_, passed)| passed)
    }

    /// Takes some child off, which gets another parent.
    pub fn pop(&mut self, has: &HasChildren) -> Option<Arc<Process>> {
        let child = find_process(self.all.first())?;
        let standing = self.standing(&child);
        self.take_off_all(&child, standing, Standing::Nowhere, has);
        Some(child)
    }

    /// What comes first in the order of birth.
    pub fn birth(child: &Process) -> u64 {
        child.family.sibling.birth.load(Relaxed)
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
