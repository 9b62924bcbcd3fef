//! Visits to all members of a set that lies on many lists, one per CPU, while members make new members.
//!
//! ```text
//!   common      the list of a small set
//!   list[cpu]   once the set is spread: the members that were made on that CPU
//! ```
//!
//! Each list has a lock of its own; there is none for the set. A new member goes onto the list of the CPU that makes it, so that makers write no common
//! line. A visitor goes through the lists one after the other. It must not miss a member that an unvisited one puts onto a list that was visited
//! before:
//!
//! - The visitor announces itself before its first list (`visit.announce`), and counts its visit.
//! - A maker notes at its start which visits have begun, and begins again if it was told something by then (`visit.start`, `visit.over`). When it puts
//!   the new member onto its CPU's list, it looks under that list's lock whether a visit has begun since or is on (`visit.look`). If not, whoever
//!   visits next locks this list later, and finds the new member. If so, the new member goes onto its maker's list, in front of the maker, under
//!   that list's lock, and its maker tells it what it was told itself since its start. So whoever visits the maker later comes by the new member too.
//! - The set is spread under the lock of the common list, and the visitor looks whether it is (`is_spread`) after it has had that lock. If it finds no
//!   lists, they are published after the announcement, and who finds them finds that too (`visit.publish`, `visit.find`).
//!
//! So when a visitor has found all lists empty, the set is empty: a member must have come after its list was visited, so from a maker on the
//! same list, which must have come so too.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicBool, AtomicU64, Ordering, const_new, site, step};

/// One visit that is on; above it, how many have begun.
const ON: u64 = 1;
const BEGUN: u64 = 1 << 32;

/// Who visits the members of a set, and whether they are spread.
#[derive(Debug)]
pub struct Visits {
    state: AtomicU64,
    spread: AtomicBool,
}

/// The visits that have begun when somebody begins to make a member.
#[derive(Clone, Copy, Debug)]
pub struct Begun(u64);

impl Default for Visits {
    fn default() -> Self {
        Self::new()
    }
}

impl Visits {
    const_new! {
        pub fn new() -> Self {
            Visits { state: AtomicU64::new(0), spread: AtomicBool::new(false) }
        }
    }

    /// A visit begins. No list is locked.
    pub fn begin(&self) {
        if step("visit.announce") {
            // The locks of the lists order it.
            self.state.fetch_add(BEGUN | ON, Ordering::Relaxed);
        }
    }

    /// A visit is over.
    pub fn end(&self) {
        if step("visit.announce") {
            self.state.fetch_sub(ON, site("visit.over", Ordering::Release));
        }
    }

    /// Is a visit on?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.state.load(Ordering::Relaxed) & (BEGUN - 1) != 0
    }

    /// Somebody begins to make a member, and looks afterwards whether it was told something.
    #[inline]
    pub fn start(&self) -> Begun {
        Begun(self.state.load(site("visit.start", Ordering::Acquire)))
    }

    /// Has nobody come since `start`, and is nobody there? Asked under the lock of the list that the new member goes onto.
    #[inline]
    pub fn are_none_since(&self, start: Begun) -> bool {
        let now = self.state.load(Ordering::Relaxed);
        !step("visit.look") || (now == start.0 && now & (BEGUN - 1) == 0)
    }

    /// There is a list for each CPU from now on. Under the lock of the common list.
    pub fn spread(&self) {
        self.spread.store(true, site("visit.publish", Ordering::Release));
    }

    #[inline]
    pub fn is_spread(&self) -> bool {
        self.spread.load(site("visit.find", Ordering::Acquire))
    }
}
