//! The names of one directory: a hash table that is read under RCU, and the same names in order of arrival for
//! getdents64. For tmpfs and devtmpfs this is the directory itself; for other file systems it caches.
//!
//! Each directory has its own table and lock: making and removing files in different directories shares nothing.
//! A bucket is a chain: a name comes and goes by one store, so a reader sees it before or after a change, and replacing the
//! target of a rename is one store too. Growing builds a new table and swaps it in. Hence a walk needs no sequence count: what it finds
//! was there at some moment of the call, and taking the reference fails if it has gone since.
//!
//! Who enters or removes a name counts no references to other names, so what several CPUs make and remove in one directory stays
//! theirs, but for the directory's own lines: lock, table, order and times.
//!
//! Lock order: parent's `names` before child's; two unrelated directories: rename's order (`rename`).
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::lock_order as level;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::rcu::{Chain, RcuArc, RcuHead, RcuRead};
use sync::{Mutex, TryVec, lock_class, slab_arc};

use super::dentry::{Dentry, Name};
use crate::errno::{ENOENT, ENOMEM, Result};

lock_class! { pub static DIRECTORY: LockClass = ("directory", level::Directory); }

/// A name and what it leads to.
#[derive(Clone)]
pub struct Entry {
    pub name: Arc<Name>,
    pub dentry: Arc<Owner<Dentry>>,
    /// Position in the listing: unique and growing within the directory.
    cookie: u64,
}

vm::slab_type!(Entry, "directory-entry", Chain);

impl Entry {
    fn is(&self, name: &[u8], hash: u64) -> bool {
        self.name.hash == hash && *self.name.bytes == *name
    }
}

struct Table {
    buckets: Box<[Chain<Entry>]>,
    rcu: RcuHead,
}

vm::slab_type!(Table, "directory-table", Arc);

rcu_object!(Table);

impl Table {
    fn try_new(buckets: usize) -> Result<Arc<Table>> {
        Ok(slab_arc(Table {
            buckets: sync::heap::try_box_slice(buckets, |_| Chain::new())?,
            rcu: RcuHead::new(),
        })?)
    }

    fn bucket(&self, hash: u64) -> Option<&Chain<Entry>> {
        self.buckets.get(hash as usize & (self.buckets.len().wrapping_sub(1)))
    }
}

pub struct Directory {
    table: RcuArc<Table>,
    pub names: Mutex<Names, level::Directory>,
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
/// Buckets of the first table: a cache line.
const BUCKETS: usize = 8;
/// Slots of the listing among which holes are left: two cache lines.
const FEW: usize = 4;
/// Names per bucket, on average, before the table grows.
const LOAD: usize = 2;

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
        self.table.load(read)?.bucket(hash)?.iter(read).find(|entry| entry.is(name, hash))
    }

    /// Finds a name, with a count of its own on the entry. The caller holds `names`, so the answer stays true.
    pub fn get(&self, _names: &Names, name: &[u8]) -> Option<Entry> {
        let read = sync::rcu::read();
        self.find(name, super::dentry::hash(name), &read).cloned()
    }

    /// Whether the name is there. The caller holds `names`, so the answer stays true.
    pub fn contains(&self, _names: &Names, name: &Name) -> bool {
        self.find(&name.bytes, name.hash, &sync::rcu::read()).is_some()
    }

    /// Enters a name that is not there yet. The caller holds `names`.
    pub fn insert(&self, names: &mut Names, name: Arc<Name>, dentry: Arc<Owner<Dentry>>) -> Result<()> {
        // Without memory for a larger table the old one serves, only slower; the first one is needed.
        let grown = self.grow_for(names);
        if names.live == 0 {
            grown?;
        }
        names.order.try_reserve(1).map_err(|_| ENOMEM)?;
        let read = sync::rcu::read();
        let bucket = self.table.load(&read).and_then(|table| table.bucket(name.hash)).ok_or(ENOMEM)?;
        let entry = Entry { name, dentry, cookie: names.next };
        bucket.push(entry.clone())?;
        names.order.try_push(Slot { cookie: entry.cookie, entry: Some(entry) })?;
        names.next += 1;
        names.live += 1;
        Ok(())
    }

    /// Takes a name out, and says whether it was there. The caller holds `names`.
    pub fn remove(&self, names: &mut Names, name: &Name) -> bool {
        let read = sync::rcu::read();
        let bucket = self.table.load(&read).and_then(|table| table.bucket(name.hash));
        let gone = bucket.and_then(|b| b.remove(|entry| entry.is(&name.bytes, name.hash), &read));
        if let Some(entry) = gone {
            names.forget(entry.cookie);
        }
        gone.is_some()
    }

    /// Makes an existing name lead to another dentry, in one step. ENOENT if it is not there. The caller holds `names`.
    pub fn replace(&self, names: &mut Names, name: &Name, dentry: Arc<Owner<Dentry>>) -> Result<()> {
        let read = sync::rcu::read();
        let bucket = self.table.load(&read).and_then(|table| table.bucket(name.hash)).ok_or(ENOENT)?;
        let is_it = |entry: &Entry| entry.is(&name.bytes, name.hash);
        let old = bucket.iter(&read).find(|entry| is_it(entry)).ok_or(ENOENT)?;
        let (cookie, name) = (old.cookie, old.name.clone());
        bucket.replace(is_it, Entry { name, dentry: dentry.clone(), cookie }, &read)?;
        if let Ok(i) = names.order.binary_search_by_key(&cookie, |s| s.cookie)
            && let Some(Some(entry)) = names.order.get_mut(i).map(|s| s.entry.as_mut())
        {
            entry.dentry = dentry;
        }
        Ok(())
    }

    /// Makes room for one more name.
    fn grow_for(&self, names: &Names) -> Result<()> {
        let read = sync::rcu::read();
        let buckets = self.table.load(&read).map_or(0, |t| t.buckets.len());
        if buckets * LOAD > names.live {
            return Ok(());
        }
        let table = Table::try_new((buckets * 4).max(BUCKETS))?;
        for entry in names.order.iter().filter_map(|s| s.entry.as_ref()) {
            table.bucket(entry.name.hash).ok_or(ENOMEM)?.push(entry.clone())?;
        }
        self.table.swap(Some(table));
        Ok(())
    }
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Drops the slot of a removed name, and holes at the end; the array is packed when half of it is holes.
    fn forget(&mut self, cookie: u64) {
        if let Ok(i) = self.order.binary_search_by_key(&cookie, |s| s.cookie)
            && let Some(slot) = self.order.get_mut(i)
            && slot.entry.take().is_some()
        {
            self.live -= 1;
        }
        if self.order.len() > FEW && self.live * 2 < self.order.len() {
            self.order.retain(|s| s.entry.is_some());
        }
        while self.order.last().is_some_and(|s| s.entry.is_none()) {
            self.order.pop();
        }
    }

    /// The entries at and after a position of the listing, with the position after each.
    pub fn entries_from(&self, position: u64) -> impl Iterator<Item = (&Entry, u64)> {
        let start = self.order.partition_point(|s| s.cookie < position);
        let rest = self.order.get(start..).unwrap_or(&[]);
        rest.iter().filter_map(|s| s.entry.as_ref().map(|e| (e, s.cookie + 1)))
    }
}
