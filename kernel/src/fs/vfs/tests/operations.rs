//! Every operation of the interface: done by the file system, and failing with its error, with nothing changed.

use super::super::attributes::{self, Changes};
use super::super::cache::Cache;
use super::super::dentry::Name;
use super::super::inode::{Attributes, Inode, Kind, NewInode};
use super::super::operations::{InodeOps, Plain, XattrMode};
use super::super::parameters::Parameters;
use super::super::rename::{EXCHANGE, NO_REPLACE};
use super::super::superblock::{FsType, SuperBlock, new_device};
use super::tree::ROOT;
use super::*;
use crate::errno::*;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::truncate;
use crate::testing::{in_process, syscall};
use linux_raw_sys::general as abi;
use std::boxed::Box;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use sync::level::Held;

const CACHES: [Cache; 3] = [Cache::Cached, Cache::Revalidated, Cache::Uncached];

/// Runs the test in a world of each kind of cache.
fn in_each(test: impl Fn(World) + Send + Sync + Copy + 'static) {
    for cache in CACHES {
        in_process(move || test(World::new(cache)));
    }
}

#[test]
fn names_are_made_found_listed_moved_and_removed() {
    in_each(|world| {
        mkdir("d").unwrap();
        create("d/f").unwrap();
        make("d/l", Kind::Symlink, "f").unwrap();
        make("d/p", Kind::Fifo, "").unwrap();
        assert_eq!(number("d/f"), Ok(find("d/l").unwrap().dentry.inode.number));
        assert_eq!(list("d").unwrap(), ["f", "l", "p"]);
        link("d/f", "d/g").unwrap();
        assert_eq!(number("d/g"), number("d/f"));
        assert_eq!(find("d/g").unwrap().dentry.inode.links(), 2);
        mv("d/g", "h", 0).unwrap();
        assert_eq!((number("h"), number("d/g")), (number("d/f"), Err(ENOENT)));
        assert_eq!(create("h"), Err(EEXIST));
        mv("h", "d/p", EXCHANGE).unwrap();
        assert_eq!(find("h").unwrap().dentry.inode.kind, Kind::Fifo);
        assert_eq!(mv("h", "d/p", NO_REPLACE), Err(EEXIST));
        assert_eq!(rmdir("d"), Err(ENOTEMPTY));
        assert_eq!(unlink("d"), Err(EISDIR));
        assert_eq!(rmdir("h"), Err(ENOTDIR));
        for name in ["d/f", "d/l", "d/p", "h"] {
            unlink(name).unwrap();
            assert_eq!(unlink(name), Err(ENOENT));
        }
        let held = find("d").unwrap();
        rmdir("d").unwrap();
        assert_eq!(find("d").err(), Some(ENOENT));
        if world.superblock.names.is_some() {
            assert!(held.dentry.is_removed());
        }
        let making = Making { kind: Kind::Regular, mode: 0, rdev: 0, target: &[] };
        let late = create::make(&held, &Name::try_new(b"x").unwrap(), &Cred::root(), &making, 0);
        assert_eq!(late.err(), Some(ENOENT), "made in a directory that is gone");
    });
}

#[test]
fn an_operation_that_fails_gives_its_error_and_changes_no_name() {
    in_each(|world| {
        mkdir("d").unwrap();
        create("f").unwrap();
        type Operation = (&'static str, fn() -> Result);
        let operations: [Operation; 10] = [
            ("lookup", || number("unknown").map(drop)),
            ("create", || create("n")),
            ("mkdir", || mkdir("n")),
            ("mknod", || make("n", Kind::Socket, "")),
            ("symlink", || make("n", Kind::Symlink, "t")),
            ("link", || link("f", "n")),
            ("unlink", || unlink("f")),
            ("rmdir", || rmdir("d")),
            ("rename", || mv("f", "d/f", 0)),
            ("rename", || mv("f", "d", EXCHANGE)),
        ];
        for (op, f) in operations {
            for error in [EIO, EINTR, ENOSPC] {
                world.fs.fail(op, 0, error);
                assert_eq!(f(), Err(error), "{op}");
                assert_eq!(list(".").unwrap(), ["d", "f"], "{op}");
                assert_eq!((number("n"), number("d/f")), (Err(ENOENT), Err(ENOENT)), "{op}");
                number("f").and(number("d")).unwrap();
            }
        }
        // The names can be changed now.
        mv("f", "d/f", 0).unwrap();
        unlink("d/f").unwrap();
        rmdir("d").unwrap();
    });
}

#[test]
fn errors_of_attributes_links_and_the_whole_reach_the_caller() {
    in_each(|world| {
        create("f").unwrap();
        make("l", Kind::Symlink, "f").unwrap();
        let inode = find("f").unwrap().dentry.inode.clone();
        attributes::change(&inode, &Changes { mode: Some(0o600), size: Some(5), ..Changes::default() })
            .unwrap();
        assert_eq!((inode.mode(), inode.size()), (0o600, 5));
        world.fs.fail("set_attributes", 0, EDQUOT);
        assert_eq!(attributes::change(&inode, &Changes { size: Some(9), ..Changes::default() }), Err(EDQUOT));
        assert_eq!(inode.size(), 5);
        world.fs.elsewhere(|tree| tree.at(inode.number).unwrap().mode = 0o640);
        inode.refresh().unwrap();
        assert_eq!(inode.mode(), 0o640);
        world.fs.fail("refresh", 0, ETIMEDOUT);
        assert_eq!(inode.refresh(), Err(ETIMEDOUT));
        world.fs.fail("read_link", 0, EIO);
        assert_eq!(find("l").err(), Some(EIO));
        find("l").unwrap();
        world.fs.fail("read_dir", 0, EIO);
        assert_eq!(list("."), Err(EIO));
        world.fs.fail("fsync", 0, EIO);
        assert_eq!(inode.ops.fsync(&inode, true), Err(EIO));
        assert_eq!(world.fs.calls("fsync", "data"), 1);
        let (ops, superblock) = (&world.superblock.ops, &world.superblock);
        assert_eq!(ops.statfs(superblock).unwrap().files, 3);
        world.fs.fail("statfs", 0, EIO);
        assert_eq!(ops.statfs(superblock).err(), Some(EIO));
        ops.sync(superblock, true).unwrap();
        world.fs.fail("sync", 0, EIO);
        assert_eq!(ops.sync(superblock, true), Err(EIO));
    });
}

#[test]
fn extended_attributes_are_set_read_listed_and_removed() {
    in_process(|| {
        let _world = World::new(Cache::Cached);
        create("f").unwrap();
        let inode = find("f").unwrap().dentry.inode.clone();
        let ops = &inode.ops;
        ops.set_xattr(&inode, b"user.a", b"1", XattrMode::Create).unwrap();
        assert_eq!(ops.set_xattr(&inode, b"user.a", b"2", XattrMode::Create), Err(EEXIST));
        assert_eq!(ops.set_xattr(&inode, b"user.b", b"2", XattrMode::Replace), Err(ENODATA));
        ops.set_xattr(&inode, b"user.b", b"2", XattrMode::Any).unwrap();
        let mut out = Vec::new();
        ops.get_xattr(&inode, b"user.a", &mut out).unwrap();
        ops.list_xattr(&inode, true, &mut out).unwrap();
        assert_eq!(out, b"1user.a\0user.b\0");
        ops.remove_xattr(&inode, b"user.a").unwrap();
        assert_eq!(ops.get_xattr(&inode, b"user.a", &mut out), Err(ENODATA));
    });
}

#[test]
fn a_file_without_a_name_gets_one_once() {
    in_each(|_| {
        let file = open(".", OpenFlags::TMPFILE | OpenFlags::DIRECTORY | OpenFlags::READ_WRITE).unwrap();
        let path = file.path().unwrap().clone();
        let name = |name: &str| {
            create::link_at(&caller::context(), &Cred::root(), &path, Start::Cwd, name.as_bytes())
        };
        name("first").unwrap();
        name("second").unwrap();
        assert_eq!(number("first"), Ok(path.dentry.inode.number));
        unlink("first").unwrap();
        unlink("second").unwrap();
        assert_eq!(name("third"), Err(ENOENT), "a file that lost its last name came back");
    });
}

#[test]
fn what_is_left_out_gives_linux_errors() {
    static BARE: FsType = FsType {
        name: "bare",
        magic: 0,
        nodev: true,
        mount: |_, _| Err(EINVAL),
        parameters: Parameters::None,
    };
    for cache in [Cache::Complete, Cache::Uncached] {
        in_process(move || {
            let device = new_device();
            let new = NewInode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
            let inode = Inode::try_new(ROOT, device, &new, sync::try_box(Plain).unwrap()).unwrap();
            let ops = sync::try_box(Plain).unwrap();
            let root = enter(&SuperBlock::try_new(&BARE, cache, device, inode, ops).unwrap());
            assert_eq!(create("f"), Err(EACCES));
            assert_eq!(mkdir("f"), Err(EPERM));
            assert_eq!(make("f", Kind::Fifo, ""), Err(EPERM));
            assert_eq!(make("f", Kind::Symlink, "t"), Err(EPERM));
            assert_eq!(unlink("f"), Err(ENOENT));
            assert_eq!(mv("f", "g", 0), Err(ENOENT));
            let unnamed = OpenFlags::TMPFILE | OpenFlags::DIRECTORY | OpenFlags::READ_WRITE;
            assert_eq!(open(".", unnamed).err(), Some(EOPNOTSUPP));
            let inode = &root.dentry.inode;
            assert_eq!(inode.ops.get_xattr(inode, b"user.a", &mut Vec::new()), Err(EOPNOTSUPP));
            if cache == Cache::Complete {
                // A name that the kernel has put there.
                let new = NewInode { kind: Kind::Regular, ..new };
                let file = Inode::try_new(2, device, &new, sync::try_box(Plain).unwrap()).unwrap();
                create::enter(&root, &Name::try_new(b"ours").unwrap(), file, &mut Held::clean()).unwrap();
                assert_eq!(unlink("ours"), Err(EPERM));
                assert_eq!(mv("ours", "theirs", 0), Err(EPERM));
                assert_eq!(link("ours", "theirs"), Err(EPERM));
                assert_eq!(list(".").unwrap(), ["ours"]);
                remove::withdraw(&root, &Name::try_new(b"ours").unwrap(), &mut Held::clean()).unwrap();
                assert_eq!(number("ours"), Err(ENOENT));
            }
        });
    }
}

/// A file whose times its file system writes down.
struct Written {
    object: vm::ObjectOwner,
    told: Arc<AtomicU32>,
}

impl InodeOps for Written {
    fn size(&self, _: &Inode) -> u64 {
        self.object.size()
    }

    fn object(&self) -> Option<vm::ObjectRef> {
        Some(self.object.share())
    }

    fn times_changed(&self, _: &Inode) {
        self.told.fetch_add(1, Relaxed);
    }
}

#[test]
fn who_writes_times_down_is_told_of_each_write_and_of_the_first_read_after_it() {
    static WHOLE: FsType = FsType {
        name: "whole",
        magic: 0,
        nodev: true,
        mount: |_, _| Err(EINVAL),
        parameters: Parameters::None,
    };
    for attributes in [Attributes::WrittenBack, Attributes::Here] {
        in_process(move || {
            let device = new_device();
            let new = NewInode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
            let inode = Inode::try_new(ROOT, device, &new, sync::try_box(Plain).unwrap()).unwrap();
            let ops = sync::try_box(Plain).unwrap();
            let root = enter(&SuperBlock::try_new(&WHOLE, Cache::Complete, device, inode, ops).unwrap());
            let new = NewInode { kind: Kind::Regular, mode: 0o644, ..new };
            let told = Arc::new(AtomicU32::new(0));
            let ops = Written { object: vm::Object::try_owned(2).unwrap(), told: told.clone() };
            let file = Inode::try_with(2, device, &new, Box::new(ops), attributes).unwrap();
            create::enter(&root, &Name::try_new(b"f").unwrap(), file, &mut Held::clean()).unwrap();
            let file = open("f", OpenFlags::READ_WRITE).unwrap();
            let mut buffer = [0];
            file.write(&mut Input::kernel(b"some")).unwrap();
            for _ in 0..2 {
                file.read_at(0, &mut Output::kernel(&mut buffer)).unwrap();
            }
            file.write_at(0, &mut Input::kernel(b"more")).unwrap();
            truncate::allocate(file.inode(), 1, 0, 8).unwrap();
            let times = if attributes == Attributes::WrittenBack { 4 } else { 0 };
            assert_eq!(told.load(Relaxed), times, "two writes, one read of two, an allocation");
        });
    }
}

#[test]
fn a_write_by_another_than_the_superuser_takes_set_id_bits_away() {
    in_process(|| {
        let made = |path: &str, mode| {
            let making = Making { kind: Kind::Regular, mode, rdev: 0, target: &[] };
            create::make_at(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes(), &making).unwrap();
            open(path, OpenFlags::READ_WRITE).unwrap()
        };
        let write = |file: &File| file.write(&mut Input::kernel(b"x")).unwrap();
        let chmod = |file: &File, mode| {
            attributes::change(file.inode(), &Changes { mode: Some(mode), ..Changes::default() }).unwrap();
        };
        let (born, given) = (made("born", 0o6777), made("given", 0o755));
        write(&born);
        assert_eq!(born.inode().mode() & 0o6000, 0o6000, "the superuser wrote");
        syscall(abi::__NR_setuid, &[1000]).unwrap();
        write(&born);
        write(&given);
        chmod(&given, 0o6755);
        write(&given);
        assert_eq!((born.inode().mode() & 0o6000, given.inode().mode()), (0, 0o755));
    });
}

#[test]
fn a_position_in_a_listing_outlasts_what_is_made_and_removed_around_it() {
    fn rest(dir: &File, most: usize) -> Vec<String> {
        let mut names = Vec::new();
        dir.read_dir(&mut |entry| {
            let room = names.len() < most;
            if room {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            }
            room
        })
        .unwrap();
        names
    }
    fn test() {
        for name in ["a", "b", "c", "d"] {
            create(name).unwrap();
        }
        let dir = open(".", OpenFlags::DIRECTORY).unwrap();
        assert_eq!(rest(&dir, 4), [".", "..", "a", "b"]);
        unlink("a").unwrap();
        unlink("c").unwrap();
        create("0").unwrap();
        assert_eq!(rest(&dir, 9), ["d", "0"]);
    }
    in_each(|_| test());
    in_process(test);
}
