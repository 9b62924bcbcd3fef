//! Who may look into a process: its memory, its files, where things lie in it. One check for all that asks, Linux's for attaching with ptrace
//! (ptrace(2), "Ptrace access mode checking").
//!
//! A process that has changed its ids, or runs a program that its user may not read, is not *dumpable*: it may hold what its user must not see.
#![forbid(unsafe_code)]

use super::{Capability, Credentials, Ids};
use crate::account::limits::Setting;
use crate::process::{Current, Process, Thread};
use core::sync::atomic::Ordering;

/// Which of the caller's ids count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Those for files: what /proc shows.
    FsIds,
    /// The real ones: what a system call does to another process.
    RealIds,
}

/// May `caller` look into `target`?
pub fn may_inspect(caller: &Current, target: &Process, by: By) -> bool {
    if caller.process.pid() == target.pid() || caller.capable(Capability::SYS_PTRACE) {
        return true;
    }
    target.look_at_leader(|thread| are_open_to(caller, thread, by)).unwrap_or(false)
}

/// May `caller` look into `target`, a thread by whose own ids it goes?
pub fn may_inspect_thread(caller: &Current, target: &Thread, by: By) -> bool {
    caller.process.pid() == target.process.pid()
        || caller.capable(Capability::SYS_PTRACE)
        || are_open_to(caller, target, by)
}

/// May `caller`, without a capability for it, look into what has the ids of `target`?
fn are_open_to(caller: &Current, target: &Thread, by: By) -> bool {
    let (ids, own) = (caller.ids(), caller.capabilities());
    let counted = match by {
        By::FsIds => own.effective,
        By::RealIds => own.permitted,
    };
    let may = |theirs: &Credentials| {
        has_only_ids_of(&ids, theirs, by)
            && target.process.is_dumpable()
            && counted.contains(theirs.sets.permitted)
    };
    target.look_at_credentials(may).unwrap_or(false)
}

/// Are all ids of `theirs` the caller's, whose are `mine`?
pub fn has_only_ids_of(mine: &Ids, theirs: &Ids, by: By) -> bool {
    let (uid, gid) = match by {
        By::FsIds => (mine.fsuid, mine.fsgid),
        By::RealIds => (mine.uid, mine.gid),
    };
    [theirs.uid, theirs.euid, theirs.suid].iter().all(|id| *id == uid)
        && [theirs.gid, theirs.egid, theirs.sgid].iter().all(|id| *id == gid)
}

/// Who may look into a process, and whose its core is (PR_GET_DUMPABLE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dumpable {
    /// Nobody without a capability; and it leaves no core.
    Nobody = 0,
    User = 1,
    /// Nobody without a capability; its core is root's.
    Root = 2,
}

/// fs.suid_dumpable: what a process is that its user may not look into.
pub static SUID_DUMPABLE: Setting = Setting::new(0);

impl Dumpable {
    fn from_number(n: u64) -> Self {
        match n {
            1 => Dumpable::User,
            2 => Dumpable::Root,
            _ => Dumpable::Nobody,
        }
    }

    /// Of a process that may hold what its user must not see.
    pub fn hidden() -> Self {
        Self::from_number(SUID_DUMPABLE.get())
    }
}

impl Process {
    /// May its user look into it?
    pub fn is_dumpable(&self) -> bool {
        self.dumpable() == Dumpable::User
    }

    pub fn dumpable(&self) -> Dumpable {
        Dumpable::from_number(self.dumpable.load(Ordering::Relaxed).into())
    }

    pub fn set_dumpable(&self, dumpable: Dumpable) {
        // Most are what they were: then nothing is written.
        if self.dumpable() != dumpable {
            self.dumpable.store(dumpable as u8, Ordering::Relaxed);
        }
    }
}

impl Thread {
    /// It goes from `old` credentials to `new` ones: what its process holds may be secret to the new user, and its parent is another's.
    pub fn note_new_credentials(&self, old: &Credentials, new: &Credentials) {
        if old.hides_from(new) {
            self.process.set_dumpable(Dumpable::hidden());
            self.attributes.set_death_signal(0);
        }
    }
}

/// Is a process with `ids` dumpable when it begins a program that it may read or not?
pub(in crate::process) fn dumpable_at_exec(ids: &Ids, readable: bool) -> bool {
    readable && ids.uid == ids.euid && ids.gid == ids.egid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ids_of_the_other_must_be_the_callers() {
        let user =
            |uid| Ids { uid, euid: uid, suid: uid, fsuid: uid, gid: uid, egid: uid, sgid: uid, fsgid: uid };
        let me = user(1000);
        assert!(
            has_only_ids_of(&me, &user(1000), By::RealIds) && has_only_ids_of(&me, &user(1000), By::FsIds)
        );
        assert!(!has_only_ids_of(&me, &user(0), By::RealIds));
        for change in [
            |ids: &mut Ids| ids.uid = 0,
            |ids: &mut Ids| ids.euid = 0,
            |ids: &mut Ids| ids.suid = 0,
            |ids: &mut Ids| ids.gid = 0,
            |ids: &mut Ids| ids.egid = 0,
            |ids: &mut Ids| ids.sgid = 0,
        ] {
            let mut theirs = user(1000);
            change(&mut theirs);
            assert!(!has_only_ids_of(&me, &theirs, By::RealIds), "{theirs:?}");
        }
        // Only the ids that are asked for count of the caller's.
        let effective = Ids { fsuid: 7, fsgid: 7, ..me };
        assert!(
            has_only_ids_of(&effective, &user(1000), By::RealIds)
                && !has_only_ids_of(&effective, &user(1000), By::FsIds)
        );
    }
}
