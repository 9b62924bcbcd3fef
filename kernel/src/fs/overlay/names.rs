//! The names of a directory that are not as those below: made here, or taken away.
//!
//! A name is found by a tree in the order of names. For listing, those that have no place in the listing below (`list`) have a cookie, which is unique and grows, and are on a
//! tree by that.
//!
//! What takes memory is made before ([`Spare`]), so a change does not fail. A program chooses how many there are: they are dropped in parts.
//!
//! Lock order: `names` is innermost, and nothing is freed under it but a name.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use sync::rcu::{InParts, Parts};
use sync::{SpinLock, TryVec, lock_class, try_arc, try_box};
use vm::{BudgetKind, BudgetRef};

use crate::errno::{EIO, ENOSPC, Result};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::operations::DirEntry;
use crate::lock_order as level;
use crate::sched::schedule_if_needed;

lock_class! { static NAMES: LockClass = ("overlay names", level::OverlayNames); }

/// Names that are dropped, or listed, at once.
const TURN: usize = 64;
/// Cookies there are at most: see `list`.
pub const COOKIES: u64 = 1 << 40;

/// A name.
struct Own {
    by_name: RBTreeAtomicLink,
    by_cookie: RBTreeAtomicLink,
    name: Box<[u8]>,
    /// The number of the inode that it leads to; 0: it is gone, and stands below.
    leads: AtomicU64,
    kind: AtomicU32,
    /// Set when it is entered. 0: it has a place in the listing below.
    cookie: AtomicU64,
    budget: BudgetRef,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.budget.give_back(BudgetKind::Files, 1);
    }
}

intrusive_adapter!(ByName = Arc<Own>: Own { by_name => RBTreeAtomicLink });
intrusive_adapter!(ByCookie = Arc<Own>: Own { by_cookie => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByName {
    type Key = &'a [u8];

    fn get_key(&self, own: &'a Own) -> &'a [u8] {
        &own.name
    }
}

impl<'a> KeyAdapter<'a> for ByCookie {
    type Key = u64;

    fn get_key(&self, own: &'a Own) -> u64 {
        own.cookie.load(Relaxed)
    }
}

struct Trees {
    all: RBTree<ByName>,
    /// Those with a cookie.
    listed: RBTree<ByCookie>,
    next: u64,
    /// Names that lead somewhere.
    live: usize,
}

impl Parts for Trees {
    fn drop_part(&mut self) -> bool {
        (0..TURN).all(|_| {
            let listed = self.listed.front_mut().remove();
            let name = self.all.front_mut().remove();
            listed.is_some() || name.is_some()
        })
    }
}

/// Where a name leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leads {
    /// To an inode that is kept.
    To {
        number: u64,
        kind: Kind,
    },
    Nowhere,
}

impl Own {
    fn leads(&self) -> Leads {
        match (self.leads.load(Relaxed), Kind::from_mode(self.kind.load(Relaxed))) {
            (number, Some(kind)) if number != 0 => Leads::To { number, kind },
            _ => Leads::Nowhere,
        }
    }

    fn lead(&self, number: u64, kind: Kind) {
        self.kind.store(kind as u32, Relaxed);
        self.leads.store(number, Relaxed);
    }

    fn is_below(&self) -> bool {
        self.cookie.load(Relaxed) == 0
    }
}

/// The memory that a change of a name takes.
pub struct Spare {
    own: Arc<Own>,
    trees: Option<Box<InParts<Trees>>>,
}

/// The names of a directory. Nothing but a word where it has none.
pub struct Names(SpinLock<Option<Box<InParts<Trees>>>, level::OverlayNames>);

impl Names {
    pub const fn new() -> Names {
        Names(SpinLock::new(None, &NAMES))
    }

    /// Finds the memory to change a name, if it takes any: that of one that is here already does not, however full the file system is.
    ///
    /// # Errors
    /// ENOSPC, ENOMEM.
    pub fn spare(&self, name: &[u8], budget: &BudgetRef) -> Result<Option<Spare>> {
        if self.find(name).is_some() {
            return Ok(None);
        }
        let name = Vec::try_from_slice(name)?.into_boxed_slice();
        budget.charge(BudgetKind::Files, 1).map_err(|_| ENOSPC)?;
        // From here on it is given back by whoever drops it.
        let own = Own {
            by_name: RBTreeAtomicLink::new(),
            by_cookie: RBTreeAtomicLink::new(),
            name,
            leads: AtomicU64::new(0),
            kind: AtomicU32::new(0),
            cookie: AtomicU64::new(0),
            budget: budget.clone(),
        };
        let own = try_arc(own)?;
        let is_first = self.0.lock().is_none();
        let trees = || {
            let (all, listed) = (RBTree::new(ByName::NEW), RBTree::new(ByCookie::NEW));
            try_box(InParts::new(Trees { all, listed, next: 1, live: 0 }))
        };
        Ok(Some(Spare { own, trees: is_first.then(trees).transpose()? }))
    }

    /// None: the name is as below.
    pub fn find(&self, name: &[u8]) -> Option<Leads> {
        self.look(name).map(|(leads, _)| leads)
    }

    /// As `find`; and has it a place in the listing below?
    pub fn look(&self, name: &[u8]) -> Option<(Leads, bool)> {
        let mut trees = self.0.lock();
        let trees = trees.as_mut()?.value();
        trees.all.find(&name).get().map(|own| (own.leads(), own.is_below()))
    }

    /// Has the name lead to an inode. `is_below`: if it was not here, it stands below. The directory's lock is held by the VFS, as for all that change names.
    ///
    /// # Errors
    /// ENOSPC: as many names were made here as there are cookies.
    #[expect(clippy::arithmetic_side_effects, reason = "names take memory each, cookies are bounded")]
    pub fn set(
        &self,
        name: &[u8],
        spare: Option<Spare>,
        (number, kind): (u64, Kind),
        is_below: bool,
    ) -> Result {
        let mut trees = self.0.lock();
        let (trees, spare) = fill(&mut trees, spare)?;
        if let Some(own) = trees.all.find(&name).get() {
            trees.live += usize::from(own.leads() == Leads::Nowhere);
            own.lead(number, kind);
            return Ok(());
        }
        let own = spare.ok_or(EIO)?;
        if !is_below {
            if trees.next == COOKIES {
                return Err(ENOSPC);
            }
            own.cookie.store(trees.next, Relaxed);
            trees.next += 1;
            trees.listed.insert(own.clone());
        }
        own.lead(number, kind);
        trees.all.insert(own);
        trees.live += 1;
        Ok(())
    }

    /// Has the name lead to an inode that it leads to below, unless it is not as below any more.
    #[expect(clippy::arithmetic_side_effects, reason = "names take memory each")]
    pub fn pin(&self, name: &[u8], spare: Option<Spare>, (number, kind): (u64, Kind)) -> Result {
        let mut trees = self.0.lock();
        let (trees, spare) = fill(&mut trees, spare)?;
        if let Some(own) = spare.filter(|_| trees.all.find(&name).is_null()) {
            own.lead(number, kind);
            trees.all.insert(own);
            trees.live += 1;
        }
        Ok(())
    }

    /// The name leads nowhere from here on, whatever stands below.
    #[expect(clippy::arithmetic_side_effects, reason = "counted when they came")]
    pub fn take_away(&self, name: &[u8], spare: Option<Spare>) -> Result {
        let mut trees = self.0.lock();
        let (trees, spare) = fill(&mut trees, spare)?;
        let mut place = trees.all.find_mut(&name);
        let Some(own) = place.get() else {
            trees.all.insert(spare.ok_or(EIO)?);
            return Ok(());
        };
        trees.live -= usize::from(own.leads() != Leads::Nowhere);
        if own.is_below() {
            own.leads.store(0, Relaxed);
        } else {
            let cookie = own.cookie.load(Relaxed);
            let _gone = (place.remove(), trees.listed.find_mut(&cookie).remove());
        }
        Ok(())
    }

    /// Does any name lead somewhere?
    pub fn is_empty(&self) -> bool {
        self.0.lock().as_mut().is_none_or(|trees| trees.value().live == 0)
    }

    /// Lists names from a cookie on, until `emit` refuses one. The position after each is the next cookie.
    pub fn list(&self, mut from: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) {
        loop {
            let mut trees = self.0.lock();
            let Some(trees) = trees.as_mut() else { return };
            let mut place = trees.value().listed.lower_bound(Bound::Included(&from));
            for _ in 0..TURN {
                let Some(own) = place.get() else { return };
                from = own.cookie.load(Relaxed).saturating_add(1);
                if let Leads::To { number, kind } = own.leads()
                    && !emit(&DirEntry { name: &own.name, number, kind, next: from })
                {
                    return;
                }
                place.move_next();
            }
        }
    }

    /// The directory is removed: what is left are names below that were taken away. Gives way.
    pub fn clear(&self) {
        let gone = self.0.lock().take();
        if let Some(mut gone) = gone {
            while gone.value().drop_part() {
                schedule_if_needed();
            }
        }
    }
}

impl Drop for Names {
    /// This may be an RCU callback.
    fn drop(&mut self) {
        if let Some(trees) = self.0.get_mut().take() {
            InParts::begin_drop(trees);
        }
    }
}

/// The trees, which come with the first name, and what is spare besides.
fn fill(
    place: &mut Option<Box<InParts<Trees>>>,
    spare: Option<Spare>,
) -> Result<(&mut Trees, Option<Arc<Own>>)> {
    let (own, trees) = spare.map_or((None, None), |spare| (Some(spare.own), spare.trees));
    if place.is_none() {
        *place = trees;
    }
    let trees = place.as_mut().ok_or(EIO)?;
    Ok((trees.value(), own))
}
