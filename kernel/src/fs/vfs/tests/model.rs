//! Random operations on tmpfs and on the test's file system, cached and revalidated, beside a plain tree in memory: results and final
//! trees must be equal.

use proptest::prelude::*;
use std::collections::BTreeMap;

use super::super::cache::Cache;
use super::super::rename::{EXCHANGE, NO_REPLACE};
use super::super::superblock::Mounting;
use super::*;
use crate::errno::*;
use crate::fs::{overlay, tmpfs};
use crate::testing::in_process;

/// Runs `test` on `cases` values; one that fails is made smaller.
fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let config = proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() };
    let run = |value| {
        test(value);
        Ok(())
    };
    if let Err(failure) = proptest::test_runner::TestRunner::new(config).run(strategy, run) {
        panic!("{failure}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Create(String),
    Mkdir(String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, u32),
    Find(String),
    List(String),
    /// Of the cache; the tree does not change.
    Shrink(usize),
    /// Hold what is there until the end.
    Hold(String),
}

/// One to three names.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&["a", "b", "c"][..]), 1..4).prop_map(|names| names.join("/"))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => path().prop_map(Op::Create),
        4 => path().prop_map(Op::Mkdir),
        1 => (path(), path()).prop_map(|(a, b)| Op::Link(a, b)),
        2 => path().prop_map(Op::Unlink),
        2 => path().prop_map(Op::Rmdir),
        4 => (path(), path(), prop::sample::select(&[0, NO_REPLACE, EXCHANGE][..]))
            .prop_map(|(a, b, flags)| Op::Rename(a, b, flags)),
        3 => path().prop_map(Op::Find),
        1 => path().prop_map(Op::List),
        2 => (1usize..8).prop_map(Op::Shrink),
        1 => path().prop_map(Op::Hold),
    ]
}

/// What has a name: a directory, or a file by its number.
#[derive(Clone, PartialEq, Debug)]
enum Thing {
    Dir(BTreeMap<String, Thing>),
    File(u32),
}

struct Model {
    root: Thing,
    files: u32,
}

type Names = BTreeMap<String, Thing>;

impl Model {
    fn dir(&mut self, path: &[&str]) -> Result<&mut Names> {
        let mut here = &mut self.root;
        for name in path {
            let Thing::Dir(names) = here else { return Err(ENOTDIR) };
            here = names.get_mut(*name).ok_or(ENOENT)?;
        }
        match here {
            Thing::Dir(names) => Ok(names),
            Thing::File(_) => Err(ENOTDIR),
        }
    }

    /// The directory of a path, and its last name.
    fn parent<'a>(&mut self, path: &'a str) -> Result<(&mut Names, &'a str)> {
        let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
        let above: Vec<&str> = above.split('/').filter(|n| !n.is_empty()).collect();
        Ok((self.dir(&above)?, last))
    }

    fn get(&mut self, path: &str) -> Result<&Thing> {
        let (names, last) = self.parent(path)?;
        names.get(last).ok_or(ENOENT)
    }

    fn put(&mut self, path: &str, thing: Thing) -> Result {
        let (names, last) = self.parent(path)?;
        names.insert(last.into(), thing);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, flags: u32) -> Result {
        self.parent(from)?;
        self.parent(to)?;
        let source = self.get(from)?.clone();
        let target = self.get(to).ok().cloned();
        let is_below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        if target.is_some() && flags == NO_REPLACE {
            return Err(EEXIST);
        }
        if target.is_none() && flags == EXCHANGE {
            return Err(ENOENT);
        }
        if is_below(to, from) {
            return Err(EINVAL);
        }
        if is_below(from, to) {
            return Err(if flags == EXCHANGE { EINVAL } else { ENOTEMPTY });
        }
        let same_file = matches!((&source, &target), (Thing::File(a), Some(Thing::File(b))) if a == b);
        if from == to || same_file {
            return Ok(());
        }
        if flags != EXCHANGE {
            match (&source, &target) {
                (Thing::Dir(_), Some(Thing::File(_))) => return Err(ENOTDIR),
                (Thing::File(_), Some(Thing::Dir(_))) => return Err(EISDIR),
                (_, Some(Thing::Dir(names))) if !names.is_empty() => return Err(ENOTEMPTY),
                _ => {}
            }
        }
        let (names, last) = self.parent(from)?;
        names.remove(last);
        if let Some(other) = target.filter(|_| flags == EXCHANGE) {
            self.put(from, other)?;
        }
        self.put(to, source)
    }

    fn run(&mut self, op: &Op) -> Result<Vec<String>> {
        match op {
            Op::Create(path) | Op::Mkdir(path) => {
                let (names, last) = self.parent(path)?;
                if names.contains_key(last) {
                    return Err(EEXIST);
                }
                let is_dir = matches!(op, Op::Mkdir(_));
                self.files += 1;
                let thing = if is_dir { Thing::Dir(Names::new()) } else { Thing::File(self.files) };
                self.put(path, thing)?;
            }
            Op::Link(old, new) => {
                let thing = self.get(old)?.clone();
                let (names, last) = self.parent(new)?;
                if names.contains_key(last) {
                    return Err(EEXIST);
                }
                if matches!(thing, Thing::Dir(_)) {
                    return Err(EPERM);
                }
                self.put(new, thing)?;
            }
            Op::Unlink(path) => {
                if matches!(self.get(path)?, Thing::Dir(_)) {
                    return Err(EISDIR);
                }
                let (names, last) = self.parent(path)?;
                names.remove(last);
            }
            Op::Rmdir(path) => {
                match self.get(path)? {
                    Thing::File(_) => return Err(ENOTDIR),
                    Thing::Dir(names) if !names.is_empty() => return Err(ENOTEMPTY),
                    Thing::Dir(_) => {}
                }
                let (names, last) = self.parent(path)?;
                names.remove(last);
            }
            Op::Rename(from, to, flags) => self.rename(from, to, *flags)?,
            Op::Find(path) => drop(self.get(path)?),
            Op::List(path) => match self.get(path)? {
                Thing::File(_) => return Err(ENOTDIR),
                Thing::Dir(names) => return Ok(names.keys().cloned().collect()),
            },
            Op::Shrink(_) | Op::Hold(_) => {}
        }
        Ok(Vec::new())
    }
}

fn run(op: &Op, names: Option<&NameCache>, held: &mut Vec<Path>) -> Result<Vec<String>> {
    match op {
        Op::Create(path) => create(path)?,
        Op::Mkdir(path) => mkdir(path)?,
        Op::Link(old, new) => link(old, new)?,
        Op::Unlink(path) => unlink(path)?,
        Op::Rmdir(path) => rmdir(path)?,
        Op::Rename(from, to, flags) => mv(from, to, *flags)?,
        Op::Find(path) => drop(number(path)?),
        Op::List(path) => {
            let mut names = list(path)?;
            names.sort();
            return Ok(names);
        }
        Op::Shrink(count) => {
            if let Some(names) = names {
                names.shrink(*count);
            }
        }
        Op::Hold(path) => held.extend(find(path)),
    }
    Ok(Vec::new())
}

/// The tree as walks and listings show it. `numbers`: of the files, by the numbers that the model gives them.
fn compare(path: &str, thing: &Thing, numbers: &mut BTreeMap<u32, u64>) {
    match thing {
        Thing::File(file) => {
            let found = number(path).unwrap();
            assert_eq!(*numbers.entry(*file).or_insert(found), found, "{path} is another file");
        }
        Thing::Dir(names) => {
            let mut listed = list(path).unwrap();
            listed.sort();
            assert_eq!(listed, names.keys().cloned().collect::<Vec<_>>(), "in {path}");
            for (name, below) in names {
                compare(&std::format!("{path}/{name}"), below, numbers);
            }
        }
    }
}

/// The link count that stat shows.
fn links(path: &str) -> u32 {
    let place = find(path).unwrap();
    place.dentry.inode.refresh().unwrap();
    place.dentry.inode.links()
}

/// Link counts of directories and files.
fn compare_links(path: &str, names: &Names, files: &mut BTreeMap<u32, (String, u32)>) {
    let dirs = names.values().filter(|thing| matches!(thing, Thing::Dir(_))).count() as u32;
    assert_eq!(links(path), 2 + dirs, "{path}");
    for (name, thing) in names {
        let path = std::format!("{path}/{name}");
        match thing {
            Thing::Dir(names) => compare_links(&path, names, files),
            Thing::File(file) => files.entry(*file).or_insert((path, 0)).1 += 1,
        }
    }
}

fn play(names: Option<&NameCache>, ops: &[Op]) {
    play_on(&mut Model { root: Thing::Dir(Names::new()), files: 0 }, names, ops);
}

fn play_on(model: &mut Model, names: Option<&NameCache>, ops: &[Op]) {
    let mut held = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        assert_eq!(run(op, names, &mut held), model.run(op), "operation {i}, {op:?}, of {ops:?}");
    }
    compare(".", &model.root, &mut BTreeMap::new());
    drop(held);
    compare(".", &model.root, &mut BTreeMap::new());
}

#[test]
fn random_operations_on_tmpfs_do_what_they_do_to_a_plain_tree() {
    in_process(|| {
        check(200, &prop::collection::vec(op(), 1..60), |ops| {
            enter(
                &(tmpfs::TMPFS.mount)(
                    &tmpfs::TMPFS,
                    &Mounting { options: b"mode=755", ..Mounting::default() },
                )
                .unwrap(),
            );
            play(None, &ops);
        });
    });
}

#[test]
fn random_operations_on_cached_names_do_what_they_do_to_a_plain_tree() {
    for (cache, lifetime) in [(Cache::Cached, 0), (Cache::Revalidated, 0), (Cache::Revalidated, u64::MAX)] {
        in_process(move || {
            check(150, &prop::collection::vec(op(), 1..60), |ops| {
                let world = World::new(cache);
                *super::testfs::lock(&world.fs.lifetime) = lifetime;
                play(Some(world.names()), &ops);
            });
        });
    }
}

#[test]
fn random_operations_on_an_overlay_do_what_they_do_to_a_plain_tree_and_nothing_below() {
    for lifetime in [0, u64::MAX] {
        in_process(move || {
            let (before, after) = (prop::collection::vec(op(), 1..40), prop::collection::vec(op(), 1..60));
            check(250, &(before, after), |(before, after)| {
                let world = World::new(Cache::Revalidated);
                *super::testfs::lock(&world.fs.lifetime) = lifetime;
                let mut model = Model { root: Thing::Dir(Names::new()), files: 0 };
                play_on(&mut model, None, &before);
                let below = world.fs.elsewhere(|tree| tree.nodes.clone());
                let above = overlay::over(&world.superblock).unwrap();
                enter(&above);
                let Thing::Dir(names) = &model.root else { return };
                compare_links(".", names, &mut BTreeMap::new());
                play_on(&mut model, above.names.as_deref(), &after);
                let (Thing::Dir(names), mut files) = (&model.root, BTreeMap::new()) else { return };
                compare_links(".", names, &mut files);
                for (path, count) in files.into_values() {
                    assert_eq!(links(&path), count, "{path}");
                }
                assert!(world.fs.elsewhere(|tree| tree.nodes == below), "something below was changed");
            });
        });
    }
}

#[test]
fn half_of_the_operations_may_happen_elsewhere() {
    in_process(|| {
        check(150, &prop::collection::vec((op(), any::<bool>()), 1..60), |ops| {
            let world = World::new(Cache::Revalidated);
            // A second kernel on the same tree, so to speak: another super block with a cache of its own.
            let theirs = world.fs.again();
            let mut model = Model { root: Thing::Dir(Names::new()), files: 0 };
            let mut held = Vec::new();
            for (op, elsewhere) in &ops {
                enter(if *elsewhere { &theirs } else { &world.superblock });
                assert_eq!(run(op, None, &mut held), model.run(op), "{op:?} of {ops:?}");
            }
            for superblock in [&theirs, &world.superblock] {
                enter(superblock);
                compare(".", &model.root, &mut BTreeMap::new());
            }
        });
    });
}
