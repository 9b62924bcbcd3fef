//! The names of one directory: a hash table that is read under RCU, and the same names in order of arrival for
//! getdents64. For tmpfs and devtmpfs this is the directory itself; for other file systems it caches.
//!
//! Each directory has its own table and lock: making and removing files in different directories shares nothing.
//! A bucket is replaced whole, never changed in place, so a reader sees a name before or after a change; replacing the
//! target of a rename is one store. Growing builds a new table and swaps it in. Hence a walk needs no sequence count: what it finds
//! was there at some moment of the call, and taking the reference fails if it has gone since.
//!
//! Lock order: parent's `names` before child's; two unrelated directories: rename's order (`rename`).
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::percpu_ref::PerCpuOwner as Owner;
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{Mutex, TryVec, lock_class, slab_arc};

use super::dentry::{Dentry, Name};
use crate::errno::{ENOMEM, Result};

lock_class! { pub static DIRECTORY: LockClass = ("directory", sync::level::Other); }

/// A name and what it leads to.
#[derive(Clone)]
pub struct Entry {
    pub name: Arc<Name>,
    pub dentry: Arc<Owner<Dentry>>,
    /// Position in the listing: unique and growing within the directory.
    cookie: u64,
}

struct Bucket {
    entries: Vec<Entry>,
    rcu: RcuHead,
}

vm::slab_type!(Bucket, "directory-bucket", Arc);

rcu_object!(Bucket);

struct Table {
    buckets: Box<[RcuArc<Bucket>]>,
    rcu: RcuHead,
}

vm::slab_type!(Table, "directory-table", Arc);

rcu_object!(Table);

impl Table {
    fn try_new(buckets: usize) -> Result<Arc<Table>> {
        Ok(slab_arc(Table {
            buckets: sync::heap::try_box_slice(buckets, |_| RcuArc::empty())?,
            rcu: RcuHead::new(),
        })?)
    }

    fn bucket(&self, hash: u64) -> Option<&RcuArc<Bucket>> {
        self.buckets.get(hash as usize & (self.buckets.len().wrapping_sub(1)))
    }
}

pub struct Directory {
    table: RcuArc<Table>,
    pub names: Mutex<Names>,
}

vm::slab_type!(Directory, "directory", Box);

/// What the directory's lock guards.
pub struct Names {
    /// Removed: nothing may be entered any more.
    pub dead: bool,
    live: usize,
    next: u64,
    order: Vec<Slot>,
}

struct Slot {
    cookie: u64,
    entry: Option<Entry>,
}

/// Positions 0 and 1 are `.` and `..`.
const FIRST_COOKIE: u64 = 2;
/// Names per bucket, on average, before the table grows.
const LOAD: usize = 4;

impl Directory {
    pub fn try_new() -> Result<Directory> {
        Ok(Directory {
            table: RcuArc::empty(),
            names: Mutex::new(
                Names { dead: false, live: 0, next: FIRST_COOKIE, order: Vec::new() },
                &DIRECTORY,
            ),
        })
    }

    /// Finds a name under RCU.
    pub fn find<'g>(&'g self, name: &[u8], hash: u64, read: &'g RcuRead) -> Option<&'g Entry> {
        let bucket = self.table.load(read)?.bucket(hash)?.load(read)?;
        bucket.entries.iter().find(|e| e.name.hash == hash && *e.name.bytes == *name)
    }

    /// Finds a name, with a count of its own on the entry. The caller holds `names`, so the answer stays true.
    pub fn get(&self, _names: &Names, name: &[u8]) -> Option<Entry> {
        let read = sync::rcu::read();
        self.find(name, super::dentry::hash(name), &read).cloned()
    }

    /// Enters a name that is not there yet. The caller holds `names`.
    pub fn insert(&self, names: &mut Names, name: Arc<Name>, dentry: Arc<Owner<Dentry>>) -> Result<()> {
        // Without memory for a larger table the old one serves, only slower; the first one is needed.
        let grown = self.grow_for(names);
        if names.live == 0 {
            grown?;
        }
        names.order.try_reserve(1).map_err(|_| ENOMEM)?;
        let entry = Entry { name, dentry, cookie: names.next };
        self.change(entry.name.hash, |entries| Ok(entries.try_push(entry.clone())?))?;
        names.order.try_push(Slot { cookie: entry.cookie, entry: Some(entry) })?;
        names.next += 1;
        names.live += 1;
        Ok(())
    }

    /// Takes a name out. The caller holds `names`.
    pub fn remove(&self, names: &mut Names, name: &Name) -> Result<Option<Entry>> {
        let mut gone = None;
        self.change(name.hash, |entries| {
            if let Some(i) =
                entries.iter().position(|e| e.name.hash == name.hash && e.name.bytes == name.bytes)
            {
                gone = Some(entries.swap_remove(i));
            }
            Ok(())
        })?;
        if let Some(entry) = &gone {
            names.forget(entry.cookie);
        }
        Ok(gone)
    }

    /// Makes an existing name lead to another dentry, in one step, and returns what it led to. The caller holds `names`.
    pub fn replace(
        &self,
        names: &mut Names,
        name: &Name,
        dentry: Arc<Owner<Dentry>>,
    ) -> Result<Option<Entry>> {
        let mut old = None;
        let mut cookie = 0;
        self.change(name.hash, |entries| {
            if let Some(e) =
                entries.iter_mut().find(|e| e.name.hash == name.hash && e.name.bytes == name.bytes)
            {
                cookie = e.cookie;
                old = Some(e.clone());
                e.dentry = dentry.clone();
            }
            Ok(())
        })?;
        if old.is_some()
            && let Ok(i) = names.order.binary_search_by_key(&cookie, |s| s.cookie)
            && let Some(Some(entry)) = names.order.get_mut(i).map(|s| s.entry.as_mut())
        {
            entry.dentry = dentry;
        }
        Ok(old)
    }

    /// Replaces the bucket of `hash` by a changed copy.
    fn change(&self, hash: u64, change: impl FnOnce(&mut Vec<Entry>) -> Result<()>) -> Result<()> {
        let read = sync::rcu::read();
        let Some(slot) = self.table.load(&read).and_then(|t| t.bucket(hash)) else { return Ok(()) };
        let mut entries = Vec::new();
        if let Some(old) = slot.load(&read) {
            entries = sync::heap::try_vec(old.entries.len() + 1)?;
            for entry in &old.entries {
                entries.try_push(entry.clone())?;
            }
        }
        change(&mut entries)?;
        let new =
            if entries.is_empty() { None } else { Some(slab_arc(Bucket { entries, rcu: RcuHead::new() })?) };
        slot.swap(new);
        Ok(())
    }

    /// Makes room for one more name.
    fn grow_for(&self, names: &Names) -> Result<()> {
        let read = sync::rcu::read();
        let buckets = self.table.load(&read).map_or(0, |t| t.buckets.len());
        if buckets * LOAD > names.live {
            return Ok(());
        }
        let table = Table::try_new((buckets * 4).max(1))?;
        let mut filled: Vec<Vec<Entry>> = sync::heap::try_vec(table.buckets.len())?;
        for _ in 0..table.buckets.len() {
            filled.try_push(Vec::new())?;
        }
        let mask = table.buckets.len() - 1;
        for entry in names.order.iter().filter_map(|s| s.entry.as_ref()) {
            if let Some(bucket) = filled.get_mut(entry.name.hash as usize & mask) {
                bucket.try_push(entry.clone())?;
            }
        }
        for (slot, entries) in table.buckets.iter().zip(filled) {
            if !entries.is_empty() {
                slot.swap(Some(slab_arc(Bucket { entries, rcu: RcuHead::new() })?));
            }
        }
        self.table.swap(Some(table));
        Ok(())
    }
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Drops the slot of a removed name; the array is packed when half of it is holes.
    fn forget(&mut self, cookie: u64) {
        if let Ok(i) = self.order.binary_search_by_key(&cookie, |s| s.cookie)
            && let Some(slot) = self.order.get_mut(i)
            && slot.entry.take().is_some()
        {
            self.live -= 1;
        }
        if self.order.len() > 16 && self.live * 2 < self.order.len() {
            self.order.retain(|s| s.entry.is_some());
        }
        if self.live == 0 {
            self.order.clear();
        }
    }

    /// The entries at and after a position of the listing, with the position after each.
    pub fn entries_from(&self, position: u64) -> impl Iterator<Item = (&Entry, u64)> {
        let start = self.order.partition_point(|s| s.cookie < position);
        let rest = self.order.get(start..).unwrap_or(&[]);
        rest.iter().filter_map(|s| s.entry.as_ref().map(|e| (e, s.cookie + 1)))
    }
}
