//! The list of leases that /proc/locks shows.
//!
//! A lease stands in a list of the CPU on which it was set, in the order in which they came; /proc/locks shows CPU after CPU, the last that came first, as Linux does.
//! What it shows changes is stored beside, so that who lists locks no file's locks.
//!
//! Lock order: a file's locks → a CPU's list.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use sync::{CpuId, SpinLock, lock_class, machine, per_cpu, try_arc};

use super::tell::{Range, Text, put_lock};
use super::tree::{Item, Node, Tree};
use crate::errno::{EINTR, Result};
use crate::fs::vfs::inode::Inode;
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! { static LISTED: LockClass = ("leases", level::LeaseList); }

/// What is told of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Exclusive or not, as it is or is to become; none: it is to end.
    pub target: Option<bool>,
    pub breaking: bool,
}

const EXCLUSIVE: u8 = 1;
const ENDS: u8 = 2;
const BREAKING: u8 = 4;

impl Shown {
    fn to_bits(self) -> u8 {
        let target = match self.target {
            Some(false) => 0,
            Some(true) => EXCLUSIVE,
            None => ENDS,
        };
        if self.breaking { target | BREAKING } else { target }
    }

    fn from_bits(bits: u8) -> Shown {
        let target = if bits & ENDS != 0 { None } else { Some(bits & EXCLUSIVE != 0) };
        Shown { target, breaking: bits & BREAKING != 0 }
    }
}

struct Entry {
    process: u32,
    device: u64,
    inode: u64,
    shown: AtomicU8,
}

struct ByNumber {
    number: u64,
    entry: Arc<Entry>,
}

impl Item for ByNumber {
    type Key = u64;
    type Summary = ();
    fn key(&self) -> u64 {
        self.number
    }
    fn summary(&self) {}
    fn join(_: &mut (), _: &()) {}
}

struct List {
    leases: Tree<ByNumber>,
    /// The number of the next that comes.
    next: u64,
}

#[repr(align(64))]
struct CpuList(SpinLock<List, level::LeaseList>);

per_cpu! {
    static LISTS: CpuList = CpuList(SpinLock::new(List { leases: Tree::new(), next: 1 }, &LISTED));
}

/// A lease's place in the list, until it leaves it. That is not said by dropping it: where a tree of leases is changed, a tree of these would be, by the types.
#[derive(Clone)]
pub struct Listed {
    entry: Arc<Entry>,
    cpu: CpuId,
    number: u64,
}

impl Listed {
    /// Lists a lease of `inode`, which `process` asked for.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new(inode: &Inode, process: u32, shown: Shown) -> Result<Listed> {
        let shown = AtomicU8::new(shown.to_bits());
        let entry = try_arc(Entry { process, device: inode.device, inode: inode.number, shown })?;
        let mut node = Node::try_new(ByNumber { number: 0, entry: entry.clone() })?;
        let cpu = machine::cpu_id();
        let mut list = LISTS.of(cpu).0.lock();
        let number = list.next;
        list.next = number.saturating_add(1);
        node.item.number = number;
        list.leases.insert(node);
        drop(list);
        Ok(Listed { entry, cpu, number })
    }

    pub fn show(&self, shown: Shown) {
        self.entry.shown.store(shown.to_bits(), Relaxed);
    }

    pub fn process(&self) -> u32 {
        self.entry.process
    }

    /// The lease is gone.
    pub fn leave(&self) {
        let gone = LISTS.of(self.cpu).0.lock().leases.remove(&self.number);
        drop(gone);
    }
}

/// The last lease on the list of `cpu` that came with `number` or before.
fn last_to(cpu: CpuId, number: u64) -> Option<(u64, Arc<Entry>)> {
    let list = LISTS.of(cpu).0.lock();
    list.leases.last_to(&number).map(|item| (item.number, item.entry.clone()))
}

/// Appends a line for each lease (/proc/locks). Gives way between them, and then no lock is held.
///
/// # Errors
/// ENOMEM; EINTR: a signal that kills.
pub fn tell_leases(out: &mut Vec<u8>) -> Result {
    let mut line = 0_u64;
    for cpu in 0..machine::cpus() {
        let mut from = u64::MAX;
        while let Some((number, entry)) = last_to(cpu, from) {
            line = line.saturating_add(1);
            let text = Text::of_lease(Shown::from_bits(entry.shown.load(Relaxed)));
            let place = (entry.device, entry.inode);
            put_lock(out, "", line, text, entry.process.into(), place, Range::WHOLE)?;
            from = number.saturating_sub(1);
            if give_way() {
                return Err(EINTR);
            }
        }
    }
    Ok(())
}
