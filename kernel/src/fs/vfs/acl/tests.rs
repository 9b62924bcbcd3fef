//! What lists say, and lists of inodes of a file system in memory.

use proptest::prelude::*;
use std::vec::Vec;

use super::kept::{self, Which};
use super::*;
use crate::errno::ENODATA;
use crate::fs::tmpfs;
use crate::fs::vfs::access::{self, EXEC, READ, WRITE};
use crate::fs::vfs::attributes::{self, Changes};
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::testing::in_process;
use alloc::sync::Arc;

/// From tag, permissions and id of each entry.
fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn list(entries: &[(u16, u16, u32)]) -> Acl {
    Acl::parse(&value(entries)).unwrap().unwrap()
}

const NONE: u32 = NOBODY;

#[test]
fn what_a_value_says() {
    let all = [(1, 6, NONE), (2, 4, 5), (4, 4, NONE), (8, 7, 7), (16, 5, NONE), (32, 0, NONE)];
    let acl = list(&all);
    assert_eq!(acl.check(), Ok(()));
    assert_eq!(acl.mode(), (0o650, true));
    let mut back = Vec::new();
    acl.append_to(&mut back).unwrap();
    assert_eq!((back.len(), back), (acl.size(), value(&all)));
    assert_eq!(list(&[(1, 6, 9), (4, 4, 9), (32, 0, 9)]).mode(), (0o640, false));
    assert_eq!(Acl::parse(&[]), Ok(None));
    assert_eq!(Acl::parse(&[2, 0, 0, 0]), Ok(None));
    assert_eq!(Acl::parse(&[2, 0, 0]), Err(EINVAL));
    assert_eq!(Acl::parse(&[3, 0, 0, 0, 9]), Err(EOPNOTSUPP));
    assert_eq!(Acl::parse(&[2, 0, 0, 0, 9]), Err(EINVAL));
    assert_eq!(Acl::parse(&value(&[(2, 6, NONE)])), Err(EINVAL));
    assert_eq!(Acl::parse(&value(&[(3, 6, 0)])), Err(EINVAL));
}

#[test]
fn what_is_made_has_no_more_than_the_list_and_the_mode_give() {
    let mut acl = list(&[(1, 7, NONE), (2, 7, 5), (4, 5, NONE), (16, 6, NONE), (32, 1, NONE)]);
    let mut mode = 0o4675;
    acl.limit_by(&mut mode).unwrap();
    assert_eq!(mode, 0o4661);
    assert_eq!(acl, list(&[(1, 6, NONE), (2, 7, 5), (4, 5, NONE), (16, 6, NONE), (32, 1, NONE)]));
    acl.follow_mode(0o741).unwrap();
    assert_eq!(acl, list(&[(1, 7, NONE), (2, 7, 5), (4, 5, NONE), (16, 4, NONE), (32, 1, NONE)]));
}

/// What posix_acl_valid of Linux accepts, as its text in acl(5) says it: one owner, one group and others; a mask at most, and if somebody is named.
fn is_valid(entries: &[(u16, u16, u32)]) -> bool {
    let count = |tag| entries.iter().filter(|entry| entry.0 == tag).count();
    let named = count(2) + count(8) > 0;
    entries.is_sorted_by_key(|entry| entry.0)
        && entries.iter().all(|entry| entry.1 <= 7)
        && (count(1), count(4), count(32)) == (1, 1, 1)
        && if named { count(16) == 1 } else { count(16) <= 1 }
}

proptest! {
    #[test]
    fn anything_is_refused_or_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..40), is_list: bool) {
        let mut bytes = bytes;
        if is_list {
            bytes.resize(bytes.len().max(4), 0);
            bytes[..4].copy_from_slice(&[2, 0, 0, 0]);
            bytes.iter_mut().skip(5).step_by(8).for_each(|byte| *byte = 0);
        }
        if let Ok(Some(acl)) = Acl::parse(&bytes) {
            let mut back = Vec::new();
            acl.append_to(&mut back).unwrap();
            prop_assert_eq!(Acl::parse(&back), Ok(Some(acl)));
        }
    }

    #[test]
    fn lists_are_valid_in_their_order_alone(entries in proptest::collection::vec(
        (proptest::sample::select(&[1u16, 2, 4, 8, 16, 32][..]), 0u16..9, 0u32..3), 1..8), sorted: bool) {
        let mut entries = entries;
        if sorted {
            entries.sort_by_key(|entry| entry.0);
        }
        prop_assert_eq!(list(&entries).check().is_ok(), is_valid(&entries));
    }

    /// Without the override of capabilities, a list that says no more than the mode decides as the mode does.
    #[test]
    fn a_list_without_names_decides_as_a_mode(mode in 0u32..0o1000, want in 1u32..8, uid in 3u32..6, gid in 3u32..6) {
        let bits = |shift: u32| (mode >> shift & 7) as u16;
        let acl = list(&[(1, bits(6), NONE), (4, bits(3), NONE), (32, bits(0), NONE)]);
        let decided = in_process(move || {
            let inode = inode(Kind::Regular, mode);
            (access::check(&inode, &Cred::of(uid, gid), want).is_ok(), acl.permits(&inode, &Cred::of(uid, gid), want))
        });
        prop_assert_eq!(decided.0, decided.1);
    }
}

fn inode(kind: Kind, mode: u32) -> Arc<Inode> {
    tmpfs::inode(1, &NewInode { kind, mode, uid: 3, gid: 4, rdev: 0 }, &[], None).unwrap()
}

fn shown(inode: &Inode, which: Which) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    kept::get(inode, which, &mut out).map(|()| out)
}

#[test]
fn an_inode_s_list_and_its_mode_follow_each_other() {
    in_process(|| {
        let file = inode(Kind::Regular, 0o640);
        let named = [(1, 6, NONE), (2, 6, 5), (4, 4, NONE), (16, 7, NONE), (32, 0, NONE)];
        kept::set(&file, Which::Access, Some(list(&named))).unwrap();
        assert_eq!((file.mode(), shown(&file, Which::Access)), (0o670, Ok(value(&named))));
        let may = |uid, want| access::check(&file, &Cred::of(uid, 9), want).is_ok();
        assert!(may(5, READ | WRITE) && !may(5, EXEC) && !may(6, READ) && may(3, READ));
        attributes::change(&file, &Changes { mode: Some(0o640), ..Changes::default() }).unwrap();
        assert!(may(5, READ) && !may(5, WRITE), "the mask");
        // Without the group's bits the list is not asked.
        kept::set(&file, Which::Access, Some(list(&[(1, 6, NONE), (4, 0, NONE), (32, 4, NONE)]))).unwrap();
        assert_eq!((file.mode(), shown(&file, Which::Access)), (0o604, Err(ENODATA)));
        assert!(file.acls.is_empty());
    });
}

#[test]
fn what_a_directory_hands_on_is_its_own() {
    in_process(|| {
        let dir = inode(Kind::Directory, 0o755);
        let default = [(1, 7, NONE), (2, 5, 5), (4, 5, NONE), (16, 5, NONE), (32, 0, NONE)];
        kept::set(&dir, Which::Default, Some(list(&default))).unwrap();
        let mut mode = 0o777;
        let ready = kept::inherited(&dir, Kind::Directory, &mut mode, 0o077).unwrap().unwrap();
        assert_eq!(mode, 0o750);
        let below = inode(Kind::Directory, mode);
        below.acls.put(ready);
        kept::set(&dir, Which::Default, None).unwrap();
        assert!(dir.acls.is_empty());
        assert_eq!(
            (shown(&below, Which::Default), shown(&below, Which::Access)),
            (Ok(value(&default)), Ok(value(&default)))
        );
        let mut mode = 0o777;
        assert!(kept::inherited(&dir, Kind::Directory, &mut mode, 0o077).unwrap().is_none());
        assert_eq!(mode, 0o700);
    });
}
