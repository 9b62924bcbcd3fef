//! An overlay over the tests' file system: what becomes its own, when, and what follows what lies below.

use super::super::access::Cred;
use super::super::attributes::{self, Changes};
use super::super::inode::Inode;
use super::super::operations::XattrMode;
use super::super::rename::EXCHANGE;
use super::super::xattr;
use super::testfs::FILL;
use super::tree::ROOT;
use super::*;
use crate::errno::*;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::{OpenFlags, truncate};
use crate::fs::overlay;
use crate::testing::in_process;
use std::vec;

/// `file` of 10,000 bytes, which has the name `other` too, and `dir/inner`, below an overlay that is the root.
struct Above {
    below: World,
    superblock: Arc<SuperBlock>,
}

fn world() -> Above {
    let below = World::new(Cache::Revalidated);
    create("file").unwrap();
    link("file", "other").unwrap();
    mkdir("dir").unwrap();
    create("dir/inner").unwrap();
    below.fs.elsewhere(|tree| {
        let dir = tree.find(ROOT, b"dir").unwrap();
        for (number, size) in [(tree.find(ROOT, b"file"), 10_000), (tree.find(dir, b"inner"), 9000)] {
            tree.at(number.unwrap()).unwrap().size = size;
        }
    });
    let superblock = overlay::over(&below.superblock).unwrap();
    enter(&superblock);
    below.fs.forget_calls();
    Above { below, superblock }
}

fn inode(path: &str) -> Arc<Inode> {
    find(path).unwrap().dentry.inode.clone()
}

fn bytes(path: &str) -> Vec<u8> {
    let object = inode(path).object().unwrap();
    let mut out = Vec::new();
    object
        .read(0, usize::MAX >> 1, |bytes| {
            let mut piece = vec![0; bytes.len()];
            bytes.copy_to(&mut piece);
            out.extend(piece);
            bytes.len()
        })
        .unwrap();
    out
}

fn write(path: &str, at: u64, text: &[u8]) {
    let file = open(path, OpenFlags::READ_WRITE).unwrap();
    let object = file.inode().object().unwrap();
    object.write(at, text.len(), |mut to| to.copy_from(text.into())).unwrap();
    file.inode().touch_modified();
}

fn chmod(path: &str, mode: u32) -> Result {
    attributes::change(&inode(path), &Changes { mode: Some(mode), ..Changes::default() })
}

#[test]
fn what_is_opened_for_writing_becomes_its_own_whole_with_all_its_names() {
    in_process(|| {
        let above = world();
        let fs = &above.below.fs;
        assert_eq!((bytes("file").len(), fs.calls("read", "")), (10_000, 1));
        drop(open("file", OpenFlags::empty()).unwrap());
        assert!(inode("file").object().unwrap().is_paged());
        write("other", 5000, b"hello");
        assert!(!inode("file").object().unwrap().is_paged());
        let all = bytes("file");
        assert_eq!((&all[5000..5005], all[4999], all[5005], all.len()), (&b"hello"[..], FILL, FILL, 10_000));
        assert_eq!(number("file"), number("other"));
        // What happens below is not seen any more, not even that it is gone there.
        fs.elsewhere(|tree| tree.remove(ROOT, b"other").unwrap());
        above.superblock.names.as_deref().unwrap().shrink(100);
        assert_eq!(bytes("other")[5000..5005], *b"hello");
    });
}

#[test]
fn what_is_cut_to_nothing_takes_nothing_from_below() {
    in_process(|| {
        let above = world();
        let file = open("file", OpenFlags::READ_WRITE | OpenFlags::TRUNCATE).unwrap();
        assert_eq!((file.inode().size(), above.below.fs.calls("read", "")), (0, 0));
        truncate::set_size(file.inode(), 20).unwrap();
        assert_eq!(bytes("file"), [0; 20]);
        let cut = inode("dir/inner");
        truncate::set_size(&cut, 4097).unwrap();
        assert!(bytes("dir/inner") == [FILL; 4097]);
    });
}

#[test]
fn where_what_lies_below_cannot_be_read_nothing_changes() {
    in_process(|| {
        let above = world();
        above.below.fs.fail("read", 0, EIO);
        assert_eq!(open("file", OpenFlags::READ_WRITE).err(), Some(EIO));
        assert!(inode("file").object().unwrap().is_paged());
        above.below.fs.fail("read", 0, EIO);
        assert_eq!(truncate::set_size(&inode("file"), 5000), Err(EIO));
        assert_eq!((inode("file").size(), bytes("file") == vec![FILL; 10_000]), (10_000, true));
    });
}

#[test]
fn attributes_follow_what_lies_below_until_they_are_changed() {
    in_process(|| {
        let above = world();
        let fs = &above.below.fs;
        let below = number("file").unwrap();
        let set = |mode| fs.elsewhere(|tree| tree.at(below).unwrap().mode = mode);
        let mode = || {
            inode("file").refresh().unwrap();
            inode("file").mode()
        };
        set(0o600);
        assert_eq!(mode(), 0o600);
        chmod("other", 0o640).unwrap();
        set(0o777);
        assert_eq!((mode(), inode("file").links()), (0o640, 2));
        unlink("other").unwrap();
        assert_eq!((inode("file").links(), find("other").err()), (1, Some(ENOENT)));
        above.superblock.names.as_deref().unwrap().shrink(100);
        assert_eq!((inode("file").links(), find("other").err(), mode()), (1, Some(ENOENT), 0o640));
        // Names that come below later are seen.
        fs.elsewhere(|tree| tree.make(ROOT, b"late", Kind::Regular)).unwrap();
        assert!(find("late").is_ok());
        let mut names = list(".").unwrap();
        names.sort();
        assert_eq!(names, ["dir", "file", "late"]);
    });
}

#[test]
fn a_list_of_rights_is_its_own() {
    in_process(|| {
        let above = world();
        const ACL: [u8; 44] = [
            2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, 4, 0, 4, 0, 255, 255, 255,
            255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
        ];
        xattr::set(&inode("file"), b"system.posix_acl_access", &ACL, XattrMode::Any).unwrap();
        assert_eq!(inode("file").mode(), 0o640);
        above.superblock.names.as_deref().unwrap().shrink(100);
        inode("file").refresh().unwrap();
        let mut value = Vec::new();
        xattr::get(&inode("file"), b"system.posix_acl_access", &mut value).unwrap();
        assert_eq!((value, inode("file").mode()), (ACL.to_vec(), 0o640));
    });
}

#[test]
fn extended_attributes_are_those_below_until_one_changes() {
    in_process(|| {
        let above = world();
        let below = number("file").unwrap();
        let put = |name: &[u8], value: &[u8]| {
            above.below.fs.elsewhere(|tree| {
                tree.at(below).unwrap().xattrs.insert(name.to_vec(), value.to_vec());
            });
        };
        put(b"user.a", b"1");
        let get = |name: &[u8]| {
            let mut out = Vec::new();
            xattr::get(&inode("file"), name, &mut out).map(|()| out)
        };
        assert_eq!((get(b"user.a"), get(b"user.b")), (Ok(b"1".to_vec()), Err(ENODATA)));
        assert_eq!(xattr::remove(&inode("file"), b"user.b"), Err(ENODATA));
        put(b"user.b", b"2");
        xattr::set(&inode("file"), b"user.c", b"3", XattrMode::Create).unwrap();
        put(b"user.d", b"4");
        xattr::remove(&inode("file"), b"user.a").unwrap();
        let mut names = Vec::new();
        xattr::list(&inode("file"), &mut names).unwrap();
        let mut names: Vec<_> = names.split(|&b| b == 0).collect();
        names.sort();
        assert_eq!(names, [&b""[..], b"user.b", b"user.c"]);
        assert_eq!((get(b"user.a"), get(b"user.b")), (Err(ENODATA), Ok(b"2".to_vec())));
    });
}

#[test]
fn capabilities_below_hold_until_the_file_is_changed() {
    in_process(|| {
        let above = world();
        const GIVES: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let give = |path: &str| {
            let number = number(path).unwrap();
            above.below.fs.elsewhere(|tree| {
                let xattrs = &mut tree.at(number).unwrap().xattrs;
                xattrs.insert(b"security.capability".to_vec(), GIVES.to_vec());
            });
        };
        let gives = |path: &str| xattr::file_capabilities(&inode(path)).unwrap().is_some();
        type Change = fn(&Inode);
        let changes: [(&str, Change); 3] = [
            ("file", |inode| truncate::set_size(inode, 5).unwrap()),
            ("dir/inner", |inode| {
                attributes::change(inode, &Changes { uid: Some(7), ..Changes::default() }).unwrap();
            }),
            ("third", |_| {
                let file = open("third", OpenFlags::READ_WRITE).unwrap();
                assert!(file.inode().has_work_after_write());
                xattr::drop_capabilities(file.inode());
            }),
        ];
        above.below.fs.elsewhere(|tree| tree.make(ROOT, b"third", Kind::Regular)).unwrap();
        for (path, change) in changes {
            give(path);
            assert!(gives(path), "{path}");
            change(&inode(path));
            assert!(!gives(path), "{path}");
        }
    });
}

#[test]
fn a_directory_takes_what_lies_below_it_along_and_a_new_one_is_empty() {
    in_process(|| {
        let above = world();
        let inner = number("dir/inner");
        mkdir("new").unwrap();
        mv("dir", "new/moved", 0).unwrap();
        mkdir("dir").unwrap();
        assert_eq!((number("new/moved/inner"), list("dir")), (inner, Ok(Vec::new())));
        above.superblock.names.as_deref().unwrap().shrink(100);
        assert_eq!((number("new/moved/inner"), list("dir")), (inner, Ok(Vec::new())));
        assert_eq!((rmdir("new/moved"), rmdir("dir")), (Err(ENOTEMPTY), Ok(())));
        unlink("new/moved/inner").unwrap();
        assert_eq!((rmdir("new/moved"), list("new")), (Ok(()), Ok(Vec::new())));
        // In the place of one below it is listed where that was.
        mv("file", "other", EXCHANGE).unwrap();
        create("zz").unwrap();
        mv("zz", "file", 0).unwrap();
        assert_eq!(list(".").unwrap(), ["file", "other", "new"]);
    });
}

#[test]
fn what_an_overlay_cannot_do_is_refused() {
    in_process(|| {
        let above = world();
        assert_eq!(mv("file", "elsewhere", super::super::rename::WHITEOUT), Err(EINVAL));
        assert_eq!((number("elsewhere"), find("file").is_ok()), (Err(ENOENT), true));
        let making = Making { kind: Kind::Character, mode: 0o644, rdev: 0, target: &[] };
        let made = create::make_at(&caller::context(), &Cred::root(), Start::Cwd, b"mark", &making);
        assert_eq!(made, Err(EPERM));
        assert!(overlay::over(&above.superblock).is_err());
    });
}

#[test]
fn what_is_full_is_told_and_given_back() {
    in_process(|| {
        let above = world();
        let sizes = || above.superblock.ops.statfs(&above.superblock).unwrap();
        let (pages, files) = (sizes().free, sizes().files_free);
        write("file", 0, b"y");
        assert_eq!(
            (sizes().free, files - sizes().files_free),
            (pages - 3, 3),
            "the file, its name, the root"
        );
        let mut made = 0;
        let full = loop {
            match create(&std::format!("dir/{made}")) {
                Ok(()) => made += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((full, sizes().files_free), (ENOSPC, 0));
        assert_eq!((chmod("dir/inner", 0o600), unlink("dir/inner")), (Err(ENOSPC), Err(ENOSPC)));
        assert_eq!(list("dir").unwrap().len(), made + 1);
        (0..made).for_each(|n| unlink(&std::format!("dir/{n}")).unwrap_or_else(|e| panic!("{n}: {e:?}")));
        unlink("dir/inner").unwrap();
        rmdir("dir").unwrap();
        sync::rcu::synchronize();
        unlink("file").unwrap();
        assert_eq!(bytes("other").len(), 10_000);
        unlink("other").unwrap();
    });
}
