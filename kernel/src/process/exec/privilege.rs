//! What a program does to the credentials of who executes it: set-user-id and set-group-id files, user 0, and the capability sets
//! (execve(2), capabilities(7)), a file's capabilities among them.
#![forbid(unsafe_code)]

use crate::errno::{EPERM, Result};
use crate::fs::File;
use crate::fs::vfs::inode::{SET_GROUP_ID, SET_USER_ID};
use crate::fs::vfs::mount::NO_SUID;
use crate::fs::vfs::xattr::{self, capabilities::FileCapabilities};
use crate::process::capabilities::{Capability, SecureBits, Sets};
use crate::process::credentials::{Credentials, Ids};
use crate::process::{Current, walk_processes};
use alloc::sync::Arc;
use core::ptr;
use sync::slab_arc;

/// What a file gives.
#[derive(Clone, Copy, Default)]
struct Given {
    user: Option<u32>,
    group: Option<u32>,
    capabilities: Option<FileCapabilities>,
}

/// Why a program may not give more than there was.
#[derive(Clone, Copy, Default)]
struct Refusal {
    no_new_privileges: bool,
    /// Its root and working directory are another process's too, which may change them under it, or it has a tracer who may not have the program's privileges.
    shared: bool,
}

/// What becomes of the credentials.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    ids: Ids,
    sets: Sets,
    secure: bool,
    raised: bool,
}

/// What a program begins with.
pub struct Privilege {
    /// None: what there is.
    credentials: Option<Arc<Credentials>>,
    pub ids: Ids,
    /// It has more than its user, who may not decide what its libraries do (AT_SECURE).
    pub secure: bool,
    /// What its user wished for its memory is forgotten (PER_CLEAR_ON_SETID).
    pub forgets_personality: bool,
    /// Its root and working directory were another process's too, or it was traced.
    pub shared: bool,
    /// It was to have no new privileges.
    pub refused: bool,
    /// Its user may look into it.
    pub keeps_dumpable: bool,
}

impl Privilege {
    /// What `file` begins with, when `thread` executes it.
    ///
    /// # Errors
    /// EPERM: it would not get all capabilities that the file puts into effect. EINVAL: the file's have no meaning. ENOMEM.
    pub fn of(thread: &Current, file: &File) -> Result<Self> {
        let old = thread.credentials();
        let refusal = Refusal { no_new_privileges: thread.has_no_new_privileges(), shared: false };
        let given = given(file, refusal)?;
        let mut outcome = outcome(&old.ids, &old.sets, given, refusal)?;
        let shared = outcome.raised && (thread.has_weak_tracer() || shares_fs(thread));
        if shared {
            outcome = self::outcome(&old.ids, &old.sets, given, Refusal { shared: true, ..refusal })?;
        }
        let Outcome { ids, sets, secure, raised } = outcome;
        let changes = ids != old.ids || sets != old.sets || old.over_process_limit;
        let mut privilege = Self {
            credentials: None,
            ids,
            secure,
            forgets_personality: given.user.is_some() || given.group.is_some() || raised,
            shared,
            refused: refusal.no_new_privileges,
            keeps_dumpable: true,
        };
        if changes {
            let new = Credentials { ids, sets, over_process_limit: false, ..old.copy()? };
            privilege.keeps_dumpable = !old.hides_from(&new);
            privilege.credentials = Some(slab_arc(new)?);
        }
        Ok(privilege)
    }

    /// The thread has it from now on.
    pub fn take(self, thread: &Current) {
        if self.secure {
            thread.attributes.set_death_signal(0);
        }
        if let Some(credentials) = self.credentials {
            thread.note_new_credentials(&thread.credentials(), &credentials);
            thread.set_credentials(credentials);
        }
    }
}

/// What `file` gives, unless that is refused.
fn given(file: &File, refusal: Refusal) -> Result<Given> {
    let inode = file.inode();
    let mode = inode.mode();
    let sets_ids = mode & (SET_USER_ID | SET_GROUP_ID) != 0 && !refusal.no_new_privileges;
    if !sets_ids && !inode.has_capabilities() {
        return Ok(Given::default());
    }
    // A file without a place lies on no mount that could allow it.
    if file.path().is_none_or(|path| path.mount.flags() & NO_SUID != 0) {
        return Ok(Given::default());
    }
    // Without execution for the group, set-group-id means something else.
    let group = SET_GROUP_ID | 0o010;
    Ok(Given {
        user: (sets_ids && mode & SET_USER_ID != 0).then(|| inode.uid()),
        group: (sets_ids && mode & group == group).then(|| inode.gid()),
        capabilities: xattr::file_capabilities(inode)?.filter(FileCapabilities::count),
    })
}

/// # Errors
/// EPERM: not all capabilities of the file, which puts them into effect, are to be had.
fn outcome(old: &Ids, old_sets: &Sets, given: Given, refusal: Refusal) -> Result<Outcome> {
    let (mut ids, mut sets) = (*old, *old_sets);
    ids.euid = given.user.unwrap_or(old.euid);
    ids.egid = given.group.unwrap_or(old.egid);

    let mut effective = false;
    sets.permitted = Capability::empty();
    if let Some(file) = given.capabilities {
        effective = file.effective;
        sets.permitted = sets.bounding & file.permitted() | sets.inheritable & file.inheritable();
        // The program does not know that it may lack some.
        if effective && !sets.permitted.contains(file.permitted()) {
            return Err(EPERM);
        }
    }
    // User 0 executes as if each file had all capabilities, and as effective user 0 puts them into effect; not so another user that becomes user 0 by a file
    // which has capabilities of its own.
    let becomes_root = ids.euid == 0 && ids.uid != 0;
    let as_others = sets.secure.contains(SecureBits::NO_ROOT) || given.capabilities.is_some() && becomes_root;
    if !as_others {
        if ids.euid == 0 || ids.uid == 0 {
            sets.permitted = sets.bounding | sets.inheritable;
        }
        effective |= ids.euid == 0;
    }

    let other_ids = ids.euid != old.uid || ids.egid != old.gid;
    let raised = other_ids || !old_sets.permitted.contains(sets.permitted);
    if raised && (refusal.shared || refusal.no_new_privileges) {
        if refusal.no_new_privileges || !old_sets.effective.contains(Capability::SETUID) {
            (ids.euid, ids.egid) = (ids.uid, ids.gid);
        }
        sets.permitted &= old_sets.permitted;
    }
    (ids.suid, ids.fsuid) = (ids.euid, ids.euid);
    (ids.sgid, ids.fsgid) = (ids.egid, ids.egid);

    if other_ids || given.capabilities.is_some() {
        sets.ambient = Capability::empty();
    }
    sets.permitted |= sets.ambient;
    sets.effective = if effective { sets.permitted } else { sets.ambient };
    sets.secure.remove(SecureBits::KEEP);
    let secure = other_ids || (ids.uid != 0 && (effective || !sets.ambient.contains(sets.permitted)));
    Ok(Outcome { ids, sets, secure, raised })
}

impl Current {
    /// Does another thread have its root and working directory (CLONE_FS)? May sleep.
    pub fn has_fs_in_common(&self) -> bool {
        self.fs_references() > 1 && (self.process.thread_count() > 1 || shares_fs(self))
    }
}

/// Does a process besides the thread's have its root and working directory (CLONE_FS)?
pub fn shares_fs(thread: &Current) -> bool {
    if thread.fs_references() == 1 {
        return false;
    }
    // The references may be those of the process's other threads, or of somebody who looks at them just now.
    let mut shared = false;
    walk_processes(|process| {
        if !Arc::ptr_eq(process, &thread.process) {
            process.visit_threads(|other| {
                shared |= other.fs_of().is_some_and(|fs| ptr::eq(&*fs, thread.fs()));
            });
        }
        !shared
    });
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Ids =
        Ids { uid: 1000, euid: 1000, suid: 1000, fsuid: 1000, gid: 100, egid: 100, sgid: 100, fsgid: 100 };
    const TO_ROOT: Given = Given { user: Some(0), group: None, capabilities: None };
    const TRUSTED: Refusal = Refusal { no_new_privileges: false, shared: false };

    fn users() -> Sets {
        Sets { bounding: Capability::ALL, ..Sets::default() }
    }

    #[test]
    fn a_set_user_id_file_gives_its_owner_and_all_capabilities() {
        let outcome = outcome(&USER, &users(), TO_ROOT, TRUSTED).unwrap();
        assert_eq!(outcome.ids, Ids { euid: 0, suid: 0, fsuid: 0, ..USER });
        assert!(outcome.secure && outcome.sets.effective == Capability::ALL);
        let given = Given { group: Some(5), ..Given::default() };
        let outcome = self::outcome(&USER, &users(), given, TRUSTED).unwrap();
        assert_eq!(outcome.ids, Ids { egid: 5, sgid: 5, fsgid: 5, ..USER });
        assert!(outcome.secure && outcome.sets.permitted.is_empty());
    }

    #[test]
    fn shared_directories_and_no_new_privileges_give_nothing() {
        for refusal in [Refusal { shared: true, ..TRUSTED }, Refusal { no_new_privileges: true, ..TRUSTED }] {
            let outcome = outcome(&USER, &users(), TO_ROOT, refusal).unwrap();
            assert_eq!(outcome.ids, USER);
            assert!(outcome.sets.permitted.is_empty() && outcome.sets.effective.is_empty());
        }
        // Who may change ids anyway gets them, and no more capabilities than it had.
        let may = Sets { permitted: Capability::SETUID, effective: Capability::SETUID, ..users() };
        let outcome = outcome(&USER, &may, TO_ROOT, Refusal { shared: true, ..TRUSTED }).unwrap();
        assert_eq!((outcome.ids.euid, outcome.sets.permitted), (0, Capability::SETUID));
    }

    #[test]
    fn roots_programs_have_all_and_a_users_have_what_is_ambient() {
        let root = Ids::default();
        let outcome = outcome(&root, &users(), Given::default(), TRUSTED).unwrap();
        assert_eq!((outcome.sets.effective, outcome.secure), (Capability::ALL, false));
        let kept = Sets {
            permitted: Capability::ALL,
            inheritable: Capability::CHOWN,
            ambient: Capability::CHOWN,
            secure: SecureBits::KEEP,
            ..users()
        };
        let outcome = self::outcome(&USER, &kept, Given::default(), TRUSTED).unwrap();
        let expected = Sets {
            effective: Capability::CHOWN,
            permitted: Capability::CHOWN,
            secure: SecureBits::empty(),
            ..kept
        };
        assert_eq!((outcome.sets, outcome.secure), (expected, false));
    }

    #[test]
    fn without_the_rule_for_user_0_it_is_a_user_as_others() {
        let sets = Sets { secure: SecureBits::NO_ROOT, ..Sets::root() };
        let outcome = outcome(&Ids::default(), &sets, Given::default(), TRUSTED).unwrap();
        assert!(outcome.sets.permitted.is_empty() && outcome.sets.effective.is_empty());
    }

    fn gives(effective: bool, permitted: Capability) -> Given {
        let words = [
            0x0200_0000 | u32::from(effective),
            permitted.bits() as u32,
            0,
            (permitted.bits() >> 32) as u32,
            0,
        ];
        let bytes: std::vec::Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        Given { capabilities: Some(FileCapabilities::parse(&bytes).unwrap()), ..Given::default() }
    }

    #[test]
    fn a_file_gives_its_capabilities() {
        let outcome = outcome(&USER, &users(), gives(true, Capability::CHOWN), TRUSTED).unwrap();
        assert_eq!((outcome.sets.effective, outcome.sets.permitted), (Capability::CHOWN, Capability::CHOWN));
        assert!(outcome.secure && outcome.raised && outcome.ids == USER);
        let outcome = self::outcome(&USER, &users(), gives(false, Capability::CHOWN), TRUSTED).unwrap();
        assert_eq!(
            (outcome.sets.effective, outcome.sets.permitted),
            (Capability::empty(), Capability::CHOWN)
        );
        let refusal = Refusal { no_new_privileges: true, ..TRUSTED };
        let outcome = self::outcome(&USER, &users(), gives(true, Capability::CHOWN), refusal).unwrap();
        assert!(outcome.sets.permitted.is_empty() && outcome.sets.effective.is_empty());
    }

    #[test]
    fn a_file_does_not_run_without_what_it_counts_on() {
        let bounded = Sets { bounding: Capability::KILL, ..Sets::default() };
        assert!(outcome(&USER, &bounded, gives(true, Capability::CHOWN), TRUSTED).is_err());
        let outcome = outcome(&USER, &bounded, gives(false, Capability::CHOWN), TRUSTED).unwrap();
        assert!(outcome.sets.permitted.is_empty());
    }

    #[test]
    fn a_set_user_id_file_with_capabilities_gives_a_user_these_alone() {
        let given = Given { user: Some(0), ..gives(true, Capability::CHOWN) };
        let outcome = outcome(&USER, &users(), given, TRUSTED).unwrap();
        assert_eq!((outcome.ids.euid, outcome.sets.effective), (0, Capability::CHOWN));
    }
}
