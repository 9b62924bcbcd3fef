//! What the cache keeps, for how long, and what it gives back.

use super::super::cache::{Cache, shrink};
use super::testfs::lock;
use super::tree::ROOT;
use super::*;
use crate::arch::time;
use crate::errno::*;
use crate::process;
use crate::sched::{self, Sleep};
use crate::testing::{in_process, until};
use std::mem::take;

/// Shrinks until so many names are left. A directory that had names goes when these are free, so when all CPUs have run their callbacks.
fn drain_to(world: &World, names: usize) {
    until(|| {
        drain(world);
        world.names().len() <= names
    });
    drain(world);
    assert_eq!(world.names().len(), names);
}

/// Shrinks until nothing goes any more.
fn drain(world: &World) -> usize {
    let mut taken = 0;
    for _ in 0..8 {
        // What a name held above it is free when the callbacks of all CPUs have run, which they do when they idle.
        sync::rcu::synchronize();
        let _woken = sched::sleep_until(time::now() + 2_000_000, Sleep::Killable);
        taken += world.names().shrink(usize::MAX / 4);
    }
    taken
}

#[test]
fn a_known_name_and_a_known_absence_are_not_asked_for_again() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
        for _ in 0..3 {
            number("x").unwrap();
            assert_eq!(number("none"), Err(ENOENT));
        }
        assert_eq!((world.fs.calls("lookup", "x"), world.fs.calls("lookup", "none")), (1, 1));
        create("none").unwrap();
        number("none").unwrap();
        unlink("x").unwrap();
        assert_eq!(number("x"), Err(ENOENT));
        assert_eq!((world.fs.calls("lookup", "x"), world.fs.calls("lookup", "none")), (1, 1));
    });
}

#[test]
fn in_a_new_directory_nothing_is_asked_for_until_a_name_has_left_the_cache() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        mkdir("d").unwrap();
        create("d/x").unwrap();
        assert_eq!(number("d/y"), Err(ENOENT));
        unlink("d/x").unwrap();
        create("d/z").unwrap();
        assert_eq!((world.fs.calls("lookup", "x"), world.fs.calls("lookup", "y")), (0, 0));
        drain(&world);
        assert_eq!(number("d/w"), Err(ENOENT));
        number("d/z").unwrap();
        assert_eq!((world.fs.calls("lookup", "w"), world.fs.calls("lookup", "z")), (1, 1));
    });
}

#[test]
fn a_shrunk_name_comes_back_to_its_inode_and_a_directory_to_its_dentry() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        mkdir("d").unwrap();
        create("d/f").unwrap();
        link("d/f", "g").unwrap();
        let file = find("d/f").unwrap().dentry.inode.clone();
        let dir = find("d").unwrap();
        // The directory that is held stays, and nothing else.
        drain_to(&world, 1);
        assert!(Arc::ptr_eq(&find("g").unwrap().dentry.inode, &file));
        assert!(Arc::ptr_eq(&find("d/f").unwrap().dentry.inode, &file));
        assert!(core::ptr::eq(&*find("d").unwrap().dentry, &*dir.dentry));
    });
}

#[test]
fn what_is_held_mounted_on_or_has_names_below_it_stays() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        for dir in ["held", "held/below", "point", "free"] {
            mkdir(dir).unwrap();
        }
        let held = find("held/below").unwrap();
        let (_other, inner) = TestFs::mount(Cache::Uncached);
        mount::mount(
            inner.clone(),
            inner.root().unwrap(),
            b"x",
            0,
            find("point").unwrap(),
            namespace::first(),
        )
        .unwrap();
        drain_to(&world, 3);
        world.fs.forget_calls();
        for name in ["held/below", "point", "free"] {
            find(name).unwrap();
        }
        let asked = ["held", "below", "point", "free"].map(|name| world.fs.calls("lookup", name));
        assert_eq!(asked, [0, 0, 0, 1]);
        drop(held);
        drain_to(&world, 1);
    });
}

#[test]
fn a_used_name_gets_a_second_chance() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        for name in ["a", "b", "c", "d"] {
            create(name).unwrap();
        }
        // The hand goes past all once, and takes the first on its second way.
        assert_eq!(world.names().shrink(1), 1);
        world.fs.forget_calls();
        number("b").unwrap();
        assert_eq!(world.names().shrink(2), 2);
        assert_eq!(
            ["a", "b", "c", "d"].map(|n| number(n).map(|_| world.fs.calls("lookup", n)).unwrap()),
            [1, 0, 1, 1]
        );
    });
}

#[test]
fn a_super_block_keeps_to_its_bound_and_threads_lose_nothing() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        world.names().join_all();
        world.names().set_bound(100);
        for n in 0..10 {
            world
                .fs
                .elsewhere(|tree| tree.make(ROOT, std::format!("d{n}").as_bytes(), Kind::Directory))
                .unwrap();
        }
        let held: Vec<Path> = (0..10).map(|n| find(&std::format!("d{n}")).unwrap()).collect();
        let threads: Vec<_> = (0..4)
            .map(|t| {
                world.spawn(move |world| {
                    for n in 0..300 {
                        let name = std::format!("d{}/t{t}.{n}", n % 10);
                        create(&name).unwrap();
                        assert_eq!(number(&std::format!("{name}.none")), Err(ENOENT));
                        number(&name).unwrap();
                        // Of 2,400. A thread that the host has stopped under a lock keeps names from the hand for a while.
                        assert!(world.names().len() < 400, "{} names", world.names().len());
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(Joining::join);
        for (n, dir) in held.iter().enumerate() {
            assert!(core::ptr::eq(&*find(&std::format!("d{n}")).unwrap().dentry, &*dir.dentry));
            assert_eq!(list(&std::format!("d{n}")).unwrap().len(), 120);
        }
        // In all: others' names are counted too.
        assert!(shrink::shrink(1000) > 0 || world.names().len() == 0);
    });
}

#[test]
fn the_name_that_reaches_the_bound_is_not_the_one_that_goes() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        create("a").unwrap();
        let _held = find("a").unwrap();
        world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
        world.names().set_bound(1);
        number("x").unwrap();
        number("x").unwrap();
        assert_eq!(world.fs.calls("lookup", "x"), 1);
        assert_eq!(world.names().len(), 2);
    });
}

#[test]
fn when_memory_is_out_all_names_go_that_nobody_needs() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        world.names().join_all();
        for dir in ["d", "d/e", "held"] {
            mkdir(dir).unwrap();
        }
        (0..600).for_each(|n| create(&std::format!("d/e/{n}")).unwrap());
        let held = find("held").unwrap();
        until(|| {
            let mut short = true;
            let retried = process::drain_and_retry(|| if take(&mut short) { Err(ENOMEM) } else { Ok(()) });
            assert_eq!(retried, Ok(()));
            world.names().len() == 1
        });
        assert!(core::ptr::eq(&*find("held").unwrap().dentry, &*held.dentry));
        assert_eq!(list("d/e").unwrap().len(), 600);
    });
}

#[test]
fn without_memory_names_are_found_all_the_same_or_the_error_says_so() {
    in_process(|| {
        let world = World::new(Cache::Cached);
        world.fs.elsewhere(|tree| tree.make(ROOT, b"d", Kind::Directory)).unwrap();
        world.fs.elsewhere(|tree| tree.make(ROOT, b"f", Kind::Regular)).unwrap();
        for n in 0..60 {
            for name in ["d", "f", "none", "d/x"] {
                let result = sync::heap::hosted::fail_after(n, || number(name));
                assert!(result.is_ok() || matches!(result, Err(ENOMEM | ENOENT)), "{name}: {result:?}");
            }
            number("d").and(number("f")).unwrap();
            let made = sync::heap::hosted::fail_after(n, || create("new"));
            assert_eq!(
                number("new").is_ok(),
                made.is_ok() || world.fs.elsewhere(|t| t.find(ROOT, b"new").is_ok())
            );
            unlink("new").ok();
            drain(&world);
        }
    });
}

#[test]
fn a_name_that_changes_elsewhere_is_seen_at_once_or_after_its_lifetime() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        create("x").unwrap();
        let before = number("x").unwrap();
        world.fs.elsewhere(|tree| tree.remove(ROOT, b"x")).unwrap();
        assert_eq!(number("x"), Err(ENOENT));
        let made = world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
        assert_eq!(number("x"), Ok(made));
        assert_ne!(made, before);
        // Believed for ever from now on.
        *lock(&world.fs.lifetime) = u64::MAX;
        number("x").unwrap();
        world.fs.elsewhere(|tree| tree.remove(ROOT, b"x")).unwrap();
        world.fs.forget_calls();
        assert_eq!(number("x"), Ok(made));
        assert_eq!(world.fs.calls("revalidate", "x"), 0);
    });
}

#[test]
fn an_error_of_revalidation_is_the_walks_and_the_cache_stays() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        create("x").unwrap();
        world.fs.fail("revalidate", 0, ETIMEDOUT);
        assert_eq!(number("x"), Err(ETIMEDOUT));
        number("x").unwrap();
        assert_eq!(world.fs.calls("lookup", "x"), 1, "asked for once, before it was made");
    });
}

#[test]
fn a_directory_that_went_takes_what_is_below_it_along_and_holders_keep_what_they_hold() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        for dir in ["d", "d/e", "d/e/f"] {
            mkdir(dir).unwrap();
        }
        create("d/e/f/x").unwrap();
        let (inside, file) = (find("d/e").unwrap(), find("d/e/f/x").unwrap());
        world.fs.elsewhere(|tree| tree.remove(ROOT, b"d")).unwrap();
        assert_eq!(find("d/e/f/x").err(), Some(ENOENT));
        assert!(inside.dentry.is_removed() && file.dentry.is_removed());
        assert!(inside.dentry.directory.as_ref().unwrap().names.lock().is_empty());
    });
}

#[test]
fn a_directory_moved_elsewhere_is_the_same_directory_in_its_new_place() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        for dir in ["a", "b", "a/d"] {
            mkdir(dir).unwrap();
        }
        let held = find("a/d").unwrap();
        let (a, b) = (number("a").unwrap(), number("b").unwrap());
        world.fs.elsewhere(|tree| tree.rename((a, b"d"), (b, b"n"), false)).unwrap();
        let found = find("b/n").unwrap();
        assert!(core::ptr::eq(&*found.dentry, &*held.dentry), "two dentries for one directory");
        assert!(!found.dentry.is_removed());
        assert_eq!(mount::text_of(&held, &world.root).unwrap().0, b"/b/n");
        assert_eq!(find("a/d").err(), Some(ENOENT));
        // Above itself it can only be by a server's mistake.
        let d = found.dentry.inode.number;
        world.fs.elsewhere(|tree| tree.enter(d, b"loop", b)).unwrap();
        assert_eq!(find("b/n/loop").err(), Some(ELOOP));
    });
}

#[test]
fn a_directory_that_somebody_is_in_is_remembered_while_it_has_no_place() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        mkdir("d").unwrap();
        let held = find("d").unwrap();
        let d = held.dentry.inode.number;
        world.fs.elsewhere(|tree| tree.leave(ROOT, b"d")).unwrap();
        assert_eq!(number("d"), Err(ENOENT));
        drain(&world);
        world.fs.elsewhere(|tree| tree.enter(ROOT, b"back", d)).unwrap();
        assert!(
            core::ptr::eq(&*find("back").unwrap().dentry, &*held.dentry),
            "two dentries for one directory"
        );
    });
}

#[test]
fn a_directory_found_elsewhere_leaves_the_place_that_is_still_believed() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        *lock(&world.fs.lifetime) = u64::MAX;
        mkdir("a").unwrap();
        mkdir("a/d").unwrap();
        let a = number("a").unwrap();
        world.fs.elsewhere(|tree| tree.rename((a, b"d"), (ROOT, b"n"), false)).unwrap();
        find("a/d").unwrap();
        find("n").unwrap();
        assert_eq!(find("a/d").err(), Some(ENOENT), "one directory in two places");
    });
}

#[test]
fn a_change_that_finds_the_name_otherwise_corrects_the_cache() {
    in_process(|| {
        let world = World::new(Cache::Revalidated);
        *lock(&world.fs.lifetime) = u64::MAX;
        assert_eq!(number("x"), Err(ENOENT));
        let made = world.fs.elsewhere(|tree| tree.make(ROOT, b"x", Kind::Regular)).unwrap();
        let flags = OpenFlags::CREATE | OpenFlags::READ_WRITE;
        assert_eq!(open("x", flags).unwrap().inode().number, made);
        world.fs.elsewhere(|tree| tree.remove(ROOT, b"x")).unwrap();
        assert_eq!(unlink("x"), Err(ENOENT));
        assert_eq!(number("x"), Err(ENOENT));
    });
}

#[test]
fn an_unmounted_file_system_frees_its_tree() {
    in_process(|| {
        let fs = {
            let world = World::new(Cache::Cached);
            for dir in ["a", "a/b", "a/b/c"] {
                mkdir(dir).unwrap();
            }
            create("a/b/c/f").unwrap();
            world.fs.clone()
        };
        enter(&TestFs::mount(Cache::Uncached).1);
        // Each inode holds the file system.
        crate::testing::until(|| {
            sync::rcu::synchronize();
            Arc::strong_count(&fs) == 1
        });
    });
}
