//! Capabilities of a thread: the parts that the superuser's power is divided into (capabilities(7)).
//!
//! A thread has five sets of them. What the kernel asks for is in the *effective* one. What holds of them, here called by name:
//!
//! * EffectiveIsPermitted   a thread uses only what it is permitted
//! * AmbientIsBoth          an ambient capability is both permitted and inheritable
//!
//! `Sets` is changed by the functions of this file alone, each of which keeps both.
#![forbid(unsafe_code)]

use super::Ids;
use crate::errno::{Errno, Result};

bitflags::bitflags! {
    /// A set of capabilities, a bit each, as Linux numbers them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Capability: u64 {
        const CHOWN = 1 << 0;
        const DAC_OVERRIDE = 1 << 1;
        const DAC_READ_SEARCH = 1 << 2;
        const FOWNER = 1 << 3;
        const FSETID = 1 << 4;
        const KILL = 1 << 5;
        const SETGID = 1 << 6;
        const SETUID = 1 << 7;
        const SETPCAP = 1 << 8;
        const LINUX_IMMUTABLE = 1 << 9;
        const NET_ADMIN = 1 << 12;
        const NET_RAW = 1 << 13;
        const IPC_LOCK = 1 << 14;
        const IPC_OWNER = 1 << 15;
        const SYS_RAWIO = 1 << 17;
        const SYS_CHROOT = 1 << 18;
        const SYS_PTRACE = 1 << 19;
        const SYS_ADMIN = 1 << 21;
        const SYS_BOOT = 1 << 22;
        const SYS_NICE = 1 << 23;
        const SYS_RESOURCE = 1 << 24;
        const SYS_TIME = 1 << 25;
        const SYS_TTY_CONFIG = 1 << 26;
        const MKNOD = 1 << 27;
        const LEASE = 1 << 28;
        const AUDIT_CONTROL = 1 << 30;
        const SETFCAP = 1 << 31;
        const MAC_OVERRIDE = 1 << 32;
        const SYSLOG = 1 << 34;
        const WAKE_ALARM = 1 << 35;
        const CHECKPOINT_RESTORE = 1 << 40;
        /// All that there are: Linux's last has number 40.
        const ALL = (1 << 41) - 1;
        /// What comes and goes with a file-system user id of 0.
        const FILES = Self::CHOWN.bits() | Self::DAC_OVERRIDE.bits() | Self::DAC_READ_SEARCH.bits() | Self::FOWNER.bits()
            | Self::FSETID.bits() | Self::LINUX_IMMUTABLE.bits() | Self::MKNOD.bits() | Self::MAC_OVERRIDE.bits();
    }
}

impl Capability {
    /// The one with this number.
    ///
    /// # Errors
    /// EINVAL: there is none.
    pub fn numbered(number: usize) -> Result<Self> {
        let bit = u32::try_from(number).ok().and_then(|n| 1u64.checked_shl(n)).ok_or(Errno::EINVAL)?;
        Self::from_bits(bit).filter(|_| bit & Self::ALL.bits() != 0).ok_or(Errno::EINVAL)
    }
}

bitflags::bitflags! {
    /// What user id 0 means for capabilities (PR_SET_SECUREBITS). A `LOCKED` bit fixes the one before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct SecureBits: u32 {
        /// A program gets none because its user is 0.
        const NO_ROOT = 1 << 0;
        const NO_ROOT_LOCKED = 1 << 1;
        /// A change of ids leaves the sets as they are.
        const NO_SETUID_FIXUP = 1 << 2;
        const NO_SETUID_FIXUP_LOCKED = 1 << 3;
        /// What is permitted stays when no id is 0 any more. Gone after exec.
        const KEEP = 1 << 4;
        const KEEP_LOCKED = 1 << 5;
        const NO_AMBIENT_RAISE = 1 << 6;
        const NO_AMBIENT_RAISE_LOCKED = 1 << 7;
        const LOCKS = 0xaa;
    }
}

/// The sets of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sets {
    pub effective: Capability,
    pub permitted: Capability,
    pub inheritable: Capability,
    /// What a program file can give at most.
    pub bounding: Capability,
    /// What a program keeps that no file gives anything.
    pub ambient: Capability,
    pub secure: SecureBits,
}

impl Sets {
    /// The first process's.
    pub fn root() -> Self {
        Self {
            effective: Capability::ALL,
            permitted: Capability::ALL,
            bounding: Capability::ALL,
            ..Self::default()
        }
    }

    /// The thread goes from `old` ids to `new` by setuid, setreuid or setresuid.
    pub fn follow_user_ids(&mut self, old: &Ids, new: &Ids) {
        if self.secure.contains(SecureBits::NO_SETUID_FIXUP) {
            return;
        }
        let any_root = |ids: &Ids| ids.uid == 0 || ids.euid == 0 || ids.suid == 0;
        if any_root(old) && !any_root(new) {
            if !self.secure.contains(SecureBits::KEEP) {
                self.permitted = Capability::empty();
                self.effective = Capability::empty();
            }
            self.ambient = Capability::empty();
        }
        match (old.euid, new.euid) {
            (0, 0) => {}
            (0, _) => self.effective = Capability::empty(),
            (_, 0) => self.effective = self.permitted,
            _ => {}
        }
    }

    /// The file-system user id changes: the capabilities for files leave with 0 and come back with it.
    pub fn follow_fs_user_id(&mut self, old: u32, new: u32) {
        if self.secure.contains(SecureBits::NO_SETUID_FIXUP) {
            return;
        }
        if old == 0 && new != 0 {
            self.effective.remove(Capability::FILES);
        } else if old != 0 && new == 0 {
            self.effective |= Capability::FILES & self.permitted;
        }
    }

    /// capset(2).
    ///
    /// # Errors
    /// EPERM.
    pub fn set(&mut self, effective: Capability, permitted: Capability, inheritable: Capability) -> Result {
        let [effective, permitted, inheritable] =
            [effective, permitted, inheritable].map(|set| set & Capability::ALL);
        let unlimited = self.effective.contains(Capability::SETPCAP);
        if (!unlimited && !(self.inheritable | self.permitted).contains(inheritable))
            || !(self.inheritable | self.bounding).contains(inheritable)
            || !self.permitted.contains(permitted)
            || !permitted.contains(effective)
        {
            return Err(Errno::EPERM);
        }
        (self.effective, self.permitted, self.inheritable) = (effective, permitted, inheritable);
        self.ambient &= permitted & inheritable;
        Ok(())
    }

    /// PR_CAP_AMBIENT_RAISE.
    ///
    /// # Errors
    /// EPERM.
    pub fn raise_ambient(&mut self, what: Capability) -> Result {
        if !(self.permitted & self.inheritable).contains(what)
            || self.secure.contains(SecureBits::NO_AMBIENT_RAISE)
        {
            return Err(Errno::EPERM);
        }
        self.ambient |= what;
        Ok(())
    }

    /// PR_SET_SECUREBITS.
    ///
    /// # Errors
    /// EPERM: a locked bit or a lock would change, a bit is unknown, or CAP_SETPCAP is missing.
    pub fn set_secure_bits(&mut self, bits: usize) -> Result {
        let new = u32::try_from(bits).ok().and_then(SecureBits::from_bits).ok_or(Errno::EPERM)?;
        let locks = self.secure & SecureBits::LOCKS;
        let locked = SecureBits::from_bits_retain(locks.bits() >> 1);
        if (self.secure ^ new).intersects(locked)
            || !new.contains(locks)
            || !self.effective.contains(Capability::SETPCAP)
        {
            return Err(Errno::EPERM);
        }
        self.secure = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: u32) -> Ids {
        Ids { uid: id, euid: id, suid: id, fsuid: id, ..Ids::default() }
    }

    fn holds(sets: &Sets) -> bool {
        sets.permitted.contains(sets.effective) && (sets.permitted & sets.inheritable).contains(sets.ambient)
    }

    #[test]
    fn a_number_names_one_capability_up_to_the_last() {
        assert_eq!(Capability::numbered(0), Ok(Capability::CHOWN));
        assert_eq!(Capability::numbered(21), Ok(Capability::SYS_ADMIN));
        assert_eq!(Capability::numbered(40).map(|c| c.bits()), Ok(1 << 40));
        for number in [41, 63, 64, 1 << 32, usize::MAX] {
            assert_eq!(Capability::numbered(number), Err(Errno::EINVAL), "{number}");
        }
        // Numbers that no code here asks for exist as well.
        assert_eq!((0..64).filter(|n| Capability::numbered(*n).is_ok()).count(), 41);
    }

    #[test]
    fn leaving_user_0_empties_the_sets() {
        let mut sets = Sets::root();
        sets.follow_user_ids(&user(0), &user(1000));
        assert!(sets.permitted.is_empty() && sets.effective.is_empty());
        assert_eq!(sets.bounding, Capability::ALL);
    }

    #[test]
    fn a_saved_user_0_keeps_what_is_permitted() {
        let mut sets = Sets::root();
        let effective = Ids { euid: 1000, fsuid: 1000, ..user(0) };
        sets.follow_user_ids(&user(0), &effective);
        assert!(sets.effective.is_empty() && sets.permitted == Capability::ALL);
        sets.follow_user_ids(&effective, &user(0));
        assert_eq!(sets.effective, Capability::ALL);
    }

    #[test]
    fn keep_keeps_what_is_permitted_and_no_fixup_keeps_all() {
        let mut sets = Sets { secure: SecureBits::KEEP, ..Sets::root() };
        sets.follow_user_ids(&user(0), &user(1000));
        assert!(sets.effective.is_empty() && sets.permitted == Capability::ALL);
        let mut sets = Sets { secure: SecureBits::NO_SETUID_FIXUP, ..Sets::root() };
        sets.follow_user_ids(&user(0), &user(1000));
        assert_eq!(sets.effective, Capability::ALL);
    }

    #[test]
    fn the_user_id_for_files_takes_only_theirs() {
        let mut sets = Sets::root();
        sets.follow_fs_user_id(0, 1000);
        assert_eq!(sets.effective, Capability::ALL - Capability::FILES);
        sets.follow_fs_user_id(1000, 0);
        assert_eq!(sets.effective, Capability::ALL);
    }

    #[test]
    fn capset_gives_nothing_that_was_not_permitted() {
        let (none, chown, kill) = (Capability::empty(), Capability::CHOWN, Capability::KILL);
        let mut sets =
            Sets { permitted: chown, effective: chown, bounding: Capability::ALL, ..Sets::default() };
        assert!(sets.set(none, chown | kill, none).is_err());
        assert!(sets.set(kill, chown, none).is_err());
        // Without CAP_SETPCAP only what is permitted becomes inheritable.
        assert!(sets.set(chown, chown, kill).is_err());
        assert!(sets.set(chown, chown, chown).is_ok() && sets.raise_ambient(chown).is_ok());
        assert!(sets.raise_ambient(kill).is_err() && holds(&sets));
        assert!(sets.set(none, none, chown).is_ok() && sets.ambient.is_empty() && holds(&sets));
    }

    #[test]
    fn a_lock_fixes_its_bit_and_itself() {
        let mut sets = Sets::root();
        let locked = SecureBits::NO_ROOT | SecureBits::NO_ROOT_LOCKED;
        assert!(sets.set_secure_bits(locked.bits() as usize).is_ok());
        for bits in [0, 1, 2, 0x100 | 3, 1 << 32 | 3] {
            assert!(sets.set_secure_bits(bits).is_err(), "{bits:#x}");
        }
        assert!(sets.set_secure_bits(0xff).is_ok());
        sets.effective = Capability::empty();
        assert!(sets.set_secure_bits(0xff).is_err());
    }
}
