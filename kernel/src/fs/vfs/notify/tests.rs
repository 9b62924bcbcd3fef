//! The queue by itself; watches of files in memory, by the calls that programs make.

use super::events::*;
use super::queue::{Event, HEADER, Put, Queue, Queued, Taken};
use super::*;
use crate::account::{self, Charge, Kind};
use crate::errno::*;
use crate::fs::anon::inotify::{self, Inotify};
use crate::fs::file::buffer::Output;
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::lookup::{self, Start};
use crate::fs::{File, OpenFlags, caller};
use crate::testing::{Memory, check, get_file, in_process, make_dir, mount_at, put_file, syscall, thread};
use linux_raw_sys::general as abi;
use proptest::prelude::*;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// Users that no other test uses.
const BASE: u32 = 7_700_000;

fn queue(most: usize, uid: u32) -> Queue {
    let charge = Charge::try_new(uid, Kind::InotifyEvents, 0, sync::quota::UNLIMITED).unwrap();
    Queue::try_new(most, charge, None).unwrap()
}

fn event(watch: i32, mask: u32, name: &str) -> Event {
    let name = (!name.is_empty()).then(|| Name::try_new(name.as_bytes()).unwrap());
    Event { watch, mask, cookie: 0, name }
}

fn put(queue: &mut Queue, event: Event) -> Put {
    queue.put(&mut Some(Queued::try_new(event).unwrap()))
}

/// Watch, mask and name of all that is in it, and whether events were lost before the end.
fn all(queue: &mut Queue) -> Vec<(i32, u32, String)> {
    let mut list = Vec::new();
    loop {
        match queue.take(usize::MAX) {
            Taken::Event(queued) => {
                let event = &queued.event;
                let name = String::from_utf8_lossy(event.name()).to_string();
                list.push((event.watch, event.mask, name));
            }
            Taken::Lost => list.push((-1, Q_OVERFLOW, String::new())),
            Taken::Empty => return list,
            Taken::NoRoom => panic!("there is room for all"),
        }
    }
}

#[test]
fn an_event_takes_a_header_and_its_name_with_a_nul_in_whole_headers() {
    for (len, padded) in [(0, 0), (1, 16), (15, 16), (16, 32), (31, 32), (32, 48), (255, 256)] {
        let event = event(1, OPEN, &"n".repeat(len));
        assert_eq!((event.name_len(), event.len()), (padded, HEADER + padded));
    }
}

#[test]
fn what_says_the_same_as_the_last_event_is_not_queued_again() {
    let queue = &mut queue(8, BASE);
    assert_eq!(put(queue, event(1, OPEN, "a")), Put::Queued);
    assert_eq!(put(queue, event(1, OPEN, "a")), Put::Nothing);
    for other in
        [event(1, OPEN, "b"), event(1, OPEN, ""), event(1, CLOSE_WRITE, ""), event(2, CLOSE_WRITE, "")]
    {
        assert_eq!(put(queue, other.clone()), Put::Queued);
        assert_eq!(put(queue, other), Put::Nothing);
    }
    assert_eq!(put(queue, event(1, OPEN, "a")), Put::Queued, "the last one alone is looked at");
    assert_eq!(put(queue, event(1, IGNORED, "")), Put::Queued);
    assert_eq!(put(queue, event(1, IGNORED, "")), Put::Queued, "that a watch has ended is always said");
    assert_eq!(queue.len(), 8);
}

#[test]
fn a_full_queue_says_once_that_events_are_lost_and_goes_on_when_there_is_room() {
    let queue = &mut queue(2, BASE);
    let numbers = |list: Vec<(i32, u32, String)>| list.iter().map(|(watch, ..)| *watch).collect::<Vec<_>>();
    for n in 1..=5 {
        put(queue, event(n, OPEN, "x"));
    }
    assert_eq!((queue.len(), queue.bytes()), (3, 32 + 32 + 16));
    assert_eq!(numbers(all(queue)), [1, 2, -1]);
    for n in 6..=9 {
        put(queue, event(n, OPEN, ""));
    }
    assert_eq!(numbers(all(queue)), [6, 7, -1]);
    assert_eq!((queue.len(), queue.bytes()), (0, 0));
    // Without memory for an event it is lost too, and that is said.
    assert_eq!((queue.put(&mut None), queue.put(&mut None)), (Put::Queued, Put::Nothing));
    assert_eq!(numbers(all(queue)), [-1]);
}

#[test]
fn nothing_is_taken_where_there_is_no_room_for_it() {
    let queue = &mut queue(8, BASE);
    put(queue, event(1, OPEN, "name"));
    assert!(matches!(queue.take(31), Taken::NoRoom));
    assert!(matches!(queue.take(32), Taken::Event(_)));
    assert!(matches!(queue.take(0), Taken::Empty));
}

#[test]
fn events_are_counted_for_their_user_until_they_are_read() {
    let uid = BASE + 1;
    let mut queue = queue(1000, uid);
    for n in 0..200 {
        put(&mut queue, event(n, OPEN, ""));
    }
    account::assert_comes_to(|| account::used(uid, Kind::InotifyEvents), 256);
    assert_eq!(all(&mut queue).len(), 200);
    account::assert_comes_to(|| account::used(uid, Kind::InotifyEvents), 0);
}

/// Against a list without any cleverness.
#[test]
fn a_queue_is_a_bounded_list_without_repetitions() {
    let step = prop_oneof![
        4 => (0..3i32, 0..3u32, 0..3usize).prop_map(Some),
        1 => Just(None),
    ];
    check(256, &(1..6usize, proptest::collection::vec(step, 0..40)), |(most, steps)| {
        let (mut queue, mut model): (_, Vec<(i32, u32, String)>) = (queue(most, BASE + 2), vec![]);
        for step in steps {
            match step {
                Some((watch, kind, name)) => {
                    let (mask, name) = ([OPEN, ACCESS, IGNORED][kind as usize], ["", "a", "b"][name]);
                    put(&mut queue, event(watch, mask, name));
                    let new = (watch, mask, name.to_string());
                    let lost = (-1, Q_OVERFLOW, String::new());
                    if model.len() >= most {
                        if !model.contains(&lost) {
                            model.push(lost);
                        }
                    } else if model.last() != Some(&new) || mask == IGNORED {
                        model.push(new);
                    }
                }
                None => {
                    let taken = match queue.take(usize::MAX) {
                        Taken::Event(queued) => Some(queued.event.watch),
                        Taken::Lost => Some(-1),
                        _ => None,
                    };
                    let first = (!model.is_empty()).then(|| model.remove(0).0);
                    assert_eq!(taken, first);
                }
            }
            assert_eq!(queue.len(), model.len());
        }
        assert_eq!(all(&mut queue), model);
    });
}

/// An instance that a descriptor refers to.
fn instance() -> Arc<File> {
    let file = inotify::try_new(OpenFlags::NONBLOCK).unwrap();
    file.add_open();
    file
}

fn of(file: &File) -> &Arc<Instance> {
    &file.downcast::<Inotify>().unwrap().instance
}

fn find(path: &str) -> Path {
    lookup::resolve(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes(), true).unwrap()
}

fn add(file: &File, path: &str, mask: u32) -> Result<i32> {
    watch(of(file), &find(path), mask)
}

/// What a program would read: watch, mask and name of each event.
fn read(file: &File) -> Vec<(i32, u32, String)> {
    let mut bytes = vec![0; 1 << 16];
    let n = file.read(&mut Output::kernel(&mut bytes)).unwrap_or(0);
    let (mut list, mut rest) = (Vec::new(), &bytes[..n]);
    while !rest.is_empty() {
        let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().unwrap());
        let (watch, mask, len) = (word(0) as i32, word(4), word(12) as usize);
        let name = &rest[16..16 + len];
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_string();
        list.push((watch, mask, name));
        rest = &rest[16 + len..];
    }
    list
}

fn open(path: &str) -> usize {
    syscall(abi::__NR_open, &[Memory::of_str(path).address, 0]).unwrap()
}

fn said(watch: i32, mask: u32, name: &str) -> (i32, u32, String) {
    (watch, mask, name.to_string())
}

fn unlink(path: &str) {
    super::super::remove::unlink_at(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes()).unwrap();
}

#[test]
fn a_directory_is_told_of_its_files_by_name_and_a_file_of_itself() {
    in_process(|| {
        make_dir("/d");
        put_file("/d/old", b"x", 0o644);
        let file = instance();
        assert_eq!((add(&file, "/d", ALL), add(&file, "/d/old", ALL)), (Ok(1), Ok(2)));
        assert_eq!(get_file("/d/old").unwrap(), b"x");
        let of_reading = read(&file);
        assert_eq!(of_reading[..2], [said(1, OPEN, "old"), said(2, OPEN, "")]);
        assert_eq!(of_reading.last(), Some(&said(2, CLOSE_NOWRITE, "")));
        put_file("/d/new", b"x", 0o644);
        assert_eq!(read(&file)[..2], [said(1, CREATE, "new"), said(1, OPEN, "new")]);
        file.drop_open();
    });
}

#[test]
fn a_watch_is_changed_added_to_and_refused_as_it_is_asked_for() {
    in_process(|| {
        put_file("/f", b"", 0o644);
        let (file, other) = (instance(), instance());
        assert_eq!(add(&file, "/f", OPEN), Ok(1));
        assert_eq!(add(&other, "/f", OPEN | ACCESS), Ok(1));
        let inode = find("/f").dentry.inode.clone();
        let wants = |mask: u32| inode.watched.wants(mask);
        assert!(wants(OPEN) && wants(ACCESS) && !wants(MODIFY));
        assert_eq!(add(&file, "/f", MODIFY | MASK_ADD), Ok(1));
        assert!(wants(MODIFY));
        assert_eq!(add(&file, "/f", ATTRIB), Ok(1));
        assert!(wants(ATTRIB) && wants(OPEN) && !wants(MODIFY), "the other still wants to know of openings");
        assert_eq!(add(&file, "/f", OPEN | MASK_CREATE), Err(EEXIST));
        assert_eq!(of(&other).unwatch(1), Ok(()));
        assert_eq!(of(&other).unwatch(1), Err(EINVAL));
        assert!(wants(ATTRIB) && !wants(OPEN));
        assert_eq!(read(&other), [said(1, IGNORED, "")]);
        file.drop_open();
        other.drop_open();
        assert!(!wants(ALL) && !inode.watched.is_watched());
    });
}

#[test]
fn numbers_are_not_used_again_and_begin_where_they_are_told_to() {
    in_process(|| {
        let names: Vec<String> = (0..200).map(|n| std::format!("/n{n}")).collect();
        names.iter().for_each(|name| put_file(name, b"", 0o644));
        let file = instance();
        assert_eq!((add(&file, &names[0], OPEN), add(&file, &names[1], OPEN)), (Ok(1), Ok(2)));
        of(&file).unwatch(2).unwrap();
        assert_eq!(add(&file, &names[2], OPEN), Ok(3));
        for (n, name) in names.iter().enumerate().skip(3) {
            assert_eq!(add(&file, name, OPEN), Ok(n as i32 + 1));
        }
        // All from 3 on are used: 201 is the first free one, and 2 after the last.
        of(&file).set_next(3);
        assert_eq!(add(&file, &names[1], OPEN), Ok(201));
        of(&file).set_next(i32::MAX);
        put_file("/m1", b"", 0o644);
        put_file("/m2", b"", 0o644);
        assert_eq!((add(&file, "/m1", OPEN), add(&file, "/m2", OPEN)), (Ok(i32::MAX), Ok(2)));
        file.drop_open();
    });
}

#[test]
fn a_file_ends_its_watches_when_name_and_opener_are_gone() {
    in_process(|| {
        let file = instance();
        put_file("/closed", b"", 0o644);
        put_file("/open", b"", 0o644);
        add(&file, "/closed", ALL).unwrap();
        add(&file, "/open", DELETE_SELF).unwrap();
        unlink("/closed");
        let gone = [said(1, ATTRIB, ""), said(1, DELETE_SELF, ""), said(1, IGNORED, "")];
        assert_eq!(read(&file), gone);
        let fd = open("/open");
        unlink("/open");
        assert_eq!(read(&file), [], "it is open still");
        syscall(abi::__NR_close, &[fd]).unwrap();
        assert_eq!(read(&file), [said(2, DELETE_SELF, ""), said(2, IGNORED, "")]);
        file.drop_open();
    });
}

#[test]
fn one_event_ends_a_watch_that_asked_for_one() {
    in_process(|| {
        put_file("/f", b"", 0o644);
        let file = instance();
        add(&file, "/f", OPEN | CLOSE_NOWRITE | ONESHOT).unwrap();
        get_file("/f").unwrap();
        assert_eq!(read(&file), [said(1, OPEN, ""), said(1, IGNORED, "")]);
        file.drop_open();
    });
}

#[test]
fn who_unmounts_a_file_system_ends_the_watches_in_it() {
    in_process(|| {
        mount_at("tmpfs", "/m");
        put_file("/m/f", b"", 0o644);
        let file = instance();
        let fd = caller::files().install(file.clone(), 0, 64, false).unwrap();
        assert_eq!((add(&file, "/m", OPEN), add(&file, "/m/f", OPEN)), (Ok(1), Ok(2)));
        syscall(abi::__NR_umount2, &[Memory::of_str("/m").address, 0]).unwrap();
        let last =
            [said(2, UNMOUNT, ""), said(2, IGNORED, ""), said(1, UNMOUNT | ISDIR, ""), said(1, IGNORED, "")];
        assert_eq!(read(&file), last);
        caller::files().close(fd).unwrap();
        file.drop_open();
    });
}

/// Watches come and go on several CPUs, by number, by closing, and with their file; none is left, and none ends twice.
#[test]
fn watches_that_end_in_several_ways_at_once_end_once() {
    in_process(|| {
        for round in 0..100 {
            let path = std::format!("/r{round}");
            put_file(&path, b"", 0o644);
            let (file, other) = (instance(), instance());
            add(&file, &path, ALL).unwrap();
            add(&other, &path, ALL | ONESHOT).unwrap();
            let (mine, theirs, name) = (file.clone(), other.clone(), path.clone());
            let by_number = thread(move || of(&mine).unwatch(1).is_ok());
            let by_file = thread(move || {
                get_file(&name).unwrap();
                unlink(&name);
            });
            let by_closing = thread(move || theirs.drop_open());
            by_number.join();
            by_file.join();
            by_closing.join();
            let ends = read(&file).iter().filter(|(_, mask, _)| mask & IGNORED != 0).count();
            assert_eq!(ends, 1);
            file.drop_open();
        }
    });
}
