//! How many messages it takes: names, attributes, listings, programs, extended attributes.

use std::boxed::Box;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::server::{Bytes, Fake, File, ROOT, pattern};
use super::{NINEP, Options, contents, list, look, make, mount, root};
use crate::errno::*;
use crate::fs::ninep::inode::node_of;
use crate::fs::ninep::message::Ask;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::operations::Validity;
use crate::fs::vfs::xattr;
use crate::testing::in_process;

/// What the server is asked while `f` runs, but for the ends of fids: the client's thread tells of these when it comes to it.
fn asked<R>(fake: &Fake, f: impl FnOnce() -> R) -> (R, Vec<Ask>) {
    fake.lock().asked.clear();
    let result = f();
    let kinds = [
        Ask::Open,
        Ask::Attributes,
        Ask::XattrWalk,
        Ask::ReadDir,
        Ask::Walk,
        Ask::Read,
        Ask::ReadLink,
        Ask::Write,
        Ask::Create,
        Ask::SetAttributes,
    ];
    let told = fake.lock().asked.clone();
    let asked = told
        .iter()
        .filter(|n| **n != Ask::Clunk as u8)
        .map(|n| *kinds.iter().find(|kind| **kind as u8 == *n).unwrap())
        .collect();
    (result, asked)
}

fn expire(inodes: &[&Inode]) {
    inodes.iter().for_each(|inode| node_of(inode).unwrap().expire());
}

#[test]
fn a_name_that_is_known_costs_one_message_and_its_directory_one_for_all() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let (file, walked) = asked(&fake, || look(&root, b"file").unwrap());
        assert_eq!(walked, [Ask::Walk, Ask::Attributes]);
        let link = look(&root, b"link").unwrap();
        let again = |name, inode: &Arc<Inode>| root.ops.revalidate(&root, name, Some(inode));
        expire(&[&root, &file, &link]);
        let (both, cost) = asked(&fake, || (again(b"file", &file), again(b"link", &link)));
        assert_eq!(both, (Ok(Validity::Valid), Ok(Validity::Valid)));
        assert_eq!(cost, [Ask::Attributes; 3], "the directory's, and one each");
        // stat, a second later.
        expire(&[&file]);
        assert_eq!(asked(&fake, || file.refresh()), (Ok(()), vec![Ask::Attributes]));
        assert_eq!(asked(&fake, || file.refresh()), (Ok(()), vec![]));
        // By its other name it is walked to; then both are known.
        assert_eq!(asked(&fake, || again(b"again", &file)).1, [Ask::Walk, Ask::Attributes]);
        assert_eq!(asked(&fake, || again(b"again", &file)).1, [Ask::Attributes]);
        assert_eq!(asked(&fake, || again(b"file", &file)).1, [Ask::Attributes]);
    });
}

#[test]
fn a_name_of_a_directory_that_has_changed_is_walked_to() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let file = look(&root, b"file").unwrap();
        // The file has another name by now, and its fid leads to it yet.
        {
            let mut state = fake.lock();
            let dir = state.files.get_mut(&ROOT).unwrap();
            dir.names[2].0 = b"moved".to_vec();
            dir.version += 1;
        }
        expire(&[&root, &file]);
        assert_eq!(root.ops.revalidate(&root, b"file", Some(&file)), Ok(Validity::Stale));
    });
}

#[test]
fn a_directory_that_is_listed_again_costs_nothing() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let (first, cost) = asked(&fake, || list(&root).unwrap());
        assert_eq!(cost, [Ask::Walk, Ask::Open, Ask::ReadDir, Ask::ReadDir]);
        assert_eq!(asked(&fake, || list(&root).unwrap()), (first.clone(), vec![]));
        // It has another name: seen when its attributes are.
        {
            let mut state = fake.lock();
            let dir = state.files.get_mut(&ROOT).unwrap();
            dir.names.push((b"new".to_vec(), 9));
            dir.version += 1;
        }
        assert_eq!(list(&root).unwrap(), first);
        expire(&[&root]);
        root.refresh().unwrap();
        let (second, cost) = asked(&fake, || list(&root).unwrap());
        assert_eq!((second.len(), cost.len()), (first.len() + 1, 2));
    });
}

/// A directory of so many names.
fn many(fake: &Fake, count: u64) {
    let mut state = fake.lock();
    for n in 0..count {
        let name = std::format!("name-{n:06}").into_bytes();
        state.files.get_mut(&10).unwrap().names.push((name, 100 + n));
        state.files.insert(100 + n, File { mode: 0o100_644, ..File::default() });
    }
}

/// Names by calls that take so many each.
fn list_by(dir: &Inode, most: usize) -> Vec<Bytes> {
    let (mut all, mut position) = (Vec::new(), 2);
    loop {
        let before = all.len();
        dir.ops
            .read_dir(dir, position, &mut |entry| {
                if all.len() - before == most {
                    return false;
                }
                (all, position) = {
                    let mut all = core::mem::take(&mut all);
                    all.push(entry.name.to_vec());
                    (all, entry.next)
                };
                true
            })
            .unwrap();
        if all.len() == before {
            return all;
        }
    }
}

#[test]
fn who_lists_a_large_directory_in_parts_gets_each_name_once_with_a_listing_and_without() {
    in_process(|| {
        let fake = Fake::new();
        many(&fake, 5000);
        let superblock = mount(&fake).unwrap();
        let dir = look(&root(&superblock), b"dir").unwrap();
        let (names, cost) = asked(&fake, || list_by(&dir, 300));
        let wanted: Vec<Bytes> = (0..5000).map(|n| std::format!("name-{n:06}").into_bytes()).collect();
        assert!(names == wanted);
        let parts = cost.iter().filter(|kind| **kind == Ask::ReadDir).count();
        assert!(parts < 9, "{parts} messages");
        for most in [1, 77, 5000, usize::MAX] {
            let (again, cost) = asked(&fake, || list_by(&dir, most));
            assert!(again == wanted && cost.is_empty(), "{most} at a time");
        }
        // In the midst of it the listing goes.
        let (mut names, mut position) = (Vec::new(), 2);
        for most in [1000, usize::MAX] {
            let mut left = most;
            dir.ops
                .read_dir(&dir, position, &mut |entry| {
                    names.push(entry.name.to_vec());
                    position = entry.next;
                    left -= 1;
                    left > 0
                })
                .unwrap();
            node_of(&dir).unwrap().forget_names();
            // The entry at which it stopped was not taken.
            if most == 1000 {
                position = 2 + 1000;
                names.truncate(1000);
            }
        }
        assert!(names.len() >= 4998, "{}", names.len());
    });
}

#[test]
fn many_list_one_directory_at_once() {
    in_process(|| {
        let fake = Fake::new();
        many(&fake, 3000);
        let superblock = mount(&fake).unwrap();
        let dir = look(&root(&superblock), b"dir").unwrap();
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let dir = dir.clone();
                crate::testing::thread(move || {
                    for turn in 0..10 {
                        assert_eq!(list_by(&dir, 100 + n * 37).len(), 3000);
                        if turn % 3 == n % 3 {
                            node_of(&dir).unwrap().forget_names();
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(crate::testing::Joining::join);
    });
}

#[test]
fn what_is_never_to_change_is_asked_for_once() {
    in_process(|| {
        let fake = Fake::new();
        let options = Options::parse(b"cache=loose").unwrap();
        let superblock = make(&NINEP, options, Box::new(fake.clone())).unwrap();
        let root = root(&superblock);
        let file = look(&root, b"file").unwrap();
        let run = || {
            file.refresh().unwrap();
            assert_eq!(xattr::file_capabilities(&file), Ok(None));
            assert!(contents(&file).unwrap() == pattern(100_001, 1));
            list(&root).unwrap();
        };
        run();
        assert_eq!(asked(&fake, run).1, []);
    });
}

#[test]
fn extended_attributes_are_read_and_kept_for_a_while() {
    in_process(|| {
        let fake = Fake::new();
        let capability = [&[1, 0, 0, 2, 1][..], &[0; 15]].concat();
        let long = pattern(60_000, 3);
        {
            let mut state = fake.lock();
            let file = state.files.get_mut(&8).unwrap();
            for (name, value) in [
                (&b"user.a"[..], &b"value"[..]),
                (b"trusted.t", b""),
                (b"security.capability", &capability),
                (b"system.posix_acl_access", b"x"),
                (b"user.long", &long),
            ] {
                file.xattrs.push((name.to_vec(), value.to_vec()));
            }
        }
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let file = look(&root, b"file").unwrap();
        let get = |name: &[u8]| {
            let mut value = Vec::new();
            file.ops.get_xattr(&file, name, &mut value).map(|()| value)
        };
        let (value, cost) = asked(&fake, || get(b"user.a"));
        assert_eq!((value, cost), (Ok(b"value".to_vec()), vec![Ask::XattrWalk, Ask::Read]));
        assert_eq!(asked(&fake, || get(b"user.a")), (Ok(b"value".to_vec()), vec![]));
        assert_eq!(get(b"trusted.t"), Ok(vec![]));
        assert!(get(b"user.long").unwrap() == long);
        assert_eq!(asked(&fake, || get(b"user.none")), (Err(ENODATA), vec![Ask::XattrWalk]));
        assert_eq!(asked(&fake, || get(b"user.none")), (Err(ENODATA), vec![]));
        for (name, error) in [(&b"system.x"[..], EOPNOTSUPP), (b"other", EOPNOTSUPP), (b"user.", EINVAL)] {
            assert_eq!(asked(&fake, || get(name)), (Err(error), vec![]));
        }
        let gives = xattr::file_capabilities(&file).unwrap().unwrap();
        assert_eq!(gives.permitted(), crate::fs::caller::Capability::CHOWN);
        let list = |all| {
            let mut names = Vec::new();
            let len = file.ops.list_xattr(&file, all, &mut names).unwrap();
            assert_eq!(len, names.len());
            names
        };
        assert_eq!(list(true), b"user.a\0trusted.t\0security.capability\0user.long\0");
        assert_eq!(list(false), b"user.a\0security.capability\0user.long\0");
        assert_eq!(get(b"user.a"), Ok(b"value".to_vec()));
        // They are others, and the file's change time tells it.
        {
            let mut state = fake.lock();
            let changed = state.files.get_mut(&8).unwrap();
            changed.xattrs[0].1 = b"other".to_vec();
            changed.times[2].1 += 1;
        }
        assert_eq!(get(b"user.a"), Ok(b"value".to_vec()));
        expire(&[&file]);
        assert_eq!(get(b"user.a"), Ok(b"other".to_vec()));
    });
}

#[test]
fn a_server_that_has_no_attributes_is_asked_once() {
    in_process(|| {
        let fake = Fake::new();
        fake.lock().lie = Some(Box::new(|kind, said| {
            if kind == Ask::XattrWalk as u8 {
                // Rlerror.
                said.truncate(7);
                said[4] = 7;
                said.extend((EOPNOTSUPP.0 as u32).to_le_bytes());
                let size = (said.len() as u32).to_le_bytes();
                said[..4].copy_from_slice(&size);
            }
        }));
        let superblock = mount(&fake).unwrap();
        let file = look(&root(&superblock), b"file").unwrap();
        let get = || file.ops.get_xattr(&file, b"security.selinux", &mut Vec::new());
        assert_eq!(asked(&fake, get), (Err(EOPNOTSUPP), vec![Ask::XattrWalk]));
        assert_eq!(asked(&fake, get), (Err(EOPNOTSUPP), vec![]));
        let list = || file.ops.list_xattr(&file, true, &mut Vec::new());
        assert_eq!(asked(&fake, list), (Err(EOPNOTSUPP), vec![Ask::XattrWalk]));
        assert_eq!(asked(&fake, list), (Err(EOPNOTSUPP), vec![]));
    });
}

#[test]
fn a_list_or_a_value_that_cannot_be_is_an_error() {
    in_process(|| {
        for (names, error) in [(&b"\0"[..], EIO), (b"user.a\0\0", EIO), (b"user.a", EIO)] {
            let fake = Fake::new();
            // The fake's list has a NUL behind each.
            let bytes = names.to_vec();
            fake.lock().lie = Some(Box::new(move |kind, said| {
                if kind == Ask::XattrWalk as u8 {
                    said.truncate(7);
                    said.extend((bytes.len() as u64).to_le_bytes());
                } else if kind == Ask::Read as u8 {
                    said.truncate(7);
                    said.extend((bytes.len() as u32).to_le_bytes());
                    said.extend(&bytes);
                }
                let size = (said.len() as u32).to_le_bytes();
                said[..4].copy_from_slice(&size);
            }));
            let superblock = mount(&fake).unwrap();
            let file = look(&root(&superblock), b"file").unwrap();
            assert_eq!(file.ops.list_xattr(&file, true, &mut Vec::new()).err(), Some(error), "{names:?}");
        }
        let fake = Fake::new();
        fake.lock().lie = Some(Box::new(|kind, said| {
            if kind == Ask::XattrWalk as u8 {
                said[7..15].fill(0xff);
            }
        }));
        let superblock = mount(&fake).unwrap();
        let file = look(&root(&superblock), b"file").unwrap();
        assert_eq!(file.ops.list_xattr(&file, true, &mut Vec::new()).err(), Some(E2BIG));
    });
}
