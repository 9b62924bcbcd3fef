//! Directories of many names, and deep ones: what order, table and the end of a file system make of them.

use super::super::inode::NewInode;
use super::*;
use crate::fs::tmpfs;
use crate::testing::{in_process, until};
use std::format;

/// More than three arrays of the order, and tables that are emptied name by name.
const NAMES: usize = 6000;

fn new_tmpfs() -> Arc<SuperBlock> {
    let root = NewInode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
    tmpfs::instance(&tmpfs::TMPFS, &root).unwrap()
}

#[test]
fn many_names_are_listed_in_order_however_many_go() {
    in_process(|| {
        let _root = enter(&new_tmpfs());
        let mut there: Vec<String> = (0..NAMES).map(|n| format!("{n}")).collect();
        there.iter().for_each(|name| create(name).unwrap());
        assert_eq!(list(".").unwrap(), there);
        // Every third, then all of the first arrays, then all but few of the rest, with new ones between.
        let goes: [&dyn Fn(usize) -> bool; 4] =
            [&|i| i % 3 == 1, &|i| i < NAMES / 3, &|i| i % 200 != 7, &|_| true];
        for (turn, goes) in goes.into_iter().enumerate() {
            let (gone, left): (Vec<_>, Vec<_>) = there.iter().enumerate().partition(|(i, _)| goes(*i));
            for (_, name) in gone {
                unlink(name).unwrap();
                assert_eq!(number(name), Err(crate::errno::ENOENT));
            }
            there = left.into_iter().map(|(_, name)| name.clone()).collect();
            assert_eq!(list(".").unwrap(), there);
            for n in 0..700 {
                there.push(format!("new{turn}-{n}"));
                create(there.last().unwrap()).unwrap();
            }
            assert_eq!(list(".").unwrap(), there);
        }
        for name in &there {
            assert!(number(name).is_ok());
        }
    });
}

#[test]
fn a_file_system_that_goes_takes_all_its_names_with_it() {
    in_process(|| {
        let superblock = new_tmpfs();
        let root = enter(&superblock);
        let mut path = String::from("d");
        for _ in 0..300 {
            mkdir(&path).unwrap();
            path += "/d";
        }
        (0..1000).for_each(|n| create(&format!("d/d/{n}")).unwrap());
        let of = |path: &str| Arc::downgrade(&find(path).unwrap().dentry.inode);
        let kept = [of("d"), of("d/d/0"), of("d/d/999"), of(path.trim_end_matches("/d"))];
        assert!(kept.iter().all(|inode| inode.strong_count() > 0));
        let _other = enter(&new_tmpfs());
        drop((root, superblock));
        until(|| kept.iter().all(|inode| inode.strong_count() == 0));
    });
}
