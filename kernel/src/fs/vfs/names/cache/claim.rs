//! Claims on the names of one directory: who asks the file system for a name, or changes it, has claimed it before.
//!
//! Walks that find the name in the table need no claim. A claim ends when its guard goes, whatever became of the name, and all who wait
//! look at the table again: so a lookup that failed, or was killed, leaves nothing behind.
//!
//! Waiting for a claim can be killed. It is waited for with no directory lock held; of two, the order is that of `Claims::order`.
//!
//! Lock order: `names being asked for` is innermost.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering as Order;
use core::ptr;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

use sync::{SpinLock, TryVec, lock_class};

use crate::errno::{EINTR, Result};
use crate::fs::vfs::dentry::Name;
use crate::lock_order as level;
use crate::sched::{Sleep, WaitQueue};

lock_class! { static CLAIMS: LockClass = ("claimed names", level::ClaimedNames); }

/// The claims of a directory whose names are cached.
pub struct Claims {
    names: SpinLock<Vec<Arc<Name>>, level::ClaimedNames>,
    freed: WaitQueue,
    /// Every name of the directory is in the table. Never so where names change elsewhere.
    whole: AtomicBool,
}

/// A claimed name. Dropped, it is free again.
pub struct Claim<'a> {
    claims: &'a Claims,
    name: Arc<Name>,
}

impl Claims {
    pub const fn new() -> Claims {
        Claims {
            names: SpinLock::new(Vec::new(), &CLAIMS),
            freed: WaitQueue::new(),
            whole: AtomicBool::new(false),
        }
    }

    /// Claims the name; waits for who has it. No directory lock is held.
    ///
    /// # Errors
    /// EINTR: a fatal signal came; ENOMEM.
    pub fn claim(&self, name: &Arc<Name>) -> Result<Claim<'_>> {
        loop {
            if self.try_claim(name)? {
                return Ok(Claim { claims: self, name: name.clone() });
            }
            let free = || (!self.is_claimed(name)).then_some(());
            self.freed.wait_shared(Sleep::Killable, None, free).map_err(|_| EINTR)?;
        }
    }

    fn try_claim(&self, name: &Arc<Name>) -> Result<bool> {
        let mut names = self.names.lock();
        if names.iter().any(|n| *n.bytes == *name.bytes) {
            return Ok(false);
        }
        names.try_push(name.clone())?;
        Ok(true)
    }

    pub fn is_claimed(&self, name: &Name) -> bool {
        self.names.lock().iter().any(|n| *n.bytes == *name.bytes)
    }

    /// Is no name claimed?
    pub fn is_quiet(&self) -> bool {
        self.names.lock().is_empty()
    }

    /// In which order two names are claimed, each with its directory's claims.
    pub fn order(a: (&Claims, &Name), b: (&Claims, &Name)) -> Order {
        ptr::from_ref(a.0).addr().cmp(&ptr::from_ref(b.0).addr()).then_with(|| a.1.bytes.cmp(&b.1.bytes))
    }

    /// A name that is not in the table does not exist.
    pub fn is_whole(&self) -> bool {
        self.whole.load(Acquire)
    }

    /// Set before a name of which this is no longer true leaves the table.
    pub fn set_whole(&self, whole: bool) {
        self.whole.store(whole, Release);
    }
}

impl Claim<'_> {
    pub fn name(&self) -> &Arc<Name> {
        &self.name
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut names = self.claims.names.lock();
        if let Some(i) = names.iter().position(|n| Arc::ptr_eq(n, &self.name)) {
            names.swap_remove(i);
        }
        drop(names);
        self.claims.freed.wake_all();
    }
}
