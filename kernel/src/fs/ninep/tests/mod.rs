//! The whole of it against a server that a test plays (`server`): an honest one, and one that lies in every byte.

mod back;
mod requests;
mod server;
mod writing;

use std::boxed::Box;
use std::string::String;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use self::server::{Bytes, Fake, File, ROOT, answer, attributes, pattern, qid, text};
use super::client::let_go_all;
use super::inode::node_of;
use super::message::{self, Ask, Reader, Writer};
use super::options::Options;
use super::{NINEP, make};
use crate::errno::*;
use crate::fs::vfs::inode::{Inode, Kind};
use crate::fs::vfs::operations::Validity;
use crate::fs::vfs::superblock::SuperBlock;
use crate::testing::{in_process, thread};

fn mount(fake: &Fake) -> Result<Arc<SuperBlock>> {
    mount_with(fake, b"")
}

fn mount_with(fake: &Fake, options: &[u8]) -> Result<Arc<SuperBlock>> {
    make(&NINEP, Options::parse(options).unwrap(), Box::new(fake.clone()))
}

fn root(superblock: &SuperBlock) -> Arc<Inode> {
    superblock.root().unwrap().inode.clone()
}

fn look(dir: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
    dir.ops.lookup(dir, name)
}

fn contents(inode: &Inode) -> Result<Bytes> {
    let object = inode.object().unwrap();
    let mut out = Bytes::new();
    object.read(0, usize::MAX >> 1, |bytes| {
        let mut piece = vec![0; bytes.len()];
        bytes.copy_to(&mut piece);
        out.extend(piece);
        bytes.len()
    })?;
    Ok(out)
}

fn list(dir: &Inode) -> Result<Vec<String>> {
    let mut names = Vec::new();
    dir.ops.read_dir(dir, 2, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        true
    })?;
    Ok(names)
}

#[test]
fn files_are_what_the_server_says() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let file = look(&root, b"file").unwrap();
        assert_eq!((file.kind, file.mode(), file.uid(), file.gid()), (Kind::Regular, 0o644, 1000, 100));
        assert_eq!((file.size(), file.ops.blocks(&file), file.number), (100_001, 196, 8));
        assert_eq!(file.times(), (5_000_000_500, 6_000_000_600, 7_000_000_700));
        assert!(Arc::ptr_eq(&file, &look(&root, b"again").unwrap()), "names of a file lead to one inode");
        assert!(contents(&file).unwrap() == pattern(100_001, 1));
        let link = look(&root, b"link").unwrap();
        assert_eq!(link.ops.read_link(&link).unwrap(), b"file");
        assert_eq!(look(&root, b"\xff\xfe").unwrap().kind, Kind::Fifo);
        assert_eq!(look(&root, b"none").err(), Some(ENOENT));
        let sizes = superblock.ops.statfs(&superblock).unwrap();
        assert_eq!((sizes.blocks, sizes.free, sizes.reserved, sizes.files), (250, 100, 25, 50));
        let long = String::from_utf8(vec![b'n'; 255]).unwrap();
        assert_eq!(list(&root).unwrap(), ["file", "link", "dir", "again", &long, "\u{fffd}\u{fffd}"]);
        assert_eq!(list(&look(&root, b"dir").unwrap()).unwrap(), Vec::<String>::new());
    });
}

#[test]
fn an_answer_may_be_shorter_than_what_was_asked_for() {
    in_process(|| {
        for short in [1000, 4095, 4096, 4097, 10_000] {
            let fake = Fake::new();
            fake.lock().short = short;
            let superblock = mount(&fake).unwrap();
            let file = look(&root(&superblock), b"file").unwrap();
            assert!(contents(&file).unwrap() == pattern(100_001, 1), "{short} bytes at a time");
            assert_eq!(list(&root(&superblock)).unwrap().len(), 6);
        }
    });
}

#[test]
fn a_run_of_pages_is_one_message() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let file = look(&root(&superblock), b"file").unwrap();
        fake.lock().asked.clear();
        contents(&file).unwrap();
        let reads = fake.lock().asked.iter().filter(|kind| **kind == Ask::Read as u8).count();
        assert!(reads <= 4, "25 pages in {reads} messages");
        contents(&file).unwrap();
        assert_eq!(fake.lock().asked.iter().filter(|kind| **kind == Ask::Read as u8).count(), reads);
    });
}

#[test]
fn what_has_changed_is_seen_when_the_server_is_asked_again() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let file = look(&root, b"file").unwrap();
        contents(&file).unwrap();
        let before = file.version();
        {
            let mut state = fake.lock();
            let file = state.files.get_mut(&8).unwrap();
            (file.bytes, file.version) = (pattern(5000, 9), 2);
        }
        // Believed for a second.
        file.refresh().unwrap();
        assert_eq!(file.size(), 100_001);
        assert_eq!(root.ops.revalidate(&root, b"file", Some(&file)), Ok(Validity::Valid));
        assert_eq!(file.size(), 5000);
        assert_ne!(file.version(), before);
        assert!(contents(&file).unwrap() == pattern(5000, 9));
        // The name leads elsewhere; then nowhere.
        let change = |change: &dyn Fn(&mut File)| {
            let mut state = fake.lock();
            let dir = state.files.get_mut(&ROOT).unwrap();
            change(dir);
            dir.version += 1;
            node_of(&root).unwrap().expire();
        };
        change(&|dir| dir.names[2].1 = 11);
        assert_eq!(root.ops.revalidate(&root, b"file", Some(&file)), Ok(Validity::Stale));
        assert_eq!(root.ops.revalidate(&root, b"file", None), Ok(Validity::Stale));
        change(&|dir| drop(dir.names.remove(2)));
        assert_eq!(root.ops.revalidate(&root, b"file", Some(&file)), Ok(Validity::Stale));
        assert_eq!(root.ops.revalidate(&root, b"file", None), Ok(Validity::Valid));
    });
}

#[test]
fn what_is_open_stays_though_no_name_leads_to_it() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let [open, closed] = [&b"file"[..], b"dir"].map(|name| look(&root, name).unwrap());
        contents(&open).unwrap();
        [&open, &closed].iter().for_each(|inode| node_of(inode).unwrap().expire());
        fake.lock().unlinked = Some(8);
        assert_eq!((open.refresh(), open.size()), (Ok(()), 100_001));
        fake.lock().unlinked = Some(10);
        assert_eq!(closed.refresh(), Err(ENOENT));
    });
}

#[test]
fn a_number_that_is_another_files_by_now_leads_to_another_inode() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let root = root(&superblock);
        let file = look(&root, b"file").unwrap();
        fake.lock().files.get_mut(&8).unwrap().mode = 0o140_600;
        let socket = look(&root, b"file").unwrap();
        assert_eq!((file.kind, socket.kind, socket.number), (Kind::Regular, Kind::Socket, 8));
    });
}

#[test]
fn the_server_is_told_of_every_fid_that_nobody_uses_any_more() {
    in_process(|| {
        let fake = Fake::new();
        let superblock = mount(&fake).unwrap();
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let root = root(&superblock);
                thread(move || {
                    for _ in 0..50 {
                        let name: &[u8] = [&b"file"[..], b"link", b"dir", b"none"][n];
                        let Ok(inode) = look(&root, name) else { continue };
                        match inode.kind {
                            Kind::Regular => assert!(contents(&inode).unwrap() == pattern(100_001, 1)),
                            Kind::Directory => drop(list(&inode).unwrap()),
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(crate::testing::Joining::join);
        let most = fake.lock().fids.keys().copied().max().unwrap();
        let_go_all();
        for _ in 0..100 {
            let _ = look(&root(&superblock), b"link").unwrap();
            let_go_all();
        }
        assert!(fake.lock().fids.keys().copied().max().unwrap() <= most, "numbers are used again");
        drop(superblock);
        crate::testing::until(|| {
            let_go_all();
            fake.lock().fids.is_empty()
        });
    });
}

/// Does something of everything; whatever comes of it.
fn use_all(fake: &Fake) {
    let Ok(superblock) = mount(fake) else { return };
    let root = root(&superblock);
    let _ = superblock.ops.statfs(&superblock);
    let _ = list(&root);
    for name in [&b"file"[..], b"link", b"dir", b"none"] {
        let Ok(inode) = look(&root, name) else { continue };
        let _ = root.ops.revalidate(&root, name, Some(&inode));
        let _ = inode.refresh();
        match inode.kind {
            // A size of a server that lies may be any.
            Kind::Regular if inode.size() < 1 << 20 => drop(contents(&inode)),
            Kind::Symlink => drop(inode.ops.read_link(&inode)),
            Kind::Directory => drop(list(&inode)),
            _ => {}
        }
    }
}

#[test]
fn no_byte_of_an_answer_harms_the_kernel() {
    in_process(|| {
        for at in 0..220 {
            for value in [0u8, 1, 0x7f, 0xff] {
                let fake = Fake::new();
                fake.lock().lie = Some(Box::new(move |_, said| {
                    if let Some(byte) = said.get_mut(at) {
                        *byte = value;
                    }
                }));
                use_all(&fake);
                fake.lock().lie = None;
                let_go_all();
            }
        }
    });
}

#[test]
fn an_answer_that_is_cut_off_or_too_long_is_an_error() {
    in_process(|| {
        let kinds =
            [Ask::Statfs, Ask::Open, Ask::ReadLink, Ask::Attributes, Ask::ReadDir, Ask::Walk, Ask::Read];
        for lied in kinds {
            for change in [-1isize, 1, -100] {
                let fake = Fake::new();
                let superblock = mount(&fake).unwrap();
                let root = root(&superblock);
                let found: Vec<_> = [&b"file"[..], b"link"].map(|name| look(&root, name).unwrap()).into();
                fake.lock().lie = Some(Box::new(move |kind, said| {
                    if kind == lied as u8 {
                        let len = said.len().saturating_add_signed(change).max(5);
                        said.resize(len, 0);
                        let size = (len as u32).to_le_bytes();
                        said[..4].copy_from_slice(&size);
                    }
                }));
                let got = match lied {
                    Ask::Statfs => superblock.ops.statfs(&superblock).err(),
                    Ask::ReadLink => found[1].ops.read_link(&found[1]).err(),
                    Ask::ReadDir => list(&root).err(),
                    Ask::Read | Ask::Open => contents(&found[0]).err(),
                    _ => look(&root, b"dir").err(),
                };
                assert_eq!(got, Some(EIO), "{lied:?}, {change} bytes");
            }
        }
    });
}

/// Each parser, on an answer that it takes, on each part of that, and on what goes on behind it.
#[test]
fn fields_are_read_as_far_as_they_go_and_no_further() {
    type Parse = fn(Reader<'_>) -> Result;
    let file = File { mode: 0o100_644, version: 3, bytes: vec![0; 10], ..File::default() };
    let qid = qid(5, &file);
    let walked = [&1u16.to_le_bytes()[..], &qid].concat();
    let opened = [&qid[..], &[0; 4]].concat();
    let all: [(Bytes, Parse); 7] = [
        ([&8192u32.to_le_bytes()[..], &text(b"9P2000.L")].concat(), |a| message::version(a).map(drop)),
        (qid, |a| message::attached(a).map(drop)),
        (walked, |a| message::walked(a).map(drop)),
        (0u16.to_le_bytes().to_vec(), message::copied),
        (opened, |a| message::opened(a).map(drop)),
        (attributes(5, &file), |a| message::attributes(a).map(drop)),
        (text(b"to"), |a| message::link(a).map(drop)),
    ];
    for (fields, parse) in all {
        let parse_all = |fields: &[u8]| {
            let said = answer(Ask::Walk as u8 + 1, 9, fields);
            Reader::new(&said, said.len(), Ask::Walk, 9).and_then(parse)
        };
        assert_eq!(parse_all(&fields), Ok(()));
        for len in 0..fields.len() {
            assert_eq!(parse_all(&fields[..len]), Err(EIO));
        }
        assert_eq!(parse_all(&[&fields[..], &[0]].concat()), Err(EIO));
    }
}

#[test]
fn an_answer_belongs_to_its_question() {
    let said = answer(111, 9, &[0, 0]);
    let read = |bytes: &[u8], written, kind, tag| Reader::new(bytes, written, kind, tag).err();
    assert_eq!(read(&said, 9, Ask::Walk, 9), None);
    for (written, kind, tag) in [(8, Ask::Walk, 9), (10, Ask::Walk, 9), (9, Ask::Open, 9), (9, Ask::Walk, 8)]
    {
        assert_eq!(read(&said, written, kind, tag), Some(EIO), "{written} {kind:?} {tag}");
    }
    for len in 0..7 {
        assert_eq!(read(&said[..len], len, Ask::Walk, 9), Some(EIO));
    }
    for (number, error) in [(2, ENOENT), (13, EACCES), (116, ESTALE), (0, EIO), (512, EIO), (524, EIO)] {
        let said = answer(7, 9, &u32::to_le_bytes(number));
        assert_eq!(read(&said, 11, Ask::Walk, 9), Some(error), "{number}");
    }
    let said = answer(7, 9, &[2, 0, 0, 0, 0]);
    assert_eq!(read(&said, 12, Ask::Walk, 9), Some(EIO));
}

#[test]
fn names_that_are_none_are_no_entries() {
    let entry = |name: &[u8]| [&[0u8; 13][..], &3u64.to_le_bytes(), &[8], &text(name)].concat();
    let first = |bytes: &[u8]| {
        message::entry(&mut message::entries(bytes)).map(|found| found.map(|e| (e.next, e.kind)))
    };
    assert_eq!(first(&[]), Ok(None));
    assert_eq!(first(&entry(b"a")), Ok(Some((3, Kind::Regular))));
    let whole = entry(&[b'x'; 255]);
    assert!(first(&whole).is_ok());
    for len in 1..whole.len() {
        assert_eq!(first(&whole[..len]), Err(EIO));
    }
    for name in [&b""[..], b"a/b", b"a\0", &[b'x'; 256]] {
        assert_eq!(first(&entry(name)), Err(EIO));
    }
}

#[test]
fn a_message_that_does_not_fit_is_not_sent() {
    let mut room = [0; 20];
    let mut message = Writer::new(&mut room, Ask::Walk, 3);
    message.u32(1).text(b"1234567");
    assert_eq!(message.end(), Ok(20));
    assert_eq!(room[..7], [20, 0, 0, 0, 110, 3, 0]);
    for len in 0..20 {
        let mut message = Writer::new(&mut room[..len], Ask::Walk, 3);
        message.u32(1).text(b"1234567");
        assert_eq!(message.end(), Err(EIO));
    }
    let mut room = vec![0; 1 << 17];
    let mut message = Writer::new(&mut room, Ask::Walk, 3);
    message.text(&[0; 1 << 16]);
    assert_eq!(message.end(), Err(EIO));
}
