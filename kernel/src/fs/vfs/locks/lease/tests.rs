//! What a lease becomes by what its holder and others do, with holders that count how often they are told.

use super::*;
use crate::fs::vfs::inode::{Kind, NewInode};
use crate::fs::vfs::locks::Cursor;
use crate::fs::vfs::operations::Plain;
use crate::testing::{in_process, is_asleep, thread, until};
use core::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The settings and the list are of all files. Taken outside the machine: a CPU that waited for it would let no grace period end.
static SETTINGS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Told {
    broken: AtomicU32,
    ended: AtomicU32,
}

impl Told {
    fn counts(&self) -> (u32, u32) {
        (self.broken.load(SeqCst), self.ended.load(SeqCst))
    }
}

impl Holder for Told {
    fn broken(&self) {
        self.broken.fetch_add(1, SeqCst);
    }

    fn ended(&self) {
        self.ended.fetch_add(1, SeqCst);
    }
}

/// An open file of the one inode.
struct Open {
    inode: Arc<Inode>,
    file: Owner,
    told: Arc<Told>,
}

impl Open {
    fn new(inode: &Arc<Inode>, n: usize) -> Open {
        Open { inode: inode.clone(), file: Owner::of_open_file(n * 64), told: Arc::default() }
    }

    fn set_where(&self, exclusive: bool, is_open: bool) -> Result {
        let wanted = Wanted { inode: &self.inode, file: self.file, exclusive, holder: self.told.clone() };
        self.inode.locks.set_lease(wanted, &|_| is_open, || ())
    }

    fn set(&self, exclusive: bool) -> Result {
        self.set_where(exclusive, false)
    }

    fn end(&self) -> Result {
        self.inode.locks.end_lease(self.file)
    }

    fn get(&self) -> Option<bool> {
        self.inode.locks.lease(self.file)
    }
}

const READING: bool = false;
const WRITING: bool = true;

fn inode() -> Arc<Inode> {
    let new = NewInode { kind: Kind::Regular, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
    Inode::try_new(7, 1, &new, std::boxed::Box::new(Plain)).unwrap()
}

#[test]
fn a_lease_to_write_is_alone_and_leases_to_read_are_many() {
    let _alone = alone();
    in_process(|| {
        let inode = inode();
        let [a, b] = [1, 2].map(|n| Open::new(&inode, n));
        assert_eq!(a.end(), Err(EAGAIN));
        assert_eq!(a.set_where(true, true), Err(EAGAIN));
        assert!(!inode.locks.is_leased());
        assert_eq!((a.set(true), a.get()), (Ok(()), Some(true)));
        assert!(inode.locks.is_leased());
        assert_eq!((a.set(false), a.get()), (Ok(()), Some(false)));
        assert_eq!((b.set(true), b.set(false)), (Err(EAGAIN), Ok(())));
        assert_eq!(a.set(true), Err(EAGAIN));
        assert_eq!((a.end(), a.get(), a.end()), (Ok(()), None, Err(EAGAIN)));
        assert_eq!(b.set(true), Ok(()));
        inode.locks.release_file(b.file);
        assert!(!inode.locks.is_leased());
        assert_eq!((a.told.counts(), b.told.counts()), ((0, 1), (0, 1)));
    });
}

#[test]
fn who_opens_breaks_a_lease_and_its_holder_is_told_once_for_each_kind() {
    let _alone = alone();
    in_process(|| {
        let inode = inode();
        let (a, locks) = (Open::new(&inode, 1), &inode.locks);
        a.set(true).unwrap();
        for _ in 0..2 {
            assert_eq!(locks.break_leases(READING, false), Err(EAGAIN));
            assert_eq!((a.get(), a.told.counts()), (Some(false), (1, 0)));
        }
        for kind in [WRITING, READING] {
            assert_eq!(locks.break_leases(kind, false), Err(EAGAIN));
            assert_eq!((a.get(), a.told.counts()), (None, (2, 0)));
        }
        // It is weakened, and still to end.
        assert_eq!((a.set(false), a.get()), (Ok(()), None));
        assert_eq!(locks.break_leases(READING, false), Ok(()));
        assert_eq!(locks.break_leases(WRITING, false), Err(EAGAIN));
        // Nobody else gets one meanwhile.
        let b = Open::new(&inode, 2);
        assert_eq!(b.set(false), Err(EAGAIN));
        assert_eq!(a.end(), Ok(()));
        assert_eq!((locks.break_leases(WRITING, false), b.set(false)), (Ok(()), Ok(())));
        assert_eq!(locks.break_leases(READING, false), Ok(()));
        assert_eq!((a.told.counts(), b.told.counts()), ((2, 1), (0, 0)));
        b.end().unwrap();
    });
}

#[test]
fn who_waits_goes_on_when_the_last_lease_against_him_is_gone() {
    let _alone = alone();
    in_process(|| {
        let inode = inode();
        let files = [1, 2, 3].map(|n| Open::new(&inode, n));
        files.iter().for_each(|file| file.set(false).unwrap());
        let theirs = inode.clone();
        let writer = thread(move || theirs.locks.break_leases(WRITING, true));
        for file in &files {
            until(|| is_asleep(writer.tid) && file.told.counts() == (1, 0));
            file.end().unwrap();
        }
        assert_eq!(writer.join(), Ok(()));
        assert!(!inode.locks.is_leased());
    });
}

#[test]
fn what_is_not_given_up_in_time_is_taken() {
    let _alone = alone();
    in_process(|| {
        limits::LEASE_BREAK_TIME.set(1);
        let inode = inode();
        let a = Open::new(&inode, 1);
        a.set(true).unwrap();
        let began = arch::time::now();
        assert_eq!(inode.locks.break_leases(READING, true), Ok(()));
        assert!(arch::time::now() - began >= 1_000_000_000);
        assert_eq!((a.get(), a.told.counts()), (Some(false), (1, 0)));
        // As on Linux the time of the last break is not forgotten.
        assert_eq!((a.set(true), a.get()), (Ok(()), Some(false)));
        assert_eq!(inode.locks.break_leases(WRITING, true), Ok(()));
        assert_eq!((a.get(), a.told.counts()), (None, (2, 1)));
        limits::LEASE_BREAK_TIME.set(45);
    });
}

#[test]
fn where_leases_are_not_allowed_those_that_are_there_change_and_end() {
    let _alone = alone();
    in_process(|| {
        let inode = inode();
        let [a, b] = [1, 2].map(|n| Open::new(&inode, n));
        a.set(false).unwrap();
        limits::LEASES_ENABLE.set(0);
        assert_eq!((a.set(true), a.set(false), b.set(false)), (Ok(()), Ok(()), Err(EINVAL)));
        assert_eq!((a.end(), a.set(false)), (Ok(()), Err(EINVAL)));
        assert!(!inode.locks.is_leased());
        limits::LEASES_ENABLE.set(1);
    });
}

#[test]
fn each_lease_is_listed_until_it_is_gone() {
    let _alone = alone();
    in_process(|| {
        let inode = inode();
        let a = Open::new(&inode, 1);
        a.set(true).unwrap();
        let _ = inode.locks.break_leases(READING, false);
        let listed = || {
            let mut out = alloc::vec::Vec::new();
            let mut from = Cursor::FIRST;
            crate::fs::vfs::locks::tell_locks(&mut out, &mut from, usize::MAX).unwrap();
            let all = std::string::String::from_utf8(out).unwrap();
            // Other tests have locks, on other inodes.
            all.lines().filter(|line| line.contains(" 00:01:7 ")).collect::<std::string::String>()
        };
        let text = listed();
        assert!(text.contains(": LEASE  BREAKING  READ ") && text.ends_with(" 00:01:7 0 EOF"), "{text}");
        a.end().unwrap();
        assert_eq!(listed(), "");
    });
}
