//! The names of one directory: a hash table that is read under RCU, and the same names in order of arrival for
//! getdents64. For tmpfs and devtmpfs this is the directory itself; for other file systems it caches (`cache`), and among its names are
//! such as the file system does not have.
//!
//! Each directory has its own table and lock: making and removing files in different directories shares nothing.
//! A bucket is a chain: a name comes and goes by one store, so a reader sees it before or after a change, and replacing the
//! target of a rename is one store too. Growing builds a new table and swaps it in. Hence a walk needs no sequence count: what it finds
//! was there at some moment of the call, and taking the reference fails if it has gone since.
//!
//! Who enters or removes a name counts no references to other names, so what several CPUs make and remove in one directory stays
//! theirs, but for the directory's own lines: lock, table, order and times.
//!
//! What may fail is done first: `prepare` finds the memory, and `enter` puts the name in or in another's place without fail, after the file
//! system has done its part.
//!
//! Lock order: parent's `names` before child's; two unrelated directories: rename's order (`rename`).
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::lock_order as level;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::rcu::{Chain, InParts, Parts, Prepared, RcuArc, RcuHead, RcuRead};
use sync::{Mutex, lock_class, slab_arc};

use super::cache::claim::Claims;
use super::dentry::{Dentry, Name};
use super::order::Order;
use crate::bytes;
use crate::errno::{ENOMEM, Result};
use crate::sched::schedule_if_needed;

lock_class! { pub static DIRECTORY: LockClass = ("directory", level::Directory); }

/// A name and what it leads to.
#[derive(Clone)]
pub struct Entry {
    pub name: Arc<Name>,
    pub dentry: Arc<Owner<Dentry>>,
    /// Position in the listing: unique and growing within the directory.
    pub cookie: u64,
}

vm::slab_type!(Entry, "directory-entry", Chain);

impl Entry {
    fn is(&self, name: &[u8], hash: u64) -> bool {
        self.name.hash == hash && bytes::equal(&self.name.bytes, name)
    }
}

struct Table {
    buckets: Box<[Chain<Entry>]>,
    /// In which the buckets of a large table are dropped.
    parts: Option<Box<InParts<Buckets>>>,
    rcu: RcuHead,
}

vm::slab_type!(Table, "directory-table", Arc);

sync::rcu_object!(Table);

/// The buckets of a table that nobody reads any more.
struct Buckets(Vec<Chain<Entry>>);

impl Parts for Buckets {
    fn drop_part(&mut self) -> bool {
        let left = self.0.len().saturating_sub(TURN);
        self.0.truncate(left);
        left != 0
    }
}

impl Table {
    /// Gives way: the caller holds no lock but sleeping ones.
    fn try_new(buckets: usize) -> Result<Arc<Table>> {
        let parts = match buckets {
            ..=TURN => None,
            _ => Some(sync::try_box(InParts::new(Buckets(Vec::new())))?),
        };
        let mut chains = sync::try_vec(buckets)?;
        while chains.len() < buckets {
            chains.resize_with(buckets.min(chains.len().saturating_add(TURN)), Chain::new);
            schedule_if_needed();
        }
        Ok(slab_arc(Table { buckets: chains.into_boxed_slice(), parts, rcu: RcuHead::new() })?)
    }

    fn bucket(&self, hash: u64) -> Option<&Chain<Entry>> {
        self.buckets.get(hash as usize & (self.buckets.len().wrapping_sub(1)))
    }
}

impl Drop for Table {
    /// A large one goes in parts: it may be in a callback.
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            parts.value().0 = core::mem::take(&mut self.buckets).into_vec();
            InParts::begin_drop(parts);
        }
    }
}

pub struct Directory {
    table: RcuArc<Table>,
    pub names: Mutex<Names, level::Directory>,
    /// Where the names are a cache of what the file system has.
    pub claims: Option<Box<Claims>>,
}

vm::slab_type!(Directory, "directory", Box);

/// What the directory's lock guards.
pub struct Names {
    /// Removed: nothing may be entered any more.
    pub dead: bool,
    live: usize,
    next: u64,
    order: Order,
}

/// A name's place in a directory, with all the memory that it takes.
pub enum Place {
    New(Prepared<Entry>),
    /// In the place of an entry of the same name.
    Over(Prepared<Entry>),
}

/// Positions 0 and 1 are `.` and `..`.
const FIRST_COOKIE: u64 = 2;
/// Buckets of the first table: a cache line.
const BUCKETS: usize = 8;
/// Names per bucket, on average, before the table grows.
const LOAD: usize = 2;
/// Buckets of the largest table: 4 MiB, as much as can be had in one piece. Its chains are longer.
const MOST_BUCKETS: usize = 1 << 19;
/// Buckets that are made or dropped, with their entries, before others may run.
const TURN: usize = 512;

impl Directory {
    /// The names of a directory below `above`, which is of the same file system.
    pub fn try_below(above: Option<&Directory>) -> Result<Directory> {
        if above.is_some_and(|d| d.claims.is_some()) {
            Directory::try_cached()
        } else {
            Ok(Directory::new(None))
        }
    }

    /// A cache of names.
    pub fn try_cached() -> Result<Directory> {
        Ok(Directory::new(Some(sync::try_box(Claims::new())?)))
    }

    fn new(claims: Option<Box<Claims>>) -> Directory {
        let names = Names { dead: false, live: 0, next: FIRST_COOKIE, order: Order::new() };
        Directory { table: RcuArc::empty(), names: Mutex::new(names, &DIRECTORY), claims }
    }

    /// Finds a name under RCU.
    pub fn find<'g>(&'g self, name: &[u8], hash: u64, read: &'g RcuRead) -> Option<&'g Entry> {
        self.table.load(read)?.bucket(hash)?.iter(read).find(|entry| entry.is(name, hash))
    }

    /// The dentry that the table has for a name now, absent ones too.
    pub fn peek(&self, name: &Name) -> Option<Arc<Owner<Dentry>>> {
        let read = sync::rcu::read();
        self.find(&name.bytes, name.hash, &read).map(|entry| entry.dentry.clone())
    }

    /// Finds the dentry of a name that is there. The caller holds `names`, so the answer stays true.
    pub fn get(&self, _names: &Names, name: &Name) -> Option<Arc<Owner<Dentry>>> {
        let read = sync::rcu::read();
        self.find(&name.bytes, name.hash, &read).filter(|e| !e.dentry.is_absent()).map(|e| e.dentry.clone())
    }

    /// Whether the name is there. The caller holds `names`, so the answer stays true.
    pub fn contains(&self, _names: &Names, name: &Name) -> bool {
        self.find(&name.bytes, name.hash, &sync::rcu::read()).is_some_and(|e| !e.dentry.is_absent())
    }

    /// Finds the memory to enter a name that is not in the table. The caller holds `names` until it has entered it.
    pub fn prepare(&self, names: &mut Names, name: Arc<Name>, dentry: Arc<Owner<Dentry>>) -> Result<Place> {
        // Without memory for a larger table the old one serves, only slower; the first one is needed.
        let grown = self.grow_for(names);
        if names.live == 0 {
            grown?;
        }
        names.order.reserve()?;
        Ok(Place::New(Prepared::try_new(Entry { name, dentry, cookie: names.next })?))
    }

    /// Finds the memory to make a name lead to `dentry`, whether or not it is in the table. The caller holds `names` until it has
    /// entered it.
    pub fn prepare_over(
        &self,
        names: &mut Names,
        name: &Arc<Name>,
        dentry: Arc<Owner<Dentry>>,
    ) -> Result<Place> {
        let old = {
            let read = sync::rcu::read();
            self.find(&name.bytes, name.hash, &read).map(|old| (old.name.clone(), old.cookie))
        };
        match old {
            Some((name, cookie)) => Ok(Place::Over(Prepared::try_new(Entry { name, dentry, cookie })?)),
            None => self.prepare(names, name.clone(), dentry),
        }
    }

    /// Puts in what was prepared, in one step. The caller has held `names` since. Returns the name's cookie.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of names in memory")]
    pub fn enter(&self, names: &mut Names, place: Place) -> u64 {
        let read = sync::rcu::read();
        let Some(table) = self.table.load(&read) else { return 0 };
        match place {
            Place::New(prepared) => {
                let entry = prepared.value().clone();
                let cookie = entry.cookie;
                if let Some(bucket) = table.bucket(entry.name.hash) {
                    bucket.push_prepared(prepared);
                }
                names.order.push(cookie, entry);
                names.next += 1;
                names.live += 1;
                cookie
            }
            Place::Over(prepared) => {
                let Entry { name, dentry, cookie } = prepared.value().clone();
                if let Some(bucket) = table.bucket(name.hash) {
                    bucket.replace_prepared(|entry| entry.is(&name.bytes, name.hash), prepared, &read);
                }
                if let Some(entry) = names.order.get_mut(cookie) {
                    entry.dentry = dentry;
                }
                cookie
            }
        }
    }

    /// Enters a name that is not in the table. The caller holds `names`.
    pub fn insert(&self, names: &mut Names, name: Arc<Name>, dentry: Arc<Owner<Dentry>>) -> Result {
        let place = self.prepare(names, name, dentry)?;
        self.enter(names, place);
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

    /// Makes room for one more name. Gives way: the caller holds no lock but sleeping ones.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of names in memory")]
    fn grow_for(&self, names: &Names) -> Result<()> {
        let buckets = self.table.load(&sync::rcu::read()).map_or(0, |t| t.buckets.len());
        if buckets * LOAD > names.live || buckets >= MOST_BUCKETS {
            return Ok(());
        }
        let table = Table::try_new((buckets * 4).max(BUCKETS))?;
        for array in 0..names.order.arrays() {
            for entry in names.order.of_array(array) {
                table.bucket(entry.name.hash).ok_or(ENOMEM)?.push(entry.clone())?;
            }
            schedule_if_needed();
        }
        self.table.swap(Some(table));
        Ok(())
    }
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Drops the place of a removed name.
    #[expect(clippy::arithmetic_side_effects, reason = "each name that leaves was counted")]
    fn forget(&mut self, cookie: u64) {
        self.order.remove(cookie);
        self.live -= 1;
    }

    /// The entry that came last.
    pub fn last(&self) -> Option<&Entry> {
        self.order.last()
    }

    /// The entries at and after a position of the listing, with the position after each.
    pub fn entries_from(&self, position: u64) -> impl Iterator<Item = (&Entry, u64)> {
        self.order.entries_from(position)
    }
}
