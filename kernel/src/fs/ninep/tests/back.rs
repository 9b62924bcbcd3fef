//! Write-back: what is written goes into pages, and to the server when it is due; and what goes wrong then.

use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use super::server::{Fake, pattern};
use super::writing::{NEW, World, call, close, enter_with, open, read_at, write};
use crate::arch::user::copy_to_user;
use crate::errno::*;
use crate::fs::ninep::back::Back;
use crate::fs::ninep::inode::node_of;
use crate::fs::ninep::message::Ask;
use crate::fs::vfs::clock;
use crate::fs::vfs::inode::Inode;
use crate::testing::{Memory, in_process, is_asleep, syscall, thread, until};
use linux_raw_sys::general as abi;

fn enter(fake: Fake) -> World {
    enter_with(fake, b"cache=mmap")
}

fn fsync(fd: usize) -> Result<usize> {
    syscall(abi::__NR_fsync, &[fd])
}

fn write_at(fd: usize, at: usize, bytes: &[u8]) -> Result<usize> {
    let from = Memory::of(bytes);
    syscall(abi::__NR_pwrite64, &[fd, from.address, bytes.len(), at])
}

fn map(fd: usize, len: usize) -> Result<usize> {
    let prot = (abi::PROT_READ | abi::PROT_WRITE) as usize;
    syscall(abi::__NR_mmap, &[0, len, prot, abi::MAP_SHARED as usize, fd, 0])
}

fn store(at: usize, bytes: &[u8]) -> Result {
    Ok(copy_to_user(at, bytes)?)
}

fn inode(world: &World, path: &str) -> Arc<Inode> {
    let root = world.superblock.root().unwrap().inode.clone();
    root.ops.lookup(&root, path.as_bytes()).unwrap()
}

/// The kinds of messages that `f` sends. A thread tells of fids that ended before, when it comes to it.
fn asked<R>(world: &World, f: impl FnOnce() -> R) -> (R, Vec<u8>) {
    world.change(|state| state.asked.clear());
    let result = f();
    let told = world.fake.lock().asked.clone();
    (result, told.into_iter().filter(|kind| *kind != Ask::Clunk as u8).collect())
}

fn count(asked: &[u8], kind: Ask) -> usize {
    asked.iter().filter(|asked| **asked == kind as u8).count()
}

fn back(world: &World) -> Arc<Back> {
    let root = world.superblock.root().unwrap().inode.clone();
    node_of(&root).unwrap().fs.back.clone().unwrap()
}

/// Dirty pages of the mount.
fn dirty(world: &World) -> u64 {
    back(world).dirty()
}

/// Does what the thread does.
fn look(world: &World) -> bool {
    back(world).look(clock::since_boot())
}

#[test]
fn what_is_written_goes_to_the_server_in_runs_when_it_is_due() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("new", NEW).unwrap();
        let bytes = pattern(300_000, 7);
        let (written, messages) = asked(&world, || {
            for piece in bytes.chunks(1000) {
                assert_eq!(write(fd, piece), Ok(piece.len()));
            }
        });
        assert_eq!((written, messages.len()), ((), 0), "no message");
        assert_eq!((world.bytes("new").len(), dirty(&world)), (0, 74));
        assert!(read_at(fd, 0, 400_000).unwrap() == bytes);
        let (size, messages) = asked(&world, || syscall(abi::__NR_lseek, &[fd, 0, 2]));
        assert_eq!((size, messages.len()), (Ok(300_000), 0), "its size is known");
        let (synced, messages) = asked(&world, || fsync(fd));
        assert_eq!((synced, count(&messages, Ask::Write), count(&messages, Ask::Fsync)), (Ok(0), 3, 1));
        assert!(world.bytes("new") == bytes);
        assert_eq!(dirty(&world), 0);
        // Its own writing drops no page, whoever asks the server.
        let (read, messages) = asked(&world, || read_at(fd, 0, 400_000).unwrap() == bytes);
        assert_eq!((read, count(&messages, Ask::Read)), (true, 0));
        node_of(&inode(&world, "new")).unwrap().expire();
        let (read, messages) = asked(&world, || read_at(fd, 0, 400_000).unwrap() == bytes);
        assert_eq!((read, count(&messages, Ask::Read)), (true, 0));
        // Edges are read first, and the whole pages between them are not.
        let other = open("file", abi::O_RDWR).unwrap();
        let (written, messages) = asked(&world, || write_at(other, 4000, &[1; 8292]));
        assert_eq!((written, count(&messages, Ask::Write)), (Ok(8292), 0));
        assert!(count(&messages, Ask::Read) <= 2);
        let mut expected = pattern(100_001, 1);
        expected[4000..12_292].fill(1);
        assert!(read_at(other, 0, 200_000).unwrap() == expected);
        close(other);
        assert!(world.bytes("file") == expected, "the last close sends");
        // A hole behind the end.
        write_at(fd, 310_000, b"end").unwrap();
        assert_eq!(read_at(fd, 299_999, 10_001).unwrap()[1..], [0; 10_000]);
        close(fd);
        assert_eq!((world.bytes("new").len(), &world.bytes("new")[309_999..]), (310_003, &b"\0end"[..]));
    });
}

#[test]
fn syncs_of_all_kinds_and_age_send() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("new", NEW).unwrap();
        let mut expected = Vec::new();
        let calls: [(&str, &dyn Fn()); 4] = [
            ("fdatasync", &|| _ = syscall(abi::__NR_fdatasync, &[fd]).unwrap()),
            ("syncfs", &|| _ = syscall(abi::__NR_syncfs, &[fd]).unwrap()),
            ("sync", &|| world.superblock.ops.sync(&world.superblock, true).unwrap()),
            ("age", &|| {
                assert!(look(&world), "it is not old");
                assert_eq!(dirty(&world), 1);
                assert!(!back(&world).look(u64::MAX));
            }),
        ];
        for (name, call) in calls {
            write(fd, name.as_bytes()).unwrap();
            expected.extend_from_slice(name.as_bytes());
            assert_ne!(world.bytes("new"), expected);
            call();
            assert_eq!(
                (String::from_utf8(world.bytes("new")), dirty(&world)),
                (String::from_utf8(expected.clone()), 0),
                "{name}"
            );
        }
        assert_eq!(world.fake.lock().synced.len(), 3, "age has nothing put on a disk");
        // What waits for its own writes: O_SYNC; and what goes by.
        let flags = [(abi::O_SYNC, 1), (abi::O_DSYNC, 1), (abi::O_DIRECT, 0)];
        for (flag, syncs) in flags {
            world.change(|state| state.synced.clear());
            let other = open("new", abi::O_WRONLY | flag).unwrap();
            write_at(fd, 1, b"D").unwrap();
            write_at(other, 0, b"s").unwrap();
            assert_eq!(&world.bytes("new")[..2], b"sD", "{flag:o}");
            assert_eq!(world.fake.lock().synced.len(), syncs);
            assert_eq!(read_at(fd, 0, 2).unwrap(), b"sD");
            close(other);
        }
    });
}

#[test]
fn shared_mappings_write_the_file() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("file", abi::O_RDWR).unwrap();
        let shared = map(fd, 100_001).unwrap();
        store(shared + 5000, b"mapped").unwrap();
        assert_eq!(read_at(fd, 5000, 6).unwrap(), b"mapped");
        write_at(fd, 5003, b"CALL").unwrap();
        assert_eq!(world.bytes("file"), pattern(100_001, 1));
        assert_eq!(syscall(abi::__NR_msync, &[shared, 8192, abi::MS_SYNC as usize]), Ok(0));
        assert_eq!(&world.bytes("file")[5000..5007], b"mapCALL");
        assert_eq!(world.fake.lock().synced.len(), 1);
        // Once more after it was clean, and with the file closed and the mapping gone: the mark stays.
        store(shared + 5000, b"again").unwrap();
        close(fd);
        assert_eq!(&world.bytes("file")[5000..5007], b"againLL");
        store(shared + 90_000, b"late").unwrap();
        syscall(abi::__NR_munmap, &[shared, 100_001]).unwrap();
        sync::rcu::drain();
        assert!(!look(&world), "nobody has it open: it is sent at once");
        assert_eq!(&world.bytes("file")[90_000..90_004], b"late");
        // Made writable later; not where it was not opened so.
        let fd = open("file", abi::O_RDWR).unwrap();
        let read = abi::PROT_READ as usize;
        let later = syscall(abi::__NR_mmap, &[0, 8192, read, abi::MAP_SHARED as usize, fd, 0]).unwrap();
        let both = read | abi::PROT_WRITE as usize;
        assert_eq!(syscall(abi::__NR_mprotect, &[later, 8192, both]), Ok(0));
        store(later, b"protected").unwrap();
        // Beyond the new end nobody writes.
        assert_eq!(syscall(abi::__NR_ftruncate, &[fd, 4096]), Ok(0));
        assert_eq!(store(later + 4096, b"x"), Err(EFAULT));
        close(fd);
        assert_eq!((world.bytes("file").len(), &world.bytes("file")[..9]), (4096, &b"protected"[..]));
        let reader = open("file", 0).unwrap();
        assert_eq!(map(reader, 4096), Err(EACCES));
    });
}

#[test]
fn what_goes_wrong_later_is_told_once_to_each_open_file() {
    in_process(|| {
        let world = enter(Fake::new());
        let fds = [open("new", NEW).unwrap(), open("new", abi::O_RDWR).unwrap()];
        write(fds[0], &[1; 10_000]).unwrap();
        world.change(|state| state.space = Some(0));
        assert_eq!((fsync(fds[0]), fsync(fds[0])), (Err(ENOSPC), Ok(0)));
        assert_eq!((fsync(fds[1]), dirty(&world)), (Err(ENOSPC), 0));
        // By close.
        write(fds[0], &[2; 10]).unwrap();
        assert_eq!(syscall(abi::__NR_close, &[fds[0]]), Err(ENOSPC));
        assert_eq!(syscall(abi::__NR_read, &[fds[0], 0, 0]), Err(EBADF), "it is closed");
        assert_eq!(syscall(abi::__NR_close, &[fds[1]]), Err(ENOSPC));
        // Nobody was told of the next one: who opens the file then is.
        world.change(|state| state.space = None);
        let fd = open("new", abi::O_RDWR).unwrap();
        assert_eq!((fsync(fd), write(fd, b"fine"), fsync(fd)), (Ok(0), Ok(4), Ok(0)));
        assert_eq!(&world.bytes("new")[..4], b"fine");
    });
}

#[test]
fn a_server_that_takes_little_or_nothing() {
    in_process(|| {
        for short in [1000, 4096, 5001] {
            let world = enter(Fake::new());
            world.change(|state| state.short_write = short);
            let fd = open("new", NEW).unwrap();
            write(fd, &pattern(150_000, 1)).unwrap();
            close(fd);
            assert!(world.bytes("new") == pattern(150_000, 1), "{short} bytes at a time");
        }
        let world = enter(Fake::new());
        let fd = open("new", NEW).unwrap();
        write(fd, b"x").unwrap();
        world.change(|state| state.short_write = 0);
        assert_eq!((fsync(fd), dirty(&world)), (Err(EIO), 0));
        // It says that it took more.
        world.change(|state| {
            state.short_write = usize::MAX;
            state.lie = Some(std::boxed::Box::new(|kind, said| {
                if kind == Ask::Write as u8 {
                    said[7] = said[7].wrapping_add(1);
                }
            }));
        });
        write(fd, b"y").unwrap();
        assert_eq!((fsync(fd), dirty(&world)), (Err(EIO), 0));
        world.change(|state| state.lie = None);
    });
}

#[test]
fn who_is_killed_while_pages_are_sent_loses_nothing() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("new", NEW).unwrap();
        write(fd, b"first").unwrap();
        world.change(|state| state.hold = Some(Ask::Write as u8));
        assert_eq!((fsync(fd), dirty(&world)), (Err(EINTR), 1));
        // The message is under way yet: the next waits for it, and comes after it.
        write_at(fd, 0, b"SECOND").unwrap();
        let other = thread(move || fsync(fd));
        until(|| is_asleep(other.tid));
        world.fake.release();
        assert_eq!(crate::testing::Joining::join(other), Ok(0));
        assert_eq!((world.bytes("new"), dirty(&world)), (b"SECOND".to_vec(), 0));
    });
}

#[test]
fn what_the_server_says_does_not_undo_what_it_has_not_got() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("file", abi::O_RDWR).unwrap();
        let file = inode(&world, "file");
        write_at(fd, 200_000, b"grown").unwrap();
        // The host changes it meanwhile.
        world.change(|state| {
            let file = state.files.get_mut(&8).unwrap();
            file.bytes.truncate(50_000);
            file.version += 1;
        });
        node_of(&file).unwrap().expire();
        assert_eq!(syscall(abi::__NR_lseek, &[fd, 0, 2]), Ok(200_005));
        let _ = inode(&world, "file");
        assert_eq!((file.size(), read_at(fd, 200_000, 9).unwrap()), (200_005, b"grown".to_vec()));
        fsync(fd).unwrap();
        assert_eq!((world.bytes("file").len(), &world.bytes("file")[200_000..]), (200_005, &b"grown"[..]));
        // And once it is clean, what the host does is seen.
        node_of(&file).unwrap().expire();
        file.refresh().unwrap();
        world.change(|state| {
            let file = state.files.get_mut(&8).unwrap();
            file.bytes = b"other".to_vec();
            file.version += 1;
        });
        node_of(&file).unwrap().expire();
        assert_eq!(read_at(fd, 0, 9).unwrap(), b"other");
    });
}

#[test]
fn who_makes_too_much_dirty_sends_some() {
    in_process(|| {
        let world = enter(Fake::new());
        back(&world).set_most(16);
        let fds = [open("a", NEW).unwrap(), open("b", NEW).unwrap()];
        for n in 0..100 {
            for fd in fds {
                assert_eq!(write(fd, &[n; 4096]), Ok(4096));
                assert!(dirty(&world) <= 16, "{}", dirty(&world));
            }
        }
        let shared = map(fds[0], 100 * 4096).unwrap();
        for n in 0..100 {
            store(shared + n * 4096, b"m").unwrap();
            assert!(dirty(&world) <= 16);
        }
        fds.into_iter().for_each(close);
        for name in ["a", "b"] {
            let bytes = world.bytes(name);
            assert_eq!(bytes.len(), 100 * 4096);
            assert!(
                bytes.chunks(4096).enumerate().all(|(n, page)| page[1..].iter().all(|b| *b as usize == n))
            );
            assert!(bytes.chunks(4096).all(|page| page[0] == b'm' || name == "b"));
        }
    });
}

#[test]
fn a_file_that_is_clean_and_closed_is_not_kept() {
    in_process(|| {
        let world = enter(Fake::new());
        let back = back(&world);
        for n in 0..5 {
            let fd = open("new", NEW).unwrap();
            if n % 2 == 0 {
                let shared = map(fd, 4096);
                write(fd, b"some").unwrap();
                syscall(abi::__NR_munmap, &[shared.unwrap(), 4096]).unwrap();
            }
            assert_eq!(back.listed(), 1);
            close(fd);
            sync::rcu::drain();
            until(|| {
                look(&world);
                back.listed() == 0
            });
        }
        // With its last name gone, and dirty.
        let fd = open("gone", NEW).unwrap();
        write(fd, b"x").unwrap();
        call(abi::__NR_unlink, "gone", &[]).unwrap();
        close(fd);
        assert_eq!(dirty(&world), 0);
    });
}

#[test]
fn extended_attributes_are_set_and_taken_away() {
    in_process(|| {
        let world = enter(Fake::new());
        let file = inode(&world, "file");
        let get = |name: &str| {
            let mut value = Vec::new();
            file.ops.get_xattr(&file, name.as_bytes(), &mut value).map(|()| value)
        };
        let set = |name: &str, value: &[u8], flags: usize| {
            let (path, name, value) = (Memory::of_str("file"), Memory::of_str(name), Memory::of(value));
            syscall(abi::__NR_setxattr, &[path.address, name.address, value.address, 5, flags])
        };
        let remove = |name: &str| {
            let (path, name) = (Memory::of_str("file"), Memory::of_str(name));
            syscall(abi::__NR_removexattr, &[path.address, name.address])
        };
        assert_eq!(get("user.a"), Err(ENODATA));
        const CREATE: usize = 1;
        const REPLACE: usize = 2;
        assert_eq!(set("user.a", b"value", REPLACE), Err(ENODATA));
        assert_eq!(set("user.a", b"value", CREATE), Ok(0));
        assert_eq!(get("user.a"), Ok(b"value".to_vec()));
        assert_eq!(set("user.a", b"other", CREATE), Err(EEXIST));
        assert_eq!(set("user.a", b"other", REPLACE), Ok(0));
        assert_eq!(get("user.a"), Ok(b"other".to_vec()));
        for name in ["trusted.t", "security.s"] {
            assert_eq!((set(name, b"12345", 0), get(name)), (Ok(0), Ok(b"12345".to_vec())));
        }
        assert_eq!((set("system.s", b"12345", 0), set("user.", b"12345", 0)), (Err(EOPNOTSUPP), Err(EINVAL)));
        assert_eq!((remove("user.a"), get("user.a")), (Ok(0), Err(ENODATA)));
        assert_eq!(remove("user.a"), Err(ENODATA));
        world.change(|state| state.space = Some(3));
        assert_eq!(set("user.b", b"12345", 0), Err(ENOSPC));
        assert_eq!(get("user.b"), Err(ENODATA));
    });
}
