//! Writing: by system calls of a process that has the server's tree for its root.

use std::boxed::Box;
use std::format;
use std::string::String;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::mount_with;
use super::server::{Fake, File, ROOT, State, pattern};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::ninep::client::let_go_all;
use crate::fs::ninep::message::Ask;
use crate::fs::vfs::mount::{self, Path};
use crate::fs::vfs::superblock::SuperBlock;
use crate::testing::{Memory, in_process, syscall, thread};
use linux_raw_sys::general as abi;

pub struct World {
    pub fake: Fake,
    pub superblock: Arc<SuperBlock>,
}

fn enter(fake: Fake) -> World {
    enter_with(fake, b"")
}

/// The test's process gets the tree for its root.
pub fn enter_with(fake: Fake, options: &[u8]) -> World {
    let superblock = mount_with(&fake, options).unwrap();
    let mount = mount::world(superblock.clone()).unwrap();
    let root = Path { dentry: mount.root.clone(), mount };
    let context = caller::context();
    context.set_root(root.clone()).unwrap();
    context.set_cwd(root).unwrap();
    World { fake, superblock }
}

pub fn call(number: u32, path: &str, rest: &[usize]) -> Result<usize> {
    let mut args = vec![Memory::of_str(path).address];
    args.extend(rest);
    syscall(number, &args)
}

fn call2(number: u32, old: &str, new: &str) -> Result<usize> {
    let (old, new) = (Memory::of_str(old), Memory::of_str(new));
    syscall(number, &[old.address, new.address])
}

pub const NEW: u32 = abi::O_CREAT | abi::O_TRUNC | abi::O_RDWR;

pub fn open(path: &str, flags: u32) -> Result<usize> {
    call(abi::__NR_open, path, &[flags as usize, 0o640])
}

pub fn write(fd: usize, bytes: &[u8]) -> Result<usize> {
    let from = Memory::of(bytes);
    syscall(abi::__NR_write, &[fd, from.address, bytes.len()])
}

pub fn read_at(fd: usize, at: usize, len: usize) -> Result<Vec<u8>> {
    let into = Memory::new(len.max(1));
    let n = syscall(abi::__NR_pread64, &[fd, into.address, len, at])?;
    Ok(into.bytes(n))
}

pub fn close(fd: usize) {
    syscall(abi::__NR_close, &[fd]).unwrap();
}

impl World {
    /// What the server has under a path.
    fn file(&self, path: &str) -> Option<File> {
        let state = self.fake.lock();
        let find = |dir: u64, name: &str| {
            let names = &state.files[&dir].names;
            names.iter().find(|(known, _)| known == name.as_bytes()).map(|(_, file)| *file)
        };
        let file = path.split('/').try_fold(ROOT, find)?;
        state.files.get(&file).cloned()
    }

    pub fn bytes(&self, path: &str) -> Vec<u8> {
        self.file(path).unwrap().bytes
    }

    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.fake.lock());
    }
}

#[test]
fn what_is_written_is_with_the_server_at_once_and_read_here() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("new", NEW).unwrap();
        let made = world.file("new").unwrap();
        assert_eq!((made.mode, made.uid, made.gid), (0o100_640, 0, 0), "it is who made it's");
        let bytes = pattern(300_000, 7);
        assert_eq!(write(fd, &bytes), Ok(300_000));
        assert!(world.bytes("new") == bytes);
        assert!(read_at(fd, 0, 400_000).unwrap() == bytes);
        // Over pages that are in memory, across two of them.
        let from = Memory::of(b"changed");
        assert_eq!(syscall(abi::__NR_pwrite64, &[fd, from.address, 7, 8189]), Ok(7));
        assert_eq!(
            read_at(fd, 8188, 9).unwrap(),
            [&bytes[8188..8189], b"changed", &bytes[8196..8197]].concat()
        );
        assert_eq!(&world.bytes("new")[8189..8196], b"changed");
        // Beyond the end: a hole.
        assert_eq!(syscall(abi::__NR_pwrite64, &[fd, from.address, 7, 310_000]), Ok(7));
        assert_eq!(read_at(fd, 299_999, 10_001).unwrap()[1..], [0; 10_000]);
        assert_eq!(read_at(fd, 310_000, 100).unwrap(), b"changed");
        assert_eq!(syscall(abi::__NR_fsync, &[fd]), Ok(0));
        assert_eq!(world.fake.lock().synced.len(), 1);
        close(fd);
        assert_eq!(open("new", abi::O_CREAT | abi::O_EXCL | abi::O_RDWR), Err(EEXIST));
        assert_eq!(read_at(open("new", 0).unwrap(), 310_000, 9).unwrap(), b"changed");
    });
}

#[test]
fn names_are_made_moved_and_taken_away() {
    in_process(|| {
        let world = enter(Fake::new());
        assert_eq!(call(abi::__NR_mkdir, "d", &[0o750]), Ok(0));
        assert_eq!(call(abi::__NR_mkdir, "d", &[0o750]), Err(EEXIST));
        assert_eq!(call(abi::__NR_mkdir, "d/e", &[0o755]), Ok(0));
        assert_eq!(world.file("d").unwrap().mode, 0o040_750);
        let text = String::from_utf8(vec![b't'; 4000]).unwrap();
        assert_eq!(call2(abi::__NR_symlink, &text, "d/link"), Ok(0));
        assert_eq!(world.bytes("d/link"), text.as_bytes());
        assert_eq!(call(abi::__NR_mknod, "d/node", &[0o020_600, 0x0503]), Ok(0));
        let node = world.file("d/node").unwrap();
        assert_eq!((node.mode, node.rdev), (0o020_600, 0x0503));
        assert_eq!(call(abi::__NR_mknod, "d/fifo", &[0o010_600, 0]), Ok(0));
        close(open("d/f", NEW).unwrap());
        assert_eq!(call2(abi::__NR_link, "d/f", "d/g"), Ok(0));
        assert_eq!(world.file("d/g").unwrap().links, 2);
        assert_eq!(call(abi::__NR_rmdir, "d/e", &[]), Ok(0));
        assert_eq!(call(abi::__NR_rmdir, "d", &[]), Err(ENOTEMPTY));
        assert_eq!(call2(abi::__NR_rename, "d/f", "moved"), Ok(0));
        assert_eq!(call2(abi::__NR_rename, "d/node", "d/fifo"), Ok(0));
        assert_eq!(open("d/f", 0), Err(ENOENT));
        assert!(
            world.file("d/f").is_none() && world.file("moved").is_some() && world.file("d/node").is_none()
        );
        let renameat2 = |flags| {
            let (old, new) = (Memory::of_str("moved"), Memory::of_str("file"));
            let cwd = abi::AT_FDCWD as isize as usize;
            syscall(abi::__NR_renameat2, &[cwd, old.address, cwd, new.address, flags])
        };
        assert_eq!([2, 4].map(renameat2), [Err(EINVAL); 2], "EXCHANGE and WHITEOUT");
        for name in ["d/g", "moved", "d/fifo", "d/link"] {
            assert_eq!(call(abi::__NR_unlink, name, &[]), Ok(0), "{name}");
            assert_eq!(open(name, 0), Err(ENOENT));
        }
        assert_eq!(call(abi::__NR_rmdir, "d", &[]), Ok(0));
        assert!(world.file("d").is_none());
        let unnamed = abi::O_TMPFILE | abi::O_RDWR;
        assert_eq!(open(".", unnamed), Err(EOPNOTSUPP));
    });
}

#[test]
fn a_listing_has_what_was_made_here() {
    in_process(|| {
        let world = enter(Fake::new());
        let list = || {
            let fd = open(".", abi::O_DIRECTORY).unwrap();
            let into = Memory::new(8192);
            let n = syscall(abi::__NR_getdents64, &[fd, into.address, 8192]).unwrap();
            close(fd);
            into.bytes(n)
        };
        let has = |name: &str| list().windows(name.len()).any(|part| part == name.as_bytes());
        assert!(!has("brand-new"));
        close(open("brand-new", NEW).unwrap());
        assert!(has("brand-new"));
        call2(abi::__NR_rename, "brand-new", "other-name").unwrap();
        assert!(!has("brand-new") && has("other-name"));
        call(abi::__NR_unlink, "other-name", &[]).unwrap();
        assert!(!has("other-name"));
        drop(world);
    });
}

#[test]
fn attributes_are_changed_and_no_answer_of_before_undoes_it() {
    in_process(|| {
        let world = enter(Fake::new());
        assert_eq!(call(abi::__NR_chmod, "file", &[0o600]), Ok(0));
        assert_eq!(call(abi::__NR_chown, "file", &[5, 6]), Ok(0));
        let times = [[9i64, 99], [-1, 5]];
        let times = Memory::of(times.map(|time| time.map(i64::to_le_bytes)).as_flattened().as_flattened());
        let path = Memory::of_str("file");
        let cwd = abi::AT_FDCWD as isize as usize;
        assert_eq!(syscall(abi::__NR_utimensat, &[cwd, path.address, times.address, 0]), Ok(0));
        let file = world.file("file").unwrap();
        assert_eq!((file.mode, file.uid, file.gid), (0o100_600, 5, 6));
        assert_eq!(file.times[0], (9, 99));
        assert_eq!(file.times[1], (-1i64 as u64, 5));
        let fd = open("file", abi::O_RDWR).unwrap();
        assert!(read_at(fd, 0, 200_000).unwrap() == pattern(100_001, 1));
        assert_eq!(syscall(abi::__NR_ftruncate, &[fd, 5000]), Ok(0));
        assert_eq!(world.bytes("file").len(), 5000);
        assert_eq!(syscall(abi::__NR_ftruncate, &[fd, 6000]), Ok(0));
        let read = read_at(fd, 0, 9000).unwrap();
        assert!(read[..5000] == pattern(5000, 1) && read[5000..] == [0; 1000], "zeros behind the cut");
        assert_eq!(call(abi::__NR_truncate, "file", &[10]), Ok(0));
        assert_eq!(read_at(fd, 0, 99).unwrap().len(), 10);
        close(open("file", abi::O_TRUNC | abi::O_WRONLY).unwrap());
        assert_eq!(world.bytes("file"), []);
        assert_eq!(syscall(abi::__NR_fallocate, &[fd, 0, 0, 100]), Err(EOPNOTSUPP));
    });
}

#[test]
fn an_answer_that_was_asked_for_before_a_change_is_not_believed() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("file", abi::O_RDWR | abi::O_APPEND).unwrap();
        // The server says how long the file is; before that comes the file grows.
        let stat = |path: &str| {
            let into = Memory::new(256);
            call(abi::__NR_stat, path, &[into.address]).unwrap();
            u64::from_le_bytes(into.bytes(56)[48..56].try_into().unwrap())
        };
        assert_eq!(call(abi::__NR_chmod, "file", &[0o600]), Ok(0));
        world.change(|state| {
            state.late =
                Some((Ask::Attributes as u8, Box::new(move || assert_eq!(write(fd, b"more"), Ok(4)))));
        });
        assert_eq!(stat("file"), 100_005);
        assert_eq!(write(fd, b"end"), Ok(3));
        assert_eq!(&world.bytes("file")[100_001..], b"moreend");
        // The same, and its name is looked up.
        let other = open("new", NEW).unwrap();
        world.change(|state| {
            state.late =
                Some((Ask::Attributes as u8, Box::new(move || assert_eq!(write(other, b"more"), Ok(4)))));
        });
        assert_eq!(call2(abi::__NR_link, "new", "link-to-it"), Ok(0));
        assert_eq!((stat("link-to-it"), stat("new")), (4, 4));
        assert!(world.fake.lock().late.is_none());
    });
}

#[test]
fn what_was_asked_for_by_who_was_killed_comes_before_what_is_asked_for_next() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("new", NEW).unwrap();
        world.change(|state| state.hold = Some(Ask::Write as u8));
        assert_eq!(write(fd, b"first!"), Err(EINTR));
        let next = thread(move || {
            let from = Memory::of(b"next");
            syscall(abi::__NR_pwrite64, &[fd, from.address, 4, 0])
        });
        crate::testing::until(|| crate::testing::is_asleep(next.tid));
        assert_eq!(world.bytes("new"), b"");
        world.fake.release();
        assert_eq!(next.join(), Ok(4));
        assert_eq!(world.bytes("new"), b"nextt!");
        assert_eq!(read_at(fd, 0, 9).unwrap(), b"nextt!");
        // Names of one directory.
        world.change(|state| state.hold = Some(Ask::Unlink as u8));
        assert_eq!(call(abi::__NR_unlink, "new", &[]), Err(EINTR));
        let next = thread(|| call(abi::__NR_mkdir, "d", &[0o755]));
        crate::testing::until(|| crate::testing::is_asleep(next.tid));
        world.fake.release();
        assert_eq!(next.join(), Ok(0));
        assert!(world.file("new").is_none() && world.file("d").is_some());
    });
}

#[test]
fn two_that_append_lose_nothing_whoever_asks_meanwhile() {
    in_process(|| {
        let world = enter(Fake::new());
        close(open("log", NEW).unwrap());
        let writers: Vec<_> = (0..3u8)
            .map(|n| {
                thread(move || {
                    let fd = open("log", abi::O_WRONLY | abi::O_APPEND).unwrap();
                    for _ in 0..200 {
                        assert_eq!(write(fd, &[b'a' + n; 10]), Ok(10));
                    }
                    close(fd);
                })
            })
            .collect();
        let looker = thread(|| {
            let mut last = 0;
            let into = Memory::new(256);
            for _ in 0..300 {
                let path = Memory::of_str("log");
                syscall(abi::__NR_stat, &[path.address, into.address]).unwrap();
                let size = u64::from_le_bytes(into.bytes(56)[48..56].try_into().unwrap());
                assert!(size >= last, "{size} after {last}");
                last = size;
            }
        });
        writers.into_iter().for_each(crate::testing::Joining::join);
        looker.join();
        let bytes = world.bytes("log");
        assert_eq!(bytes.len(), 6000);
        let pieces = bytes.as_chunks::<10>().0;
        assert!(pieces.iter().all(|piece| piece.iter().all(|byte| *byte == piece[0])));
    });
}

#[test]
fn who_reads_and_maps_sees_what_others_write() {
    in_process(|| {
        let world = enter(Fake::new());
        let (reader, writer) = (open("file", 0).unwrap(), open("file", abi::O_WRONLY).unwrap());
        let map =
            |flags, fd| syscall(abi::__NR_mmap, &[0, 8192, abi::PROT_READ as usize, flags as usize, fd, 0]);
        let shared = map(abi::MAP_SHARED, reader).unwrap();
        let seen = |at: usize| {
            let pipe = Memory::new(8);
            syscall(abi::__NR_pipe, &[pipe.address]).unwrap();
            let fds = pipe.bytes(8);
            let end = |n: usize| u32::from_le_bytes(fds[n..n + 4].try_into().unwrap()) as usize;
            assert_eq!(syscall(abi::__NR_write, &[end(4), shared + at, 2]), Ok(2));
            let into = Memory::new(2);
            syscall(abi::__NR_read, &[end(0), into.address, 2]).unwrap();
            [0, 4].into_iter().for_each(|n| close(end(n)));
            into.bytes(2)
        };
        assert_eq!(seen(4095), pattern(5000, 1)[4095..4097]);
        let from = Memory::of(b"XY");
        assert_eq!(syscall(abi::__NR_pwrite64, &[writer, from.address, 2, 4095]), Ok(2));
        assert_eq!(seen(4095), b"XY");
        assert_eq!(read_at(reader, 4095, 2).unwrap(), b"XY");
        // What would be written by it is with nobody.
        let both = open("file", abi::O_RDWR).unwrap();
        assert_eq!(map(abi::MAP_SHARED, both), Err(EINVAL));
        assert!(map(abi::MAP_PRIVATE, both).is_ok());
        drop(world);
    });
}

#[test]
fn a_full_server_is_told_to_the_writer() {
    in_process(|| {
        let world = enter(Fake::new());
        let fd = open("new", NEW).unwrap();
        world.change(|state| state.space = Some(200_000));
        assert_eq!(write(fd, &pattern(300_000, 1)), Ok(200_000));
        assert_eq!(write(fd, b"x"), Err(ENOSPC));
        assert!(world.bytes("new") == pattern(200_000, 1));
        assert_eq!(read_at(fd, 199_999, 9).unwrap().len(), 1);
        world.change(|state| state.space = None);
        assert_eq!(write(fd, b"x"), Ok(1));
        assert_eq!(world.bytes("new").len(), 200_001);
    });
}

#[test]
fn a_server_that_takes_little_at_a_time_gets_it_all() {
    in_process(|| {
        for short in [1000, 4096, 5001] {
            let world = enter(Fake::new());
            world.change(|state| state.short_write = short);
            let fd = open("new", NEW).unwrap();
            assert_eq!(write(fd, &pattern(150_000, 1)), Ok(150_000));
            assert!(world.bytes("new") == pattern(150_000, 1), "{short} bytes at a time");
            close(fd);
        }
    });
}

#[test]
fn a_file_is_used_on_after_its_name_is_gone() {
    in_process(|| {
        let world = enter(Fake::new());
        let (fd, reader) = (open("new", NEW).unwrap(), open("file", 0).unwrap());
        write(fd, b"hello").unwrap();
        for name in ["new", "file", "again"] {
            call(abi::__NR_unlink, name, &[]).unwrap();
        }
        assert_eq!(write(fd, b" there"), Ok(6));
        assert_eq!(read_at(fd, 0, 20).unwrap(), b"hello there");
        assert_eq!(syscall(abi::__NR_ftruncate, &[fd, 5]), Ok(0));
        assert_eq!(read_at(fd, 0, 20).unwrap(), b"hello");
        assert!(read_at(reader, 0, 200_000).unwrap() == pattern(100_001, 1));
        let made = open("new", NEW).unwrap();
        write(made, b"other").unwrap();
        assert_eq!(read_at(fd, 0, 20).unwrap(), b"hello");
        assert_eq!(world.bytes("new"), b"other");
    });
}

#[test]
fn a_file_that_loses_a_name_is_found_by_another() {
    in_process(|| {
        let world = enter(Fake::new());
        close(open("a", NEW).unwrap());
        for names in [["a", "b"], ["b", "c"], ["c", "a"]] {
            call2(abi::__NR_link, names[0], names[1]).unwrap();
            call(abi::__NR_unlink, names[0], &[]).unwrap();
            let fd = open(names[1], abi::O_WRONLY).unwrap();
            assert_eq!(write(fd, names[1].as_bytes()), Ok(1));
            close(fd);
            assert_eq!(call(abi::__NR_chmod, names[1], &[0o600]), Ok(0));
            assert_eq!(world.bytes(names[1]), names[1].as_bytes());
        }
        // Found by names that were there before, and moved.
        call2(abi::__NR_link, "a", "x").unwrap();
        call2(abi::__NR_rename, "a", "y").unwrap();
        call(abi::__NR_unlink, "x", &[]).unwrap();
        assert_eq!(call(abi::__NR_chmod, "y", &[0o640]), Ok(0));
        assert_eq!(world.file("y").unwrap().mode, 0o100_640);
    });
}

#[test]
fn who_makes_a_file_that_nobody_may_write_writes_it() {
    in_process(|| {
        let world = enter(Fake::new());
        world.change(|state| {
            state.lie = Some(Box::new(|kind, said| {
                if kind == Ask::Open as u8 {
                    *said = super::answer(7, 0x1234, &(EACCES.0 as u32).to_le_bytes());
                }
            }));
        });
        let fd = call(abi::__NR_open, "object", &[NEW as usize, 0o444]).unwrap();
        assert_eq!(write(fd, b"bytes"), Ok(5));
        assert_eq!(world.bytes("object"), b"bytes");
    });
}

#[test]
fn a_file_is_open_to_write_on_the_server_as_long_as_it_is_here() {
    in_process(|| {
        let world = enter(Fake::new());
        let open_fids = || {
            let_go_all();
            world.fake.lock().fids.values().filter(|(_, is_open)| *is_open).count()
        };
        let fd = open("new", NEW).unwrap();
        let before = open_fids();
        assert!(before > 0);
        close(fd);
        crate::testing::until(|| open_fids() < before);
    });
}

#[test]
fn a_server_that_gives_files_to_nobody_is_asked_once() {
    in_process(|| {
        let world = enter(Fake::new());
        world.change(|state| state.keeps_owner = true);
        for n in 0..3 {
            let fd = open(&format!("new{n}"), NEW).unwrap();
            assert_eq!(world.file(&format!("new{n}")).unwrap().uid, 1000);
            close(fd);
        }
        let set = |kind: &&u8| **kind == Ask::SetAttributes as u8;
        assert_eq!(world.fake.lock().asked.iter().filter(set).count(), 1);
    });
}

#[test]
fn a_tree_that_is_only_read_is_not_written() {
    in_process(|| {
        let world = enter(Fake::new());
        world.superblock.set_flags(1, 1);
        assert_eq!(open("file", abi::O_RDWR), Err(EROFS));
        assert_eq!(open("new", NEW), Err(EROFS));
        assert_eq!(call(abi::__NR_unlink, "file", &[]), Err(EROFS));
        assert_eq!(call(abi::__NR_chmod, "file", &[0o600]), Err(EROFS));
    });
}

/// Changes something of everything; whatever comes of it.
fn change_all() {
    let _ = call(abi::__NR_mkdir, "d", &[0o755]);
    let _ = call2(abi::__NR_symlink, "text", "d/link");
    let _ = call(abi::__NR_mknod, "d/fifo", &[0o010_600, 0]);
    if let Ok(fd) = open("d/f", NEW) {
        let _ = write(fd, &pattern(9000, 1));
        let _ = read_at(fd, 4000, 200);
        let _ = syscall(abi::__NR_ftruncate, &[fd, 100]);
        let _ = syscall(abi::__NR_fsync, &[fd]);
        close(fd);
    }
    let _ = call2(abi::__NR_link, "d/f", "g");
    let _ = call2(abi::__NR_rename, "d/f", "d/fifo");
    let _ = call(abi::__NR_chmod, "g", &[0o600]);
    for name in ["d/link", "d/fifo", "g"] {
        let _ = call(abi::__NR_unlink, name, &[]);
    }
    let _ = call(abi::__NR_rmdir, "d", &[]);
}

#[test]
fn no_byte_of_an_answer_to_a_change_harms_the_kernel() {
    in_process(|| {
        for at in 0..60 {
            for value in [0u8, 1, 0x7f, 0xff] {
                let world = enter(Fake::new());
                world.change(|state| {
                    state.lie = Some(Box::new(move |_, said| {
                        if let Some(byte) = said.get_mut(at) {
                            *byte = value;
                        }
                    }));
                });
                change_all();
                world.change(|state| state.lie = None);
                let_go_all();
            }
        }
    });
}
