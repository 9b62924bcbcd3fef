//! Watches that tell by signal, with owners that count, and by the calls that programs make.

use super::*;
use crate::errno::{EBADF, EINVAL, ENOTDIR};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::lookup::{self, Start};
use crate::fs::vfs::mount::Path;
use crate::fs::vfs::notify::{end_signal, end_signal_and_wait, watch_by_signal};
use crate::fs::{FileTable, caller};
use crate::testing::{Memory, get_file, in_process, make_dir, put_file, syscall, thread};
use core::sync::atomic::AtomicU32;
use linux_raw_sys::general as abi;
use std::string::String;
use std::vec::Vec;

#[derive(Default)]
struct Count {
    told: AtomicU32,
    fd: AtomicI32,
}

impl Owner for Count {
    fn tell(&self, fd: i32) {
        self.fd.store(fd, SeqCst);
        self.told.fetch_add(1, SeqCst);
    }
}

impl Count {
    fn take(&self) -> u32 {
        self.told.swap(0, SeqCst)
    }
}

fn find(path: &str) -> Path {
    lookup::resolve(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes(), true).unwrap()
}

const fn opening(file: usize) -> Opening {
    Opening { table: 1, file }
}

fn watch(path: &str, file: usize, argument: u32) -> Arc<Count> {
    let count = Arc::new(Count::default());
    watch_by_signal(&find(path).dentry, opening(file), (3, argument), count.clone(), || true).unwrap();
    count
}

fn rename(from: &str, to: &str) {
    let (from, to) = (Memory::of_str(from), Memory::of_str(to));
    syscall(abi::__NR_rename, &[from.address, to.address]).unwrap();
}

#[test]
fn each_event_of_a_directory_stands_for_those_of_inotify() {
    assert_eq!(asked(DN_CREATE | DN_DELETE), CREATE | MOVED_TO | DELETE | MOVED_FROM);
    assert_eq!(asked(DN_ACCESS | DN_MODIFY | DN_ATTRIB), ACCESS | MODIFY | ATTRIB);
    assert_eq!((asked(DN_RENAME), asked(DN_MULTISHOT), asked(0x40)), (RENAME, MULTISHOT, 0));
    assert_eq!([0, DN_MULTISHOT, 0x40, DN_CREATE].map(asks_for_any), [false, false, true, true]);
}

#[test]
fn a_watch_tells_once_unless_it_is_to_go_on_and_wants_nothing_when_it_has_ended() {
    in_process(|| {
        make_dir("/d");
        let inode = find("/d").dentry.inode.clone();
        let (once, often) = (watch("/d", 1, DN_CREATE), watch("/d", 2, DN_CREATE | DN_MULTISHOT));
        for (n, name) in ["/d/a", "/d/b", "/d/c"].into_iter().enumerate() {
            put_file(name, b"", 0o644);
            assert_eq!((once.take(), often.take()), (u32::from(n == 0), 1));
        }
        assert!(inode.watched.wants(CREATE));
        end_signal_and_wait(&inode, opening(2));
        assert!(!inode.watched.wants(u32::MAX), "nobody watches");
        put_file("/d/e", b"", 0o644);
        assert_eq!((once.take(), often.take()), (0, 0));
        end_signal(&inode, opening(2));
    });
}

#[test]
fn an_opening_asks_for_more_and_is_told_of_the_descriptor_that_asked_last() {
    in_process(|| {
        make_dir("/d");
        put_file("/d/f", b"x", 0o644);
        let dentry = find("/d").dentry.clone();
        let count = watch("/d", 1, DN_CREATE | DN_MULTISHOT);
        let add = |fd, argument, is_open| {
            watch_by_signal(&dentry, opening(1), (fd, argument), count.clone(), || is_open).unwrap();
        };
        add(7, DN_ACCESS, true);
        get_file("/d/f").unwrap();
        assert_eq!((count.take(), count.fd.load(SeqCst)), (1, 7));
        put_file("/d/g", b"", 0o644);
        assert_eq!(count.take(), 1);
        add(8, DN_DELETE, false);
        assert!(!dentry.inode.watched.wants(DELETE), "its descriptor was closed meanwhile");
        end_signal(&dentry.inode, opening(1));
    });
}

#[test]
fn a_rename_within_the_directory_is_told_as_such_and_one_out_of_it_is_not() {
    in_process(|| {
        make_dir("/d");
        make_dir("/other");
        put_file("/d/f", b"", 0o644);
        let renames = watch("/d", 1, DN_RENAME | DN_MULTISHOT);
        let all = watch("/d", 2, DN_RENAME | DN_CREATE | DN_DELETE | DN_MULTISHOT);
        rename("/d/f", "/d/g");
        assert_eq!((renames.take(), all.take()), (1, 3));
        rename("/d/g", "/other/g");
        assert_eq!((renames.take(), all.take()), (0, 1));
        rename("/other/g", "/d/g");
        assert_eq!((renames.take(), all.take()), (0, 1));
        let inode = find("/d").dentry.inode.clone();
        [1, 2].into_iter().for_each(|file| end_signal(&inode, opening(file)));
    });
}

/// As many as fill several turns: each is told, and the newest first.
#[test]
fn the_newest_is_told_first() {
    struct Order(Arc<std::sync::Mutex<Vec<i32>>>);
    impl Owner for Order {
        fn tell(&self, fd: i32) {
            self.0.lock().unwrap().push(fd);
        }
    }
    in_process(|| {
        make_dir("/d");
        let (dentry, told) = (find("/d").dentry.clone(), Arc::<std::sync::Mutex<Vec<i32>>>::default());
        for n in 0..200 {
            let owner = Arc::new(Order(told.clone()));
            watch_by_signal(&dentry, opening(1000 - n), (n as i32, DN_CREATE), owner, || true).unwrap();
        }
        put_file("/d/f", b"", 0o644);
        assert_eq!(*told.lock().unwrap(), (0..200).rev().collect::<Vec<i32>>());
        assert!(!dentry.inode.watched.wants(u32::MAX));
    });
}

#[test]
fn a_tables_watches_end_with_any_descriptor_of_their_file_and_with_the_table() {
    in_process(|| {
        make_dir("/d");
        put_file("/f", b"", 0o644);
        let inode = find("/d").dentry.inode.clone();
        let open = |path: &str| syscall(abi::__NR_open, &[Memory::of_str(path).address, 0]).unwrap();
        let notify =
            |fd, argument: u32| syscall(abi::__NR_fcntl, &[fd, abi::F_NOTIFY as usize, argument as usize]);
        let (d, f) = (open("/d"), open("/f"));
        assert_eq!(notify(f, DN_CREATE), Err(ENOTDIR));
        assert_eq!((notify(f, 0), notify(99, 0)), (Ok(0), Err(EBADF)));
        assert_eq!(notify(d, DN_CREATE), Ok(0));
        let twin = syscall(abi::__NR_dup, &[d]).unwrap();
        assert!(inode.watched.wants(CREATE));
        syscall(abi::__NR_close, &[twin]).unwrap();
        assert!(!inode.watched.wants(CREATE));
        // A child's table has none, and its end ends none.
        assert_eq!(notify(d, DN_CREATE), Ok(0));
        FileTable::give_up(caller::files().try_clone().unwrap());
        assert!(inode.watched.wants(CREATE));
        // A table whose end is its last one's.
        let table = caller::files().try_clone().unwrap();
        let file = table.get(d as i32).unwrap();
        let own = table.opening(&file);
        watch_by_signal(&find("/d").dentry, own, (3, DN_DELETE), Arc::new(Count::default()), || true)
            .unwrap();
        assert!(inode.watched.wants(DELETE));
        let (one, other) = (table.clone(), table);
        drop(file);
        let giver = thread(move || FileTable::give_up(one));
        FileTable::give_up(other);
        giver.join();
        assert!(!inode.watched.wants(DELETE));
        ENABLED.set(0);
        let refused = notify(d, DN_CREATE);
        ENABLED.set(1);
        assert_eq!(refused, Err(EINVAL));
        syscall(abi::__NR_close, &[d]).unwrap();
        assert!(!inode.watched.wants(CREATE));
    });
}

/// Whoever ends a watch and waits for that is told nothing afterwards, however many tell just then.
#[test]
fn nothing_is_told_when_the_end_of_a_watch_has_returned() {
    in_process(|| {
        make_dir("/d");
        let inode = find("/d").dentry.inode.clone();
        for round in 0..200 {
            let count = watch("/d", 1, DN_CREATE | if round % 2 == 0 { DN_MULTISHOT } else { 0 });
            let name: String = std::format!("/d/{round}");
            let teller = thread(move || put_file(&name, b"", 0o644));
            end_signal_and_wait(&inode, opening(1));
            let told = count.told.load(SeqCst);
            teller.join();
            assert_eq!(count.told.load(SeqCst), told);
        }
    });
}
