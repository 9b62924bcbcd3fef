//! Descriptor tables against a plain map, with forks; and what a close does to the file.

use super::*;
use crate::fs::anon::{eventfd, pipe};
use crate::fs::file::OpenFlags;
use crate::fs::vfs::locks::{Owner, Record};
use crate::testing::{check, in_process, thread};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;

const LIMIT: usize = 40;

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
    let (table, fd) = (|| 0usize..4, || prop_oneof![4 => 0usize..8, 1 => 0..LIMIT + 3]);
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
            let fds: Vec<usize> = table.descriptors(0).unwrap().iter().map(|fd| *fd as usize).collect();
            assert_eq!(fds, model.keys().copied().collect::<Vec<_>>());
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
        check(200, &ops(), |ops| {
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
        let lock = |owner| Record { owner, process: 1, start: 0, end: 9, exclusive: true };
        let locks = &file.inode().locks;
        locks.lock_record(lock(table.lock_owner()), None).unwrap();
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
            assert_eq!(table.descriptors(0).unwrap().len(), FIRST);
            assert_eq!(child.descriptors(0).unwrap().len(), FIRST);
        }
        assert_eq!(table.install(file.clone(), 0, LIMIT, false), Ok(FIRST as i32));
        drop((table, child));
        assert!(file.is_closed());
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
        assert_eq!(table.descriptors(0), Ok(Vec::new()));
    });
}
