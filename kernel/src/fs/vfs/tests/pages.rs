//! Pages of files that can be read again, and which of them go.

use crate::fs::vfs::cache::inodes::InodeTable;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::operations::InodeOps;
use crate::testing::in_process;
use alloc::boxed::Box;
use alloc::sync::Arc;
use std::vec::Vec;
use vm::frame::{OwnedFrame, alloc_zeroed};
use vm::{Asked, Object, ObjectOwner, ObjectRef, Pager, VmError};

/// Each page is zero.
struct Zeros;

impl Pager for Zeros {
    fn read(&self, _: u64, count: usize, give: &mut dyn FnMut(OwnedFrame)) -> Result<Asked, VmError> {
        for _ in 0..count {
            give(alloc_zeroed().ok_or(VmError::NoMemory)?);
        }
        Ok(Asked::Read)
    }
}

struct Paged(ObjectOwner);

impl InodeOps for Paged {
    fn object(&self) -> Option<ObjectRef> {
        Some(self.0.share())
    }
}

const PAGES: u64 = 256;

fn file(table: &InodeTable, number: u64) -> Arc<Inode> {
    let new = NewInode { kind: Kind::Regular, mode: 0, uid: 0, gid: 0, rdev: 0 };
    let make = || {
        let object = Object::try_owned_paged(number as usize, PAGES * 4096, Box::new(Zeros), None)?;
        Inode::try_new(number, 0, &new, Box::new(Paged(object)))
    };
    table.get(number, make).unwrap()
}

fn read(file: &Inode) {
    let mut left = PAGES * 4096;
    let object = file.object().unwrap();
    object
        .read(0, left as usize, |bytes| {
            left -= bytes.len() as u64;
            bytes.len()
        })
        .unwrap();
    assert_eq!((left, object.resident_pages()), (0, PAGES));
}

#[test]
fn files_give_back_what_can_be_read_again_and_those_last_that_were_read() {
    in_process(|| {
        let table = InodeTable::try_new().unwrap();
        let files: Vec<_> = (1..=300).map(|number| file(&table, number * 7)).collect();
        files.iter().for_each(|file| read(file));
        let resident = || files.iter().map(|file| file.object().unwrap().resident_pages()).sum::<u64>();
        let all = 300 * PAGES;
        assert_eq!(resident(), all);
        // All of them are fresh at first.
        let given = table.shed(10);
        assert_eq!((given, resident()), (64, all - 64));
        let given = table.shed(3 * PAGES);
        assert!((3 * PAGES..4 * PAGES).contains(&given));
        assert_eq!(resident(), all - 64 - given);
        // Who is read again keeps its pages while others have some.
        let kept = files.iter().find(|file| file.object().unwrap().resident_pages() == PAGES).unwrap();
        kept.object().unwrap().replace(PAGES * 4096).unwrap();
        read(kept);
        let rest = resident();
        assert_eq!(table.shed(rest - PAGES), rest - PAGES);
        assert_eq!((resident(), kept.object().unwrap().resident_pages()), (PAGES, PAGES));
        assert_eq!((table.shed(u64::MAX), resident(), table.shed(1)), (PAGES, 0, 0));
    });
}
