//! Extended attributes in memory, for file systems that keep their files there.
//!
//! A program chooses how many there are: they are found by a tree, in the order of their names, and dropped in parts. They count against the file system's budget, as on Linux in
//! units of [`UNIT`] bytes that are as much as a file each, and for the user who made the first of them (`account`).
//!
//! Lock order: `kept`, a sleeping lock, innermost but for the allocator.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::vec::Vec;

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use once_cell::race::OnceBox;

use super::{SIZE_MAX, TRUSTED, is_trusted, kept_name};
use crate::account::{Charge, Denied, Kind};
use crate::errno::{EEXIST, ENODATA, ENOMEM, Result};
use crate::fs::caller;
use crate::fs::vfs::operations::XattrMode;
use crate::lock_order as level;
use sync::quota::UNLIMITED;
use sync::rcu::{InParts, Parts};
use sync::{Mutex, TryVec, lock_class, slab_box, try_box};
use vm::{BudgetKind, BudgetRef};

lock_class! { static XATTRS: LockClass = ("extended attributes", level::Xattrs); }

/// Bytes of attributes that count as a file.
const UNIT: u64 = 1024;
/// Bytes that one counts beside its name and its value (simple_xattr_space of Linux).
const BESIDE: u64 = 40;
/// Attributes that are dropped before others may run.
const TURN: usize = 64;

struct Attribute {
    link: RBTreeAtomicLink,
    name: Box<[u8]>,
    value: Box<[u8]>,
}

vm::slab_type!(Attribute, "attribute", Box);
vm::slab_type!(Store, "attributes", Box);

intrusive_adapter!(ByName = Box<Attribute>: Attribute { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByName {
    type Key = &'a [u8];

    fn get_key(&self, attribute: &'a Attribute) -> &'a [u8] {
        &attribute.name
    }
}

impl Attribute {
    #[expect(clippy::arithmetic_side_effects, reason = "lengths of two things in memory")]
    fn space(name: &[u8], value: &[u8]) -> u64 {
        BESIDE + name.len() as u64 + value.len() as u64
    }
}

/// A file's attributes. Nothing but a word where it has none.
pub struct Xattrs(OnceBox<Store>);

struct Store {
    kept: Mutex<Kept, level::Xattrs>,
    budget: Option<BudgetRef>,
}

struct Kept {
    /// There until the store is dropped.
    tree: Option<Box<InParts<Attributes>>>,
    space: Space,
    charge: Charge,
}

struct Attributes(RBTree<ByName>);

/// Sums over the attributes, in bytes.
#[derive(Clone, Copy, Default)]
struct Space {
    all: u64,
    /// Names with a NUL each: those that everybody sees, and those of trusted ones.
    names: u64,
    trusted: u64,
}

impl Space {
    /// With this attribute, or without it.
    fn change(self, name: &[u8], value: &[u8], add: bool) -> Space {
        let step = |sum: u64, by: u64| if add { sum.saturating_add(by) } else { sum.saturating_sub(by) };
        let listed = (name.len() as u64).saturating_add(1);
        let (names, trusted) = if is_trusted(name) { (0, listed) } else { (listed, 0) };
        Space {
            all: step(self.all, Attribute::space(name, value)),
            names: step(self.names, names),
            trusted: step(self.trusted, trusted),
        }
    }

    fn units(self) -> u64 {
        self.all.div_ceil(UNIT)
    }
}

impl Parts for Attributes {
    fn drop_part(&mut self) -> bool {
        (0..TURN).all(|_| self.0.front_mut().remove().is_some())
    }
}

impl Kept {
    fn tree(&mut self) -> Result<&mut RBTree<ByName>> {
        Ok(&mut self.tree.as_mut().ok_or(ENOMEM)?.value().0)
    }

    /// Makes the sums `to`, in the budget too.
    fn account(&mut self, to: Space, budget: Option<&BudgetRef>) -> Result {
        let (had, needs) = (self.space.units(), to.units());
        if let (Some(budget), Some(more)) = (budget, needs.checked_sub(had)) {
            budget.charge(BudgetKind::Files, more)?;
        }
        if let Err(denied) = self.charge.set(needs, UNLIMITED) {
            self.give_back(needs, budget, had);
            return Err(match denied {
                Denied::Full | Denied::NoMemory => ENOMEM,
            });
        }
        self.give_back(had, budget, needs);
        self.space = to;
        Ok(())
    }

    /// From `had` units to `has`, where that is less.
    fn give_back(&self, had: u64, budget: Option<&BudgetRef>, has: u64) {
        if let (Some(budget), Some(less)) = (budget, had.checked_sub(has)) {
            budget.give_back(BudgetKind::Files, less);
        }
    }
}

impl Store {
    fn try_new(budget: Option<&BudgetRef>) -> Result<Box<Store>> {
        let tree = Some(try_box(InParts::new(Attributes(RBTree::new(ByName::NEW))))?);
        let charge = Charge::try_new(caller::current().ids().fsuid, Kind::Attributes, 0, UNLIMITED)
            .map_err(|_| ENOMEM)?;
        let kept = Kept { tree, space: Space::default(), charge };
        Ok(slab_box(Store { kept: Mutex::new(kept, &XATTRS), budget: budget.cloned() })?)
    }

    fn set(&self, new: Box<Attribute>, mode: XattrMode) -> Result {
        let mut kept = self.kept.lock();
        let old = {
            let there = kept.tree()?.find(&&*new.name);
            there.get().map(|old| Attribute::space(&old.name, &old.value))
        };
        match (mode, old.is_some()) {
            (XattrMode::Create | XattrMode::CreateAndReplace, true) => return Err(EEXIST),
            (XattrMode::Replace | XattrMode::CreateAndReplace, false) => return Err(ENODATA),
            _ => {}
        }
        let with = kept.space.change(&new.name, &new.value, true);
        match old {
            None => {
                kept.account(with, self.budget.as_ref())?;
                kept.tree()?.insert(new);
            }
            Some(space) => {
                // The name stays, so what is listed does too.
                let Space { names, trusted, .. } = kept.space;
                let all = with.all.saturating_sub(space);
                kept.account(Space { all, names, trusted }, self.budget.as_ref())?;
                let gone = kept.tree()?.find_mut(&&*new.name).remove();
                kept.tree()?.insert(new);
                drop(kept);
                drop(gone);
            }
        }
        Ok(())
    }

    fn remove(&self, name: &[u8]) -> Result {
        let mut kept = self.kept.lock();
        let gone = kept.tree()?.find_mut(&name).remove().ok_or(ENODATA)?;
        let space = kept.space.change(&gone.name, &gone.value, false);
        let accounted = kept.account(space, self.budget.as_ref());
        drop(kept);
        drop(gone);
        accounted
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let kept = self.kept.get_mut();
        kept.give_back(kept.space.units(), self.budget.as_ref(), 0);
        if let Some(tree) = kept.tree.take() {
            InParts::begin_drop(tree);
        }
    }
}

impl Xattrs {
    pub const fn new() -> Xattrs {
        Xattrs(OnceBox::new())
    }

    /// Sets an attribute. It counts in `budget`, always the same one. May sleep.
    ///
    /// # Errors
    /// EEXIST, ENODATA as `mode` says. EOPNOTSUPP, EINVAL: no such name is kept. ENOSPC, ENOMEM.
    pub fn set(&self, name: &[u8], value: &[u8], mode: XattrMode, budget: Option<&BudgetRef>) -> Result {
        kept_name(name)?;
        let boxed = |bytes: &[u8]| Vec::try_from_slice(bytes).map(Vec::into_boxed_slice);
        let (name, value) = (boxed(name)?, boxed(value)?);
        let new = slab_box(Attribute { link: RBTreeAtomicLink::new(), name, value })?;
        self.0.get_or_try_init(|| Store::try_new(budget))?.set(new, mode)
    }

    /// Appends the value to `out`. May sleep.
    ///
    /// # Errors
    /// ENODATA. EOPNOTSUPP, EINVAL: no such name is kept. ENOMEM.
    pub fn get(&self, name: &[u8], out: &mut Vec<u8>) -> Result {
        kept_name(name)?;
        let mut kept = self.0.get().ok_or(ENODATA)?.kept.lock();
        let attribute = kept.tree()?.find(&name);
        out.try_extend_from_slice(&attribute.get().ok_or(ENODATA)?.value)?;
        Ok(())
    }

    /// Appends the names, the last first, a NUL after each, unless they are longer than a list may be; gives their length. `all`: trusted ones too.
    /// May sleep.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn list(&self, all: bool, out: &mut Vec<u8>) -> Result<usize> {
        let Some(store) = self.0.get() else { return Ok(0) };
        let mut kept = store.kept.lock();
        let Space { names, trusted, .. } = kept.space;
        let len = names.saturating_add(if all { trusted } else { 0 }) as usize;
        if len > SIZE_MAX {
            return Ok(len);
        }
        let tree = kept.tree()?;
        // From the last to the first, as Linux has them.
        let mut next = tree.back();
        while let Some(attribute) = next.get() {
            if !all && is_trusted(&attribute.name) {
                next = tree.upper_bound(Bound::Excluded(&TRUSTED));
                continue;
            }
            out.try_extend_from_slice(&attribute.name)?;
            out.try_push(0)?;
            next.move_prev();
        }
        Ok(len)
    }

    /// Takes an attribute away. May sleep.
    ///
    /// # Errors
    /// ENODATA. EOPNOTSUPP, EINVAL: no such name is kept.
    pub fn remove(&self, name: &[u8]) -> Result {
        kept_name(name)?;
        self.0.get().ok_or(ENODATA)?.remove(name)
    }
}
