//! Descriptor tables against a plain map, with forks; and what a close does to the file.

use super::chunk::CHUNK;
use super::*;
use crate::fs::anon::{eventfd, pipe};
use crate::fs::file::OpenFlags;
use crate::fs::vfs::locks::{Owner, Record};
use crate::testing::{check, in_process, thread};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

/// As many as fs.nr_open always allows here.
const END: usize = 1 << 20;
/// More than two chunks.
const LIMIT: usize = 3 * CHUNK - 40;

/// Of each descriptor: which file, and whether exec closes it.
type Model = BTreeMap<usize, (usize, bool)>;

#[derive(Clone, Debug)]
enum Op {
    Install { table: usize, from: usize, close_on_exec: bool },
    InstallAt { table: usize, fd: usize, close_on_exec: bool },
    Close { table: usize, fd: usize },
    Mark { table: usize, fd: usize, close_on_exec: bool },
    Fork { table: usize },
    Exec { table: usize },
    Exit { table: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let at = |edge: usize| edge - 3..edge + 3;
    let fd = move || prop_oneof![4 => 0usize..8, 1 => at(FIRST), 1 => at(CHUNK), 1 => at(2 * CHUNK), 1 => at(LIMIT), 1 => 0..LIMIT];
    let table = || 0usize..4;
    let op = prop_oneof![
        6 => (table(), fd(), any::<bool>())
            .prop_map(|(table, from, close_on_exec)| Op::Install { table, from, close_on_exec }),
        2 => (table(), fd(), any::<bool>())
            .prop_map(|(table, fd, close_on_exec)| Op::InstallAt { table, fd, close_on_exec }),
        4 => (table(), fd()).prop_map(|(table, fd)| Op::Close { table, fd }),
        1 => (table(), fd(), any::<bool>())
            .prop_map(|(table, fd, close_on_exec)| Op::Mark { table, fd, close_on_exec }),
        2 => table().prop_map(|table| Op::Fork { table }),
        1 => table().prop_map(|table| Op::Exec { table }),
        1 => table().prop_map(|table| Op::Exit { table }),
    ];
    prop::collection::vec(op, 1..80)
}

fn file() -> Arc<File> {
    eventfd::try_new(0, false, OpenFlags::empty()).unwrap()
}

fn lowest_free(model: &Model, from: usize) -> usize {
    (from..).find(|fd| !model.contains_key(fd)).unwrap()
}

fn descriptors(table: &FileTable) -> Vec<usize> {
    let mut list = Vec::new();
    table.for_each(|fd| list.push(fd as usize));
    list
}

/// Tables with what should be in them; all files ever made.
struct World {
    tables: Vec<(Arc<FileTable>, Model)>,
    files: Vec<Arc<File>>,
}

impl World {
    fn apply(&mut self, op: &Op) {
        let count = self.tables.len();
        let pick = |table: usize| table % count;
        let new = self.files.len();
        match *op {
            Op::Install { table, from, close_on_exec } => {
                let (table, model) = &mut self.tables[pick(table)];
                let file = file();
                let fd = lowest_free(model, from);
                let expected = if fd < LIMIT { Ok(fd as i32) } else { Err(EMFILE) };
                assert_eq!(table.install(file.clone(), from, LIMIT, close_on_exec), expected);
                self.files.push(file);
                if fd < LIMIT {
                    model.insert(fd, (new, close_on_exec));
                }
            }
            Op::InstallAt { table, fd, close_on_exec } => {
                let (table, model) = &mut self.tables[pick(table)];
                let file = file();
                let expected = if fd < LIMIT { Ok(()) } else { Err(EBADF) };
                assert_eq!(table.install_at(file.clone(), fd as i32, LIMIT, close_on_exec), expected);
                self.files.push(file);
                if fd < LIMIT {
                    model.insert(fd, (new, close_on_exec));
                }
            }
            Op::Close { table, fd } => {
                let (table, model) = &mut self.tables[pick(table)];
                assert_eq!(table.close(fd as i32), model.remove(&fd).map(drop).ok_or(EBADF));
            }
            Op::Mark { table, fd, close_on_exec } => {
                let (table, model) = &mut self.tables[pick(table)];
                let place = model.get_mut(&fd).map(|(_, mark)| *mark = close_on_exec);
                assert_eq!(table.set_close_on_exec(fd as i32, close_on_exec), place.ok_or(EBADF));
            }
            Op::Fork { table } if count < 4 => {
                let (table, model) = &self.tables[pick(table)];
                let child = (table.try_clone().unwrap(), model.clone());
                self.tables.push(child);
            }
            Op::Fork { .. } => {}
            Op::Exec { table } => {
                let (table, model) = &mut self.tables[pick(table)];
                table.exec();
                model.retain(|_, (_, close_on_exec)| !*close_on_exec);
            }
            Op::Exit { table } if count > 1 => drop(self.tables.remove(pick(table))),
            Op::Exit { .. } => {}
        }
    }

    fn check(&self) {
        for (table, model) in &self.tables {
            assert_eq!(descriptors(table), model.keys().copied().collect::<Vec<_>>());
            for (&fd, &(file, close_on_exec)) in model {
                assert!(Arc::ptr_eq(&table.get(fd as i32).unwrap(), &self.files[file]));
                assert_eq!(table.close_on_exec(fd as i32), Ok(close_on_exec));
            }
        }
        for (n, file) in self.files.iter().enumerate() {
            let open = self.tables.iter().any(|(_, model)| model.values().any(|(file, _)| *file == n));
            assert_eq!(file.is_closed(), !open, "file {n}");
        }
    }
}

#[test]
fn tables_agree_with_a_map_however_they_fork() {
    in_process(|| {
        check(100, &ops(), |ops| {
            let first = (FileTable::try_new().unwrap(), Model::new());
            let mut world = World { tables: vec![first], files: Vec::new() };
            for op in &ops {
                world.apply(op);
                world.check();
            }
        });
    });
}

#[test]
fn numbers_that_are_no_descriptors_are_refused() {
    in_process(|| {
        let table = FileTable::try_new().unwrap();
        for fd in [-1, i32::MIN, 0, 15, 16, i32::MAX] {
            assert_eq!(table.get(fd).err(), Some(EBADF));
            assert_eq!(table.close(fd), Err(EBADF));
            assert_eq!(table.close_on_exec(fd), Err(EBADF));
        }
        assert_eq!(table.install_at(file(), -1, LIMIT, false), Err(EBADF));
        // No table is larger, whatever the limit.
        assert_eq!(table.install(file(), most(), usize::MAX, false), Err(EMFILE));
        assert_eq!(table.install_at(file(), most() as i32, usize::MAX, false), Err(EBADF));
    });
}

#[test]
fn a_thread_that_has_its_table_alone_counts_no_file_that_it_looks_at() {
    in_process(|| {
        let (me, file) = (crate::process::current(), file());
        let fd = me.files().install(file.clone(), 0, LIMIT, false).unwrap();
        assert_eq!(Arc::strong_count(&file), 2);
        let lent = me.file(fd).unwrap();
        // A child's image is copied when either changes its own.
        let child = crate::testing::fork(move || {
            let me = crate::process::current();
            me.files().close(fd).unwrap();
            assert_eq!(me.file(fd).err(), Some(EBADF));
        });
        assert_eq!(child.wait(), 0);
        let other =
            me.files().install(eventfd::try_new(0, false, OpenFlags::empty()).unwrap(), 0, LIMIT, false);
        assert_eq!(lent.inode().number, file.inode().number);
        drop(lent);
        assert!(!me.files().lender().is_lending());
        me.files().close(other.unwrap()).unwrap();
        me.files().close(fd).unwrap();
        // Where a thread has the table too, a file is counted. It is one that the child never had, whose table may go later.
        let shared = self::file();
        let other = me.files().install(shared.clone(), 0, LIMIT, false).unwrap();
        let counted = thread(move || {
            let lent = crate::process::current().file(other).unwrap();
            let lends = crate::process::current().files().lender().is_lending();
            drop(lent);
            lends
        });
        assert!(!counted.join());
        assert_eq!(Arc::strong_count(&shared), 2);
        me.files().close(other).unwrap();
        for fd in [fd, -1, i32::MIN, i32::MAX] {
            assert_eq!(me.file(fd).err(), Some(EBADF));
        }
    });
}

#[test]
fn the_last_close_is_the_files_end_though_a_read_holds_it() {
    in_process(|| {
        let (reader, writer) = pipe::pair(OpenFlags::NONBLOCK).unwrap();
        let table = FileTable::try_new().unwrap();
        let fd = table.install(writer.clone(), 0, LIMIT, false).unwrap();
        let child = table.try_clone().unwrap();
        let read = |buffer: &mut [u8]| reader.read(&mut crate::fs::file::buffer::Output::kernel(buffer));
        table.close(fd).unwrap();
        assert_eq!(read(&mut [0]), Err(crate::errno::EAGAIN), "the child has it open");
        drop(child);
        assert_eq!(read(&mut [0]), Ok(0));
    });
}

#[test]
fn any_close_gives_up_the_processs_record_locks_on_the_file() {
    in_process(|| {
        let table = FileTable::try_new().unwrap();
        let file = file();
        let fds = [0; 2].map(|_| table.install(file.clone(), 0, LIMIT, false).unwrap());
        let lock =
            |owner| Record { owner, by: file.lock_holder(), process: 1, start: 0, end: 9, exclusive: true };
        let locks = &file.inode().locks;
        locks.lock_record(file.inode().place(), lock(table.lock_owner()), None).unwrap();
        assert!(locks.conflict(&lock(Owner::of_open_file(0))).is_some());
        table.close(fds[1]).unwrap();
        assert!(locks.conflict(&lock(Owner::of_open_file(0))).is_none());
    });
}

#[test]
fn without_memory_a_table_stays_as_it_was() {
    in_process(|| {
        let table = FileTable::try_new().unwrap();
        let file = file();
        for n in 0..FIRST {
            assert_eq!(table.install(file.clone(), 0, LIMIT, false), Ok(n as i32));
        }
        let child = table.try_clone().unwrap();
        for n in 0..3 {
            sync::heap::hosted::fail_after(n, || {
                assert!(table.install(file.clone(), 0, LIMIT, false).is_err());
                assert!(child.close(3).is_err());
            });
            assert_eq!(descriptors(&table).len(), FIRST);
            assert_eq!(descriptors(&child).len(), FIRST);
        }
        assert_eq!(table.install(file.clone(), 0, LIMIT, false), Ok(FIRST as i32));
        let far = CHUNK as i32 + 3;
        let mut failures = 0;
        let install = || child.install_at(file.clone(), far, LIMIT, false);
        while sync::heap::hosted::fail_after(failures, install).is_err() {
            assert_eq!(descriptors(&child).len(), FIRST);
            failures += 1;
        }
        assert!(failures > 3);
        assert_eq!(descriptors(&child).len(), FIRST + 1);
        drop((table, child));
        assert!(file.is_closed());
    });
}

#[test]
fn a_file_that_was_found_just_before_its_last_close_gets_no_descriptor_any_more() {
    in_process(|| {
        let (table, file) = (FileTable::try_new().unwrap(), file());
        assert_eq!(table.install(file.clone(), 0, LIMIT, false), Ok(0));
        assert_eq!(table.duplicate(file.clone(), 0, LIMIT, false), Ok(1));
        let kept = file.keep_open().unwrap();
        table.close(0).unwrap();
        table.close(1).unwrap();
        assert!(!file.is_closed(), "a call keeps it open");
        drop(kept);
        assert!(file.is_closed());
        assert_eq!(table.duplicate(file.clone(), 0, LIMIT, false), Err(EBADF));
        assert_eq!(table.duplicate_at(file.clone(), 1, LIMIT, false), Err(EBADF));
        assert_eq!(descriptors(&table), []);
    });
}

#[test]
fn threads_that_open_and_close_at_once_never_get_one_descriptor_twice() {
    in_process(|| {
        let table = FileTable::try_new().unwrap();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let table = table.clone();
                thread(move || {
                    for _ in 0..150 {
                        let mine = file();
                        let fd = table.install(mine.clone(), 0, LIMIT, false).unwrap();
                        assert!(Arc::ptr_eq(&table.get(fd).unwrap(), &mine));
                        table.close(fd).unwrap();
                        assert!(mine.is_closed());
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join());
        assert_eq!(descriptors(&table), []);
    });
}

/// A table with every descriptor below `end`, all of one file.
fn full_table(file: &Arc<File>, end: usize) -> Arc<FileTable> {
    let table = FileTable::try_new().unwrap();
    for n in 0..end {
        assert_eq!(table.install(file.clone(), 0, END, false), Ok(n as i32));
    }
    table
}

#[test]
fn the_lowest_free_descriptor_is_found_behind_full_chunks() {
    in_process(|| {
        let file = file();
        let end = 5 * CHUNK;
        let table = full_table(&file, end);
        assert_eq!(table.size(), 8 * CHUNK, "a power of two");
        let holes = [CHUNK - 1, CHUNK, 2 * CHUNK + 63, 2 * CHUNK + 64, 4 * CHUNK - 1];
        for hole in holes {
            table.close(hole as i32).unwrap();
            assert_eq!(table.next_used(hole), Some(hole as i32 + 1));
        }
        let from = 2 * CHUNK + 64;
        assert_eq!(table.install(file.clone(), from, END, false), Ok(from as i32));
        assert_eq!(table.install(file.clone(), from, END, false), Ok(4 * CHUNK as i32 - 1));
        assert_eq!(table.install(file.clone(), from, end, false), Err(EMFILE));
        for hole in holes.into_iter().take(3) {
            assert_eq!(table.install(file.clone(), 0, END, false), Ok(hole as i32));
        }
        assert_eq!(table.install(file.clone(), 0, end, false), Err(EMFILE));
        assert_eq!(table.install(file, 0, END, false), Ok(end as i32));
    });
}

#[test]
fn the_last_descriptor_of_all_can_be_had_and_nothing_lies_between() {
    in_process(|| {
        let (table, file) = (FileTable::try_new().unwrap(), file());
        let last = END as i32 - 1;
        assert_eq!(table.install_at(file.clone(), last, END, true), Ok(()));
        assert_eq!(table.install(file.clone(), 0, END, false), Ok(0));
        assert_eq!(table.install(file.clone(), END - 1, END, false), Err(EMFILE));
        assert_eq!(table.install(file.clone(), END - 2, END, false), Ok(last - 1));
        assert_eq!(descriptors(&table), [0, END - 2, END - 1]);
        assert_eq!(table.size(), END);
        for missing in [CHUNK, 2 * CHUNK, END - 3] {
            assert_eq!(table.get(missing as i32).err(), Some(EBADF));
            assert_eq!(table.close(missing as i32), Err(EBADF));
        }
        table.exec();
        assert_eq!(descriptors(&table), [0, END - 2]);
    });
}

/// With fs.nr_open at its highest.
#[test]
fn descriptors_lie_as_far_as_a_number_goes() {
    in_process(|| {
        let before = limits::NR_OPEN.get();
        limits::NR_OPEN.set(*limits::NR_OPEN_RANGE.end());
        let (table, file) = (FileTable::try_new().unwrap(), file());
        let far: Vec<usize> = (0..4).map(|n| (1 << 30) + n * (1 << 28)).collect();
        for &fd in &far {
            assert_eq!(table.install_at(file.clone(), fd as i32, most(), false), Ok(()));
            assert_eq!(table.install(file.clone(), fd, most(), false), Ok(fd as i32 + 1));
        }
        let ends: Vec<usize> = far.iter().flat_map(|&fd| [fd, fd + 1]).collect();
        assert_eq!(descriptors(&table), ends);
        assert_eq!(table.size(), 1 << 31);
        let child = table.try_clone().unwrap();
        child.close(far[1] as i32).unwrap();
        assert_eq!(descriptors(&table), ends);
        assert_eq!(descriptors(&child).len(), ends.len() - 1);
        assert_eq!(file.opens.load(Relaxed) as usize, ends.len() + 1, "one chunk was copied");
        assert_eq!(child.install(file.clone(), far[1], most(), false), Ok(far[1] as i32));
        drop((table, child));
        assert!(file.is_closed());
        limits::NR_OPEN.set(before);
    });
}

#[test]
fn a_change_after_fork_copies_one_chunk_and_closes_nothing_of_the_others() {
    in_process(|| {
        let file = file();
        let end = 3 * CHUNK;
        let parent = full_table(&file, end);
        let child = parent.try_clone().unwrap();
        child.close(CHUNK as i32).unwrap();
        let opens = file.opens.load(Relaxed) as usize;
        // The child's first places, and the rest of the one chunk.
        assert_eq!(opens, end + CHUNK + (CHUNK - 1));
        assert!(parent.get(CHUNK as i32).is_ok());
        drop(parent);
        assert_eq!(file.opens.load(Relaxed) as usize, end - 1);
        drop(child);
        assert!(file.is_closed());
    });
}

#[test]
fn a_lookup_in_the_image_that_a_table_left_still_finds_what_the_last_user_of_it_closed() {
    in_process(|| {
        let file = file();
        let table = full_table(&file, CHUNK + 1);
        let child = table.try_clone().unwrap();
        let read = sync::rcu::read();
        let image = table.image(&read).unwrap();
        table.close(5).unwrap();
        drop(child);
        for fd in [0, 5, CHUNK] {
            assert!(image.slot(fd, &read).is_some_and(|slot| slot.file.load(&read).is_some()), "{fd}");
        }
    });
}
