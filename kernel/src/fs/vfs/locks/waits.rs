//! Who waits for whose record locks, for EDEADLK (fcntl(2)).
//!
//! As on Linux only processes' locks are followed, not open files', and a chain of at most `CHAIN_MAX` waits: a longer circle is not found.
//! A wait counts while the file's locks have not changed since it began: after that its thread looks anew, and comes back here if it has
//! to wait again. So who closes a circle finds all of it valid.
//!
//! Lock order: a file's locks → `WAITS`, which only who is about to wait, or has waited, takes.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::Ordering::SeqCst;

use crate::lock_order as level;
use sync::{SpinLock, lock_class};

use super::Lists;
use super::records::Owner;
use super::tree::{Item, Node, Tree};
use crate::errno::{EDEADLK, ENOLCK, Result};

lock_class! { static BLOCKED: LockClass = ("waits for record locks", level::LockWaits); }

/// MAX_DEADLK_ITERATIONS.
const CHAIN_MAX: usize = 10;

/// A thread of `waiter` waits for `holder`.
struct Wait {
    waiter: Owner,
    thread: u32,
    holder: Owner,
    lists: Arc<Lists>,
    /// How often the file's locks had changed.
    seen: u64,
}

impl Wait {
    fn is_valid(&self) -> bool {
        self.lists.changes.load(SeqCst) == self.seen
    }
}

impl Item for Wait {
    type Key = (Owner, u32);
    type Summary = ();
    fn key(&self) -> (Owner, u32) {
        (self.waiter, self.thread)
    }
    fn summary(&self) {}
    fn join(_: &mut (), _: &()) {}
}

static WAITS: SpinLock<Tree<Wait>, level::LockWaits> = SpinLock::new(Tree::new(), &BLOCKED);

/// Whom `owner` waits for.
fn holder(waits: &Tree<Wait>, owner: Owner) -> Option<Owner> {
    let mut after = waits.first_above(&(owner, 0));
    // A process may wait with several threads. Which of them closes a circle no order says, so the first valid one counts, as on Linux.
    while let Some(wait) = after.filter(|wait| wait.waiter == owner) {
        if wait.is_valid() {
            return Some(wait.holder);
        }
        after = waits.first_above(&wait.key());
    }
    None
}

/// A wait, until it is dropped.
pub struct Waiting {
    waiter: Owner,
    thread: u32,
}

impl Waiting {
    /// `thread` of `waiter`, which is not 0, is about to wait for `holder` until the locks of `lists` change from their `seen`th state.
    ///
    /// # Errors
    /// EDEADLK: `holder` waits for `waiter`, itself or by others. ENOLCK: there is no memory.
    pub fn begin(
        waiter: Owner,
        thread: u32,
        holder_now: Owner,
        lists: &Arc<Lists>,
        seen: u64,
    ) -> Result<Waiting> {
        let node = Node::try_new(Wait { waiter, thread, holder: holder_now, lists: lists.clone(), seen })
            .map_err(|_| ENOLCK)?;
        let mut waits = WAITS.lock();
        let mut at = holder_now;
        for _ in 0..=CHAIN_MAX {
            let Some(next) = holder(&waits, at) else { break };
            if next == waiter {
                drop(waits);
                return Err(EDEADLK);
            }
            at = next;
        }
        waits.insert(node);
        Ok(Waiting { waiter, thread })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let gone = WAITS.lock().remove(&(self.waiter, self.thread));
        drop(gone);
    }
}
