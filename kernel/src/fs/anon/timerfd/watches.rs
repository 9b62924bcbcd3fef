//! The timer files that want to know when the wall clock is set (TFD_TIMER_CANCEL_ON_SET).
//!
//! They stand in a list of the CPU on which they were set, in the order in which they came; whoever sets the clock visits the lists of all CPUs.
//!
//! LockOrder: a file's state → a list.
// Not forbidden: the macro that makes the tree's adapter has code of its own that it vouches for.
#![deny(unsafe_code)]

use super::Core;
use crate::lock_order as level;
use crate::sched::give_way;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use sync::{CpuId, SpinLock, lock_class, machine, per_cpu};

lock_class! { static WATCHES: LockClass = ("timerfds that watch the clock", level::ClockWatches); }

intrusive_adapter!(pub(super) ByNumber = Arc<Core>: Core { watch => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByNumber {
    type Key = u64;
    fn get_key(&self, core: &'a Core) -> u64 {
        core.number.load(Ordering::Relaxed)
    }
}

struct List {
    files: RBTree<ByNumber>,
    /// The number of the next that comes.
    next: u64,
}

#[repr(align(64))]
struct CpuList(SpinLock<List, level::ClockWatches>);

per_cpu! {
    static LISTS: CpuList = CpuList(SpinLock::new(List { files: RBTree::new(ByNumber::NEW), next: 0 }, &WATCHES));
}

/// Puts `core`, which is on no list, on that of this CPU, whose number this gives. Its state is locked.
#[expect(clippy::arithmetic_side_effects, reason = "one for each call")]
pub(super) fn enter(core: &Arc<Core>) -> CpuId {
    let cpu = machine::cpu_id();
    let mut list = LISTS.of(cpu).0.lock();
    core.number.store(list.next, Ordering::Relaxed);
    list.next += 1;
    list.files.insert(core.clone());
    cpu
}

/// Takes `core` off the list of `cpu`, on which it is. Its state is locked.
pub(super) fn leave(core: &Core, cpu: CpuId) {
    let gone = LISTS.of(cpu).0.lock().files.find_mut(&core.number.load(Ordering::Relaxed)).remove();
    drop(gone);
}

/// Calls `tell` for the files that are on the lists of all CPUs now. Gives way between them; no lock is held then.
pub(super) fn visit(tell: impl Fn(&Core)) {
    for cpu in 0..machine::cpus() {
        let list = &LISTS.of(cpu).0;
        let end = list.lock().next;
        let mut from = 0;
        while let Some((number, core)) = first(list, from)
            && number < end
        {
            tell(&core);
            drop(core);
            from = number.saturating_add(1);
            // All are told, whatever signal has come.
            let _ = give_way();
        }
    }
}

/// The first file whose number is not below `from`.
fn first(list: &SpinLock<List, level::ClockWatches>, from: u64) -> Option<(u64, Arc<Core>)> {
    let list = list.lock();
    let core = list.files.lower_bound(Bound::Included(&from)).clone_pointer()?;
    Some((core.number.load(Ordering::Relaxed), core))
}
