//! User and group ids of a thread and its capabilities (credentials(7)). Each thread has its own, so that fork writes no common line.
#![forbid(unsafe_code)]

pub mod access;
pub mod capabilities;
pub mod count;

use capabilities::{Capability, Sets};

use crate::errno::Result;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
use sync::rcu::RcuHead;
use sync::{TryVec, slab_arc};

/// Ids of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    pub uid: u32,
    pub euid: u32,
    pub suid: u32,
    pub fsuid: u32,
    pub gid: u32,
    pub egid: u32,
    pub sgid: u32,
    pub fsgid: u32,
}

/// Ids of a thread, its supplementary groups, and what it may do. Immutable: a change makes a new one.
#[derive(Debug, Default)]
pub struct Credentials {
    pub ids: Ids,
    /// Ascending.
    pub groups: Vec<u32>,
    pub sets: Sets,
    /// Nothing that it executes gives it more (PR_SET_NO_NEW_PRIVS).
    pub no_new_privileges: bool,
    /// When it took its real user id, that user had more processes than RLIMIT_NPROC: exec looks again.
    pub over_process_limit: bool,
    pub rcu: RcuHead,
}

sync::rcu_object!(Credentials);

impl Deref for Credentials {
    type Target = Ids;
    fn deref(&self) -> &Ids {
        &self.ids
    }
}

impl DerefMut for Credentials {
    fn deref_mut(&mut self) -> &mut Ids {
        &mut self.ids
    }
}

vm::slab_type!(Credentials, "credentials", Arc);

impl Credentials {
    /// Those of user 0, who may do everything.
    pub fn superuser() -> Self {
        Self { sets: Sets::root(), ..Self::default() }
    }

    /// The first process's.
    pub fn root() -> Result<Arc<Self>> {
        Ok(slab_arc(Self::superuser())?)
    }

    /// A copy of its own.
    pub fn copy(&self) -> Result<Self> {
        let mut groups = Vec::new();
        groups.try_extend_from_slice(&self.groups)?;
        Ok(Self {
            ids: self.ids,
            groups,
            sets: self.sets,
            no_new_privileges: self.no_new_privileges,
            over_process_limit: self.over_process_limit,
            rcu: RcuHead::new(),
        })
    }

    pub fn try_clone(&self) -> Result<Arc<Self>> {
        Ok(slab_arc(self.copy()?)?)
    }
}

impl Credentials {
    /// Has it all of `what` in effect?
    #[inline]
    pub fn capable(&self, what: Capability) -> bool {
        self.sets.effective.contains(what)
    }

    /// Does a process that goes from these to `new` ones hide from its user what it may now hold?
    pub fn hides_from(&self, new: &Self) -> bool {
        let acts_as = |ids: &Ids| (ids.euid, ids.egid, ids.fsuid, ids.fsgid);
        acts_as(self) != acts_as(new) || !self.sets.permitted.contains(new.sets.permitted)
    }
}

/// The running thread goes on with `new` credentials.
///
/// # Errors
/// ENOMEM.
pub fn set_credentials(new: Credentials) -> Result {
    let thread = crate::process::current();
    count::follow(&thread, &new)?;
    let new = slab_arc(new)?;
    thread.note_new_credentials(&thread.credentials(), &new);
    // Threads that keep the user write nothing of their process.
    if thread.process.uid.load(Ordering::Relaxed) != new.uid {
        thread.process.uid.store(new.uid, Ordering::Relaxed);
    }
    thread.set_credentials(new);
    Ok(())
}

impl Ids {
    /// Do these let a thread signal one with `target`'s (kill(2))?
    pub fn may_signal(&self, target: &Ids) -> bool {
        [self.uid, self.euid].iter().any(|id| *id == target.uid || *id == target.suid)
    }
}
