//! The watches of one open file that end with its last close, in a red-black tree by the order of coming.
//!
//! A watch that goes sooner leaves by itself. Nobody comes behind the last close: who comes keeps the file open meanwhile (`File::keep_open`).
//!
//! Lock order: `stays`, innermost but for the allocator.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Weak;

use intrusive_collections::{KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use once_cell::race::OnceBox;

use crate::lock_order as level;
use sync::{SpinLock, lock_class, try_box};

use super::Watcher;
use crate::errno::Result;
use crate::sched::schedule_if_needed;

lock_class! { static STAYS: LockClass = ("watches of a file", level::FileWatches); }

/// Watches told of the close before others may run.
const TURN: u32 = 64;

struct Stay {
    watcher: Weak<dyn Watcher>,
    number: u64,
    link: RBTreeAtomicLink,
}

intrusive_adapter!(ByNumber = Box<Stay>: Stay { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByNumber {
    type Key = u64;
    fn get_key(&self, stay: &'a Stay) -> u64 {
        stay.number
    }
}

struct Tree {
    by_number: RBTree<ByNumber>,
    /// The number of the last that came. No other ever has it.
    last: u64,
}

/// All of one file. There from the first on: most files have none, and their last close takes no lock.
pub struct Stays(OnceBox<SpinLock<Tree, level::FileWatches>>);

impl Stays {
    pub const fn new() -> Self {
        Stays(OnceBox::new())
    }

    fn tree(&self) -> Result<&SpinLock<Tree, level::FileWatches>> {
        self.0.get_or_try_init(|| {
            let tree = Tree { by_number: RBTree::new(ByNumber::NEW), last: 0 };
            Ok(try_box(SpinLock::new(tree, &STAYS))?)
        })
    }

    /// Says as what it leaves, which is not 0. The caller keeps the file open, so its last close sees it.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn put(&self, watcher: Weak<dyn Watcher>) -> Result<u64> {
        let mut stay = try_box(Stay { watcher, number: 0, link: RBTreeAtomicLink::new() })?;
        let mut tree = self.tree()?.lock();
        let number = tree.last.wrapping_add(1);
        stay.number = number;
        tree.last = number;
        tree.by_number.back_mut().insert_after(stay);
        Ok(number)
    }

    pub fn remove(&self, number: u64) {
        let gone = self.0.get().and_then(|tree| tree.lock().by_number.find_mut(&number).remove());
        drop(gone);
    }

    /// The file is closed: tells the watchers of it, and gives way meanwhile.
    pub fn end(&self) {
        let Some(tree) = self.0.get() else { return };
        for step in 1u32.. {
            let Some(first) = tree.lock().by_number.front_mut().remove() else { break };
            if let Some(watcher) = first.watcher.upgrade() {
                watcher.file_closed();
            }
            if step.is_multiple_of(TURN) {
                schedule_if_needed();
            }
        }
    }
}
